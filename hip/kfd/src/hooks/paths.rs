//! Functions that take a path: opening, asking whether something is there, and what it is.

use super::{next, path_bytes, set_errno};
use crate::files::{may_be_ours, Entry};
use crate::log::log;
use crate::state::{memory_file, state, State};
use std::ffi::{c_char, c_int, c_void, CString};
use std::os::fd::IntoRawFd;

/// What of ours a path leads to.
///
/// # Safety
/// Null, or a string that ends in 0.
unsafe fn find(path: *const c_char) -> Option<(&'static State, Entry<'static>)> {
    // SAFETY: as the caller promises.
    let bytes = unsafe { path_bytes(path) };
    if !may_be_ours(bytes) {
        return None;
    }
    let state = state()?;
    let entry = state.tree.find(bytes);
    log!(4, "path {}{}", String::from_utf8_lossy(bytes), if entry.is_some() { "" } else { " is not ours" });
    Some((state, entry?))
}

/// A descriptor from which the text can be read.
fn readable(text: &CString) -> c_int {
    let bytes = text.as_bytes();
    let Ok(file) = memory_file("kfd text", 0) else {
        set_errno(libc::ENOMEM);
        return -1;
    };
    let descriptor = file.into_raw_fd();
    // SAFETY: the text and the descriptor are ours.
    unsafe {
        libc::write(descriptor, bytes.as_ptr().cast(), bytes.len());
        libc::lseek(descriptor, 0, libc::SEEK_SET);
    }
    descriptor
}

/// Opens what is ours: a descriptor or -1; `None` for all else.
///
/// # Safety
/// Null, or a string that ends in 0.
unsafe fn open_ours(path: *const c_char) -> Option<c_int> {
    // SAFETY: as the caller promises.
    let (state, entry) = unsafe { find(path) }?;
    Some(match entry {
        Entry::Device(node) => state.open(node),
        Entry::File(text) => readable(text),
        Entry::Folder(_) => {
            set_errno(libc::EISDIR);
            -1
        }
    })
}

macro_rules! open_hooks {
    ($($name:ident $text:literal),*) => {$(
        /// # Safety
        /// As in the C library.
        #[no_mangle]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
            // SAFETY: a string of the caller.
            if let Some(descriptor) = unsafe { open_ours(path) } {
                return descriptor;
            }
            next!($text as fn(*const c_char, c_int, libc::mode_t) -> c_int, path, flags, mode; or -1)
        }
    )*};
}
open_hooks!(open c"open", open64 c"open64", __open_2 c"__open_2", __open64_2 c"__open64_2");

macro_rules! openat_hooks {
    ($($name:ident $text:literal),*) => {$(
        /// # Safety
        /// As in the C library.
        #[no_mangle]
        pub unsafe extern "C" fn $name(folder: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
            // SAFETY: a string of the caller; whole paths do not depend on the folder.
            if let Some(descriptor) = unsafe { open_ours(path) } {
                return descriptor;
            }
            next!($text as fn(c_int, *const c_char, c_int, libc::mode_t) -> c_int, folder, path, flags, mode; or -1)
        }
    )*};
}
openat_hooks!(openat c"openat", openat64 c"openat64", __openat_2 c"__openat_2", __openat64_2 c"__openat64_2");

macro_rules! fopen_hooks {
    ($($name:ident $text:literal),*) => {$(
        /// # Safety
        /// As in the C library.
        #[no_mangle]
        pub unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
            // SAFETY: a string of the caller.
            if let Some(descriptor) = unsafe { open_ours(path) } {
                if descriptor < 0 {
                    return std::ptr::null_mut();
                }
                // SAFETY: a descriptor that nobody else has, and the mode of the caller.
                return unsafe { libc::fdopen(descriptor, mode) };
            }
            next!($text as fn(*const c_char, *const c_char) -> *mut libc::FILE, path, mode; or std::ptr::null_mut())
        }
    )*};
}
fopen_hooks!(fopen c"fopen", fopen64 c"fopen64");

/// # Safety
/// As in the C library.
#[no_mangle]
pub unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: a string of the caller.
    if unsafe { find(path) }.is_some() {
        return 0;
    }
    next!(c"access" as fn(*const c_char, c_int) -> c_int, path, mode; or -1)
}

