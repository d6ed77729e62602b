//! What a card cannot check. The run loop calls in here before and after each instruction, with what predecoding knows of
//! it; handlers of memory instructions report their addresses.

pub(crate) mod meta;
mod races;
mod undefined;
mod waits;

use crate::exec::machine::Machine;
use crate::memory::{load_u32, load_u8, shadow, store_u32, store_u8, Span};
use crate::program::Program;
use crate::wave::{scalar, Flow, Op, Slot, Wave};
use races::Touch;

/// Which checks are on. Accesses to memory are always checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Checks {
    /// Undefined values where they matter.
    pub undefined: bool,
    /// Races in local memory between barriers.
    pub races: bool,
    /// Results used before their wait counter.
    pub waits: bool,
}

impl Checks {
    /// All of them.
    pub const ALL: Checks = Checks { undefined: true, races: true, waits: true };

    pub(crate) fn any(self) -> bool {
        self.undefined || self.races || self.waits
    }
}

/// What the checks remember of a wave.
#[derive(Default)]
pub(crate) struct Watch {
    /// Lanes of each row that are defined.
    defined: Vec<u64>,
    /// Bits of each scalar register that are defined.
    bits: Vec<u32>,
    /// The condition code is defined.
    scc: bool,
    pending: Vec<waits::Pending>,
    pending_rows: [u64; 9],
    pending_scalars: u128,
}

impl Watch {
    /// A wave starts: nothing is defined but what the hardware sets.
    pub fn start(&mut self, rows: usize, item_rows: usize, scalars: impl Iterator<Item = usize>) {
        self.defined.clear();
        self.defined.resize(rows, 0);
        for row in self.defined.iter_mut().take(item_rows) {
            *row = u64::MAX;
        }
        self.bits.clear();
        self.bits.resize(128, 0);
        for n in scalars {
            if let Some(bits) = self.bits.get_mut(n) {
                *bits = u32::MAX;
            }
        }
        for n in [scalar::NULL, scalar::EXEC, scalar::EXEC + 1] {
            self.bits[usize::from(n)] = u32::MAX;
        }
        self.scc = false;
        self.pending.clear();
        self.pending_rows = [0; 9];
        self.pending_scalars = 0;
    }
}

/// What the checks remember of a block.
#[derive(Default)]
pub(crate) struct Tracker {
    pub on: Checks,
    /// Barriers passed, plus one.
    epoch: u32,
    tags: Vec<races::Tag>,
    /// Bytes of each word of local memory that were written with something defined, a bit each.
    lds_defined: Vec<u8>,
    outcome: undefined::Outcome,
    /// Of the second half of a dual instruction.
    second: undefined::Outcome,
    /// Lanes of the running load that got something undefined.
    undefined_lanes: u64,
    /// Lanes of the running store whose data are defined.
    data_lanes: u64,
}

impl Tracker {
    /// A block starts.
    pub fn start(&mut self, lds_bytes: usize) {
        // Epochs go on from block to block, so that old tags need no clearing.
        self.epoch = self.epoch.wrapping_add(1).max(1);
        if self.on.races {
            self.tags.resize(lds_bytes.div_ceil(4), races::Tag::default());
        }
        if self.on.undefined {
            self.lds_defined.clear();
            self.lds_defined.resize(lds_bytes.div_ceil(4), 0);
        }
    }
}

