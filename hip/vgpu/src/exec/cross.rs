//! Vector operations that are more than one expression on one lane: masks, carries, the steps of a division, and whatever
//! moves values between lanes.

use crate::exec::float::{double, single};
use crate::exec::lanes::{
    compute, compute_bits, fetch, handlers, lane_mask, row, store, Buffer, Elem, F32, F64, U16, U32, U64,
};
use crate::wave::{flags, mods, Flow, Kind, Op, Row, Slot, Wave};

/// An addition or subtraction with a carry out, and a carry in where `carry` says so. `a - b` is `a + !b + 1`.
#[inline(always)]
fn add_carry<const L: usize>(w: &mut Wave<L>, op: &Op<L>, a: Slot, b: Slot, subtract: bool, carry: bool) -> Flow {
    let (mut ab, mut bb) = (Buffer::new(), Buffer::new());
    let carries = if carry { w.lanes(op.src[2]) } else { 0 };
    let (a, b) = (fetch::<U32, L>(w, a, &mut ab), fetch::<U32, L>(w, b, &mut bb));
    // Written so that it becomes vector code: a mask is -1, and the top bit of the majority is the carry.
    let sum = |i: usize| {
        let (a, b) = (a.at::<U32>(i), b.at::<U32>(i));
        let carry = if carry { lane_mask(carries, i) } else { 0 };
        if subtract {
            let value = a.wrapping_sub(b).wrapping_add(carry);
            (value, !a & b | (!a | b) & value)
        } else {
            let value = a.wrapping_add(b).wrapping_sub(carry);
            (value, a & b | (a | b) & !value)
        }
    };
    let bits = if op.flags & flags::CLAMP == 0 {
        compute_bits::<U32, L>(w, op, sum)
    } else {
        let limit = if subtract { 0 } else { u32::MAX };
        let saturated = |i: usize| match sum(i) {
            (_, out) if out >> 31 != 0 => (limit, out),
            within => within,
        };
        compute_bits::<U32, L>(w, op, saturated)
    };
    w.set_lanes(op.sdst, bits & w.exec);
    Flow::Next
}

#[inline(always)]
fn div_scale<E: Elem, const L: usize>(w: &mut Wave<L>, op: &Op<L>, scale: impl Fn(E::T, E::T, E::T) -> (E::T, bool)) {
    let (mut a, mut b, mut c) = (Buffer::new(), Buffer::new(), Buffer::new());
    let a = fetch::<E, L>(w, op.src[0], &mut a);
    let b = fetch::<E, L>(w, op.src[1], &mut b);
    let c = fetch::<E, L>(w, op.src[2], &mut c);
    let bits = compute_bits::<E, L>(
        w,
        op,
        #[inline(always)]
        |i| {
            let (value, scaled) = scale(a.at::<E>(i), b.at::<E>(i), c.at::<E>(i));
            (value, u32::from(scaled) << 31)
        },
    );
    w.set_lanes(op.sdst, bits & w.exec);
}

#[inline(always)]
fn div_fmas<E: Elem, const L: usize>(w: &mut Wave<L>, op: &Op<L>, fmas: impl Fn(E::T, E::T, E::T, bool) -> E::T) {
    let (mut a, mut b, mut c) = (Buffer::new(), Buffer::new(), Buffer::new());
    let vcc = w.vcc();
    let a = fetch::<E, L>(w, op.src[0], &mut a);
    let b = fetch::<E, L>(w, op.src[1], &mut b);
    let c = fetch::<E, L>(w, op.src[2], &mut c);
    compute::<E, L>(
        w,
        op,
        #[inline(always)]
        |i| fmas(a.at::<E>(i), b.at::<E>(i), c.at::<E>(i), lane_mask(vcc, i) != 0),
    );
}

