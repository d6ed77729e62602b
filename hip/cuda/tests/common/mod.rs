//! What the tests share: starting the compiler and the platform where there are any.
#![allow(dead_code, unused_imports, unused_macros)] // Each test file uses its part.

pub mod gpu;

use hip_abi::{hipError_t, Hip, Hiprtc};
use std::ffi::c_int;
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
