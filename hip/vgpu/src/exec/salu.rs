//! Scalar arithmetic, compares, moves and control flow.

use crate::exec::float::{f16_to_f32, f32_to_f16, f32_to_f16_rtz, single};
use crate::exec::lanes::handlers;
use crate::exec::machine::{PRIVATE_APERTURE, SHARED_APERTURE};
use crate::failure::Cause;
use crate::wave::{scalar, Flow, Op, Slot, Wave};

/// How a scalar operand or result of a type is read and written.
trait Scalar: Copy {
    fn read<const L: usize>(w: &Wave<L>, slot: Slot) -> Self;
    fn write<const L: usize>(self, w: &mut Wave<L>, slot: Slot);
}

macro_rules! scalars {
    ($($type:ty, $read:ident, $write:ident, $get:expr, $put:expr;)*) => {$(
        impl Scalar for $type {
            #[inline(always)]
            fn read<const L: usize>(w: &Wave<L>, slot: Slot) -> Self { ($get)(w.$read(slot)) }
            #[inline(always)]
            fn write<const L: usize>(self, w: &mut Wave<L>, slot: Slot) { w.$write(slot, ($put)(self)) }
        }
    )*};
}
scalars! {
    u32, s32, set_s32, |x| x, |x| x;
    i32, s32, set_s32, |x| x as i32, |x| x as u32;
    u64, s64, set_s64, |x| x, |x| x;
    i64, s64, set_s64, |x| x as i64, |x| x as u64;
    f32, s32, set_s32, f32::from_bits, f32::to_bits;
}

/// An f16 in the low half of a scalar register.
#[derive(Clone, Copy)]
struct Half(f32);
impl Scalar for Half {
    #[inline(always)]
    fn read<const L: usize>(w: &Wave<L>, slot: Slot) -> Self {
        Half(f16_to_f32(w.s32(slot) as u16))
    }
    #[inline(always)]
    fn write<const L: usize>(self, w: &mut Wave<L>, slot: Slot) {
        w.set_s32(slot, u32::from(f32_to_f16(self.0)));
    }
}

/// Lines such as `S_AND_B32 (a: u32, b: u32) -> u32, scc = r != 0 { a & b }`. The result is `r`; SCC is only written where a
/// line says how.
macro_rules! arithmetic {
    ($lookup:ident; $($op:ident ($scc:ident; $($a:ident: $t:ty),+) -> ($r:ident) $body:block $(, scc = $new:expr)?;)*) => {
        handlers! { $lookup;
            $($op (w, op, _m) {
                let $scc = w.scc;
                let mut n = 0;
                $(
                    let $a = <$t as Scalar>::read(w, op.src[n]);
                    n += 1;
                )+
                let _ = ($scc, n);
                let $r = $body;
                $r.write(w, op.dst);
                $(w.scc = $new;)?
                Flow::Next
            })*
        }
    };
}

