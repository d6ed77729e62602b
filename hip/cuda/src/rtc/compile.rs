//! The compiler as one safe function, for build scripts and tools that have no device: source in, code out.

use crate::rtc_table;
use hip_abi::{hiprtcProgram, hiprtcResult, Hiprtc};
use std::ffi::{c_char, c_int, CString};
use std::ptr::null_mut;

/// What compiling came to.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Machine code where the architecture asked for was a real one (`sm_90`), PTX where it was virtual (`compute_90`).
    pub code: Vec<u8>,
    /// What nvrtc had to say besides; empty where nothing.
    pub log: String,
}

/// Why a program did not compile.
#[derive(Clone, Debug)]
pub struct CompileError {
    /// hipRTC's code for it.
    pub result: hiprtcResult,
    /// The compiler's log, or what else is to be said.
    pub log: String,
}

impl std::fmt::Display for CompileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.result)?;
        if !self.log.is_empty() {
            write!(f, ": {}", self.log)?;
        }
        Ok(())
    }
}

impl std::error::Error for CompileError {}

fn check(result: hiprtcResult) -> Result<(), CompileError> {
    if result.is_success() {
        return Ok(());
    }
    Err(CompileError { result, log: String::new() })
}

fn texts<'a>(list: impl IntoIterator<Item = &'a str>) -> Result<Vec<CString>, CompileError> {
    let invalid = |text: &str| CompileError {
        result: hiprtcResult::HIPRTC_ERROR_INVALID_INPUT,
        log: format!("there is a zero byte in {:?}...", text.chars().take(40).collect::<String>()),
    };
    list.into_iter().map(|text| CString::new(text).map_err(|_| invalid(text))).collect()
}

fn pointers(list: &[CString]) -> Vec<*const c_char> {
    list.iter().map(|text| text.as_ptr()).collect()
}

/// A program that goes when it is dropped.
struct Program(&'static Hiprtc, hiprtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program is ours, and created.
        unsafe { (self.0.hiprtcDestroyProgram)(&mut self.1) };
    }
}

/// Compiles a HIP source with nvrtc, on any machine that has it. `headers` are (name, text) pairs that the source may include;
/// `options` are hipRTC's, with `--offload-arch=sm_90` or the like among them unless the thread has a device.
pub fn compile(name: &str, source: &str, headers: &[(&str, &str)], options: &[&str]) -> Result<Compiled, CompileError> {
    let rtc = rtc_table()
        .map_err(|why| CompileError { result: hiprtcResult::HIPRTC_ERROR_INTERNAL_ERROR, log: why.to_string() })?;
    let named = texts([name, source])?;
    let header_names = texts(headers.iter().map(|header| header.0))?;
    let header_texts = texts(headers.iter().map(|header| header.1))?;
    let options = texts(options.iter().copied())?;
    let mut program = Program(rtc, hiprtcProgram(null_mut()));
    let (mut include_names, mut include_texts) = (pointers(&header_names), pointers(&header_texts));
    // SAFETY: every text lives to the end of this function and ends with a zero; the counts are those of the lists.
    check(unsafe {
        let (texts, names) = (include_texts.as_mut_ptr(), include_names.as_mut_ptr());
        (rtc.hiprtcCreateProgram)(
            &mut program.1,
            named[1].as_ptr(),
            named[0].as_ptr(),
            headers.len() as c_int,
            texts,
            names,
        )
    })?;
    let handle = program.1;
    // SAFETY: as above; the program is alive.
    let compiled =
        unsafe { (rtc.hiprtcCompileProgram)(handle, options.len() as c_int, pointers(&options).as_mut_ptr()) };
    let log = taken(handle, rtc.hiprtcGetProgramLogSize, rtc.hiprtcGetProgramLog)?;
    let log = String::from_utf8_lossy(&log).trim_end_matches('\0').trim_end().to_string();
    check(compiled).map_err(|error| CompileError { log: log.clone(), ..error })?;
    Ok(Compiled { code: taken(handle, rtc.hiprtcGetCodeSize, rtc.hiprtcGetCode)?, log })
}

type Size = unsafe extern "C" fn(hiprtcProgram, *mut usize) -> hiprtcResult;
type Fill = unsafe extern "C" fn(hiprtcProgram, *mut c_char) -> hiprtcResult;

/// What a pair of calls gives: first the size, then the bytes.
fn taken(program: hiprtcProgram, size: Size, fill: Fill) -> Result<Vec<u8>, CompileError> {
    let mut bytes = 0;
    // SAFETY: the program is alive, and `bytes` is ours to write.
    check(unsafe { size(program, &mut bytes) })?;
    let mut buffer = vec![0u8; bytes];
    // SAFETY: the buffer has the size that was asked for.
    check(unsafe { fill(program, buffer.as_mut_ptr().cast()) })?;
    Ok(buffer)
}
