//! Run-time compilation with the real nvrtc. It needs no GPU; where nvrtc is not installed the tests say so.

mod common;

use common::compiler;
use hip_abi::hiprtcResult;
use hip_cuda::{CompileError, Compiled};

const SAXPY: &str = r#"
extern "C" __global__ void saxpy(float a, const float* x, float* y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}"#;

fn compile(source: &str, headers: &[(&str, &str)], options: &[&str]) -> Result<Compiled, CompileError> {
    hip_cuda::compile("test.hip", source, headers, options)
}

/// ELF for CUDA (machine 190).
fn is_cubin(code: &[u8]) -> bool {
    code.starts_with(b"\x7fELF") && code[18..20] == 190u16.to_le_bytes()
}

#[test]
fn a_real_architecture_gives_machine_code_and_a_virtual_one_gives_text() {
    let Some(_) = compiler() else { return };
    let Compiled { code, log } = compile(SAXPY, &[], &["--offload-arch=sm_90", "-O3"]).expect("it compiles");
    assert!(is_cubin(&code) && log.is_empty(), "{log}");
    assert!(code.windows(5).any(|name| name == b"saxpy"));
    let Compiled { code: text, .. } = compile(SAXPY, &[], &["--gpu-architecture=compute_90"]).expect("it compiles");
    let text = String::from_utf8(text).expect("PTX is text");
    assert!(text.contains(".version") && text.contains("saxpy"), "{text}");
}

#[test]
fn an_error_in_the_source_is_logged_with_its_line() {
    let Some(_) = compiler() else { return };
    let CompileError { result: status, log } =
        compile("extern \"C\" __global__ void f() {\n  oops;\n}", &[], &["--offload-arch=sm_90"])
            .expect_err("oops is not declared");
    assert_eq!(status, hiprtcResult::HIPRTC_ERROR_COMPILATION);
    assert!(log.contains("test.hip(2)") && log.contains("oops"), "{log}");
    // The next program is none the worse for it.
    assert!(compile(SAXPY, &[], &["--offload-arch=sm_90"]).is_ok());
}

#[test]
fn an_architecture_or_option_that_nvrtc_does_not_know_is_refused() {
    let Some(_) = compiler() else { return };
    for option in ["--offload-arch=gfx90a", "--unheard-of"] {
        let CompileError { result: status, log } = compile(SAXPY, &[], &[option]).expect_err("nvrtc does not know it");
        assert_eq!(status, hiprtcResult::HIPRTC_ERROR_INVALID_OPTION, "{option}: {log}");
    }
}

#[test]
fn options_of_amds_compiler_do_no_harm_and_definitions_arrive() {
    let Some(_) = compiler() else { return };
    let source = format!("#if N != 7 || !defined(__HIP_PLATFORM_NVIDIA__)\n#error no\n#endif\n{SAXPY}");
    let options = [
        "--offload-arch=sm_90",
        "-DN=7",
        "-std=c++17",
        "-O3",
        "-mllvm",
        "-amdgpu-early-inline-all=true",
        "-ffp-contract=off",
        "-munsafe-fp-atomics",
        "-Wno-everything",
        "-nogpuinc",
    ];
    compile(&source, &[], &options).expect("it compiles");
}

#[test]
fn headers_travel_with_the_program_and_hips_own_is_always_there() {
    let Some(_) = compiler() else { return };
    let source = r#"
#include <hip/hip_runtime.h>
#include "scale.h"
extern "C" __global__ void f(float* x, unsigned long long* votes, long long* when) {
    unsigned i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x;
    float v = SCALE * x[i];
    for (int d = warpSize / 2; d > 0; d /= 2) v += __shfl_down(v, d);
    v += __shfl(v, 0) + __shfl_up(v, 1) + __shfl_xor(v, 1, 16) + (float)__lane_id();
    votes[i] = __ballot(v > 0) + __any(v > 1) + __all(v > 2);
    when[i] = wall_clock64();
    x[i] = v;
}"#;
    let headers = [("scale.h", "#define SCALE 2.0f\n")];
    compile(source, &headers, &["--offload-arch=sm_90"]).expect("it compiles");
    let CompileError { result: status, log } =
        compile(source, &[], &["--offload-arch=sm_90"]).expect_err("scale.h is missing");
    assert_eq!(status, hiprtcResult::HIPRTC_ERROR_COMPILATION);
    assert!(log.contains("scale.h"), "{log}");
}

#[test]
fn a_template_is_found_by_its_lowered_name() {
    let Some(rtc) = compiler() else { return };
    use std::ffi::{c_char, CStr};
    let mut program = hip_abi::hiprtcProgram(std::ptr::null_mut());
    let source = c"template <typename T> __global__ void twice(T* x) { *x += *x; }";
    let mut option = [c"--offload-arch=sm_90".as_ptr()];
    let mut lowered: *const c_char = std::ptr::null();
    // SAFETY: all texts are constants, and the lowered name is read before its program goes.
    unsafe {
        let none = std::ptr::null_mut();
        let created = (rtc.hiprtcCreateProgram)(&mut program, source.as_ptr(), std::ptr::null(), 0, none, none);
        assert!(created.is_success(), "{created}");
        let name = c"twice<float>".as_ptr();
        assert!((rtc.hiprtcAddNameExpression)(program, name).is_success());
        assert!((rtc.hiprtcCompileProgram)(program, 1, option.as_mut_ptr()).is_success());
        assert!((rtc.hiprtcGetLoweredName)(program, name, &mut lowered).is_success());
        assert_eq!(CStr::from_ptr(lowered), c"_Z5twiceIfEvPT_");
        assert!((rtc.hiprtcDestroyProgram)(&mut program).is_success());
    }
}

#[test]
fn null_and_negative_arguments_are_errors() {
    let Some(rtc) = compiler() else { return };
    let (none, mut program) = (std::ptr::null_mut(), hip_abi::hiprtcProgram(std::ptr::null_mut()));
    let invalid = hiprtcResult::HIPRTC_ERROR_INVALID_INPUT;
    // SAFETY: each call has an argument that must be refused before anything is read.
    unsafe {
        let text = SAXPY.as_ptr().cast();
        assert_eq!((rtc.hiprtcCreateProgram)(&mut program, std::ptr::null(), text, 0, none, none), invalid);
        assert_eq!((rtc.hiprtcCreateProgram)(&mut program, text, text, -1, none, none), invalid);
        assert_eq!((rtc.hiprtcCreateProgram)(&mut program, text, text, 1, none, none), invalid);
        assert_eq!((rtc.hiprtcCompileProgram)(program, 1, none), invalid);
        let word = std::ffi::CStr::from_ptr((rtc.hiprtcGetErrorString)(invalid));
        assert_eq!(word, c"HIPRTC_ERROR_INVALID_INPUT");
    }
}
