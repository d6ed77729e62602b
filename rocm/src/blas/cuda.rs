//! rocBLAS's ABI over cuBLAS, for HIP's NVIDIA platform. A handle is cuBLAS's own; codes and types are translated, and f32
//! is computed in f32: TF32 stays off, as it is in rocBLAS. So do reductions in half precision: rocBLAS adds the parts of a split
//! product in the type it computes in, where cuBLAS's default would add them as f16 or bf16.

use super::abi::*;
use super::product::{products, Batch, Product};
use hip_abi::{hipStream_t, Origin};
use hip_cuda::blas::{
    self, cublasComputeType_t, cublasGemmAlgo_t, cublasHandle_t, cublasMath_t, cublasOperation_t, cublasPointerMode_t,
    cublasStatus_t,
};
use hip_cuda::blas::{cudaDataType_t, Cublas};
use std::ffi::c_void;
use std::sync::OnceLock;

/// The table over cuBLAS, or a sentence on why there is none.
pub fn table() -> Result<&'static Rocblas, String> {
    static TABLE: OnceLock<Rocblas> = OnceLock::new();
    let cublas = blas::table().map_err(|why| why.to_string())?;
    log::debug!("cuBLAS is {}", cublas.origin());
    Ok(TABLE.get_or_init(|| Rocblas {
        origin: Origin::BuiltIn("rocBLAS on cuBLAS"),
        rocblas_create_handle: create_handle,
        rocblas_destroy_handle: destroy_handle,
        rocblas_set_stream: set_stream,
        rocblas_set_pointer_mode: set_pointer_mode,
        rocblas_get_version_string: None,
        rocblas_saxpy: saxpy,
        rocblas_sdot: sdot,
        rocblas_snrm2: snrm2,
        rocblas_sasum: sasum,
        rocblas_isamax: isamax,
        rocblas_isamin: isamin,
        rocblas_sscal: sscal,
        rocblas_scopy: scopy,
        rocblas_sswap: sswap,
        rocblas_sgemv: sgemv,
        rocblas_sgbmv: sgbmv,
        rocblas_daxpy: daxpy,
        rocblas_ddot: ddot,
        rocblas_dnrm2: dnrm2,
        rocblas_dasum: dasum,
        rocblas_idamax: idamax,
        rocblas_idamin: idamin,
        rocblas_dscal: dscal,
        rocblas_dcopy: dcopy,
        rocblas_dswap: dswap,
        rocblas_dgemv: dgemv,
        rocblas_dgbmv: dgbmv,
        rocblas_gemm_ex: gemm_ex,
        rocblas_gemm_batched_ex: gemm_batched_ex,
        rocblas_gemm_strided_batched_ex: gemm_strided_batched_ex,
    }))
}

/// rocBLAS's code for one of cuBLAS's.
fn status(code: cublasStatus_t) -> rocblas_status {
    match code {
        cublasStatus_t::CUBLAS_STATUS_SUCCESS => rocblas_status::rocblas_status_success,
        cublasStatus_t::CUBLAS_STATUS_NOT_INITIALIZED => rocblas_status::rocblas_status_invalid_handle,
        cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => rocblas_status::rocblas_status_memory_error,
        cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE => rocblas_status::rocblas_status_invalid_value,
        cublasStatus_t::CUBLAS_STATUS_ARCH_MISMATCH => rocblas_status::rocblas_status_arch_mismatch,
        cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED => rocblas_status::rocblas_status_not_implemented,
        _ => rocblas_status::rocblas_status_internal_error,
    }
}

/// cuBLAS with the thread's device current; cuBLAS asks the driver and not HIP which device to use.
fn entered() -> Result<&'static Cublas, rocblas_status> {
    blas::enter().map_err(|_| rocblas_status::rocblas_status_internal_error)?;
    blas::table().map_err(|_| rocblas_status::rocblas_status_internal_error)
}

fn operation(operation: rocblas_operation) -> Result<cublasOperation_t, rocblas_status> {
    match operation {
        rocblas_operation::rocblas_operation_none => Ok(cublasOperation_t::CUBLAS_OP_N),
        rocblas_operation::rocblas_operation_transpose => Ok(cublasOperation_t::CUBLAS_OP_T),
        _ => Err(rocblas_status::rocblas_status_invalid_value),
    }
}

