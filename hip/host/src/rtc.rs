//! hipRTC on the embedded device: programs, their options and logs, over `compile`. Code is made for this very
//! processor (`-march=native`), since it runs where it is compiled, and checked when the device is; or for an AMD GPU, where one is
//! emulated here and asked for by its architecture.

use crate::compile::{compile, CompileFailure, CompileRequest, Object};
use crate::handles::Handles;
use crate::{config, inject};
use hip_abi::{hiprtcProgram, hiprtcResult, Hiprtc, Origin};
use std::collections::HashMap;
use std::ffi::{c_char, c_int, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

type Outcome<T = ()> = Result<T, hiprtcResult>;

struct Program {
    name: String,
    source: String,
    headers: Vec<(String, String)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    expressions: Vec<String>,
    /// What came of the last compilation; `None` before the first.
    compiled: Option<Compiled>,
}

struct Compiled {
    image: Vec<u8>,
    /// Callers keep pointers to these until the program is destroyed.
    lowered: HashMap<String, CString>,
    log: String,
    succeeded: bool,
}

static PROGRAMS: Handles<Program> = Handles::new(0x59);

fn resolve(program: hiprtcProgram) -> Outcome<Arc<Program>> {
    PROGRAMS.get(program.0).ok_or(hiprtcResult::HIPRTC_ERROR_INVALID_PROGRAM)
}

impl Program {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcome of a compilation that succeeded.
    fn code<T>(&self, read: impl FnOnce(&Compiled) -> T) -> Outcome<T> {
        let state = self.state();
        let compiled = state.compiled.as_ref().filter(|compiled| compiled.succeeded);
        Ok(read(compiled.ok_or(hiprtcResult::HIPRTC_ERROR_INVALID_PROGRAM)?))
    }

    fn compile(&self, options: &[String]) -> Outcome {
        let mut state = self.state();
        let mut words: Vec<&str> = options.iter().map(String::as_str).collect();
        let emulated = emulated_arch(&words)?;
        if emulated.is_none() && std::env::var_os("HIP_HOST_MARCH").is_none() {
            // First, so that an option of the caller's counts more.
            words.insert(0, "-march=native");
        }
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let expressions: Vec<&str> = state.expressions.iter().map(String::as_str).collect();
        let request = CompileRequest {
            name: &self.name,
            source: &self.source,
            headers: &headers,
            options: &words,
            checked: wants_checks(&words)?,
            name_expressions: &expressions,
        };
        let made = match &emulated {
            None => compile(&request),
            #[cfg(feature = "emulator")]
            Some(arch) => crate::compile::amd::compile(&request, arch),
            #[cfg(not(feature = "emulator"))]
            Some(_) => return Err(hiprtcResult::HIPRTC_ERROR_INVALID_OPTION),
        };
        let (compiled, outcome) = match made {
            Ok(Object { image, lowered, log, .. }) => {
                let named =
                    lowered.into_iter().filter_map(|(expression, name)| Some((expression, CString::new(name).ok()?)));
                (Compiled { image, lowered: named.collect(), log, succeeded: true }, Ok(()))
            }
            Err(error) => {
                let code = match error.reason {
                    CompileFailure::Source | CompileFailure::Compiler => hiprtcResult::HIPRTC_ERROR_COMPILATION,
                    CompileFailure::Request => hiprtcResult::HIPRTC_ERROR_INVALID_OPTION,
                    CompileFailure::Files => hiprtcResult::HIPRTC_ERROR_INTERNAL_ERROR,
                };
                let log = if error.log.is_empty() { error.message } else { error.log };
                (Compiled { image: Vec::new(), lowered: HashMap::new(), log, succeeded: false }, Err(code))
            }
        };
        state.compiled = Some(compiled);
        outcome
    }
}

/// The architecture that the options name.
fn named_arch<'a>(options: &[&'a str]) -> Option<&'a str> {
    let names = ["--offload-arch", "--gpu-architecture"];
    options.iter().enumerate().rev().find_map(|(n, word)| {
        let rest = names.iter().find_map(|name| word.strip_prefix(name))?;
        match rest.strip_prefix('=') {
            Some(arch) => Some(arch),
            None => options.get(n + 1).copied().filter(|_| rest.is_empty()),
        }
    })
}

