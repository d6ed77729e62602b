//! The table of hipRTC, AMD's compiler as a library. It is part of `libamdhip64` before ROCm 7 and a library of its own
//! (`libhiprtc`) since; ROCm 6 ships both.

use crate::{handles, library};
use std::ffi::{c_char, c_int};

handles! {
    /// A program being compiled.
    hiprtcProgram;
}

/// A status code of hipRTC; zero is success.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct hiprtcResult(pub u32);

macro_rules! results {
    ($($name:ident = $code:literal;)*) => {
        #[allow(missing_docs)]
        impl hiprtcResult {
            $(pub const $name: Self = Self($code);)*

            /// hipRTC's name of this code.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($code => stringify!($name),)*
                    _ => "HIPRTC_ERROR_UNLISTED",
                }
            }

            /// True for `HIPRTC_SUCCESS`.
            pub const fn is_success(self) -> bool {
                self.0 == 0
            }
        }
    };
}

results! {
    HIPRTC_SUCCESS = 0;
    HIPRTC_ERROR_OUT_OF_MEMORY = 1;
    HIPRTC_ERROR_PROGRAM_CREATION_FAILURE = 2;
    HIPRTC_ERROR_INVALID_INPUT = 3;
    HIPRTC_ERROR_INVALID_PROGRAM = 4;
    HIPRTC_ERROR_INVALID_OPTION = 5;
    HIPRTC_ERROR_COMPILATION = 6;
    HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7;
    HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION = 8;
    HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION = 9;
    HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10;
    HIPRTC_ERROR_INTERNAL_ERROR = 11;
}

impl std::fmt::Debug for hiprtcResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl std::fmt::Display for hiprtcResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

library! {
    /// hipRTC, the run-time compiler.
    pub struct Hiprtc in ["hiprtc", "amdhip64"] versions [7, 6, 5] {
        fn hiprtcVersion(major: *mut c_int, minor: *mut c_int) -> hiprtcResult;
        fn hiprtcGetErrorString(result: hiprtcResult) -> *const c_char;
        fn hiprtcCreateProgram(program: *mut hiprtcProgram, source: *const c_char, name: *const c_char, header_count: c_int, headers: *mut *const c_char, include_names: *mut *const c_char) -> hiprtcResult;
        fn hiprtcDestroyProgram(program: *mut hiprtcProgram) -> hiprtcResult;
        fn hiprtcAddNameExpression(program: hiprtcProgram, expression: *const c_char) -> hiprtcResult;
        fn hiprtcGetLoweredName(program: hiprtcProgram, expression: *const c_char, lowered: *mut *const c_char) -> hiprtcResult;
        fn hiprtcCompileProgram(program: hiprtcProgram, option_count: c_int, options: *mut *const c_char) -> hiprtcResult;
        fn hiprtcGetProgramLogSize(program: hiprtcProgram, bytes: *mut usize) -> hiprtcResult;
        fn hiprtcGetProgramLog(program: hiprtcProgram, log: *mut c_char) -> hiprtcResult;
        fn hiprtcGetCodeSize(program: hiprtcProgram, bytes: *mut usize) -> hiprtcResult;
        fn hiprtcGetCode(program: hiprtcProgram, code: *mut c_char) -> hiprtcResult;
    }
}
