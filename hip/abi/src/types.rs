//! The C types that HIP's functions take: handles, enums as transparent integers, flags, and the one structure whose
//! contents we read.

use crate::{handles, integers};
use std::ffi::{c_char, c_int, c_uint, c_void};

handles! {
    /// A stream: work submitted to it runs in order. Null is the legacy default stream.
    hipStream_t;
    /// An event: a point in a stream that can be waited for and timed.
    hipEvent_t;
    /// A loaded code object.
    hipModule_t;
    /// A kernel of a loaded code object.
    hipFunction_t;
    /// A recorded graph of work.
    hipGraph_t;
    /// A graph made ready to launch.
    hipGraphExec_t;
    /// A node of a graph.
    hipGraphNode_t;
    /// An address in device memory.
    hipDeviceptr_t;
}

/// A device as the driver-style calls name it; the same number as its ordinal.
pub type hipDevice_t = c_int;

integers! {
    /// The direction of a copy.
    hipMemcpyKind: c_uint {
        hipMemcpyHostToHost = 0;
        hipMemcpyHostToDevice = 1;
        hipMemcpyDeviceToHost = 2;
        hipMemcpyDeviceToDevice = 3;
        hipMemcpyDefault = 4;
    }

    /// Device attributes. These numbers are the same in HIP 5, 6 and 7.
    hipDeviceAttribute_t: c_uint {
        hipDeviceAttributeClockRate = 5;
        hipDeviceAttributeConcurrentKernels = 8;
        hipDeviceAttributeCooperativeLaunch = 10;
        hipDeviceAttributeIntegrated = 16;
        hipDeviceAttributeL2CacheSize = 19;
        hipDeviceAttributeManagedMemory = 24;
        hipDeviceAttributeMaxBlockDimX = 26;
        hipDeviceAttributeMaxBlockDimY = 27;
        hipDeviceAttributeMaxBlockDimZ = 28;
        hipDeviceAttributeMaxGridDimX = 29;
        hipDeviceAttributeMaxGridDimY = 30;
        hipDeviceAttributeMaxGridDimZ = 31;
        hipDeviceAttributeMaxThreadsPerBlock = 56;
        hipDeviceAttributeMaxThreadsPerMultiProcessor = 57;
        hipDeviceAttributeMemoryBusWidth = 59;
        hipDeviceAttributeMemoryClockRate = 60;
        hipDeviceAttributeMultiprocessorCount = 63;
        hipDeviceAttributePciBusId = 67;
        hipDeviceAttributePciDeviceId = 68;
        hipDeviceAttributePciDomainID = 69;
        hipDeviceAttributeMaxSharedMemoryPerBlock = 74;
        hipDeviceAttributeWarpSize = 87;
    }

    /// Attributes of a kernel.
    hipFunction_attribute: c_uint {
        HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0;
        HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1;
        HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2;
        HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3;
        HIP_FUNC_ATTRIBUTE_NUM_REGS = 4;
        HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;
    }

    /// Who else may make unsafe calls while a stream is captured.
    hipStreamCaptureMode: c_uint {
        hipStreamCaptureModeGlobal = 0;
        hipStreamCaptureModeThreadLocal = 1;
        hipStreamCaptureModeRelaxed = 2;
    }

    /// Whether a stream is being captured.
    hipStreamCaptureStatus: c_uint {
        hipStreamCaptureStatusNone = 0;
        hipStreamCaptureStatusActive = 1;
        hipStreamCaptureStatusInvalidated = 2;
    }
}

/// `hipStreamCreateWithFlags`: waits for the null stream and the null stream for it.
pub const hipStreamDefault: c_uint = 0;
/// `hipStreamCreateWithFlags`: independent of the null stream.
pub const hipStreamNonBlocking: c_uint = 1;
/// `hipEventCreateWithFlags`: with time stamps.
pub const hipEventDefault: c_uint = 0;
/// `hipEventCreateWithFlags`: no time stamps, cheaper to record.
pub const hipEventDisableTiming: c_uint = 2;
/// `hipHostMalloc`: pinned memory with no special properties.
pub const hipHostMallocDefault: c_uint = 0;
/// `extra` of `hipModuleLaunchKernel`: the next entry points to the packed arguments.
pub const HIP_LAUNCH_PARAM_BUFFER_POINTER: *mut c_void = std::ptr::without_provenance_mut(1);
/// `extra` of `hipModuleLaunchKernel`: the next entry points to the size of the packed arguments.
pub const HIP_LAUNCH_PARAM_BUFFER_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);
/// `extra` of `hipModuleLaunchKernel`: the end of the list.
pub const HIP_LAUNCH_PARAM_END: *mut c_void = std::ptr::without_provenance_mut(3);

/// Device properties as `hipGetDevicePropertiesR0600` (ROCm 6 and later) fills them.
///
/// Everything but the architecture's name can be had from calls whose shape never changed, so only that field has a
/// name here; the rest is space of the right size.
#[repr(C, align(8))]
#[derive(Clone)]
pub struct hipDeviceProp_tR0600 {
    head: [u8; 1160],
    /// The instruction set with its features, such as `gfx90a:sramecc+:xnack-`.
    pub gcnArchName: [c_char; 256],
    tail: [u8; 56],
}

/// Device properties as `hipGetDeviceProperties` (ROCm 5, and kept under that name since) fills them.
#[repr(C, align(8))]
#[derive(Clone)]
pub struct hipDeviceProp_tR0000 {
    head: [u8; 396],
    /// The instruction set with its features, such as `gfx90a:sramecc+:xnack-`.
    pub gcnArchName: [c_char; 256],
    tail: [u8; 140],
}

impl hipDeviceProp_tR0600 {
    /// All zeros, ready to be filled.
    pub const fn zeroed() -> Self {
        Self { head: [0; 1160], gcnArchName: [0; 256], tail: [0; 56] }
    }
}

impl hipDeviceProp_tR0000 {
    /// All zeros, ready to be filled.
    pub const fn zeroed() -> Self {
        Self { head: [0; 396], gcnArchName: [0; 256], tail: [0; 140] }
    }
}

const _: () = assert!(size_of::<hipDeviceProp_tR0600>() == 1472);
const _: () = assert!(size_of::<hipDeviceProp_tR0000>() == 792);

/// A function that the runtime calls from a thread of its own when the stream gets there.
pub type hipHostFn_t = unsafe extern "C" fn(user_data: *mut c_void);
