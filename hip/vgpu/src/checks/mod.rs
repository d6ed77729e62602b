//! What a card cannot check. The run loop calls in here before and after each instruction, with what predecoding knows of
//! it; handlers of memory instructions report their addresses.

mod cells;
mod global;
mod local;
pub(crate) mod meta;
mod order;
pub(crate) mod quick;
mod states;
mod undefined;
mod waits;

use crate::exec::machine::Machine;
use crate::memory::Span;
use crate::program::Program;
use crate::wave::{scalar, Flow, Op, State, Wave};
pub(crate) use global::Shadow;
use meta::Meta;
pub(crate) use order::Rules;
use quick::{flags, ROWS};

/// Which checks are on. Accesses to memory are always checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Checks {
    /// Undefined values where they matter.
    pub undefined: bool,
    /// Races: in local memory between barriers, in global memory between waves and between blocks.
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
pub(crate) struct Watch {
    /// Lanes of each row that are defined and have arrived.
    rows: Box<[u64; ROWS]>,
    /// Bits of each scalar register that are.
    bits: [u32; 128],
    /// The condition code is defined.
    scc: bool,
    /// The lanes that there are.
    all_lanes: u64,
    pending: Vec<waits::Pending>,
    pending_rows: [u64; 9],
    pending_scalars: u128,
    progress: order::Progress,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            rows: Box::new([0; ROWS]),
            bits: [0; 128],
            scc: false,
            all_lanes: 0,
            pending: Vec::new(),
            pending_rows: [0; 9],
            pending_scalars: 0,
            progress: order::Progress::default(),
        }
    }
}

impl Watch {
    /// A wave starts: nothing is defined but what the hardware sets. Without the check for it, everything is.
    pub fn start(
        &mut self,
        on: Checks,
        all_lanes: u64,
        rows: usize,
        item_rows: usize,
        scalars: impl Iterator<Item = usize>,
    ) {
        let undefined = if on.undefined { 0 } else { u64::MAX };
        self.rows[..rows.min(ROWS)].fill(undefined);
        self.rows[..item_rows.min(ROWS)].fill(u64::MAX);
        self.rows[ROWS - 1] = u64::MAX;
        self.bits.fill(undefined as u32);
        for n in scalars.chain([scalar::NULL, scalar::EXEC, scalar::EXEC + 1].map(usize::from)) {
            if let Some(bits) = self.bits.get_mut(n) {
                *bits = u32::MAX;
            }
        }
        self.scc = !on.undefined;
        self.all_lanes = all_lanes;
        self.pending.clear();
        self.pending_rows = [0; 9];
        self.pending_scalars = 0;
        self.progress.start();
    }
}

/// What the checks remember of a block.
#[derive(Default)]
pub(crate) struct Tracker {
    pub on: Checks,
    local: local::Local,
    global: global::Global,
    outcome: undefined::Outcome,
    /// Of the second half of a dual instruction.
    second: undefined::Outcome,
    /// What is known of the running instruction.
    flags: u16,
    /// Lanes of the running load that got something undefined.
    undefined_lanes: u64,
    /// Lanes of the running store whose data are defined.
    data_lanes: u64,
}

impl Tracker {
    /// A block starts, counted through the grid, with so many waves.
    pub fn start(&mut self, lds_bytes: usize, shadow: Option<&Shadow>, rules: Rules, block: u64, waves: usize) {
        if self.on.any() {
            self.local.start(lds_bytes, waves);
        }
        if let Some(shadow) = shadow {
            self.global.start(shadow, rules, block, waves);
        }
    }

    /// Code that is about to run has, or has not, an instruction that lets a block see what others released.
    pub fn may_acquire(&mut self, acquires: bool, first: bool) {
        self.global.acquires = acquires || !first && self.global.acquires;
    }

    /// All waves of the block have met.
    pub fn passed_barrier<const L: usize>(&mut self, waves: &mut [Wave<L>]) {
        if self.on.any() {
            self.local.passed_barrier();
        }
        if self.on.races {
            self.global.meet(waves.iter_mut().map(|wave| (&mut wave.watch.progress, wave.state == State::Ended)));
        }
    }
}

