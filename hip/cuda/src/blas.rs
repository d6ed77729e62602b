//! cuBLAS as a bare table, for whoever puts rocBLAS's ABI on top of it: handles, streams, vectors and products; precision is what the caller asks for: a handle starts in cuBLAS's default mode, in which a product
//! of f32 is computed in f32 and TF32 is used only where [`cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32`] asks for it.

use crate::{context, toolkit, Unavailable};
use hip_abi::{handles, hipError_t, hipStream_t as cudaStream_t, integers, library};
use std::ffi::{c_char, c_int, c_longlong, c_void};
use std::sync::OnceLock;

handles! {
    /// A cuBLAS handle: its stream, its mode and its workspace. It belongs to the device that was current at its creation.
    cublasHandle_t;
}

integers! {
    /// What a call came to.
    cublasStatus_t: c_int {
        CUBLAS_STATUS_SUCCESS = 0;
        CUBLAS_STATUS_NOT_INITIALIZED = 1;
        CUBLAS_STATUS_ALLOC_FAILED = 3;
        CUBLAS_STATUS_INVALID_VALUE = 7;
        CUBLAS_STATUS_ARCH_MISMATCH = 8;
        CUBLAS_STATUS_MAPPING_ERROR = 11;
        CUBLAS_STATUS_EXECUTION_FAILED = 13;
        CUBLAS_STATUS_INTERNAL_ERROR = 14;
        CUBLAS_STATUS_NOT_SUPPORTED = 15;
        CUBLAS_STATUS_LICENSE_ERROR = 16;
    }

    /// Whether an operand is used as it lies or transposed.
    cublasOperation_t: c_int {
        CUBLAS_OP_N = 0;
        CUBLAS_OP_T = 1;
        CUBLAS_OP_C = 2;
    }

    /// Where scalars lie.
    cublasPointerMode_t: c_int {
        CUBLAS_POINTER_MODE_HOST = 0;
        CUBLAS_POINTER_MODE_DEVICE = 1;
    }

    /// Element types.
    cudaDataType_t: c_int {
        CUDA_R_32F = 0;
        CUDA_R_64F = 1;
        CUDA_R_16F = 2;
        CUDA_R_8I = 3;
        CUDA_R_32I = 10;
        CUDA_R_16BF = 14;
        CUDA_R_8F_E4M3 = 28;
    }

    /// What a product is computed in.
    cublasComputeType_t: c_int {
        CUBLAS_COMPUTE_16F = 64;
        CUBLAS_COMPUTE_32F = 68;
        CUBLAS_COMPUTE_64F = 70;
        CUBLAS_COMPUTE_32I = 72;
        CUBLAS_COMPUTE_32F_FAST_TF32 = 77;
    }

    /// How the library chooses its kernel.
    cublasGemmAlgo_t: c_int {
        CUBLAS_GEMM_DEFAULT = -1;
    }

    /// What a handle allows itself. The default does not include TF32.
    cublasMath_t: c_int {
        CUBLAS_DEFAULT_MATH = 0;
        CUBLAS_PEDANTIC_MATH = 2;
        CUBLAS_TF32_TENSOR_OP_MATH = 3;
        CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16;
    }
}

