//! `ioctl`, and the one command that a program of ROCm 5 runs.

use super::{next, path_bytes, set_errno};
use crate::ioctl;
use crate::state::{existing, Node};
use std::ffi::{c_char, c_int, c_ulong, c_void};

/// # Safety
/// As `ioctl` of the C library.
#[no_mangle]
pub unsafe extern "C" fn ioctl(descriptor: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // The driver's calls have the letter K, libdrm's a d; consoles use K too, so the file is looked at.
    if matches!(request >> 8 & 0xff, 0x4b | 0x64) {
        if let Some(state) = existing() {
            match state.node(descriptor) {
                Some(Node::Kfd) => {
                    // SAFETY: the program passes what the driver's call takes.
                    return match unsafe { ioctl::answer(state, request, argument) } {
                        Ok(()) => 0,
                        Err(code) => {
                            set_errno(code);
                            -1
                        }
                    };
                }
                Some(Node::Render) => {
                    set_errno(libc::EINVAL);
                    return -1;
                }
                None => {}
            }
        }
    }
    next!(c"ioctl" as fn(c_int, c_ulong, *mut c_void) -> c_int, descriptor, request, argument; or -1)
}

/// # Safety
/// As `popen` of the C library.
#[no_mangle]
pub unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // How rocminfo of ROCm 5 asks whether the driver is loaded.
    // SAFETY: a string of the caller.
    let asks = unsafe { path_bytes(command) } == b"lsmod | grep amdgpu" && crate::config::config().is_some();
    let command = if asks { c"echo amdgpu".as_ptr() } else { command };
    next!(c"popen" as fn(*const c_char, *const c_char) -> *mut libc::FILE, command, mode; or std::ptr::null_mut())
}
