//! Matrix with matrix, through the crate `gemm`: one matrix, a batch with strides, a batch by a list of addresses. Half precision is
//! widened to f32 and i8 to f64, in which its products and sums are exact.

use super::super::abi::*;
use super::{answer, require, Context, Scalar, INVALID_POINTER, INVALID_SIZE, NOT_IMPLEMENTED};
use crate::embedded::Address;
use gemm::Parallelism;
use half::{bf16, f16};
use std::ffi::c_void;

/// Where the matrices of a batch lie.
#[derive(Clone, Copy)]
enum Batch {
    /// At equal distances, in elements.
    Strided { first: Address, stride: isize },
    /// At the addresses in a list in device memory.
    Listed(Address),
}

/// One column-major operand of a batch.
#[derive(Clone, Copy)]
struct Side {
    batch: Batch,
    row_stride: isize,
    column_stride: isize,
}

impl Side {
    fn new(batch: Batch, operation: rocblas_operation, leading: rocblas_int) -> Self {
        let leading = leading as isize;
        let none = operation == rocblas_operation::rocblas_operation_none;
        let (row_stride, column_stride) = if none { (1, leading) } else { (leading, 1) };
        Self { batch, row_stride, column_stride }
    }

    /// The matrix of an index.
    ///
    /// # Safety
    /// Whoever queued the product vouches for lists of addresses.
    unsafe fn matrix<T>(&self, index: usize) -> *mut T {
        match self.batch {
            Batch::Strided { first, stride } => first.pointer::<T>().wrapping_offset(stride * index as isize),
            // SAFETY: the caller's promise.
            Batch::Listed(list) => unsafe { list.pointer::<*mut T>().add(index).read() },
        }
    }

    fn at(&self, row: usize, column: usize) -> isize {
        row as isize * self.row_stride + column as isize * self.column_stride
    }
}

