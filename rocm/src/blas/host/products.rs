//! Matrix with matrix, through the crate `gemm`: one matrix, a batch with strides, a batch by a list of addresses. Half precision is
//! widened to f32 and i8 to f64, in which its products and sums are exact.

use super::super::abi::*;
use super::super::product::{products, Batch, Product};
use super::{answer, require, Context, Scalar, NOT_IMPLEMENTED};
use crate::embedded::Address;
use gemm::Parallelism;
use half::{bf16, f16};
use std::ffi::c_void;

/// Where the matrices of a batch lie.
#[derive(Clone, Copy)]
enum Place {
    /// At equal distances, in elements.
    Strided { first: Address, stride: isize },
    /// At the addresses in a list in device memory.
    Listed(Address),
}

/// One column-major operand of a batch.
#[derive(Clone, Copy)]
struct Side {
    place: Place,
    row_stride: isize,
    column_stride: isize,
}

impl Side {
    fn new(place: Place, operation: rocblas_operation, leading: rocblas_int) -> Self {
        let leading = leading as isize;
        let none = operation == rocblas_operation::rocblas_operation_none;
        let (row_stride, column_stride) = if none { (1, leading) } else { (leading, 1) };
        Self { place, row_stride, column_stride }
    }

    /// The matrix of an index.
    ///
    /// # Safety
    /// Whoever queued the product vouches for lists of addresses.
    unsafe fn matrix<T>(&self, index: usize) -> *mut T {
        match self.place {
            Place::Strided { first, stride } => first.pointer::<T>().wrapping_offset(stride * index as isize),
            // SAFETY: the caller's promise.
            Place::Listed(list) => unsafe { list.pointer::<*mut T>().add(index).read() },
        }
    }

    fn at(&self, row: usize, column: usize) -> isize {
        row as isize * self.row_stride + column as isize * self.column_stride
    }
}

/// A product as it is queued.
#[derive(Clone, Copy)]
struct Work<S> {
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    a: Side,
    b: Side,
    c: Side,
    d: Side,
    alpha: Scalar<S>,
    beta: Scalar<S>,
}

/// What the crate `gemm` computes in.
trait Wide: Copy + Default + PartialEq + Send + Sync + 'static {}
impl Wide for f32 {}
impl Wide for f64 {}

/// An element or a scalar of a product that is computed in `W`.
trait Element<W>: Copy + Send + Sync + 'static {
    fn widen(self) -> W;
    fn narrow(value: W) -> Self;
}

macro_rules! elements {
    ($($type:ty => $wide:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Element<$wide> for $type {
            fn widen(self) -> $wide {
                $widen(self)
            }
            fn narrow(value: $wide) -> Self {
                $narrow(value)
            }
        }
    )*};
}

elements! {
    f16 => f32, f16::to_f32, f16::from_f32;
    bf16 => f32, bf16::to_f32, bf16::from_f32;
    f32 => f32, std::convert::identity, std::convert::identity;
    f64 => f64, std::convert::identity, std::convert::identity;
    i8 => f64, f64::from, |value| value as i8;
    i32 => f64, f64::from, |value| value as i64 as i32;
}

/// `d = alpha * a * b + beta * d` for one matrix; `beta` as the crate has it decides whether `d` is read.
///
/// # Safety
/// The three matrices have the product's sizes and the sides' strides, and nobody else uses `d` meanwhile.
unsafe fn multiply<S, W: Wide>(
    p: &Work<S>,
    [a, b, d]: [&Side; 3],
    at: (*const W, *const W, *mut W),
    alpha: W,
    beta: W,
) {
    // Small products are not worth waking other threads for.
    let threads = if p.m * p.n * p.k < 64 * 64 * 64 { Parallelism::None } else { Parallelism::Rayon(0) };
    // The crate computes d = alpha' * d + beta' * a b.
    // SAFETY: passed on to the caller.
    unsafe {
        gemm::gemm(
            p.m,
            p.n,
            p.k,
            at.2,
            d.column_stride,
            d.row_stride,
            beta != W::default(),
            at.0,
            a.column_stride,
            a.row_stride,
            at.1,
            b.column_stride,
            b.row_stride,
            beta,
            alpha,
            false,
            false,
            false,
            threads,
        );
    }
}

/// Elements that the crate multiplies as they lie.
fn run<W: Wide>(p: &Work<W>) {
    let (alpha, beta) = (p.alpha.get(), p.beta.get());
    for index in 0..p.batch {
        // SAFETY: whoever queued the product vouches for its operands, as for any launch; sizes and leading dimensions were
        // checked against each other when it was queued.
        unsafe {
            let (c, d) = (p.c.matrix::<W>(index), p.d.matrix::<W>(index));
            if c != d && beta != W::default() {
                for column in 0..p.n {
                    (0..p.m).for_each(|row| *d.offset(p.d.at(row, column)) = *c.offset(p.c.at(row, column)));
                }
            }
            multiply(p, [&p.a, &p.b, &p.d], (p.a.matrix(index), p.b.matrix(index), d), alpha, beta);
        }
    }
}

