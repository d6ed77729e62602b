//! Vector arithmetic: one line for each operation, whatever its encoding.

use crate::exec::float::{self, double, flush, single};
use crate::exec::lanes::{lanes, F16Wide, B16, F16, F32, F64, I16, I32, I64, U16, U32, U64};

/// Multiply and add with two roundings and no denormals, as the oldest instructions do.
#[inline(always)]
fn mad(a: f32, b: f32, c: f32) -> f32 {
    let product = flush(flush(a) * flush(b));
    flush(product + flush(c))
}

/// The same for f16: the product is rounded to f16 before the addition.
#[inline(always)]
fn mad_f16(a: f32, b: f32, c: f32) -> f32 {
    float::f16_to_f32(float::f32_to_f16(a * b)) + c
}

/// The digits of 2 / pi after the point, 1201 bits of them: what the reduction of a large angle multiplies with.
const TWO_OVER_PI: [u64; 19] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];

/// 53 bits of 2 / pi, from the place that the exponent of an angle asks for; `part` moves on by 53 bits.
#[inline(always)]
fn trig_preop(angle: f64, part: u32) -> f64 {
    let exponent = double::exponent(angle);
    let shift = (part & 31) as i32 * 53 + if exponent > 1077 { exponent - 1077 } else { 0 };
    let bit = |n: i32| (0..1216).contains(&n) && TWO_OVER_PI[n as usize / 64] >> (63 - n as usize % 64) & 1 != 0;
    let digits = (0..53).fold(0u64, |digits, n| digits << 1 | u64::from(bit(shift + n)));
    let scale = -53 - shift + if exponent >= 0x7b0 { 128 } else { 0 };
    double::ldexp(digits as f64, scale)
}

/// A product, or the smallest number where the second factor is none or the guard not above 0.
#[inline(always)]
fn mullit(a: f32, b: f32, guard: f32) -> f32 {
    if guard > 0.0 && b > f32::MIN {
        a * b
    } else {
        f32::MIN
    }
}

/// A product in which 0 times anything is 0.
#[inline(always)]
fn mul_dx9(a: f32, b: f32) -> f32 {
    if a == 0.0 || b == 0.0 {
        0.0
    } else {
        a * b
    }
}

#[inline(always)]
fn fma_dx9(a: f32, b: f32, c: f32) -> f32 {
    if a == 0.0 || b == 0.0 {
        c
    } else {
        a.mul_add(b, c)
    }
}

#[inline(always)]
fn i24(value: u32) -> i32 {
    (value << 8) as i32 >> 8
}

#[inline(always)]
fn u24(value: u32) -> u32 {
    value & 0xff_ffff
}

#[inline(always)]
fn med3<T: Ord + Copy>(a: T, b: T, c: T) -> T {
    a.max(b).min(a.min(b).max(c))
}

#[inline(always)]
fn sad_u8(a: u32, b: u32) -> u32 {
    (0..4).map(|i| (a >> (8 * i) & 0xff).abs_diff(b >> (8 * i) & 0xff)).sum()
}

#[inline(always)]
fn clamp_u16(value: f32) -> u32 {
    u32::from(value as u16)
}

/// Rounded to nearest, ties to even, into a signed or unsigned normalised number.
#[inline(always)]
fn snorm16(value: f32) -> u32 {
    let value = if value.is_nan() { 0.0 } else { value.clamp(-1.0, 1.0) };
    u32::from((value * 32767.0).round_ties_even() as i16 as u16)
}

#[inline(always)]
fn unorm16(value: f32) -> u32 {
    let value = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
    u32::from((value * 65535.0).round_ties_even() as u16)
}

/// Leading bits that equal the sign, the sign itself not counted... as the hardware counts: from the top, -1 for 0 and -1.
#[inline(always)]
fn cls(value: u32) -> u32 {
    let folded = value ^ ((value as i32) >> 31) as u32;
    if folded == 0 {
        u32::MAX
    } else {
        folded.leading_zeros()
    }
}

