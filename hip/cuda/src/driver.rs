//! The part of libcuda that this crate calls, with the C signatures of NVIDIA's `cuda.h`. Names that carry `_v2` are
//! the driver's own: the header's macros hide the suffix, `dlsym` does not. Nothing here decides anything.

use crate::status::CUresult;
use hip_abi::{
    hipEvent_t as CUevent, hipFunction_t as CUfunction, hipGraphExec_t as CUgraphExec, hipGraphNode_t as CUgraphNode,
    hipGraph_t as CUgraph, hipHostFn_t as CUhostFn, hipModule_t as CUmodule,
    hipStreamCaptureMode as CUstreamCaptureMode, hipStreamCaptureStatus as CUstreamCaptureStatus,
    hipStream_t as CUstream,
};
use hip_abi::{library, Search};
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// An address in the unified address space, as the driver spells it.
pub type CUdeviceptr = c_ulonglong;
/// A device of the driver.
pub type CUdevice = c_int;
/// A number of `CUdevice_attribute`.
pub type CUdevice_attribute = c_uint;
/// A number of `CUfunction_attribute`; HIP took these over unchanged.
pub type CUfunction_attribute = c_uint;
/// The optional function of the occupancy calculator that gives the shared memory for a block size.
pub type CUoccupancyB2DSize = Option<unsafe extern "C" fn(block: c_int) -> usize>;

/// A context. Only primary contexts occur here, one a device, shared with the CUDA runtime and so with cuBLAS.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CUcontext(pub *mut c_void);

/// What a pointer of a two-dimensional copy points to.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CUmemorytype(pub c_uint);

impl CUmemorytype {
    pub const HOST: Self = Self(1);
    pub const DEVICE: Self = Self(2);
    /// The driver finds out from the address.
    pub const UNIFIED: Self = Self(4);
}

/// One side of a two-dimensional copy.
#[repr(C)]
pub struct Side {
    pub x_bytes: usize,
    pub y: usize,
    pub kind: CUmemorytype,
    pub host: *const c_void,
    pub device: CUdeviceptr,
    pub array: *mut c_void,
    pub pitch: usize,
}

/// A two-dimensional copy.
#[repr(C)]
pub struct CUDA_MEMCPY2D {
    pub source: Side,
    pub destination: Side,
    pub width_bytes: usize,
    pub height: usize,
}

/// One wish about a launch, in 72 bytes: its number, and a union whose first word is all that is used here.
#[repr(C, align(8))]
pub struct CUlaunchAttribute {
    pub id: c_uint,
    pub padding: c_uint,
    pub value: [c_uint; 16],
}

impl CUlaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, allowed: the kernel may start before those in front of it
    /// in its stream are done, and waits for them by itself.
    pub const WAITS_BY_ITSELF: Self =
        Self { id: 6, padding: 0, value: [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] };
}

/// A launch with wishes.
#[repr(C)]
pub struct CUlaunchConfig {
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub shared_bytes: c_uint,
    pub stream: CUstream,
    pub attributes: *const CUlaunchAttribute,
    pub attribute_count: c_uint,
}

