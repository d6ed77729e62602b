//! The dtypes as Rust types, how near a result has to be for each, and random values that include the awkward ones.

use candle_rocm_kernels::DType;
use float8::F8E4M3;
use half::{bf16, f16};
use std::fmt::Debug;

/// How far a result may be from the reference, rounded to the dtype: relative and absolute. What has one right answer (copies,
/// casts, integer and IEEE arithmetic, comparisons) is compared bit for bit instead.
pub const TOLERANCES: [(DType, f64, f64); 10] = [
    (DType::U8, 0.0, 0.0),
    (DType::U32, 0.0, 0.0),
    (DType::I16, 0.0, 0.0),
    (DType::I32, 0.0, 0.0),
    (DType::I64, 0.0, 0.0),
    (DType::BF16, 8e-3, 1e-6),
    (DType::F16, 1e-3, 2e-6),
    (DType::F32, 1e-6, 1e-6),
    (DType::F64, 2e-15, 5e-15),
    (DType::F8E4M3, 0.13, 2e-3),
];

/// An element of a tensor.
pub trait Element: Copy + Debug + PartialOrd + Send + Sync + 'static {
    const DTYPE: DType;
    fn from_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;
    fn bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut Vec<u8>);
    fn is_nan(self) -> bool {
        self.to_f64().is_nan()
    }
}

macro_rules! element {
    ($type:ty, $bits:ty, $dtype:ident, $from:expr, $to:expr, $to_bits:expr, $from_bits:expr) => {
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            fn from_f64(value: f64) -> Self {
                $from(value)
            }
            fn to_f64(self) -> f64 {
                $to(self)
            }
            fn bits(self) -> u64 {
                $to_bits(self) as u64
            }
            fn from_bits(bits: u64) -> Self {
                $from_bits(bits as $bits)
            }
            fn read(bytes: &[u8]) -> Self {
                $from_bits(<$bits>::from_le_bytes(bytes.try_into().expect("as many bytes as an element has")))
            }
            fn write(self, bytes: &mut Vec<u8>) {
                bytes.extend(($to_bits(self) as $bits).to_le_bytes())
            }
        }
    };
}
macro_rules! integer {
    ($type:ident, $bits:ident, $dtype:ident) => {
        element!($type, $bits, $dtype, |v: f64| v as $type, |v: $type| v as f64, |v: $type| v as $bits, |b: $bits| b
            as $type);
    };
}
integer!(u8, u8, U8);
integer!(u32, u32, U32);
integer!(i16, u16, I16);
integer!(i32, u32, I32);
integer!(i64, u64, I64);
element!(bf16, u16, BF16, to_bf16, bf16::to_f64, bf16::to_bits, bf16::from_bits);
element!(f16, u16, F16, to_f16, f16::to_f64, f16::to_bits, f16::from_bits);
element!(f32, u32, F32, |v: f64| v as f32, |v: f32| v as f64, f32::to_bits, f32::from_bits);
element!(f64, u64, F64, |v: f64| v, |v: f64| v, f64::to_bits, f64::from_bits);
element!(
    F8E4M3,
    u8,
    F8E4M3,
    F8E4M3::from_f64,
    |v: F8E4M3| F8E4M3::to_f64(&v),
    |v: F8E4M3| v.to_bits(),
    F8E4M3::from_bits
);

fn to_bf16(value: f64) -> bf16 {
    bf16::from_bits(nearest(value, bf16::from_f32(value as f32).to_bits(), 2f64.powi(128), |bits| {
        bf16::from_bits(bits).to_f64()
    }))
}

fn to_f16(value: f64) -> f16 {
    f16::from_bits(nearest(value, f16::from_f32(value as f32).to_bits(), 65536.0, |bits| f16::from_bits(bits).to_f64()))
}

/// The bits of the nearest 16-bit float, the even one of two that are equally near. The crate's own conversion from f64 is not
/// that: it drops the low half of the mantissa first, or rounds to f32 first, depending on the machine. `guess` is right or
/// next to it; `beyond` is where infinity would lie if it were a number.
fn nearest(value: f64, guess: u16, beyond: f64, number: impl Fn(u16) -> f64) -> u16 {
    if !value.is_finite() {
        return guess;
    }
    let (sign, magnitude) = (guess & 0x8000, guess & 0x7fff);
    let distance = |bits: u16| {
        let n = number(bits);
        (if n.is_infinite() { beyond } else { n } - value.abs()).abs()
    };
    let around = [magnitude.saturating_sub(1), magnitude, magnitude + 1];
    let real = around.into_iter().filter(|&bits| !number(bits).is_nan());
    sign | real.min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1)))).unwrap_or(magnitude)
}

/// Runs a generic function of a bench for a list of dtypes: `for_types!(check(bench) over all)`.
#[macro_export]
macro_rules! for_types {
    ($f:ident($bench:expr) over all) => {
        $crate::for_types!($f($bench) over ints);
        $crate::for_types!($f($bench) over floats)
    };
    ($f:ident($bench:expr) over ints) => {
        $crate::for_types!($f($bench) over u8 u32 i16 i32 i64)
    };
    ($f:ident($bench:expr) over floats) => {
        $crate::for_types!($f($bench) over half::bf16 half::f16 f32 f64 float8::F8E4M3)
    };
    ($f:ident($bench:expr) over $($type:ty)*) => {
        $($f::<$type>($bench);)*
    };
}

/// Reproducible random numbers (SplitMix64).
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of 0, 1, ..., below - 1.
    pub fn below(&mut self, below: usize) -> usize {
        (self.next() % below as u64) as usize
    }

    /// Evenly from `low` to `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.next() >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// Ordinary values, negative ones too where there are any, all small: sums and products of them are exact or nearly.
    pub fn plain<T: Element>(&mut self, count: usize) -> Vec<T> {
        let lowest = if T::from_f64(-1.0).to_f64() < 0.0 { -10.0 } else { 0.0 };
        (0..count).map(|_| T::from_f64(self.between(lowest, 10.0))).collect()
    }

    /// Ordinary values, with one in eight a special one: zeros, infinities, NaN, extremes, subnormals, or any bits.
    pub fn awkward<T: Element>(&mut self, count: usize) -> Vec<T> {
        const SPECIAL: [f64; 12] =
            [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, f64::MIN, 1e-7];
        let mut values = self.plain::<T>(count);
        for value in &mut values {
            match self.below(16) {
                0 => *value = T::from_f64(SPECIAL[self.below(SPECIAL.len())]),
                1 => *value = T::from_bits(self.next()),
                _ => {}
            }
        }
        values
    }
}
