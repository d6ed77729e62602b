//! The types that lanes are read and written as: how bits become a value, what modifiers and denormal modes do to it.

use crate::exec::float;
use crate::wave::{flags, mods};

/// How a lane's bits are read and written.
pub(crate) trait Elem {
    type T: Copy;
    /// Takes two registers.
    const PAIR: bool = false;
    /// Sixteen bits: results may go to one half.
    const HALF: bool = false;
    /// The mode bits that keep denormals of operands and of results; 0 where there are none.
    const KEEP_IN: u32 = 0;
    const KEEP_OUT: u32 = 0;
    fn get(low: u32, high: u32) -> Self::T;
    fn put(value: Self::T) -> (u32, u32);
    /// Negation and absolute value; for halves also which one is meant.
    #[inline(always)]
    fn modify(mods: u8, low: &mut u32, _high: &mut u32) {
        if mods & mods::ABS != 0 {
            *low &= 0x7fff_ffff;
        }
        if mods & mods::NEG != 0 {
            *low ^= 0x8000_0000;
        }
    }
    #[inline(always)]
    fn flush(_low: &mut u32, _high: &mut u32) {}
    /// Output modifier and clamp.
    #[inline(always)]
    fn finish(value: (u32, u32), _flags: u32, _mode: u32) -> (u32, u32) {
        value
    }
}

macro_rules! integers {
    ($($name:ident $type:ty, $get:expr, $put:expr;)*) => {$(
        pub(crate) struct $name;
        impl Elem for $name {
            type T = $type;
            #[inline(always)]
            fn get(low: u32, _high: u32) -> $type { let get: fn(u32) -> $type = $get; get(low) }
            #[inline(always)]
            fn put(value: $type) -> (u32, u32) { let put: fn($type) -> u32 = $put; (put(value), 0) }
        }
    )*};
}
integers! {
    U32 u32, |x| x, |x| x;
    I32 i32, |x| x as i32, |x| x as u32;
}

macro_rules! halves {
    ($($name:ident $type:ty, $in:expr, $out:expr, $get:expr, $put:expr;)*) => {$(
        pub(crate) struct $name;
        impl Elem for $name {
            type T = $type;
            const HALF: bool = true;
            const KEEP_IN: u32 = $in;
            const KEEP_OUT: u32 = $out;
            #[inline(always)]
            fn get(low: u32, _high: u32) -> $type { let get: fn(u16) -> $type = $get; get(low as u16) }
            #[inline(always)]
            fn put(value: $type) -> (u32, u32) { let put: fn($type) -> u16 = $put; (u32::from(put(value)), 0) }
            #[inline(always)]
            fn modify(mods: u8, low: &mut u32, _high: &mut u32) {
                if mods & mods::HIGH != 0 {
                    *low >>= 16;
                }
                if mods & mods::ABS != 0 {
                    *low &= 0x7fff;
                }
                if mods & mods::NEG != 0 {
                    *low ^= 0x8000;
                }
            }
            #[inline(always)]
            fn flush(low: &mut u32, _high: &mut u32) {
                if *low & 0x7c00 == 0 {
                    *low &= 0x8000;
                }
            }
            #[inline(always)]
            fn finish(value: (u32, u32), bits: u32, mode: u32) -> (u32, u32) {
                if $in == 0 {
                    return value;
                }
                let (low, _) = F32::finish((float::f16_to_f32(value.0 as u16).to_bits(), 0), bits, mode);
                (u32::from(float::f32_to_f16(f32::from_bits(low))), 0)
            }
        }
    )*};
}
halves! {
    U16 u16, 0, 0, |x| x, |x| x;
    I16 i16, 0, 0, |x| x as i16, |x| x as u16;
    // Arithmetic on f16 is done in f32 and rounded once more at the end, which is exact for one operation.
    F16 f32, 1 << 6, 1 << 7, float::f16_to_f32, float::f32_to_f16;
    // Bits of an f16 for what must not go through f32.
    B16 u16, 1 << 6, 1 << 7, |x| x, |x| x;
}

/// An f16 that needs more than an f32 in between: fused multiply and add.
pub(crate) struct F16Wide;
impl Elem for F16Wide {
    type T = f64;
    const HALF: bool = true;
    const KEEP_IN: u32 = 1 << 6;
    const KEEP_OUT: u32 = 1 << 7;
    #[inline(always)]
    fn get(low: u32, _high: u32) -> f64 {
        f64::from(float::f16_to_f32(low as u16))
    }
    #[inline(always)]
    fn put(value: f64) -> (u32, u32) {
        (u32::from(float::f64_to_f16(value)), 0)
    }
    #[inline(always)]
    fn modify(mods: u8, low: &mut u32, high: &mut u32) {
        F16::modify(mods, low, high);
    }
    #[inline(always)]
    fn flush(low: &mut u32, high: &mut u32) {
        F16::flush(low, high);
    }
    #[inline(always)]
    fn finish(value: (u32, u32), bits: u32, mode: u32) -> (u32, u32) {
        F16::finish(value, bits, mode)
    }
}

