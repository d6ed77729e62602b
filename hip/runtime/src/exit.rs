//! What is still there when the process ends. Rust does not drop what statics hold, such as a program's device, and AMD's runtime
//! then warns of signals that were never given back. So the streams and events of AMD's platform are listed here, and those that
//! are left are closed before AMD's own end.

use crate::dispose::Resource;
use crate::platform::{Platform, PlatformKind};
use hip_abi::{hipEvent_t, hipStream_t, Hip};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// A handle that is open, and the table that closes it.
#[derive(Clone, Copy)]
enum Open {
    Stream(&'static Hip, hipStream_t),
    Event(&'static Hip, hipEvent_t),
}

// SAFETY: handles are names that any thread may use.
unsafe impl Send for Open {}

static OPEN: Mutex<Option<HashMap<usize, Open>>> = Mutex::new(None);
static ENDING: AtomicBool = AtomicBool::new(false);

fn open<R>(use_it: impl FnOnce(&mut HashMap<usize, Open>) -> R) -> R {
    use_it(OPEN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// A stream or an event was made.
pub(crate) fn made(platform: &Platform, resource: Resource) {
    if platform.kind() != PlatformKind::Amd {
        return;
    }
    let table = platform.table();
    let (key, handle) = match resource {
        Resource::Stream(stream) => (stream.0 as usize, Open::Stream(table, stream)),
        Resource::Event(event) => (event.0 as usize, Open::Event(table, event)),
        _ => return,
    };
    // After AMD's runtime has started, so that this runs before its own end.
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| {
        STARTED_BY.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: a function without arguments, which lives as long as the program.
        unsafe { libc::atexit(close_all) };
    });
    open(|all| all.insert(key, handle));
}

static STARTED_BY: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Something is about to be given back. False when the end of the process has done so already.
pub(crate) fn still_open(platform: &Platform, resource: Resource) -> bool {
    if platform.kind() != PlatformKind::Amd {
        return true;
    }
    match resource {
        Resource::Stream(stream) => open(|all| all.remove(&(stream.0 as usize))).is_some(),
        Resource::Event(event) => open(|all| all.remove(&(event.0 as usize))).is_some(),
        // Everything else the process gives back as a whole.
        _ => !ENDING.load(Ordering::Acquire),
    }
}

extern "C" fn close_all() {
    // A forked child has the list but not the runtime.
    if STARTED_BY.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    ENDING.store(true, Ordering::Release);
    let left = open(std::mem::take);
    // Events first: a stream waits for its work when it is closed. There is nobody left to tell about a failure.
    for handle in left.values() {
        if let Open::Event(table, event) = *handle {
            // SAFETY: listed, so it was not given back yet; taken off the list, so nobody else does.
            unsafe { (table.hipEventDestroy)(event) };
        }
    }
    for handle in left.values() {
        if let Open::Stream(table, stream) = *handle {
            // SAFETY: as above.
            unsafe { (table.hipStreamDestroy)(stream) };
        }
    }
}
