//! The part of nvrtc that this crate calls, with the C signatures of NVIDIA's `nvrtc.h`. Its programs and result codes are
//! hipRTC's own types: HIP took both over.

use hip_abi::{hiprtcProgram as nvrtcProgram, hiprtcResult as nvrtcResult, library};
use std::ffi::{c_char, c_int};

library! {
    /// The CUDA run-time compiler (`libnvrtc`).
    pub struct Nvrtc in ["nvrtc"] versions [13, 12, 11] {
        fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> nvrtcResult;
        fn nvrtcCreateProgram(program: *mut nvrtcProgram, source: *const c_char, name: *const c_char, header_count: c_int, headers: *const *const c_char, include_names: *const *const c_char) -> nvrtcResult;
        fn nvrtcDestroyProgram(program: *mut nvrtcProgram) -> nvrtcResult;
        fn nvrtcAddNameExpression(program: nvrtcProgram, expression: *const c_char) -> nvrtcResult;
        fn nvrtcGetLoweredName(program: nvrtcProgram, expression: *const c_char, lowered: *mut *const c_char) -> nvrtcResult;
        fn nvrtcCompileProgram(program: nvrtcProgram, option_count: c_int, options: *const *const c_char) -> nvrtcResult;
        fn nvrtcGetProgramLogSize(program: nvrtcProgram, bytes: *mut usize) -> nvrtcResult;
        fn nvrtcGetProgramLog(program: nvrtcProgram, log: *mut c_char) -> nvrtcResult;
        fn nvrtcGetCUBINSize(program: nvrtcProgram, bytes: *mut usize) -> nvrtcResult;
        fn nvrtcGetCUBIN(program: nvrtcProgram, code: *mut c_char) -> nvrtcResult;
        fn nvrtcGetPTXSize(program: nvrtcProgram, bytes: *mut usize) -> nvrtcResult;
        fn nvrtcGetPTX(program: nvrtcProgram, code: *mut c_char) -> nvrtcResult;
    }
}
