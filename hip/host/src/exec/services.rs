//! The services that kernels call, as the table a module gets when it is loaded. Meeting other threads is in `meet`; here are the
//! ways to give up, and the clock.

use super::block::active;
use super::jump::{leave_for, pass_place};
use super::meet::barrier;
use crate::module_abi::{Runtime, ABI};
use crate::report::Cause;
use crate::{checked, clock};
use std::ffi::{c_char, c_void, CStr};
use std::sync::OnceLock;

/// The table, the same for all modules.
pub(crate) fn services() -> &'static Runtime {
    static SERVICES: OnceLock<Services> = OnceLock::new();
    let (shadow, arena_base, arena_bytes) = checked::arena()
        .map_or((std::ptr::null_mut(), 0, 0), |arena| (arena.shadow(), arena.base() as u64, arena.bytes() as u64));
    let make = || {
        Services(Runtime {
            abi: ABI,
            barrier,
            wave: pass_place(),
            trap,
            violation,
            clock_ns,
            shadow,
            arena_base,
            arena_bytes,
        })
    };
    &SERVICES.get_or_init(make).0
}

struct Services(Runtime);

// SAFETY: constant data; the shadow it points to is shared by design.
unsafe impl Send for Services {}
// SAFETY: as above.
unsafe impl Sync for Services {}

unsafe extern "C" fn trap(thread: u32, kind: u32, message: *const c_char) {
    let message = if message.is_null() {
        String::new()
    } else {
        // SAFETY: a C string of the module; it is copied before its frame is left behind.
        unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
    };
    // SAFETY: called by a kernel.
    unsafe { give_up(thread, Cause::Trap { kind, message }) }
}

unsafe extern "C" fn violation(thread: u32, kind: u32, address: *const c_void, bytes: u32) {
    // SAFETY: called by a kernel.
    unsafe { give_up(thread, Cause::Violation { kind, address: address as usize, bytes }) }
}

unsafe extern "C" fn clock_ns() -> u64 {
    clock::now()
}

/// Leaves the block behind, with all its threads.
///
/// # Safety
/// On a stack of this OS thread's worker.
unsafe fn give_up(thread: u32, cause: Cause) -> ! {
    let worker = active();
    // SAFETY: the caller's promise. The frames left behind are the kernel's, which own nothing.
    unsafe {
        let home = (*worker).give_up(Some(thread), cause);
        leave_for(home)
    }
}
