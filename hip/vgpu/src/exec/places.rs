//! The usual access to global memory: addresses that differ in their lower halves only and lie in one range. No lane is looked at by
//! itself before its data are moved.

use crate::exec::lanes::{row, CHUNK};
use crate::exec::lds::{narrow, word, Shape, SLOT_SHIFT};
use crate::exec::machine::Machine;
use crate::memory::{self, Span};
use crate::wave::{flags, Kind, Op, Row, Wave};

/// Addresses of all lanes: one base and an offset each.
pub(crate) struct Places<const L: usize> {
    base: u64,
    offsets: Row<L>,
}

impl<const L: usize> Places<L> {
    /// `None` where active lanes differ in the upper halves of their addresses, which they hardly ever do.
    #[inline(always)]
    pub fn new(w: &Wave<L>, op: &Op<L>) -> Option<Self> {
        let offset = i64::from(op.imm) as u64;
        let offsets = row(w, op.src[0], 0);
        if op.src[2].kind != Kind::None {
            return Some(Self { base: w.s64(op.src[2]).wrapping_add(offset), offsets });
        }
        let high = if op.src[0].kind == Kind::Row {
            let words = &w.v[op.src[0].index as usize + 1];
            let first = words[w.exec.trailing_zeros() as usize % L];
            let mut differ = 0;
            for i in 0..L {
                differ |= (words[i] ^ first) & w.mask[i];
            }
            if differ != 0 {
                return None;
            }
            first
        } else {
            w.word(op.src[0], 1)
        };
        Some(Self { base: (u64::from(high) << 32).wrapping_add(offset), offsets })
    }

    #[inline(always)]
    fn at(&self, lane: usize) -> u64 {
        self.base.wrapping_add(u64::from(self.offsets[lane]))
    }

    /// Whether the first address of every chunk is a multiple of eight.
    #[inline(always)]
    fn all_even(&self) -> bool {
        let mut odd = 0;
        for chunk in 0..L / CHUNK {
            odd |= self.offsets[CHUNK * chunk].wrapping_add(self.base as u32);
        }
        odd & 7 == 0
    }

    /// All addresses, for those who look at each.
    pub fn all(&self) -> [u64; L] {
        let mut addresses = [0; L];
        for i in 0..L {
            addresses[i] = self.at(i);
        }
        addresses
    }

    /// The one range that all active lanes' accesses lie in, if it is known.
    #[inline(always)]
    pub fn span(&self, w: &Wave<L>, op: &Op<L>, m: &mut Machine<'_>, bytes: u64, write: bool) -> Option<Span> {
        let (mut low, mut high) = (u32::MAX, 0);
        for i in 0..L {
            low = low.min(self.offsets[i] | !w.mask[i]);
            high = high.max(self.offsets[i] & w.mask[i]);
        }
        let extent = u64::from(high.wrapping_sub(low)) + bytes;
        m.span((op.flags >> SLOT_SHIFT) as usize, self.base.wrapping_add(u64::from(low)), extent, write)
    }
}

/// # Safety
/// `B` bytes at the address of every active lane must be accessible.
#[inline(always)]
pub(crate) unsafe fn load_inside<const B: usize, const L: usize>(w: &mut Wave<L>, op: &Op<L>, places: &Places<L>) {
    let index = op.dst.index as usize;
    let full = w.exec == Wave::<L>::ALL;
    if B == 4 && full {
        let target = &mut w.v[index];
        match Shape::of(&places.offsets, 4) {
            Shape::Consecutive if places.all_even() => {
                for chunk in 0..L / CHUNK {
                    let start = places.at(CHUNK * chunk);
                    for i in 0..CHUNK / 2 {
                        // SAFETY: both words belong to active lanes; the address is a multiple of eight.
                        let pair = unsafe { memory::load_u64(start + 8 * i as u64) };
                        target[CHUNK * chunk + 2 * i] = pair as u32;
                        target[CHUNK * chunk + 2 * i + 1] = (pair >> 32) as u32;
                    }
                }
            }
            Shape::Same => {
                for chunk in 0..L / CHUNK {
                    // SAFETY: all lanes are active.
                    let word = unsafe { memory::load_u32(places.at(CHUNK * chunk)) };
                    target[CHUNK * chunk..][..CHUNK].copy_from_slice(&[word; CHUNK]);
                }
            }
            _ => {
                for lane in 0..L {
                    // SAFETY: all lanes are active.
                    target[lane] = unsafe { memory::load_u32(places.at(lane)) };
                }
            }
        }
        return;
    }
    if B >= 8 && full {
        let rows = &mut w.v[index..index + B / 4];
        for lane in 0..L {
            let address = places.at(lane);
            for n in 0..B / 4 {
                // SAFETY: as the caller promises.
                rows[n][lane] = unsafe { memory::load_u32(address + 4 * n as u64) };
            }
        }
        return;
    }
    for lane in w.active() {
        let address = places.at(lane);
        match B {
            1 | 2 => {
                // SAFETY: as the caller promises.
                let value = unsafe {
                    if B == 1 {
                        u32::from(memory::load_u8(address))
                    } else {
                        u32::from(memory::load_u16(address))
                    }
                };
                let target = &mut w.v[index][lane];
                *target = narrow::<B>(value, *target, op.flags);
            }
            _ => {
                for n in 0..B / 4 {
                    // SAFETY: as the caller promises.
                    w.v[index + n][lane] = unsafe { memory::load_u32(address + 4 * n as u64) };
                }
            }
        }
    }
}

/// # Safety
/// `B` bytes at the address of every active lane must be accessible and writable.
#[inline(always)]
pub(crate) unsafe fn store_inside<const B: usize, const L: usize>(w: &Wave<L>, op: &Op<L>, places: &Places<L>) {
    let shift = if op.flags & flags::D16_HI != 0 { 16 } else { 0 };
    if B >= 4 && op.src[1].kind == Kind::Row && w.exec == Wave::<L>::ALL {
        let index = op.src[1].index as usize;
        let rows = &w.v[index..index + B / 4];
        for lane in 0..L {
            let address = places.at(lane);
            for n in 0..B / 4 {
                // SAFETY: as the caller promises.
                unsafe { memory::store_u32(address + 4 * n as u64, rows[n][lane]) };
            }
        }
        return;
    }
    for lane in w.active() {
        let address = places.at(lane);
        // SAFETY: as the caller promises.
        unsafe {
            match B {
                1 => memory::store_u8(address, (word(w, op, 1, 0, lane) >> shift) as u8),
                2 => memory::store_u16(address, (word(w, op, 1, 0, lane) >> shift) as u16),
                _ => {
                    for n in 0..B / 4 {
                        memory::store_u32(address + 4 * n as u64, word(w, op, 1, n as u16, lane));
                    }
                }
            }
        }
    }
}
