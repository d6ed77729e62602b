//! The bookkeeping of a pool: which parts of which segments are in use. It knows addresses as numbers and calls nobody, so
//! that it can be tested without a device.
//!
//! Sizes are rounded up to classes, eight to each doubling, so that at most an eighth is wasted. A freed block goes to the
//! bin of its class and comes back from there in constant time; when a request finds its bin and the free parts empty, all
//! bins are emptied, neighbours are joined, and the best fit is cut to size. Only then is a new segment needed.

use std::collections::BTreeSet;

/// Blocks are multiples of this, which is also their alignment.
const UNIT: u64 = 256;
/// Classes up to this size share segments; a larger one has a segment of exactly its size, because a small block left in a
/// large segment would pin all of it.
const SMALL: u64 = 1 << 19;
/// The smallest segment for small blocks, and the largest. In between it is an eighth of what there is already.
const SEGMENT: u64 = 2 << 20;
const SEGMENT_LIMIT: u64 = 32 << 20;
/// A large block is cut only when at least this is left over.
const LARGE_REST: u64 = SMALL;
/// Below this a pool keeps what it has: giving it back and asking for it again costs more than it is worth.
const KEPT_ALWAYS: u64 = 8 << 20;

const NONE: u32 = u32::MAX;

/// The class of a size: its index, and the size of its blocks.
fn class_of(bytes: u64) -> (usize, u64) {
    let units = bytes.div_ceil(UNIT).max(1);
    if units <= 8 {
        return (units as usize - 1, units * UNIT);
    }
    // `units` lies in (2^top, 2^(top+1)], which is cut into eight steps.
    let top = (units - 1).ilog2();
    let step = 1u64 << (top - 3);
    let steps = (units - (1 << top)).div_ceil(step);
    (8 + (top as usize - 3) * 8 + steps as usize - 1, ((1 << top) + steps * step) * UNIT)
}

/// The largest class whose blocks fit into `bytes`.
fn class_within(bytes: u64) -> usize {
    let (class, size) = class_of(bytes);
    if size > bytes {
        class - 1
    } else {
        class
    }
}

const CLASSES: usize = 8 + 61 * 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No block: the entry waits to be used again.
    Vacant,
    Live,
    /// Freed, in the bin of its class, not joined with its neighbours.
    Binned,
    /// Freed, joined with its neighbours, in the ordered set.
    Free,
}

#[derive(Clone, Debug)]
struct Block {
    address: u64,
    bytes: u64,
    requested: u64,
    previous: u32,
    next: u32,
    segment: u32,
    state: State,
}

#[derive(Clone, Debug)]
struct Segment {
    address: u64,
    bytes: u64,
    large: bool,
    first: u32,
}

/// A block handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) address: u64,
    pub(super) block: u32,
}

/// Memory from the system that a pool has no use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Idle {
    pub(super) address: u64,
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct Arena {
    blocks: Vec<Block>,
    vacant: Vec<u32>,
    segments: Vec<Option<Segment>>,
    bins: Vec<Vec<u32>>,
    binned: usize,
    /// Free blocks of small and of large segments, by size, then address.
    free: [BTreeSet<(u64, u64, u32)>; 2],
    reserved: [u64; 2],
    live: u64,
    peak_live: u64,
}

impl Default for Arena {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            vacant: Vec::new(),
            segments: Vec::new(),
            bins: vec![Vec::new(); CLASSES],
            binned: 0,
            free: Default::default(),
            reserved: [0; 2],
            live: 0,
            peak_live: 0,
        }
    }
}

impl Arena {
    pub(super) fn reserved(&self) -> u64 {
        self.reserved[0] + self.reserved[1]
    }

    /// What is reserved and not in use.
    pub(super) fn kept(&self) -> u64 {
        self.reserved().saturating_sub(self.live)
    }

