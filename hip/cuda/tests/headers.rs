//! Our C signatures against NVIDIA's own headers.
//!
//! A C++ file of static assertions is generated from the tables: the type of every function, the value of every constant
//! and the layout of the structures. The compiler then says whether they are true. Headers are looked for in `CUDA_HOME`,
//! `/usr/local/cuda` and `$CUDA_HEADERS` (a list of include folders separated by colons). Without any, the test says so and
//! checks nothing.

#![cfg(target_os = "linux")]

use hip_abi::headers::{folders, read, Assertions};
use hip_cuda::blas::{
    cublasComputeType_t, cublasGemmAlgo_t, cublasMath_t, cublasOperation_t, cublasPointerMode_t, cublasStatus_t,
    cudaDataType_t, Cublas,
};
use hip_cuda::driver::{CUlaunchAttribute, CUlaunchConfig, Cuda, Side, CUDA_MEMCPY2D};
use hip_cuda::{CUresult, Nvrtc};
use std::mem::offset_of;
use std::path::{Path, PathBuf};

/// The driver's attributes that the crate names by number.
const ATTRIBUTES: &[(&str, i64)] = &[
    ("CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK", 1),
    ("CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X", 2),
    ("CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y", 3),
    ("CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z", 4),
    ("CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X", 5),
    ("CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y", 6),
    ("CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z", 7),
    ("CU_DEVICE_ATTRIBUTE_WARP_SIZE", 10),
    ("CU_DEVICE_ATTRIBUTE_CLOCK_RATE", 13),
    ("CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT", 16),
    ("CU_DEVICE_ATTRIBUTE_INTEGRATED", 18),
    ("CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS", 31),
    ("CU_DEVICE_ATTRIBUTE_PCI_BUS_ID", 33),
    ("CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID", 34),
    ("CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE", 36),
    ("CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH", 37),
    ("CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE", 38),
    ("CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR", 39),
    ("CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID", 50),
    ("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR", 75),
    ("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR", 76),
    ("CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY", 83),
    ("CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH", 95),
    ("CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", 97),
    ("CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES", 1),
    ("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", 8),
    ("CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT", 9),
    ("CU_MEMHOSTALLOC_PORTABLE", 1),
    ("CU_MEMHOSTALLOC_DEVICEMAP", 2),
    ("CU_MEMHOSTALLOC_WRITECOMBINED", 4),
    ("CU_MEMORYTYPE_HOST", 1),
    ("CU_MEMORYTYPE_DEVICE", 2),
    ("CU_MEMORYTYPE_UNIFIED", 4),
    ("CU_EVENT_DISABLE_TIMING", 2),
    ("CU_STREAM_NON_BLOCKING", 1),
    ("CU_STREAM_CAPTURE_MODE_GLOBAL", 0),
    ("CU_STREAM_CAPTURE_MODE_THREAD_LOCAL", 1),
    ("CU_STREAM_CAPTURE_MODE_RELAXED", 2),
    ("CU_STREAM_CAPTURE_STATUS_ACTIVE", 1),
    ("CU_STREAM_CAPTURE_STATUS_INVALIDATED", 2),
    ("CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION", CUlaunchAttribute::WAITS_BY_ITSELF.id as i64),
    ("NVRTC_ERROR_INTERNAL_ERROR", 11),
    ("NVRTC_ERROR_COMPILATION", 6),
];

