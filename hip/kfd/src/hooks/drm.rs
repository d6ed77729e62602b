//! Functions of libdrm that AMD's runtime calls to learn a GPU's name and clock. With these, the render node need not be a device.

use crate::state::{state, Gpu, Node};
use std::ffi::{c_char, c_int, c_void, CString};
use std::sync::OnceLock;

/// Bytes of `amdgpu_gpu_info`, and the places in it that the runtime reads.
const INFO_BYTES: usize = 416;
const INFO_FAMILY: usize = 12;
const INFO_CLOCK_KHZ: usize = 72;

/// The clock of the time stamps, in kHz, for whoever asks libdrm and not the driver.
const CLOCK_KHZ: u32 = 100_000;

/// A descriptor remembers its GPU by its number: all render nodes are the same file.
fn gpu(handle: *mut c_void) -> Option<&'static Gpu> {
    state()?.gpus.get((handle as usize).checked_sub(1)?)
}

/// # Safety
/// As in libdrm.
#[no_mangle]
pub unsafe extern "C" fn drmOpenRender(minor: c_int) -> c_int {
    match state() {
        Some(state) if state.gpus.iter().any(|gpu| gpu.minor as c_int == minor) => {
            LAST_MINOR.store(minor, std::sync::atomic::Ordering::Relaxed);
            state.open(Node::Render)
        }
        _ => super::next!(c"drmOpenRender" as fn(c_int) -> c_int, minor; or -1),
    }
}

/// The node that was opened last: `amdgpu_device_initialize` follows and has only the descriptor.
static LAST_MINOR: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(128);

/// # Safety
/// As in libdrm.
#[no_mangle]
pub unsafe extern "C" fn drmClose(descriptor: c_int) -> c_int {
    // SAFETY: the caller's descriptor.
    unsafe { libc::close(descriptor) }
}

/// # Safety
/// As in libdrm.
#[no_mangle]
pub unsafe extern "C" fn amdgpu_device_initialize(
    descriptor: c_int,
    major: *mut u32,
    minor: *mut u32,
    handle: *mut *mut c_void,
) -> c_int {
    let ours = state().is_some_and(|state| state.node(descriptor) == Some(Node::Render));
    if !ours {
        return super::next!(
            c"amdgpu_device_initialize" as fn(c_int, *mut u32, *mut u32, *mut *mut c_void) -> c_int,
            descriptor, major, minor, handle; or -libc::EINVAL);
    }
    let index = (LAST_MINOR.load(std::sync::atomic::Ordering::Relaxed) - 128).max(0) as usize;
    // SAFETY: the caller passes places for these.
    unsafe {
        (*major, *minor) = (3, 49);
        *handle = (index + 1) as *mut c_void;
    }
    0
}

/// # Safety
/// As in libdrm.
#[no_mangle]
pub unsafe extern "C" fn amdgpu_device_deinitialize(handle: *mut c_void) -> c_int {
    match gpu(handle) {
        Some(_) => 0,
        None => super::next!(c"amdgpu_device_deinitialize" as fn(*mut c_void) -> c_int, handle; or -libc::EINVAL),
    }
}

/// # Safety
/// As in libdrm.
#[no_mangle]
pub unsafe extern "C" fn amdgpu_get_marketing_name(handle: *mut c_void) -> *const c_char {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    let (Some(state), Some(_)) = (state(), gpu(handle)) else {
        return super::next!(c"amdgpu_get_marketing_name" as fn(*mut c_void) -> *const c_char, handle; or std::ptr::null());
    };
    let names =
        NAMES.get_or_init(|| state.gpus.iter().map(|gpu| CString::new(gpu.card.name).unwrap_or_default()).collect());
    names.get(handle as usize - 1).map_or(std::ptr::null(), |name| name.as_ptr())
}

/// # Safety
/// As in libdrm.
#[no_mangle]
pub unsafe extern "C" fn amdgpu_query_gpu_info(handle: *mut c_void, info: *mut u8) -> c_int {
    let Some(gpu) = gpu(handle) else {
        return super::next!(
            c"amdgpu_query_gpu_info" as fn(*mut c_void, *mut u8) -> c_int, handle, info; or -libc::EINVAL);
    };
    // SAFETY: the caller's structure has that many bytes.
    let info = unsafe { std::slice::from_raw_parts_mut(info, INFO_BYTES) };
    info.fill(0);
    info[INFO_FAMILY..INFO_FAMILY + 4].copy_from_slice(&gpu.card.family.to_le_bytes());
    info[INFO_CLOCK_KHZ..INFO_CLOCK_KHZ + 4].copy_from_slice(&CLOCK_KHZ.to_le_bytes());
    0
}

/// # Safety
/// As in libdrm.
#[no_mangle]
pub unsafe extern "C" fn amdgpu_device_get_fd(handle: *mut c_void) -> c_int {
    static RENDER: OnceLock<c_int> = OnceLock::new();
    if gpu(handle).is_none() {
        return super::next!(c"amdgpu_device_get_fd" as fn(*mut c_void) -> c_int, handle; or -1);
    }
    *RENDER.get_or_init(|| state().map_or(-1, |state| state.open(Node::Render)))
}
