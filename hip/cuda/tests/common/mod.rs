//! What the tests share: compiling a source with the tables, and starting the platform where there is one.
#![allow(dead_code, unused_imports, unused_macros)] // Each test file uses its part.

pub mod gpu;

use hip_abi::{hipError_t, hiprtcProgram, hiprtcResult, Hip, Hiprtc};
use std::ffi::{c_char, c_int, CString};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The compiler's table, or `None` with the reason printed where nvrtc is not installed.
pub fn compiler() -> Option<&'static Hiprtc> {
    hip_cuda::rtc_table().map_err(|why| eprintln!("skipped: {why}")).ok()
}

/// The platform's table where it has a device. Without the driver, or with a driver that finds no device, the reason is
/// printed; that the table says so properly is checked on the way.
///
/// The second part keeps other tests waiting: while a stream is captured nobody may wait for the whole device.
pub fn platform() -> Option<(&'static Hip, MutexGuard<'static, ()>)> {
    static ALONE: Mutex<()> = Mutex::new(());
    let hip = hip_cuda::table().map_err(|why| eprintln!("skipped: {why}")).ok()?;
    let mut count: c_int = -1;
    // SAFETY: the pointer is to a variable of ours.
    let status = unsafe { (hip.hipGetDeviceCount)(&mut count) };
    if status == hipError_t::hipSuccess {
        assert!(count > 0);
        return Some((hip, ALONE.lock().unwrap_or_else(PoisonError::into_inner)));
    }
    assert_eq!(count, 0, "a failed count is zero");
    // SAFETY: asks for nothing but the status.
    assert_ne!(unsafe { (hip.hipSetDevice)(0) }, hipError_t::hipSuccess, "no device can be set");
    eprintln!("skipped: the driver loads but reports {status}");
    None
}

/// Compiles a source: the code and the log, or the code's status and the log.
pub fn compile(
    rtc: &Hiprtc,
    source: &str,
    headers: &[(&str, &str)],
    options: &[&str],
) -> Result<(Vec<u8>, String), (hiprtcResult, String)> {
    let owned = |text: &str| CString::new(text).expect("no zero byte in a test's text");
    let source = owned(source);
    let texts: Vec<CString> = headers.iter().map(|(_, text)| owned(text)).collect();
    let names: Vec<CString> = headers.iter().map(|(name, _)| owned(name)).collect();
    let options: Vec<CString> = options.iter().map(|option| owned(option)).collect();
    let pointers = |list: &[CString]| list.iter().map(|text| text.as_ptr()).collect::<Vec<*const c_char>>();
    let (mut texts_at, mut names_at, mut options_at) = (pointers(&texts), pointers(&names), pointers(&options));
    let mut program = hiprtcProgram(null_mut());
    // SAFETY: every pointer is to something that lives to the end of this function, and sizes come from nvrtc itself.
    unsafe {
        let created = (rtc.hiprtcCreateProgram)(
            &mut program,
            source.as_ptr(),
            c"test.hip".as_ptr(),
            headers.len() as c_int,
            texts_at.as_mut_ptr(),
            names_at.as_mut_ptr(),
        );
        assert!(created.is_success(), "{created}");
        let compiled = (rtc.hiprtcCompileProgram)(program, options.len() as c_int, options_at.as_mut_ptr());
        let mut bytes = 0;
        assert!((rtc.hiprtcGetProgramLogSize)(program, &mut bytes).is_success());
        let mut log = vec![0u8; bytes];
        assert!((rtc.hiprtcGetProgramLog)(program, log.as_mut_ptr().cast()).is_success());
        let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_string();
        let outcome = if compiled.is_success() {
            assert!((rtc.hiprtcGetCodeSize)(program, &mut bytes).is_success());
            let mut code = vec![0u8; bytes];
            assert!((rtc.hiprtcGetCode)(program, code.as_mut_ptr().cast()).is_success());
            Ok((code, log))
        } else {
            Err((compiled, log))
        };
        assert!((rtc.hiprtcDestroyProgram)(&mut program).is_success());
        outcome
    }
}
