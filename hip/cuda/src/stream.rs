//! Streams, events and graphs. HIP took these over from CUDA with their flags and modes, so nearly every row is one
//! driver call.

use crate::calls::{calls, forward, put};
use hip_abi::*;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// Blocking sync, no timing, interprocess; HIP's other flags speak of AMD's caches.
const EVENT_FLAGS: c_uint = 7;

forward! {
    hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) = cuStreamCreate(stream, flags);
    hipStreamCreateWithPriority(stream: *mut hipStream_t, flags: c_uint, priority: c_int) = cuStreamCreateWithPriority(stream, flags, priority);
    hipStreamDestroy(stream: hipStream_t) = cuStreamDestroy_v2(stream);
    hipStreamQuery(stream: hipStream_t) = cuStreamQuery(stream);
    hipStreamSynchronize(stream: hipStream_t) = cuStreamSynchronize(stream);
    hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) = cuStreamWaitEvent(stream, event, flags);
    hipLaunchHostFunc(stream: hipStream_t, function: hipHostFn_t, user_data: *mut c_void) = cuLaunchHostFunc(stream, function, user_data);

    hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) = cuEventCreate(event, flags & EVENT_FLAGS);
    hipEventDestroy(event: hipEvent_t) = cuEventDestroy_v2(event);
    hipEventRecord(event: hipEvent_t, stream: hipStream_t) = cuEventRecord(event, stream);
    hipEventQuery(event: hipEvent_t) = cuEventQuery(event);
    hipEventSynchronize(event: hipEvent_t) = cuEventSynchronize(event);

    hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) = cuStreamBeginCapture_v2(stream, mode);
    hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) = cuStreamEndCapture(stream, graph);
    hipStreamIsCapturing(stream: hipStream_t, status: *mut hipStreamCaptureStatus) = cuStreamIsCapturing(stream, status);
    hipGraphCreate(graph: *mut hipGraph_t, flags: c_uint) = cuGraphCreate(graph, flags);
    hipGraphDestroy(graph: hipGraph_t) = cuGraphDestroy(graph);
    hipGraphGetNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize) = cuGraphGetNodes(graph, nodes, count);
    hipGraphLaunch(exec: hipGraphExec_t, stream: hipStream_t) = cuGraphLaunch(exec, stream);
    hipGraphExecDestroy(exec: hipGraphExec_t) = cuGraphExecDestroy(exec);
}

calls! {
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
