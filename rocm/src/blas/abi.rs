//! rocBLAS's C ABI as `rocblas.h` declares it (rocBLAS 2 to 5, 32-bit sizes): vectors, matrix with vector, matrix with matrix.

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

use hip_abi::hipStream_t;
use std::ffi::{c_char, c_void};

hip_abi::handles! {
    /// A rocBLAS handle: its stream and its workspace.
    rocblas_handle;
}

hip_abi::integers! {
    /// What a call came to.
    rocblas_status: u32 {
        rocblas_status_success = 0;
        rocblas_status_invalid_handle = 1;
        rocblas_status_not_implemented = 2;
        rocblas_status_invalid_pointer = 3;
        rocblas_status_invalid_size = 4;
        rocblas_status_memory_error = 5;
        rocblas_status_internal_error = 6;
        rocblas_status_perf_degraded = 7;
        rocblas_status_invalid_value = 11;
        rocblas_status_excluded_from_build = 14;
        rocblas_status_arch_mismatch = 15;
    }

    /// Whether an operand is used as it lies or transposed.
    rocblas_operation: u32 {
        rocblas_operation_none = 111;
        rocblas_operation_transpose = 112;
    }

    /// Where scalars (alpha, beta, results) lie.
    rocblas_pointer_mode: u32 {
        rocblas_pointer_mode_host = 0;
        rocblas_pointer_mode_device = 1;
    }

    /// Element types.
    rocblas_datatype: u32 {
        rocblas_datatype_f16_r = 150;
        rocblas_datatype_f32_r = 151;
        rocblas_datatype_f64_r = 152;
        rocblas_datatype_i8_r = 160;
        rocblas_datatype_i32_r = 162;
        rocblas_datatype_bf16_r = 168;
    }

    /// How the library chooses its kernel.
    rocblas_gemm_algo: u32 {
        rocblas_gemm_algo_standard = 0;
    }
}

/// Sizes, increments and leading dimensions.
pub type rocblas_int = i32;
/// Distances between matrices of a batch, in elements.
pub type rocblas_stride = i64;