library! {
    /// The CUDA driver (`libcuda`).
    pub struct Cuda in ["cuda"] versions [1] {
        // Initialisation, devices, primary contexts
        fn cuInit(flags: c_uint) -> CUresult;
        fn cuDriverGetVersion(version: *mut c_int) -> CUresult;
        fn cuDeviceGetCount(count: *mut c_int) -> CUresult;
        fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> CUresult;
        fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice) -> CUresult;
        fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) -> CUresult;
        fn cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice) -> CUresult;
        fn cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice) -> CUresult;
        fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> CUresult;
        fn cuDevicePrimaryCtxReset_v2(device: CUdevice) -> CUresult;
        fn cuCtxSetCurrent(context: CUcontext) -> CUresult;
        fn cuCtxSynchronize() -> CUresult;
        fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) -> CUresult;
        fn cuCtxDisablePeerAccess(peer: CUcontext) -> CUresult;

        // Memory
        fn cuMemAlloc_v2(pointer: *mut CUdeviceptr, bytes: usize) -> CUresult;
        fn cuMemFree_v2(pointer: CUdeviceptr) -> CUresult;
        fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> CUresult;
        fn cuMemFreeHost(pointer: *mut c_void) -> CUresult;
        fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint) -> CUresult;
        fn cuMemHostUnregister(pointer: *mut c_void) -> CUresult;
        fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult;
        fn cuMemcpy(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) -> CUresult;
        fn cuMemcpyAsync(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult;
        fn cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, stream: CUstream) -> CUresult;
        fn cuMemcpyPeerAsync(dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext, bytes: usize, stream: CUstream) -> CUresult;
        fn cuMemsetD8Async(dst: CUdeviceptr, value: u8, count: usize, stream: CUstream) -> CUresult;
        fn cuMemsetD16Async(dst: CUdeviceptr, value: u16, count: usize, stream: CUstream) -> CUresult;
        fn cuMemsetD32Async(dst: CUdeviceptr, value: c_uint, count: usize, stream: CUstream) -> CUresult;

        // Streams and events
        fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> CUresult;
        fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) -> CUresult;
        fn cuStreamDestroy_v2(stream: CUstream) -> CUresult;
        fn cuStreamQuery(stream: CUstream) -> CUresult;
        fn cuStreamSynchronize(stream: CUstream) -> CUresult;
        fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) -> CUresult;
        fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, user_data: *mut c_void) -> CUresult;
        fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> CUresult;
        fn cuEventDestroy_v2(event: CUevent) -> CUresult;
        fn cuEventRecord(event: CUevent, stream: CUstream) -> CUresult;
        fn cuEventQuery(event: CUevent) -> CUresult;
        fn cuEventSynchronize(event: CUevent) -> CUresult;
        // CUDA 12.8 renamed it, and either name may be the only one.
        optional fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, stop: CUevent) -> CUresult;
        optional fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: CUevent, stop: CUevent) -> CUresult;

        // Modules and launches
        fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) -> CUresult;
        fn cuModuleUnload(module: CUmodule) -> CUresult;
        fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> CUresult;
        optional fn cuFuncLoad(function: CUfunction) -> CUresult;
        // CUDA 12.4 brought it.
        optional fn cuFuncGetParamInfo(function: CUfunction, index: usize, offset: *mut usize, size: *mut usize) -> CUresult;
        fn cuModuleGetGlobal_v2(address: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, name: *const c_char) -> CUresult;
        fn cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction) -> CUresult;
        fn cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int) -> CUresult;
        fn cuLaunchKernel(
            function: CUfunction,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            shared_bytes: c_uint,
            stream: CUstream,
            params: *mut *mut c_void,
            extra: *mut *mut c_void
        ) -> CUresult;
        // CUDA 11.8 brought it.
        optional fn cuLaunchKernelEx(
            config: *const CUlaunchConfig,
            function: CUfunction,
            params: *mut *mut c_void,
            extra: *mut *mut c_void
        ) -> CUresult;
        fn cuOccupancyMaxPotentialBlockSize(grid: *mut c_int, block: *mut c_int, function: CUfunction, size: CUoccupancyB2DSize, shared_bytes: usize, block_limit: c_int) -> CUresult;
        fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: CUfunction, block: c_int, shared_bytes: usize) -> CUresult;

        // Graphs
        fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode) -> CUresult;
        fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) -> CUresult;
        fn cuStreamIsCapturing(stream: CUstream, status: *mut CUstreamCaptureStatus) -> CUresult;
        fn cuGraphCreate(graph: *mut CUgraph, flags: c_uint) -> CUresult;
        fn cuGraphDestroy(graph: CUgraph) -> CUresult;
        fn cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) -> CUresult;
        fn cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong) -> CUresult;
        fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) -> CUresult;
        fn cuGraphExecDestroy(exec: CUgraphExec) -> CUresult;
    }
}

/// Where drivers are: the system's own search, and the places that distributions keep out of it.
pub(crate) fn search() -> Search {
    let folders = ["/usr/lib/x86_64-linux-gnu/nvidia/current", "/usr/lib/wsl/lib"];
    Search { file: None, folders: folders.map(Into::into).to_vec() }
}
