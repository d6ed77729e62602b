//! AMD GPUs in software: decodes, prints and runs the machine code of compiled code objects.
//!
//! Running a kernel takes four things:
//!
//! - an [`Object`], loaded from the bytes of a code object, and a [`Kernel`] of it by name; [`Kernel::descriptor`] says what
//!   the kernel needs (local memory, bytes of arguments, registers), [`Kernel::info`] lists its arguments with offset, size and
//!   kind, hidden ones included;
//! - memory: device addresses are host addresses, and a [`Memory`] says which may be touched. [`Buffers`] is one;
//! - a [`Launch`]: the kernel, blocks, work-items of a block, dynamic local memory, the address of the arguments. It can also be
//!   made [from an AQL packet](Launch::from_packet), without an object;
//! - a [`Worker`] a thread: registers and local memory. [`Launch::run_block`] runs one block, on any thread and in any order.
//!
//! What goes wrong is a [`Failure`]: a sentence, and the kernel, block, wave, lane and instruction.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let bytes = std::fs::read("add.hsaco")?;
//! use vgpu::{Buffers, Launch, Object, Worker};
//! let object = Object::load(&bytes)?;
//! let kernel = object.kernel("add").ok_or("no such kernel")?;
//! let mut memory = Buffers::new();
//! let values = memory.from_slice(&[1.0f32; 256]);
//! let arguments = memory.from_slice(&[values, 256]);
//! let launch = Launch::new(&kernel, [1, 1, 1], [256, 1, 1], 0, arguments)?;
//! launch.run(&mut Worker::new(), &memory)?;
//! # Ok(())
//! # }
//! ```

mod checks;
mod count;
pub mod decode;
mod decode_cache;
mod descriptor;
pub mod disasm;
mod edit;
mod elf;
mod exec;
mod failure;
mod footprint;
pub mod inst;
mod launch;
mod lines;
mod lower;
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
pub use edit::{Edit, With};
pub use exec::trans::Accuracy;
pub use failure::{Cause, Failure, Place};
pub use footprint::Footprint;
pub use launch::{Launch, Options, Schedule, Worker};
pub use lines::SourceLine;
pub use memory::{shadow, Buffers, Memory, Span};
pub use metadata::{Argument, KernelInfo};
pub use object::{Error, Kernel, Object};
pub use target::Arch;
