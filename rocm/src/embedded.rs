//! What the embedded device's implementations of the libraries share: a registry that makes handles of numbers, memory addresses
//! that travel to the stream's thread, and the step from a call to work on a stream. No library lives here.

use hip_abi::hipStream_t;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Objects behind handles. A handle is a number that is never used twice, so a stale one is an error and not a crash.
pub struct Registry<T> {
    state: Mutex<(usize, BTreeMap<usize, T>)>,
}

impl<T> Registry<T> {
    pub const fn new() -> Self {
        Self { state: Mutex::new((0, BTreeMap::new())) }
    }

    fn lock(&self) -> MutexGuard<'_, (usize, BTreeMap<usize, T>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an object; the result is its handle.
    pub fn insert(&self, object: T) -> *mut c_void {
        let mut state = self.lock();
        state.0 += 1;
        let number = state.0;
        state.1.insert(number, object);
        std::ptr::without_provenance_mut(number)
    }

    /// Gives the object up; `None` for a handle that is not known.
    pub fn remove(&self, handle: *mut c_void) -> Option<T> {
        self.lock().1.remove(&handle.addr())
    }

    /// Works on the object of a handle.
    pub fn with<R>(&self, handle: *mut c_void, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.lock().1.get_mut(&handle.addr()).map(act)
    }
}

/// An address in device memory on its way to the stream's thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address(usize);

impl Address {
    pub fn of<T>(pointer: *const T) -> Self {
        Self(pointer.expose_provenance())
    }

    /// The address so many bytes further on.
    pub fn beyond(self, bytes: usize) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// Whether an element of so many bytes may lie there.
    pub fn is_aligned(self, bytes: usize) -> bool {
        self.0.is_multiple_of(bytes)
    }

    /// The address as a pointer again.
    pub fn pointer<T>(self) -> *mut T {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}

/// Puts work at the end of the stream; `writes` are the ranges in bytes that it fills. False where the stream refuses.
pub fn enqueue(stream: hipStream_t, writes: &[(Address, usize)], run: impl Fn() + Send + Sync + 'static) -> bool {
    let writes: Vec<(*mut u8, usize)> = writes.iter().map(|(address, bytes)| (address.pointer(), *bytes)).collect();
    hip_host::enqueue(stream, &writes, Arc::new(run)).is_success()
}

/// As [`enqueue`], for work that may fail with a sentence, which whoever waits for the stream gets.
pub fn enqueue_fallible(
    stream: hipStream_t,
    writes: &[(Address, usize)],
    run: impl Fn() -> Result<(), String> + Send + Sync + 'static,
) -> bool {
    let writes: Vec<(*mut u8, usize)> = writes.iter().map(|(address, bytes)| (address.pointer(), *bytes)).collect();
    hip_host::enqueue_fallible(stream, &writes, Arc::new(run)).is_success()
}

/// Tells checked mode what earlier work on the stream has filled, where that was not known when the work was queued.
pub fn filled(stream: hipStream_t, ranges: &[(u64, usize)]) {
    let ranges: Vec<(Address, usize)> = ranges.iter().map(|&(at, bytes)| (Address(at as usize), bytes)).collect();
    if !enqueue(stream, &ranges, || {}) {
        log::warn!(
            "checked mode was not told of {} results, and may take them for memory that nobody wrote",
            ranges.len()
        );
    }
}