impl Machine<'_> {
    /// An access of all active lanes to global memory, inside of one span.
    #[inline(always)]
    pub fn note_global<const L: usize>(
        &mut self,
        addresses: &[u64; L],
        w: &Wave<L>,
        bytes: usize,
        write: bool,
        span: Span,
        _data: Slot,
    ) {
        if self.counting {
            self.counters.global(self.arch, addresses, w.exec, bytes, write);
        }
        if !span.shadow.is_null() && (write || self.tracker.on.undefined) {
            for lane in w.active() {
                self.shadow_access(lane, addresses[lane], bytes, write, span);
            }
        }
    }

    /// The shadow of one lane's access.
    #[inline(never)]
    fn shadow_access(&mut self, lane: usize, address: u64, bytes: usize, write: bool, span: Span) {
        const ALL_WRITTEN: u32 = u32::from_ne_bytes([shadow::WRITTEN; 4]);
        let at = span.shadow as u64 + (address - span.start);
        // SAFETY: the access lies in the span, whose shadow has a byte for each of its bytes.
        unsafe {
            if bytes.is_multiple_of(4) {
                for n in (0..bytes as u64).step_by(4) {
                    if write {
                        store_u32(at + n, ALL_WRITTEN);
                    } else {
                        let states = load_u32(at + n);
                        if states != ALL_WRITTEN && states.to_ne_bytes().contains(&shadow::FRESH) {
                            self.tracker.undefined_lanes |= 1 << lane;
                        }
                    }
                }
                return;
            }
            for n in 0..bytes as u64 {
                if write {
                    store_u8(at + n, shadow::WRITTEN);
                } else if load_u8(at + n) == shadow::FRESH {
                    self.tracker.undefined_lanes |= 1 << lane;
                }
            }
        }
    }

    /// An access of one lane to global memory.
    pub fn note_lane(&mut self, lane: usize, address: u64, bytes: usize, write: bool, span: Span, _data: Slot) {
        if self.counting {
            self.counters.global(self.arch, &[address], 1, bytes, write);
        }
        if !span.shadow.is_null() && (write || self.tracker.on.undefined) {
            self.shadow_access(lane, address, bytes, write, span);
        }
    }

    /// An atomic of one lane on global memory.
    pub fn note_atomic<const L: usize>(&mut self, lane: usize, address: u64, bytes: usize, span: Span, _op: &Op<L>) {
        if self.counting {
            self.counters.global(self.arch, &[address], 1, bytes, true);
        }
        if !span.shadow.is_null() {
            if self.tracker.on.undefined {
                self.shadow_access(lane, address, bytes, false, span);
            }
            self.shadow_access(lane, address, bytes, true, span);
        }
    }

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
        let mut before = None;
        for lane in w.active() {
            let address = addresses[lane];
            // Lanes that read the same word as the one before them add nothing.
            if let (Touch::Read, Some((same, other))) = (touch, before) {
                if same == address {
                    self.tracker.undefined_lanes |= (self.tracker.undefined_lanes >> other & 1) << lane;
                    continue;
                }
            }
            before = Some((address, lane));
            // The handler says what is wrong with it.
            if !self.lds_holds(address, bytes) {
                continue;
            }
            if self.tracker.on.races && self.touch(w.id, lane, address, bytes, touch) == Flow::Fail {
                return false;
            }
            if !self.tracker.on.undefined {
                continue;
            }
            let keep = touch == Touch::Write && self.tracker.data_lanes >> lane & 1 != 0;
            if address.is_multiple_of(4) && bytes == 4 {
                let Some(defined) = self.tracker.lds_defined.get_mut(address as usize / 4) else { continue };
                match touch {
                    Touch::Write => *defined = if keep { 15 } else { 0 },
                    _ if *defined != 15 => self.tracker.undefined_lanes |= 1 << lane,
                    _ => {}
                }
                continue;
            }
            let end = address.saturating_add(bytes as u32);
            let mut at = address;
            while at < end {
                let next = (at / 4 + 1) * 4;
                let mask = ((2u32 << ((end.min(next) - 1) % 4)) - (1 << (at % 4))) as u8;
                let Some(defined) = self.tracker.lds_defined.get_mut(at as usize / 4) else { break };
                match touch {
                    Touch::Write if keep => *defined |= mask,
                    Touch::Write => *defined &= !mask,
                    _ if *defined & mask != mask => self.tracker.undefined_lanes |= 1 << lane,
                    _ => {}
                }
                at = next;
            }
        }
        true
    }

    /// All waves of the block have met.
    pub fn passed_barrier(&mut self) {
        self.tracker.epoch = self.tracker.epoch.wrapping_add(1).max(1);
    }
}

/// The loop that looks at every instruction.
#[inline(never)]
pub(crate) fn run_watched<const L: usize>(
    wave: &mut Wave<L>,
    program: &Program<L>,
    machine: &mut Machine<'_>,
    budget: u64,
) -> (Flow, u64) {
    let mut left = budget;
    let on = machine.tracker.on;
    while left > 0 {
        let Some(op) = program.ops.get(wave.pc) else { return (Flow::Fail, budget - left) };
        let meta = &program.meta[wave.pc];
        wave.pc += 1;
        left -= 1;
        if machine.counting {
            machine.counters.instructions[meta.class as usize] += 1;
            if meta.vector {
                machine.counters.lanes += L as u64;
                machine.counters.active_lanes += u64::from(wave.exec.count_ones());
            }
        }
        if on.waits && !waits::before(&mut wave.watch, meta, machine) {
            return (Flow::Fail, budget - left);
        }
        if on.undefined && !undefined::before(wave, op, meta, machine) {
            return (Flow::Fail, budget - left);
        }
        let exec = wave.exec;
        // SAFETY: the handler was picked for this CPU when the program was made.
        let flow = unsafe { (op.run)(wave, op, machine) };
        if on.undefined {
            undefined::after(wave, meta, machine, exec);
        }
        if on.waits {
            waits::after(&mut wave.watch, meta);
        }
        if flow != Flow::Next {
            return (flow, budget - left);
        }
    }
    (Flow::Next, budget)
}
