//! rocBLAS's ABI over cuBLAS, for HIP's NVIDIA platform. A handle is cuBLAS's own; codes and types are translated, and f32
//! is computed in f32: TF32 stays off, as it is in rocBLAS.

use super::abi::*;
use hip_abi::{hipStream_t, Origin};
use hip_cuda::blas::{self, cublasComputeType_t, cublasGemmAlgo_t, cublasHandle_t, cublasOperation_t, cublasStatus_t};
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
        rocblas_get_version_string: None,
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

/// The element type, and what a product of it is computed in.
fn types(element: rocblas_datatype) -> Result<(cudaDataType_t, cublasComputeType_t, rocblas_datatype), rocblas_status> {
    use rocblas_datatype as Type;
    let single = (cublasComputeType_t::CUBLAS_COMPUTE_32F, Type::rocblas_datatype_f32_r);
    let double = (cublasComputeType_t::CUBLAS_COMPUTE_64F, Type::rocblas_datatype_f64_r);
    let (element, (compute, scalar)) = match element {
        Type::rocblas_datatype_f16_r => (cudaDataType_t::CUDA_R_16F, single),
        Type::rocblas_datatype_bf16_r => (cudaDataType_t::CUDA_R_16BF, single),
        Type::rocblas_datatype_f32_r => (cudaDataType_t::CUDA_R_32F, single),
        Type::rocblas_datatype_f64_r => (cudaDataType_t::CUDA_R_64F, double),
        _ => return Err(rocblas_status::rocblas_status_not_implemented),
    };
    Ok((element, compute, scalar))
}

fn answer(outcome: Result<cublasStatus_t, rocblas_status>) -> rocblas_status {
    outcome.map_or_else(|refused| refused, status)
}

unsafe extern "C" fn create_handle(handle: *mut rocblas_handle) -> rocblas_status {
    if handle.is_null() {
        return rocblas_status::rocblas_status_invalid_pointer;
    }
    // SAFETY: both handles are one pointer, and null was refused.
    answer(entered().map(|cublas| unsafe { (cublas.cublasCreate_v2)(handle.cast()) }))
}

unsafe extern "C" fn destroy_handle(handle: rocblas_handle) -> rocblas_status {
    // SAFETY: the handle is cuBLAS's own, and the caller is done with it.
    answer(entered().map(|cublas| unsafe { (cublas.cublasDestroy_v2)(cublasHandle_t(handle.0)) }))
}

unsafe extern "C" fn set_stream(handle: rocblas_handle, stream: hipStream_t) -> rocblas_status {
    // SAFETY: the handle is cuBLAS's own, and a HIP stream is the driver's.
    answer(entered().map(|cublas| unsafe { (cublas.cublasSetStream_v2)(cublasHandle_t(handle.0), stream) }))
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
    // cuBLAS multiplies in place only, and that is all `rocm::blas` asks for.
    let in_place = c == d.cast_const() && ldc == ldd && stride_c == stride_d;
    if !in_place || [b_type, c_type, d_type].iter().any(|&other| other != a_type) {
        return rocblas_status::rocblas_status_not_implemented;
    }
    let product = || {
        let (of, compute, scalar) = types(a_type)?;
        if compute_type != scalar {
            return Err(rocblas_status::rocblas_status_not_implemented);
        }
        let (cublas, handle) = (entered()?, cublasHandle_t(handle.0));
        let (trans_a, trans_b) = (operation(trans_a)?, operation(trans_b)?);
        let algo = cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;
        // SAFETY: the caller vouches for the handle, the scalars and the matrices, as rocBLAS asks it to.
        Ok(unsafe {
            if batch_count == 1 {
                // The plain call has the better heuristics.
                (cublas.cublasGemmEx)(
                    handle, trans_a, trans_b, m, n, k, alpha, a, of, lda, b, of, ldb, beta, d, of, ldd, compute, algo,
                )
            } else {
                (cublas.cublasGemmStridedBatchedEx)(
                    handle,
                    trans_a,
                    trans_b,
                    m,
                    n,
                    k,
                    alpha,
                    a,
                    of,
                    lda,
                    stride_a,
                    b,
                    of,
                    ldb,
                    stride_b,
                    beta,
                    d,
                    of,
                    ldd,
                    stride_d,
                    batch_count,
                    compute,
                    algo,
                )
            }
        })
    };
    answer(product())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_its_compute_type_and_f32_is_not_tf32() {
        let compute = |element| types(element).map(|(_, compute, _)| compute);
        assert_eq!(compute(rocblas_datatype::rocblas_datatype_f32_r), Ok(cublasComputeType_t::CUBLAS_COMPUTE_32F));
        assert_eq!(compute(rocblas_datatype::rocblas_datatype_f64_r), Ok(cublasComputeType_t::CUBLAS_COMPUTE_64F));
        for (name, value) in rocblas_datatype::NAMED {
            assert!(types(rocblas_datatype(*value as u32)).is_ok(), "{name}");
        }
        assert_eq!(types(rocblas_datatype(0)), Err(rocblas_status::rocblas_status_not_implemented));
    }

    #[test]
    fn only_success_is_success() {
        for (name, value) in cublasStatus_t::NAMED {
            let success = status(cublasStatus_t(*value as i32)) == rocblas_status::rocblas_status_success;
            assert_eq!(success, *value == 0, "{name}");
        }
    }
}
