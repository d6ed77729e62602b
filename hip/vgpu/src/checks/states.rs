//! The states of bytes in global memory, where whoever owns it keeps a shadow: outside of every buffer, never written, written, freed.

use super::quick::flags;
use crate::exec::machine::Machine;
use crate::failure::Cause;
use crate::memory::{load_u32, load_u64, load_u8, shadow, store_u32, store_u8, Span};
use crate::wave::Wave;

const WRITTEN_4: u32 = u32::from_ne_bytes([shadow::WRITTEN; 4]);
const WRITTEN_8: u64 = u64::from_ne_bytes([shadow::WRITTEN; 8]);

/// An access to memory whose bytes have states.
#[derive(Clone, Copy)]
struct Access {
    write: bool,
    /// Part of a word that only the atomics on the rest of it need, and that nobody looks at, may lie behind the end of a buffer.
    atomic: bool,
}

impl Machine<'_> {
    /// All active lanes touch memory of one span. False: the machine has a failure.
    #[inline(always)]
    #[must_use]
    pub(super) fn look_at_states<const L: usize>(
        &mut self,
        addresses: &[u64; L],
        w: &Wave<L>,
        bytes: usize,
        write: bool,
        span: Span,
    ) -> bool {
        if span.shadow.is_null() || !write && !self.tracker.on.undefined {
            return true;
        }
        self.look_at_lanes(addresses, w, bytes, write, span)
    }

    #[inline(never)]
    fn look_at_lanes<const L: usize>(
        &mut self,
        addresses: &[u64; L],
        w: &Wave<L>,
        bytes: usize,
        write: bool,
        span: Span,
    ) -> bool {
        let access = Access { write, atomic: self.tracker.flags & flags::COHERENT != 0 };
        let mut usual = true;
        for lane in w.active() {
            usual &= is_written(span, addresses[lane], bytes);
        }
        usual || w.active().all(|lane| self.look_at_bytes(lane, addresses[lane], bytes, access, span))
    }

    /// One lane touches memory. False: the machine has a failure.
    #[must_use]
    pub(super) fn look_at_state(&mut self, lane: usize, address: u64, bytes: usize, write: bool, span: Span) -> bool {
        if span.shadow.is_null() || !write && !self.tracker.on.undefined {
            return true;
        }
        let access = Access { write, atomic: self.tracker.flags & flags::COHERENT != 0 };
        self.look_at_bytes(lane, address, bytes, access, span)
    }

    /// An atomic of one lane. False: the machine has a failure.
    #[must_use]
    pub(super) fn look_at_atomic(&mut self, lane: usize, address: u64, bytes: usize, span: Span) -> bool {
        let access = |write| Access { write, atomic: true };
        span.shadow.is_null()
            || (!self.tracker.on.undefined || self.look_at_bytes(lane, address, bytes, access(false), span))
                && self.look_at_bytes(lane, address, bytes, access(true), span)
    }

    fn look_at_bytes(&mut self, lane: usize, address: u64, bytes: usize, access: Access, span: Span) -> bool {
        if is_written(span, address, bytes) {
            return true;
        }
        let at = span.shadow as u64 + (address - span.start);
        for n in 0..bytes as u64 {
            // SAFETY: the access lies in the span, whose shadow has a byte for each of its bytes.
            match unsafe { load_u8(at + n) } {
                shadow::OUTSIDE if access.atomic => {}
                shadow::OUTSIDE | shadow::FREED => return self.refuse_byte(lane, address, bytes, n, access),
                shadow::FRESH if !access.write => self.tracker.undefined_lanes |= 1 << lane,
                _ => {}
            }
        }
        if access.write {
            // SAFETY: as above.
            unsafe {
                if bytes.is_multiple_of(4) && !access.atomic {
                    (0..bytes as u64).step_by(4).for_each(|n| store_u32(at + n, WRITTEN_4));
                } else {
                    let inside = |n: &u64| load_u8(at + n) != shadow::OUTSIDE;
                    (0..bytes as u64).filter(inside).for_each(|n| store_u8(at + n, shadow::WRITTEN));
                }
            }
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn refuse_byte(&mut self, lane: usize, address: u64, bytes: usize, n: u64, access: Access) -> bool {
        let what = if access.write { "writes" } else { "reads" };
        let place = self.memory.describe(address + n);
        let part = if n == 0 { String::new() } else { format!(", from the byte {n} on") };
        self.fail(Cause::Memory, Some(lane), format!("{what} {bytes} bytes at {address:#x}{part}: {place}"));
        false
    }
}

/// Whether all bytes were written: nothing to say and nothing to note.
#[inline(always)]
fn is_written(span: Span, address: u64, bytes: usize) -> bool {
    let at = span.shadow as u64 + (address - span.start);
    // SAFETY: the access lies in the span, whose shadow has a byte for each of its bytes; eight at a time where that is aligned.
    unsafe {
        match bytes {
            8 | 16 if at.is_multiple_of(8) => (0..bytes as u64).step_by(8).all(|n| load_u64(at + n) == WRITTEN_8),
            _ if bytes.is_multiple_of(4) => (0..bytes as u64).step_by(4).all(|n| load_u32(at + n) == WRITTEN_4),
            _ => (0..bytes as u64).all(|n| load_u8(at + n) == shadow::WRITTEN),
        }
    }
}
