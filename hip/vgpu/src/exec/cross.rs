//! Vector operations that are more than one expression on one lane: masks, carries, the steps of a division, and whatever
//! moves values between lanes.

use crate::exec::float::{double, single};
use crate::exec::lanes::{fetch, handlers, row, store, write, Buffer, Elem, Filled, Result, F32, F64, U16, U32, U64};
use crate::wave::{collect, expand, flags, mods, Flow, Kind, Op, Slot, Wave};

/// Writes a second result that is a bit a lane.
#[inline(always)]
fn write_carry<const L: usize>(w: &mut Wave<L>, op: &Op<L>, bits: &[u32; L]) {
    w.set_lanes(op.sdst, collect(bits) & w.exec);
}

#[inline(always)]
fn store_pair<const L: usize>(w: &mut Wave<L>, op: &Op<L>, low: &[u32; L], high: Option<&mut [u32; L]>) {
    store(w, op.dst.index, low);
    if let Some(high) = high {
        store(w, op.dst.index + 1, high);
    }
}

/// An addition or subtraction with a carry out, and a carry in where `carry` says so. `a - b` is `a + !b + 1`.
#[inline(always)]
fn add_carry<const L: usize>(w: &mut Wave<L>, op: &Op<L>, a: Slot, b: Slot, subtract: bool, carry: bool) -> Flow {
    let (mut ab, mut bb) = (Buffer::new(), Buffer::new());
    let carries = if carry { expand::<L>(w.lanes(op.src[2])) } else { [0; L] };
    let (a, b) = (fetch::<U32, L>(w, a, &mut ab), fetch::<U32, L>(w, b, &mut bb));
    let mut result = Filled::<L>::new();
    // The top bit of the majority is the carry: written so that it becomes vector code.
    let (low, out) = result.fill::<U64>(
        #[inline(always)]
        |i| {
            let (a, b, carry) = (a.at::<U32>(i), b.at::<U32>(i), carries[i] & 1);
            let (value, out) = if subtract {
                let value = a.wrapping_sub(b).wrapping_sub(carry);
                (value, !a & b | (!a | b) & value)
            } else {
                let value = a.wrapping_add(b).wrapping_add(carry);
                (value, a & b | (a | b) & !value)
            };
            u64::from(value) | u64::from(out) << 32
        },
    );
    let Some(out) = out else { return Flow::Next };
    if op.flags & flags::CLAMP != 0 {
        for i in 0..L {
            if out[i] >> 31 != 0 {
                low[i] = if subtract { 0 } else { u32::MAX };
            }
        }
    }
    let bits = collect(out) & w.exec;
    store(w, op.dst.index, low);
    w.set_lanes(op.sdst, bits);
    Flow::Next
}

#[inline(always)]
fn div_scale<E: Elem, const L: usize>(w: &mut Wave<L>, op: &Op<L>, scale: impl Fn(E::T, E::T, E::T) -> (E::T, bool)) {
    let (mut a, mut b, mut c) = (Buffer::new(), Buffer::new(), Buffer::new());
    let a = fetch::<E, L>(w, op.src[0], &mut a);
    let b = fetch::<E, L>(w, op.src[1], &mut b);
    let c = fetch::<E, L>(w, op.src[2], &mut c);
    let mut result = Result::<L>::new();
    let mut flag = [0; L];
    for i in 0..L {
        let (value, scaled) = scale(a.at::<E>(i), b.at::<E>(i), c.at::<E>(i));
        result.set::<E>(i, value);
        flag[i] = u32::from(scaled) << 31;
    }
    write::<E, L>(w, op, result);
    write_carry(w, op, &flag);
}

#[inline(always)]
fn div_fmas<E: Elem, const L: usize>(w: &mut Wave<L>, op: &Op<L>, fmas: impl Fn(E::T, E::T, E::T, bool) -> E::T) {
    let (mut a, mut b, mut c) = (Buffer::new(), Buffer::new(), Buffer::new());
    let vcc = expand::<L>(w.vcc());
    let a = fetch::<E, L>(w, op.src[0], &mut a);
    let b = fetch::<E, L>(w, op.src[1], &mut b);
    let c = fetch::<E, L>(w, op.src[2], &mut c);
    let mut result = Result::<L>::new();
    for i in 0..L {
        result.set::<E>(i, fmas(a.at::<E>(i), b.at::<E>(i), c.at::<E>(i), vcc[i] != 0));
    }
    write::<E, L>(w, op, result);
}

