//! AMD GPUs in software: decodes, prints and runs the machine code of compiled code objects.

pub mod decode;
pub mod inst;
mod tables;
pub mod target;
