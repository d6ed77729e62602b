//! In which order waves and blocks run where nothing else decides.

/// An order of waves or blocks. A card promises none, so a kernel that lacks a barrier may be right in one and wrong in another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// The lowest number first.
    #[default]
    Ascending,
    /// The highest number first.
    Descending,
    /// Shuffled, again at every turn, and alike for the same seed.
    Random(u64),
}

impl Schedule {
    /// Numbers for one use of it, such as the waves of a block.
    pub(super) fn random(self, number: u64) -> Random {
        match self {
            Schedule::Random(seed) => Random(Random(seed).next() ^ Random(number).next()),
            _ => Random(0),
        }
    }

    /// Puts numbers, which are in order, into this one.
    pub(super) fn arrange<T>(self, random: &mut Random, numbers: &mut [T]) {
        match self {
            Schedule::Ascending => {}
            Schedule::Descending => numbers.reverse(),
            Schedule::Random(_) => (1..numbers.len()).rev().for_each(|n| numbers.swap(n, random.below(n + 1))),
        }
    }
}

/// Numbers for schedules: small, and the same on every machine.
pub(super) struct Random(u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
