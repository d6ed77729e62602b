//! RCCL's C ABI as `rccl.h` declares it (RCCL 2.12 and later). NVIDIA's NCCL has the same functions under the same names.

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

use hip_abi::hipStream_t;
use std::ffi::{c_char, c_int, c_void};

hip_abi::handles! {
    /// A rank's membership in a communicator.
    ncclComm_t;
}

hip_abi::integers! {
    /// What a call came to.
    ncclResult_t: u32 {
        ncclSuccess = 0;
        ncclUnhandledCudaError = 1;
        ncclSystemError = 2;
        ncclInternalError = 3;
        ncclInvalidArgument = 4;
        ncclInvalidUsage = 5;
        ncclRemoteError = 6;
        ncclInProgress = 7;
    }

    /// How elements of several ranks become one.
    ncclRedOp_t: u32 {
        ncclSum = 0;
        ncclProd = 1;
        ncclMax = 2;
        ncclMin = 3;
        ncclAvg = 4;
    }

    /// Element types.
    ncclDataType_t: u32 {
        ncclInt8 = 0;
        ncclUint8 = 1;
        ncclInt32 = 2;
        ncclUint32 = 3;
        ncclInt64 = 4;
        ncclUint64 = 5;
        ncclFloat16 = 6;
        ncclFloat32 = 7;
        ncclFloat64 = 8;
        ncclBfloat16 = 9;
    }
}

/// Bytes of an id.
pub const NCCL_UNIQUE_ID_BYTES: usize = 128;

/// What the ranks of a communicator find each other by. It is passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ncclUniqueId {
    /// Whatever the library put there.
    pub internal: [c_char; NCCL_UNIQUE_ID_BYTES],
}

hip_abi::library! {
    /// RCCL.
    pub struct Rccl in ["rccl"] versions [1] {
        fn ncclGetVersion(version: *mut c_int) -> ncclResult_t;
        fn ncclGetUniqueId(id: *mut ncclUniqueId) -> ncclResult_t;
        fn ncclCommInitRank(comm: *mut ncclComm_t, ranks: c_int, id: ncclUniqueId, rank: c_int) -> ncclResult_t;
        fn ncclCommInitAll(comms: *mut ncclComm_t, count: c_int, devices: *const c_int) -> ncclResult_t;
        fn ncclCommDestroy(comm: ncclComm_t) -> ncclResult_t;
        fn ncclCommAbort(comm: ncclComm_t) -> ncclResult_t;
        fn ncclGetErrorString(result: ncclResult_t) -> *const c_char;
        optional fn ncclGetLastError(comm: ncclComm_t) -> *const c_char;
        fn ncclCommGetAsyncError(comm: ncclComm_t, error: *mut ncclResult_t) -> ncclResult_t;
        fn ncclCommCount(comm: ncclComm_t, count: *mut c_int) -> ncclResult_t;
        fn ncclCommCuDevice(comm: ncclComm_t, device: *mut c_int) -> ncclResult_t;
        fn ncclCommUserRank(comm: ncclComm_t, rank: *mut c_int) -> ncclResult_t;
        fn ncclAllReduce(input: *const c_void, output: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: hipStream_t) -> ncclResult_t;
        fn ncclReduce(input: *const c_void, output: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, root: c_int, comm: ncclComm_t, stream: hipStream_t) -> ncclResult_t;
        fn ncclBroadcast(input: *const c_void, output: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: hipStream_t) -> ncclResult_t;
        fn ncclReduceScatter(input: *const c_void, output: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: hipStream_t) -> ncclResult_t;
        fn ncclAllGather(input: *const c_void, output: *mut c_void, count: usize, dtype: ncclDataType_t, comm: ncclComm_t, stream: hipStream_t) -> ncclResult_t;
        fn ncclSend(input: *const c_void, count: usize, dtype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: hipStream_t) -> ncclResult_t;
        fn ncclRecv(output: *mut c_void, count: usize, dtype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: hipStream_t) -> ncclResult_t;
        fn ncclGroupStart() -> ncclResult_t;
        fn ncclGroupEnd() -> ncclResult_t;
    }
}

impl ncclDataType_t {
    /// Bytes of an element; `None` for a type that is not in this list.
    pub fn bytes(self) -> Option<usize> {
        match self {
            Self::ncclInt8 | Self::ncclUint8 => Some(1),
            Self::ncclFloat16 | Self::ncclBfloat16 => Some(2),
            Self::ncclInt32 | Self::ncclUint32 | Self::ncclFloat32 => Some(4),
            Self::ncclInt64 | Self::ncclUint64 | Self::ncclFloat64 => Some(8),
            _ => None,
        }
    }
}

/// The element types that travel between ranks: `i8`, `u8`, `i32`, `u32`, `i64`, `u64`, `f16`, `bf16`, `f32` and `f64`.
pub trait Element: hip::DeviceCopy {
    /// RCCL's number of this type.
    const DTYPE: ncclDataType_t;
}

macro_rules! elements {
    ($($type:ty: $dtype:ident),*) => {
        $(impl Element for $type {
            const DTYPE: ncclDataType_t = ncclDataType_t::$dtype;
        })*
    };
}

elements! { i8: ncclInt8, u8: ncclUint8, i32: ncclInt32, u32: ncclUint32, i64: ncclInt64, u64: ncclUint64,
half::f16: ncclFloat16, half::bf16: ncclBfloat16, f32: ncclFloat32, f64: ncclFloat64 }
