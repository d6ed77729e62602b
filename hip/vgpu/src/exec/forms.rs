//! Encodings that wrap another instruction: SDWA picks parts of its operands, DPP moves its first operand between lanes, VOPD
//! does two at once. The inner instruction runs as it is, on spare rows.

use crate::exec::lanes::{each_lane, row, store, Run};
use crate::exec::machine::Machine;
use crate::failure::Cause;
use crate::inst::{Ctrl, Dpp, Sel, Unused};
use crate::wave::{scalar, Flow, Kind, Op, Row, Slot, Wave, SPARE_ROWS};

/// Spare rows, counted from the end of the wave's rows.
pub(crate) fn spare<const L: usize>(w: &Wave<L>, n: usize) -> usize {
    w.v.len() - SPARE_ROWS + n
}

/// The part of a word that is meant, extended to 32 bits.
#[inline(always)]
fn select<const L: usize>(mut row: Row<L>, sel: Sel, sext: bool) -> Row<L> {
    let (shift, bits) = match sel {
        Sel::Byte0 => (0, 8),
        Sel::Byte1 => (8, 8),
        Sel::Byte2 => (16, 8),
        Sel::Byte3 => (24, 8),
        Sel::Word0 => (0, 16),
        Sel::Word1 => (16, 16),
        Sel::Dword => return row,
    };
    each_lane::<L>(|i| {
        let top = (row[i] >> shift) << (32 - bits);
        row[i] = if sext { (top as i32 >> (32 - bits)) as u32 } else { top >> (32 - bits) };
    });
    row
}

/// SDWA.
pub(crate) struct Sdwa;
impl Run for Sdwa {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        let Some(inner) = &op.inner else { return Flow::Next };
        for n in 0..2 {
            let arg = &inner.inst.src[n];
            if arg.sel != Sel::Dword {
                let values = select(row(w, Slot { mods: 0, ..op.src[n] }, 0), arg.sel, arg.sext);
                let at = spare(w, n);
                w.v[at] = values;
            }
        }
        // SAFETY: predecoding picked the handler for this CPU.
        let flow = unsafe { (inner.first.run)(w, &inner.first, m) };
        let sel = inner.inst.dst.sel;
        if op.dst.kind == Kind::Row && sel != Sel::Dword {
            let result = w.v[spare(w, 2)];
            let old = w.v[op.dst.index as usize];
            let (shift, mask) = match sel {
                Sel::Byte0 => (0, 0xff),
                Sel::Byte1 => (8, 0xff),
                Sel::Byte2 => (16, 0xff),
                Sel::Byte3 => (24, 0xff),
                Sel::Word0 => (0, 0xffff),
                _ => (16, 0xffffu32),
            };
            let bits = mask.count_ones();
            let unused = inner.inst.unused;
            let mut merged = Row::ZERO;
            each_lane::<L>(|i| {
                let part = (result[i] & mask) << shift;
                merged[i] = match unused {
                    Unused::Pad => part,
                    Unused::Preserve => old[i] & !(mask << shift) | part,
                    Unused::Sext => {
                        let extended = ((result[i] << (32 - bits)) as i32 >> (32 - bits)) as u32;
                        extended << shift
                    }
                };
            });
            store(w, op.dst.index, &merged);
        }
        flow
    }
}

/// The lane that `lane` reads; `None` where it would be outside of the row or wave.
fn source<const L: usize>(ctrl: Ctrl, lane: usize) -> Option<usize> {
    let (row, at) = (lane & !15, lane & 15);
    let inside = |at: Option<usize>| at.filter(|&at| at < 16).map(|at| row | at);
    match ctrl {
        Ctrl::QuadPerm(lanes) => Some(lane & !3 | usize::from(lanes[lane & 3] & 3)),
        Ctrl::RowShl(by) => inside(at.checked_add(usize::from(by))),
        Ctrl::RowShr(by) => inside(at.checked_sub(usize::from(by))),
        Ctrl::RowRor(by) => Some(row | (at + 16 - usize::from(by & 15)) & 15),
        Ctrl::WaveShl1 => Some(lane + 1).filter(|&from| from < L),
        Ctrl::WaveRol1 => Some((lane + 1) % L),
        Ctrl::WaveShr1 => lane.checked_sub(1),
        Ctrl::WaveRor1 => Some((lane + L - 1) % L),
        Ctrl::RowMirror => Some(row | (15 - at)),
        Ctrl::RowHalfMirror => Some(lane & !7 | (7 - (lane & 7))),
        // The last lane of each row to the whole of the next one.
        Ctrl::RowBcast15 => row.checked_sub(1),
        Ctrl::RowBcast31 => (lane >= 32).then_some(31),
        Ctrl::RowNewBcast(from) | Ctrl::RowShare(from) => Some(row | usize::from(from & 15)),
        Ctrl::RowXmask(mask) => Some(row | (at ^ usize::from(mask & 15))),
        Ctrl::Reserved(_) => None,
    }
}

