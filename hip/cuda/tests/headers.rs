//! Our C signatures against NVIDIA's own headers.
//!
//! A C++ file of static assertions is generated from the tables: the type of every function, the value of every constant
//! and the layout of the one structure. The compiler then says whether they are true. Headers are looked for in `CUDA_HOME`,
//! `/usr/local/cuda` and `$CUDA_HEADERS` (a list of include folders separated by colons). Without any, the test says so and
//! checks nothing.

#![cfg(target_os = "linux")]

use hip_abi::Function;
use hip_cuda::blas::{
    cublasComputeType_t, cublasGemmAlgo_t, cublasMath_t, cublasOperation_t, cublasStatus_t, cudaDataType_t, Cublas,
};
use hip_cuda::driver::{Cuda, Side, CUDA_MEMCPY2D};
use hip_cuda::{CUresult, Nvrtc};
use std::fmt::Write;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The C spelling of a Rust type of the tables.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(inner) = rust.strip_prefix("*mut ") {
        return format!("{}*", c_type(inner));
    }
    if let Some(inner) = rust.strip_prefix("*const ") {
        return format!("{} const*", c_type(inner));
    }
    match rust {
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "c_ulonglong" => "unsigned long long",
        "c_longlong" => "long long",
        "c_char" => "char",
        "c_void" => "void",
        "usize" => "size_t",
        "u8" => "unsigned char",
        "u16" => "unsigned short",
        "f32" => "float",
        other => other,
    }
    .to_string()
}

fn pointer_type(function: &Function) -> String {
    let arguments: Vec<String> = function.arguments.iter().map(|(_, rust)| c_type(rust)).collect();
    format!("{}(*)({})", c_type(function.returns), arguments.join(", "))
}

/// The driver's attributes that the crate names by number: (header's name, number, HIP's name).
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
    ("NVRTC_ERROR_INTERNAL_ERROR", 11),
    ("NVRTC_ERROR_COMPILATION", 6),
];

fn assertions(include: &Path) -> String {
    let has = |name: &str| include.join(name).exists();
    // The older names of renamed functions are declared only to the library's own build.
    let mut text = String::from("#define __CUDA_API_VERSION_INTERNAL\n#include <cstddef>\n#include <cuda.h>\n");
    let mut tables: Vec<&[Function]> = vec![Cuda::FUNCTIONS];
    let header = std::fs::read_to_string(include.join("cuda.h")).unwrap_or_default();
    // A code newer than the header says nothing about the older ones.
    let codes = CUresult::ALL.iter().map(|code| (code.name(), i64::from(code.0)));
    let mut named: Vec<(&str, i64)> = codes.filter(|(name, _)| header.contains(name)).collect();
    named.extend(ATTRIBUTES.iter().filter(|(name, _)| has("nvrtc.h") || !name.starts_with("NVRTC")));
    if has("nvrtc.h") {
        text.push_str("#include <nvrtc.h>\n");
        tables.push(Nvrtc::FUNCTIONS);
    }
    if has("cublas_v2.h") {
        text.push_str("#include <cublas_v2.h>\n");
        tables.push(Cublas::FUNCTIONS);
        for constants in [
            cublasStatus_t::NAMED,
            cublasOperation_t::NAMED,
            cudaDataType_t::NAMED,
            cublasComputeType_t::NAMED,
            cublasGemmAlgo_t::NAMED,
            cublasMath_t::NAMED,
        ] {
            named.extend(constants);
        }
    }
    let mut check = |condition: String, message: &str| {
        writeln!(text, "static_assert({condition}, \"{message}\");").expect("writing to a string");
    };
    for function in tables.into_iter().flatten() {
        if function.optional && !header.contains(function.name) {
            continue;
        }
        let signature = pointer_type(function);
        check(format!("static_cast<{signature}>(&{0}) != nullptr || true", function.name), function.name);
    }
    for (name, value) in named {
        check(format!("static_cast<long>({name}) == {value}L"), name);
    }
    let place = |name: &str, ours: usize| (format!("offsetof(CUDA_MEMCPY2D, {name}) == {ours}"), name.to_string());
    let second = offset_of!(CUDA_MEMCPY2D, destination);
    for (condition, name) in [
        place("srcMemoryType", offset_of!(Side, kind)),
        place("srcHost", offset_of!(Side, host)),
        place("srcDevice", offset_of!(Side, device)),
        place("srcArray", offset_of!(Side, array)),
        place("srcPitch", offset_of!(Side, pitch)),
        place("dstXInBytes", second),
        place("dstDevice", second + offset_of!(Side, device)),
        place("dstPitch", second + offset_of!(Side, pitch)),
        place("WidthInBytes", offset_of!(CUDA_MEMCPY2D, width_bytes)),
        place("Height", offset_of!(CUDA_MEMCPY2D, height)),
        (format!("sizeof(CUDA_MEMCPY2D) == {}", size_of::<CUDA_MEMCPY2D>()), "size of CUDA_MEMCPY2D".into()),
    ] {
        check(condition, &name);
    }
    text
}

fn include_folders() -> Vec<PathBuf> {
    let extra = std::env::var_os("CUDA_HEADERS").unwrap_or_default();
    let home = std::env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("include"));
    let mut folders: Vec<PathBuf> = home.into_iter().collect();
    folders.push("/usr/local/cuda/include".into());
    folders.extend(std::env::split_paths(&extra));
    folders.retain(|folder| folder.join("cuda.h").exists());
    folders
}

/// Compiles `text` against the headers in `include`; the compiler's words where it refuses.
fn compile(include: &Path, text: &str) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("hip-cuda-headers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let file = folder.join("assertions.cpp");
    std::fs::write(&file, text).expect("a temporary file");
    let output = Command::new("c++")
        .args(["-std=c++17", "-fsyntax-only", "-w", "-I"])
        .arg(include)
        .arg("-I")
        .arg(include.join("cccl")) // where CUDA 13 keeps <nv/target>, which its own headers include
        .arg(&file)
        .output()
        .expect("a C++ compiler");
    std::fs::remove_dir_all(&folder).expect("the temporary folder goes");
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn every_signature_and_constant_agrees_with_the_headers() {
    let folders = include_folders();
    if folders.is_empty() {
        eprintln!("no CUDA headers here: set CUDA_HOME or CUDA_HEADERS; nothing was checked");
    }
    for include in folders {
        let text = assertions(&include);
        if let Err(words) = compile(&include, &text) {
            panic!("{} disagrees with our tables:\n{words}", include.display());
        }
        eprintln!("{}: {} assertions hold", include.display(), text.matches("static_assert").count());

        // The check itself can fail: a wrong constant and a wrong signature are both refused.
        let wrong_constant = text.replace("CUDA_ERROR_NOT_READY) == 600L", "CUDA_ERROR_NOT_READY) == 601L");
        assert_ne!(wrong_constant, text);
        assert!(compile(&include, &wrong_constant).is_err(), "a wrong constant went unnoticed");
        let wrong_type = text.replace("<CUresult(*)(CUdeviceptr*, size_t)>", "<CUresult(*)(CUdeviceptr*, int)>");
        assert_ne!(wrong_type, text);
        assert!(compile(&include, &wrong_type).is_err(), "a wrong signature went unnoticed");
    }
}
