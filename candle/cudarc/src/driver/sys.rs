//! The raw names that programs mention: types, and the calls that give memory back.

#![allow(non_camel_case_types, non_snake_case)] // The names are NVIDIA's.

use std::ffi::c_void;

/// An address in device memory.
pub type CUdeviceptr = u64;
/// A device, by its number.
pub type CUdevice = i32;
/// A stream: HIP's handle.
pub type CUstream = *mut c_void;
/// The memory pool of a device, by the device's number.
pub type CUmemoryPool = i32;

/// How a raw call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CUresult {
    /// It did what was asked.
    CUDA_SUCCESS,
    /// There is no such device.
    CUDA_ERROR_INVALID_DEVICE,
    /// It failed.
    CUDA_ERROR_UNKNOWN,
}

/// The memory pool of a device.
///
/// # Safety
/// `pool` must point to memory for a pool.
pub unsafe fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { *pool = device };
    CUresult::CUDA_SUCCESS
}

/// Gives unused memory of a device's pools back to the system. Pools here keep all or nothing of it: `keep` is not looked at.
///
/// # Safety
/// None is needed; it is `unsafe` as NVIDIA's is.
pub unsafe fn cuMemPoolTrimTo(pool: CUmemoryPool, _keep: usize) -> CUresult {
    let Ok(device) = usize::try_from(pool).map_err(drop).and_then(|ordinal| hip::Device::new(ordinal).map_err(drop))
    else {
        return CUresult::CUDA_ERROR_INVALID_DEVICE;
    };
    match device.trim_pools() {
        Ok(_) => CUresult::CUDA_SUCCESS,
        Err(_) => CUresult::CUDA_ERROR_UNKNOWN,
    }
}