/// DPP.
pub(crate) struct DppForm;
impl Run for DppForm {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        let Some(inner) = &op.inner else { return Flow::Next };
        let Some(dpp) = inner.inst.dpp else { return Flow::Next };
        let exec = w.exec;
        let words = if inner.inst.src[0].dwords == 2 { 2 } else { 1 };
        let slot = Slot { mods: 0, ..op.src[0] };
        let data = [row(w, slot, 0), if words == 2 { row(w, slot, 1) } else { Row::ZERO }];
        let mut moved = [Row::ZERO; 2];
        let mut written = exec;
        for lane in 0..L {
            let (from, enabled, zero, inactive) = match dpp {
                Dpp::Rule { ctrl, row_mask, bank_mask, bound_ctrl, fi } => {
                    let enabled = row_mask >> (lane / 16) & 1 != 0 && bank_mask >> (lane / 4 % 4) & 1 != 0;
                    (source::<L>(ctrl, lane), enabled, bound_ctrl, fi)
                }
                Dpp::Eight { lanes, fi } => (Some(lane & !7 | usize::from(lanes[lane & 7] & 7)), true, false, fi),
            };
            if !enabled {
                written &= !(1 << lane);
                continue;
            }
            match from {
                Some(from) if exec >> from & 1 != 0 || inactive => {
                    for n in 0..words {
                        moved[n][lane] = data[n][from];
                    }
                }
                // A lane that is off, or outside: zero, or no write at all. DPP8 reads zero from a lane that is off.
                _ if zero || matches!(dpp, Dpp::Eight { .. }) => {}
                _ => written &= !(1 << lane),
            }
        }
        for n in 0..words {
            let at = spare(w, n);
            w.v[at] = moved[n];
        }
        w.set_exec(written);
        // SAFETY: predecoding picked the handler for this CPU.
        let flow = unsafe { (inner.first.run)(w, &inner.first, m) };
        if inner.first.dst.kind != Kind::Scalar || inner.first.dst.index < scalar::EXEC {
            w.set_exec(exec);
        }
        flow
    }
}

/// Two operations at once: both read before either writes.
pub(crate) struct Dual;
impl Run for Dual {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        let Some(inner) = &op.inner else { return Flow::Next };
        let Some(second) = &inner.second else { return Flow::Next };
        // The first one's result waits in a spare row.
        // SAFETY: predecoding picked the handlers for this CPU.
        unsafe {
            (inner.first.run)(w, &inner.first, m);
            (second.run)(w, second, m);
        }
        let result = w.v[spare(w, 3)];
        store(w, op.dst.index, &result);
        Flow::Next
    }
}

/// An operation whose vector registers are counted from M0: gfx9's indexed mode, and `v_movrel` of the others.
pub(crate) struct Indexed;
impl Run for Indexed {
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        let Some(inner) = &op.inner else { return Flow::Next };
        let first = &inner.first;
        let m0 = w.s[usize::from(scalar::M0)];
        // A mode of 0 is gfx9's, which M0 has; others come with the instruction.
        let (index, mode) = if op.imm == 0 { (m0 & 0xff, m0 >> 12 & 15) } else { (m0, op.imm as u32) };
        let limit = (w.v.len() - SPARE_ROWS) as u64;
        let mut outside = None;
        let mut moved = |slot: Slot, bit: u32| {
            if slot.kind != Kind::Row || mode & bit == 0 {
                return slot;
            }
            let at = u64::from(slot.index) + u64::from(index);
            // A pair needs one more.
            if at + 1 >= limit {
                outside = Some(at);
                return slot;
            }
            Slot { index: at as u16, ..slot }
        };
        let run = Op {
            run: first.run,
            inner: None,
            dst: moved(first.dst, 8),
            sdst: first.sdst,
            src: [moved(first.src[0], 1), moved(first.src[1], 2), moved(first.src[2], 4)],
            imm: first.imm,
            flags: first.flags,
        };
        if let Some(at) = outside {
            return m.fail(Cause::Instruction, None, format!("indexed register v{at} does not exist"));
        }
        // SAFETY: predecoding picked the handler for this CPU.
        unsafe { (run.run)(w, &run, m) }
    }
}
