//! How this crate calls the table: one macro that turns a status code into an [`Error`] with the call's name and what
//! the caller was doing. The text is only built when the call fails.

use crate::error::Error;
use crate::platform::{Platform, PlatformKind};
use hip_abi::hipError_t;

/// Calls a function of the platform's table inside the caller's `unsafe` block. The last argument is a closure that
/// says what is being done, for the error.
macro_rules! call {
    ($platform:expr, $name:ident($($argument:expr),* $(,)?), $doing:expr) => {{
        let platform: &$crate::Platform = $platform;
        let code = (platform.0.hip.$name)($($argument),*);
        if code.is_success() {
            Ok(())
        } else {
            let doing = $doing;
            Err($crate::driver::failed(platform, code, stringify!($name), doing().into()))
        }
    }};
}
pub(crate) use call;

/// Builds the error of a failed call. The runtime's per-thread "last error" is cleared, because other libraries in the
/// process look at it and would report our failure as theirs.
#[cold]
pub(crate) fn failed(platform: &Platform, code: hipError_t, call: &'static str, doing: String) -> Error {
    // SAFETY: hipGetLastError takes nothing and cannot fail.
    unsafe { (platform.0.hip.hipGetLastError)() };
    let error = Error::hip(code, call, doing);
    let kernel_fault =
        [hipError_t::hipErrorIllegalAddress, hipError_t::hipErrorAssert, hipError_t::hipErrorLaunchFailure];
    if platform.kind() == PlatformKind::Host && kernel_fault.contains(&code) {
        if let Some(report) = hip_host::take_report() {
            return error.with_detail(report);
        }
    }
    error
}