arithmetic! { lookup;
    S_MOV_B32 (scc; a: u32) -> (r) { a };
    S_MOV_B64 (scc; a: u64) -> (r) { a };
    S_NOT_B32 (scc; a: u32) -> (r) { !a }, scc = r != 0;
    S_NOT_B64 (scc; a: u64) -> (r) { !a }, scc = r != 0;
    S_BREV_B32 (scc; a: u32) -> (r) { a.reverse_bits() };
    S_BREV_B64 (scc; a: u64) -> (r) { a.reverse_bits() };
    S_BCNT0_I32_B32 (scc; a: u32) -> (r) { a.count_zeros() }, scc = r != 0;
    S_BCNT0_I32_B64 (scc; a: u64) -> (r) { a.count_zeros() }, scc = r != 0;
    S_BCNT1_I32_B32 (scc; a: u32) -> (r) { a.count_ones() }, scc = r != 0;
    S_BCNT1_I32_B64 (scc; a: u64) -> (r) { a.count_ones() }, scc = r != 0;
    S_FF0_I32_B32 (scc; a: u32) -> (r) { if a == u32::MAX { u32::MAX } else { a.trailing_ones() } };
    S_FF0_I32_B64 (scc; a: u64) -> (r) { if a == u64::MAX { u32::MAX } else { a.trailing_ones() } };
    S_CTZ_I32_B32 (scc; a: u32) -> (r) { if a == 0 { u32::MAX } else { a.trailing_zeros() } };
    S_CTZ_I32_B64 (scc; a: u64) -> (r) { if a == 0 { u32::MAX } else { a.trailing_zeros() } };
    S_CLZ_I32_U32 (scc; a: u32) -> (r) { if a == 0 { u32::MAX } else { a.leading_zeros() } };
    S_CLZ_I32_U64 (scc; a: u64) -> (r) { if a == 0 { u32::MAX } else { a.leading_zeros() } };
    S_CLS_I32 (scc; a: i32) -> (r) { let x = a ^ a >> 31; if x == 0 { u32::MAX } else { x.leading_zeros() } };
    S_CLS_I32_I64 (scc; a: i64) -> (r) { let x = a ^ a >> 63; if x == 0 { u32::MAX } else { x.leading_zeros() } };
    S_SEXT_I32_I8 (scc; a: u32) -> (r) { i32::from(a as i8) };
    S_SEXT_I32_I16 (scc; a: u32) -> (r) { i32::from(a as i16) };
    S_ABS_I32 (scc; a: i32) -> (r) { a.wrapping_abs() }, scc = r != 0;
    S_BITREPLICATE_B64_B32 (scc; a: u32) -> (r) { (0..32).fold(0u64, |r, i| r | u64::from(a >> i & 1) * 3 << (2 * i)) };
    S_QUADMASK_B32 (scc; a: u32) -> (r) { (0..8).fold(0u32, |r, i| r | u32::from(a >> (4 * i) & 15 != 0) << i) }, scc = r != 0;
    S_QUADMASK_B64 (scc; a: u64) -> (r) { (0..16).fold(0u64, |r, i| r | u64::from(a >> (4 * i) & 15 != 0) << i) }, scc = r != 0;
    S_WQM_B32 (scc; a: u32) -> (r) { (0..8).fold(0u32, |r, i| r | u32::from(a >> (4 * i) & 15 != 0) * 15 << (4 * i)) }, scc = r != 0;
    S_WQM_B64 (scc; a: u64) -> (r) { (0..16).fold(0u64, |r, i| r | u64::from(a >> (4 * i) & 15 != 0) * 15 << (4 * i)) }, scc = r != 0;
    S_ADD_CO_U32 (scc; a: u32, b: u32) -> (r) { a.wrapping_add(b) }, scc = r < a;
    S_SUB_CO_U32 (scc; a: u32, b: u32) -> (r) { a.wrapping_sub(b) }, scc = b > a;
    S_ADD_CO_I32 (scc; a: i32, b: i32) -> (r) { a.wrapping_add(b) }, scc = a.checked_add(b).is_none();
    S_SUB_CO_I32 (scc; a: i32, b: i32) -> (r) { a.wrapping_sub(b) }, scc = a.checked_sub(b).is_none();
    S_ADD_CO_CI_U32 (scc; a: u32, b: u32) -> (r) { a.wrapping_add(b).wrapping_add(u32::from(scc)) },
        scc = u64::from(a) + u64::from(b) + u64::from(scc) > u64::from(u32::MAX);
    S_SUB_CO_CI_U32 (scc; a: u32, b: u32) -> (r) { a.wrapping_sub(b).wrapping_sub(u32::from(scc)) },
        scc = u64::from(b) + u64::from(scc) > u64::from(a);
    S_ADD_NC_U64 (scc; a: u64, b: u64) -> (r) { a.wrapping_add(b) };
    S_SUB_NC_U64 (scc; a: u64, b: u64) -> (r) { a.wrapping_sub(b) };
    S_MUL_U64 (scc; a: u64, b: u64) -> (r) { a.wrapping_mul(b) };
    S_ABSDIFF_I32 (scc; a: i32, b: i32) -> (r) { a.wrapping_sub(b).wrapping_abs() }, scc = r != 0;
    S_MIN_I32 (scc; a: i32, b: i32) -> (r) { a.min(b) }, scc = a < b;
    S_MIN_U32 (scc; a: u32, b: u32) -> (r) { a.min(b) }, scc = a < b;
    S_MAX_I32 (scc; a: i32, b: i32) -> (r) { a.max(b) }, scc = a >= b;
    S_MAX_U32 (scc; a: u32, b: u32) -> (r) { a.max(b) }, scc = a >= b;
    S_CSELECT_B32 (scc; a: u32, b: u32) -> (r) { if scc { a } else { b } };
    S_CSELECT_B64 (scc; a: u64, b: u64) -> (r) { if scc { a } else { b } };
    S_AND_B32 (scc; a: u32, b: u32) -> (r) { a & b }, scc = r != 0;
    S_AND_B64 (scc; a: u64, b: u64) -> (r) { a & b }, scc = r != 0;
    S_OR_B32 (scc; a: u32, b: u32) -> (r) { a | b }, scc = r != 0;
    S_OR_B64 (scc; a: u64, b: u64) -> (r) { a | b }, scc = r != 0;
    S_XOR_B32 (scc; a: u32, b: u32) -> (r) { a ^ b }, scc = r != 0;
    S_XOR_B64 (scc; a: u64, b: u64) -> (r) { a ^ b }, scc = r != 0;
    S_AND_NOT1_B32 (scc; a: u32, b: u32) -> (r) { a & !b }, scc = r != 0;
    S_AND_NOT1_B64 (scc; a: u64, b: u64) -> (r) { a & !b }, scc = r != 0;
    S_OR_NOT1_B32 (scc; a: u32, b: u32) -> (r) { a | !b }, scc = r != 0;
    S_OR_NOT1_B64 (scc; a: u64, b: u64) -> (r) { a | !b }, scc = r != 0;
    S_NAND_B32 (scc; a: u32, b: u32) -> (r) { !(a & b) }, scc = r != 0;
    S_NAND_B64 (scc; a: u64, b: u64) -> (r) { !(a & b) }, scc = r != 0;
    S_NOR_B32 (scc; a: u32, b: u32) -> (r) { !(a | b) }, scc = r != 0;
    S_NOR_B64 (scc; a: u64, b: u64) -> (r) { !(a | b) }, scc = r != 0;
    S_XNOR_B32 (scc; a: u32, b: u32) -> (r) { !(a ^ b) }, scc = r != 0;
    S_XNOR_B64 (scc; a: u64, b: u64) -> (r) { !(a ^ b) }, scc = r != 0;
    S_LSHL_B32 (scc; a: u32, b: u32) -> (r) { a << (b & 31) }, scc = r != 0;
    S_LSHL_B64 (scc; a: u64, b: u32) -> (r) { a << (b & 63) }, scc = r != 0;
    S_LSHR_B32 (scc; a: u32, b: u32) -> (r) { a >> (b & 31) }, scc = r != 0;
    S_LSHR_B64 (scc; a: u64, b: u32) -> (r) { a >> (b & 63) }, scc = r != 0;
    S_ASHR_I32 (scc; a: i32, b: u32) -> (r) { a >> (b & 31) }, scc = r != 0;
    S_ASHR_I64 (scc; a: i64, b: u32) -> (r) { a >> (b & 63) }, scc = r != 0;
    S_LSHL1_ADD_U32 (scc; a: u32, b: u32) -> (r) { (a << 1).wrapping_add(b) }, scc = (u64::from(a) << 1) + u64::from(b) > u64::from(u32::MAX);
    S_LSHL2_ADD_U32 (scc; a: u32, b: u32) -> (r) { (a << 2).wrapping_add(b) }, scc = (u64::from(a) << 2) + u64::from(b) > u64::from(u32::MAX);
    S_LSHL3_ADD_U32 (scc; a: u32, b: u32) -> (r) { (a << 3).wrapping_add(b) }, scc = (u64::from(a) << 3) + u64::from(b) > u64::from(u32::MAX);
    S_LSHL4_ADD_U32 (scc; a: u32, b: u32) -> (r) { (a << 4).wrapping_add(b) }, scc = (u64::from(a) << 4) + u64::from(b) > u64::from(u32::MAX);
    S_BFM_B32 (scc; a: u32, b: u32) -> (r) { ((1u32 << (a & 31)) - 1) << (b & 31) };
    S_BFM_B64 (scc; a: u32, b: u32) -> (r) { ((1u64 << (a & 63)) - 1) << (b & 63) };
    S_MUL_I32 (scc; a: u32, b: u32) -> (r) { a.wrapping_mul(b) };
    S_MUL_HI_U32 (scc; a: u32, b: u32) -> (r) { (u64::from(a) * u64::from(b) >> 32) as u32 };
    S_MUL_HI_I32 (scc; a: i32, b: i32) -> (r) { (i64::from(a) * i64::from(b) >> 32) as i32 };
    S_BFE_U32 (scc; a: u32, b: u32) -> (r) { bfe(u64::from(a), b & 31, (b >> 16 & 127).min(32)) as u32 }, scc = r != 0;
    S_BFE_I32 (scc; a: i32, b: u32) -> (r) {
        // The sign is the field's top bit; a field that reaches past the register takes the register's.
        sign(bfe(i64::from(a) as u64, b & 31, (b >> 16 & 127).min(32)), (b >> 16 & 127).min(32)) as i32
    }, scc = r != 0;
    S_BFE_U64 (scc; a: u64, b: u32) -> (r) { bfe(a, b & 63, (b >> 16 & 127).min(64)) }, scc = r != 0;
    S_BFE_I64 (scc; a: i64, b: u32) -> (r) {
        let width = (b >> 16 & 127).min(64);
        sign(bfe(a as u64, b & 63, width), width.min(64 - (b & 63)))
    }, scc = r != 0;
    S_PACK_LL_B32_B16 (scc; a: u32, b: u32) -> (r) { a & 0xffff | b << 16 };
    S_PACK_LH_B32_B16 (scc; a: u32, b: u32) -> (r) { a & 0xffff | b & 0xffff_0000 };
    S_PACK_HL_B32_B16 (scc; a: u32, b: u32) -> (r) { a >> 16 | b << 16 };
    S_PACK_HH_B32_B16 (scc; a: u32, b: u32) -> (r) { a >> 16 | b & 0xffff_0000 };
    S_ADD_F32 (scc; a: f32, b: f32) -> (r) { a + b };
    S_SUB_F32 (scc; a: f32, b: f32) -> (r) { a - b };
    S_MUL_F32 (scc; a: f32, b: f32) -> (r) { a * b };
    S_MIN_NUM_F32 (scc; a: f32, b: f32) -> (r) { single::min(a, b) };
    S_MAX_NUM_F32 (scc; a: f32, b: f32) -> (r) { single::max(a, b) };
    S_MINIMUM_F32 (scc; a: f32, b: f32) -> (r) { single::minimum(a, b) };
    S_MAXIMUM_F32 (scc; a: f32, b: f32) -> (r) { single::maximum(a, b) };
    S_FMAC_F32 (scc; a: f32, b: f32, c: f32) -> (r) { a.mul_add(b, c) };
    S_FMAAK_F32 (scc; a: f32, b: f32, c: f32) -> (r) { a.mul_add(b, c) };
    S_FMAMK_F32 (scc; a: f32, b: f32, c: f32) -> (r) { a.mul_add(b, c) };
    S_CEIL_F32 (scc; a: f32) -> (r) { a.ceil() };
    S_FLOOR_F32 (scc; a: f32) -> (r) { a.floor() };
    S_TRUNC_F32 (scc; a: f32) -> (r) { a.trunc() };
    S_RNDNE_F32 (scc; a: f32) -> (r) { a.round_ties_even() };
    S_CVT_F32_I32 (scc; a: i32) -> (r) { a as f32 };
    S_CVT_F32_U32 (scc; a: u32) -> (r) { a as f32 };
    S_CVT_I32_F32 (scc; a: f32) -> (r) { a as i32 };
    S_CVT_U32_F32 (scc; a: f32) -> (r) { a as u32 };
    S_CVT_F16_F32 (scc; a: f32) -> (r) { Half(a) };
    S_CVT_F32_F16 (scc; a: Half) -> (r) { a.0 };
    S_CVT_HI_F32_F16 (scc; a: u32) -> (r) { f16_to_f32((a >> 16) as u16) };
    S_CVT_PK_RTZ_F16_F32 (scc; a: f32, b: f32) -> (r) { u32::from(f32_to_f16_rtz(a)) | u32::from(f32_to_f16_rtz(b)) << 16 };
    S_ADD_F16 (scc; a: Half, b: Half) -> (r) { Half(a.0 + b.0) };
    S_SUB_F16 (scc; a: Half, b: Half) -> (r) { Half(a.0 - b.0) };
    S_MUL_F16 (scc; a: Half, b: Half) -> (r) { Half(a.0 * b.0) };
    S_FMAC_F16 (scc; a: Half, b: Half, c: Half) -> (r) {
        let wide = f64::from(a.0).mul_add(f64::from(b.0), f64::from(c.0));
        Half(f16_to_f32(crate::exec::float::f64_to_f16(wide)))
    };
    S_MIN_NUM_F16 (scc; a: Half, b: Half) -> (r) { Half(single::min(a.0, b.0)) };
    S_MAX_NUM_F16 (scc; a: Half, b: Half) -> (r) { Half(single::max(a.0, b.0)) };
    S_MINIMUM_F16 (scc; a: Half, b: Half) -> (r) { Half(single::minimum(a.0, b.0)) };
    S_MAXIMUM_F16 (scc; a: Half, b: Half) -> (r) { Half(single::maximum(a.0, b.0)) };
    S_CEIL_F16 (scc; a: Half) -> (r) { Half(a.0.ceil()) };
    S_FLOOR_F16 (scc; a: Half) -> (r) { Half(a.0.floor()) };
    S_TRUNC_F16 (scc; a: Half) -> (r) { Half(a.0.trunc()) };
    S_RNDNE_F16 (scc; a: Half) -> (r) { Half(a.0.round_ties_even()) };
}

