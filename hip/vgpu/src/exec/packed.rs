//! Packed operations: two results in one register or register pair, mixed precision, dot products.

use crate::exec::float::{self, bf16_to_f32, f16_to_f32, f32_to_bf16, single};
use crate::exec::lanes::{handlers, row, store, write, Elem, F16Wide, Result, F16, F32, I16, U16};
use crate::wave::{flags, mods, Flow, Op, Slot, Wave};

/// The halves of a packed source that one of the two results reads: in the low sixteen bits, the sign changed as asked for.
#[inline(always)]
fn half<const L: usize>(w: &Wave<L>, slot: Slot, high: bool) -> [u32; L] {
    let mut values = row(w, slot, 0);
    let (pick, negate) = if high { (mods::HIGH_HI, mods::NEG_HI) } else { (mods::HIGH, mods::NEG) };
    if slot.mods & pick != 0 {
        for value in &mut values {
            *value >>= 16;
        }
    }
    if slot.mods & negate != 0 {
        for value in &mut values {
            *value ^= 0x8000;
        }
    }
    values
}

#[inline(always)]
fn packed<E: Elem, const N: usize, const L: usize>(w: &mut Wave<L>, op: &Op<L>, f: impl Fn([E::T; N]) -> E::T) -> Flow {
    let mut result = [0; L];
    for high in [false, true] {
        let sources: [[u32; L]; N] = std::array::from_fn(|n| half(w, op.src[n], high));
        for i in 0..L {
            let mut bits = E::put(f(std::array::from_fn(|n| E::get(sources[n][i], 0)))).0 & 0xffff;
            if op.flags & flags::CLAMP != 0 {
                bits = E::finish((bits, 0), flags::CLAMP, w.mode).0;
            }
            result[i] |= if high { bits << 16 } else { bits };
        }
    }
    store(w, op.dst.index, &result);
    Flow::Next
}

/// Two f32 in a pair of registers; the modifiers pick the word that each result reads.
#[inline(always)]
fn packed32<const N: usize, const L: usize>(w: &mut Wave<L>, op: &Op<L>, f: impl Fn([f32; N]) -> f32) -> Flow {
    let mut results = [[0; L]; 2];
    for high in 0..2 {
        let sources: [[u32; L]; N] = std::array::from_fn(|n| {
            let slot = op.src[n];
            let (pick, negate) = [(mods::HIGH, mods::NEG), (mods::HIGH_HI, mods::NEG_HI)][high];
            let mut values = row(w, slot, u16::from(slot.mods & pick != 0));
            if slot.mods & negate != 0 {
                for value in &mut values {
                    *value ^= 0x8000_0000;
                }
            }
            values
        });
        for i in 0..L {
            results[high][i] = f(std::array::from_fn(|n| f32::from_bits(sources[n][i]))).to_bits();
        }
        if op.flags & flags::CLAMP != 0 {
            for value in &mut results[high] {
                *value = F32::finish((*value, 0), flags::CLAMP, w.mode).0;
            }
        }
    }
    store(w, op.dst.index, &results[0]);
    store(w, op.dst.index + 1, &results[1]);
    Flow::Next
}

/// A source of a mixed-precision operation: an f32, or one half as an f16.
#[inline(always)]
fn mixed<const L: usize>(w: &Wave<L>, slot: Slot) -> [f32; L] {
    let values = row(w, slot, 0);
    let shift = if slot.mods & mods::HIGH != 0 { 16 } else { 0 };
    let is_half = slot.mods & mods::HIGH_HI != 0;
    std::array::from_fn(|i| {
        let value = if is_half { f16_to_f32((values[i] >> shift) as u16) } else { f32::from_bits(values[i]) };
        let value = if slot.mods & mods::ABS != 0 { value.abs() } else { value };
        if slot.mods & mods::NEG != 0 {
            -value
        } else {
            value
        }
    })
}

#[inline(always)]
fn fma_mix<const L: usize>(w: &Wave<L>, op: &Op<L>) -> [f32; L] {
    let (a, b, c) = (mixed(w, op.src[0]), mixed(w, op.src[1]), mixed(w, op.src[2]));
    std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
}