lanes! { moves;
    V_MOV_B32(a: U32) -> U32 { a }
    V_MOV_B64(a: U64) -> U64 { a }
    V_MOV_B16(a: U16) -> U16 { a }
    V_ACCVGPR_READ_B32(a: U32) -> U32 { a }
    V_ACCVGPR_WRITE_B32(a: U32) -> U32 { a }
    V_ACCVGPR_MOV_B32(a: U32) -> U32 { a }
    V_NOT_B32(a: U32) -> U32 { !a }
    V_NOT_B16(a: U16) -> U16 { !a }
    V_BFREV_B32(a: U32) -> U32 { a.reverse_bits() }
    V_CLZ_I32_U32(a: U32) -> U32 { if a == 0 { u32::MAX } else { a.leading_zeros() } }
    V_CTZ_I32_B32(a: U32) -> U32 { if a == 0 { u32::MAX } else { a.trailing_zeros() } }
    V_CLS_I32(a: U32) -> U32 { cls(a) }
    V_CVT_F32_I32(a: I32) -> F32 { a as f32 }
    V_CVT_F32_U32(a: U32) -> F32 { a as f32 }
    V_CVT_U32_F32(a: F32) -> U32 { a as u32 }
    V_CVT_I32_F32(a: F32) -> I32 { a as i32 }
    V_CVT_F16_F32(a: F32) -> F16 { a }
    V_CVT_F32_F16(a: F16) -> F32 { a }
    V_CVT_F32_F64(a: F64) -> F32 { a as f32 }
    V_CVT_F64_F32(a: F32) -> F64 { f64::from(a) }
    V_CVT_F64_I32(a: I32) -> F64 { f64::from(a) }
    V_CVT_F64_U32(a: U32) -> F64 { f64::from(a) }
    V_CVT_I32_F64(a: F64) -> I32 { a as i32 }
    V_CVT_U32_F64(a: F64) -> U32 { a as u32 }
    V_CVT_F16_U16(a: U16) -> F16 { f32::from(a) }
    V_CVT_F16_I16(a: I16) -> F16 { f32::from(a) }
    V_CVT_U16_F16(a: F16) -> U16 { a as u16 }
    V_CVT_I16_F16(a: F16) -> I16 { a as i16 }
    V_CVT_I32_I16(a: I16) -> I32 { i32::from(a) }
    V_CVT_U32_U16(a: U16) -> U32 { u32::from(a) }
    V_CVT_F32_UBYTE0(a: U32) -> F32 { (a & 0xff) as f32 }
    V_CVT_F32_UBYTE1(a: U32) -> F32 { (a >> 8 & 0xff) as f32 }
    V_CVT_F32_UBYTE2(a: U32) -> F32 { (a >> 16 & 0xff) as f32 }
    V_CVT_F32_UBYTE3(a: U32) -> F32 { (a >> 24) as f32 }
    V_CVT_FLOOR_I32_F32(a: F32) -> I32 { a.floor() as i32 }
    V_CVT_NEAREST_I32_F32(a: F32) -> I32 { (a + 0.5).floor() as i32 }
    V_CVT_OFF_F32_I4(a: U32) -> F32 { ((a << 28) as i32 >> 28) as f32 / 16.0 }
    V_CVT_NORM_I16_F16(a: F16) -> U16 { snorm16(a) as u16 }
    V_CVT_NORM_U16_F16(a: F16) -> U16 { unorm16(a) as u16 }
    V_SAT_PK_U8_I16(a: U32) -> U16 {
        (a as i16).clamp(0, 255) as u16 | ((a >> 16) as i16).clamp(0, 255) as u16 * 256
    }
    V_FRACT_F32(a: F32) -> F32 { single::fract(a) }
    V_FRACT_F64(a: F64) -> F64 { double::fract(a) }
    V_FRACT_F16(a: F16) -> F16 { (a - a.floor()).min(float::f16_to_f32(0x3bff)) }
    V_TRUNC_F32(a: F32) -> F32 { a.trunc() }
    V_TRUNC_F64(a: F64) -> F64 { a.trunc() }
    V_TRUNC_F16(a: F16) -> F16 { a.trunc() }
    V_CEIL_F32(a: F32) -> F32 { a.ceil() }
    V_CEIL_F64(a: F64) -> F64 { a.ceil() }
    V_CEIL_F16(a: F16) -> F16 { a.ceil() }
    V_FLOOR_F32(a: F32) -> F32 { a.floor() }
    V_FLOOR_F64(a: F64) -> F64 { a.floor() }
    V_FLOOR_F16(a: F16) -> F16 { a.floor() }
    V_RNDNE_F32(a: F32) -> F32 { a.round_ties_even() }
    V_RNDNE_F64(a: F64) -> F64 { a.round_ties_even() }
    V_RNDNE_F16(a: F16) -> F16 { a.round_ties_even() }
    V_FREXP_MANT_F32(a: F32) -> F32 { single::frexp_mant(a) }
    V_FREXP_MANT_F64(a: F64) -> F64 { double::frexp_mant(a) }
    V_FREXP_MANT_F16(a: F16) -> F16 { single::frexp_mant(a) }
    V_FREXP_EXP_I32_F32(a: F32) -> I32 { single::frexp_exp(a) }
    V_FREXP_EXP_I32_F64(a: F64) -> I32 { double::frexp_exp(a) }
    V_FREXP_EXP_I16_F16(a: F16) -> I16 { single::frexp_exp(a) as i16 }
}

