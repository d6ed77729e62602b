//! Programs by way of the table, from the text to the numbers a launch leaves behind.

use super::*;
use hip_abi::{hipDeviceptr_t, hipFunction_t, hipMemcpyKind, hipModule_t, hipStream_t};
use std::ffi::c_void;

/// A program of the table, destroyed when dropped.
struct Compiling(hiprtcProgram);

impl Compiling {
    fn new(source: &str, headers: &[(&str, &str)]) -> Self {
        let source = CString::new(source).expect("no zero bytes");
        let c = |text: &str| CString::new(text).expect("no zero bytes");
        let names: Vec<_> = headers.iter().map(|(name, _)| c(name)).collect();
        let texts: Vec<_> = headers.iter().map(|(_, text)| c(text)).collect();
        let mut names: Vec<_> = names.iter().map(|text| text.as_ptr()).collect();
        let mut texts: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        let mut program = hiprtcProgram(std::ptr::null_mut());
        // SAFETY: every pointer is to a live C string or a list of them.
        let status = unsafe {
            (rtc_table().hiprtcCreateProgram)(
                &mut program,
                source.as_ptr(),
                c"user.hip".as_ptr(),
                headers.len() as c_int,
                texts.as_mut_ptr(),
                names.as_mut_ptr(),
            )
        };
        assert_eq!(status, hiprtcResult::HIPRTC_SUCCESS);
        Self(program)
    }

    fn compile(&self, options: &[&CStr]) -> hiprtcResult {
        let mut options: Vec<_> = options.iter().map(|text| text.as_ptr()).collect();
        // SAFETY: a list of live C strings.
        unsafe { (rtc_table().hiprtcCompileProgram)(self.0, options.len() as c_int, options.as_mut_ptr()) }
    }

    fn log(&self) -> String {
        let mut bytes = 0;
        // SAFETY: the size is written.
        assert!(unsafe { (rtc_table().hiprtcGetProgramLogSize)(self.0, &mut bytes) }.is_success());
        let mut log = vec![0u8; bytes];
        // SAFETY: the log has the size it said.
        assert!(unsafe { (rtc_table().hiprtcGetProgramLog)(self.0, log.as_mut_ptr().cast()) }.is_success());
        CStr::from_bytes_until_nul(&log).expect("ends with zero").to_string_lossy().into_owned()
    }

    fn code(&self) -> Vec<u8> {
        let mut bytes = 0;
        // SAFETY: the size is written.
        assert!(unsafe { (rtc_table().hiprtcGetCodeSize)(self.0, &mut bytes) }.is_success());
        let mut code = vec![0u8; bytes];
        // SAFETY: the code has the size it said.
        assert!(unsafe { (rtc_table().hiprtcGetCode)(self.0, code.as_mut_ptr().cast()) }.is_success());
        code
    }
}

impl Drop for Compiling {
    fn drop(&mut self) {
        // SAFETY: a live program.
        assert!(unsafe { (rtc_table().hiprtcDestroyProgram)(&mut self.0) }.is_success());
        assert!(self.0 .0.is_null());
    }
}

/// Launches one kernel of `code` over `data` (its only argument) and brings the data back.
fn launch(code: &[u8], name: &CStr, blocks: u32, threads: u32, shared: u32, data: &mut [u32]) {
    let hip = crate::table();
    let bytes = std::mem::size_of_val(data);
    // SAFETY: handles and pointers come from the calls before; sizes are those of `data`.
    unsafe {
        let mut module = hipModule_t(std::ptr::null_mut());
        assert!((hip.hipModuleLoadData)(&mut module, code.as_ptr().cast()).is_success());
        let mut function = hipFunction_t(std::ptr::null_mut());
        assert!((hip.hipModuleGetFunction)(&mut function, module, name.as_ptr()).is_success());
        let mut memory: *mut c_void = std::ptr::null_mut();
        assert!((hip.hipMalloc)(&mut memory, bytes).is_success());
        assert!((hip.hipMemcpy)(memory, data.as_ptr().cast(), bytes, hipMemcpyKind::hipMemcpyHostToDevice).is_success());
        let mut argument = hipDeviceptr_t(memory);
        let mut arguments = [std::ptr::from_mut(&mut argument).cast::<c_void>()];
        let null = hipStream_t(std::ptr::null_mut());
        let status = (hip.hipModuleLaunchKernel)(
            function,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            shared,
            null,
            arguments.as_mut_ptr(),
            std::ptr::null_mut(),
        );
        assert!(status.is_success(), "{status}");
        assert!(
            (hip.hipMemcpy)(data.as_mut_ptr().cast(), memory, bytes, hipMemcpyKind::hipMemcpyDeviceToHost).is_success()
        );
        assert!((hip.hipFree)(memory).is_success());
        assert!((hip.hipModuleUnload)(module).is_success());
    }
}

#[test]
fn a_kernel_string_compiles_and_runs() {
    let source = r#"
        #include <hip/hip_runtime.h>
        #include "scale.h"
        HIP_DYNAMIC_SHARED(unsigned, staged)
        extern "C" __global__ void reversed(unsigned *data) {
            unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
            staged[threadIdx.x] = data[at] * SCALE;
            __syncthreads();
            data[at] = staged[blockDim.x - 1 - threadIdx.x];
        }"#;
    let program = Compiling::new(source, &[("scale.h", "#define SCALE FACTOR\n")]);
    assert!(program.compile(&[c"--offload-arch=gfx1100", c"-DFACTOR=3", c"-O2"]).is_success(), "{}", program.log());
    let mut data: Vec<u32> = (0..512).collect();
    launch(&program.code(), c"reversed", 4, 128, 512, &mut data);
    for (at, value) in data.iter().enumerate() {
        assert_eq!(*value as usize, 3 * (at / 128 * 128 + 127 - at % 128));
    }
}

