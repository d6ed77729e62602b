//! What a kernel's type parameter can stand for: numbers, and those that have atomic operations.

use crate::element::DeviceCopy;
use half::{bf16, f16};
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Rem, RemAssign, Sub, SubAssign};

/// A number: what `T: Number` gives a kernel that is made for several types.
pub trait Number:
    DeviceCopy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + RemAssign
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The smallest number, which is finite.
    const MIN: Self;
    /// The largest number, which is finite.
    const MAX: Self;

    /// The number, rounded to the nearest; a float that does not fit an integer is cut off at its ends, as by `as`.
    fn from_f32(value: f32) -> Self;

    /// As f32, rounded to the nearest.
    fn to_f32(self) -> f32;
}

macro_rules! numbers {
    ($zero:literal $one:literal: $($type:ty)*) => {$(
        impl Number for $type {
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            const MIN: Self = <$type>::MIN;
            const MAX: Self = <$type>::MAX;

            fn from_f32(value: f32) -> Self {
                value as $type
            }

            fn to_f32(self) -> f32 {
                self as f32
            }
        }
    )*};
}
numbers!(0 1: i8 i16 i32 i64 isize u8 u16 u32 u64 usize);
numbers!(0.0 1.0: f32 f64);

macro_rules! halves {
    ($($type:ty)*) => {$(
        impl Number for $type {
            const ZERO: Self = <$type>::ZERO;
            const ONE: Self = <$type>::ONE;
            const MIN: Self = <$type>::MIN;
            const MAX: Self = <$type>::MAX;

            fn from_f32(value: f32) -> Self {
                <$type>::from_f32(value)
            }

            fn to_f32(self) -> f32 {
                <$type>::to_f32(self)
            }
        }
    )*};
}
halves!(f16 bf16);

/// A number that several threads may add to at once: integers of 32 and 64 bits, f32, f64.
pub trait AtomicNumber: Number {
    /// The sum, around the end for an integer.
    #[doc(hidden)]
    fn sum(self, other: Self) -> Self;

    /// The difference, around the end for an integer.
    #[doc(hidden)]
    fn difference(self, other: Self) -> Self;
}

/// An integer of 32 or 64 bits.
pub trait AtomicInteger:
    AtomicNumber + Ord + std::ops::BitAnd<Output = Self> + std::ops::BitOr<Output = Self> + std::ops::BitXor<Output = Self>
{
}

macro_rules! atomics {
    ($($type:ty)*) => {$(
        impl AtomicNumber for $type {
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn difference(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        }

        impl AtomicInteger for $type {}
    )*};
}
atomics!(i32 i64 isize u32 u64 usize);

macro_rules! atomic_floats {
    ($($type:ty)*) => {$(
        impl AtomicNumber for $type {
            fn sum(self, other: Self) -> Self {
                self + other
            }

            fn difference(self, other: Self) -> Self {
                self - other
            }
        }
    )*};
}
atomic_floats!(f32 f64);
