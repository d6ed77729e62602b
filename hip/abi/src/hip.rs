//! The table of the HIP runtime: every call that `hip` makes or that its implementations offer, with the C signature of
//! AMD's headers. A call that some supported release lacks is `optional`.

use crate::hipError_t;
use crate::library;
use crate::types::*;
use std::ffi::{c_char, c_int, c_uint, c_void};

library! {
    /// The HIP runtime (`libamdhip64`).
    pub struct Hip in ["amdhip64"] versions [7, 6, 5] {
        // Initialisation and devices
        fn hipInit(flags: c_uint) -> hipError_t;
        fn hipDriverGetVersion(version: *mut c_int) -> hipError_t;
        fn hipRuntimeGetVersion(version: *mut c_int) -> hipError_t;
        fn hipGetDeviceCount(count: *mut c_int) -> hipError_t;
        fn hipGetDevice(device: *mut c_int) -> hipError_t;
        fn hipSetDevice(device: c_int) -> hipError_t;
        fn hipDeviceSynchronize() -> hipError_t;
        fn hipDeviceReset() -> hipError_t;
        fn hipDeviceGetName(name: *mut c_char, len: c_int, device: hipDevice_t) -> hipError_t;
        fn hipDeviceTotalMem(bytes: *mut usize, device: hipDevice_t) -> hipError_t;
        fn hipDeviceGetAttribute(value: *mut c_int, attribute: hipDeviceAttribute_t, device: c_int) -> hipError_t;
        optional fn hipGetDevicePropertiesR0600(properties: *mut hipDeviceProp_tR0600, device: c_int) -> hipError_t;
        optional fn hipGetDeviceProperties(properties: *mut hipDeviceProp_tR0000, device: c_int) -> hipError_t;
        fn hipDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> hipError_t;
        fn hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint) -> hipError_t;
        fn hipDeviceDisablePeerAccess(peer: c_int) -> hipError_t;

        // Memory
        fn hipMalloc(pointer: *mut *mut c_void, bytes: usize) -> hipError_t;
        fn hipFree(pointer: *mut c_void) -> hipError_t;
        fn hipHostMalloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> hipError_t;
        fn hipHostFree(pointer: *mut c_void) -> hipError_t;
        fn hipHostRegister(pointer: *mut c_void, bytes: usize, flags: c_uint) -> hipError_t;
        fn hipHostUnregister(pointer: *mut c_void) -> hipError_t;
        fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> hipError_t;
        fn hipMemcpy(dst: *mut c_void, src: *const c_void, bytes: usize, kind: hipMemcpyKind) -> hipError_t;
        fn hipMemcpyAsync(dst: *mut c_void, src: *const c_void, bytes: usize, kind: hipMemcpyKind, stream: hipStream_t) -> hipError_t;
        fn hipMemcpy2DAsync(dst: *mut c_void, dst_pitch: usize, src: *const c_void, src_pitch: usize, width: usize, height: usize, kind: hipMemcpyKind, stream: hipStream_t) -> hipError_t;
        fn hipMemcpyPeerAsync(dst: *mut c_void, dst_device: c_int, src: *const c_void, src_device: c_int, bytes: usize, stream: hipStream_t) -> hipError_t;
        fn hipMemsetAsync(dst: *mut c_void, value: c_int, bytes: usize, stream: hipStream_t) -> hipError_t;
        fn hipMemsetD8Async(dst: hipDeviceptr_t, value: u8, count: usize, stream: hipStream_t) -> hipError_t;
        fn hipMemsetD16Async(dst: hipDeviceptr_t, value: u16, count: usize, stream: hipStream_t) -> hipError_t;
        fn hipMemsetD32Async(dst: hipDeviceptr_t, value: c_int, count: usize, stream: hipStream_t) -> hipError_t;

        // Streams
        fn hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) -> hipError_t;
        fn hipStreamCreateWithPriority(stream: *mut hipStream_t, flags: c_uint, priority: c_int) -> hipError_t;
        fn hipStreamDestroy(stream: hipStream_t) -> hipError_t;
        fn hipStreamQuery(stream: hipStream_t) -> hipError_t;
        fn hipStreamSynchronize(stream: hipStream_t) -> hipError_t;
        fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) -> hipError_t;
        optional fn hipLaunchHostFunc(stream: hipStream_t, function: hipHostFn_t, user_data: *mut c_void) -> hipError_t;

        // Events
        fn hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) -> hipError_t;
        fn hipEventDestroy(event: hipEvent_t) -> hipError_t;
        fn hipEventRecord(event: hipEvent_t, stream: hipStream_t) -> hipError_t;
        fn hipEventQuery(event: hipEvent_t) -> hipError_t;
        fn hipEventSynchronize(event: hipEvent_t) -> hipError_t;
        fn hipEventElapsedTime(milliseconds: *mut f32, start: hipEvent_t, stop: hipEvent_t) -> hipError_t;

        // Modules and launches
        fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) -> hipError_t;
        fn hipModuleUnload(module: hipModule_t) -> hipError_t;
        fn hipModuleGetFunction(function: *mut hipFunction_t, module: hipModule_t, name: *const c_char) -> hipError_t;
        fn hipModuleGetGlobal(address: *mut hipDeviceptr_t, bytes: *mut usize, module: hipModule_t, name: *const c_char) -> hipError_t;
        fn hipFuncGetAttribute(value: *mut c_int, attribute: hipFunction_attribute, function: hipFunction_t) -> hipError_t;
        fn hipModuleLaunchKernel(
            function: hipFunction_t,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            shared_bytes: c_uint,
            stream: hipStream_t,
            params: *mut *mut c_void,
            extra: *mut *mut c_void
        ) -> hipError_t;
        fn hipModuleOccupancyMaxPotentialBlockSize(grid: *mut c_int, block: *mut c_int, function: hipFunction_t, shared_bytes: usize, block_limit: c_int) -> hipError_t;
        fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: hipFunction_t, block: c_int, shared_bytes: usize) -> hipError_t;

        // Graphs
        fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) -> hipError_t;
        fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) -> hipError_t;
        fn hipStreamIsCapturing(stream: hipStream_t, status: *mut hipStreamCaptureStatus) -> hipError_t;
        fn hipGraphCreate(graph: *mut hipGraph_t, flags: c_uint) -> hipError_t;
        fn hipGraphDestroy(graph: hipGraph_t) -> hipError_t;
        fn hipGraphGetNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize) -> hipError_t;
        fn hipGraphInstantiate(exec: *mut hipGraphExec_t, graph: hipGraph_t, error_node: *mut hipGraphNode_t, log: *mut c_char, log_bytes: usize) -> hipError_t;
        fn hipGraphLaunch(exec: hipGraphExec_t, stream: hipStream_t) -> hipError_t;
        fn hipGraphExecDestroy(exec: hipGraphExec_t) -> hipError_t;

        // Errors
        fn hipGetLastError() -> hipError_t;
        fn hipPeekAtLastError() -> hipError_t;
        fn hipGetErrorName(error: hipError_t) -> *const c_char;
        fn hipGetErrorString(error: hipError_t) -> *const c_char;
    }
}
