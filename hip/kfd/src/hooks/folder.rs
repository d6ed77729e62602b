//! Reading the driver's folders. A `DIR` of ours is an object of our own; all others go to the C library.

use super::{next, path_bytes, set_errno};
use crate::files::{may_be_ours, Entry};
use crate::state::state;
use std::ffi::{c_char, c_int, CStr, CString};
use std::sync::{Mutex, PoisonError};

/// An open folder.
struct Folder {
    names: &'static [(CString, bool)],
    next: usize,
    entry: libc::dirent64,
}

/// Addresses of open folders: how a `DIR` of ours is told from others.
static OPEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// How many there are: a program with none pays one load.
static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

fn is_ours(folder: *mut libc::DIR) -> bool {
    COUNT.load(std::sync::atomic::Ordering::Acquire) != 0
        && OPEN.lock().unwrap_or_else(PoisonError::into_inner).contains(&(folder as usize))
}

/// # Safety
/// As in the C library.
#[no_mangle]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut libc::DIR {
    // SAFETY: a string of the caller.
    let bytes = unsafe { path_bytes(path) };
    if may_be_ours(bytes) {
        if let Some(Entry::Folder(names)) = state().and_then(|state| state.tree.find(bytes)) {
            // SAFETY: zeros are a valid entry.
            let folder = Box::new(Folder { names, next: 0, entry: unsafe { std::mem::zeroed() } });
            let folder = Box::into_raw(folder);
            OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(folder as usize);
            COUNT.fetch_add(1, std::sync::atomic::Ordering::Release);
            return folder.cast();
        }
    }
    next!(c"opendir" as fn(*const c_char) -> *mut libc::DIR, path; or std::ptr::null_mut())
}

/// # Safety
/// `folder` must be one of ours.
unsafe fn read(folder: *mut libc::DIR) -> *mut libc::dirent64 {
    // SAFETY: as the caller promises; a folder is read by one thread at a time.
    let folder = unsafe { &mut *folder.cast::<Folder>() };
    let (name, is_folder): (&CStr, bool) = match folder.next {
        0 => (c".", true),
        1 => (c"..", true),
        n => match folder.names.get(n - 2) {
            Some((name, is_folder)) => (name, *is_folder),
            None => return std::ptr::null_mut(),
        },
    };
    folder.next += 1;
    folder.entry.d_ino = folder.next as u64;
    folder.entry.d_reclen = size_of::<libc::dirent64>() as u16;
    folder.entry.d_type = if is_folder { libc::DT_DIR } else { libc::DT_REG };
    for (target, &byte) in folder.entry.d_name.iter_mut().zip(name.to_bytes_with_nul()) {
        *target = byte as c_char;
    }
    &mut folder.entry
}

/// # Safety
/// As in the C library.
#[no_mangle]
pub unsafe extern "C" fn readdir(folder: *mut libc::DIR) -> *mut libc::dirent64 {
    if is_ours(folder) {
        // SAFETY: just seen.
        return unsafe { read(folder) };
    }
    next!(c"readdir" as fn(*mut libc::DIR) -> *mut libc::dirent64, folder; or std::ptr::null_mut())
}

/// # Safety
/// As in the C library; on 64-bit machines both structures are the same.
#[no_mangle]
pub unsafe extern "C" fn readdir64(folder: *mut libc::DIR) -> *mut libc::dirent64 {
    // SAFETY: the caller's folder.
    unsafe { readdir(folder) }
}

/// # Safety
/// As in the C library.
#[no_mangle]
pub unsafe extern "C" fn closedir(folder: *mut libc::DIR) -> c_int {
    if is_ours(folder) {
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|&open| open != folder as usize);
        COUNT.fetch_sub(1, std::sync::atomic::Ordering::Release);
        // SAFETY: made by `opendir` above, and no longer listed.
        drop(unsafe { Box::from_raw(folder.cast::<Folder>()) });
        return 0;
    }
    if folder.is_null() {
        set_errno(libc::EBADF);
        return -1;
    }
    next!(c"closedir" as fn(*mut libc::DIR) -> c_int, folder; or -1)
}