/// # Safety
/// As in the C library.
#[no_mangle]
pub unsafe extern "C" fn faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    // SAFETY: a string of the caller.
    if unsafe { find(path) }.is_some() {
        return 0;
    }
    next!(c"faccessat" as fn(c_int, *const c_char, c_int, c_int) -> c_int, folder, path, mode, flags; or -1)
}

/// Describes what is ours.
///
/// # Safety
/// The path as for [`find`]; `stat` must point to a structure of the caller.
unsafe fn stat_ours(path: *const c_char, stat: *mut libc::stat) -> bool {
    // SAFETY: as the caller promises.
    let Some((_, entry)) = (unsafe { find(path) }) else { return false };
    // SAFETY: zeros are a valid stat.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    found.st_nlink = 1;
    match entry {
        Entry::Device(_) => (found.st_mode, found.st_rdev) = (libc::S_IFCHR | 0o666, libc::makedev(226, 128)),
        Entry::File(text) => (found.st_mode, found.st_size) = (libc::S_IFREG | 0o444, text.as_bytes().len() as i64),
        Entry::Folder(_) => found.st_mode = libc::S_IFDIR | 0o755,
    }
    // SAFETY: as the caller promises.
    unsafe { *stat = found };
    true
}

macro_rules! stat_hooks {
    ($($name:ident $text:literal),*) => {$(
        /// # Safety
        /// As in the C library.
        #[no_mangle]
        pub unsafe extern "C" fn $name(path: *const c_char, stat: *mut libc::stat) -> c_int {
            // SAFETY: the caller's own.
            if unsafe { stat_ours(path, stat) } {
                return 0;
            }
            next!($text as fn(*const c_char, *mut libc::stat) -> c_int, path, stat; or -1)
        }
    )*};
}
stat_hooks!(stat c"stat", stat64 c"stat64", lstat c"lstat", lstat64 c"lstat64");

macro_rules! old_stat_hooks {
    ($($name:ident $text:literal),*) => {$(
        /// # Safety
        /// As in the C library, for programs that were built with an old one.
        #[no_mangle]
        pub unsafe extern "C" fn $name(version: c_int, path: *const c_char, stat: *mut libc::stat) -> c_int {
            // SAFETY: the caller's own.
            if unsafe { stat_ours(path, stat) } {
                return 0;
            }
            next!($text as fn(c_int, *const c_char, *mut c_void) -> c_int, version, path, stat.cast(); or -1)
        }
    )*};
}
old_stat_hooks!(__xstat c"__xstat", __xstat64 c"__xstat64", __lxstat c"__lxstat", __lxstat64 c"__lxstat64");

macro_rules! stat_at_hooks {
    ($($name:ident $text:literal),*) => {$(
        /// # Safety
        /// As in the C library.
        #[no_mangle]
        pub unsafe extern "C" fn $name(folder: c_int, path: *const c_char, stat: *mut libc::stat, flags: c_int) -> c_int {
            // SAFETY: the caller's own; whole paths do not depend on the folder.
            if unsafe { stat_ours(path, stat) } {
                return 0;
            }
            next!($text as fn(c_int, *const c_char, *mut libc::stat, c_int) -> c_int, folder, path, stat, flags; or -1)
        }
    )*};
}
stat_at_hooks!(fstatat c"fstatat", fstatat64 c"fstatat64");

/// # Safety
/// As in the C library. This is what Rust's own library calls.
#[no_mangle]
pub unsafe extern "C" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: libc::c_uint,
    target: *mut libc::statx,
) -> c_int {
    // SAFETY: zeros are a valid stat.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a string of the caller.
    if unsafe { stat_ours(path, &mut found) } {
        // SAFETY: zeros are a valid structure.
        let mut result: libc::statx = unsafe { std::mem::zeroed() };
        result.stx_mask = libc::STATX_BASIC_STATS;
        result.stx_mode = found.st_mode as u16;
        result.stx_nlink = 1;
        result.stx_size = found.st_size as u64;
        (result.stx_rdev_major, result.stx_rdev_minor) = (libc::major(found.st_rdev), libc::minor(found.st_rdev));
        // SAFETY: the caller's own.
        unsafe { *target = result };
        return 0;
    }
    next!(c"statx" as fn(c_int, *const c_char, c_int, libc::c_uint, *mut libc::statx) -> c_int,
        folder, path, flags, mask, target; or -1)
}