fn configured() -> Outcome<&'static config::Options> {
    config::options().map_err(|why| {
        log::error!("hiprtcCompileProgram: {why}");
        hiprtcResult::HIPRTC_ERROR_INTERNAL_ERROR
    })
}

/// The architecture to compile for, where it is that of an emulated device of this process: the one among the options, or else
/// that of the thread's current device. Other GPUs are none of ours, and get code for the processor, as ever.
fn emulated_arch(options: &[&str]) -> Outcome<Option<String>> {
    let devices = &configured()?.targets;
    match named_arch(options) {
        Some(name) => {
            let base = name.split(':').next().unwrap_or_default();
            let known = devices.iter().any(|target| target.is_emulated() && target.to_string() == base);
            Ok(known.then(|| name.to_owned()))
        }
        None if devices.iter().any(|target| target.is_emulated()) => {
            let device = crate::device::current().map_err(|_| hiprtcResult::HIPRTC_ERROR_INTERNAL_ERROR)?;
            Ok(device.target.is_emulated().then(|| device.arch().to_owned()))
        }
        None => Ok(None),
    }
}

/// The architecture among the options decides (`host:checked+`), else the device as it is configured.
fn wants_checks(options: &[&str]) -> Outcome<bool> {
    match named_arch(options) {
        Some(name) if name == "host" || name.starts_with("host:") => Ok(name.contains("checked+")),
        _ => Ok(configured()?.checked),
    }
}

/// # Safety
/// `text` is null or a C string.
unsafe fn owned(text: *const c_char) -> Outcome<String> {
    if text.is_null() {
        return Err(hiprtcResult::HIPRTC_ERROR_INVALID_INPUT);
    }
    // SAFETY: not null, and the caller's promise.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// # Safety
/// `list` is null or points to `count` C strings.
unsafe fn owned_list(list: *mut *const c_char, count: c_int) -> Outcome<Vec<String>> {
    let count = usize::try_from(count).map_err(|_| hiprtcResult::HIPRTC_ERROR_INVALID_INPUT)?;
    if count > 0 && list.is_null() {
        return Err(hiprtcResult::HIPRTC_ERROR_INVALID_INPUT);
    }
    // SAFETY: the caller's promise, for each of them.
    (0..count).map(|i| unsafe { owned(*list.add(i)) }).collect()
}

/// # Safety
/// `pointer` is null or may be written to.
unsafe fn put<T>(pointer: *mut T, value: T) -> Outcome {
    if pointer.is_null() {
        return Err(hiprtcResult::HIPRTC_ERROR_INVALID_INPUT);
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { pointer.write(value) };
    Ok(())
}

/// # Safety
/// `into` is null or has room for the bytes, and for a zero behind them where `text` says so.
unsafe fn put_bytes(into: *mut c_char, bytes: &[u8], text: bool) -> Outcome {
    if into.is_null() {
        return Err(hiprtcResult::HIPRTC_ERROR_INVALID_INPUT);
    }
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), into.cast(), bytes.len());
        if text {
            into.add(bytes.len()).write(0);
        }
    }
    Ok(())
}

/// Runs one call: injected faults and panics are dealt with here and nowhere else.
fn call(name: &'static str, body: impl FnOnce() -> Outcome) -> hiprtcResult {
    let injected = inject::check(name).map(hiprtcResult);
    if let Some(failure) = injected.filter(|_| !inject::releases(name)) {
        return failure;
    }
    let done = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        log::error!("{name} panicked inside the embedded device; this is a defect of hip-host");
        Err(hiprtcResult::HIPRTC_ERROR_INTERNAL_ERROR)
    });
    injected.unwrap_or_else(|| done.err().unwrap_or(hiprtcResult::HIPRTC_SUCCESS))
}

macro_rules! rtc_functions {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        #[allow(unused_unsafe)] // some bodies only read numbers
        unsafe extern "C" fn $name($($arg: $type),*) -> hiprtcResult {
            // SAFETY: hipRTC's contract with its caller: a pointer is null (which the body refuses) or points to what the
            // signature says. Handles are looked up, never followed.
            call(stringify!($name), || -> Outcome { unsafe { $body } })
        }
    )*};
}

