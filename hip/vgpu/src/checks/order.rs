//! What comes before what, for waves that meet in global memory. A barrier orders the waves of a block. Blocks are ordered by atomics:
//! the wave that changes a word releases what it has done, and one that changes the word later and sees that acquires it. That takes
//! more than the atomic. What was stored must have been waited for (and on gfx942 and gfx12 written back) before the release, and
//! caches must have been invalidated before what others stored is read. All of this is modelled as the compiler's memory model for
//! AMD GPUs has it; where an instruction of the sequence is missing, there is no order.

use super::meta::{Cache, Waits};
use crate::descriptor::Descriptor;
use std::collections::HashMap;
use std::sync::Arc;

/// How far a wave is with what an atomic showed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The atomic is on its way.
    Issued,
    /// Its result was waited for.
    Seen,
    /// Caches behind that of the compute unit have been invalidated since.
    Behind,
    /// All caches have: the wave reads what the others released.
    Acquired,
}

/// What an atomic showed: so many releases of the word at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub address: u64,
    pub releases: usize,
    pub stage: Stage,
}

/// How the caches of an architecture are to be treated, for one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The waves of a block may be on units with caches of their own (work-group processor mode, or a split block).
    pub apart: bool,
    /// Stores reach the rest of the device by an instruction that writes back.
    pub write_back: bool,
    /// The counter of loads counts stores too.
    pub one_counter: bool,
}

impl Rules {
    pub fn of(descriptor: &Descriptor) -> Self {
        use crate::target::Arch;
        let apart = match descriptor.arch.generation() {
            9 => descriptor.rsrc3 >> 16 & 1 != 0,
            _ => descriptor.rsrc1 >> 29 & 1 != 0,
        };
        Self {
            apart,
            write_back: matches!(descriptor.arch, Arch::Gfx942 | Arch::Gfx1201),
            one_counter: descriptor.arch.generation() == 9,
        }
    }
}

/// Where a wave stands.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Its time: goes up where what comes must be told from what was.
    pub clock: u32,
    /// Stamps of the current time; 0 when it has none yet.
    pub plain: u32,
    pub atomic: u32,
    /// What it stored up to this time has reached the caches that the device shares.
    pub done: u32,
    /// What it stored up to this time was written back before it was waited for.
    pub written_back: u32,
    writing_back: u32,
    /// Barriers up to this time are followed by an invalidation of its own cache.
    pub seen_barrier: u32,
    pub known: Vec<Known>,
}

impl Progress {
    pub fn start(&mut self) {
        let known = std::mem::take(&mut self.known);
        *self = Self { clock: 1, known, ..Self::default() };
        self.known.clear();
    }

    /// The wave stores: later than whatever is done.
    #[inline(always)]
    pub fn store(&mut self) {
        if self.clock <= self.done || self.clock <= self.writing_back {
            self.tick(self.clock + 1);
        }
    }

    fn tick(&mut self, clock: u32) {
        self.clock = clock;
        self.plain = 0;
        self.atomic = 0;
    }

    /// The wave has changed a word and seen the releases before.
    pub fn observe(&mut self, address: u64, releases: usize) {
        self.known.retain(|known| known.address != address || known.stage > Stage::Issued);
        self.known.push(Known { address, releases, stage: Stage::Issued });
    }

    fn advance(&mut self, from: Stage, to: Stage) {
        for known in self.known.iter_mut().filter(|known| known.stage >= from && known.stage < to) {
            known.stage = to;
        }
        self.prune();
    }

    /// Of several for one word the farthest will do.
    fn prune(&mut self) {
        let mut n = 0;
        while n < self.known.len() {
            let one = self.known[n];
            let better = |other: &Known| {
                other.address == one.address && other.releases >= one.releases && other.stage >= one.stage
            };
            if self.known.iter().enumerate().any(|(m, other)| m != n && better(other)) {
                self.known.swap_remove(n);
            } else {
                n += 1;
            }
        }
    }