/// A dot product of integers of `BITS` bits; signed where the flags say so.
#[inline(always)]
fn dot<const BITS: u32, const L: usize>(w: &mut Wave<L>, op: &Op<L>, signed: [bool; 2]) -> Flow {
    let (a, b) = (row(w, op.src[0], 0), row(w, op.src[1], 0));
    let c = row(w, op.src[2], 0);
    let part = |word: u32, n: u32, signed: bool| {
        let top = word << (32 - BITS * (n + 1));
        if signed {
            i64::from(top as i32 >> (32 - BITS))
        } else {
            i64::from(top >> (32 - BITS))
        }
    };
    let any_signed = signed[0] || signed[1];
    let mut result = [0; L];
    if BITS == 8 && op.flags & flags::CLAMP == 0 {
        // The common one, in 32 bits so that it becomes vector code.
        for i in 0..L {
            let mut sum = c[i];
            for n in 0..4 {
                let (x, y) = (a[i] << (24 - 8 * n), b[i] << (24 - 8 * n));
                let x = if signed[0] { x as i32 >> 24 } else { (x >> 24) as i32 };
                let y = if signed[1] { y as i32 >> 24 } else { (y >> 24) as i32 };
                sum = sum.wrapping_add((x * y) as u32);
            }
            result[i] = sum;
        }
    } else {
        for i in 0..L {
            let start = if any_signed { i64::from(c[i] as i32) } else { i64::from(c[i]) };
            let sum = (0..32 / BITS).fold(start, |sum, n| sum + part(a[i], n, signed[0]) * part(b[i], n, signed[1]));
            result[i] = match (op.flags & flags::CLAMP != 0, any_signed) {
                (false, _) => sum as u32,
                (true, true) => sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32,
                (true, false) => sum.clamp(0, i64::from(u32::MAX)) as u32,
            };
        }
    }
    store(w, op.dst.index, &result);
    Flow::Next
}

/// A dot product of two pairs of sixteen-bit floats onto an f32.
#[inline(always)]
fn dot2<const L: usize>(w: &mut Wave<L>, op: &Op<L>, widen: impl Fn(u16) -> f32) -> Flow {
    // The two-operand form has no modifiers and reads the halves in their order.
    let ordered = |slot: Slot| Slot { mods: if op.imm == 1 { mods::HIGH_HI } else { slot.mods }, ..slot };
    let (a0, b0) = (half(w, ordered(op.src[0]), false), half(w, ordered(op.src[1]), false));
    let (a1, b1) = (half(w, ordered(op.src[0]), true), half(w, ordered(op.src[1]), true));
    let c = row(w, op.src[2], 0);
    let negate = op.src[2].mods & mods::NEG != 0;
    let mut result = Result::<L>::new();
    for i in 0..L {
        let c = f32::from_bits(if negate { c[i] ^ 0x8000_0000 } else { c[i] });
        let low = widen(a0[i] as u16).mul_add(widen(b0[i] as u16), c);
        result.set::<F32>(i, widen(a1[i] as u16).mul_add(widen(b1[i] as u16), low));
    }
    write::<F32, L>(w, op, result);
    Flow::Next
}

/// One of four bytes as an f32. The plain form has the first; two modifier bits pick another.
fn from_fp8<const L: usize>(w: &mut Wave<L>, op: &Op<L>, bf8: bool, ocp: bool) -> Flow {
    let byte = u32::from(op.src[0].mods & mods::HIGH != 0) | u32::from(op.src[1].mods & mods::HIGH != 0) << 1;
    let values = row(w, op.src[0], 0);
    let result: [u32; L] =
        std::array::from_fn(|i| float::fp8_to_f32((values[i] >> (8 * byte)) as u8, bf8, ocp).to_bits());
    store(w, op.dst.index, &result);
    Flow::Next
}