#[test]
fn waves_see_each_other_through_shuffles_and_votes() {
    let source = r#"
        struct Pair { unsigned long long low; unsigned high; };
        extern "C" __global__ void waves(unsigned *data) {
            unsigned t = threadIdx.x, lane = __lane_id();
            unsigned sum = hipThreadIdx_x; __builtin_assume(t < 1024);
            for (int mask = warpSize / 2; mask > 0; mask /= 2) sum += __shfl_xor(sum, mask);
            Pair pair = {t + 1ull, t + 2};
            pair = __shfl(pair, 5);
            unsigned odd = __popcll(__ballot(t & 1));
            unsigned inner = 0;
            if (lane < 8) inner = __popcll(__activemask()) + __shfl_down(t, 1, 4);
            unsigned up = __shfl_up((unsigned char)t, 2);
            bool vote = __all(t < 4096) && __any(lane == 3) && !__any(t > 4096);
            data[t] = sum == (2 * (t - lane) + warpSize - 1) * warpSize / 2
                && pair.low == t - lane + 6 && pair.high == t - lane + 7 && odd == warpSize / 2 && vote
                && inner == (lane < 8 ? 8 + (lane % 4 == 3 ? t : t + 1) : 0)
                && up == (unsigned char)(lane < 2 ? t : t - 2);
        }"#;
    let program = Compiling::new(source, &[]);
    assert!(program.compile(&[]).is_success(), "{}", program.log());
    let mut data = vec![7; 256];
    launch(&program.code(), c"waves", 1, 256, 0, &mut data);
    assert_eq!(data, vec![1; 256]);
}

#[test]
fn a_name_expression_has_a_lowered_name_that_launches() {
    let program =
        Compiling::new("template <int N> __global__ void fill(unsigned *data) { data[threadIdx.x] = N; }", &[]);
    let rtc = rtc_table();
    let mut name = std::ptr::null();
    // SAFETY: a live program and C strings throughout.
    unsafe {
        assert!((rtc.hiprtcAddNameExpression)(program.0, c"fill<41 + 1>".as_ptr()).is_success());
        let early = (rtc.hiprtcGetLoweredName)(program.0, c"fill<41 + 1>".as_ptr(), &mut name);
        assert_eq!(early, hiprtcResult::HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION);
        assert!(program.compile(&[]).is_success(), "{}", program.log());
        assert!((rtc.hiprtcGetLoweredName)(program.0, c"fill<41 + 1>".as_ptr(), &mut name).is_success());
        let late = (rtc.hiprtcAddNameExpression)(program.0, c"fill<2>".as_ptr());
        assert_eq!(late, hiprtcResult::HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION);
        let unknown = (rtc.hiprtcGetLoweredName)(program.0, c"fill<2>".as_ptr(), &mut name);
        assert_eq!(unknown, hiprtcResult::HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID);
    }
    let mut data = vec![0; 8];
    // SAFETY: lowered names live as long as the program.
    launch(&program.code(), unsafe { CStr::from_ptr(name) }, 1, 8, 0, &mut data);
    assert_eq!(data, vec![42; 8]);
}

#[test]
fn errors_are_codes_with_a_log() {
    let program = Compiling::new("__global__ void f() {\n  nonsense;\n}", &[]);
    assert_eq!(program.compile(&[]), hiprtcResult::HIPRTC_ERROR_COMPILATION);
    assert!(program.log().contains("user.hip:2:"), "{}", program.log());
    let mut bytes = 0;
    // SAFETY: a live program.
    let status = unsafe { (rtc_table().hiprtcGetCodeSize)(program.0, &mut bytes) };
    assert_eq!(status, hiprtcResult::HIPRTC_ERROR_INVALID_PROGRAM);
    assert_eq!(program.compile(&[c"what"]), hiprtcResult::HIPRTC_ERROR_INVALID_OPTION);
    assert!(program.log().contains("`what`"), "{}", program.log());
}

#[test]
fn stale_handles_null_pointers_and_injected_faults_are_codes() {
    let rtc = rtc_table();
    let mut stale = hiprtcProgram(std::ptr::null_mut());
    // SAFETY: what is wrong here is looked up or compared, never followed.
    unsafe {
        assert_eq!((rtc.hiprtcDestroyProgram)(&mut stale), hiprtcResult::HIPRTC_ERROR_INVALID_PROGRAM);
        assert_eq!((rtc.hiprtcDestroyProgram)(std::ptr::null_mut()), hiprtcResult::HIPRTC_ERROR_INVALID_INPUT);
        let compile = (rtc.hiprtcCompileProgram)(stale, 0, std::ptr::null_mut());
        assert_eq!(compile, hiprtcResult::HIPRTC_ERROR_INVALID_PROGRAM);
        let null = std::ptr::null_mut();
        let create = (rtc.hiprtcCreateProgram)(&mut stale, std::ptr::null(), std::ptr::null(), 0, null, null);
        assert_eq!(create, hiprtcResult::HIPRTC_ERROR_INVALID_INPUT);
        let named = CStr::from_ptr((rtc.hiprtcGetErrorString)(create));
        assert_eq!(named, c"HIPRTC_ERROR_INVALID_INPUT");
    }
    let program = Compiling::new("__global__ void f() {}", &[]);
    let armed = inject::fail("hiprtcCompileProgram", 1, hiprtcResult::HIPRTC_ERROR_OUT_OF_MEMORY);
    assert_eq!(program.compile(&[]), hiprtcResult::HIPRTC_ERROR_OUT_OF_MEMORY);
    assert!(armed.fired() && program.compile(&[]).is_success());
}
