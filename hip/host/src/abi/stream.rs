//! Streams.

use super::{hip_functions, present, put};
use crate::command::{Address, Command};
use crate::{device, event, graph, stream};
use hip_abi::{hipError_t, hipEvent_t, hipHostFn_t, hipStreamNonBlocking, hipStream_t};
use std::ffi::{c_int, c_uint, c_void};

hip_functions! {
    fn hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) {
        present(stream)?;
        if flags & !hipStreamNonBlocking != 0 {
            return Err(hipError_t::hipErrorInvalidValue);
        }
        put(stream, stream::create(device::current()?, flags == hipStreamNonBlocking))
    }

    // There is one priority: any number is accepted and brought into range, as HIP says.
    fn hipStreamCreateWithPriority(stream: *mut hipStream_t, flags: c_uint, _priority: c_int) {
        present(stream)?;
        if flags & !hipStreamNonBlocking != 0 {
            return Err(hipError_t::hipErrorInvalidValue);
        }
        put(stream, stream::create(device::current()?, flags == hipStreamNonBlocking))
    }

    fn hipStreamDestroy(stream: hipStream_t) { stream::destroy(stream) }

    fn hipStreamQuery(stream: hipStream_t) {
        let stream = stream::resolve(stream)?;
        graph::forbid_on_capturing(&stream)?;
        if !stream.with_dependencies().iter().all(|stream| stream.is_idle()) {
            return Err(hipError_t::hipErrorNotReady);
        }
        stream.take_failure()
    }

    fn hipStreamSynchronize(stream: hipStream_t) {
        stream::forbid_waiting()?;
        let stream = stream::resolve(stream)?;
        graph::forbid_on_capturing(&stream)?;
        let mut outcome = Ok(());
        for stream in stream.with_dependencies() {
            stream.wait_submitted();
            outcome = outcome.and(stream.take_failure());
        }
        outcome
    }

    fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) {
        if flags != 0 {
            return Err(hipError_t::hipErrorInvalidValue);
        }
        event::resolve(event)?.await_on(&stream::resolve(stream)?)
    }

    fn hipLaunchHostFunc(stream: hipStream_t, function: hipHostFn_t, user_data: *mut c_void) {
        stream::resolve(stream)?.submit(Command::Call { function, data: Address(user_data) }).map(drop)
    }
}