/// Two bytes of a half as two f32.
fn pair_from_fp8<const L: usize>(w: &mut Wave<L>, op: &Op<L>, bf8: bool, ocp: bool) -> Flow {
    let shift = if op.src[0].mods & mods::HIGH != 0 { 16 } else { 0 };
    let values = row(w, op.src[0], 0);
    for n in 0..2 {
        let result: [u32; L] =
            std::array::from_fn(|i| float::fp8_to_f32((values[i] >> (shift + 8 * n)) as u8, bf8, ocp).to_bits());
        store(w, op.dst.index + n as u16, &result);
    }
    Flow::Next
}

/// Two f32 as bytes of one half; the other half stays.
fn pair_to_fp8<const L: usize>(w: &mut Wave<L>, op: &Op<L>, bf8: bool, ocp: bool) -> Flow {
    let (mut a, mut b) = (crate::exec::lanes::Buffer::new(), crate::exec::lanes::Buffer::new());
    let (a, b) = (
        crate::exec::lanes::fetch::<F32, L>(w, Slot { mods: op.src[0].mods & 3, ..op.src[0] }, &mut a),
        crate::exec::lanes::fetch::<F32, L>(w, Slot { mods: op.src[1].mods & 3, ..op.src[1] }, &mut b),
    );
    let old = w.v[op.dst.index as usize];
    let result: [u32; L] = std::array::from_fn(|i| {
        let saturate = op.flags & flags::CLAMP != 0;
        let low = float::f32_to_fp8(a.at::<F32>(i), bf8, ocp, saturate);
        let high = float::f32_to_fp8(b.at::<F32>(i), bf8, ocp, saturate);
        let pair = u32::from(low) | u32::from(high) << 8;
        if op.flags & flags::DST_HIGH != 0 {
            old[i] & 0xffff | pair << 16
        } else {
            old[i] & 0xffff_0000 | pair
        }
    });
    store(w, op.dst.index, &result);
    Flow::Next
}

