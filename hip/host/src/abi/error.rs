//! Names of errors and the last one. These calls cannot fail, and no fault is injected into them.

use super::LAST_ERROR;
use hip_abi::hipError_t;
use std::collections::HashMap;
use std::ffi::{c_char, CString};
use std::sync::OnceLock;

pub(super) unsafe extern "C" fn hipGetLastError() -> hipError_t {
    LAST_ERROR.replace(hipError_t::hipSuccess)
}

pub(super) unsafe extern "C" fn hipPeekAtLastError() -> hipError_t {
    LAST_ERROR.get()
}

pub(super) unsafe extern "C" fn hipGetErrorName(error: hipError_t) -> *const c_char {
    texts(error).map_or(c"hipErrorUnlisted".as_ptr(), |(name, _)| name.as_ptr())
}

pub(super) unsafe extern "C" fn hipGetErrorString(error: hipError_t) -> *const c_char {
    texts(error).map_or(c"a code that HIP does not have".as_ptr(), |(_, text)| text.as_ptr())
}

/// Name and explanation as C strings that live as long as the process.
fn texts(error: hipError_t) -> Option<&'static (CString, CString)> {
    static TEXTS: OnceLock<HashMap<u32, (CString, CString)>> = OnceLock::new();
    let c_string = |text: &str| CString::new(text).unwrap_or_default();
    let both = |error: &hipError_t| (error.0, (c_string(error.name()), c_string(error.explanation())));
    TEXTS.get_or_init(|| hipError_t::ALL.iter().map(both).collect()).get(&error.0)
}
