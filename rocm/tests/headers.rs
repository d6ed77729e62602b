//! Our C signatures against AMD's own headers of rocBLAS, rocRAND, rocFFT, MIOpen and RCCL, from `/usr/include` and from the include
//! folders that `$ROCM_HEADERS` lists (for example of an unpacked ROCm release). Where a library has none, nothing is checked.

#![cfg(target_os = "linux")]

use hip_abi::headers::{folders, Assertions};
use rocm::blas::{
    rocblas_datatype, rocblas_gemm_algo, rocblas_operation, rocblas_pointer_mode, rocblas_status, Rocblas,
};
use rocm::fft::{
    rocfft_array_type, rocfft_precision, rocfft_result_placement, rocfft_status, rocfft_transform_type, Rocfft,
};
use rocm::miopen::*;
use rocm::rand::{rocrand_rng_type, rocrand_status, Rocrand};
use rocm::rccl::{ncclDataType_t, ncclRedOp_t, ncclResult_t, ncclUniqueId, Rccl};

use std::mem::offset_of;

/// Runs `check` for every include folder that has the header.
fn for_each_release(header: &str, check: impl Fn(Vec<std::path::PathBuf>)) {
    let found = folders(&["/usr/include"], "ROCM_HEADERS", header);
    if found.is_empty() {
        eprintln!("no {header} here: set ROCM_HEADERS to a release's include folder; nothing was checked");
    }
    found.into_iter().for_each(|include| check(vec![include]));
}

#[test]
fn rocblas_agrees_with_its_headers() {
    for_each_release("rocblas/rocblas.h", |include| {
        let mut all = Assertions::new("#include <rocblas/rocblas.h>", "rocblas_get_version_string(");
        all.functions(Rocblas::FUNCTIONS);
        all.constants(rocblas_status::NAMED).constants(rocblas_operation::NAMED).constants(rocblas_datatype::NAMED);
        all.constants(rocblas_pointer_mode::NAMED).constants(rocblas_gemm_algo::NAMED);
        let wrong = [
            ("rocblas_datatype_bf16_r) == 168L", "rocblas_datatype_bf16_r) == 169L"),
            ("float*, rocblas_int)>(&rocblas_saxpy)", "double*, rocblas_int)>(&rocblas_saxpy)"),
        ];
        all.check(&include, &["-D__HIP_PLATFORM_AMD__=1"], &wrong);
    });
}

#[test]
fn rocrand_agrees_with_its_header() {
    for_each_release("rocrand/rocrand.h", |include| {
        let mut all = Assertions::new("#include <rocrand/rocrand.h>", "");
        all.functions(Rocrand::FUNCTIONS).constants(rocrand_status::NAMED).constants(rocrand_rng_type::NAMED);
        let wrong = [("OUT_OF_RANGE) == 104L", "OUT_OF_RANGE) == 105L"), ("float*, size_t)>", "double*, size_t)>")];
        all.check(&include, &["-D__HIP_PLATFORM_AMD__=1"], &wrong);
    });
}

#[test]
fn rocfft_agrees_with_its_header() {
    for_each_release("rocfft/rocfft.h", |include| {
        let mut all = Assertions::new("#include <rocfft/rocfft.h>", "");
        all.functions(Rocfft::FUNCTIONS).constants(rocfft_status::NAMED).constants(rocfft_transform_type::NAMED);
        all.constants(rocfft_precision::NAMED).constants(rocfft_result_placement::NAMED);
        all.constants(rocfft_array_type::NAMED);
        all.condition("sizeof(rocfft_status) == 4 && sizeof(rocfft_precision) == 4", "enums");
        let wrong = [
            ("precision_half) == 2L", "precision_half) == 1L"),
            ("(rocfft_plan_description, double)", "(rocfft_plan_description, float)"),
        ];
        all.check(&include, &["-D__HIP_PLATFORM_AMD__=1"], &wrong);
    });
}

#[test]
fn miopen_agrees_with_its_header() {
    for_each_release("miopen/miopen.h", |include| {
        let mut all = Assertions::new("#include <miopen/miopen.h>", "");
        all.functions(MiopenTable::FUNCTIONS);
        for named in [
            miopenStatus_t::NAMED,
            miopenDataType_t::NAMED,
            miopenConvolutionMode_t::NAMED,
            miopenConvAlgorithm_t::NAMED,
            miopenPoolingMode_t::NAMED,
            miopenIndexType_t::NAMED,
            miopenActivationMode_t::NAMED,
            miopenBatchNormMode_t::NAMED,
            miopenSoftmaxAlgorithm_t::NAMED,
            miopenSoftmaxMode_t::NAMED,
        ] {
            all.constants(named);
        }
        // One Rust type stands for the algorithms of all three directions.
        let sames = [("Fwd", "fwd_algo"), ("BwdData", "bwd_data_algo"), ("BwdWeights", "bwd_weights_algo")];
        for (direction, field) in sames {
            for (name, value) in [("GEMM", 0), ("Direct", 1), ("Winograd", 3), ("ImplicitGEMM", 5)] {
                all.condition(&format!("miopenConvolution{direction}Algo{name} == {value}"), name);
            }
            all.condition(&format!("offsetof(miopenConvAlgoPerf_t, {field}) == 0"), field);
        }
        let place = |field: &str, ours: usize| format!("offsetof(miopenConvAlgoPerf_t, {field}) == {ours}");
        all.condition(&place("time", offset_of!(miopenConvAlgoPerf_t, time)), "place of time");
        all.condition(&place("memory", offset_of!(miopenConvAlgoPerf_t, memory)), "place of memory");
        all.condition(&format!("sizeof(miopenConvAlgoPerf_t) == {}", size_of::<miopenConvAlgoPerf_t>()), "size");
        let wrong = [("miopenBFloat16) == 5L", "miopenBFloat16) == 4L"), ("(miopenHandle_t*, ", "(miopenHandle_t, ")];
        all.check(&include, &["-D__HIP_PLATFORM_AMD__=1"], &wrong);
    });
}

#[test]
fn rccl_agrees_with_its_header() {
    for_each_release("rccl/rccl.h", |include| {
        let header = hip_abi::headers::read(&include[0], &["rccl/rccl.h"]);
        // Debian's release is older than this code.
        let old = !header.contains("ncclInProgress");
        let results = ncclResult_t::NAMED.iter().filter(|(name, _)| !(old && *name == "ncclInProgress"));
        let mut all = Assertions::new("#include <rccl/rccl.h>", header.clone());
        all.functions(Rccl::FUNCTIONS).constants(results);
        all.constants(ncclRedOp_t::NAMED).constants(ncclDataType_t::NAMED);
        all.condition(&format!("sizeof(ncclUniqueId) == {}", size_of::<ncclUniqueId>()), "size of an id");
        all.condition("sizeof(ncclResult_t) == 4 && sizeof(ncclRedOp_t) == 4 && sizeof(ncclDataType_t) == 4", "enums");
        let wrong = [
            ("ncclBfloat16) == 9L", "ncclBfloat16) == 8L"),
            ("(ncclComm_t*, int, ncclUniqueId, int)", "(ncclComm_t*, int, ncclUniqueId*, int)"),
        ];
        all.check(&include, &["-D__HIP_PLATFORM_AMD__=1"], &wrong);
    });
}