#[inline(always)]
fn bfe(value: u64, offset: u32, width: u32) -> u64 {
    let shifted = value >> offset;
    if width >= 64 {
        shifted
    } else {
        shifted & ((1 << width) - 1)
    }
}

#[inline(always)]
fn sign(field: u64, width: u32) -> i64 {
    if width == 0 {
        0
    } else {
        (field << (64 - width)) as i64 >> (64 - width)
    }
}

macro_rules! compares {
    ($lookup:ident; $($op:ident $($or:ident)? ($a:ident, $b:ident: $t:ty) $body:expr;)*) => {
        handlers! { $lookup;
            $($op $(| $or)? (w, op, _m) {
                let ($a, $b) = (<$t as Scalar>::read(w, op.src[0]), <$t as Scalar>::read(w, op.src[1]));
                w.scc = $body;
                Flow::Next
            })*
        }
    };
}

compares! { compare;
    S_CMP_EQ_I32 S_CMP_EQ_U32 (a, b: u32) a == b;
    S_CMP_LG_I32 S_CMP_LG_U32 (a, b: u32) a != b;
    S_CMP_GT_I32 (a, b: i32) a > b;
    S_CMP_GE_I32 (a, b: i32) a >= b;
    S_CMP_LT_I32 (a, b: i32) a < b;
    S_CMP_LE_I32 (a, b: i32) a <= b;
    S_CMP_GT_U32 (a, b: u32) a > b;
    S_CMP_GE_U32 (a, b: u32) a >= b;
    S_CMP_LT_U32 (a, b: u32) a < b;
    S_CMP_LE_U32 (a, b: u32) a <= b;
    S_CMP_EQ_U64 (a, b: u64) a == b;
    S_CMP_LG_U64 (a, b: u64) a != b;
    S_BITCMP0_B32 (a, b: u32) a >> (b & 31) & 1 == 0;
    S_BITCMP1_B32 (a, b: u32) a >> (b & 31) & 1 == 1;
    S_CMP_LT_F32 (a, b: f32) a < b;
    S_CMP_EQ_F32 (a, b: f32) a == b;
    S_CMP_LE_F32 (a, b: f32) a <= b;
    S_CMP_GT_F32 (a, b: f32) a > b;
    S_CMP_LG_F32 (a, b: f32) a < b || a > b;
    S_CMP_GE_F32 (a, b: f32) a >= b;
    S_CMP_O_F32 (a, b: f32) !a.is_nan() && !b.is_nan();
    S_CMP_U_F32 (a, b: f32) a.is_nan() || b.is_nan();
    S_CMP_NGE_F32 (a, b: f32) !(a >= b);
    S_CMP_NLG_F32 (a, b: f32) !(a < b || a > b);
    S_CMP_NGT_F32 (a, b: f32) !(a > b);
    S_CMP_NLE_F32 (a, b: f32) !(a <= b);
    S_CMP_NEQ_F32 (a, b: f32) a != b;
    S_CMP_NLT_F32 (a, b: f32) !(a < b);
    S_CMP_LT_F16 (a, b: Half) a.0 < b.0;
    S_CMP_EQ_F16 (a, b: Half) a.0 == b.0;
    S_CMP_LE_F16 (a, b: Half) a.0 <= b.0;
    S_CMP_GT_F16 (a, b: Half) a.0 > b.0;
    S_CMP_LG_F16 (a, b: Half) a.0 < b.0 || a.0 > b.0;
    S_CMP_GE_F16 (a, b: Half) a.0 >= b.0;
    S_CMP_O_F16 (a, b: Half) !a.0.is_nan() && !b.0.is_nan();
    S_CMP_U_F16 (a, b: Half) a.0.is_nan() || b.0.is_nan();
    S_CMP_NGE_F16 (a, b: Half) !(a.0 >= b.0);
    S_CMP_NLG_F16 (a, b: Half) !(a.0 < b.0 || a.0 > b.0);
    S_CMP_NGT_F16 (a, b: Half) !(a.0 > b.0);
    S_CMP_NLE_F16 (a, b: Half) !(a.0 <= b.0);
    S_CMP_NEQ_F16 (a, b: Half) a.0 != b.0;
    S_CMP_NLT_F16 (a, b: Half) !(a.0 < b.0);
}

