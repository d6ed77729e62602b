//! Kernels with one instruction replaced. Whoever wants to know whether a test would notice a missing barrier takes the barrier out
//! and runs the test.

use crate::decode::decode_halves;
use crate::inst::Inst;
use crate::object::{Kernel, Object};
use std::str::FromStr;

/// Bytes of the longest instruction.
const LONGEST: usize = 16;
/// `s_nop 0`, on all targets.
const NOTHING: u32 = 0xbf80_0000;
/// No instruction on any target: whatever reaches it fails.
const STOP: u32 = 0xffff_ffff;

/// What stands in the place of the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    /// Instructions that do nothing.
    Nothing,
    /// A word that is no instruction. A kernel that reaches it fails, so a test that passes does not reach it.
    Stop,
}

/// One instruction of one kernel, and what takes its place. As text: `KERNEL+0x1c8=nothing` or `KERNEL+0x1c8=stop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The kernel's name.
    pub kernel: String,
    /// Bytes from the kernel's first instruction.
    pub offset: u64,
    /// What takes the instruction's place.
    pub with: With,
}

impl FromStr for Edit {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (place, with) = text.split_once('=').ok_or(())?;
        let (kernel, offset) = place.split_once('+').ok_or(())?;
        let digits = offset.strip_prefix("0x").ok_or(())?;
        let with = match with {
            "nothing" => With::Nothing,
            "stop" => With::Stop,
            _ => return Err(()),
        };
        let offset = u64::from_str_radix(digits, 16).map_err(|_| ())?;
        if kernel.is_empty() {
            return Err(());
        }
        Ok(Self { kernel: kernel.to_owned(), offset, with })
    }
}

impl std::fmt::Display for Edit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let with = if self.with == With::Nothing { "nothing" } else { "stop" };
        write!(out, "{}+{:#x}={with}", self.kernel, self.offset)
    }
}

impl Kernel {
    /// The instructions from its first one to the last that it can reach without a jump through a register, in order, each with its
    /// distance from the first in bytes.
    pub fn instructions(&self) -> Vec<(u64, Inst)> {
        let wave = self.descriptor().wave_size;
        let mut found = std::collections::BTreeMap::new();
        let mut pending = vec![self.entry()];
        while let Some(mut at) = pending.pop() {
            while !found.contains_key(&at) {
                let Some(inst) = self.code(at).and_then(|bytes| decode_halves(self.arch(), wave, bytes).ok()) else {
                    break;
                };
                let next = at.wrapping_add(u64::from(inst.size));
                let (jumps, ends) = (inst.jump(at), !inst.falls_through());
                found.insert(at, inst);
                pending.extend(jumps);
                if ends {
                    break;
                }
                at = next;
            }
        }
        found.into_iter().map(|(at, inst)| (at.wrapping_sub(self.entry()), inst)).collect()
    }

    /// Code from an address on, as many bytes as an instruction has at most.
    fn code(&self, at: u64) -> Option<&[u8]> {
        let place = at.checked_sub(self.base())?;
        (1..=LONGEST / 4).rev().find_map(|words| self.image_bytes(place, words * 4))
    }
}

impl Object {
    /// Replaces one instruction, before any kernel was asked for. An object without that kernel stays as it is. The error is a sentence.
    pub fn edit(&mut self, edit: &Edit) -> Result<(), String> {
        let Some(kernel) = self.kernel(&edit.kernel) else { return Ok(()) };
        let instructions = kernel.instructions();
        let Some((_, inst)) = instructions.iter().find(|(offset, _)| *offset == edit.offset) else {
            return Err(format!("{edit}: no instruction of the kernel begins there"));
        };
        let word = if edit.with == With::Nothing { NOTHING } else { STOP };
        let bytes = word.to_le_bytes().repeat(usize::from(inst.size) / 4);
        let place = kernel.entry().wrapping_add(edit.offset).wrapping_sub(kernel.base());
        drop(kernel);
        self.write(place, &bytes).ok_or_else(|| format!("{edit}: a kernel of the object is in use"))
    }
}
