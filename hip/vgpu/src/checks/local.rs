//! Local memory: races between waves (two touch a word between the same two barriers, and one of them writes; order within a wave is
//! program order, atomics do not race with each other), and words that were never written with anything defined.

use super::cells::{Cells, Conflict, Judge, Me, Touch, Verdict};
use crate::exec::machine::Machine;
use crate::failure::Cause;
use crate::wave::{collect, Lanes, Wave};

/// What the checks remember of a block's local memory.
#[derive(Default)]
pub(crate) struct Local {
    cells: Cells,
    /// Stamps of the time since the last barrier begin here.
    floor: u32,
    /// Stamps of this block begin here.
    block_floor: u32,
    /// Several waves: there can be races.
    pub shared: bool,
    /// Bytes that were written with something defined: 1, otherwise 0. Only kept once `by_byte` is set.
    defined: Vec<u8>,
    /// Something undefined was written, or bytes and halves were touched. Before, the words that were written are those that are defined.
    by_byte: bool,
}

/// Stamps from one floor to the next: the floor, plain accesses and atomics of at most 64 waves.
const STAMPS: u32 = 192;

impl Local {
    /// A block starts.
    pub fn start(&mut self, lds_bytes: usize, waves: usize) {
        self.cells.grow(lds_bytes);
        if self.floor > u32::MAX / 2 {
            self.cells.clear();
            self.floor = 0;
        }
        self.passed_barrier();
        self.block_floor = self.floor;
        self.shared = waves > 1;
        // Bytes and halves of the block before do not concern this one, and take time.
        if self.cells.has_bytes() {
            self.cells.clear();
        }
        self.by_byte = false;
    }

    /// From now on every byte counts.
    fn look_at_bytes(&mut self, lds_bytes: usize) {
        if !self.by_byte {
            self.by_byte = true;
            let defined = (0..lds_bytes).map(|at| u8::from(self.cells.written(at / 4) >= self.block_floor));
            self.defined.clear();
            self.defined.extend(defined);
        }
    }

    /// All waves have met: what was before does not race with what comes. Old stamps need no clearing.
    pub fn passed_barrier(&mut self) {
        self.floor = self.floor.saturating_add(STAMPS);
    }

    fn me(&self, wave: usize) -> Me {
        let wave = (wave as u32).min(63);
        Me { floor: self.floor, plain: self.floor + 1 + wave, atomic: self.floor + 65 + wave, shared: self.floor }
    }
}

struct BetweenBarriers {
    floor: u32,
    touch: Touch,
}

impl Judge for BetweenBarriers {
    fn comes_after(&mut self, stamp: u32, written: bool) -> Verdict {
        if written && self.touch == Touch::Atomic && stamp > self.floor + 64 {
            Verdict::After
        } else {
            Verdict::Conflict
        }
    }

    fn join_reads(&mut self, me: &Me, _stamp: u32) -> u32 {
        me.floor
    }
}

