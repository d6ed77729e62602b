//! Signals: a number in memory that packets count down and that barriers wait for.

use crate::abi::{amd_queue, amd_signal};
use crate::queue::{load, Queue};
use crate::state::State;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A signal's value. No signal counts as 0.
///
/// # Safety
/// `handle` must be 0 or the address of a live `amd_signal_t`.
pub unsafe fn value(handle: u64) -> i64 {
    if handle == 0 {
        return 0;
    }
    // SAFETY: as the caller promises.
    unsafe { load(handle + amd_signal::VALUE) as i64 }
}

/// Counts a signal down, with the times at which its packet began and ended, and wakes whoever waits for it.
///
/// # Safety
/// `handle` must be 0 or the address of a live `amd_signal_t`.
pub unsafe fn complete(state: &State, handle: u64, start: u64, end: u64) {
    if handle == 0 {
        return;
    }
    // SAFETY: as the caller promises. Once the value is counted down, the program may free the signal.
    unsafe {
        AtomicU64::from_ptr((handle + amd_signal::START) as *mut u64).store(start, Ordering::Relaxed);
        AtomicU64::from_ptr((handle + amd_signal::END) as *mut u64).store(end, Ordering::Relaxed);
        let (mailbox, event) = (load(handle + amd_signal::MAILBOX), load(handle + amd_signal::EVENT_ID) as u32);
        AtomicI64::from_ptr((handle + amd_signal::VALUE) as *mut i64).fetch_sub(1, Ordering::AcqRel);
        ring(state, mailbox, event);
    }
}

/// Tells the runtime that a queue has failed: it prints what it knows and ends the program.
pub fn report_error(queue: &Queue, code: u64) {
    // SAFETY: an AQL queue lies in an `amd_queue_t`, whose signal the runtime keeps.
    unsafe {
        let handle = load(queue.descriptor() + amd_queue::INACTIVE_SIGNAL);
        if handle == 0 {
            return;
        }
        let (mailbox, event) = (load(handle + amd_signal::MAILBOX), load(handle + amd_signal::EVENT_ID) as u32);
        AtomicI64::from_ptr((handle + amd_signal::VALUE) as *mut i64).store(code as i64, Ordering::Release);
        ring(queue.state, mailbox, event);
    }
}

/// # Safety
/// `mailbox` must be 0 or the address of a word for hardware to write.
unsafe fn ring(state: &State, mailbox: u64, event: u32) {
    if mailbox != 0 {
        // SAFETY: as the caller promises.
        unsafe { AtomicU64::from_ptr(mailbox as *mut u64) }.store(u64::from(event), Ordering::Release);
        // A signal whose event is gone has nobody to wake.
        let _ = state.events.set(event);
    }
}