hip_abi::library! {
    /// rocBLAS.
    pub struct Rocblas in ["rocblas"] versions [5, 4, 3, 0] {
        fn rocblas_create_handle(handle: *mut rocblas_handle) -> rocblas_status;
        fn rocblas_destroy_handle(handle: rocblas_handle) -> rocblas_status;
        fn rocblas_set_stream(handle: rocblas_handle, stream: hipStream_t) -> rocblas_status;
        fn rocblas_set_pointer_mode(handle: rocblas_handle, mode: rocblas_pointer_mode) -> rocblas_status;
        optional fn rocblas_get_version_string(buffer: *mut c_char, bytes: usize) -> rocblas_status;

        // Vectors, and matrix with vector
        fn rocblas_saxpy(handle: rocblas_handle, n: rocblas_int, alpha: *const f32, x: *const f32, incx: rocblas_int, y: *mut f32, incy: rocblas_int) -> rocblas_status;
        fn rocblas_sdot(handle: rocblas_handle, n: rocblas_int, x: *const f32, incx: rocblas_int, y: *const f32, incy: rocblas_int, result: *mut f32) -> rocblas_status;
        fn rocblas_snrm2(handle: rocblas_handle, n: rocblas_int, x: *const f32, incx: rocblas_int, result: *mut f32) -> rocblas_status;
        fn rocblas_sasum(handle: rocblas_handle, n: rocblas_int, x: *const f32, incx: rocblas_int, result: *mut f32) -> rocblas_status;
        fn rocblas_isamax(handle: rocblas_handle, n: rocblas_int, x: *const f32, incx: rocblas_int, result: *mut rocblas_int) -> rocblas_status;
        fn rocblas_isamin(handle: rocblas_handle, n: rocblas_int, x: *const f32, incx: rocblas_int, result: *mut rocblas_int) -> rocblas_status;
        fn rocblas_sscal(handle: rocblas_handle, n: rocblas_int, alpha: *const f32, x: *mut f32, incx: rocblas_int) -> rocblas_status;
        fn rocblas_scopy(handle: rocblas_handle, n: rocblas_int, x: *const f32, incx: rocblas_int, y: *mut f32, incy: rocblas_int) -> rocblas_status;
        fn rocblas_sswap(handle: rocblas_handle, n: rocblas_int, x: *mut f32, incx: rocblas_int, y: *mut f32, incy: rocblas_int) -> rocblas_status;
        fn rocblas_sgemv(handle: rocblas_handle, trans: rocblas_operation, m: rocblas_int, n: rocblas_int, alpha: *const f32, a: *const f32, lda: rocblas_int, x: *const f32, incx: rocblas_int, beta: *const f32, y: *mut f32, incy: rocblas_int) -> rocblas_status;
        fn rocblas_sgbmv(handle: rocblas_handle, trans: rocblas_operation, m: rocblas_int, n: rocblas_int, kl: rocblas_int, ku: rocblas_int, alpha: *const f32, a: *const f32, lda: rocblas_int, x: *const f32, incx: rocblas_int, beta: *const f32, y: *mut f32, incy: rocblas_int) -> rocblas_status;
        fn rocblas_daxpy(handle: rocblas_handle, n: rocblas_int, alpha: *const f64, x: *const f64, incx: rocblas_int, y: *mut f64, incy: rocblas_int) -> rocblas_status;
        fn rocblas_ddot(handle: rocblas_handle, n: rocblas_int, x: *const f64, incx: rocblas_int, y: *const f64, incy: rocblas_int, result: *mut f64) -> rocblas_status;
        fn rocblas_dnrm2(handle: rocblas_handle, n: rocblas_int, x: *const f64, incx: rocblas_int, result: *mut f64) -> rocblas_status;
        fn rocblas_dasum(handle: rocblas_handle, n: rocblas_int, x: *const f64, incx: rocblas_int, result: *mut f64) -> rocblas_status;
        fn rocblas_idamax(handle: rocblas_handle, n: rocblas_int, x: *const f64, incx: rocblas_int, result: *mut rocblas_int) -> rocblas_status;
        fn rocblas_idamin(handle: rocblas_handle, n: rocblas_int, x: *const f64, incx: rocblas_int, result: *mut rocblas_int) -> rocblas_status;
        fn rocblas_dscal(handle: rocblas_handle, n: rocblas_int, alpha: *const f64, x: *mut f64, incx: rocblas_int) -> rocblas_status;
        fn rocblas_dcopy(handle: rocblas_handle, n: rocblas_int, x: *const f64, incx: rocblas_int, y: *mut f64, incy: rocblas_int) -> rocblas_status;
        fn rocblas_dswap(handle: rocblas_handle, n: rocblas_int, x: *mut f64, incx: rocblas_int, y: *mut f64, incy: rocblas_int) -> rocblas_status;
        fn rocblas_dgemv(handle: rocblas_handle, trans: rocblas_operation, m: rocblas_int, n: rocblas_int, alpha: *const f64, a: *const f64, lda: rocblas_int, x: *const f64, incx: rocblas_int, beta: *const f64, y: *mut f64, incy: rocblas_int) -> rocblas_status;
        fn rocblas_dgbmv(handle: rocblas_handle, trans: rocblas_operation, m: rocblas_int, n: rocblas_int, kl: rocblas_int, ku: rocblas_int, alpha: *const f64, a: *const f64, lda: rocblas_int, x: *const f64, incx: rocblas_int, beta: *const f64, y: *mut f64, incy: rocblas_int) -> rocblas_status;

        // Matrix with matrix
        fn rocblas_gemm_ex(handle: rocblas_handle, trans_a: rocblas_operation, trans_b: rocblas_operation, m: rocblas_int, n: rocblas_int, k: rocblas_int, alpha: *const c_void, a: *const c_void, a_type: rocblas_datatype, lda: rocblas_int, b: *const c_void, b_type: rocblas_datatype, ldb: rocblas_int, beta: *const c_void, c: *const c_void, c_type: rocblas_datatype, ldc: rocblas_int, d: *mut c_void, d_type: rocblas_datatype, ldd: rocblas_int, compute_type: rocblas_datatype, algo: rocblas_gemm_algo, solution_index: i32, flags: u32) -> rocblas_status;
        fn rocblas_gemm_batched_ex(handle: rocblas_handle, trans_a: rocblas_operation, trans_b: rocblas_operation, m: rocblas_int, n: rocblas_int, k: rocblas_int, alpha: *const c_void, a: *const c_void, a_type: rocblas_datatype, lda: rocblas_int, b: *const c_void, b_type: rocblas_datatype, ldb: rocblas_int, beta: *const c_void, c: *const c_void, c_type: rocblas_datatype, ldc: rocblas_int, d: *mut c_void, d_type: rocblas_datatype, ldd: rocblas_int, batch_count: rocblas_int, compute_type: rocblas_datatype, algo: rocblas_gemm_algo, solution_index: i32, flags: u32) -> rocblas_status;
        fn rocblas_gemm_strided_batched_ex(handle: rocblas_handle, trans_a: rocblas_operation, trans_b: rocblas_operation, m: rocblas_int, n: rocblas_int, k: rocblas_int, alpha: *const c_void, a: *const c_void, a_type: rocblas_datatype, lda: rocblas_int, stride_a: rocblas_stride, b: *const c_void, b_type: rocblas_datatype, ldb: rocblas_int, stride_b: rocblas_stride, beta: *const c_void, c: *const c_void, c_type: rocblas_datatype, ldc: rocblas_int, stride_c: rocblas_stride, d: *mut c_void, d_type: rocblas_datatype, ldd: rocblas_int, stride_d: rocblas_stride, batch_count: rocblas_int, compute_type: rocblas_datatype, algo: rocblas_gemm_algo, solution_index: i32, flags: u32) -> rocblas_status;
    }
}

