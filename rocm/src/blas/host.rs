//! rocBLAS's ABI on the embedded device: the product runs in stream order on CPU threads, through the crate `gemm`.

use super::abi::*;
use gemm::Parallelism;
use half::{bf16, f16};
use hip_abi::{hipStream_t, Origin};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// The table of the embedded device.
pub fn table() -> &'static Rocblas {
    static TABLE: OnceLock<Rocblas> = OnceLock::new();
    TABLE.get_or_init(|| Rocblas {
        origin: Origin::BuiltIn("BLAS of the embedded device"),
        rocblas_create_handle: create_handle,
        rocblas_destroy_handle: destroy_handle,
        rocblas_set_stream: set_stream,
        rocblas_get_version_string: None,
        rocblas_gemm_strided_batched_ex: gemm_strided_batched_ex,
    })
}

/// Handles are numbers that this map knows, so that a stale one is an error and not a crash.
fn handles() -> &'static Mutex<HashMap<usize, hipStream_t>> {
    static HANDLES: OnceLock<Mutex<HashMap<usize, hipStream_t>>> = OnceLock::new();
    HANDLES.get_or_init(Mutex::default)
}

fn with_handles<T>(act: impl FnOnce(&mut HashMap<usize, hipStream_t>) -> T) -> T {
    act(&mut handles().lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

unsafe extern "C" fn create_handle(handle: *mut rocblas_handle) -> rocblas_status {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    if handle.is_null() {
        return rocblas_status::rocblas_status_invalid_pointer;
    }
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    with_handles(|map| map.insert(id, hipStream_t::NULL));
    // SAFETY: the caller passes a place for a handle; null was refused above.
    unsafe { *handle = rocblas_handle(std::ptr::without_provenance_mut(id)) };
    rocblas_status::rocblas_status_success
}

unsafe extern "C" fn destroy_handle(handle: rocblas_handle) -> rocblas_status {
    match with_handles(|map| map.remove(&handle.0.addr())) {
        Some(_) => rocblas_status::rocblas_status_success,
        None => rocblas_status::rocblas_status_invalid_handle,
    }
}

unsafe extern "C" fn set_stream(handle: rocblas_handle, stream: hipStream_t) -> rocblas_status {
    match with_handles(|map| map.get_mut(&handle.0.addr()).map(|slot| *slot = stream)) {
        Some(()) => rocblas_status::rocblas_status_success,
        None => rocblas_status::rocblas_status_invalid_handle,
    }
}

/// One column-major operand of a batch.
#[derive(Clone, Copy)]
struct Side {
    address: usize,
    row_stride: isize,
    column_stride: isize,
    batch_stride: isize,
}

impl Side {
    fn new(
        address: *const c_void,
        operation: rocblas_operation,
        leading: rocblas_int,
        batch_stride: rocblas_stride,
    ) -> Self {
        let leading = leading as isize;
        let (row_stride, column_stride) =
            if operation == rocblas_operation::rocblas_operation_none { (1, leading) } else { (leading, 1) };
        Self { address: address.expose_provenance(), row_stride, column_stride, batch_stride: batch_stride as isize }
    }

    fn matrix<T>(&self, index: usize) -> *mut T {
        std::ptr::with_exposed_provenance_mut::<T>(self.address).wrapping_offset(self.batch_stride * index as isize)
    }
}

/// A product as it is queued.
#[derive(Clone, Copy)]
struct Product {
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    a: Side,
    b: Side,
    d: Side,
    alpha: f64,
    beta: f64,
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn gemm_strided_batched_ex(
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
    let Some(stream) = with_handles(|map| map.get(&handle.0.addr()).copied()) else {
        return rocblas_status::rocblas_status_invalid_handle;
    };
    if m < 0 || n < 0 || k < 0 || batch_count < 0 {
        return rocblas_status::rocblas_status_invalid_size;
    }
    let (rows_a, rows_b) = (
        if trans_a == rocblas_operation::rocblas_operation_none { m } else { k },
        if trans_b == rocblas_operation::rocblas_operation_none { k } else { n },
    );
    if lda < rows_a.max(1) || ldb < rows_b.max(1) || ldd < m.max(1) {
        return rocblas_status::rocblas_status_invalid_size;
    }
    if m == 0 || n == 0 || batch_count == 0 {
        return rocblas_status::rocblas_status_success;
    }
    if alpha.is_null() || beta.is_null() || a.is_null() || b.is_null() || d.is_null() {
        return rocblas_status::rocblas_status_invalid_pointer;
    }
    // In place only: that is all `rocm::blas` asks for.
    let in_place = c == d.cast_const() && ldc == ldd && stride_c == stride_d;
    if !in_place || [b_type, c_type, d_type].iter().any(|&other| other != a_type) {
        return rocblas_status::rocblas_status_not_implemented;
    }
    let wide = a_type == rocblas_datatype::rocblas_datatype_f64_r;
    let expected =
        if wide { rocblas_datatype::rocblas_datatype_f64_r } else { rocblas_datatype::rocblas_datatype_f32_r };
    if compute_type != expected {
        return rocblas_status::rocblas_status_not_implemented;
    }
    // SAFETY: alpha and beta point to one scalar of the compute type (host pointer mode); null was refused above.
    let scalar = |at: *const c_void| unsafe {
        if wide {
            at.cast::<f64>().read_unaligned()
        } else {
            f64::from(at.cast::<f32>().read_unaligned())
        }
    };
    let product = Product {
        m: m as usize,
        n: n as usize,
        k: k as usize,
        batch: batch_count as usize,
        a: Side::new(a, trans_a, lda, stride_a),
        b: Side::new(b, trans_b, ldb, stride_b),
        d: Side::new(d, rocblas_operation::rocblas_operation_none, ldd, stride_d),
        alpha: scalar(alpha),
        beta: scalar(beta),
    };
    let (size, run): (usize, fn(&Product)) = match a_type {
        rocblas_datatype::rocblas_datatype_f16_r => (2, run_widened::<f16>),
        rocblas_datatype::rocblas_datatype_bf16_r => (2, run_widened::<bf16>),
        rocblas_datatype::rocblas_datatype_f32_r => (4, run::<f32>),
        rocblas_datatype::rocblas_datatype_f64_r => (8, run::<f64>),
        _ => return rocblas_status::rocblas_status_not_implemented,
    };
    let matrix_bytes = ((product.n - 1) * ldd as usize + product.m) * size;
    let written = product.d.batch_stride.unsigned_abs() * (product.batch - 1) * size + matrix_bytes;
    let status = hip_host::enqueue(stream, &[(d.cast(), written)], Arc::new(move || run(&product)));
    match status.is_success() {
        true => rocblas_status::rocblas_status_success,
        false => rocblas_status::rocblas_status_internal_error,
    }
}

/// Small products are not worth waking other threads for.
fn parallelism(product: &Product) -> Parallelism {
    if product.m * product.n * product.k < 64 * 64 * 64 {
        Parallelism::None
    } else {
        Parallelism::Rayon(0)
    }
}

trait Scalar: Copy + 'static {
    fn from_f64(value: f64) -> Self;
}

impl Scalar for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl Scalar for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }
}