fn element(of: rocblas_datatype) -> Result<cudaDataType_t, rocblas_status> {
    match of {
        rocblas_datatype::rocblas_datatype_f16_r => Ok(cudaDataType_t::CUDA_R_16F),
        rocblas_datatype::rocblas_datatype_bf16_r => Ok(cudaDataType_t::CUDA_R_16BF),
        rocblas_datatype::rocblas_datatype_f32_r => Ok(cudaDataType_t::CUDA_R_32F),
        rocblas_datatype::rocblas_datatype_f64_r => Ok(cudaDataType_t::CUDA_R_64F),
        rocblas_datatype::rocblas_datatype_i8_r => Ok(cudaDataType_t::CUDA_R_8I),
        rocblas_datatype::rocblas_datatype_i32_r => Ok(cudaDataType_t::CUDA_R_32I),
        _ => Err(rocblas_status::rocblas_status_not_implemented),
    }
}

fn compute(of: rocblas_datatype) -> Result<cublasComputeType_t, rocblas_status> {
    match of {
        rocblas_datatype::rocblas_datatype_f32_r => Ok(cublasComputeType_t::CUBLAS_COMPUTE_32F),
        rocblas_datatype::rocblas_datatype_f64_r => Ok(cublasComputeType_t::CUBLAS_COMPUTE_64F),
        rocblas_datatype::rocblas_datatype_i32_r => Ok(cublasComputeType_t::CUBLAS_COMPUTE_32I),
        _ => Err(rocblas_status::rocblas_status_not_implemented),
    }
}

/// The types of operands and result, of a product that cuBLAS has: in place, the operands alike, and no f64 with anything else.
fn types(call: &Product) -> Result<[cudaDataType_t; 2], rocblas_status> {
    let ([a, b, c, d, computed], double) = (call.types, rocblas_datatype::rocblas_datatype_f64_r);
    let all_or_none = [d, computed].iter().all(|&other| (other == double) == (a == double));
    if !call.is_in_place() || a != b || c != d || !all_or_none {
        return Err(rocblas_status::rocblas_status_not_implemented);
    }
    Ok([element(a)?, element(d)?])
}

fn answer(outcome: Result<cublasStatus_t, rocblas_status>) -> rocblas_status {
    outcome.map_or_else(|refused| refused, status)
}

unsafe extern "C" fn create_handle(handle: *mut rocblas_handle) -> rocblas_status {
    if handle.is_null() {
        return rocblas_status::rocblas_status_invalid_pointer;
    }
    let act = || {
        let cublas = entered()?;
        // SAFETY: both handles are one pointer, and null was refused.
        let created = unsafe { (cublas.cublasCreate_v2)(handle.cast()) };
        if created != cublasStatus_t::CUBLAS_STATUS_SUCCESS {
            return Ok(created);
        }
        // SAFETY: the call above filled it.
        let made = unsafe { *handle.cast::<cublasHandle_t>() };
        // SAFETY: the handle was made just now.
        let set = unsafe { (cublas.cublasSetMathMode)(made, MATH) };
        if set != cublasStatus_t::CUBLAS_STATUS_SUCCESS {
            // SAFETY: nobody else has the handle.
            unsafe { (cublas.cublasDestroy_v2)(made) };
        }
        Ok(set)
    };
    answer(act())
}

unsafe extern "C" fn destroy_handle(handle: rocblas_handle) -> rocblas_status {
    // SAFETY: the handle is cuBLAS's own, and the caller is done with it.
    answer(entered().map(|cublas| unsafe { (cublas.cublasDestroy_v2)(cublasHandle_t(handle.0)) }))
}

unsafe extern "C" fn set_stream(handle: rocblas_handle, stream: hipStream_t) -> rocblas_status {
    // SAFETY: the handle is cuBLAS's own, and a HIP stream is the driver's.
    answer(entered().map(|cublas| unsafe { (cublas.cublasSetStream_v2)(cublasHandle_t(handle.0), stream) }))
}

