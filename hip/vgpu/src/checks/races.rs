//! Races in local memory: two waves touch a word between the same two barriers, and one of them writes. Order within a wave is
//! program order. Atomics do not race with each other.

use crate::exec::machine::Machine;
use crate::failure::Cause;
use crate::wave::Flow;

/// Who touched a word last.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tag {
    write_epoch: u32,
    read_epoch: u32,
    writer: u8,
    reader: u8,
    /// Bytes of the word, a bit each.
    written: u8,
    read: u8,
    atomic: bool,
}

/// Several waves, none of which is worth remembering.
const SEVERAL: u8 = u8::MAX;

/// How a word is touched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
    Atomic,
}

impl Machine<'_> {
    /// One lane touches bytes of local memory, which are inside.
    #[inline(always)]
    pub(crate) fn touch(&mut self, wave: usize, lane: usize, address: u32, bytes: usize, touch: Touch) -> Flow {
        let (epoch, wave) = (self.tracker.epoch, wave as u8);
        let end = address.saturating_add(bytes as u32);
        let mut at = address;
        while at < end {
            let next = (at / 4 + 1).saturating_mul(4);
            let (from, to) = (at % 4, (end.min(next) - 1) % 4);
            let mask = ((2u32 << to) - (1 << from)) as u8;
            let Some(tag) = self.tracker.tags.get_mut(at as usize / 4) else { break };
            let written =
                tag.write_epoch == epoch && tag.writer != wave && tag.written & mask != 0 && tag.writer != SEVERAL;
            let read = tag.read_epoch == epoch && tag.reader != wave && tag.read & mask != 0;
            let race = match touch {
                Touch::Read => written,
                Touch::Write => written || read,
                Touch::Atomic => written && !tag.atomic || read,
            };
            if race {
                let tag = *tag;
                return self.race(lane, at, touch, written, tag);
            }
            if touch == Touch::Read {
                if tag.read_epoch != epoch {
                    (tag.read_epoch, tag.reader, tag.read) = (epoch, wave, 0);
                } else if tag.reader != wave {
                    tag.reader = SEVERAL;
                }
                tag.read |= mask;
            } else {
                if tag.write_epoch != epoch {
                    (tag.write_epoch, tag.writer, tag.written) = (epoch, wave, 0);
                } else if tag.writer != wave {
                    tag.writer = SEVERAL;
                }
                tag.written |= mask;
                tag.atomic = touch == Touch::Atomic;
            }
            at = next;
        }
        Flow::Next
    }

    #[cold]
    #[inline(never)]
    fn race(&mut self, lane: usize, at: u32, touch: Touch, written: bool, tag: Tag) -> Flow {
        let (what, other, did) = match touch {
            Touch::Read => ("reads", tag.writer, "wrote"),
            _ if written => ("writes", tag.writer, "wrote"),
            _ => ("writes", tag.reader, "read"),
        };
        let who = if other == SEVERAL { "other waves".to_owned() } else { format!("wave {other}") };
        let why = format!("{what} local memory at {at:#x}, which {who} {did} without a barrier in between");
        self.fail(Cause::Race, Some(lane), why)
    }
}