/// Saves EXEC and replaces it by `f(exec, source)`.
#[inline(always)]
fn saveexec<const L: usize>(w: &mut Wave<L>, op: &Op<L>, wide: bool, f: impl Fn(u64, u64) -> u64) -> Flow {
    if wide {
        let (old, source) = (w.exec, w.s64(op.src[0]));
        let new = f(old, source);
        w.set_s64(op.dst, old);
        w.set_exec(new);
        w.scc = new != 0;
    } else {
        let (old, source) = (w.exec as u32, w.s32(op.src[0]));
        let new = f(u64::from(old), u64::from(source)) as u32;
        w.set_s32(op.dst, old);
        w.set_exec(w.exec & !0xffff_ffff | u64::from(new));
        w.scc = new != 0;
    }
    Flow::Next
}

/// Replaces EXEC and writes the new one to the destination too.
#[inline(always)]
fn wrexec<const L: usize>(w: &mut Wave<L>, op: &Op<L>, wide: bool, f: impl Fn(u64, u64) -> u64) -> Flow {
    let source = if wide { w.s64(op.src[0]) } else { u64::from(w.s32(op.src[0])) };
    let new = f(w.exec, source) & if wide { u64::MAX } else { 0xffff_ffff };
    if wide {
        w.set_s64(op.dst, new);
    } else {
        w.set_s32(op.dst, new as u32);
    }
    w.set_exec(new);
    w.scc = new != 0;
    Flow::Next
}