/// A product as it is queued.
#[derive(Clone, Copy)]
struct Product<S> {
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
    p: &Product<S>,
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
fn run<W: Wide>(p: &Product<W>) {
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
fn run_widened<I: Element<W>, O: Element<W>, S: Element<W>, W: Wide>(p: &Product<S>) {
    let (alpha, beta) = (p.alpha.get().widen(), p.beta.get().widen());
    let packed = |rows: usize| Side {
        batch: Batch::Strided { first: Address::of::<W>(std::ptr::null()), stride: 0 },
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

/// A call's arguments behind the handle, the same for all three ways of saying where the matrices lie.
struct Call {
    trans: [rocblas_operation; 2],
    sizes: [rocblas_int; 4],
    scalars: [*const c_void; 2],
    types: [rocblas_datatype; 5],
    leading: [rocblas_int; 4],
    batches: [Batch; 4],
    pointers: [*const c_void; 4],
    target: *mut c_void,
}

impl Call {
    /// Checks the arguments and queues the product.
    ///
    /// # Safety
    /// The scalars are the caller's promise now, the matrices until the product is done.
    unsafe fn queue(&self, handle: rocblas_handle) -> Result<(), rocblas_status> {
        let ([m, n, k, batch], [lda, ldb, ldc, ldd]) = (self.sizes, self.leading);
        require(self.sizes.iter().all(|&size| size >= 0), INVALID_SIZE)?;
        let none = rocblas_operation::rocblas_operation_none;
        let rows_a = if self.trans[0] == none { m } else { k };
        let rows_b = if self.trans[1] == none { k } else { n };
        let least = [(lda, rows_a), (ldb, rows_b), (ldc, m), (ldd, m)];
        require(least.iter().all(|&(leading, rows)| leading >= rows.max(1)), INVALID_SIZE)?;
        let context = Context::of(handle)?;
        if m == 0 || n == 0 || batch == 0 {
            return Ok(());
        }
        require(self.pointers.iter().chain(&self.scalars).all(|pointer| !pointer.is_null()), INVALID_POINTER)?;
        let [a_type, b_type, c_type, d_type, compute] = self.types;
        require(a_type == b_type && c_type == d_type, NOT_IMPLEMENTED)?;
        // SAFETY: the caller's promise.
        unsafe {
            match (a_type, d_type, compute) {
                (F16, F16, F32) => self.run(context, 2, run_widened::<f16, f16, f32, f32>),
                (F16, F32, F32) => self.run(context, 4, run_widened::<f16, f32, f32, f32>),
                (BF16, BF16, F32) => self.run(context, 2, run_widened::<bf16, bf16, f32, f32>),
                (BF16, F32, F32) => self.run(context, 4, run_widened::<bf16, f32, f32, f32>),
                (I8, I32, I32) => self.run(context, 4, run_widened::<i8, i32, i32, f64>),
                (F32, F32, F32) => self.run(context, 4, run::<f32>),
                (F64, F64, F64) => self.run(context, 8, run::<f64>),
                _ => Err(NOT_IMPLEMENTED),
            }
        }
    }

    /// # Safety
    /// As for `queue`; `S` is the compute type.
    unsafe fn run<S: Copy + Send + Sync + 'static>(
        &self,
        context: Context,
        size: usize,
        run: fn(&Product<S>),
    ) -> Result<(), rocblas_status> {
        let [m, n, k, batch] = self.sizes.map(|size| size as usize);
        let none = rocblas_operation::rocblas_operation_none;
        let side = |index: usize, trans| Side::new(self.batches[index], trans, self.leading[index]);
        // SAFETY: the caller's promise.
        let (alpha, beta) =
            unsafe { (context.scalar(self.scalars[0].cast())?, context.scalar(self.scalars[1].cast())?) };
        let (a, b) = (side(0, self.trans[0]), side(1, self.trans[1]));
        let product = Product { m, n, k, batch, a, b, c: side(2, none), d: side(3, none), alpha, beta };
        let matrix_bytes = ((n - 1) * self.leading[3] as usize + m) * size;
        let bytes = match self.batches[3] {
            Batch::Strided { stride, .. } => stride.unsigned_abs() * (batch - 1) * size + matrix_bytes,
            // Where the results lie is known when the product runs; checked mode hears of none of them.
            Batch::Listed(_) => 0,
        };
        context.run(self.target, bytes, move || run(&product))
    }
}

fn strided(first: *const c_void, stride: rocblas_stride) -> Batch {
    Batch::Strided { first: Address::of(first), stride: stride as isize }
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn gemm_ex(
    handle: rocblas_handle,
    trans_a: rocblas_operation,
    trans_b: rocblas_operation,
    m: rocblas_int,
    n: rocblas_int,
    k: rocblas_int,
    alpha: *const c_void,
    a: *const c_void,
    a_type: rocblas_datatype,
    lda: rocblas_int,
    b: *const c_void,
    b_type: rocblas_datatype,
    ldb: rocblas_int,
    beta: *const c_void,
    c: *const c_void,
    c_type: rocblas_datatype,
    ldc: rocblas_int,
    d: *mut c_void,
    d_type: rocblas_datatype,
    ldd: rocblas_int,
    compute_type: rocblas_datatype,
    _algo: rocblas_gemm_algo,
    _solution_index: i32,
    _flags: u32,
) -> rocblas_status {
    let call = Call {
        trans: [trans_a, trans_b],
        sizes: [m, n, k, 1],
        scalars: [alpha, beta],
        types: [a_type, b_type, c_type, d_type, compute_type],
        leading: [lda, ldb, ldc, ldd],
        batches: [strided(a, 0), strided(b, 0), strided(c, 0), strided(d, 0)],
        pointers: [a, b, c, d],
        target: d,
    };
    // SAFETY: the caller of the ABI vouches for scalars and matrices.
    answer(unsafe { call.queue(handle) })
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn gemm_batched_ex(
    handle: rocblas_handle,
    trans_a: rocblas_operation,
    trans_b: rocblas_operation,
    m: rocblas_int,
    n: rocblas_int,
    k: rocblas_int,
    alpha: *const c_void,
    a: *const c_void,
    a_type: rocblas_datatype,
    lda: rocblas_int,
    b: *const c_void,
    b_type: rocblas_datatype,
    ldb: rocblas_int,
    beta: *const c_void,
    c: *const c_void,
    c_type: rocblas_datatype,
    ldc: rocblas_int,
    d: *mut c_void,
    d_type: rocblas_datatype,
    ldd: rocblas_int,
    batch_count: rocblas_int,
    compute_type: rocblas_datatype,
    _algo: rocblas_gemm_algo,
    _solution_index: i32,
    _flags: u32,
) -> rocblas_status {
    let call = Call {
        trans: [trans_a, trans_b],
        sizes: [m, n, k, batch_count],
        scalars: [alpha, beta],
        types: [a_type, b_type, c_type, d_type, compute_type],
        leading: [lda, ldb, ldc, ldd],
        batches: [a, b, c, d.cast_const()].map(|list| Batch::Listed(Address::of(list))),
        pointers: [a, b, c, d],
        target: d,
    };
    // SAFETY: the caller of the ABI vouches for scalars and matrices.
    answer(unsafe { call.queue(handle) })
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn gemm_strided_batched_ex(
    handle: rocblas_handle,
    trans_a: rocblas_operation,
    trans_b: rocblas_operation,
    m: rocblas_int,
    n: rocblas_int,
    k: rocblas_int,
    alpha: *const c_void,
    a: *const c_void,
    a_type: rocblas_datatype,
    lda: rocblas_int,
    stride_a: rocblas_stride,
    b: *const c_void,
    b_type: rocblas_datatype,
    ldb: rocblas_int,
    stride_b: rocblas_stride,
    beta: *const c_void,
    c: *const c_void,
    c_type: rocblas_datatype,
    ldc: rocblas_int,
    stride_c: rocblas_stride,
    d: *mut c_void,
    d_type: rocblas_datatype,
    ldd: rocblas_int,
    stride_d: rocblas_stride,
    batch_count: rocblas_int,
    compute_type: rocblas_datatype,
    _algo: rocblas_gemm_algo,
    _solution_index: i32,
    _flags: u32,
) -> rocblas_status {
    let call = Call {
        trans: [trans_a, trans_b],
        sizes: [m, n, k, batch_count],
        scalars: [alpha, beta],
        types: [a_type, b_type, c_type, d_type, compute_type],
        leading: [lda, ldb, ldc, ldd],
        batches: [strided(a, stride_a), strided(b, stride_b), strided(c, stride_c), strided(d, stride_d)],
        pointers: [a, b, c, d],
        target: d,
    };
    // SAFETY: the caller of the ABI vouches for scalars and matrices.
    answer(unsafe { call.queue(handle) })
}