    /// A wait instruction.
    pub fn wait(&mut self, rules: Rules, waits: &Waits) {
        let loads = waits.load == Some(0);
        let stores = if rules.one_counter { loads } else { waits.store == Some(0) };
        if stores {
            self.done = self.clock;
            self.written_back = self.written_back.max(self.writing_back);
        }
        if loads && !self.known.is_empty() {
            self.advance(Stage::Issued, Stage::Seen);
        }
    }

    /// Cache control.
    pub fn cache(&mut self, cache: Cache, barrier: u32) {
        match cache {
            Cache::WriteBack => self.writing_back = self.clock,
            Cache::InvalidateGl1 => self.advance(Stage::Seen, Stage::Behind),
            Cache::InvalidateGl0 | Cache::InvalidateBlock => {
                self.seen_barrier = barrier;
                self.advance(Stage::Behind, Stage::Acquired);
            }
            Cache::InvalidateDevice | Cache::WriteBackInvalidate => {
                if cache == Cache::WriteBackInvalidate {
                    self.writing_back = self.clock;
                }
                self.seen_barrier = barrier;
                self.advance(Stage::Seen, Stage::Acquired);
            }
        }
    }

    /// What it has stored and the whole device can see, as far as the wave has seen to it.
    fn visible(&self, rules: Rules) -> u32 {
        if rules.write_back {
            self.done.min(self.written_back)
        } else {
            self.done
        }
    }
}

/// Where a block stands.
#[derive(Debug, Default)]
pub(crate) struct Meeting {
    /// The time of the last barrier.
    pub barrier: u32,
    /// What each wave had stored by then and brought to the caches that its block, and the device, share.
    done: Vec<u32>,
    visible: Vec<u32>,
}

impl Meeting {
    pub fn start(&mut self, waves: usize) {
        self.barrier = 1;
        self.done.clear();
        self.done.resize(waves, 0);
        self.visible.clear();
        self.visible.resize(waves, 0);
    }

    /// All waves of the block have met.
    pub fn meet<'a>(&mut self, rules: Rules, waves: impl Iterator<Item = (&'a mut Progress, bool)>) {
        let mut waves: Vec<(&mut Progress, bool)> = waves.collect();
        let clock = waves.iter().map(|(wave, _)| wave.clock).max().unwrap_or(0) + 1;
        let all: Vec<Known> = waves.iter().flat_map(|(wave, _)| wave.known.iter().copied()).collect();
        for (n, (wave, ended)) in waves.iter_mut().enumerate() {
            if let (Some(done), Some(visible)) = (self.done.get_mut(n), self.visible.get_mut(n)) {
                // What a wave has stored before its end is on its way by itself.
                (*done, *visible) = if *ended { (clock, clock) } else { (wave.done, wave.visible(rules)) };
            }
            if *ended {
                continue;
            }
            wave.tick(clock);
            if !rules.apart {
                wave.seen_barrier = clock;
            }
            for known in &all {
                // The cache of another unit has not been invalidated.
                let most = if rules.apart { Stage::Behind } else { Stage::Acquired };
                if known.stage >= Stage::Seen && !wave.known.contains(known) {
                    wave.known.push(Known { stage: known.stage.min(most), ..*known });
                }
            }
            if !all.is_empty() {
                wave.prune();
            }
        }
        self.barrier = clock;
    }

    /// What keeps a wave of this block from finding what another one has done: `None` if nothing.
    pub fn between(&self, rules: Rules, me: &Progress, other: &Stamp, written: bool, reads: bool) -> Option<Missing> {
        if other.clock >= self.barrier {
            return Some(Missing::Barrier);
        }
        if rules.apart && written && !other.atomic {
            if self.done.get(usize::from(other.wave)).is_some_and(|&done| other.clock > done) {
                return Some(Missing::Wait);
            }
            if reads && other.clock >= me.seen_barrier {
                return Some(Missing::Invalidation);
            }
        }
        None
    }

    /// What a wave releases with an atomic.
    pub fn release(&self, rules: Rules, block: u32, wave: usize, me: &Progress) -> Release {
        let mut stores = self.visible.clone();
        // Writing back is done for the whole unit: what its other waves had brought that far goes along.
        if rules.write_back && me.written_back >= self.barrier {
            stores.clone_from(&self.done);
        }
        if let Some(own) = stores.get_mut(wave) {
            *own = me.visible(rules);
        }
        Release { block, wave, clock: me.clock, barrier: self.barrier, stores: stores.into(), known: me.known.clone() }
    }
}