unsafe extern "C" fn set_pointer_mode(handle: rocblas_handle, mode: rocblas_pointer_mode) -> rocblas_status {
    // Both libraries give the modes the same numbers.
    let mode = cublasPointerMode_t(mode.0 as i32);
    // SAFETY: the handle is cuBLAS's own.
    answer(entered().map(|cublas| unsafe { (cublas.cublasSetPointerMode_v2)(cublasHandle_t(handle.0), mode) }))
}

/// The parts of a product that is split along k are added in f32, not in the type of the result.
const MATH: cublasMath_t = cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
const ALGO: cublasGemmAlgo_t = cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;

products!(multiply);

/// # Safety
/// The caller vouches for the handle, the scalars and the matrices, as rocBLAS asks it to.
unsafe fn multiply(handle: rocblas_handle, call: &Product) -> rocblas_status {
    let ([m, n, k, count], [lda, ldb, _, ldd], [a, b, _, d]) = (call.sizes, call.leading, call.at);
    let ([alpha, beta], d) = (call.scalars, d.cast_mut());
    let act = || {
        let ([of, into], compute) = (types(call)?, compute(call.types[4])?);
        let (cublas, handle) = (entered()?, cublasHandle_t(handle.0));
        let (ta, tb) = (operation(call.trans[0])?, operation(call.trans[1])?);
        // SAFETY: the caller's promise.
        Ok(unsafe {
            match call.batch {
                Batch::One => (cublas.cublasGemmEx)(
                    handle, ta, tb, m, n, k, alpha, a, of, lda, b, of, ldb, beta, d, into, ldd, compute, ALGO,
                ),
                Batch::Listed => {
                    let (a, b, d) = (a.cast(), b.cast(), d.cast_const().cast());
                    (cublas.cublasGemmBatchedEx)(
                        handle, ta, tb, m, n, k, alpha, a, of, lda, b, of, ldb, beta, d, into, ldd, count, compute,
                        ALGO,
                    )
                }
                Batch::Strided([sa, sb, _, sd]) => (cublas.cublasGemmStridedBatchedEx)(
                    handle, ta, tb, m, n, k, alpha, a, of, lda, sa, b, of, ldb, sb, beta, d, into, ldd, sd, count,
                    compute, ALGO,
                ),
            }
        })
    };
    answer(act())
}

/// Routines that cuBLAS has with the same arguments; an operation in front is translated.
macro_rules! direct {
    ($($name:ident = $cublas:ident($([$trans:ident])? $($argument:ident: $type:ty),*);)*) => {$(
        #[allow(clippy::too_many_arguments)]
        unsafe extern "C" fn $name(
            handle: rocblas_handle,
            $($trans: rocblas_operation,)?
            $($argument: $type),*
        ) -> rocblas_status {
            let act = || {
                let cublas = entered()?;
                $(let $trans = operation($trans)?;)?
                // SAFETY: the caller vouches for the handle, the scalars and the vectors, as rocBLAS asks it to.
                Ok(unsafe { (cublas.$cublas)(cublasHandle_t(handle.0), $($trans,)? $($argument),*) })
            };
            answer(act())
        }
    )*};
}

