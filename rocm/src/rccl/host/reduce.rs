//! How the elements of several ranks become one: always in the order of ranks, so that a result is the same on every rank and in every
//! run. f16 and bf16 are added up in f32 and rounded once.

use super::super::abi::{ncclDataType_t, ncclRedOp_t};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Elements that are worked on at once, while they are in the processor's nearest cache.
const BLOCK: usize = 1024;

/// Reduces chunks of the same number of elements.
pub type Reduction = unsafe fn(sources: &[*const u8], target: *mut u8, count: usize);

/// The function for a type and an operation.
///
/// It reads `count` elements from each source, and writes as many to the target. All of them are aligned for the type; the target may be
/// one of the sources, and otherwise overlaps none.
pub fn reduction(dtype: ncclDataType_t, op: ncclRedOp_t) -> Option<Reduction> {
    macro_rules! operations {
        ($type:ty) => {
            Some(match op {
                ncclRedOp_t::ncclSum => reduce::<$type, Sum>,
                ncclRedOp_t::ncclProd => reduce::<$type, Product>,
                ncclRedOp_t::ncclMax => reduce::<$type, Max>,
                ncclRedOp_t::ncclMin => reduce::<$type, Min>,
                ncclRedOp_t::ncclAvg => reduce::<$type, Average>,
                _ => return None,
            })
        };
    }
    match dtype {
        ncclDataType_t::ncclInt8 => operations!(i8),
        ncclDataType_t::ncclUint8 => operations!(u8),
        ncclDataType_t::ncclInt32 => operations!(i32),
        ncclDataType_t::ncclUint32 => operations!(u32),
        ncclDataType_t::ncclInt64 => operations!(i64),
        ncclDataType_t::ncclUint64 => operations!(u64),
        ncclDataType_t::ncclFloat16 => operations!(f16),
        ncclDataType_t::ncclBfloat16 => operations!(bf16),
        ncclDataType_t::ncclFloat32 => operations!(f32),
        ncclDataType_t::ncclFloat64 => operations!(f64),
        _ => None,
    }
}

struct Sum;
struct Product;
struct Max;
struct Min;
struct Average;

/// A step of a reduction, and its end.
trait Operation<A> {
    fn step(sum: A, next: A) -> A;

    fn finish(sum: A, _ranks: usize) -> A {
        sum
    }
}

/// A type of elements, and the type they are reduced in.
trait Reduced: Copy {
    type Wide: Copy + Default;
    /// Wide values of elements.
    fn widen(from: &[Self], to: &mut [Self::Wide]);
    /// Elements of wide values.
    fn narrow(from: &[Self::Wide], to: &mut [Self]);
}

/// # Safety
/// As [`reduction`] says.
unsafe fn reduce<T: Reduced, O: Operation<T::Wide>>(sources: &[*const u8], target: *mut u8, count: usize) {
    let (mut sums, mut next) = ([T::Wide::default(); BLOCK], [T::Wide::default(); BLOCK]);
    for start in (0..count).step_by(BLOCK) {
        let length = BLOCK.min(count - start);
        for (at, source) in sources.iter().enumerate() {
            // SAFETY: the caller vouches for the elements; the slice is gone before the target is written.
            let elements = unsafe { std::slice::from_raw_parts(source.cast::<T>().add(start), length) };
            if at == 0 {
                T::widen(elements, &mut sums[..length]);
                continue;
            }
            T::widen(elements, &mut next[..length]);
            for (sum, next) in sums[..length].iter_mut().zip(&next[..length]) {
                *sum = O::step(*sum, *next);
            }
        }
        for sum in &mut sums[..length] {
            *sum = O::finish(*sum, sources.len());
        }
        // SAFETY: the caller vouches for the target, and no slice of a source is left.
        let elements = unsafe { std::slice::from_raw_parts_mut(target.cast::<T>().add(start), length) };
        T::narrow(&sums[..length], elements);
    }
}

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Reduced for $type {
            // Wider than any element, so that an average does not overflow; only the low bits of sums and products count.
            type Wide = i128;

            fn widen(from: &[Self], to: &mut [i128]) {
                to.iter_mut().zip(from).for_each(|(to, from)| *to = i128::from(*from));
            }

            fn narrow(from: &[i128], to: &mut [Self]) {
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as Self);
            }
        }
    )*};
}

integer!(i8, u8, i32, u32, i64, u64);

macro_rules! itself {
    ($($type:ty),*) => {$(
        impl Reduced for $type {
            type Wide = Self;

            fn widen(from: &[Self], to: &mut [Self]) {
                to.copy_from_slice(from);
            }

            fn narrow(from: &[Self], to: &mut [Self]) {
                to.copy_from_slice(from);
            }
        }
    )*};
}

itself!(f32, f64);

macro_rules! half {
    ($($type:ty),*) => {$(
        impl Reduced for $type {
            type Wide = f32;

            fn widen(from: &[Self], to: &mut [f32]) {
                from.convert_to_f32_slice(to);
            }

            fn narrow(from: &[f32], to: &mut [Self]) {
                to.convert_from_f32_slice(from);
            }
        }
    )*};
}

half!(f16, bf16);

macro_rules! float_operations {
    ($($type:ty),*) => {$(
        impl Operation<$type> for Sum {
            fn step(sum: $type, next: $type) -> $type {
                sum + next
            }
        }

        impl Operation<$type> for Product {
            fn step(sum: $type, next: $type) -> $type {
                sum * next
            }
        }

        impl Operation<$type> for Max {
            fn step(sum: $type, next: $type) -> $type {
                sum.max(next)
            }
        }

        impl Operation<$type> for Min {
            fn step(sum: $type, next: $type) -> $type {
                sum.min(next)
            }
        }

        impl Operation<$type> for Average {
            fn step(sum: $type, next: $type) -> $type {
                sum + next
            }

            fn finish(sum: $type, ranks: usize) -> $type {
                sum / ranks as $type
            }
        }
    )*};
}

float_operations!(f32, f64);

impl Operation<i128> for Sum {
    fn step(sum: i128, next: i128) -> i128 {
        sum + next
    }
}

impl Operation<i128> for Product {
    fn step(sum: i128, next: i128) -> i128 {
        // 64 ranks of 64 bits overflow even this; the low 64 bits are right all the same.
        sum.wrapping_mul(next)
    }
}

impl Operation<i128> for Max {
    fn step(sum: i128, next: i128) -> i128 {
        sum.max(next)
    }
}

impl Operation<i128> for Min {
    fn step(sum: i128, next: i128) -> i128 {
        sum.min(next)
    }
}

impl Operation<i128> for Average {
    fn step(sum: i128, next: i128) -> i128 {
        sum + next
    }

    fn finish(sum: i128, ranks: usize) -> i128 {
        sum / ranks as i128
    }
}