/// Branches to an instruction of the same program. `imm` is its index.
#[inline(always)]
fn branch<const L: usize>(w: &mut Wave<L>, op: &Op<L>, taken: bool) -> Flow {
    if taken {
        w.pc = op.imm as usize;
    }
    Flow::Next
}

handlers! { special;
    S_AND_SAVEEXEC_B32 (w, op, _m) { saveexec(w, op, false, |e, s| s & e) }
    S_AND_SAVEEXEC_B64 (w, op, _m) { saveexec(w, op, true, |e, s| s & e) }
    S_OR_SAVEEXEC_B32 (w, op, _m) { saveexec(w, op, false, |e, s| s | e) }
    S_OR_SAVEEXEC_B64 (w, op, _m) { saveexec(w, op, true, |e, s| s | e) }
    S_XOR_SAVEEXEC_B32 (w, op, _m) { saveexec(w, op, false, |e, s| s ^ e) }
    S_XOR_SAVEEXEC_B64 (w, op, _m) { saveexec(w, op, true, |e, s| s ^ e) }
    S_NAND_SAVEEXEC_B32 (w, op, _m) { saveexec(w, op, false, |e, s| !(s & e)) }
    S_NAND_SAVEEXEC_B64 (w, op, _m) { saveexec(w, op, true, |e, s| !(s & e)) }
    S_NOR_SAVEEXEC_B32 (w, op, _m) { saveexec(w, op, false, |e, s| !(s | e)) }
    S_NOR_SAVEEXEC_B64 (w, op, _m) { saveexec(w, op, true, |e, s| !(s | e)) }
    S_XNOR_SAVEEXEC_B32 (w, op, _m) { saveexec(w, op, false, |e, s| !(s ^ e)) }
    S_XNOR_SAVEEXEC_B64 (w, op, _m) { saveexec(w, op, true, |e, s| !(s ^ e)) }
    S_AND_NOT1_SAVEEXEC_B32 (w, op, _m) { saveexec(w, op, false, |e, s| s & !e) }
    S_AND_NOT1_SAVEEXEC_B64 (w, op, _m) { saveexec(w, op, true, |e, s| s & !e) }
    S_AND_NOT0_SAVEEXEC_B32 (w, op, _m) { saveexec(w, op, false, |e, s| !s & e) }
    S_AND_NOT0_SAVEEXEC_B64 (w, op, _m) { saveexec(w, op, true, |e, s| !s & e) }
    S_OR_NOT1_SAVEEXEC_B32 (w, op, _m) { saveexec(w, op, false, |e, s| s | !e) }
    S_OR_NOT1_SAVEEXEC_B64 (w, op, _m) { saveexec(w, op, true, |e, s| s | !e) }
    S_OR_NOT0_SAVEEXEC_B32 (w, op, _m) { saveexec(w, op, false, |e, s| !s | e) }
    S_OR_NOT0_SAVEEXEC_B64 (w, op, _m) { saveexec(w, op, true, |e, s| !s | e) }
    S_AND_NOT1_WREXEC_B32 (w, op, _m) { wrexec(w, op, false, |e, s| s & !e) }
    S_AND_NOT1_WREXEC_B64 (w, op, _m) { wrexec(w, op, true, |e, s| s & !e) }
    S_AND_NOT0_WREXEC_B32 (w, op, _m) { wrexec(w, op, false, |e, s| !s & e) }
    S_AND_NOT0_WREXEC_B64 (w, op, _m) { wrexec(w, op, true, |e, s| !s & e) }
    S_CMOV_B32 (w, op, _m) {
        if w.scc {
            let value = w.s32(op.src[0]);
            w.set_s32(op.dst, value);
        }
        Flow::Next
    }
    S_CMOV_B64 (w, op, _m) {
        if w.scc {
            let value = w.s64(op.src[0]);
            w.set_s64(op.dst, value);
        }
        Flow::Next
    }
    S_BITSET0_B32 (w, op, _m) {
        let bit = w.s32(op.src[0]) & 31;
        let value = w.s32(op.dst) & !(1 << bit);
        w.set_s32(op.dst, value);
        Flow::Next
    }
    S_BITSET1_B32 (w, op, _m) {
        let bit = w.s32(op.src[0]) & 31;
        let value = w.s32(op.dst) | 1 << bit;
        w.set_s32(op.dst, value);
        Flow::Next
    }
    S_BITSET0_B64 (w, op, _m) {
        let bit = w.s32(op.src[0]) & 63;
        let value = w.s64(op.dst) & !(1 << bit);
        w.set_s64(op.dst, value);
        Flow::Next
    }
    S_BITSET1_B64 (w, op, _m) {
        let bit = w.s32(op.src[0]) & 63;
        let value = w.s64(op.dst) | 1 << bit;
        w.set_s64(op.dst, value);
        Flow::Next
    }
    S_BITCMP0_B64 (w, op, _m) { w.scc = w.s64(op.src[0]) >> (w.s32(op.src[1]) & 63) & 1 == 0; Flow::Next }
    S_BITCMP1_B64 (w, op, _m) { w.scc = w.s64(op.src[0]) >> (w.s32(op.src[1]) & 63) & 1 == 1; Flow::Next }
    S_MOVK_I32 (w, op, _m) { w.set_s32(op.dst, op.imm as u32); Flow::Next }
    S_CMOVK_I32 (w, op, _m) {
        if w.scc {
            w.set_s32(op.dst, op.imm as u32);
        }
        Flow::Next
    }
    S_ADDK_CO_I32 (w, op, _m) {
        let old = w.s32(op.dst) as i32;
        w.set_s32(op.dst, old.wrapping_add(op.imm) as u32);
        w.scc = old.checked_add(op.imm).is_none();
        Flow::Next
    }
    S_MULK_I32 (w, op, _m) {
        let value = (w.s32(op.dst) as i32).wrapping_mul(op.imm);
        w.set_s32(op.dst, value as u32);
        Flow::Next
    }
    S_CMPK_EQ_I32 (w, op, _m) { w.scc = w.s32(op.dst) as i32 == op.imm; Flow::Next }
    S_CMPK_LG_I32 (w, op, _m) { w.scc = w.s32(op.dst) as i32 != op.imm; Flow::Next }
    S_CMPK_GT_I32 (w, op, _m) { w.scc = w.s32(op.dst) as i32 > op.imm; Flow::Next }
    S_CMPK_GE_I32 (w, op, _m) { w.scc = w.s32(op.dst) as i32 >= op.imm; Flow::Next }
    S_CMPK_LT_I32 (w, op, _m) { w.scc = (w.s32(op.dst) as i32) < op.imm; Flow::Next }
    S_CMPK_LE_I32 (w, op, _m) { w.scc = w.s32(op.dst) as i32 <= op.imm; Flow::Next }
    S_CMPK_EQ_U32 (w, op, _m) { w.scc = w.s32(op.dst) == op.imm as u32 & 0xffff; Flow::Next }
    S_CMPK_LG_U32 (w, op, _m) { w.scc = w.s32(op.dst) != op.imm as u32 & 0xffff; Flow::Next }
    S_CMPK_GT_U32 (w, op, _m) { w.scc = w.s32(op.dst) > op.imm as u32 & 0xffff; Flow::Next }
    S_CMPK_GE_U32 (w, op, _m) { w.scc = w.s32(op.dst) >= op.imm as u32 & 0xffff; Flow::Next }
    S_CMPK_LT_U32 (w, op, _m) { w.scc = w.s32(op.dst) < op.imm as u32 & 0xffff; Flow::Next }
    S_CMPK_LE_U32 (w, op, _m) { w.scc = w.s32(op.dst) <= op.imm as u32 & 0xffff; Flow::Next }
    S_NOP | S_CLAUSE | S_DELAY_ALU | S_SET_INST_PREFETCH_DISTANCE | S_SETPRIO | S_WAKEUP
    | S_ICACHE_INV | S_DCACHE_INV | S_DCACHE_WB | S_DCACHE_INV_VOL | S_DCACHE_WB_VOL | S_GL1_INV | S_INCPERFLEVEL
    | S_DECPERFLEVEL | S_TTRACEDATA | S_TTRACEDATA_IMM | S_WAITCNT | S_WAITCNT_EXPCNT | S_WAITCNT_LGKMCNT
    | S_WAITCNT_VMCNT | S_WAITCNT_VSCNT | S_WAIT_ALU | S_WAIT_BVHCNT | S_WAIT_DSCNT | S_WAIT_EVENT | S_WAIT_EXPCNT
    | S_WAIT_IDLE | S_WAIT_KMCNT | S_WAIT_LOADCNT | S_WAIT_LOADCNT_DSCNT | S_WAIT_SAMPLECNT | S_WAIT_STORECNT
    | S_WAIT_STORECNT_DSCNT | S_VERSION | S_SINGLEUSE_VDST | S_PREFETCH_INST | S_PREFETCH_INST_PC_REL
    | S_PREFETCH_DATA | S_PREFETCH_DATA_PC_REL | S_BUFFER_PREFETCH_DATA | GLOBAL_INV | GLOBAL_WB | GLOBAL_WBINV
    | BUFFER_GL0_INV | BUFFER_GL1_INV | BUFFER_INV | BUFFER_INVL2 | BUFFER_WBL2 | BUFFER_WBINVL1 | BUFFER_WBINVL1_VOL
    | DS_NOP
    (_w, _op, _m) { Flow::Next }
    // Waits for somebody else, who may need this core.
    S_SLEEP | S_SLEEP_VAR (_w, _op, _m) { std::thread::yield_now(); Flow::Next }
    S_BARRIER (_w, _op, _m) { Flow::Barrier }
    S_BARRIER_SIGNAL (w, op, m) {
        if op.imm != -1 {
            return m.fail(Cause::Instruction, None, format!("barrier {} is not emulated, only the block's own (-1) is", op.imm));
        }
        w.signalled = true;
        Flow::Next
    }
    S_BARRIER_WAIT (w, op, m) {
        if op.imm != -1 || !w.signalled {
            return m.fail(Cause::Barrier, None, "waits for a barrier that it did not signal".to_owned());
        }
        w.signalled = false;
        Flow::Barrier
    }
    S_SENDMSG (w, op, m) {
        // MSG_DEALLOC_VGPRS (3 from gfx11 on) is the last thing before the end.
        if op.imm & 0xff == 3 {
            w.released = true;
            return Flow::Next;
        }
        if op.imm & 0xff == 1 {
            m.memory.interrupt(w.s[usize::from(scalar::M0)]);
            return Flow::Next;
        }
        m.fail(Cause::Instruction, None, format!("message {} is not emulated", op.imm & 0xff))
    }
    S_ENDPGM (_w, _op, _m) { Flow::End }
    S_TRAP (_w, op, m) { m.fail(Cause::Trap, None, format!("trap {}", op.imm)) }
    S_BRANCH (w, op, _m) { branch(w, op, true) }
    S_CBRANCH_SCC0 (w, op, _m) { let taken = !w.scc; branch(w, op, taken) }
    S_CBRANCH_SCC1 (w, op, _m) { let taken = w.scc; branch(w, op, taken) }
    S_CBRANCH_VCCZ (w, op, _m) { let taken = w.vcc() == 0; branch(w, op, taken) }
    S_CBRANCH_VCCNZ (w, op, _m) { let taken = w.vcc() != 0; branch(w, op, taken) }
    S_CBRANCH_EXECZ (w, op, _m) { let taken = w.exec == 0; branch(w, op, taken) }
    S_CBRANCH_EXECNZ (w, op, _m) { let taken = w.exec != 0; branch(w, op, taken) }
    // The address of the following instruction is the program's to know: predecoding puts it into the sources.
    S_GETPC_B64 (w, op, _m) { let here = following(op); w.set_s64(op.dst, here); Flow::Next }
    S_SETPC_B64 (w, op, _m) { w.jump = w.s64(op.src[0]); Flow::Jump }
    S_SWAPPC_B64 (w, op, _m) {
        w.jump = w.s64(op.src[0]);
        let here = following(op);
        w.set_s64(op.dst, here);
        Flow::Jump
    }
    S_CALL_B64 (w, op, _m) {
        let here = following(op);
        w.set_s64(op.dst, here);
        w.jump = here.wrapping_add((i64::from(op.imm) * 4) as u64);
        Flow::Jump
    }
    S_SETREG_B32 (w, op, m) {
        let value = w.s32(op.src[0]);
        set_register(w, op, m, value)
    }
    S_SETREG_IMM32_B32 (w, op, m) {
        let value = w.s32(op.src[0]);
        set_register(w, op, m, value)
    }
    S_GETREG_B32 (w, op, m) {
        let (id, offset, width) = (op.imm & 63, op.imm >> 6 & 31, (op.imm >> 11 & 31) + 1);
        let Some(value) = register(w, m, id) else {
            return m.fail(Cause::Instruction, None, format!("hardware register {id} is not emulated"));
        };
        let mask = if width == 32 { u32::MAX } else { (1 << width) - 1 };
        w.set_s32(op.dst, value >> offset & mask);
        Flow::Next
    }
    // gfx9: from here to the `off`, vector registers are counted from M0; predecoding wraps what lies in between.
    S_SET_GPR_IDX_ON (w, op, _m) {
        let (index, m0) = (w.s32(op.src[0]) & 0xff, w.s[usize::from(scalar::M0)]);
        w.s[usize::from(scalar::M0)] = m0 & !0xf0ff | index | (op.imm as u32 & 15) << 12;
        Flow::Next
    }
    S_SET_GPR_IDX_IDX (w, op, _m) {
        let (index, m0) = (w.s32(op.src[0]) & 0xff, w.s[usize::from(scalar::M0)]);
        w.s[usize::from(scalar::M0)] = m0 & !0xff | index;
        Flow::Next
    }
    S_SET_GPR_IDX_MODE (w, op, _m) {
        let m0 = w.s[usize::from(scalar::M0)];
        w.s[usize::from(scalar::M0)] = m0 & !0xf000 | (op.imm as u32 & 15) << 12;
        Flow::Next
    }
    S_SET_GPR_IDX_OFF (_w, _op, _m) { Flow::Next }
    S_MOVRELS_B32 (w, op, m) {
        let at = u32::from(op.src[0].index).wrapping_add(w.s[usize::from(scalar::M0)]);
        if at >= 106 {
            return m.fail(Cause::Instruction, None, format!("s{at} does not exist"));
        }
        let value = w.s[at as usize];
        w.set_s32(op.dst, value);
        Flow::Next
    }
    S_MOVRELD_B32 (w, op, m) {
        let at = u32::from(op.dst.index).wrapping_add(w.s[usize::from(scalar::M0)]);
        if at >= 106 {
            return m.fail(Cause::Instruction, None, format!("s{at} does not exist"));
        }
        w.s[at as usize] = w.s32(op.src[0]);
        Flow::Next
    }
    S_DENORM_MODE (w, op, _m) { w.mode = w.mode & !0xf0 | (op.imm as u32 & 15) << 4; Flow::Next }
    S_ROUND_MODE (w, op, m) {
        if op.imm & 15 != 0 {
            return m.fail(Cause::Instruction, None, "rounding other than to nearest even is not emulated".to_owned());
        }
        w.mode &= !15;
        Flow::Next
    }
}

