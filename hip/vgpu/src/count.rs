//! What makes a kernel fast or slow, as far as counting shows it: instructions by class, lanes in use, cache lines touched
//! against the fewest possible, bank conflicts. Caches, clocks and latencies are not modelled.

use crate::footprint::Footprint;
use crate::target::Arch;

/// What kind of work an instruction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// Waits, hints, padding.
    #[default]
    Other,
    /// Scalar arithmetic.
    Scalar,
    /// Branches and jumps.
    Branch,
    /// Barriers.
    Barrier,
    /// Scalar loads.
    ScalarMemory,
    /// Vector arithmetic.
    Vector,
    /// Vector operations of the transcendental unit.
    Transcendental,
    /// 32-bit multiplies and 64-bit multiply-adds of integers, which take longer.
    Multiply,
    /// Double precision.
    Double,
    /// Matrix operations.
    Matrix,
    /// Loads from global memory.
    Load,
    /// Stores to global memory.
    Store,
    /// Atomics on global memory.
    Atomic,
    /// Local memory, shuffles included.
    Local,
}

/// How many classes there are.
pub const CLASSES: usize = 14;

impl Class {
    /// All of them; the index is the number.
    pub const ALL: [Class; CLASSES] = [
        Class::Other,
        Class::Scalar,
        Class::Branch,
        Class::Barrier,
        Class::ScalarMemory,
        Class::Vector,
        Class::Transcendental,
        Class::Multiply,
        Class::Double,
        Class::Matrix,
        Class::Load,
        Class::Store,
        Class::Atomic,
        Class::Local,
    ];

    /// Cycles that a SIMD is busy issuing one wave instruction of this class. From public papers on the architectures; a proxy.
    pub fn issue_cycles(self, arch: Arch, wave_size: usize) -> u64 {
        let passes = if arch.is_cdna() { 4 } else { wave_size as u64 / 32 };
        match self {
            Class::Transcendental | Class::Multiply => 4 * passes,
            Class::Double if arch.is_cdna() => 4,
            Class::Double if arch == Arch::Gfx1030 => 16 * passes,
            Class::Double => 32 * passes,
            Class::Matrix => 16,
            Class::Vector => passes,
            _ => 1,
        }
    }
}

/// Counted facts of some blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Wave instructions by class.
    pub instructions: [u64; CLASSES],
    /// Lanes that were on, over all vector instructions.
    pub active_lanes: u64,
    /// Lanes that there are, over all vector instructions.
    pub lanes: u64,
    /// Cache lines that global loads and stores touched, instruction by instruction.
    pub lines: u64,
    /// The fewest lines that could have held the same distinct bytes.
    pub least_lines: u64,
    /// Bytes that lanes loaded from global memory.
    pub bytes_loaded: u64,
    /// Bytes that lanes stored to global memory.
    pub bytes_stored: u64,
    /// Cycles that local memory was busy: 32 banks of 4 bytes.
    pub bank_cycles: u64,
    /// The fewest cycles without conflicts.
    pub least_bank_cycles: u64,
    /// Waves that ran.
    pub waves: u64,
    /// Blocks that ran.
    pub blocks: u64,
    /// The lines that were loaded from at least once.
    pub loaded: Footprint,
    /// The lines that were stored to at least once.
    pub stored: Footprint,
}

impl Counters {
    /// Wave instructions of all classes.
    pub fn total(&self) -> u64 {
        self.instructions.iter().sum()
    }

    /// Issue cycles by class, summed.
    pub fn issue_cycles(&self, arch: Arch, wave_size: usize) -> u64 {
        Class::ALL.iter().map(|class| self.instructions[*class as usize] * class.issue_cycles(arch, wave_size)).sum()
    }

    /// Adds what another worker counted.
    pub fn add(&mut self, other: &Counters) {
        for (sum, count) in self.instructions.iter_mut().zip(other.instructions) {
            *sum += count;
        }
        self.active_lanes += other.active_lanes;
        self.lanes += other.lanes;
        self.lines += other.lines;
        self.least_lines += other.least_lines;
        self.bytes_loaded += other.bytes_loaded;
        self.bytes_stored += other.bytes_stored;
        self.bank_cycles += other.bank_cycles;
        self.least_bank_cycles += other.least_bank_cycles;
        self.waves += other.waves;
        self.blocks += other.blocks;
        self.loaded.add(&other.loaded);
        self.stored.add(&other.stored);
    }

    /// A vector access to global memory.
    pub(crate) fn global(&mut self, arch: Arch, addresses: &[u64], exec: u64, bytes: usize, write: bool) {
        let line = arch.line_bytes();
        let mut lines = [0u64; 128];
        let mut starts = [0u64; 64];
        let (mut count, mut lanes) = (0, 0);
        for (lane, &address) in addresses.iter().enumerate() {
            if exec >> lane & 1 == 0 {
                continue;
            }
            starts[lanes & 63] = address;
            lanes += 1;
            lines[count] = address / line;
            lines[count + 1] = (address + bytes as u64 - 1) / line;
            count += 2;
        }
        let distinct = |values: &mut [u64]| {
            values.sort_unstable();
            let mut distinct = 0;
            for n in 0..values.len() {
                distinct += u64::from(n == 0 || values[n] != values[n - 1]);
            }
            distinct
        };
        self.lines += distinct(&mut lines[..count]);
        self.least_lines += (distinct(&mut starts[..lanes.min(64)]) * bytes as u64).div_ceil(line);
        let moved = (lanes * bytes) as u64;
        if write {
            self.bytes_stored += moved;
            self.stored.insert(&lines[..count]);
        } else {
            self.bytes_loaded += moved;
            self.loaded.insert(&lines[..count]);
        }
    }

    /// An access to local memory: 32 banks, words at the same address are one access; wide accesses go in parts of the wave.
    pub(crate) fn local(&mut self, addresses: &[u32], exec: u64, bytes: usize) {
        let words = bytes.div_ceil(4);
        let group = match words {
            0 | 1 => 32,
            2 => 16,
            _ => 8,
        };
        for start in (0..addresses.len()).step_by(group) {
            let mut banks: [[u32; 8]; 32] = [[u32::MAX; 8]; 32];
            let mut used = [0u8; 32];
            let mut any = false;
            for (lane, &address) in addresses.iter().enumerate().skip(start).take(group) {
                if exec >> lane & 1 == 0 {
                    continue;
                }
                any = true;
                for n in 0..words {
                    let word = address / 4 + n as u32;
                    let (bank, used) = (&mut banks[word as usize % 32], &mut used[word as usize % 32]);
                    // Beyond eight different words a bank's count is not exact; it is bad enough.
                    let known = usize::from(*used).min(8);
                    if !bank[..known].contains(&word) {
                        if known < 8 {
                            bank[known] = word;
                        }
                        *used += 1;
                    }
                }
            }
            if any {
                self.bank_cycles += u64::from(used.iter().copied().max().unwrap_or(1));
                self.least_bank_cycles += 1;
            }
        }
    }
}
