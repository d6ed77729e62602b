//! Values that nobody wrote. Every row has a bit a lane that says whether it is defined, every scalar register a bit a bit.
//! Compilers read undefined registers legally, so nothing is reported until it matters: an address, a branch, EXEC, data that
//! are stored, an operand of an atomic.

use super::meta::{Meta, Role, Rule, Use};
use super::quick::ROWS;
use super::Watch;
use crate::count::Class;
use crate::exec::machine::Machine;
use crate::failure::Cause;
use crate::wave::{mods, scalar, Kind, Op, Wave};

/// What is worked out before an operation runs, for its results.
#[derive(Clone, Copy, Default)]
pub(crate) struct Outcome {
    /// Lanes in which a vector result is defined; for pairs the high word may differ.
    low: u64,
    high: u64,
    /// Bits in which a scalar result is defined.
    bits: u64,
    scc: bool,
}

fn complain(m: &mut Machine<'_>, what: &str, found: &Use, lane: Option<usize>) {
    let kind = if found.vector { "v" } else { "s" };
    let register = match (found.vector, found.index) {
        (false, scalar::VCC | 107) => "vcc".to_owned(),
        (false, 126..) => "exec".to_owned(),
        (false, scalar::M0) => "m0".to_owned(),
        _ => format!("{kind}{}", found.index),
    };
    m.fail(Cause::Undefined, lane, format!("{what} depends on a value that was never defined, in {register}"));
}

/// Lanes in which all words of an operand are defined.
fn lanes_of<const L: usize>(w: &Wave<L>, found: &Use) -> u64 {
    if found.vector {
        let at = usize::from(found.index);
        (at..at + usize::from(found.dwords)).fold(u64::MAX, |all, row| all & w.watch.rows[row % ROWS])
    } else if found.role == Role::Mask {
        mask_bits(&w.watch, found.index, L)
    } else if scalar_bits(&w.watch, found) {
        u64::MAX
    } else {
        0
    }
}

fn mask_bits(watch: &Watch, index: u16, lanes: usize) -> u64 {
    let at = usize::from(index) & 127;
    let low = u64::from(watch.bits[at]);
    if lanes == 64 {
        low | u64::from(watch.bits[(at + 1) & 127]) << 32
    } else {
        low
    }
}

/// Whether all bits of a scalar operand are defined.
fn scalar_bits(watch: &Watch, found: &Use) -> bool {
    let at = usize::from(found.index);
    (at..at + usize::from(found.dwords)).all(|n| watch.bits[n & 127] == u32::MAX)
}

fn pair_bits(watch: &Watch, found: Option<&Use>) -> u64 {
    let Some(found) = found else { return u64::MAX };
    let at = usize::from(found.index) & 127;
    let high = if found.dwords > 1 { watch.bits[(at + 1) & 127] } else { u32::MAX };
    u64::from(watch.bits[at]) | u64::from(high) << 32
}

/// Looks at an operation's operands. False: the machine has a failure.
pub(crate) fn before<const L: usize>(w: &mut Wave<L>, op: &Op<L>, meta: &Meta, m: &mut Machine<'_>) -> bool {
    m.tracker.undefined_lanes = 0;
    m.tracker.outcome = Outcome::default();
    match meta.branch {
        1 if !w.watch.scc => {
            m.fail(Cause::Undefined, None, "a branch depends on a value that was never defined, in scc".to_owned());
            return false;
        }
        2 => {
            let (bits, value) = (mask_bits(&w.watch, scalar::VCC, L), w.vcc());
            // A defined bit that is set decides the branch.
            if bits & Wave::<L>::ALL != Wave::<L>::ALL && value & bits == 0 {
                m.fail(Cause::Undefined, None, "a branch depends on a value that was never defined, in vcc".to_owned());
                return false;
            }
        }
        _ => {}
    }
    let memory = matches!(meta.class, Class::Load | Class::Store | Class::Atomic | Class::Local | Class::ScalarMemory);
    if memory {
        m.tracker.data_lanes = u64::MAX;
        for found in &meta.reads {
            if found.role == Role::Value {
                continue;
            }
            let bad = !lanes_of(w, found) & w.exec;
            if meta.class == Class::ScalarMemory {
                if !scalar_bits(&w.watch, found) {
                    complain(m, "the address of a scalar load", found, None);
                    return false;
                }
            } else if bad != 0 {
                let lane = bad.trailing_zeros() as usize;
                match (found.role, meta.class) {
                    (Role::Address, _) => {
                        complain(m, "an address", found, Some(lane));
                        return false;
                    }
                    // Local memory remembers; it matters when somebody uses what was stored.
                    (_, Class::Local) => m.tracker.data_lanes &= !bad,
                    _ => {
                        complain(m, "what is stored", found, Some(lane));
                        return false;
                    }
                }
            }
        }
    }
    m.tracker.outcome = match (&meta.halves, &op.inner) {
        (Some(halves), Some(inner)) => {
            if let Some(second) = &inner.second {
                m.tracker.second = outcome(w, second, &halves[1]);
            }
            outcome(w, &inner.first, &halves[0])
        }
        _ => outcome(w, op, meta),
    };
    // EXEC decides what runs: it must be known.
    let to_exec =
        meta.rule == Rule::SaveExec || meta.writes.iter().any(|found| !found.vector && found.index >= scalar::EXEC);
    if to_exec && m.tracker.outcome.bits & Wave::<L>::ALL != Wave::<L>::ALL {
        let place = Use { vector: false, index: scalar::EXEC, dwords: 1, role: Role::Value };
        let source = meta.reads.first().copied().unwrap_or(place);
        complain(m, "EXEC", &source, None);
        return false;
    }
    true
}