direct! {
    saxpy = cublasSaxpy_v2(n: rocblas_int, alpha: *const f32, x: *const f32, incx: rocblas_int, y: *mut f32, incy: rocblas_int);
    sdot = cublasSdot_v2(n: rocblas_int, x: *const f32, incx: rocblas_int, y: *const f32, incy: rocblas_int, result: *mut f32);
    snrm2 = cublasSnrm2_v2(n: rocblas_int, x: *const f32, incx: rocblas_int, result: *mut f32);
    sasum = cublasSasum_v2(n: rocblas_int, x: *const f32, incx: rocblas_int, result: *mut f32);
    isamax = cublasIsamax_v2(n: rocblas_int, x: *const f32, incx: rocblas_int, result: *mut rocblas_int);
    isamin = cublasIsamin_v2(n: rocblas_int, x: *const f32, incx: rocblas_int, result: *mut rocblas_int);
    sscal = cublasSscal_v2(n: rocblas_int, alpha: *const f32, x: *mut f32, incx: rocblas_int);
    scopy = cublasScopy_v2(n: rocblas_int, x: *const f32, incx: rocblas_int, y: *mut f32, incy: rocblas_int);
    sswap = cublasSswap_v2(n: rocblas_int, x: *mut f32, incx: rocblas_int, y: *mut f32, incy: rocblas_int);
    sgemv = cublasSgemv_v2([trans] m: rocblas_int, n: rocblas_int, alpha: *const f32, a: *const f32, lda: rocblas_int, x: *const f32, incx: rocblas_int, beta: *const f32, y: *mut f32, incy: rocblas_int);
    sgbmv = cublasSgbmv_v2([trans] m: rocblas_int, n: rocblas_int, kl: rocblas_int, ku: rocblas_int, alpha: *const f32, a: *const f32, lda: rocblas_int, x: *const f32, incx: rocblas_int, beta: *const f32, y: *mut f32, incy: rocblas_int);
    daxpy = cublasDaxpy_v2(n: rocblas_int, alpha: *const f64, x: *const f64, incx: rocblas_int, y: *mut f64, incy: rocblas_int);
    ddot = cublasDdot_v2(n: rocblas_int, x: *const f64, incx: rocblas_int, y: *const f64, incy: rocblas_int, result: *mut f64);
    dnrm2 = cublasDnrm2_v2(n: rocblas_int, x: *const f64, incx: rocblas_int, result: *mut f64);
    dasum = cublasDasum_v2(n: rocblas_int, x: *const f64, incx: rocblas_int, result: *mut f64);
    idamax = cublasIdamax_v2(n: rocblas_int, x: *const f64, incx: rocblas_int, result: *mut rocblas_int);
    idamin = cublasIdamin_v2(n: rocblas_int, x: *const f64, incx: rocblas_int, result: *mut rocblas_int);
    dscal = cublasDscal_v2(n: rocblas_int, alpha: *const f64, x: *mut f64, incx: rocblas_int);
    dcopy = cublasDcopy_v2(n: rocblas_int, x: *const f64, incx: rocblas_int, y: *mut f64, incy: rocblas_int);
    dswap = cublasDswap_v2(n: rocblas_int, x: *mut f64, incx: rocblas_int, y: *mut f64, incy: rocblas_int);
    dgemv = cublasDgemv_v2([trans] m: rocblas_int, n: rocblas_int, alpha: *const f64, a: *const f64, lda: rocblas_int, x: *const f64, incx: rocblas_int, beta: *const f64, y: *mut f64, incy: rocblas_int);
    dgbmv = cublasDgbmv_v2([trans] m: rocblas_int, n: rocblas_int, kl: rocblas_int, ku: rocblas_int, alpha: *const f64, a: *const f64, lda: rocblas_int, x: *const f64, incx: rocblas_int, beta: *const f64, y: *mut f64, incy: rocblas_int);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_its_type_and_f32_is_not_tf32() {
        assert_eq!(compute(rocblas_datatype::rocblas_datatype_f32_r), Ok(cublasComputeType_t::CUBLAS_COMPUTE_32F));
        assert_eq!(compute(rocblas_datatype::rocblas_datatype_f64_r), Ok(cublasComputeType_t::CUBLAS_COMPUTE_64F));
        for (name, value) in rocblas_datatype::NAMED {
            assert!(element(rocblas_datatype(*value as u32)).is_ok(), "{name}");
        }
        assert_eq!(element(rocblas_datatype(0)), Err(rocblas_status::rocblas_status_not_implemented));
    }

    #[test]
    fn pointer_modes_have_the_same_numbers() {
        let numbers = |named: &[(&str, i64)]| named.iter().map(|(_, value)| *value).collect::<Vec<_>>();
        assert_eq!(numbers(rocblas_pointer_mode::NAMED), numbers(cublasPointerMode_t::NAMED));
    }

    #[test]
    fn only_success_is_success() {
        for (name, value) in cublasStatus_t::NAMED {
            let success = status(cublasStatus_t(*value as i32)) == rocblas_status::rocblas_status_success;
            assert_eq!(success, *value == 0, "{name}");
        }
    }
}