lanes! { floats;
    V_ADD_F32(a: F32, b: F32) -> F32 { a + b }
    V_SUB_F32(a: F32, b: F32) -> F32 { a - b }
    V_SUBREV_F32(a: F32, b: F32) -> F32 { b - a }
    V_MUL_F32(a: F32, b: F32) -> F32 { a * b }
    V_MUL_DX9_ZERO_F32(a: F32, b: F32) -> F32 { mul_dx9(a, b) }
    V_MULLIT_F32(a: F32, b: F32, c: F32) -> F32 { mullit(a, b, c) }
    V_MAX_NUM_F32(a: F32, b: F32) -> F32 { single::max(a, b) }
    V_MIN_NUM_F32(a: F32, b: F32) -> F32 { single::min(a, b) }
    V_MAXIMUM_F32(a: F32, b: F32) -> F32 { single::maximum(a, b) }
    V_MINIMUM_F32(a: F32, b: F32) -> F32 { single::minimum(a, b) }
    V_FMA_F32(a: F32, b: F32, c: F32) -> F32 { a.mul_add(b, c) }
    V_FMAC_F32(a: F32, b: F32, c: F32) -> F32 { a.mul_add(b, c) }
    V_FMAAK_F32(a: F32, b: F32, c: F32) -> F32 { a.mul_add(b, c) }
    V_FMAMK_F32(a: F32, b: F32, c: F32) -> F32 { a.mul_add(b, c) }
    V_FMA_DX9_ZERO_F32(a: F32, b: F32, c: F32) -> F32 { fma_dx9(a, b, c) }
    V_FMAC_DX9_ZERO_F32(a: F32, b: F32, c: F32) -> F32 { fma_dx9(a, b, c) }
    V_MAD_F32(a: F32, b: F32, c: F32) -> F32 { mad(a, b, c) }
    V_MAC_F32(a: F32, b: F32, c: F32) -> F32 { mad(a, b, c) }
    V_MADAK_F32(a: F32, b: F32, c: F32) -> F32 { mad(a, b, c) }
    V_MADMK_F32(a: F32, b: F32, c: F32) -> F32 { mad(a, b, c) }
    V_MAD_LEGACY_F32(a: F32, b: F32, c: F32) -> F32 {
        if a == 0.0 || b == 0.0 { flush(c) } else { mad(a, b, c) }
    }
    V_MAX3_NUM_F32(a: F32, b: F32, c: F32) -> F32 { single::max(single::max(a, b), c) }
    V_MIN3_NUM_F32(a: F32, b: F32, c: F32) -> F32 { single::min(single::min(a, b), c) }
    V_MED3_NUM_F32(a: F32, b: F32, c: F32) -> F32 { single::med3(a, b, c) }
    V_MAXIMUM3_F32(a: F32, b: F32, c: F32) -> F32 { single::maximum(single::maximum(a, b), c) }
    V_MINIMUM3_F32(a: F32, b: F32, c: F32) -> F32 { single::minimum(single::minimum(a, b), c) }
    V_MAXMIN_NUM_F32(a: F32, b: F32, c: F32) -> F32 { single::min(single::max(a, b), c) }
    V_MINMAX_NUM_F32(a: F32, b: F32, c: F32) -> F32 { single::max(single::min(a, b), c) }
    V_MAXIMUMMINIMUM_F32(a: F32, b: F32, c: F32) -> F32 { single::minimum(single::maximum(a, b), c) }
    V_MINIMUMMAXIMUM_F32(a: F32, b: F32, c: F32) -> F32 { single::maximum(single::minimum(a, b), c) }
    V_LDEXP_F32(a: F32, b: I32) -> F32 { single::ldexp(a, b) }
    V_DIV_FIXUP_F32(a: F32, b: F32, c: F32) -> F32 { single::div_fixup(a, b, c) }
    V_ADD_F64(a: F64, b: F64) -> F64 { a + b }
    V_MUL_F64(a: F64, b: F64) -> F64 { a * b }
    V_MAX_NUM_F64(a: F64, b: F64) -> F64 { double::max(a, b) }
    V_MIN_NUM_F64(a: F64, b: F64) -> F64 { double::min(a, b) }
    V_MAXIMUM_F64(a: F64, b: F64) -> F64 { double::maximum(a, b) }
    V_MINIMUM_F64(a: F64, b: F64) -> F64 { double::minimum(a, b) }
    V_FMA_F64(a: F64, b: F64, c: F64) -> F64 { a.mul_add(b, c) }
    V_FMAC_F64(a: F64, b: F64, c: F64) -> F64 { a.mul_add(b, c) }
    V_LDEXP_F64(a: F64, b: I32) -> F64 { double::ldexp(a, b) }
    V_DIV_FIXUP_F64(a: F64, b: F64, c: F64) -> F64 { double::div_fixup(a, b, c) }
    V_ADD_F16(a: F16, b: F16) -> F16 { a + b }
    V_SUB_F16(a: F16, b: F16) -> F16 { a - b }
    V_SUBREV_F16(a: F16, b: F16) -> F16 { b - a }
    V_MUL_F16(a: F16, b: F16) -> F16 { a * b }
    V_MAX_NUM_F16(a: F16, b: F16) -> F16 { single::max(a, b) }
    V_MIN_NUM_F16(a: F16, b: F16) -> F16 { single::min(a, b) }
    V_MAXIMUM_F16(a: F16, b: F16) -> F16 { single::maximum(a, b) }
    V_MINIMUM_F16(a: F16, b: F16) -> F16 { single::minimum(a, b) }
    V_FMA_F16(a: F16Wide, b: F16Wide, c: F16Wide) -> F16Wide { a.mul_add(b, c) }
    V_FMA_LEGACY_F16(a: F16Wide, b: F16Wide, c: F16Wide) -> F16Wide { a.mul_add(b, c) }
    V_FMAC_F16(a: F16Wide, b: F16Wide, c: F16Wide) -> F16Wide { a.mul_add(b, c) }
    V_FMAAK_F16(a: F16Wide, b: F16Wide, c: F16Wide) -> F16Wide { a.mul_add(b, c) }
    V_FMAMK_F16(a: F16Wide, b: F16Wide, c: F16Wide) -> F16Wide { a.mul_add(b, c) }
    V_MAX3_NUM_F16(a: F16, b: F16, c: F16) -> F16 { single::max(single::max(a, b), c) }
    V_MIN3_NUM_F16(a: F16, b: F16, c: F16) -> F16 { single::min(single::min(a, b), c) }
    V_MED3_NUM_F16(a: F16, b: F16, c: F16) -> F16 { single::med3(a, b, c) }
    V_MAXIMUM3_F16(a: F16, b: F16, c: F16) -> F16 { single::maximum(single::maximum(a, b), c) }
    V_MINIMUM3_F16(a: F16, b: F16, c: F16) -> F16 { single::minimum(single::minimum(a, b), c) }
    V_MAXMIN_NUM_F16(a: F16, b: F16, c: F16) -> F16 { single::min(single::max(a, b), c) }
    V_MINMAX_NUM_F16(a: F16, b: F16, c: F16) -> F16 { single::max(single::min(a, b), c) }
    V_MAXIMUMMINIMUM_F16(a: F16, b: F16, c: F16) -> F16 { single::minimum(single::maximum(a, b), c) }
    V_MINIMUMMAXIMUM_F16(a: F16, b: F16, c: F16) -> F16 { single::maximum(single::minimum(a, b), c) }
    V_MAD_F16(a: F16, b: F16, c: F16) -> F16 { mad_f16(a, b, c) }
    V_MAC_F16(a: F16, b: F16, c: F16) -> F16 { mad_f16(a, b, c) }
    V_MADAK_F16(a: F16, b: F16, c: F16) -> F16 { mad_f16(a, b, c) }
    V_MADMK_F16(a: F16, b: F16, c: F16) -> F16 { mad_f16(a, b, c) }
    V_MAD_LEGACY_F16(a: F16, b: F16, c: F16) -> F16 { mad_f16(a, b, c) }
    V_TRIG_PREOP_F64(a: F64, b: U32) -> F64 { trig_preop(a, b) }
    V_LDEXP_F16(a: F16Wide, b: I16) -> F16Wide { double::ldexp(a, i32::from(b)) }
    V_DIV_FIXUP_F16(a: F16, b: F16, c: F16) -> F16 { single::div_fixup(a, b, c) }
    V_DIV_FIXUP_LEGACY_F16(a: F16, b: F16, c: F16) -> F16 { single::div_fixup(a, b, c) }
    V_PACK_B32_F16(a: B16, b: B16) -> U32 { u32::from(a) | u32::from(b) << 16 }
    V_CVT_PK_RTZ_F16_F32(a: F32, b: F32) -> U32 {
        u32::from(float::f32_to_f16_rtz(a)) | u32::from(float::f32_to_f16_rtz(b)) << 16
    }
    V_CVT_PK_NORM_I16_F32(a: F32, b: F32) -> U32 { snorm16(a) | snorm16(b) << 16 }
    V_CVT_PK_NORM_U16_F32(a: F32, b: F32) -> U32 { unorm16(a) | unorm16(b) << 16 }
    V_CVT_PK_NORM_I16_F16(a: F16, b: F16) -> U32 { snorm16(a) | snorm16(b) << 16 }
    V_CVT_PK_NORM_U16_F16(a: F16, b: F16) -> U32 { unorm16(a) | unorm16(b) << 16 }
    V_CVT_PK_I16_F32(a: F32, b: F32) -> U32 { u32::from(a as i16 as u16) | u32::from(b as i16 as u16) << 16 }
    V_CVT_PK_U16_F32(a: F32, b: F32) -> U32 { clamp_u16(a) | clamp_u16(b) << 16 }
    V_CVT_PK_U8_F32(a: F32, b: U32, c: U32) -> U32 {
        let shift = 8 * (b & 3);
        c & !(0xff << shift) | u32::from(a as u8) << shift
    }
}