/// Where the fields of the structures lie, and how large those are.
fn layouts() -> Vec<(String, usize)> {
    let second = offset_of!(CUDA_MEMCPY2D, destination);
    let offsets = [
        ("CUDA_MEMCPY2D, srcMemoryType", offset_of!(Side, kind)),
        ("CUDA_MEMCPY2D, srcHost", offset_of!(Side, host)),
        ("CUDA_MEMCPY2D, srcDevice", offset_of!(Side, device)),
        ("CUDA_MEMCPY2D, srcArray", offset_of!(Side, array)),
        ("CUDA_MEMCPY2D, srcPitch", offset_of!(Side, pitch)),
        ("CUDA_MEMCPY2D, dstXInBytes", second),
        ("CUDA_MEMCPY2D, dstDevice", second + offset_of!(Side, device)),
        ("CUDA_MEMCPY2D, dstPitch", second + offset_of!(Side, pitch)),
        ("CUDA_MEMCPY2D, WidthInBytes", offset_of!(CUDA_MEMCPY2D, width_bytes)),
        ("CUDA_MEMCPY2D, Height", offset_of!(CUDA_MEMCPY2D, height)),
        ("CUlaunchAttribute, value", offset_of!(CUlaunchAttribute, value)),
        ("CUlaunchConfig, blockDimX", offset_of!(CUlaunchConfig, block)),
        ("CUlaunchConfig, sharedMemBytes", offset_of!(CUlaunchConfig, shared_bytes)),
        ("CUlaunchConfig, hStream", offset_of!(CUlaunchConfig, stream)),
        ("CUlaunchConfig, attrs", offset_of!(CUlaunchConfig, attributes)),
        ("CUlaunchConfig, numAttrs", offset_of!(CUlaunchConfig, attribute_count)),
    ];
    let sizes = [
        ("CUDA_MEMCPY2D", size_of::<CUDA_MEMCPY2D>()),
        ("CUlaunchAttribute", size_of::<CUlaunchAttribute>()),
        ("CUlaunchConfig", size_of::<CUlaunchConfig>()),
    ];
    let offsets = offsets.map(|(field, ours)| (format!("offsetof({field})"), ours));
    offsets.into_iter().chain(sizes.map(|(name, ours)| (format!("sizeof({name})"), ours))).collect()
}

fn assertions(include: &Path) -> Assertions {
    let has = |name: &str| include.join(name).exists();
    let header = read(include, &["cuda.h"]);
    // The older names of renamed functions are declared only to the library's own build.
    let mut prelude = String::from("#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n");
    for name in ["nvrtc.h", "cublas_v2.h"] {
        if has(name) {
            prelude.push_str(&format!("#include <{name}>\n"));
        }
    }
    let mut all = Assertions::new(&prelude, header.clone());
    all.functions(Cuda::FUNCTIONS);
    // A code newer than the header says nothing about the older ones.
    let codes = CUresult::ALL.iter().map(|code| (code.name(), i64::from(code.0)));
    all.constants(&codes.filter(|(name, _)| header.contains(name)).collect::<Vec<_>>());
    all.constants(ATTRIBUTES.iter().filter(|(name, _)| has("nvrtc.h") || !name.starts_with("NVRTC")));
    if has("nvrtc.h") {
        all.functions(Nvrtc::FUNCTIONS);
    }
    if has("cublas_v2.h") {
        all.functions(Cublas::FUNCTIONS);
        all.constants(cublasStatus_t::NAMED).constants(cublasOperation_t::NAMED).constants(cudaDataType_t::NAMED);
        all.constants(cublasComputeType_t::NAMED).constants(cublasGemmAlgo_t::NAMED).constants(cublasMath_t::NAMED);
        all.constants(cublasPointerMode_t::NAMED);
    }
    for (place, ours) in layouts() {
        all.condition(&format!("{place} == {ours}"), &place);
    }
    all
}

fn include_folders() -> Vec<PathBuf> {
    let home = std::env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("include"));
    let found = home.into_iter().filter(|folder| folder.join("cuda.h").exists());
    found.chain(folders(&["/usr/local/cuda/include"], "CUDA_HEADERS", "cuda.h")).collect()
}

#[test]
fn every_signature_and_constant_agrees_with_the_headers() {
    let folders = include_folders();
    if folders.is_empty() {
        eprintln!("no CUDA headers here: set CUDA_HOME or CUDA_HEADERS; nothing was checked");
    }
    for include in folders {
        // CUDA 13 keeps <nv/target>, which its own headers include, in a folder of its own.
        let beside = include.join("cccl");
        assertions(&include).check(
            &[include, beside],
            &[],
            &[
                ("CUDA_ERROR_NOT_READY) == 600L", "CUDA_ERROR_NOT_READY) == 601L"),
                ("<CUresult(*)(CUdeviceptr*, size_t)>", "<CUresult(*)(CUdeviceptr*, int)>"),
            ],
        );
    }
}
