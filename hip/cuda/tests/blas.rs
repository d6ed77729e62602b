//! cuBLAS through the bare table on a real GPU: the product is right, and f32 is computed in f32 unless TF32 is asked for.

mod common;

use common::gpu::{ok, Memory};
use common::platform;
use hip_cuda::blas::*;
use std::ptr::null_mut;

/// A 64 by 64 product of f32; the largest difference to the one computed here in f64.
fn error_of(hip: &hip_abi::Hip, blas: &Cublas, handle: cublasHandle_t, compute: cublasComputeType_t) -> f64 {
    const N: usize = 64;
    let value = |i: usize| 0.5 + (i * 7919 % 1009) as f32 / 1009.0;
    let (a, b): (Vec<f32>, Vec<f32>) = ((0..N * N).map(value).collect(), (0..N * N).map(|i| value(i + 17)).collect());
    let (x, y, z) = (Memory::with(hip, &a), Memory::with(hip, &b), Memory::with(hip, &a));
    let (alpha, beta, n) = (1.0f32, 0.0f32, N as i32);
    let (op, of) = (cublasOperation_t::CUBLAS_OP_N, cudaDataType_t::CUDA_R_32F);
    let (one, none) = ((&raw const alpha).cast(), (&raw const beta).cast());
    let algo = cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;
    // SAFETY: three live matrices of N * N elements of the type named.
    let status = unsafe {
        (blas.cublasGemmEx)(
            handle, op, op, n, n, n, one, x.pointer, of, n, y.pointer, of, n, none, z.pointer, of, n, compute, algo,
        )
    };
    assert!(status.is_success(), "{}", status.name());
    let product = z.read::<f32>();
    let exact = |row: usize, column: usize| -> f64 {
        (0..N).map(|k| f64::from(a[row + k * N]) * f64::from(b[k + column * N])).sum()
    };
    (0..N * N).map(|at| (f64::from(product[at]) / exact(at % N, at / N) - 1.0).abs()).fold(0.0, f64::max)
}

#[test]
fn a_product_is_exact_to_f32_unless_less_is_asked_for() {
    let Some((hip, _alone)) = platform() else { return };
    let blas = table().expect("a machine with an NVIDIA GPU under test has cuBLAS");
    ok!(hip, hipSetDevice(0));
    assert_eq!(enter(), Ok(()));
    let mut handle = cublasHandle_t(null_mut());
    // SAFETY: the handle is ours, and the device is current.
    unsafe {
        assert!((blas.cublasCreate_v2)(&mut handle).is_success());
        let mut mode = cublasMath_t(-1);
        assert!((blas.cublasGetMathMode)(handle, &mut mode).is_success());
        assert_eq!(mode, cublasMath_t::CUBLAS_DEFAULT_MATH, "TF32 is off by default");
    }
    let full = error_of(hip, blas, handle, cublasComputeType_t::CUBLAS_COMPUTE_32F);
    let reduced = error_of(hip, blas, handle, cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32);
    eprintln!("relative error: {full:.1e} in f32, {reduced:.1e} in TF32");
    assert!(full < 2e-6, "{full:e}");
    assert!(reduced < 5e-3, "{reduced:e}");
    // SAFETY: the handle is ours, and its work was waited for.
    assert!(unsafe { (blas.cublasDestroy_v2)(handle) }.is_success());
}

#[test]
fn the_table_loads_wherever_cublas_is_installed() {
    match table() {
        Ok(blas) => eprintln!("cuBLAS at {}", blas.origin()),
        Err(why) => {
            let text = why.to_string();
            eprintln!("skipped: {text}");
            assert!(text.contains("libcublas.so.13") && text.contains("CUDA_HOME"), "{text}");
        }
    }
}
