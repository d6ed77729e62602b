//! Functions of the C library and of libdrm that take the place of theirs. What does not concern the driver goes on to the next
//! library with the same name.
//!
//! `open` and `ioctl` take a variable number of arguments in C. On the machines that Rust supports here they arrive in the same
//! registers as fixed ones.

mod calls;
mod drm;
mod folder;
mod paths;

use std::ffi::{c_char, c_void, CStr};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the next library, looked up once.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address; null where no library has it.
    fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        // SAFETY: a name that ends in 0.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Calls the function of the same name in the next library.
macro_rules! next {
    ($name:literal as fn($($type:ty),*) -> $result:ty, $($argument:expr),*; or $failed:expr) => {{
        static NEXT: $crate::hooks::Next = $crate::hooks::Next::new($name);
        let found = NEXT.get();
        if found.is_null() {
            $crate::hooks::set_errno(libc::ENOSYS);
            $failed
        } else {
            // SAFETY: the C library's function of this name has this type.
            let function = unsafe { std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($type),*) -> $result>(found) };
            // SAFETY: the arguments are the caller's.
            unsafe { function($($argument),*) }
        }
    }};
}
pub(crate) use next;

/// Sets `errno`.
fn set_errno(code: i32) {
    // SAFETY: the C library's own place for it.
    unsafe { *libc::__errno_location() = code };
}

/// The bytes of a path.
///
/// # Safety
/// Null, or a string that ends in 0.
unsafe fn path_bytes<'a>(path: *const c_char) -> &'a [u8] {
    if path.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(path) }.to_bytes()
}