/// The routines of one element type, whatever letter the library gives it.
#[allow(missing_docs)]
pub struct Routines<T> {
    pub axpy: unsafe extern "C" fn(
        rocblas_handle,
        rocblas_int,
        *const T,
        *const T,
        rocblas_int,
        *mut T,
        rocblas_int,
    ) -> rocblas_status,
    pub dot: unsafe extern "C" fn(
        rocblas_handle,
        rocblas_int,
        *const T,
        rocblas_int,
        *const T,
        rocblas_int,
        *mut T,
    ) -> rocblas_status,
    pub nrm2: unsafe extern "C" fn(rocblas_handle, rocblas_int, *const T, rocblas_int, *mut T) -> rocblas_status,
    pub asum: unsafe extern "C" fn(rocblas_handle, rocblas_int, *const T, rocblas_int, *mut T) -> rocblas_status,
    pub amax:
        unsafe extern "C" fn(rocblas_handle, rocblas_int, *const T, rocblas_int, *mut rocblas_int) -> rocblas_status,
    pub amin:
        unsafe extern "C" fn(rocblas_handle, rocblas_int, *const T, rocblas_int, *mut rocblas_int) -> rocblas_status,
    pub scal: unsafe extern "C" fn(rocblas_handle, rocblas_int, *const T, *mut T, rocblas_int) -> rocblas_status,
    pub copy:
        unsafe extern "C" fn(rocblas_handle, rocblas_int, *const T, rocblas_int, *mut T, rocblas_int) -> rocblas_status,
    pub swap:
        unsafe extern "C" fn(rocblas_handle, rocblas_int, *mut T, rocblas_int, *mut T, rocblas_int) -> rocblas_status,
    pub gemv: unsafe extern "C" fn(
        rocblas_handle,
        rocblas_operation,
        rocblas_int,
        rocblas_int,
        *const T,
        *const T,
        rocblas_int,
        *const T,
        rocblas_int,
        *const T,
        *mut T,
        rocblas_int,
    ) -> rocblas_status,
    pub gbmv: unsafe extern "C" fn(
        rocblas_handle,
        rocblas_operation,
        rocblas_int,
        rocblas_int,
        rocblas_int,
        rocblas_int,
        *const T,
        *const T,
        rocblas_int,
        *const T,
        rocblas_int,
        *const T,
        *mut T,
        rocblas_int,
    ) -> rocblas_status,
}

/// The element types that rocBLAS has vector routines for: `f32` and `f64`.
pub trait Real: hip::DeviceCopy + PartialEq + std::fmt::Debug {
    /// This type's column of the table.
    #[doc(hidden)]
    fn routines(table: &Rocblas) -> Routines<Self>;
}

macro_rules! real {
    ($type:ty: $($role:ident $name:ident),*) => {
        impl Real for $type {
            fn routines(table: &Rocblas) -> Routines<Self> {
                Routines { $($role: table.$name),* }
            }
        }
    };
}

real! { f32: axpy rocblas_saxpy, dot rocblas_sdot, nrm2 rocblas_snrm2, asum rocblas_sasum, amax rocblas_isamax, amin rocblas_isamin,
scal rocblas_sscal, copy rocblas_scopy, swap rocblas_sswap, gemv rocblas_sgemv, gbmv rocblas_sgbmv }
real! { f64: axpy rocblas_daxpy, dot rocblas_ddot, nrm2 rocblas_dnrm2, asum rocblas_dasum, amax rocblas_idamax, amin rocblas_idamin,
scal rocblas_dscal, copy rocblas_dcopy, swap rocblas_dswap, gemv rocblas_dgemv, gbmv rocblas_dgbmv }