impl Machine<'_> {
    /// An access of all active lanes to local memory. False: a check has something to say.
    #[inline(always)]
    #[must_use]
    pub fn note_lds<const L: usize>(&mut self, addresses: &[u32; L], w: &Wave<L>, bytes: usize, write: bool) -> bool {
        if self.counting {
            self.counters.local(addresses, w.exec, bytes);
        }
        if self.tracker.on.races || self.tracker.on.undefined {
            return self.watch_lds(addresses, w, bytes, if write { Touch::Write } else { Touch::Read });
        }
        true
    }

    /// Atomics on local memory. False: a check has something to say.
    #[must_use]
    pub fn note_lds_atomic<const L: usize>(&mut self, addresses: &[u32; L], w: &Wave<L>, bytes: usize) -> bool {
        if self.counting {
            self.counters.local(addresses, w.exec, bytes);
        }
        if self.tracker.on.races || self.tracker.on.undefined {
            return self.watch_lds(addresses, w, bytes, Touch::Atomic);
        }
        true
    }

    #[inline(never)]
    fn watch_lds<const L: usize>(&mut self, addresses: &[u32; L], w: &Wave<L>, bytes: usize, touch: Touch) -> bool {
        let lds_bytes = self.lds_bytes;
        let local = &mut self.tracker.local;
        let me = local.me(w.id);
        let all_defined = self.tracker.data_lanes & w.exec == w.exec;
        if touch == Touch::Read || touch == Touch::Write && all_defined {
            // Nearly always: whole words, and nobody else has anything to do with them.
            let mut usual = !local.by_byte && bytes.is_multiple_of(4);
            if usual {
                let lanes = if touch == Touch::Read { distinct(addresses, w.exec) } else { w.exec };
                for lane in Lanes(lanes) {
                    let (word, aligned) = (addresses[lane] as usize / 4, addresses[lane].is_multiple_of(4));
                    for n in word..word + bytes / 4 {
                        usual &= aligned
                            & match touch {
                                Touch::Read => local.cells.read_word(n, &me, local.block_floor),
                                _ => local.cells.write_word(n, &me),
                            };
                    }
                }
            }
            if usual {
                return true;
            }
        }
        let whole = addresses.iter().enumerate().all(|(lane, at)| w.exec >> lane & 1 == 0 || at.is_multiple_of(4));
        if !whole || !bytes.is_multiple_of(4) || touch == Touch::Write && !all_defined {
            local.look_at_bytes(lds_bytes);
        }
        for lane in w.active() {
            // Where it is outside, the handler says so.
            if self.lds_holds(addresses[lane], bytes) && !self.touch_local(&me, lane, addresses[lane], bytes, touch) {
                return false;
            }
        }
        true
    }

    /// One lane touches bytes of local memory, which are inside.
    fn touch_local(&mut self, me: &Me, lane: usize, address: u32, bytes: usize, touch: Touch) -> bool {
        let (at, tracker) = (address as usize, &mut self.tracker);
        let local = &mut tracker.local;
        let undefined = if local.by_byte {
            let Some(defined) = local.defined.get_mut(at..at + bytes) else { return true };
            if touch == Touch::Write {
                defined.fill((tracker.data_lanes >> lane & 1) as u8);
            }
            defined.contains(&0)
        } else {
            (at / 4..(at + bytes).div_ceil(4)).any(|word| local.cells.written(word) < local.block_floor)
        };
        if undefined && touch != Touch::Write {
            tracker.undefined_lanes |= 1 << lane;
        }
        let mut judge = BetweenBarriers { floor: me.floor, touch };
        match local.cells.touch(at, bytes, me, touch, &mut judge) {
            Some(conflict) if local.shared && tracker.on.races => self.local_race(lane, touch, conflict, me),
            _ => true,
        }
    }

    #[cold]
    #[inline(never)]
    fn local_race(&mut self, lane: usize, touch: Touch, conflict: Conflict, me: &Me) -> bool {
        let what = if touch == Touch::Read { "reads" } else { "writes" };
        let did = if conflict.written { "wrote" } else { "read" };
        let who = match conflict.stamp - me.floor {
            0 => "other waves".to_owned(),
            n => format!("wave {}", (n - 1) % 64),
        };
        let at = conflict.at;
        let why = format!("{what} local memory at {at:#x}, which {who} {did} without a barrier in between");
        self.fail(Cause::Race, Some(lane), why);
        false
    }
}

/// Active lanes without those that have the address of an active lane before them: the one before, or the one sixteen before, which is
/// how tiles are read.
#[inline(always)]
fn distinct<const L: usize>(addresses: &[u32; L], exec: u64) -> u64 {
    let mut lanes = exec;
    for distance in [1, 16] {
        let mut same = [0; L];
        for i in distance..L {
            same[i] = if addresses[i] == addresses[i - distance] { u32::MAX } else { 0 };
        }
        lanes &= !(collect(&same) & exec << distance);
    }
    lanes
}