fn outcome<const L: usize>(w: &Wave<L>, op: &Op<L>, meta: &Meta) -> Outcome {
    let watch = &w.watch;
    let scalars = |n: usize| meta.reads.iter().filter(|found| !found.vector).nth(n);
    let mut result = Outcome { low: u64::MAX, high: u64::MAX, bits: u64::MAX, scc: true };
    match meta.rule {
        Rule::Plain | Rule::Moves | Rule::Compare => {
            for (n, found) in meta.reads.iter().enumerate() {
                if meta.rule == Rule::Moves && n == 0 {
                    continue;
                }
                result.low &= lanes_of(w, found);
            }
            result.high = result.low;
            if meta.rule == Rule::Compare {
                // Bits of lanes that are off are 0, which is defined.
                result.bits = result.low | !w.exec;
            } else if !meta.vector {
                let all = result.low == u64::MAX && (!meta.reads_scc || watch.scc);
                result.bits = if all { u64::MAX } else { 0 };
                result.scc = all;
            } else {
                result.bits = result.low | !w.exec;
            }
        }
        Rule::And | Rule::Or | Rule::AndNot | Rule::OrNot | Rule::Xor => {
            // Operands that are constants have no entry: all defined.
            let slot_bits = |n: usize| match op.src[n].kind {
                Kind::Scalar => {
                    pair_bits(watch, meta.reads.iter().find(|found| found.index == op.src[n].index && !found.vector))
                }
                Kind::Scc => {
                    if watch.scc {
                        u64::MAX
                    } else {
                        !1
                    }
                }
                _ => u64::MAX,
            };
            let (da, db) = (slot_bits(0), if op.src[1].kind == Kind::None { u64::MAX } else { slot_bits(1) });
            let (a, b) = (w.s64(op.src[0]), w.s64(op.src[1]));
            let b = if matches!(meta.rule, Rule::AndNot | Rule::OrNot) { !b } else { b };
            result.bits = match meta.rule {
                Rule::And | Rule::AndNot => da & db | da & !a | db & !b,
                Rule::Or | Rule::OrNot => da & db | da & a | db & b,
                _ => da & db,
            };
            let wide = meta.writes.first().is_some_and(|found| found.dwords > 1);
            if !wide {
                result.bits |= !0xffff_ffff;
            }
            result.scc = result.bits == u64::MAX;
        }
        Rule::SaveExec => {
            result.bits = pair_bits(watch, scalars(0));
            if meta.writes.first().is_none_or(|found| found.dwords < 2) {
                result.bits |= !0xffff_ffff;
            }
            // Bits that EXEC has cleared stay cleared in an AND, whatever the source.
            result.bits |= !w.exec;
            result.scc = result.bits & Wave::<L>::ALL == Wave::<L>::ALL;
        }
        Rule::ScalarSelect => {
            let chosen = usize::from(!w.scc);
            let found = meta.reads.iter().find(|found| {
                op.src[chosen].kind == Kind::Scalar && found.index == op.src[chosen].index && !found.vector
            });
            result.bits = if watch.scc { pair_bits(watch, found) } else { 0 };
        }
        Rule::Select => {
            let select = w.lanes(op.src[2]);
            let lanes = |n: usize| {
                let slot = op.src[n];
                match slot.kind {
                    Kind::Row => watch.rows[usize::from(slot.index) % ROWS],
                    Kind::Scalar if watch.bits[usize::from(slot.index) & 127] != u32::MAX => 0,
                    _ => u64::MAX,
                }
            };
            let mask = match op.src[2].kind {
                Kind::Scalar => mask_bits(watch, op.src[2].index, L),
                _ => u64::MAX,
            };
            result.low = (lanes(1) & select | lanes(0) & !select) & mask;
            result.high = result.low;
        }
        Rule::WideAdd => {
            let (mut low, mut high) = (u64::MAX, u64::MAX);
            for found in &meta.reads {
                let all = lanes_of(w, found);
                if found.dwords == 2 {
                    // The low word does not need the high one.
                    low &= lanes_of(w, &Use { dwords: 1, ..*found });
                    high &= all;
                } else {
                    low &= all;
                    high &= all;
                }
            }
            (result.low, result.high) = (low, high & low);
            // The carry out is hardly ever used; where it is, it depends on both.
            result.bits = high | !w.exec;
        }
        Rule::Packed | Rule::PackedMove | Rule::PairMove => {
            let word = |slot: crate::wave::Slot, second: bool| {
                let at = usize::from(slot.index) + usize::from(second);
                match slot.kind {
                    Kind::Row => watch.rows[at % ROWS],
                    Kind::Scalar if watch.bits[at & 127] != u32::MAX => 0,
                    _ => u64::MAX,
                }
            };
            if meta.rule == Rule::PackedMove {
                result.low = word(op.src[0], op.src[0].mods & mods::HIGH != 0);
                result.high = word(op.src[1], op.src[1].mods & mods::HIGH != 0);
            } else if meta.rule == Rule::PairMove {
                (result.low, result.high) = (word(op.src[0], false), word(op.src[0], true));
            } else {
                for slot in op.src {
                    result.low &= word(slot, slot.mods & mods::HIGH != 0);
                    result.high &= word(slot, slot.mods & mods::HIGH_HI != 0);
                }
            }
        }
        Rule::ReadFirst | Rule::ReadLane => {
            let lane = match meta.rule {
                Rule::ReadFirst => w.exec.trailing_zeros() as usize % 64,
                _ => w.s32(op.src[1]) as usize % L,
            };
            let row = meta.reads.iter().find(|found| found.vector).map_or(u64::MAX, |found| lanes_of(w, found));
            result.bits = if row >> lane & 1 != 0 { u64::MAX } else { 0 };
        }
        Rule::WriteLane => {
            let lane = w.s32(op.src[1]) as usize % L;
            let old = watch.rows[usize::from(op.dst.index) % ROWS];
            let all = meta.reads.iter().filter(|found| !found.vector).all(|found| scalar_bits(watch, found));
            result.low = if all { old | 1 << lane } else { old & !(1 << lane) };
        }
        Rule::Permute => {
            let row = |n: usize| match op.src[n].kind {
                Kind::Row => watch.rows[usize::from(op.src[n].index) % ROWS],
                _ => u64::MAX,
            };
            let (addresses, data) = (row(0), row(1));
            let values = crate::exec::lanes::row(w, op.src[0], 0);
            result.low = 0;
            for lane in w.active() {
                let from = values[lane].wrapping_add(op.imm as u32) as usize / 4 % L;
                let off = w.exec >> from & 1 == 0;
                let bit = (u64::from(off) | data >> from & 1) & (addresses >> lane & 1);
                result.low |= bit << lane;
            }
        }
        Rule::Load => {}
    }
    result
}

