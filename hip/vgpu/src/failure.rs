//! What can go wrong in a launch, and where: the words of a report.

use crate::lines::SourceLine;
use std::fmt;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Bytes that are no instruction, or an instruction that is not emulated.
    Instruction,
    /// A jump or branch to where no code is.
    Jump,
    /// An access outside of every buffer, to a freed one, or a store to memory that is read only.
    Memory,
    /// An access outside of the block's local memory or of a lane's private memory.
    Lds,
    /// An atomic at an address that is no multiple of its size, or another access that hardware faults on.
    Misaligned,
    /// An undefined value where it matters: an address, a branch, data that are stored.
    Undefined,
    /// Two waves touch a word of local memory without a barrier between them, and one of them writes.
    Race,
    /// A result was used before its wait counter said that it was there.
    Wait,
    /// Waves of a block wait at a barrier that others will never reach.
    Barrier,
    /// More instructions than the launch allows, or it was told to stop.
    Limit,
    /// The launch itself asks for what is not possible.
    Launch,
    /// The program ended itself: a trap.
    Trap,
}

/// Where it went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The kernel's name, where it is known.
    pub kernel: String,
    /// The block.
    pub block: [u32; 3],
    /// The wave in the block.
    pub wave: usize,
    /// The lane, where one is meant.
    pub lane: Option<usize>,
    /// The instruction's address, less the address at which the object lies: what a disassembly prints.
    pub pc: u64,
    /// The instruction as text.
    pub text: String,
    /// The line of the source, then the lines that the functions around it were inlined at. Empty without line tables in the object.
    pub lines: Vec<SourceLine>,
    /// The address of memory that was refused.
    pub address: Option<u64>,
}

/// Why a block did not run to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind.
    pub cause: Cause,
    /// A sentence.
    pub message: String,
    /// Where; without, it is about the launch as such.
    pub place: Option<Box<Place>>,
}

impl Failure {
    pub(crate) fn launch(message: impl Into<String>) -> Self {
        Self { cause: Cause::Launch, message: message.into(), place: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)?;
        let Some(place) = &self.place else { return Ok(()) };
        let [x, y, z] = place.block;
        write!(out, ", in kernel {}, block ({x}, {y}, {z}), wave {}", place.kernel, place.wave)?;
        if let Some(lane) = place.lane {
            write!(out, ", lane {lane}")?;
        }
        write!(out, ", at {:#x}: {}", place.pc, place.text)?;
        for (n, line) in place.lines.iter().enumerate() {
            write!(out, "{} {line}", if n == 0 { ", line" } else { ", inlined at" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