impl Machine<'_> {
    /// Whether anybody wants to know of an access to this span.
    #[inline(always)]
    pub fn watches_global(&self, span: Span, write: bool) -> bool {
        self.counting || self.tracker.on.races || !span.shadow.is_null() && (write || self.tracker.on.undefined)
    }

    /// An access of all active lanes to global memory, inside of one span. False: a check has something to say.
    #[inline(never)]
    #[must_use]
    pub fn note_global<const L: usize>(
        &mut self,
        addresses: &[u64; L],
        w: &mut Wave<L>,
        bytes: usize,
        write: bool,
        span: Span,
    ) -> bool {
        if self.counting {
            self.counters.global(self.arch, addresses, w.exec, bytes, write);
        }
        self.look_at_states(addresses, w, bytes, write, span) && self.touch_lanes(w, addresses, bytes, write, span)
    }

    /// An access of one lane to global memory. False: a check has something to say.
    #[must_use]
    pub fn note_lane<const L: usize>(
        &mut self,
        lane: usize,
        address: u64,
        w: &mut Wave<L>,
        bytes: usize,
        write: bool,
        span: Span,
    ) -> bool {
        if self.counting {
            self.counters.global(self.arch, &[address], 1, bytes, write);
        }
        self.look_at_state(lane, address, bytes, write, span) && self.touch_lane(w, lane, address, bytes, write, span)
    }

    /// An atomic of one lane on global memory: `update` changes the word and says what it was. `None`: a check has something to say.
    pub fn note_atomic<const L: usize, R>(
        &mut self,
        lane: usize,
        address: u64,
        w: &mut Wave<L>,
        bytes: usize,
        span: Span,
        update: impl FnOnce() -> R,
    ) -> Option<R> {
        if self.counting {
            self.counters.global(self.arch, &[address], 1, bytes, true);
        }
        if !self.look_at_atomic(lane, address, bytes, span) {
            return None;
        }
        self.touch_atomic(w, lane, address, bytes, span, update)
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
    while left > 0 {
        let (Some(op), Some(quick)) = (program.ops.get(wave.pc), program.quick.get(wave.pc)) else {
            return (Flow::Fail, budget - left);
        };
        let at = wave.pc;
        wave.pc += 1;
        left -= 1;
        if machine.counting {
            count(wave, &program.meta[at], machine);
        }
        let (exec, bits) = (wave.exec, quick.flags);
        if bits & flags::SPECIAL != 0 && !special(wave, &program.meta[at], machine) {
            return (Flow::Fail, budget - left);
        }
        let mut slow = false;
        if bits & flags::IDLE == 0 {
            let watch = &mut wave.watch;
            let pending = !watch.pending.is_empty() && quick.overwrites(watch);
            slow = bits & flags::SLOW != 0 || pending || !quick.all_defined(watch, exec);
            if slow {
                if !before(wave, op, &program.meta[at], machine) {
                    return (Flow::Fail, budget - left);
                }
            } else {
                if bits & flags::MEMORY != 0 {
                    machine.tracker.undefined_lanes = 0;
                    machine.tracker.data_lanes = u64::MAX;
                    machine.tracker.flags = bits;
                }
                if bits & flags::LOAD == 0 {
                    quick.define(watch, exec);
                }
            }
        }
        // SAFETY: the handler was picked for this CPU when the program was made.
        let flow = unsafe { (op.run)(wave, op, machine) };
        if slow {
            after(wave, &program.meta[at], machine, exec);
        } else if bits & flags::LOAD != 0 {
            let undefined = if machine.tracker.on.undefined { machine.tracker.undefined_lanes } else { 0 };
            quick.define_loaded(&mut wave.watch, exec, undefined);
        }
        if bits & flags::COUNTS != 0 {
            if machine.tracker.on.waits {
                waits::after(&mut wave.watch, &program.meta[at]);
            }
            if bits & flags::COHERENT != 0 {
                machine.loaded_coherently(&mut wave.watch.progress);
            }
            if !machine.tracker.global.suspects.is_empty() && !machine.judge_suspects(wave, op) {
                return (Flow::Fail, budget - left);
            }
        }
        if flow != Flow::Next {
            return (flow, budget - left);
        }
    }
    (Flow::Next, budget)
}

fn count<const L: usize>(wave: &Wave<L>, meta: &Meta, machine: &mut Machine<'_>) {
    machine.counters.instructions[meta.class as usize] += 1;
    if meta.vector {
        machine.counters.lanes += L as u64;
        machine.counters.active_lanes += u64::from(wave.exec.count_ones());
    }
}

/// Waits, barriers, cache control. False: the machine has a failure.
#[inline(never)]
fn special<const L: usize>(wave: &mut Wave<L>, meta: &Meta, machine: &mut Machine<'_>) -> bool {
    let (on, watch) = (machine.tracker.on, &mut wave.watch);
    if let Some(waits) = &meta.waits {
        if on.waits {
            waits::wait(watch, waits);
        }
        if on.races {
            watch.progress.wait(machine.tracker.global.rules, waits);
        }
    }
    if let Some(cache) = meta.cache.filter(|_| on.races) {
        watch.progress.cache(cache, machine.tracker.global.meeting.barrier);
    }
    !(meta.is_barrier && on.waits) || waits::barrier(watch, machine)
}

/// An operation that is not as simple as most: something is not defined, or has not arrived, or a rule of its own holds. False: the
/// machine has a failure.
#[inline(never)]
fn before<const L: usize>(wave: &mut Wave<L>, op: &Op<L>, meta: &Meta, machine: &mut Machine<'_>) -> bool {
    machine.tracker.undefined_lanes = 0;
    machine.tracker.data_lanes = u64::MAX;
    machine.tracker.flags = if meta.coherent { flags::COHERENT } else { 0 };
    let on = machine.tracker.on;
    (!on.waits || waits::before(&wave.watch, meta, machine))
        && (!on.undefined || undefined::before(wave, op, meta, machine))
}

#[inline(never)]
fn after<const L: usize>(wave: &mut Wave<L>, meta: &Meta, machine: &mut Machine<'_>, exec: u64) {
    // A later load into a register that another one is on its way to adds to that one.
    for found in meta.writes.iter().filter(|found| found.vector) {
        for n in 0..found.dwords {
            let row = found.index + u16::from(n);
            if wave.watch.row_pending(row) {
                wave.watch.rows[usize::from(row) % ROWS] = waits::eventual(&wave.watch, usize::from(row));
            }
        }
    }
    if machine.tracker.on.undefined {
        undefined::after(wave, meta, machine, exec);
    } else {
        for found in &meta.writes {
            for n in 0..usize::from(found.dwords) {
                match (found.vector, usize::from(found.index) + n) {
                    (true, row) => wave.watch.rows[row % ROWS] = u64::MAX,
                    (false, bit) => wave.watch.bits[bit % 128] = u32::MAX,
                }
            }
        }
    }
}