lanes! { integers;
    V_ADD_NC_U32(a: U32, b: U32) -> U32 { a.wrapping_add(b) }
    V_SUB_NC_U32(a: U32, b: U32) -> U32 { a.wrapping_sub(b) }
    V_SUBREV_NC_U32(a: U32, b: U32) -> U32 { b.wrapping_sub(a) }
    V_ADD_NC_I32(a: U32, b: U32) -> U32 { a.wrapping_add(b) }
    V_SUB_NC_I32(a: U32, b: U32) -> U32 { a.wrapping_sub(b) }
    V_ADD3_U32(a: U32, b: U32, c: U32) -> U32 { a.wrapping_add(b).wrapping_add(c) }
    V_ADD_LSHL_U32(a: U32, b: U32, c: U32) -> U32 { a.wrapping_add(b) << (c & 31) }
    V_LSHL_ADD_U32(a: U32, b: U32, c: U32) -> U32 { (a << (b & 31)).wrapping_add(c) }
    V_LSHL_ADD_U64(a: U64, b: U32, c: U64) -> U64 { (a << (b & 7).min(4)).wrapping_add(c) }
    V_LSHL_OR_B32(a: U32, b: U32, c: U32) -> U32 { a << (b & 31) | c }
    V_AND_OR_B32(a: U32, b: U32, c: U32) -> U32 { a & b | c }
    V_OR3_B32(a: U32, b: U32, c: U32) -> U32 { a | b | c }
    V_XOR3_B32(a: U32, b: U32, c: U32) -> U32 { a ^ b ^ c }
    V_XAD_U32(a: U32, b: U32, c: U32) -> U32 { (a ^ b).wrapping_add(c) }
    V_AND_B32(a: U32, b: U32) -> U32 { a & b }
    V_OR_B32(a: U32, b: U32) -> U32 { a | b }
    V_XOR_B32(a: U32, b: U32) -> U32 { a ^ b }
    V_XNOR_B32(a: U32, b: U32) -> U32 { !(a ^ b) }
    V_AND_B16(a: U16, b: U16) -> U16 { a & b }
    V_OR_B16(a: U16, b: U16) -> U16 { a | b }
    V_XOR_B16(a: U16, b: U16) -> U16 { a ^ b }
    V_LSHLREV_B32(a: U32, b: U32) -> U32 { b << (a & 31) }
    V_LSHRREV_B32(a: U32, b: U32) -> U32 { b >> (a & 31) }
    V_ASHRREV_I32(a: U32, b: I32) -> I32 { b >> (a & 31) }
    V_LSHLREV_B64(a: U32, b: U64) -> U64 { b << (a & 63) }
    V_LSHRREV_B64(a: U32, b: U64) -> U64 { b >> (a & 63) }
    V_ASHRREV_I64(a: U32, b: I64) -> I64 { b >> (a & 63) }
    V_LSHLREV_B16(a: U16, b: U16) -> U16 { b << (a & 15) }
    V_LSHRREV_B16(a: U16, b: U16) -> U16 { b >> (a & 15) }
    V_ASHRREV_I16(a: U16, b: I16) -> I16 { b >> (a & 15) }
    V_MUL_LO_U32(a: U32, b: U32) -> U32 { a.wrapping_mul(b) }
    V_MUL_HI_U32(a: U32, b: U32) -> U32 { (u64::from(a) * u64::from(b) >> 32) as u32 }
    V_MUL_HI_I32(a: I32, b: I32) -> I32 { (i64::from(a) * i64::from(b) >> 32) as i32 }
    V_MUL_U32_U24(a: U32, b: U32) -> U32 { u24(a).wrapping_mul(u24(b)) }
    V_MUL_I32_I24(a: U32, b: U32) -> I32 { i24(a).wrapping_mul(i24(b)) }
    V_MUL_HI_U32_U24(a: U32, b: U32) -> U32 { (u64::from(u24(a)) * u64::from(u24(b)) >> 32) as u32 }
    V_MUL_HI_I32_I24(a: U32, b: U32) -> I32 { (i64::from(i24(a)) * i64::from(i24(b)) >> 32) as i32 }
    V_MAD_U32_U24(a: U32, b: U32, c: U32) -> U32 { u24(a).wrapping_mul(u24(b)).wrapping_add(c) }
    V_MAD_I32_I24(a: U32, b: U32, c: I32) -> I32 { i24(a).wrapping_mul(i24(b)).wrapping_add(c) }
    V_MAD_U32_U16(a: U16, b: U16, c: U32) -> U32 { (u32::from(a) * u32::from(b)).wrapping_add(c) }
    V_MAD_I32_I16(a: I16, b: I16, c: I32) -> I32 { (i32::from(a) * i32::from(b)).wrapping_add(c) }
    V_MAX_U32(a: U32, b: U32) -> U32 { a.max(b) }
    V_MIN_U32(a: U32, b: U32) -> U32 { a.min(b) }
    V_MAX_I32(a: I32, b: I32) -> I32 { a.max(b) }
    V_MIN_I32(a: I32, b: I32) -> I32 { a.min(b) }
    V_MAX3_U32(a: U32, b: U32, c: U32) -> U32 { a.max(b).max(c) }
    V_MIN3_U32(a: U32, b: U32, c: U32) -> U32 { a.min(b).min(c) }
    V_MED3_U32(a: U32, b: U32, c: U32) -> U32 { med3(a, b, c) }
    V_MAX3_I32(a: I32, b: I32, c: I32) -> I32 { a.max(b).max(c) }
    V_MIN3_I32(a: I32, b: I32, c: I32) -> I32 { a.min(b).min(c) }
    V_MED3_I32(a: I32, b: I32, c: I32) -> I32 { med3(a, b, c) }
    V_MAXMIN_U32(a: U32, b: U32, c: U32) -> U32 { a.max(b).min(c) }
    V_MINMAX_U32(a: U32, b: U32, c: U32) -> U32 { a.min(b).max(c) }
    V_MAXMIN_I32(a: I32, b: I32, c: I32) -> I32 { a.max(b).min(c) }
    V_MINMAX_I32(a: I32, b: I32, c: I32) -> I32 { a.min(b).max(c) }
    V_BFE_U32(a: U32, b: U32, c: U32) -> U32 { (a >> (b & 31)) & ((1 << (c & 31)) - 1) }
    V_BFE_I32(a: U32, b: U32, c: U32) -> I32 {
        let width = c & 31;
        let field = (a >> (b & 31)) & ((1 << width) - 1);
        if width == 0 { 0 } else { (field << (32 - width)) as i32 >> (32 - width) }
    }
    V_BFI_B32(a: U32, b: U32, c: U32) -> U32 { a & b | !a & c }
    V_BFM_B32(a: U32, b: U32) -> U32 { ((1 << (a & 31)) - 1) << (b & 31) }
    V_BCNT_U32_B32(a: U32, b: U32) -> U32 { a.count_ones().wrapping_add(b) }
    V_ALIGNBIT_B32(a: U32, b: U32, c: U32) -> U32 { ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32 }
    V_ALIGNBYTE_B32(a: U32, b: U32, c: U32) -> U32 { ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32 }
    V_SAD_U8(a: U32, b: U32, c: U32) -> U32 { sad_u8(a, b).wrapping_add(c) }
    V_SAD_HI_U8(a: U32, b: U32, c: U32) -> U32 { (sad_u8(a, b) << 16).wrapping_add(c) }
    V_SAD_U16(a: U32, b: U32, c: U32) -> U32 {
        (a & 0xffff).abs_diff(b & 0xffff).wrapping_add((a >> 16).abs_diff(b >> 16)).wrapping_add(c)
    }
    V_SAD_U32(a: U32, b: U32, c: U32) -> U32 { a.abs_diff(b).wrapping_add(c) }
    V_MSAD_U8(a: U32, b: U32, c: U32) -> U32 {
        (0..4)
            .map(|i| (a >> (8 * i) & 0xff, b >> (8 * i) & 0xff))
            .fold(c, |sum, (a, b)| if b == 0 { sum } else { sum.wrapping_add(a.abs_diff(b)) })
    }
    V_LERP_U8(a: U32, b: U32, c: U32) -> U32 {
        (0..4).fold(0, |result, i| {
            let byte = |x: u32| x >> (8 * i) & 0xff;
            result | ((byte(a) + byte(b) + (byte(c) & 1)) >> 1) << (8 * i)
        })
    }
    V_CVT_PK_U16_U32(a: U32, b: U32) -> U32 { a.min(0xffff) | b.min(0xffff) << 16 }
    V_CVT_PK_I16_I32(a: I32, b: I32) -> U32 {
        a.clamp(-32768, 32767) as u32 & 0xffff | (b.clamp(-32768, 32767) as u32) << 16
    }
    V_ADD_U16(a: U16, b: U16) -> U16 { a.wrapping_add(b) }
    V_SUB_U16(a: U16, b: U16) -> U16 { a.wrapping_sub(b) }
    V_SUBREV_U16(a: U16, b: U16) -> U16 { b.wrapping_sub(a) }
    V_ADD_NC_U16(a: U16, b: U16) -> U16 { a.wrapping_add(b) }
    V_SUB_NC_U16(a: U16, b: U16) -> U16 { a.wrapping_sub(b) }
    V_ADD_NC_I16(a: U16, b: U16) -> U16 { a.wrapping_add(b) }
    V_SUB_NC_I16(a: U16, b: U16) -> U16 { a.wrapping_sub(b) }
    V_MUL_LO_U16(a: U16, b: U16) -> U16 { a.wrapping_mul(b) }
    V_MAX_U16(a: U16, b: U16) -> U16 { a.max(b) }
    V_MIN_U16(a: U16, b: U16) -> U16 { a.min(b) }
    V_MAX_I16(a: I16, b: I16) -> I16 { a.max(b) }
    V_MIN_I16(a: I16, b: I16) -> I16 { a.min(b) }
    V_MAX3_U16(a: U16, b: U16, c: U16) -> U16 { a.max(b).max(c) }
    V_MIN3_U16(a: U16, b: U16, c: U16) -> U16 { a.min(b).min(c) }
    V_MED3_U16(a: U16, b: U16, c: U16) -> U16 { med3(a, b, c) }
    V_MAX3_I16(a: I16, b: I16, c: I16) -> I16 { a.max(b).max(c) }
    V_MIN3_I16(a: I16, b: I16, c: I16) -> I16 { a.min(b).min(c) }
    V_MED3_I16(a: I16, b: I16, c: I16) -> I16 { med3(a, b, c) }
    V_MAD_U16(a: U16, b: U16, c: U16) -> U16 { a.wrapping_mul(b).wrapping_add(c) }
    V_MAD_LEGACY_U16(a: U16, b: U16, c: U16) -> U16 { a.wrapping_mul(b).wrapping_add(c) }
    V_MAD_I16(a: U16, b: U16, c: U16) -> U16 { a.wrapping_mul(b).wrapping_add(c) }
    V_MAD_LEGACY_I16(a: U16, b: U16, c: U16) -> U16 { a.wrapping_mul(b).wrapping_add(c) }
}

