//! Results on their way. Loads are done at once here, but on a card a register has its value only after the wait counter said
//! so: reading or overwriting it before is a fault of the compiler, or of whoever wrote the assembly. Until then the registers
//! count as undefined, so that the run loop notices without looking here.

use super::meta::{Counter, Meta, Use, Waits};
use super::quick::ROWS;
use super::Watch;
use crate::count::Class;
use crate::exec::machine::Machine;
use crate::failure::Cause;

/// An operation whose results have not been waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// Counters that still have to say so.
    load: bool,
    store: bool,
    local: bool,
    scalar: bool,
    unordered: bool,
    /// A store to local memory.
    to_local: bool,
    target: Option<Use>,
    /// Lanes of each target row that will be defined.
    defined: [u64; 4],
}

impl Watch {
    #[inline(always)]
    pub fn row_pending(&self, row: u16) -> bool {
        self.pending_rows[usize::from(row) / 64 % self.pending_rows.len()] >> (row % 64) & 1 != 0
    }

    #[inline(always)]
    pub fn scalar_pending(&self, scalar: u16) -> bool {
        self.pending_scalars >> (scalar % 128) & 1 != 0
    }

    fn mark(&mut self, target: &Use) {
        for n in 0..u16::from(target.dwords) {
            let at = target.index + n;
            if target.vector {
                let words = self.pending_rows.len();
                self.pending_rows[usize::from(at) / 64 % words] |= 1 << (at % 64);
                self.rows[usize::from(at) % ROWS] = 0;
            } else {
                self.pending_scalars |= 1 << (at % 128);
                self.bits[usize::from(at) % 128] = 0;
            }
        }
    }

    fn touches(&self, found: &Use) -> bool {
        (0..u16::from(found.dwords)).any(|n| {
            if found.vector {
                self.row_pending(found.index + n)
            } else {
                self.scalar_pending(found.index + n)
            }
        })
    }

    /// At most `left` operations of a counter are outstanding; `flag` picks the counter.
    fn wait(&mut self, left: u8, flag: impl Fn(&mut Pending) -> &mut bool) {
        let outstanding = self.pending.iter_mut().filter_map(|pending| flag(pending).then_some(pending.unordered));
        let (mut count, mut unordered) = (0, false);
        for one in outstanding {
            count += 1;
            unordered |= one;
        }
        let mut done = usize::saturating_sub(count, usize::from(left));
        // Of those that come in any order nobody knows which have come, unless all have.
        if done == 0 || left > 0 && unordered {
            return;
        }
        let mut arrived = false;
        for pending in &mut self.pending {
            if done > 0 && *flag(pending) {
                *flag(pending) = false;
                done -= 1;
                arrived |= !(pending.load || pending.store || pending.local || pending.scalar);
            }
        }
        if arrived {
            self.arrive();
        }
    }

    /// Takes out what no counter holds back any more, and gives its registers what was loaded.
    fn arrive(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        self.pending_rows.fill(0);
        self.pending_scalars = 0;
        for entry in &pending {
            let Some(target) = &entry.target else { continue };
            for n in 0..target.dwords {
                let at = usize::from(target.index) + usize::from(n);
                if target.vector {
                    self.rows[at % ROWS] = entry.defined[usize::from(n) % 4];
                } else {
                    self.bits[at % 128] = u32::MAX;
                }
            }
        }
        pending.retain(|entry| entry.load || entry.store || entry.local || entry.scalar);
        for target in pending.iter().filter_map(|entry| entry.target) {
            self.mark(&target);
        }
        self.pending = pending;
    }
}

/// A wait instruction.
pub(crate) fn wait(watch: &mut Watch, waits: &Waits) {
    if watch.pending.is_empty() {
        return;
    }
    if let Some(left) = waits.load {
        watch.wait(left, |pending| &mut pending.load);
    }
    if let Some(left) = waits.store {
        watch.wait(left, |pending| &mut pending.store);
    }
    if let Some(left) = waits.local {
        watch.wait(left, |pending| &mut pending.local);
    }
    if let Some(left) = waits.scalar {
        watch.wait(left, |pending| &mut pending.scalar);
    }
}

/// A barrier: what others shall find in local memory must be there. False: the machine has a failure.
pub(crate) fn barrier(watch: &Watch, m: &mut Machine<'_>) -> bool {
    if watch.pending.iter().any(|pending| pending.to_local) {
        let why = "a store to local memory may still be on its way when the barrier is passed".to_owned();
        m.fail(Cause::Wait, None, why);
        return false;
    }
    true
}

/// Looks at what an operation touches. False: the machine has a failure.
pub(crate) fn before(watch: &Watch, meta: &Meta, m: &mut Machine<'_>) -> bool {
    if watch.pending.is_empty() {
        return true;
    }
    for (uses, reads) in [(&meta.reads, true), (&meta.writes, false)] {
        for found in uses.iter().filter(|found| watch.touches(found)) {
            let clash = watch.pending.iter().any(|pending| {
                let overlaps = pending.target.is_some_and(|target| {
                    target.vector == found.vector
                        && target.index < found.index + u16::from(found.dwords)
                        && found.index < target.index + u16::from(target.dwords)
                });
                // Loads of one kind come in order: the later one may have the same target, or the other half of it.
                let in_order = !reads && !meta.unordered && !pending.unordered && same_counter(pending, meta.counter);
                overlaps && !in_order
            });
            if clash {
                let (what, kind) = (if reads { "reads" } else { "overwrites" }, if found.vector { "v" } else { "s" });
                let why = format!("{what} {kind}{} before the wait for the load into it", found.index);
                m.fail(Cause::Wait, None, why);
                return false;
            }
        }
    }
    true
}

fn same_counter(pending: &Pending, counter: Counter) -> bool {
    match counter {
        Counter::None | Counter::Flat => false,
        Counter::Load => pending.load,
        Counter::Store => pending.store,
        Counter::Local => pending.local,
        Counter::Scalar => pending.scalar,
    }
}

/// Notes what is on its way now. What its registers will hold is in the watch already.
pub(crate) fn after(watch: &mut Watch, meta: &Meta) {
    let is = |counter| meta.counter == counter;
    let target = meta.writes.first().copied();
    let mut entry = Pending {
        load: is(Counter::Load) || is(Counter::Flat),
        store: is(Counter::Store),
        local: is(Counter::Local) || is(Counter::Flat),
        scalar: is(Counter::Scalar),
        unordered: meta.unordered,
        to_local: meta.is_store && meta.class == Class::Local,
        target,
        defined: [0; 4],
    };
    if let Some(target) = target {
        for n in 0..usize::from(target.dwords).min(4) {
            entry.defined[n] = watch.rows[(usize::from(target.index) + n) % ROWS];
        }
        watch.mark(&target);
    }
    // The counters hold 63 at most: older ones have come.
    if watch.pending.len() > 256 {
        let first = &mut watch.pending[0];
        (first.load, first.store, first.local, first.scalar) = (false, false, false, false);
        watch.arrive();
    }
    watch.pending.push(entry);
}

/// What a row will hold when the loads into it have come.
pub(crate) fn eventual(watch: &Watch, row: usize) -> u64 {
    let newest = watch.pending.iter().rev().find_map(|pending| {
        let target = pending.target.filter(|target| target.vector)?;
        let n = row.checked_sub(usize::from(target.index)).filter(|&n| n < usize::from(target.dwords))?;
        Some(pending.defined[n % 4])
    });
    newest.unwrap_or(watch.rows[row % ROWS])
}
