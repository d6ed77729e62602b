//! hipRTC over nvrtc. Programs are nvrtc's own; what differs is the spelling of options (`options.rs`), the code asked
//! for (machine code rather than PTX), and a small header that gives kernels the HIP names CUDA lacks.

mod compile;
mod nvrtc;
mod options;

use crate::{toolkit, Unavailable};
pub use compile::{compile, CompileError, Compiled};
use hip_abi::{hiprtcProgram, hiprtcResult, Hiprtc, Origin};
pub use nvrtc::Nvrtc;
use std::ffi::{c_char, c_int, CStr, CString};
use std::sync::OnceLock;

/// HIP names that CUDA lacks, put in front of every program.
const PRELUDE: &CStr = match CStr::from_bytes_with_nul(concat!(include_str!("prelude.h"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => panic!("the prelude holds a zero byte"),
};
const PRELUDE_NAME: &CStr = c"hip/hip_runtime.h";

static NVRTC: OnceLock<Result<Nvrtc, Unavailable>> = OnceLock::new();

/// Loads nvrtc, once.
pub(crate) fn load() -> Result<&'static Nvrtc, &'static Unavailable> {
    let loaded = NVRTC.get_or_init(|| {
        Nvrtc::load(&toolkit::search()).map_err(|error| Unavailable {
            what: "CUDA run-time compiler (libnvrtc)",
            tried: error.tried,
            advice: "Install CUDA 12 or 13, or set CUDA_HOME to the folder it is in",
        })
    });
    loaded.as_ref()
}

/// HIP's code for one of nvrtc's. The first twelve are the same; the rest is newer than HIP's list.
fn code(result: hiprtcResult) -> hiprtcResult {
    if result.0 <= hiprtcResult::HIPRTC_ERROR_INTERNAL_ERROR.0 {
        result
    } else {
        hiprtcResult::HIPRTC_ERROR_INTERNAL_ERROR
    }
}

/// `hiprtcName(arguments) |nvrtc| body;`: the body comes to a code of nvrtc's.
macro_rules! calls {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?) |$nvrtc:ident| $body:expr;)*) => {$(
        unsafe extern "C" fn $name($($argument: $type),*) -> hiprtcResult {
            let Ok($nvrtc) = load() else { return hiprtcResult::HIPRTC_ERROR_INTERNAL_ERROR };
            // SAFETY: the body passes the caller's arguments on to nvrtc, whose contract for them is hipRTC's; what it
            // reads through a pointer itself, it checks for null.
            code(unsafe { $body })
        }
    )*};
}

