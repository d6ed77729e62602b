//! The registers of an operation in a form that the run loop looks at in a few cycles. Nearly always everything that is read is
//! defined and has arrived; then whatever is written is defined too, and no rule needs to be asked.

use super::meta::{Counter, Meta, Rule};
use super::Watch;
use crate::count::Class;
use crate::wave::scalar;

/// Entries of [`Watch::rows`]: the most registers, spare rows, and a row that is always defined. A power of two.
pub(crate) const ROWS: usize = 1024;
/// Stands for a vector operand that is not there.
const NO_ROW: u16 = ROWS as u16 - 1;
/// Stands for a scalar operand that is not there.
const NO_SCALAR: u8 = scalar::NULL as u8;

/// What the run loop looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quick {
    rows: [u16; 6],
    scalars: [u8; 4],
    /// The first row that is written, and how many.
    row: u16,
    count: u8,
    /// The same for two ranges of scalar registers.
    scalar: [u8; 2],
    scalar_count: [u8; 2],
    pub flags: u16,
}

/// Bits of `Quick::flags`.
pub(crate) mod flags {
    /// Touches no register: nothing to look at.
    pub const IDLE: u16 = 1;
    /// Has more operands than fit here, or is not as simple as that.
    pub const SLOW: u16 = 2;
    pub const READS_SCC: u16 = 4;
    pub const WRITES_SCC: u16 = 8;
    /// Lanes that are off are read as well.
    pub const ALL_LANES: u16 = 16;
    /// What comes is what memory knows: noted after it has run.
    pub const LOAD: u16 = 32;
    /// A memory access: says what it found while it runs.
    pub const MEMORY: u16 = 64;
    /// Counts up a wait counter.
    pub const COUNTS: u16 = 128;
    /// A wait, a barrier, cache control: `checks::special`.
    pub const SPECIAL: u16 = 256;
    /// A load that other blocks' atomics may be seen by: it bypasses the caches that are not shared.
    pub const COHERENT: u16 = 512;
}

impl Default for Quick {
    fn default() -> Self {
        Self {
            rows: [NO_ROW; 6],
            scalars: [NO_SCALAR; 4],
            row: 0,
            count: 0,
            scalar: [NO_SCALAR; 2],
            scalar_count: [0; 2],
            flags: flags::IDLE,
        }
    }
}

impl Quick {
    pub fn of(meta: &Meta) -> Self {
        let mut quick = Self { flags: 0, ..Self::default() };
        let (mut rows, mut scalars, mut written) = (0, 0, 0);
        for found in &meta.reads {
            for n in 0..u16::from(found.dwords) {
                if found.vector && rows < quick.rows.len() {
                    quick.rows[rows] = (found.index + n) % ROWS as u16;
                    rows += 1;
                } else if !found.vector && scalars < quick.scalars.len() {
                    quick.scalars[scalars] = ((found.index + n) & 127) as u8;
                    scalars += 1;
                } else {
                    quick.flags |= flags::SLOW;
                }
            }
        }
        for found in &meta.writes {
            if found.vector && quick.count == 0 {
                (quick.row, quick.count) = (found.index, found.dwords);
            } else if !found.vector && written < 2 {
                (quick.scalar[written], quick.scalar_count[written]) = (found.index as u8, found.dwords);
                written += 1;
            } else {
                quick.flags |= flags::SLOW;
            }
        }
        let mut set = |on: bool, bit: u16| quick.flags |= if on { bit } else { 0 };
        set(meta.reads_scc || meta.branch == 1, flags::READS_SCC);
        set(meta.writes_scc, flags::WRITES_SCC);
        let crosses = matches!(meta.rule, Rule::Moves | Rule::Permute | Rule::ReadFirst | Rule::ReadLane);
        set(crosses, flags::ALL_LANES);
        // One lane of a row is written: the others are as they were.
        set(meta.rule == Rule::WriteLane || meta.branch == 2, flags::SLOW);
        set(meta.rule == Rule::Load, flags::LOAD);
        let memory = [Class::Load, Class::Store, Class::Atomic, Class::Local, Class::ScalarMemory];
        set(memory.contains(&meta.class), flags::MEMORY);
        set(meta.counter != Counter::None, flags::COUNTS);
        set(meta.waits.is_some() || meta.is_barrier || meta.cache.is_some(), flags::SPECIAL);
        set(meta.coherent, flags::COHERENT);
        if rows + scalars + written == 0 && quick.count == 0 && quick.flags == 0 {
            quick.flags = flags::IDLE;
        }
        quick
    }

    /// Whether everything that is read is defined and has arrived.
    #[inline(always)]
    pub fn all_defined(&self, watch: &Watch, exec: u64) -> bool {
        let lanes = if self.flags & flags::ALL_LANES != 0 { watch.all_lanes } else { exec };
        let mut rows = u64::MAX;
        for row in self.rows {
            rows &= watch.rows[usize::from(row) % ROWS];
        }
        let mut bits = u32::MAX;
        for scalar in self.scalars {
            bits &= watch.bits[usize::from(scalar) % 128];
        }
        let scc = watch.scc || self.flags & flags::READS_SCC == 0;
        (!rows & lanes == 0) & (bits == u32::MAX) & scc
    }

    /// Whether something that is written is still on its way.
    #[inline(always)]
    pub fn overwrites(&self, watch: &Watch) -> bool {
        (0..u16::from(self.count)).any(|n| watch.row_pending(self.row + n))
            || (0..2).any(|n| {
                (0..self.scalar_count[n]).any(|m| watch.scalar_pending(u16::from(self.scalar[n]) + u16::from(m)))
            })
    }

    /// What is written is defined.
    #[inline(always)]
    pub fn define(&self, watch: &mut Watch, exec: u64) {
        for n in 0..usize::from(self.count) {
            watch.rows[(usize::from(self.row) + n) % ROWS] |= exec;
        }
        for n in 0..2 {
            for m in 0..usize::from(self.scalar_count[n]) {
                watch.bits[(usize::from(self.scalar[n]) + m) % 128] = u32::MAX;
            }
        }
        watch.scc |= self.flags & flags::WRITES_SCC != 0;
    }

    /// What was loaded is defined in all lanes but these.
    #[inline(always)]
    pub fn define_loaded(&self, watch: &mut Watch, exec: u64, undefined: u64) {
        for n in 0..usize::from(self.count) {
            let row = &mut watch.rows[(usize::from(self.row) + n) % ROWS];
            *row = *row & !exec | exec & !undefined;
        }
        for m in 0..usize::from(self.scalar_count[0]) {
            watch.bits[(usize::from(self.scalar[0]) + m) % 128] = u32::MAX;
        }
    }
}