pub(crate) struct F32;
impl Elem for F32 {
    type T = f32;
    const KEEP_IN: u32 = 1 << 4;
    const KEEP_OUT: u32 = 1 << 5;
    #[inline(always)]
    fn get(low: u32, _high: u32) -> f32 {
        f32::from_bits(low)
    }
    #[inline(always)]
    fn put(value: f32) -> (u32, u32) {
        (value.to_bits(), 0)
    }
    #[inline(always)]
    fn flush(low: &mut u32, _high: &mut u32) {
        *low = float::flush(f32::from_bits(*low)).to_bits();
    }
    #[inline(always)]
    fn finish(value: (u32, u32), bits: u32, mode: u32) -> (u32, u32) {
        let mut x = f32::from_bits(value.0);
        if bits & flags::OMOD != 0 {
            // The sum makes -0 a +0, as cards do.
            x = x * [1.0, 2.0, 4.0, 0.5][(bits & flags::OMOD) as usize / 2] + 0.0;
        }
        if bits & flags::CLAMP != 0 {
            if x.is_nan() {
                // DX10_CLAMP: a NaN becomes 0.
                if mode & 1 << 8 != 0 {
                    x = 0.0;
                }
            } else {
                x = if x > 0.0 { x } else { 0.0 };
                x = if x < 1.0 { x } else { 1.0 };
            }
        }
        (x.to_bits(), 0)
    }
}

/// Two results at once, in two registers.
pub(crate) struct Two;
impl Elem for Two {
    type T = (f32, f32);
    const PAIR: bool = true;
    const KEEP_IN: u32 = F32::KEEP_IN;
    const KEEP_OUT: u32 = F32::KEEP_OUT;
    #[inline(always)]
    fn get(low: u32, high: u32) -> (f32, f32) {
        (f32::from_bits(low), f32::from_bits(high))
    }
    #[inline(always)]
    fn put(value: (f32, f32)) -> (u32, u32) {
        (value.0.to_bits(), value.1.to_bits())
    }
    #[inline(always)]
    fn flush(low: &mut u32, high: &mut u32) {
        F32::flush(low, &mut 0);
        F32::flush(high, &mut 0);
    }
    #[inline(always)]
    fn finish(value: (u32, u32), bits: u32, mode: u32) -> (u32, u32) {
        (F32::finish((value.0, 0), bits, mode).0, F32::finish((value.1, 0), bits, mode).0)
    }
}

macro_rules! pairs {
    ($($name:ident $type:ty, $in:expr, $out:expr, $get:expr, $put:expr;)*) => {$(
        pub(crate) struct $name;
        impl Elem for $name {
            type T = $type;
            const PAIR: bool = true;
            const KEEP_IN: u32 = $in;
            const KEEP_OUT: u32 = $out;
            #[inline(always)]
            fn get(low: u32, high: u32) -> $type {
                let get: fn(u64) -> $type = $get;
                get(u64::from(low) | u64::from(high) << 32)
            }
            #[inline(always)]
            fn put(value: $type) -> (u32, u32) {
                let put: fn($type) -> u64 = $put;
                let bits = put(value);
                (bits as u32, (bits >> 32) as u32)
            }
            #[inline(always)]
            fn modify(mods: u8, _low: &mut u32, high: &mut u32) {
                U32::modify(mods, high, &mut 0);
            }
            #[inline(always)]
            fn flush(low: &mut u32, high: &mut u32) {
                if *high & 0x7ff0_0000 == 0 {
                    (*low, *high) = (0, *high & 0x8000_0000);
                }
            }
            #[inline(always)]
            fn finish(value: (u32, u32), bits: u32, mode: u32) -> (u32, u32) {
                if $in == 0 {
                    return value;
                }
                let mut x = f64::from_bits(u64::from(value.0) | u64::from(value.1) << 32);
                if bits & flags::OMOD != 0 {
                    x = x * [1.0, 2.0, 4.0, 0.5][(bits & flags::OMOD) as usize / 2] + 0.0;
                }
                if bits & flags::CLAMP != 0 {
                    if x.is_nan() {
                        if mode & 1 << 8 != 0 {
                            x = 0.0;
                        }
                    } else {
                        x = if x > 0.0 { x } else { 0.0 };
                        x = if x < 1.0 { x } else { 1.0 };
                    }
                }
                (x.to_bits() as u32, (x.to_bits() >> 32) as u32)
            }
        }
    )*};
}
pairs! {
    U64 u64, 0, 0, |x| x, |x| x;
    I64 i64, 0, 0, |x| x as i64, |x| x as u64;
    F64 f64, 1 << 6, 1 << 7, f64::from_bits, |x| x.to_bits();
}