/// What an order lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Barrier,
    Wait,
    Invalidation,
    Atomic,
    Release,
}

impl Missing {
    pub fn words(self) -> &'static str {
        match self {
            Missing::Barrier => "there is no barrier in between",
            Missing::Wait => "the store was not waited for before the barrier",
            Missing::Invalidation => "caches were not invalidated since",
            Missing::Atomic => "no atomic orders the two blocks",
            Missing::Release => {
                "its stores were not waited for, or not written back, before the atomic that orders the two"
            }
        }
    }
}

/// Who accessed memory, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub block: u32,
    /// [`SEVERAL`] stands for several waves.
    pub wave: u8,
    pub atomic: bool,
    pub clock: u32,
}

pub(crate) const SEVERAL: u8 = u8::MAX;

/// What a block has done before an atomic.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    block: u32,
    wave: usize,
    clock: u32,
    barrier: u32,
    stores: Arc<[u32]>,
    known: Vec<Known>,
}

impl Release {
    /// Whether an access comes before it.
    fn covers(&self, stamp: &Stamp, written: bool) -> bool {
        if stamp.block != self.block {
            return false;
        }
        let own = usize::from(stamp.wave) == self.wave;
        let before = if own { stamp.clock <= self.clock } else { stamp.clock < self.barrier };
        let stores = self.stores.get(usize::from(stamp.wave)).copied().unwrap_or(0);
        before && (!written || stamp.atomic || stamp.clock <= stores)
    }
}

/// The words that blocks are ordered by, with what was released through each, in order.
#[derive(Default)]
pub(crate) struct Words(HashMap<u64, Vec<Release>>);

impl Words {
    /// A wave releases, and sees what was released before.
    pub fn release(&mut self, address: u64, release: Release) -> usize {
        let releases = self.0.entry(address).or_default();
        releases.push(release);
        releases.len()
    }

    /// How often the word was changed.
    pub fn releases(&self, address: u64) -> usize {
        self.0.get(&address).map_or(0, Vec::len)
    }

    /// What keeps a wave that knows this much from finding what another block has done: `None` if nothing.
    pub fn between(&self, known: &[Known], other: &Stamp, written: bool, reads: bool) -> Option<Missing> {
        let wanted = if reads { Stage::Acquired } else { Stage::Seen };
        let mut missing = Missing::Atomic;
        let mut seen: Vec<(u64, usize)> = Vec::new();
        let mut open: Vec<Known> = known.to_vec();
        while let Some(one) = open.pop() {
            let Some(releases) = self.0.get(&one.address) else { continue };
            // What was looked at by way of another word is not looked at again.
            let from = seen.iter().filter(|(address, _)| *address == one.address).map(|(_, upto)| *upto).max();
            let direct = known.contains(&one);
            if !direct && from.is_some_and(|from| from >= one.releases) {
                continue;
            }
            seen.push((one.address, one.releases));
            for release in releases.iter().take(one.releases) {
                let enough = !direct || one.stage >= wanted;
                if release.covers(other, written) {
                    if enough {
                        return None;
                    }
                    missing = Missing::Invalidation;
                } else if release.block == other.block && missing == Missing::Atomic {
                    missing = Missing::Release;
                }
                // What that block knew, this one knows as well.
                if enough {
                    open.extend(release.known.iter().filter(|known| known.stage >= Stage::Seen));
                }
            }
        }
        Some(missing)
    }
}
