//! Streams, events and graphs. HIP took these over from CUDA with their flags and modes, so nearly every row is one
//! driver call.

use crate::calls::{calls, forward, put};
use crate::launch;
use hip_abi::*;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// Blocking sync, no timing, interprocess; HIP's other flags speak of AMD's caches.
const EVENT_FLAGS: c_uint = 7;

forward! {
    hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) = cuStreamCreate(stream, flags);
    hipStreamCreateWithPriority(stream: *mut hipStream_t, flags: c_uint, priority: c_int) = cuStreamCreateWithPriority(stream, flags, priority);
    hipStreamQuery(stream: hipStream_t) = cuStreamQuery(stream);
    hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) = cuStreamWaitEvent(stream, event, flags);
    hipLaunchHostFunc(stream: hipStream_t, function: hipHostFn_t, user_data: *mut c_void) = cuLaunchHostFunc(stream, function, user_data);

    hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) = cuEventCreate(event, flags & EVENT_FLAGS);
    hipEventDestroy(event: hipEvent_t) = cuEventDestroy_v2(event);
    hipEventRecord(event: hipEvent_t, stream: hipStream_t) = cuEventRecord(event, stream);
    hipEventQuery(event: hipEvent_t) = cuEventQuery(event);

    hipStreamIsCapturing(stream: hipStream_t, status: *mut hipStreamCaptureStatus) = cuStreamIsCapturing(stream, status);
    hipGraphCreate(graph: *mut hipGraph_t, flags: c_uint) = cuGraphCreate(graph, flags);
    hipGraphDestroy(graph: hipGraph_t) = cuGraphDestroy(graph);
    hipGraphGetNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize) = cuGraphGetNodes(graph, nodes, count);
    hipGraphLaunch(exec: hipGraphExec_t, stream: hipStream_t) = cuGraphLaunch(exec, stream);
    hipGraphExecDestroy(exec: hipGraphExec_t) = cuGraphExecDestroy(exec);
}

calls! {
    bound fn hipStreamDestroy(stream: hipStream_t) |driver| {
        (driver.cuda.cuStreamDestroy_v2)(stream).check()?;
        launch::capture_is_over(stream);
        Ok(())
    };
    bound fn hipStreamSynchronize(stream: hipStream_t) |driver| {
        (driver.cuda.cuStreamSynchronize)(stream).check()?;
        launch::outcome()
    };
    bound fn hipEventSynchronize(event: hipEvent_t) |driver| {
        (driver.cuda.cuEventSynchronize)(event).check()?;
        launch::outcome()
    };
    bound fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) |driver| {
        (driver.cuda.cuStreamBeginCapture_v2)(stream, mode).check()?;
        launch::capture_begins(stream);
        Ok(())
    };
    bound fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) |driver| {
        let ended = (driver.cuda.cuStreamEndCapture)(stream, graph).check();
        // A capture that was broken off is over as well; one that only another thread may end is not.
        let mut status = hipStreamCaptureStatus::hipStreamCaptureStatusNone;
        (driver.cuda.cuStreamIsCapturing)(stream, &mut status).check()?;
        if status == hipStreamCaptureStatus::hipStreamCaptureStatusNone {
            launch::capture_is_over(stream);
        }
        ended
    };
    bound fn hipEventElapsedTime(milliseconds: *mut f32, start: hipEvent_t, stop: hipEvent_t) |driver| {
        let elapsed = driver.cuda.cuEventElapsedTime_v2.or(driver.cuda.cuEventElapsedTime);
        elapsed.ok_or(hipError_t::hipErrorNotSupported)?(milliseconds, start, stop)
    };
    // The driver's current form has no place for a node and a log: both are answered as "nothing to say".
    bound fn hipGraphInstantiate(
        exec: *mut hipGraphExec_t,
        graph: hipGraph_t,
        error_node: *mut hipGraphNode_t,
        log: *mut c_char,
        log_bytes: usize,
    ) |driver| {
        if !error_node.is_null() {
            put(error_node, hipGraphNode_t::NULL)?;
        }
        if !log.is_null() && log_bytes > 0 {
            put(log, 0)?;
        }
        (driver.cuda.cuGraphInstantiateWithFlags)(exec, graph, 0)
    };
}