handlers! { lookup;
    V_PK_ADD_F16 (w, op, _m) { packed::<F16, 2, L>(w, op, |[a, b]| a + b) }
    V_PK_MUL_F16 (w, op, _m) { packed::<F16, 2, L>(w, op, |[a, b]| a * b) }
    V_PK_MAX_NUM_F16 (w, op, _m) { packed::<F16, 2, L>(w, op, |[a, b]| single::max(a, b)) }
    V_PK_MIN_NUM_F16 (w, op, _m) { packed::<F16, 2, L>(w, op, |[a, b]| single::min(a, b)) }
    V_PK_MAXIMUM_F16 (w, op, _m) { packed::<F16, 2, L>(w, op, |[a, b]| single::maximum(a, b)) }
    V_PK_MINIMUM_F16 (w, op, _m) { packed::<F16, 2, L>(w, op, |[a, b]| single::minimum(a, b)) }
    V_PK_FMA_F16 (w, op, _m) { packed::<F16Wide, 3, L>(w, op, |[a, b, c]| a.mul_add(b, c)) }
    V_PK_FMAC_F16 (w, op, _m) {
        // Two operands and no modifiers: the halves in their order.
        let mut result = [0; L];
        let (a, b, c) = (row(w, op.src[0], 0), row(w, op.src[1], 0), w.v[op.dst.index as usize]);
        for i in 0..L {
            for shift in [0, 16] {
                let wide = |x: u32| f64::from(f16_to_f32((x >> shift) as u16));
                result[i] |= u32::from(float::f64_to_f16(wide(a[i]).mul_add(wide(b[i]), wide(c[i])))) << shift;
            }
        }
        store(w, op.dst.index, &result);
        Flow::Next
    }
    V_PK_ADD_U16 (w, op, _m) {
        if op.flags & flags::CLAMP != 0 { packed::<U16, 2, L>(w, op, |[a, b]| a.saturating_add(b)) }
        else { packed::<U16, 2, L>(w, op, |[a, b]| a.wrapping_add(b)) }
    }
    V_PK_ADD_I16 (w, op, _m) {
        if op.flags & flags::CLAMP != 0 { packed::<I16, 2, L>(w, op, |[a, b]| a.saturating_add(b)) }
        else { packed::<I16, 2, L>(w, op, |[a, b]| a.wrapping_add(b)) }
    }
    V_PK_SUB_U16 (w, op, _m) {
        if op.flags & flags::CLAMP != 0 { packed::<U16, 2, L>(w, op, |[a, b]| a.saturating_sub(b)) }
        else { packed::<U16, 2, L>(w, op, |[a, b]| a.wrapping_sub(b)) }
    }
    V_PK_SUB_I16 (w, op, _m) {
        if op.flags & flags::CLAMP != 0 { packed::<I16, 2, L>(w, op, |[a, b]| a.saturating_sub(b)) }
        else { packed::<I16, 2, L>(w, op, |[a, b]| a.wrapping_sub(b)) }
    }
    V_PK_MUL_LO_U16 (w, op, _m) { packed::<U16, 2, L>(w, op, |[a, b]| a.wrapping_mul(b)) }
    V_PK_MAD_U16 (w, op, _m) {
        if op.flags & flags::CLAMP != 0 {
            packed::<U16, 3, L>(w, op, |[a, b, c]| (u32::from(a) * u32::from(b) + u32::from(c)).min(0xffff) as u16)
        } else {
            packed::<U16, 3, L>(w, op, |[a, b, c]| a.wrapping_mul(b).wrapping_add(c))
        }
    }
    V_PK_MAD_I16 (w, op, _m) {
        if op.flags & flags::CLAMP != 0 {
            packed::<I16, 3, L>(w, op, |[a, b, c]| (i32::from(a) * i32::from(b) + i32::from(c)).clamp(-32768, 32767) as i16)
        } else {
            packed::<I16, 3, L>(w, op, |[a, b, c]| a.wrapping_mul(b).wrapping_add(c))
        }
    }
    V_PK_MAX_U16 (w, op, _m) { packed::<U16, 2, L>(w, op, |[a, b]| a.max(b)) }
    V_PK_MIN_U16 (w, op, _m) { packed::<U16, 2, L>(w, op, |[a, b]| a.min(b)) }
    V_PK_MAX_I16 (w, op, _m) { packed::<I16, 2, L>(w, op, |[a, b]| a.max(b)) }
    V_PK_MIN_I16 (w, op, _m) { packed::<I16, 2, L>(w, op, |[a, b]| a.min(b)) }
    V_PK_LSHLREV_B16 (w, op, _m) { packed::<U16, 2, L>(w, op, |[a, b]| b << (a & 15)) }
    V_PK_LSHRREV_B16 (w, op, _m) { packed::<U16, 2, L>(w, op, |[a, b]| b >> (a & 15)) }
    V_PK_ASHRREV_I16 (w, op, _m) { packed::<I16, 2, L>(w, op, |[a, b]| b >> (a & 15)) }
    V_PK_ADD_F32 (w, op, _m) { packed32::<2, L>(w, op, |[a, b]| a + b) }
    V_PK_MUL_F32 (w, op, _m) { packed32::<2, L>(w, op, |[a, b]| a * b) }
    V_PK_FMA_F32 (w, op, _m) { packed32::<3, L>(w, op, |[a, b, c]| a.mul_add(b, c)) }
    V_PK_MOV_B32 (w, op, _m) {
        // The low result reads the first source, the high one the second, each the word that its op_sel names.
        let low = row(w, op.src[0], u16::from(op.src[0].mods & mods::HIGH != 0));
        let high = row(w, op.src[1], u16::from(op.src[1].mods & mods::HIGH != 0));
        store(w, op.dst.index, &low);
        store(w, op.dst.index + 1, &high);
        Flow::Next
    }
    V_FMA_MIX_F32 (w, op, _m) {
        let mut result = Result::<L>::new();
        result.low = fma_mix(w, op).map(f32::to_bits);
        write::<F32, L>(w, op, result);
        Flow::Next
    }
    V_FMA_MIXLO_F16 (w, op, _m) {
        let mut result = Result::<L>::new();
        result.low = fma_mix(w, op).map(|value| u32::from(float::f32_to_f16(value)));
        write::<F16, L>(w, op, result);
        Flow::Next
    }
    V_FMA_MIXHI_F16 (w, op, _m) {
        let mut values = fma_mix(w, op).map(|value| u32::from(float::f32_to_f16(value)));
        if op.flags & flags::CLAMP != 0 {
            values = values.map(|value| F16::finish((value, 0), flags::CLAMP, w.mode).0);
        }
        let old = w.v[op.dst.index as usize];
        let merged: [u32; L] = std::array::from_fn(|i| values[i] << 16 | old[i] & 0xffff);
        store(w, op.dst.index, &merged);
        Flow::Next
    }
    V_CVT_F32_FP8 (w, op, m) { from_fp8(w, op, false, m.arch.generation() >= 12) }
    V_CVT_F32_BF8 (w, op, m) { from_fp8(w, op, true, m.arch.generation() >= 12) }
    V_CVT_PK_F32_FP8 (w, op, m) { pair_from_fp8(w, op, false, m.arch.generation() >= 12) }
    V_CVT_PK_F32_BF8 (w, op, m) { pair_from_fp8(w, op, true, m.arch.generation() >= 12) }
    V_CVT_PK_FP8_F32 (w, op, m) { pair_to_fp8(w, op, false, m.arch.generation() >= 12) }
    V_CVT_PK_BF8_F32 (w, op, m) { pair_to_fp8(w, op, true, m.arch.generation() >= 12) }
    V_DOT4_I32_I8 | V_DOT4C_I32_I8 (w, op, _m) { dot::<8, L>(w, op, [true, true]) }
    V_DOT4_U32_U8 (w, op, _m) { dot::<8, L>(w, op, [false, false]) }
    V_DOT4_I32_IU8 (w, op, _m) {
        let signed = [op.src[0].mods & mods::NEG != 0, op.src[1].mods & mods::NEG != 0];
        dot::<8, L>(w, op, signed)
    }
    V_DOT8_I32_I4 | V_DOT8C_I32_I4 (w, op, _m) { dot::<4, L>(w, op, [true, true]) }
    V_DOT8_U32_U4 (w, op, _m) { dot::<4, L>(w, op, [false, false]) }
    V_DOT8_I32_IU4 (w, op, _m) {
        let signed = [op.src[0].mods & mods::NEG != 0, op.src[1].mods & mods::NEG != 0];
        dot::<4, L>(w, op, signed)
    }
    V_DOT2_I32_I16 | V_DOT2C_I32_I16 (w, op, _m) { dot::<16, L>(w, op, [true, true]) }
    V_DOT2_U32_U16 (w, op, _m) { dot::<16, L>(w, op, [false, false]) }
    V_DOT2_F32_F16 | V_DOT2ACC_F32_F16 (w, op, _m) { dot2(w, op, f16_to_f32) }
    V_DOT2_F32_BF16 (w, op, _m) { dot2(w, op, bf16_to_f32) }
    V_DOT2_BF16_BF16 (w, op, _m) {
        let (a, b) = (row(w, op.src[0], 0), row(w, op.src[1], 0));
        let shift = if op.src[2].mods & mods::HIGH != 0 { 16 } else { 0 };
        let c = row(w, op.src[2], 0);
        let mut result = Result::<L>::new();
        for i in 0..L {
            let wide = |x: u32, shift: u32| bf16_to_f32((x >> shift) as u16);
            let sum = wide(a[i], 0).mul_add(wide(b[i], 0), wide(c[i], shift));
            result.low[i] = u32::from(f32_to_bf16(wide(a[i], 16).mul_add(wide(b[i], 16), sum)));
        }
        write::<U16, L>(w, op, result);
        Flow::Next
    }
    V_DOT2_F16_F16 (w, op, _m) {
        let (a, b) = (row(w, op.src[0], 0), row(w, op.src[1], 0));
        let shift = if op.src[2].mods & mods::HIGH != 0 { 16 } else { 0 };
        let c = row(w, op.src[2], 0);
        let mut result = Result::<L>::new();
        for i in 0..L {
            let wide = |x: u32, shift: u32| f16_to_f32((x >> shift) as u16);
            let sum = wide(a[i], 0).mul_add(wide(b[i], 0), wide(c[i], shift));
            result.set::<F16>(i, wide(a[i], 16).mul_add(wide(b[i], 16), sum));
        }
        write::<F16, L>(w, op, result);
        Flow::Next
    }
}