/// Each lane of 16 takes the lane that four bits of two scalars name, from its own row of 16 or from the neighbour's.
#[inline(always)]
fn permlane16<const L: usize>(w: &mut Wave<L>, op: &Op<L>, other: bool, varying: bool) -> Flow {
    let data = row(w, Slot { mods: 0, ..op.src[0] }, 0);
    let old = w.v[op.dst.index as usize];
    let (fetch_inactive, bound) = (op.src[0].mods & mods::HIGH != 0, op.src[1].mods & mods::HIGH != 0);
    let select = row(w, Slot { mods: 0, ..op.src[1] }, 0);
    let select = if varying { None } else { Some(u64::from(w.s32(op.src[1])) | u64::from(w.s32(op.src[2])) << 32) }
        .map_or(select, |bits| std::array::from_fn(|i| (bits >> (4 * (i % 16))) as u32));
    let mut result = [0; L];
    for i in 0..L {
        let from = (i & !15 | (select[i] & 15) as usize) ^ if other { 16 } else { 0 };
        let on = w.exec >> from & 1 != 0 || fetch_inactive;
        result[i] = if on {
            data[from]
        } else if bound {
            0
        } else {
            old[i]
        };
    }
    store(w, op.dst.index, &result);
    Flow::Next
}

handlers! { lookup;
    V_NOP | V_PIPEFLUSH | V_CLREXCP (_w, _op, _m) { Flow::Next }
    V_CNDMASK_B32 (w, op, _m) {
        let (mut a, mut b) = (Buffer::new(), Buffer::new());
        let select = expand::<L>(w.lanes(op.src[2]));
        let (a, b) = (fetch::<U32, L>(w, op.src[0], &mut a), fetch::<U32, L>(w, op.src[1], &mut b));
        let mut result = Filled::<L>::new();
        let (low, _) = result.fill::<U32>(
            #[inline(always)]
            |i| b.at::<U32>(i) & select[i] | a.at::<U32>(i) & !select[i],
        );
        store(w, op.dst.index, low);
        Flow::Next
    }
    V_CNDMASK_B16 (w, op, _m) {
        let (mut a, mut b) = (Buffer::new(), Buffer::new());
        let select = expand::<L>(w.lanes(op.src[2]));
        let (a, b) = (fetch::<U16, L>(w, op.src[0], &mut a), fetch::<U16, L>(w, op.src[1], &mut b));
        let mut result = Result::<L>::new();
        for i in 0..L {
            result.set::<U16>(i, if select[i] != 0 { b.at::<U16>(i) } else { a.at::<U16>(i) });
        }
        write::<U16, L>(w, op, result);
        Flow::Next
    }
    V_ADD_CO_U32 (w, op, _m) { add_carry(w, op, op.src[0], op.src[1], false, false) }
    V_ADD_CO_CI_U32 (w, op, _m) { add_carry(w, op, op.src[0], op.src[1], false, true) }
    V_SUB_CO_U32 (w, op, _m) { add_carry(w, op, op.src[0], op.src[1], true, false) }
    V_SUB_CO_CI_U32 (w, op, _m) { add_carry(w, op, op.src[0], op.src[1], true, true) }
    V_SUBREV_CO_U32 (w, op, _m) { add_carry(w, op, op.src[1], op.src[0], true, false) }
    V_SUBREV_CO_CI_U32 (w, op, _m) { add_carry(w, op, op.src[1], op.src[0], true, true) }
    V_MAD_CO_U64_U32 (w, op, _m) {
        let (mut a, mut b, mut c) = (Buffer::new(), Buffer::new(), Buffer::new());
        let a = fetch::<U32, L>(w, op.src[0], &mut a);
        let b = fetch::<U32, L>(w, op.src[1], &mut b);
        let c = fetch::<U64, L>(w, op.src[2], &mut c);
        let sum = |i: usize| {
            let product = u64::from(a.at::<U32>(i)) * u64::from(b.at::<U32>(i));
            product.wrapping_add(c.at::<U64>(i))
        };
        let mut result = Filled::<L>::new();
        let (low, high) = result.fill::<U64>(sum);
        // The carry is hardly ever wanted; on gfx10 and later it goes nowhere.
        if op.sdst.kind == Kind::Scalar && op.sdst.index != crate::wave::scalar::NULL {
            let mut carry = [0; L];
            for i in 0..L {
                let over = sum(i) < u64::from(a.at::<U32>(i)) * u64::from(b.at::<U32>(i));
                carry[i] = u32::from(over) << 31;
            }
            let bits = collect(&carry) & w.exec;
            store_pair(w, op, low, high);
            w.set_lanes(op.sdst, bits);
        } else {
            store_pair(w, op, low, high);
        }
        Flow::Next
    }
    V_MAD_CO_I64_I32 (w, op, _m) {
        let (mut a, mut b, mut c) = (Buffer::new(), Buffer::new(), Buffer::new());
        let a = fetch::<U32, L>(w, op.src[0], &mut a);
        let b = fetch::<U32, L>(w, op.src[1], &mut b);
        let c = fetch::<U64, L>(w, op.src[2], &mut c);
        let mut result = Result::<L>::new();
        let mut carry = [0; L];
        for i in 0..L {
            let product = i64::from(a.at::<U32>(i) as i32) * i64::from(b.at::<U32>(i) as i32);
            let (sum, over) = product.overflowing_add(c.at::<U64>(i) as i64);
            result.set::<U64>(i, sum as u64);
            carry[i] = u32::from(over) << 31;
        }
        write::<U64, L>(w, op, result);
        write_carry(w, op, &carry);
        Flow::Next
    }
    V_DIV_SCALE_F32 (w, op, _m) { div_scale::<F32, L>(w, op, single::div_scale); Flow::Next }
    V_DIV_SCALE_F64 (w, op, _m) { div_scale::<F64, L>(w, op, double::div_scale); Flow::Next }
    V_DIV_FMAS_F32 (w, op, _m) { div_fmas::<F32, L>(w, op, single::div_fmas); Flow::Next }
    V_DIV_FMAS_F64 (w, op, _m) { div_fmas::<F64, L>(w, op, double::div_fmas); Flow::Next }
    V_READFIRSTLANE_B32 (w, op, _m) {
        let lane = if w.exec == 0 { 0 } else { w.exec.trailing_zeros() as usize };
        let value = row(w, op.src[0], 0)[lane % L];
        w.set_s32(op.dst, value);
        Flow::Next
    }
    V_READLANE_B32 (w, op, _m) {
        let lane = w.s32(op.src[1]) as usize % L;
        let value = row(w, op.src[0], 0)[lane];
        w.set_s32(op.dst, value);
        Flow::Next
    }
    V_WRITELANE_B32 (w, op, _m) {
        let lane = w.s32(op.src[1]) as usize % L;
        let value = w.s32(op.src[0]);
        w.v[op.dst.index as usize][lane] = value;
        Flow::Next
    }
    V_MBCNT_LO_U32_B32 (w, op, _m) {
        let (mut a, mut b) = (Buffer::new(), Buffer::new());
        let (a, b) = (fetch::<U32, L>(w, op.src[0], &mut a), fetch::<U32, L>(w, op.src[1], &mut b));
        let mut result = Result::<L>::new();
        for i in 0..L {
            let below = if i < 32 { (1u32 << i) - 1 } else { u32::MAX };
            result.low[i] = (a.at::<U32>(i) & below).count_ones().wrapping_add(b.at::<U32>(i));
        }
        store(w, op.dst.index, &result.low);
        Flow::Next
    }
    V_MBCNT_HI_U32_B32 (w, op, _m) {
        let (mut a, mut b) = (Buffer::new(), Buffer::new());
        let (a, b) = (fetch::<U32, L>(w, op.src[0], &mut a), fetch::<U32, L>(w, op.src[1], &mut b));
        let mut result = Result::<L>::new();
        for i in 0..L {
            let below = if i < 32 { 0 } else { (1u32 << (i - 32)) - 1 };
            result.low[i] = (a.at::<U32>(i) & below).count_ones().wrapping_add(b.at::<U32>(i));
        }
        store(w, op.dst.index, &result.low);
        Flow::Next
    }
    V_SWAP_B32 (w, op, _m) {
        let (a, b) = (w.v[op.dst.index as usize], row(w, op.src[0], 0));
        store(w, op.dst.index, &b);
        if op.src[0].kind == Kind::Row {
            store(w, op.src[0].index, &a);
        }
        Flow::Next
    }
    V_PERMLANE16_B32 (w, op, _m) { permlane16(w, op, false, false) }
    V_PERMLANEX16_B32 (w, op, _m) { permlane16(w, op, true, false) }
    V_PERMLANE16_VAR_B32 (w, op, _m) { permlane16(w, op, false, true) }
    V_PERMLANEX16_VAR_B32 (w, op, _m) { permlane16(w, op, true, true) }
    V_PERMLANE64_B32 (w, op, _m) {
        let data = row(w, op.src[0], 0);
        // In waves of 32 there is no other half: nothing happens.
        if L == 64 {
            let swapped: [u32; L] = std::array::from_fn(|i| data[i ^ 32]);
            store(w, op.dst.index, &swapped);
        }
        Flow::Next
    }
}