/// Notes what came out.
pub(crate) fn after<const L: usize>(w: &mut Wave<L>, meta: &Meta, m: &mut Machine<'_>, exec: u64) {
    if let Some(halves) = &meta.halves {
        note(w, &halves[0], m, exec, m.tracker.outcome);
        note(w, &halves[1], m, exec, m.tracker.second);
    } else {
        note(w, meta, m, exec, m.tracker.outcome);
    }
}

fn note<const L: usize>(w: &mut Wave<L>, meta: &Meta, m: &Machine<'_>, exec: u64, outcome: Outcome) {
    for found in &meta.writes {
        if found.vector {
            for n in 0..usize::from(found.dwords) {
                let row = &mut w.watch.rows[(usize::from(found.index) + n) % ROWS];
                if meta.rule == Rule::WriteLane {
                    *row = outcome.low;
                    continue;
                }
                let lanes = match meta.rule {
                    Rule::Load => !m.tracker.undefined_lanes,
                    _ if n % 2 == 1 => outcome.high,
                    _ => outcome.low,
                };
                *row = *row & !exec | lanes & exec;
            }
        } else {
            for n in 0..usize::from(found.dwords) {
                let at = usize::from(found.index) + n;
                if at == usize::from(scalar::NULL) || at > 127 {
                    continue;
                }
                w.watch.bits[at] = match meta.rule {
                    Rule::Load => u32::MAX,
                    // What was in EXEC is defined always.
                    Rule::SaveExec => u32::MAX,
                    _ if n == 0 => outcome.bits as u32,
                    _ => (outcome.bits >> 32) as u32,
                };
            }
        }
    }
    if meta.writes_scc {
        w.watch.scc = outcome.scc;
    }
    w.watch.bits[usize::from(scalar::EXEC)] = u32::MAX;
    w.watch.bits[usize::from(scalar::EXEC) + 1] = u32::MAX;
}
