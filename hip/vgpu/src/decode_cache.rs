//! Predecoded code by its address, so that a kernel is decoded at its first launch only. Whoever replaces code says so with
//! [`CodeCache::clear`].

use crate::program::Program;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Predecoded code of one object or one address space.
#[derive(Default)]
pub struct CodeCache {
    narrow: Mutex<HashMap<Key, Arc<Program<32>>>>,
    wide: Mutex<HashMap<Key, Arc<Program<64>>>>,
}

/// Entry address, and what else the operations depend on: the descriptor's registers, and whether they are vector code.
type Key = (u64, usize, usize, bool);

impl CodeCache {
    /// Nothing is predecoded yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything: code has changed.
    pub fn clear(&self) {
        self.narrow.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.wide.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn narrow(&self, key: Key, make: impl FnOnce() -> Program<32>) -> Arc<Program<32>> {
        let mut programs = self.narrow.lock().unwrap_or_else(PoisonError::into_inner);
        programs.entry(key).or_insert_with(|| Arc::new(make())).clone()
    }

    pub(crate) fn wide(&self, key: Key, make: impl FnOnce() -> Program<64>) -> Arc<Program<64>> {
        let mut programs = self.wide.lock().unwrap_or_else(PoisonError::into_inner);
        programs.entry(key).or_insert_with(|| Arc::new(make())).clone()
    }
}