/// Each lane of 16 takes the lane that four bits of two scalars name, from its own row of 16 or from the neighbour's.
#[inline(always)]
fn permlane16<const L: usize>(w: &mut Wave<L>, op: &Op<L>, other: bool, varying: bool) -> Flow {
    let data = row(w, Slot { mods: 0, ..op.src[0] }, 0);
    let old = w.v[op.dst.index as usize];
    let (fetch_inactive, bound) = (op.src[0].mods & mods::HIGH != 0, op.src[1].mods & mods::HIGH != 0);
    let select = row(w, Slot { mods: 0, ..op.src[1] }, 0);
    let select = if varying { None } else { Some(u64::from(w.s32(op.src[1])) | u64::from(w.s32(op.src[2])) << 32) }
        .map_or(select, |bits| Row(std::array::from_fn(|i| (bits >> (4 * (i % 16))) as u32)));
    let mut result = Row::ZERO;
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

/// Bytes picked out of two words; 8 to 11 give the sign of a half, 12 zeros, above ones.
#[inline(always)]
fn perm(a: u32, b: u32, selector: u32) -> u32 {
    let mut result = 0;
    for i in 0..4 {
        let pick = selector >> (8 * i) & 0xff;
        let word = if pick & 4 != 0 { a } else { b };
        let half = if pick & 2 != 0 { a } else { b };
        let byte = match pick {
            0..=7 => word >> (8 * (pick & 3)),
            8..=11 => ((half << (16 * (!pick & 1))) as i32 >> 31) as u32,
            12 => 0,
            _ => 0xff,
        };
        result |= (byte & 0xff) << (8 * i);
    }
    result
}

handlers! { lookup;
    V_NOP | V_PIPEFLUSH | V_CLREXCP (_w, _op, _m) { Flow::Next }
    V_CNDMASK_B32 (w, op, _m) {
        let (mut a, mut b) = (Buffer::new(), Buffer::new());
        let select = w.lanes(op.src[2]);
        let (a, b) = (fetch::<U32, L>(w, op.src[0], &mut a), fetch::<U32, L>(w, op.src[1], &mut b));
        compute::<U32, L>(
            w,
            op,
            #[inline(always)]
            |i| {
                let select = lane_mask(select, i);
                b.at::<U32>(i) & select | a.at::<U32>(i) & !select
            },
        );
        Flow::Next
    }
    V_PERM_B32 (w, op, _m) {
        let (mut a, mut b, mut c) = (Buffer::new(), Buffer::new(), Buffer::new());
        let (a, b) = (fetch::<U32, L>(w, op.src[0], &mut a), fetch::<U32, L>(w, op.src[1], &mut b));
        // Nearly always all lanes pick the same bytes, none of which are signs.
        let picks = if op.src[2].kind == Kind::Row { [8; 4] } else { w.word(op.src[2], 0).to_le_bytes() };
        if (0..4).all(|n| picks[n] / 4 != 2) {
            let (mut from_a, mut from_b, mut shifts, mut ones) = ([0u32; 4], [0u32; 4], [0u32; 4], 0u32);
            for n in 0..4 {
                let pick = u32::from(picks[n]);
                from_a[n] = if pick / 4 == 1 { u32::MAX } else { 0 };
                from_b[n] = if pick / 4 == 0 { u32::MAX } else { 0 };
                shifts[n] = pick % 4 * 8;
                ones |= if pick > 12 { 0xff << (8 * n) } else { 0 };
            }
            compute::<U32, L>(
                w,
                op,
                #[inline(always)]
                |i| {
                    let byte = |n: usize| (a.at::<U32>(i) & from_a[n] | b.at::<U32>(i) & from_b[n]) >> shifts[n] & 0xff;
                    ones | byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24
                },
            );
            return Flow::Next;
        }
        let c = fetch::<U32, L>(w, op.src[2], &mut c);
        compute::<U32, L>(
            w,
            op,
            #[inline(always)]
            |i| perm(a.at::<U32>(i), b.at::<U32>(i), c.at::<U32>(i)),
        );
        Flow::Next
    }
    V_CNDMASK_B16 (w, op, _m) {
        let (mut a, mut b) = (Buffer::new(), Buffer::new());
        let select = w.lanes(op.src[2]);
        let (a, b) = (fetch::<U16, L>(w, op.src[0], &mut a), fetch::<U16, L>(w, op.src[1], &mut b));
        compute::<U16, L>(
            w,
            op,
            #[inline(always)]
            |i| if lane_mask(select, i) != 0 { b.at::<U16>(i) } else { a.at::<U16>(i) },
        );
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
        let product = |i: usize| u64::from(a.at::<U32>(i)) * u64::from(b.at::<U32>(i));
        // The carry is hardly ever wanted; on gfx10 and later it goes nowhere.
        if op.sdst.kind == Kind::Scalar && op.sdst.index != crate::wave::scalar::NULL {
            let bits = compute_bits::<U64, L>(
                w,
                op,
                #[inline(always)]
                |i| {
                    let sum = product(i).wrapping_add(c.at::<U64>(i));
                    (sum, u32::from(sum < product(i)) << 31)
                },
            );
            w.set_lanes(op.sdst, bits & w.exec);
        } else {
            compute::<U64, L>(
                w,
                op,
                #[inline(always)]
                |i| product(i).wrapping_add(c.at::<U64>(i)),
            );
        }
        Flow::Next
    }
    V_MAD_CO_I64_I32 (w, op, _m) {
        let (mut a, mut b, mut c) = (Buffer::new(), Buffer::new(), Buffer::new());
        let a = fetch::<U32, L>(w, op.src[0], &mut a);
        let b = fetch::<U32, L>(w, op.src[1], &mut b);
        let c = fetch::<U64, L>(w, op.src[2], &mut c);
        let bits = compute_bits::<U64, L>(
            w,
            op,
            #[inline(always)]
            |i| {
                let product = i64::from(a.at::<U32>(i) as i32) * i64::from(b.at::<U32>(i) as i32);
                let (sum, over) = product.overflowing_add(c.at::<U64>(i) as i64);
                (sum as u64, u32::from(over) << 31)
            },
        );
        w.set_lanes(op.sdst, bits & w.exec);
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
        compute::<U32, L>(
            w,
            op,
            #[inline(always)]
            |i| {
                let below = if i < 32 { (1u32 << i) - 1 } else { u32::MAX };
                (a.at::<U32>(i) & below).count_ones().wrapping_add(b.at::<U32>(i))
            },
        );
        Flow::Next
    }
    V_MBCNT_HI_U32_B32 (w, op, _m) {
        let (mut a, mut b) = (Buffer::new(), Buffer::new());
        let (a, b) = (fetch::<U32, L>(w, op.src[0], &mut a), fetch::<U32, L>(w, op.src[1], &mut b));
        compute::<U32, L>(
            w,
            op,
            #[inline(always)]
            |i| {
                let below = if i < 32 { 0 } else { (1u32 << (i - 32)) - 1 };
                (a.at::<U32>(i) & below).count_ones().wrapping_add(b.at::<U32>(i))
            },
        );
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
            let mut swapped = Row::ZERO;
            for i in 0..L {
                swapped[i] = data[i ^ 32];
            }
            store(w, op.dst.index, &swapped);
        }
        Flow::Next
    }
}
