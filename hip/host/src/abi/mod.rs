//! HIP's C functions on the embedded device, and the table of them. A function checks its arguments, asks the parts that do the work
//! and turns their answer into a status; `call` gives each the same treatment of faults, panics and the last error.

mod copy;
mod device;
mod error;
mod event;
mod graph;
mod memory;
mod module;
mod stream;

use crate::inject;
use hip_abi::{hipError_t, Hip, Origin};
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// What the body of a function returns.
pub(crate) type Outcome<T = ()> = Result<T, hipError_t>;

/// Declares C functions. A body is the inside of a closure that returns an [`Outcome`].
macro_rules! hip_functions {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        #[allow(unused_unsafe)] // many bodies only read numbers
        pub(super) unsafe extern "C" fn $name($($arg: $type),*) -> hip_abi::hipError_t {
            // SAFETY: HIP's contract with its caller: a pointer is null (which the body refuses) or points to what the signature
            // says. Handles are looked up, never followed.
            $crate::abi::call(stringify!($name), || -> $crate::abi::Outcome { unsafe { $body } })
        }
    )*};
}
use hip_functions;

thread_local! {
    static LAST_ERROR: Cell<hipError_t> = const { Cell::new(hipError_t::hipSuccess) };
}

/// Runs one call: injected faults, panics and the thread's last error are dealt with here and nowhere else.
fn call(name: &'static str, body: impl FnOnce() -> Outcome) -> hipError_t {
    let injected = inject::check(name);
    if let Some(failure) = injected {
        if !inject::releases(name) {
            return note(hipError_t(failure));
        }
    }
    let done = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        log::error!("{name} panicked inside the embedded device; this is a defect of hip-host");
        Err(hipError_t::hipErrorUnknown)
    });
    note(injected.map_or_else(|| done.err().unwrap_or(hipError_t::hipSuccess), hipError_t))
}

/// Keeps an error for `hipGetLastError`. "Not ready" is an answer, not an error.
fn note(error: hipError_t) -> hipError_t {
    if !error.is_success() && error != hipError_t::hipErrorNotReady {
        LAST_ERROR.set(error);
    }
    error
}

/// Writes an output argument; null is `hipErrorInvalidValue`.
///
/// # Safety
/// `pointer` is null or may be written to.
unsafe fn put<T>(pointer: *mut T, value: T) -> Outcome {
    if pointer.is_null() {
        return Err(hipError_t::hipErrorInvalidValue);
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Refuses a null pointer.
fn present<T>(pointer: *const T) -> Outcome {
    if pointer.is_null() {
        Err(hipError_t::hipErrorInvalidValue)
    } else {
        Ok(())
    }
}

/// Copies text into a C buffer, cut to fit and ended with a zero.
///
/// # Safety
/// `into` has room for `room` characters.
unsafe fn put_text(into: *mut std::ffi::c_char, room: usize, text: &str) {
    let shown = text.len().min(room.saturating_sub(1));
    // SAFETY: `shown` + 1 is at most `room`, which is not zero when anything is written.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), into, shown);
        if room > 0 {
            into.add(shown).write(0);
        }
    }
}

macro_rules! table {
    ($($module:ident: [$($name:ident),* $(,)?] $([$($optional:ident),*])?;)*) => {
        Hip { origin: Origin::BuiltIn("the embedded device"), $($($name: $module::$name,)* $($($optional: Some($module::$optional),)*)?)* }
    };
}

/// The embedded device as a table of HIP functions.
pub fn table() -> &'static Hip {
    static TABLE: Hip = table! {
        device: [
            hipInit, hipDriverGetVersion, hipRuntimeGetVersion, hipGetDeviceCount, hipGetDevice, hipSetDevice, hipDeviceSynchronize,
            hipDeviceReset, hipDeviceGetName, hipDeviceTotalMem, hipDeviceGetAttribute, hipDeviceCanAccessPeer,
            hipDeviceEnablePeerAccess, hipDeviceDisablePeerAccess,
        ] [hipGetDevicePropertiesR0600, hipGetDeviceProperties];
        memory: [hipMalloc, hipFree, hipHostMalloc, hipHostFree, hipHostRegister, hipHostUnregister, hipMemGetInfo];
        copy: [
            hipMemcpy, hipMemcpyAsync, hipMemcpy2DAsync, hipMemcpyPeerAsync, hipMemsetAsync, hipMemsetD8Async, hipMemsetD16Async,
            hipMemsetD32Async,
        ];
        stream: [
            hipStreamCreateWithFlags, hipStreamCreateWithPriority, hipStreamDestroy, hipStreamQuery, hipStreamSynchronize,
            hipStreamWaitEvent,
        ] [hipLaunchHostFunc];
        event: [hipEventCreateWithFlags, hipEventDestroy, hipEventRecord, hipEventQuery, hipEventSynchronize, hipEventElapsedTime];
        module: [
            hipModuleLoadData, hipModuleUnload, hipModuleGetFunction, hipModuleGetGlobal, hipFuncGetAttribute, hipModuleLaunchKernel,
            hipModuleOccupancyMaxPotentialBlockSize, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor,
        ];
        graph: [
            hipStreamBeginCapture, hipStreamEndCapture, hipStreamIsCapturing, hipGraphCreate, hipGraphDestroy, hipGraphGetNodes,
            hipGraphInstantiate, hipGraphLaunch, hipGraphExecDestroy,
        ];
        error: [hipGetLastError, hipPeekAtLastError, hipGetErrorName, hipGetErrorString];
    };
    &TABLE
}