/// Elements that are widened first: the crate has no bf16 and no integers, and its f16 kernels add up in f16.
fn run_widened<I: Element<W>, O: Element<W>, S: Element<W>, W: Wide>(p: &Work<S>) {
    let (alpha, beta) = (p.alpha.get().widen(), p.beta.get().widen());
    let packed = |rows: usize| Side {
        place: Place::Strided { first: Address::of::<W>(std::ptr::null()), stride: 0 },
        row_stride: 1,
        column_stride: rows as isize,
    };
    for index in 0..p.batch {
        // SAFETY: inside the operands, as in `run`.
        unsafe {
            let a = widened::<I, W>(p.a.matrix(index), &p.a, p.m, p.k);
            let b = widened::<I, W>(p.b.matrix(index), &p.b, p.k, p.n);
            let mut d = match beta == W::default() {
                true => vec![W::default(); p.m * p.n],
                false => widened::<O, W>(p.c.matrix(index), &p.c, p.m, p.n),
            };
            let sides = [&packed(p.m), &packed(p.k), &packed(p.m)];
            multiply(p, sides, (a.as_ptr(), b.as_ptr(), d.as_mut_ptr()), alpha, beta);
            let target = p.d.matrix::<O>(index);
            for (position, value) in d.into_iter().enumerate() {
                *target.offset(p.d.at(position % p.m, position / p.m)) = O::narrow(value);
            }
        }
    }
}

/// A matrix in columns without gaps.
///
/// # Safety
/// The matrix has these sizes and the side's strides.
unsafe fn widened<T: Element<W>, W>(from: *const T, side: &Side, rows: usize, columns: usize) -> Vec<W> {
    let places = (0..columns).flat_map(|column| (0..rows).map(move |row| side.at(row, column)));
    // SAFETY: the caller's promise.
    places.map(|at| unsafe { *from.offset(at) }.widen()).collect()
}

const F16: rocblas_datatype = rocblas_datatype::rocblas_datatype_f16_r;
const BF16: rocblas_datatype = rocblas_datatype::rocblas_datatype_bf16_r;
const F32: rocblas_datatype = rocblas_datatype::rocblas_datatype_f32_r;
const F64: rocblas_datatype = rocblas_datatype::rocblas_datatype_f64_r;
const I8: rocblas_datatype = rocblas_datatype::rocblas_datatype_i8_r;
const I32: rocblas_datatype = rocblas_datatype::rocblas_datatype_i32_r;

products!(multiply_all);

/// # Safety
/// The scalars are the caller's promise now, the matrices until the product is done.
unsafe fn multiply_all(handle: rocblas_handle, call: &Product) -> rocblas_status {
    let [a_type, b_type, c_type, d_type, compute] = call.types;
    let act = || {
        let context = Context::of(handle)?;
        if call.is_empty() {
            return Ok(());
        }
        require(a_type == b_type && c_type == d_type, NOT_IMPLEMENTED)?;
        // SAFETY: the caller's promise.
        unsafe {
            match (a_type, d_type, compute) {
                (F16, F16, F32) => queue(call, context, 2, run_widened::<f16, f16, f32, f32>),
                (F16, F32, F32) => queue(call, context, 4, run_widened::<f16, f32, f32, f32>),
                (BF16, BF16, F32) => queue(call, context, 2, run_widened::<bf16, bf16, f32, f32>),
                (BF16, F32, F32) => queue(call, context, 4, run_widened::<bf16, f32, f32, f32>),
                (I8, I32, I32) => queue(call, context, 4, run_widened::<i8, i32, i32, f64>),
                (F32, F32, F32) => queue(call, context, 4, run::<f32>),
                (F64, F64, F64) => queue(call, context, 8, run::<f64>),
                _ => Err(NOT_IMPLEMENTED),
            }
        }
    };
    answer(act())
}

/// # Safety
/// As for `multiply_all`; `S` is the compute type.
unsafe fn queue<S: Copy + Send + Sync + 'static>(
    call: &Product,
    context: Context,
    size: usize,
    run: fn(&Work<S>),
) -> Result<(), rocblas_status> {
    let [m, n, k, batch] = call.sizes.map(|size| size as usize);
    let none = rocblas_operation::rocblas_operation_none;
    let side = |index: usize, trans| {
        let address = Address::of(call.at[index]);
        let place = match call.batch {
            Batch::One => Place::Strided { first: address, stride: 0 },
            Batch::Strided(strides) => Place::Strided { first: address, stride: strides[index] as isize },
            Batch::Listed => Place::Listed(address),
        };
        Side::new(place, trans, call.leading[index])
    };
    // SAFETY: the caller's promise.
    let (alpha, beta) = unsafe { (context.scalar(call.scalars[0].cast())?, context.scalar(call.scalars[1].cast())?) };
    let (a, b) = (side(0, call.trans[0]), side(1, call.trans[1]));
    let work = Work { m, n, k, batch, a, b, c: side(2, none), d: side(3, none), alpha, beta };
    let matrix_bytes = ((n - 1) * call.leading[3] as usize + m) * size;
    let bytes = match call.batch {
        Batch::One => matrix_bytes,
        Batch::Strided(strides) => strides[3].unsigned_abs() as usize * (batch - 1) * size + matrix_bytes,
        // Where the results lie is known when the product runs; checked mode hears of none of them.
        Batch::Listed => 0,
    };
    context.run(call.at[3].cast_mut(), bytes, move || run(&work))
}
