//! AMD GPUs in software: decodes, prints and runs the machine code of compiled code objects.

pub mod inst;
mod tables;
pub mod target;