    /// A block of at least `bytes`, if there is one.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Taken> {
        let (class, size) = class_of(bytes);
        let block = match self.bins[class].pop() {
            Some(block) => {
                self.binned -= 1;
                block
            }
            None => match self.best_fit(size) {
                Some(block) => block,
                None if self.binned > 0 => {
                    self.empty_bins();
                    self.best_fit(size)?
                }
                None => return None,
            },
        };
        let entry = &mut self.blocks[block as usize];
        entry.state = State::Live;
        entry.requested = bytes;
        self.live += bytes;
        self.peak_live = self.peak_live.max(self.live);
        Some(Taken { address: self.blocks[block as usize].address, block })
    }

    /// Gives a block back. Returns the bytes that were asked for when it was taken.
    pub(super) fn give(&mut self, block: u32) -> u64 {
        let entry = &mut self.blocks[block as usize];
        debug_assert_eq!(entry.state, State::Live);
        entry.state = State::Binned;
        let (bytes, requested) = (entry.bytes, entry.requested);
        self.live -= requested;
        self.bins[class_within(bytes)].push(block);
        self.binned += 1;
        requested
    }

    /// How large a segment to ask the system for, so that `bytes` fit; and the least that would do.
    pub(super) fn segment_for(&self, bytes: u64) -> (u64, u64) {
        let (_, size) = class_of(bytes);
        if size > SMALL {
            return (size, size);
        }
        let share = (self.reserved[0] / 8).clamp(SEGMENT, SEGMENT_LIMIT);
        (share.next_multiple_of(SEGMENT), size.next_multiple_of(1 << 16))
    }

    /// Takes out segments that nobody uses, when with a new one of `coming` bytes for a request of `bytes` the pool would
    /// hold more than 1.4 times what was ever in use at once.
    pub(super) fn excess(&mut self, coming: u64, bytes: u64) -> Vec<Idle> {
        let peak = self.peak_live.max(self.live + bytes);
        let limit = (peak + peak / 5 * 2).max(KEPT_ALWAYS);
        let surplus = (self.reserved() + coming).saturating_sub(limit);
        self.take_idle(surplus)
    }

    /// Takes out unused segments, the largest first, until they are `wanted` bytes or no more are left.
    pub(super) fn take_idle(&mut self, wanted: u64) -> Vec<Idle> {
        if wanted == 0 {
            return Vec::new();
        }
        self.empty_bins();
        let mut whole: Vec<u32> = (0..self.segments.len() as u32)
            .filter(|&index| {
                self.segments[index as usize].as_ref().is_some_and(|segment| {
                    let first = &self.blocks[segment.first as usize];
                    first.state == State::Free && first.bytes == segment.bytes
                })
            })
            .collect();
        whole.sort_by_key(|&index| std::cmp::Reverse(self.segments[index as usize].as_ref().map_or(0, |s| s.bytes)));
        let mut idle = Vec::new();
        let mut found = 0;
        for index in whole {
            if found >= wanted {
                break;
            }
            let Some(Segment { address, bytes, large, first }) = self.segments[index as usize].take() else { continue };
            self.free[usize::from(large)].remove(&(bytes, address, first));
            self.retire(first);
            self.reserved[usize::from(large)] -= bytes;
            found += bytes;
            idle.push(Idle { address, bytes });
        }
        idle
    }

    /// Adds a segment from the system for requests like `request`.
    pub(super) fn add_segment(&mut self, address: u64, bytes: u64, request: u64) {
        let large = class_of(request).1 > SMALL;
        let segment = match self.segments.iter().position(Option::is_none) {
            Some(vacant) => vacant as u32,
            None => {
                self.segments.push(None);
                self.segments.len() as u32 - 1
            }
        };
        let block = Block { address, bytes, requested: 0, previous: NONE, next: NONE, segment, state: State::Free };
        let first = self.insert(block);
        self.free[usize::from(large)].insert((bytes, address, first));
        self.segments[segment as usize] = Some(Segment { address, bytes, large, first });
        self.reserved[usize::from(large)] += bytes;
    }

    /// Every segment, used or not: for the end of the pool.
    pub(super) fn drain(&mut self) -> Vec<(u64, u64)> {
        let all = self.segments.iter().flatten().map(|segment| (segment.address, segment.bytes)).collect();
        *self = Self::default();
        all
    }

    /// The smallest free block that holds `size`, cut to size.
    fn best_fit(&mut self, size: u64) -> Option<u32> {
        let large = size > SMALL;
        let free = &mut self.free[usize::from(large)];
        let &(bytes, address, block) = free.range((size, 0, 0)..).next()?;
        free.remove(&(bytes, address, block));
        let least_rest = if large { LARGE_REST.max(bytes / 8) } else { UNIT };
        if bytes - size >= least_rest {
            let Block { next, segment, .. } = self.blocks[block as usize];
            let rest = self.insert(Block {
                address: address + size,
                bytes: bytes - size,
                requested: 0,
                previous: block,
                next,
                segment,
                state: State::Free,
            });
            if next != NONE {
                self.blocks[next as usize].previous = rest;
            }
            let entry = &mut self.blocks[block as usize];
            entry.next = rest;
            entry.bytes = size;
            self.free[usize::from(large)].insert((bytes - size, address + size, rest));
        }
        Some(block)
    }

    /// Joins all binned blocks with their free neighbours.
    fn empty_bins(&mut self) {
        for class in 0..self.bins.len() {
            for block in std::mem::take(&mut self.bins[class]) {
                self.join(block);
            }
        }
        self.binned = 0;
    }

    fn join(&mut self, block: u32) {
        let segment = self.blocks[block as usize].segment;
        let Some(large) = self.segments[segment as usize].as_ref().map(|segment| segment.large) else { return };
        let set = usize::from(large);
        let mut block = block;
        let (previous, next) = (self.blocks[block as usize].previous, self.blocks[block as usize].next);
        if next != NONE && self.blocks[next as usize].state == State::Free {
            self.absorb(block, next, set);
        }
        if previous != NONE && self.blocks[previous as usize].state == State::Free {
            let Block { address, bytes, .. } = self.blocks[previous as usize];
            self.free[set].remove(&(bytes, address, previous));
            self.absorb(previous, block, set);
            block = previous;
        }
        let entry = &mut self.blocks[block as usize];
        entry.state = State::Free;
        self.free[set].insert((entry.bytes, entry.address, block));
    }

    /// Makes `left`, which is not in the ordered set, longer by the unused block `right` behind it.
    fn absorb(&mut self, left: u32, right: u32, set: usize) {
        let Block { address, bytes, next, .. } = self.blocks[right as usize];
        self.free[set].remove(&(bytes, address, right));
        self.retire(right);
        let entry = &mut self.blocks[left as usize];
        entry.bytes += bytes;
        entry.next = next;
        if next != NONE {
            self.blocks[next as usize].previous = left;
        }
    }

    fn insert(&mut self, block: Block) -> u32 {
        match self.vacant.pop() {
            Some(index) => {
                self.blocks[index as usize] = block;
                index
            }
            None => {
                self.blocks.push(block);
                self.blocks.len() as u32 - 1
            }
        }
    }

    fn retire(&mut self, block: u32) {
        self.blocks[block as usize].state = State::Vacant;
        self.vacant.push(block);
    }
}

#[cfg(test)]
#[path = "arena_tests.rs"]
mod tests;
