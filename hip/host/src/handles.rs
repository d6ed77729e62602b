//! Handles given out to callers: numbers that are never used twice, so that a stale or invented one is an error and not a crash.
//! Each kind of object has its own table, and its mark is part of the number.

use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Handle numbers are distinct and dense already: one multiplication spreads them well enough.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.0 = (self.0 ^ number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

type Table<T> = HashMap<usize, Arc<T>, BuildHasherDefault<Spread>>;

/// The live objects of one kind.
pub(crate) struct Handles<T> {
    mark: u8,
    next: AtomicUsize,
    live: OnceLock<RwLock<Table<T>>>,
}

impl<T> Handles<T> {
    /// An empty table. `mark` tells this kind of handle from the others.
    pub const fn new(mark: u8) -> Self {
        Self { mark, next: AtomicUsize::new(1), live: OnceLock::new() }
    }

    fn live(&self) -> &RwLock<Table<T>> {
        self.live.get_or_init(RwLock::default)
    }

    /// A number for an object made from that number.
    pub fn insert_with(&self, make: impl FnOnce(usize) -> Arc<T>) -> *mut c_void {
        // The mark sits in the top byte, where no user address has bits: following such a pointer faults at once.
        let number = (usize::from(self.mark) << 56) | self.next.fetch_add(1, Ordering::Relaxed);
        let object = make(number);
        self.live().write().unwrap_or_else(PoisonError::into_inner).insert(number, object);
        number as *mut c_void
    }

    /// A number for `object`.
    pub fn insert(&self, object: Arc<T>) -> *mut c_void {
        self.insert_with(|_| object)
    }

    /// The object behind a handle, unless it was never given out or is gone.
    pub fn get(&self, handle: *mut c_void) -> Option<Arc<T>> {
        self.live().read().unwrap_or_else(PoisonError::into_inner).get(&(handle as usize)).cloned()
    }

    /// Takes the object out; the handle is stale from here on.
    pub fn remove(&self, handle: *mut c_void) -> Option<Arc<T>> {
        self.live().write().unwrap_or_else(PoisonError::into_inner).remove(&(handle as usize))
    }

    /// Takes out every object that `gone` names.
    pub fn remove_where(&self, gone: impl Fn(&T) -> bool) {
        self.live().write().unwrap_or_else(PoisonError::into_inner).retain(|_, object| !gone(object));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_good_until_removed_and_never_again() {
        let handles = Handles::new(0xA1);
        let first = handles.insert(Arc::new(7));
        assert_eq!(handles.get(first).as_deref(), Some(&7));
        assert!(handles.remove(first).is_some() && handles.remove(first).is_none());
        let second = handles.insert(Arc::new(8));
        assert_ne!(first, second);
        assert!(handles.get(first).is_none() && handles.get(std::ptr::null_mut()).is_none());
    }
}