calls! {
    hiprtcVersion(major: *mut c_int, minor: *mut c_int) |nvrtc| (nvrtc.nvrtcVersion)(major, minor);
    hiprtcCreateProgram(
        program: *mut hiprtcProgram,
        source: *const c_char,
        name: *const c_char,
        header_count: c_int,
        headers: *mut *const c_char,
        include_names: *mut *const c_char,
    ) |nvrtc| {
        let Ok(count) = usize::try_from(header_count) else { return hiprtcResult::HIPRTC_ERROR_INVALID_INPUT };
        if source.is_null() || count > 0 && (headers.is_null() || include_names.is_null()) {
            return hiprtcResult::HIPRTC_ERROR_INVALID_INPUT;
        }
        let (mut texts, mut names) = (vec![PRELUDE.as_ptr()], vec![PRELUDE_NAME.as_ptr()]);
        for at in 0..count {
            let (text, include) = (*headers.add(at), *include_names.add(at));
            if text.is_null() || include.is_null() {
                return hiprtcResult::HIPRTC_ERROR_INVALID_INPUT;
            }
            // A caller's own text of that name takes the place of ours.
            if CStr::from_ptr(include) == PRELUDE_NAME {
                texts[0] = text;
                continue;
            }
            texts.push(text);
            names.push(include);
        }
        (nvrtc.nvrtcCreateProgram)(program, source, name, texts.len() as c_int, texts.as_ptr(), names.as_ptr())
    };
    hiprtcDestroyProgram(program: *mut hiprtcProgram) |nvrtc| (nvrtc.nvrtcDestroyProgram)(program);
    hiprtcAddNameExpression(program: hiprtcProgram, expression: *const c_char) |nvrtc|
        (nvrtc.nvrtcAddNameExpression)(program, expression);
    hiprtcGetLoweredName(program: hiprtcProgram, expression: *const c_char, lowered: *mut *const c_char) |nvrtc|
        (nvrtc.nvrtcGetLoweredName)(program, expression, lowered);
    hiprtcCompileProgram(program: hiprtcProgram, option_count: c_int, options: *mut *const c_char) |nvrtc| {
        let Ok(count) = usize::try_from(option_count) else { return hiprtcResult::HIPRTC_ERROR_INVALID_INPUT };
        if count > 0 && options.is_null() {
            return hiprtcResult::HIPRTC_ERROR_INVALID_INPUT;
        }
        let mut given = Vec::with_capacity(count);
        for at in 0..count {
            let option = *options.add(at);
            if option.is_null() {
                return hiprtcResult::HIPRTC_ERROR_INVALID_INPUT;
            }
            given.push(CStr::from_ptr(option).to_string_lossy().into_owned());
        }
        let translated = options::translate(&given, &options::Surroundings::here(nvrtc));
        // An option came from C, so none holds a zero byte.
        let owned: Vec<CString> = translated.into_iter().filter_map(|option| CString::new(option).ok()).collect();
        let pointers: Vec<*const c_char> = owned.iter().map(|option| option.as_ptr()).collect();
        (nvrtc.nvrtcCompileProgram)(program, pointers.len() as c_int, pointers.as_ptr())
    };
    hiprtcGetProgramLogSize(program: hiprtcProgram, bytes: *mut usize) |nvrtc|
        (nvrtc.nvrtcGetProgramLogSize)(program, bytes);
    hiprtcGetProgramLog(program: hiprtcProgram, log: *mut c_char) |nvrtc| (nvrtc.nvrtcGetProgramLog)(program, log);
    // Machine code where the architecture was a real one, PTX where it was virtual; the module loader takes either.
    hiprtcGetCodeSize(program: hiprtcProgram, bytes: *mut usize) |nvrtc| match machine_code_bytes(nvrtc, program) {
        0 => (nvrtc.nvrtcGetPTXSize)(program, bytes),
        _ => (nvrtc.nvrtcGetCUBINSize)(program, bytes),
    };
    hiprtcGetCode(program: hiprtcProgram, code: *mut c_char) |nvrtc| match machine_code_bytes(nvrtc, program) {
        0 => (nvrtc.nvrtcGetPTX)(program, code),
        _ => (nvrtc.nvrtcGetCUBIN)(program, code),
    };
}

/// How long a program's machine code is; zero where there is none.
fn machine_code_bytes(nvrtc: &Nvrtc, program: hiprtcProgram) -> usize {
    let mut bytes = 0;
    // SAFETY: the program is the caller's handle, and `bytes` is ours to write.
    let result = unsafe { (nvrtc.nvrtcGetCUBINSize)(program, &mut bytes) };
    if result.is_success() {
        bytes
    } else {
        0
    }
}

unsafe extern "C" fn hiprtcGetErrorString(result: hiprtcResult) -> *const c_char {
    /// The names as C strings, by number.
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    let last = hiprtcResult::HIPRTC_ERROR_INTERNAL_ERROR.0;
    let names = NAMES.get_or_init(|| {
        let all = (0..=last).map(|number| CString::new(hiprtcResult(number).name()).unwrap_or_default());
        all.collect()
    });
    names.get(result.0 as usize).map_or(c"HIPRTC_ERROR_UNLISTED".as_ptr(), |name| name.as_ptr())
}

/// The filled table.
pub(crate) fn filled() -> Hiprtc {
    Hiprtc {
        origin: Origin::BuiltIn("hipRTC on nvrtc"),
        hiprtcVersion,
        hiprtcGetErrorString,
        hiprtcCreateProgram,
        hiprtcDestroyProgram,
        hiprtcAddNameExpression,
        hiprtcGetLoweredName,
        hiprtcCompileProgram,
        hiprtcGetProgramLogSize,
        hiprtcGetProgramLog,
        hiprtcGetCodeSize,
        hiprtcGetCode,
    }
}
