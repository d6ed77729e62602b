//! Results on their way. Loads are done at once here, but on a card a register has its value only after the wait counter said
//! so: reading or overwriting it before is a fault of the compiler, or of whoever wrote the assembly.

use super::meta::{Counter, Meta, Use, Waits};
use super::Watch;
use crate::exec::machine::Machine;
use crate::failure::Cause;

/// An operation whose results have not been waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    counter: Counter,
    unordered: bool,
    is_store: bool,
    local: bool,
    target: Option<Use>,
}

impl Watch {
    fn mark(&mut self) {
        self.pending_rows = [0; 9];
        self.pending_scalars = 0;
        for target in self.pending.iter().filter_map(|pending| pending.target) {
            for n in 0..u32::from(target.dwords) {
                let at = u32::from(target.index) + n;
                if target.vector {
                    self.pending_rows[(at / 64) as usize % 9] |= 1 << (at % 64);
                } else {
                    self.pending_scalars |= 1 << (at % 128);
                }
            }
        }
    }

    fn touches(&self, found: &Use) -> bool {
        (0..u32::from(found.dwords)).any(|n| {
            let at = u32::from(found.index) + n;
            if found.vector {
                self.pending_rows[(at / 64) as usize % 9] >> (at % 64) & 1 != 0
            } else {
                self.pending_scalars >> (at % 128) & 1 != 0
            }
        })
    }

    /// At most `left` operations of a counter are outstanding.
    fn wait(&mut self, left: u8, counts: impl Fn(&Pending) -> bool) {
        let outstanding = self.pending.iter().filter(|pending| counts(pending)).count();
        let mut done = outstanding.saturating_sub(usize::from(left));
        // Of those that come in any order nobody knows which have come, unless all have.
        if done == 0 || left > 0 && self.pending.iter().any(|pending| counts(pending) && pending.unordered) {
            return;
        }
        self.pending.retain(|pending| {
            let gone = done > 0 && counts(pending);
            done -= usize::from(gone);
            !gone
        });
        self.mark();
    }
}

/// Looks at what an operation touches. False: the machine has a failure.
pub(crate) fn before(watch: &mut Watch, meta: &Meta, m: &mut Machine<'_>) -> bool {
    if let Some(Waits { load, store, local, scalar }) = meta.waits {
        if let Some(left) = load {
            watch.wait(left, |pending| matches!(pending.counter, Counter::Load | Counter::Flat));
            // A flat operation is done when both of its counters are; nearly always it is waited for by one instruction.
        }
        if let Some(left) = store {
            watch.wait(left, |pending| pending.counter == Counter::Store);
        }
        if let Some(left) = local {
            watch.wait(left, |pending| pending.counter == Counter::Local);
        }
        if let Some(left) = scalar {
            watch.wait(left, |pending| pending.counter == Counter::Scalar);
        }
        return true;
    }
    if watch.pending.is_empty() {
        return true;
    }
    if meta.is_barrier && watch.pending.iter().any(|pending| pending.is_store && pending.local) {
        let why = "a store to local memory may still be on its way when the barrier is passed".to_owned();
        m.fail(Cause::Wait, None, why);
        return false;
    }
    for (uses, what) in [(&meta.reads, "reads"), (&meta.writes, "overwrites")] {
        for found in uses {
            if !watch.touches(found) {
                continue;
            }
            // Loads of one kind come in order: the later one may have the same target, or the other half of it.
            let ordered = what == "overwrites" && meta.counter != Counter::None && !meta.unordered;
            let clash = watch.pending.iter().any(|pending| {
                let overlaps = pending.target.is_some_and(|target| {
                    target.vector == found.vector
                        && target.index < found.index + u16::from(found.dwords)
                        && found.index < target.index + u16::from(target.dwords)
                });
                overlaps && !(ordered && pending.counter == meta.counter && !pending.unordered)
            });
            if clash {
                let kind = if found.vector { "v" } else { "s" };
                let why = format!("{what} {kind}{} before the wait for the load into it", found.index);
                m.fail(Cause::Wait, None, why);
                return false;
            }
        }
    }
    true
}

/// Notes what is on its way now.
pub(crate) fn after(watch: &mut Watch, meta: &Meta) {
    if meta.counter == Counter::None {
        return;
    }
    let local = meta.class == crate::count::Class::Local;
    let entry =
        Pending { counter: meta.counter, unordered: meta.unordered, is_store: meta.is_store, local, target: None };
    match meta.writes.as_slice() {
        [] => watch.pending.push(entry),
        targets => {
            // One operation counts once; a second target would be a carry, which memory operations do not have.
            watch.pending.push(Pending { target: targets.first().copied(), ..entry });
        }
    }
    // The counters hold 63 at most: older ones have come.
    if watch.pending.len() > 256 {
        watch.pending.remove(0);
    }
    watch.mark();
}