library! {
    /// cuBLAS, as far as rocBLAS's ABI needs it.
    pub struct Cublas in ["cublas"] versions [13, 12, 11] {
        fn cublasCreate_v2(handle: *mut cublasHandle_t) -> cublasStatus_t;
        fn cublasDestroy_v2(handle: cublasHandle_t) -> cublasStatus_t;
        fn cublasGetVersion_v2(handle: cublasHandle_t, version: *mut c_int) -> cublasStatus_t;
        fn cublasGetStatusString(status: cublasStatus_t) -> *const c_char;
        fn cublasSetStream_v2(handle: cublasHandle_t, stream: cudaStream_t) -> cublasStatus_t;
        fn cublasSetWorkspace_v2(handle: cublasHandle_t, workspace: *mut c_void, bytes: usize) -> cublasStatus_t;
        fn cublasSetMathMode(handle: cublasHandle_t, mode: cublasMath_t) -> cublasStatus_t;
        fn cublasGetMathMode(handle: cublasHandle_t, mode: *mut cublasMath_t) -> cublasStatus_t;
        fn cublasSetPointerMode_v2(handle: cublasHandle_t, mode: cublasPointerMode_t) -> cublasStatus_t;

        // Vectors, and matrix with vector
        fn cublasSaxpy_v2(handle: cublasHandle_t, n: c_int, alpha: *const f32, x: *const f32, incx: c_int, y: *mut f32, incy: c_int) -> cublasStatus_t;
        fn cublasSdot_v2(handle: cublasHandle_t, n: c_int, x: *const f32, incx: c_int, y: *const f32, incy: c_int, result: *mut f32) -> cublasStatus_t;
        fn cublasSnrm2_v2(handle: cublasHandle_t, n: c_int, x: *const f32, incx: c_int, result: *mut f32) -> cublasStatus_t;
        fn cublasSasum_v2(handle: cublasHandle_t, n: c_int, x: *const f32, incx: c_int, result: *mut f32) -> cublasStatus_t;
        fn cublasIsamax_v2(handle: cublasHandle_t, n: c_int, x: *const f32, incx: c_int, result: *mut c_int) -> cublasStatus_t;
        fn cublasIsamin_v2(handle: cublasHandle_t, n: c_int, x: *const f32, incx: c_int, result: *mut c_int) -> cublasStatus_t;
        fn cublasSscal_v2(handle: cublasHandle_t, n: c_int, alpha: *const f32, x: *mut f32, incx: c_int) -> cublasStatus_t;
        fn cublasScopy_v2(handle: cublasHandle_t, n: c_int, x: *const f32, incx: c_int, y: *mut f32, incy: c_int) -> cublasStatus_t;
        fn cublasSswap_v2(handle: cublasHandle_t, n: c_int, x: *mut f32, incx: c_int, y: *mut f32, incy: c_int) -> cublasStatus_t;
        fn cublasSgemv_v2(handle: cublasHandle_t, trans: cublasOperation_t, m: c_int, n: c_int, alpha: *const f32, a: *const f32, lda: c_int, x: *const f32, incx: c_int, beta: *const f32, y: *mut f32, incy: c_int) -> cublasStatus_t;
        fn cublasSgbmv_v2(handle: cublasHandle_t, trans: cublasOperation_t, m: c_int, n: c_int, kl: c_int, ku: c_int, alpha: *const f32, a: *const f32, lda: c_int, x: *const f32, incx: c_int, beta: *const f32, y: *mut f32, incy: c_int) -> cublasStatus_t;
        fn cublasDaxpy_v2(handle: cublasHandle_t, n: c_int, alpha: *const f64, x: *const f64, incx: c_int, y: *mut f64, incy: c_int) -> cublasStatus_t;
        fn cublasDdot_v2(handle: cublasHandle_t, n: c_int, x: *const f64, incx: c_int, y: *const f64, incy: c_int, result: *mut f64) -> cublasStatus_t;
        fn cublasDnrm2_v2(handle: cublasHandle_t, n: c_int, x: *const f64, incx: c_int, result: *mut f64) -> cublasStatus_t;
        fn cublasDasum_v2(handle: cublasHandle_t, n: c_int, x: *const f64, incx: c_int, result: *mut f64) -> cublasStatus_t;
        fn cublasIdamax_v2(handle: cublasHandle_t, n: c_int, x: *const f64, incx: c_int, result: *mut c_int) -> cublasStatus_t;
        fn cublasIdamin_v2(handle: cublasHandle_t, n: c_int, x: *const f64, incx: c_int, result: *mut c_int) -> cublasStatus_t;
        fn cublasDscal_v2(handle: cublasHandle_t, n: c_int, alpha: *const f64, x: *mut f64, incx: c_int) -> cublasStatus_t;
        fn cublasDcopy_v2(handle: cublasHandle_t, n: c_int, x: *const f64, incx: c_int, y: *mut f64, incy: c_int) -> cublasStatus_t;
        fn cublasDswap_v2(handle: cublasHandle_t, n: c_int, x: *mut f64, incx: c_int, y: *mut f64, incy: c_int) -> cublasStatus_t;
        fn cublasDgemv_v2(handle: cublasHandle_t, trans: cublasOperation_t, m: c_int, n: c_int, alpha: *const f64, a: *const f64, lda: c_int, x: *const f64, incx: c_int, beta: *const f64, y: *mut f64, incy: c_int) -> cublasStatus_t;
        fn cublasDgbmv_v2(handle: cublasHandle_t, trans: cublasOperation_t, m: c_int, n: c_int, kl: c_int, ku: c_int, alpha: *const f64, a: *const f64, lda: c_int, x: *const f64, incx: c_int, beta: *const f64, y: *mut f64, incy: c_int) -> cublasStatus_t;

        // Matrix with matrix
        fn cublasGemmBatchedEx(handle: cublasHandle_t, trans_a: cublasOperation_t, trans_b: cublasOperation_t, m: c_int, n: c_int, k: c_int, alpha: *const c_void, a: *const *const c_void, a_type: cudaDataType_t, lda: c_int, b: *const *const c_void, b_type: cudaDataType_t, ldb: c_int, beta: *const c_void, c: *const *mut c_void, c_type: cudaDataType_t, ldc: c_int, batch_count: c_int, compute_type: cublasComputeType_t, algo: cublasGemmAlgo_t) -> cublasStatus_t;
        fn cublasGemmEx(
            handle: cublasHandle_t,
            trans_a: cublasOperation_t,
            trans_b: cublasOperation_t,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const c_void,
            a: *const c_void,
            a_type: cudaDataType_t,
            lda: c_int,
            b: *const c_void,
            b_type: cudaDataType_t,
            ldb: c_int,
            beta: *const c_void,
            c: *mut c_void,
            c_type: cudaDataType_t,
            ldc: c_int,
            compute_type: cublasComputeType_t,
            algo: cublasGemmAlgo_t
        ) -> cublasStatus_t;
        fn cublasGemmStridedBatchedEx(
            handle: cublasHandle_t,
            trans_a: cublasOperation_t,
            trans_b: cublasOperation_t,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const c_void,
            a: *const c_void,
            a_type: cudaDataType_t,
            lda: c_int,
            stride_a: c_longlong,
            b: *const c_void,
            b_type: cudaDataType_t,
            ldb: c_int,
            stride_b: c_longlong,
            beta: *const c_void,
            c: *mut c_void,
            c_type: cudaDataType_t,
            ldc: c_int,
            stride_c: c_longlong,
            batch_count: c_int,
            compute_type: cublasComputeType_t,
            algo: cublasGemmAlgo_t
        ) -> cublasStatus_t;
    }
}

impl cublasStatus_t {
    /// True for `CUBLAS_STATUS_SUCCESS`.
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }
}

/// cuBLAS, loaded once. Its calls use the context that is current: [`enter`] before them.
pub fn table() -> Result<&'static Cublas, Unavailable> {
    static TABLE: OnceLock<Result<Cublas, Unavailable>> = OnceLock::new();
    let loaded = TABLE.get_or_init(|| {
        Cublas::load(&toolkit::search()).map_err(|error| Unavailable {
            what: "CUDA matrix library (libcublas)",
            tried: error.tried,
            advice: "Install CUDA 12 or 13, or set CUDA_HOME to the folder it is in",
        })
    });
    loaded.as_ref().map_err(Clone::clone)
}

/// Makes the thread's HIP device current for the libraries that ask the driver and not HIP. Nearly free where it is.
pub fn enter() -> Result<(), hipError_t> {
    context::bound().map(|_| ())
}