lanes! { saturating;
    V_ADD_NC_U32(a: U32, b: U32) -> U32 { a.saturating_add(b) }
    V_SUB_NC_U32(a: U32, b: U32) -> U32 { a.saturating_sub(b) }
    V_SUBREV_NC_U32(a: U32, b: U32) -> U32 { b.saturating_sub(a) }
    V_ADD_NC_I32(a: I32, b: I32) -> I32 { a.saturating_add(b) }
    V_SUB_NC_I32(a: I32, b: I32) -> I32 { a.saturating_sub(b) }
    V_ADD_U16(a: U16, b: U16) -> U16 { a.saturating_add(b) }
    V_SUB_U16(a: U16, b: U16) -> U16 { a.saturating_sub(b) }
    V_SUBREV_U16(a: U16, b: U16) -> U16 { b.saturating_sub(a) }
    V_ADD_NC_U16(a: U16, b: U16) -> U16 { a.saturating_add(b) }
    V_SUB_NC_U16(a: U16, b: U16) -> U16 { a.saturating_sub(b) }
    V_ADD_NC_I16(a: I16, b: I16) -> I16 { a.saturating_add(b) }
    V_SUB_NC_I16(a: I16, b: I16) -> I16 { a.saturating_sub(b) }
    V_MUL_LO_U16(a: U16, b: U16) -> U16 { a.saturating_mul(b) }
    V_MAD_U32_U24(a: U32, b: U32, c: U32) -> U32 {
        (u64::from(u24(a)) * u64::from(u24(b)) + u64::from(c)).min(u64::from(u32::MAX)) as u32
    }
    V_MAD_I32_I24(a: U32, b: U32, c: I32) -> I32 {
        (i64::from(i24(a)) * i64::from(i24(b)) + i64::from(c)).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
    }
    V_MAD_U32_U16(a: U16, b: U16, c: U32) -> U32 { (u32::from(a) * u32::from(b)).saturating_add(c) }
    V_MAD_I32_I16(a: I16, b: I16, c: I32) -> I32 { (i32::from(a) * i32::from(b)).saturating_add(c) }
    V_MAD_U16(a: U16, b: U16, c: U16) -> U16 {
        (u32::from(a) * u32::from(b) + u32::from(c)).min(0xffff) as u16
    }
    V_MAD_LEGACY_U16(a: U16, b: U16, c: U16) -> U16 {
        (u32::from(a) * u32::from(b) + u32::from(c)).min(0xffff) as u16
    }
    V_MAD_I16(a: I16, b: I16, c: I16) -> I16 {
        (i32::from(a) * i32::from(b) + i32::from(c)).clamp(-32768, 32767) as i16
    }
    V_MAD_LEGACY_I16(a: I16, b: I16, c: I16) -> I16 {
        (i32::from(a) * i32::from(b) + i32::from(c)).clamp(-32768, 32767) as i16
    }
    V_SAD_U8(a: U32, b: U32, c: U32) -> U32 { sad_u8(a, b).saturating_add(c) }
    V_SAD_U32(a: U32, b: U32, c: U32) -> U32 { a.abs_diff(b).saturating_add(c) }
}
