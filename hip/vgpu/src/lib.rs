//! AMD GPUs in software: decodes, prints and runs the machine code of compiled code objects.

mod checks;
mod count;
pub mod decode;
mod decode_cache;
mod descriptor;
pub mod disasm;
mod elf;
mod exec;
mod failure;
pub mod inst;
mod launch;
mod memory;
mod metadata;
mod object;
mod program;
mod tables;
pub mod target;
mod wave;

pub use checks::Checks;
pub use count::{Class, Counters, CLASSES};
pub use decode_cache::CodeCache;
pub use descriptor::{Descriptor, DESCRIPTOR_BYTES};
pub use exec::trans::Accuracy;
pub use failure::{Cause, Failure, Place};
pub use launch::{Launch, Options, Worker};
pub use memory::{shadow, Buffers, Memory, Span};
pub use metadata::{Argument, KernelInfo};
pub use object::{Error, Kernel, Object};
pub use target::Arch;

/// An instruction as text, for reports.
fn text(arch: Arch, inst: &inst::Inst, pc: u64) -> String {
    let _ = (arch, pc);
    inst.name().to_owned()
}
