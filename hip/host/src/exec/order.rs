//! In which order the blocks of a grid and the threads of a block run. HIP promises none, so a kernel that lacks a barrier may be right
//! in one order and wrong in another: always the same one would hide it. What stands here are permutations that need no memory.

use crate::config;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// In which order threads, and blocks, run where nothing else decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The lowest index first.
    #[default]
    Ascending,
    /// The highest index first.
    Descending,
    /// Shuffled, and by the same seed always alike.
    Random(u64),
}

impl Order {
    /// The order of the launch that begins now. Unless one is asked for, checked mode takes all of them in turn: a number that is
    /// mixed, so that the same kernel of a repeated sequence does not get the same order each time.
    pub(super) fn of_launch() -> Self {
        static LAUNCHES: AtomicU64 = AtomicU64::new(0);
        match config::options() {
            Ok(options) => match options.order {
                Some(order) => order,
                None if options.checked => Self::of_number(LAUNCHES.fetch_add(1, Ordering::Relaxed)),
                None => Self::Ascending,
            },
            Err(_) => Self::Ascending,
        }
    }

    fn of_number(launch: u64) -> Self {
        match mix(launch, 0) % 4 {
            0 => Self::Ascending,
            1 => Self::Descending,
            _ => Self::Random(launch),
        }
    }

    /// Which of `count` things comes in place `position`.
    #[inline(always)]
    pub(super) fn at(self, position: u64, count: u64) -> u64 {
        match self {
            Self::Ascending => position,
            Self::Descending => count - 1 - position,
            Self::Random(seed) => shuffled(position, count, seed),
        }
    }

    /// The order of the threads of a block, or of a meeting of them: a shuffled one is another for every number.
    pub(super) fn derived(self, number: u64) -> Self {
        match self {
            Self::Random(seed) => Self::Random(mix(seed, number)),
            other => other,
        }
    }

    /// Puts threads that may go on, lowest first so far, in order.
    pub(super) fn arrange(self, threads: &mut [u16]) {
        match self {
            Self::Ascending => {}
            Self::Descending => threads.reverse(),
            Self::Random(seed) => threads.sort_unstable_by_key(|thread| mix(seed, u64::from(*thread))),
        }
    }
}

/// As `HIP_HOST_ORDER` takes it.
impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ascending => f.write_str("ascending"),
            Self::Descending => f.write_str("descending"),
            Self::Random(seed) => write!(f, "random:{seed}"),
        }
    }
}

impl std::str::FromStr for Order {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match (text, text.strip_prefix("random:")) {
            ("ascending", _) => Ok(Self::Ascending),
            ("descending", _) => Ok(Self::Descending),
            (_, Some(seed)) => seed.parse().map(Self::Random).map_err(|_| ()),
            _ => Err(()),
        }
    }
}

/// A permutation of the numbers below `count`: four rounds of a Feistel network over the next even number of bits, again for as long
/// as the result is too large, which is three times out of four at most.
fn shuffled(position: u64, count: u64, seed: u64) -> u64 {
    let half = (64 - (count - 1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1u64 << half) - 1;
    let mut value = position;
    loop {
        let (mut left, mut right) = (value >> half, value & mask);
        for round in 0..4 {
            (left, right) = (right, left ^ (mix(seed ^ (round << 56), right) & mask));
        }
        value = left << half | right;
        if value < count {
            return value;
        }
    }
}

/// 64 bits that depend on all of both numbers: the finish of splitmix64.
fn mix(seed: u64, number: u64) -> u64 {
    let mut word = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_a_permutation() {
        for count in [1u64, 2, 3, 5, 31, 32, 33, 64, 100, 255, 256, 257, 1000, 1024, 4097] {
            for order in [Order::Ascending, Order::Descending, Order::Random(0), Order::Random(u64::MAX)] {
                let mut seen: Vec<u64> = (0..count).map(|position| order.at(position, count)).collect();
                seen.sort_unstable();
                assert!(seen.iter().copied().eq(0..count), "{order} of {count}");
            }
        }
        // A grid of the largest size, of which some places will do.
        let places: std::collections::HashSet<u64> = (0..1000).map(|i| Order::Random(3).at(i, (1 << 62) + 5)).collect();
        assert!(places.len() == 1000 && places.iter().all(|place| *place < (1 << 62) + 5));
    }

    #[test]
    fn random_orders_differ_by_seed_and_by_block_and_are_the_same_again() {
        let order = |order: Order| (0..256).map(|position| order.at(position, 256)).collect::<Vec<_>>();
        assert_eq!(order(Order::Random(7)), order(Order::Random(7)));
        assert_ne!(order(Order::Random(7)), order(Order::Random(8)));
        assert_ne!(order(Order::Random(7).derived(0)), order(Order::Random(7).derived(1)));
        assert_ne!(order(Order::Random(7)), order(Order::Ascending));
    }

    #[test]
    fn launches_by_number_take_every_order_in_turn() {
        let orders: Vec<Order> = (0..40).map(Order::of_number).collect();
        let random = orders.iter().filter(|order| matches!(order, Order::Random(_))).count();
        assert!(orders.contains(&Order::Ascending) && orders.contains(&Order::Descending) && random > 10, "{orders:?}");
    }

    #[test]
    fn an_order_is_written_as_it_is_read() {
        for order in [Order::Ascending, Order::Descending, Order::Random(42)] {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        for bad in ["", "random", "random:", "random:x", "up"] {
            assert_eq!(bad.parse::<Order>(), Err(()), "{bad}");
        }
    }
}