rtc_functions! {
    fn hiprtcVersion(major: *mut c_int, minor: *mut c_int) {
        put(major, 9)?;
        put(minor, 0)
    }

    fn hiprtcCreateProgram(
        program: *mut hiprtcProgram,
        source: *const c_char,
        name: *const c_char,
        header_count: c_int,
        headers: *mut *const c_char,
        include_names: *mut *const c_char,
    ) {
        let source = owned(source)?;
        // A program may go without a name, as in hipRTC.
        let name = if name.is_null() { "program.hip".to_owned() } else { owned(name)? };
        let texts = owned_list(headers, header_count)?;
        let names = owned_list(include_names, header_count)?;
        let made = Program { name, source, headers: names.into_iter().zip(texts).collect(), state: Mutex::default() };
        if program.is_null() {
            return Err(hiprtcResult::HIPRTC_ERROR_INVALID_INPUT);
        }
        put(program, hiprtcProgram(PROGRAMS.insert(Arc::new(made))))
    }

    fn hiprtcDestroyProgram(program: *mut hiprtcProgram) {
        if program.is_null() {
            return Err(hiprtcResult::HIPRTC_ERROR_INVALID_INPUT);
        }
        PROGRAMS.remove((*program).0).ok_or(hiprtcResult::HIPRTC_ERROR_INVALID_PROGRAM)?;
        put(program, hiprtcProgram(std::ptr::null_mut()))
    }

    fn hiprtcAddNameExpression(program: hiprtcProgram, expression: *const c_char) {
        let program = resolve(program)?;
        let expression = owned(expression)?;
        let mut state = program.state();
        if state.compiled.is_some() {
            return Err(hiprtcResult::HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION);
        }
        if expression.trim().is_empty() {
            return Err(hiprtcResult::HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID);
        }
        state.expressions.push(expression);
        Ok(())
    }

    fn hiprtcGetLoweredName(program: hiprtcProgram, expression: *const c_char, lowered: *mut *const c_char) {
        let program = resolve(program)?;
        let expression = owned(expression)?;
        let state = program.state();
        let compiled = state.compiled.as_ref().ok_or(hiprtcResult::HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION)?;
        let name = compiled.lowered.get(&expression).ok_or(hiprtcResult::HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID)?;
        put(lowered, name.as_ptr())
    }

    fn hiprtcCompileProgram(program: hiprtcProgram, option_count: c_int, options: *mut *const c_char) {
        resolve(program)?.compile(&owned_list(options, option_count)?)
    }

    fn hiprtcGetProgramLogSize(program: hiprtcProgram, bytes: *mut usize) {
        let program = resolve(program)?;
        let state = program.state();
        put(bytes, state.compiled.as_ref().map_or(0, |compiled| compiled.log.len()) + 1)
    }

    fn hiprtcGetProgramLog(program: hiprtcProgram, log: *mut c_char) {
        let program = resolve(program)?;
        let state = program.state();
        put_bytes(log, state.compiled.as_ref().map_or(&[], |compiled| compiled.log.as_bytes()), true)
    }

    fn hiprtcGetCodeSize(program: hiprtcProgram, bytes: *mut usize) {
        put(bytes, resolve(program)?.code(|compiled| compiled.image.len())?)
    }

    fn hiprtcGetCode(program: hiprtcProgram, code: *mut c_char) {
        resolve(program)?.code(|compiled| put_bytes(code, &compiled.image, false))?
    }
}

unsafe extern "C" fn hiprtcGetErrorString(result: hiprtcResult) -> *const c_char {
    // Asked for rarely; each name is turned into a C string once and kept.
    static NAMES: OnceLock<Mutex<HashMap<u32, CString>>> = OnceLock::new();
    let mut names = NAMES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let key = if result.name() == "HIPRTC_ERROR_UNLISTED" { u32::MAX } else { result.0 };
    names.entry(key).or_insert_with(|| CString::new(result.name()).unwrap_or_default()).as_ptr()
}

/// The run-time compiler of the embedded device as a table of hipRTC's functions.
pub fn rtc_table() -> &'static Hiprtc {
    static TABLE: Hiprtc = Hiprtc {
        origin: Origin::BuiltIn("the embedded device's compiler"),
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
    };
    &TABLE
}

#[cfg(test)]
mod tests;