fn run<T: Scalar>(product: &Product) {
    for index in 0..product.batch {
        let (a, b, d) = (product.a.matrix::<T>(index), product.b.matrix::<T>(index), product.d.matrix::<T>(index));
        // SAFETY: whoever queued the product vouches for its operands, as for any launch; sizes and leading dimensions were
        // checked against each other when it was queued.
        unsafe { multiply(product, a, b, d) };
    }
}

/// # Safety
/// The three matrices have the product's sizes and strides, and nobody else uses `d` meanwhile.
unsafe fn multiply<T: Scalar>(product: &Product, a: *const T, b: *const T, d: *mut T) {
    // `gemm` computes d = alpha' * d + beta' * a b.
    // SAFETY: passed on to the caller.
    unsafe {
        gemm::gemm(
            product.m,
            product.n,
            product.k,
            d,
            product.d.column_stride,
            product.d.row_stride,
            product.beta != 0.0,
            a,
            product.a.column_stride,
            product.a.row_stride,
            b,
            product.b.column_stride,
            product.b.row_stride,
            T::from_f64(product.beta),
            T::from_f64(product.alpha),
            false,
            false,
            false,
            parallelism(product),
        );
    }
}

/// A type that is stored in 16 bits and computed with in f32.
trait Narrow: Copy + 'static {
    fn widen(self) -> f32;
    fn narrow(value: f32) -> Self;
}

impl Narrow for f16 {
    fn widen(self) -> f32 {
        self.to_f32()
    }
    fn narrow(value: f32) -> Self {
        Self::from_f32(value)
    }
}

impl Narrow for bf16 {
    fn widen(self) -> f32 {
        self.to_f32()
    }
    fn narrow(value: f32) -> Self {
        Self::from_f32(value)
    }
}

/// The crate has no bf16 kernel, and its f16 kernels add up in f16: both operands are widened, which keeps the accumulation in
/// f32 as on a GPU.
fn run_widened<T: Narrow>(product: &Product) {
    let widen = |from: *const T, rows: usize, columns: usize, side: &Side| -> Vec<f32> {
        let mut wide = Vec::with_capacity(rows * columns);
        for column in 0..columns as isize {
            for row in 0..rows as isize {
                // SAFETY: inside the operand, as in `run`.
                wide.push(unsafe { *from.offset(row * side.row_stride + column * side.column_stride) }.widen());
            }
        }
        wide
    };
    let packed = |rows: usize| Side { address: 0, row_stride: 1, column_stride: rows as isize, batch_stride: 0 };
    let wide = Product { a: packed(product.m), b: packed(product.k), d: packed(product.m), ..*product };
    for index in 0..product.batch {
        let a = widen(product.a.matrix(index), product.m, product.k, &product.a);
        let b = widen(product.b.matrix(index), product.k, product.n, &product.b);
        let target = product.d.matrix::<T>(index);
        let mut d = if product.beta == 0.0 {
            vec![0.0; product.m * product.n]
        } else {
            widen(target, product.m, product.n, &product.d)
        };
        // SAFETY: the three vectors have exactly the sizes that `wide` says.
        unsafe { multiply(&wide, a.as_ptr(), b.as_ptr(), d.as_mut_ptr()) };
        for (column, values) in d.chunks_exact(product.m).enumerate() {
            for (row, value) in values.iter().enumerate() {
                let at = row as isize * product.d.row_stride + column as isize * product.d.column_stride;
                // SAFETY: inside the result, as in `run`.
                unsafe { *target.offset(at) = T::narrow(*value) };
            }
        }
    }
}
