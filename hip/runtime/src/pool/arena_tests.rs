//! The pool's bookkeeping against a system that is only a counter: growing contexts, steady states, random traffic.

use super::*;
use std::collections::BTreeMap;

/// A pool over imaginary memory, with the same steps as the real one.
#[derive(Default)]
struct Imaginary {
    arena: Arena,
    next_address: u64,
    system_allocations: usize,
    system_frees: usize,
}

impl Imaginary {
    fn take(&mut self, bytes: u64) -> Taken {
        if let Some(taken) = self.arena.take(bytes) {
            return taken;
        }
        let (preferred, _) = self.arena.segment_for(bytes);
        self.system_frees += self.arena.excess(preferred, bytes).len();
        self.system_allocations += 1;
        self.next_address += 1 << 40;
        self.arena.add_segment(self.next_address, preferred, bytes);
        self.arena.take(bytes).expect("a new segment holds what it was made for")
    }

    fn reserved_over_peak(&self) -> f64 {
        self.arena.reserved() as f64 / self.arena.peak_live as f64
    }
}

impl Arena {
    /// Every segment is tiled by its blocks without gap or overlap; sets, bins and counters agree with them.
    fn check(&self) {
        let (mut live, mut binned) = (0, 0);
        let mut free = [0usize; 2];
        for (index, segment) in self.segments.iter().enumerate().filter_map(|(i, s)| s.as_ref().map(|s| (i, s))) {
            let (mut at, mut block, mut previous) = (segment.address, segment.first, NONE);
            let mut before_was_free = false;
            while block != NONE {
                let entry = &self.blocks[block as usize];
                assert_eq!((entry.address, entry.previous, entry.segment), (at, previous, index as u32));
                let is_free = entry.state == State::Free;
                assert!(!(is_free && before_was_free), "two free neighbours were not joined");
                match entry.state {
                    State::Live => live += entry.requested,
                    State::Binned => binned += 1,
                    State::Free => {
                        assert!(self.free[usize::from(segment.large)].contains(&(entry.bytes, entry.address, block)));
                        free[usize::from(segment.large)] += 1;
                    }
                    State::Vacant => panic!("a vacant block is linked"),
                }
                before_was_free = is_free;
                at += entry.bytes;
                previous = block;
                block = entry.next;
            }
            assert_eq!(at, segment.address + segment.bytes);
        }
        assert_eq!((live, binned), (self.live, self.binned));
        assert_eq!([self.free[0].len(), self.free[1].len()], free);
    }
}

/// A small generator of numbers, so that a failure can be repeated.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn classes_waste_at_most_an_eighth_and_are_found_again() {
    let mut last = (0, 0);
    for bytes in (1..200_000u64).chain((18..46).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1])) {
        let (class, size) = class_of(bytes);
        assert!(size >= bytes && size % UNIT == 0, "{bytes} does not fit its class of {size}");
        assert!(size - bytes <= (bytes / 8).max(UNIT), "{bytes} wastes {}", size - bytes);
        assert_eq!(class_of(size), (class, size), "a class must hold itself");
        assert_eq!(class_within(size), class);
        assert!(class == 0 || class_within(size - 1) == class - 1);
        if bytes > 1 && bytes < 200_000 {
            assert!(class >= last.0 && size >= last.1, "classes must ascend");
            last = (class, size);
        }
    }
    assert!(class_of(u64::MAX / 4).0 < CLASSES);
}

#[test]
fn a_context_that_grows_token_by_token_stays_under_one_and_a_half_times_its_peak() {
    // Layers, bytes of a layer's cache for one token, tokens: from one cache to many, from bytes to megabytes.
    for (layers, bytes_per_token, tokens) in [(1, 4096, 10_000), (2, 1000, 10_000), (28, 2048, 2_000), (64, 512, 2_000)]
    {
        let mut pool = Imaginary::default();
        let mut caches: Vec<Taken> = (0..layers).map(|_| pool.take(bytes_per_token)).collect();
        let mut allocations = 0;
        let mut worst = 0f64;
        for token in 2..=tokens {
            for cache in &mut caches {
                // As a concatenation does: the longer cache is there before the shorter one goes.
                let longer = pool.take(bytes_per_token * token);
                // What a layer needs besides: scores over the context, and an activation of fixed size.
                let scores = pool.take(token * 4 * 32);
                let activation = pool.take(16 << 10);
                allocations += 3;
                for gone in [std::mem::replace(cache, longer), scores, activation] {
                    pool.arena.give(gone.block);
                }
            }
            if pool.arena.peak_live > 16 << 20 {
                worst = worst.max(pool.reserved_over_peak());
            }
        }
        pool.arena.check();
        println!(
            "{layers} layers of {bytes_per_token} B a token: {allocations} allocations, {} from the system, {} given back, \
             reserved/peak {:.3} at the end, {worst:.3} at worst",
            pool.system_allocations,
            pool.system_frees,
            pool.reserved_over_peak()
        );
        assert!(worst.max(pool.reserved_over_peak()) < 1.5);
    }
}

#[test]
fn a_steady_state_needs_nothing_from_the_system() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    // One step of a model: many sizes, overlapping lives, the same every time.
    let plan: Vec<(u64, usize)> = (0..400)
        .map(|_| {
            let bytes = 1 + random(&mut state) % (1 << (8 + random(&mut state) % 17));
            (bytes, (random(&mut state) % 24) as usize)
        })
        .collect();
    let mut pool = Imaginary::default();
    let step = |pool: &mut Imaginary| {
        let mut ends: BTreeMap<usize, Vec<Taken>> = BTreeMap::new();
        for (time, &(bytes, life)) in plan.iter().enumerate() {
            for gone in ends.remove(&time).into_iter().flatten() {
                pool.arena.give(gone.block);
            }
            ends.entry(time + 1 + life).or_default().push(pool.take(bytes));
        }
        for gone in ends.into_values().flatten() {
            pool.arena.give(gone.block);
        }
    };
    for _ in 0..10 {
        step(&mut pool);
    }
    let warm = pool.system_allocations;
    for _ in 0..100 {
        step(&mut pool);
    }
    pool.arena.check();
    assert_eq!(pool.system_allocations, warm, "the steady state went to the system");
}

#[test]
fn random_traffic_keeps_the_books_straight() {
    let mut state = 42;
    let mut pool = Imaginary::default();
    let mut live: Vec<(Taken, u64)> = Vec::new();
    for round in 0..20_000 {
        if live.len() < 200 && random(&mut state) % 5 < 3 {
            let bytes = 1 + random(&mut state) % (1 << (4 + random(&mut state) % 20));
            let taken = pool.take(bytes);
            let end = taken.address + bytes;
            for &(other, other_bytes) in &live {
                assert!(end <= other.address || other.address + other_bytes <= taken.address, "two blocks overlap");
            }
            live.push((taken, bytes));
        } else if !live.is_empty() {
            let index = (random(&mut state) % live.len() as u64) as usize;
            let (gone, bytes) = live.swap_remove(index);
            assert_eq!(pool.arena.give(gone.block), bytes);
        }
        if round % 500 == 0 {
            pool.arena.check();
        }
    }
    for (gone, _) in live {
        pool.arena.give(gone.block);
    }
    let reserved = pool.arena.reserved();
    let idle = pool.arena.take_idle(u64::MAX);
    assert_eq!(idle.iter().map(|idle| idle.bytes).sum::<u64>(), reserved, "an unused pool can give everything back");
    assert_eq!(pool.arena.reserved(), 0);
    pool.arena.check();
}