/// The address behind the instruction, which predecoding stored in the unused sources.
#[inline(always)]
fn following<const L: usize>(op: &Op<L>) -> u64 {
    u64::from(op.src[1].value) | u64::from(op.src[2].value) << 32
}

/// What `s_getreg` reads: MODE, STATUS, HW_ID, SH_MEM_BASES, SHADER_CYCLES, XCC_ID, FLAT_SCRATCH.
fn register<const L: usize>(w: &Wave<L>, m: &crate::exec::machine::Machine<'_>, id: i32) -> Option<u32> {
    Some(match id {
        1 => w.mode,
        // The condition code, EXECZ and VCCZ at their bits.
        2 => u32::from(w.scc) | u32::from(w.exec == 0) << 9 | u32::from(w.vcc() == 0) << 10,
        // The trap status has nothing to say.
        3 => 0,
        // Upper halves of the apertures, which code of older compilers takes from here: shared above, private below.
        15 => SHARED_APERTURE & 0xffff_0000 | PRIVATE_APERTURE >> 16,
        // Which unit runs the wave: always the first one, the wave's number in its place.
        4 | 5 | 23 | 24 => w.id as u32 & 31,
        20 if m.arch.is_cdna() => 0,
        20 => 0,
        21 => PRIVATE_APERTURE,
        29 => crate::exec::smem::nanoseconds() as u32,
        30 => (crate::exec::smem::nanoseconds() >> 32) as u32,
        _ => return None,
    })
}

fn set_register<const L: usize>(
    w: &mut Wave<L>,
    op: &Op<L>,
    m: &mut crate::exec::machine::Machine<'_>,
    value: u32,
) -> Flow {
    let (id, offset, width) = (op.imm & 63, op.imm >> 6 & 31, (op.imm >> 11 & 31) + 1);
    let mask = if width == 32 { u32::MAX } else { (1 << width) - 1 } << offset;
    match id {
        1 => {
            w.mode = w.mode & !mask | value << offset & mask;
            if w.mode & 15 != 0 {
                let why = "rounding other than to nearest even is not emulated".to_owned();
                return m.fail(Cause::Instruction, None, why);
            }
            Flow::Next
        }
        // FLAT_SCRATCH on gfx10: private memory is where it is, whatever the prologue says.
        20 | 21 => Flow::Next,
        _ => m.fail(Cause::Instruction, None, format!("hardware register {id} cannot be set")),
    }
}
