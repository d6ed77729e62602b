//! Our C signatures against AMD's own headers of rocBLAS and rocRAND, from `/usr/include` and from the include
//! folders that `$ROCM_HEADERS` lists (for example of an unpacked ROCm release). Where a library has none, nothing is checked.

#![cfg(target_os = "linux")]

use hip_abi::headers::{folders, Assertions};
use rocm::blas::{
    rocblas_datatype, rocblas_gemm_algo, rocblas_operation, rocblas_pointer_mode, rocblas_status, Rocblas,
};
use rocm::rand::{rocrand_rng_type, rocrand_status, Rocrand};

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
