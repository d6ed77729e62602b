//! Memory: device and pinned allocations, copies in one and two dimensions, fills. Addresses are unified, so a copy finds
//! its direction by itself and the kind HIP asks for is only checked.

use crate::calls::{calls, forward, put};
use crate::driver::{CUdeviceptr, CUmemorytype, Side, CUDA_MEMCPY2D};
use hip_abi::*;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`: HIP's pinned memory is visible to every device.
const PINNED: c_uint = 1 | 2;
/// The flags HIP and CUDA share: portable, mapped, write-combined. HIP's others speak of AMD's coherence.
const SHARED_FLAGS: c_uint = 7;

/// A pointer as the driver spells addresses.
fn address<T>(pointer: *const T) -> CUdeviceptr {
    pointer.addr() as CUdeviceptr
}

/// Whether a copy of this kind and size has anything to do; an unknown kind is an error.
fn moves(kind: hipMemcpyKind, bytes: usize) -> Result<bool, hipError_t> {
    match kind.0 {
        0..=4 => Ok(bytes != 0),
        _ => Err(hipError_t::hipErrorInvalidMemcpyDirection),
    }
}

/// Both sides of a copy as the kind promises them; the default leaves it to the addresses.
fn sides(kind: hipMemcpyKind) -> (CUmemorytype, CUmemorytype) {
    use CUmemorytype as Type;
    match kind {
        hipMemcpyKind::hipMemcpyHostToHost => (Type::HOST, Type::HOST),
        hipMemcpyKind::hipMemcpyHostToDevice => (Type::HOST, Type::DEVICE),
        hipMemcpyKind::hipMemcpyDeviceToHost => (Type::DEVICE, Type::HOST),
        hipMemcpyKind::hipMemcpyDeviceToDevice => (Type::DEVICE, Type::DEVICE),
        _ => (Type::UNIFIED, Type::UNIFIED),
    }
}

fn side(kind: CUmemorytype, pointer: *const c_void, pitch: usize) -> Side {
    Side { x_bytes: 0, y: 0, kind, host: pointer, device: address(pointer), array: null_mut(), pitch }
}

calls! {
    bound fn hipMalloc(pointer: *mut *mut c_void, bytes: usize) |driver| {
        if bytes == 0 {
            return put(pointer, null_mut());
        }
        let mut address: CUdeviceptr = 0;
        (driver.cuda.cuMemAlloc_v2)(&mut address, bytes).check()?;
        put(pointer, std::ptr::with_exposed_provenance_mut(address as usize))
    };
    bound fn hipFree(pointer: *mut c_void) |driver| {
        if pointer.is_null() {
            return Ok(());
        }
        (driver.cuda.cuMemFree_v2)(address(pointer))
    };
    bound fn hipHostMalloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) |driver| {
        if bytes == 0 {
            return put(pointer, null_mut());
        }
        (driver.cuda.cuMemHostAlloc)(pointer, bytes, flags & SHARED_FLAGS | PINNED)
    };
    bound fn hipHostFree(pointer: *mut c_void) |driver| {
        if pointer.is_null() {
            return Ok(());
        }
        (driver.cuda.cuMemFreeHost)(pointer)
    };
    bound fn hipMemcpy(dst: *mut c_void, src: *const c_void, bytes: usize, kind: hipMemcpyKind) |driver| {
        if !moves(kind, bytes)? {
            return Ok(());
        }
        (driver.cuda.cuMemcpy)(address(dst), address(src), bytes)
    };
    bound fn hipMemcpyAsync(dst: *mut c_void, src: *const c_void, bytes: usize, kind: hipMemcpyKind, stream: hipStream_t) |driver| {
        if !moves(kind, bytes)? {
            return Ok(());
        }
        (driver.cuda.cuMemcpyAsync)(address(dst), address(src), bytes, stream)
    };
    bound fn hipMemcpy2DAsync(
        dst: *mut c_void,
        dst_pitch: usize,
        src: *const c_void,
        src_pitch: usize,
        width: usize,
        height: usize,
        kind: hipMemcpyKind,
        stream: hipStream_t,
    ) |driver| {
        if !moves(kind, width.min(height))? {
            return Ok(());
        }
        if width > dst_pitch.min(src_pitch) {
            return Err(hipError_t::hipErrorInvalidPitchValue);
        }
        let (from, to) = sides(kind);
        let (source, destination) = (side(from, src, src_pitch), side(to, dst, dst_pitch));
        let copy = CUDA_MEMCPY2D { source, destination, width_bytes: width, height };
        (driver.cuda.cuMemcpy2DAsync_v2)(&copy, stream)
    };
    bound fn hipMemcpyPeerAsync(
        dst: *mut c_void,
        dst_device: c_int,
        src: *const c_void,
        src_device: c_int,
        bytes: usize,
        stream: hipStream_t,
    ) |driver| {
        let (to, from) = (driver.context(dst_device)?, driver.context(src_device)?);
        if bytes == 0 {
            return Ok(());
        }
        (driver.cuda.cuMemcpyPeerAsync)(address(dst), to, address(src), from, bytes, stream)
    };
    bound fn hipMemsetAsync(dst: *mut c_void, value: c_int, bytes: usize, stream: hipStream_t) |driver| {
        if bytes == 0 {
            return Ok(());
        }
        (driver.cuda.cuMemsetD8Async)(address(dst), value as u8, bytes, stream)
    };
    bound fn hipMemsetD8Async(dst: hipDeviceptr_t, value: u8, count: usize, stream: hipStream_t) |driver| {
        if count == 0 {
            return Ok(());
        }
        (driver.cuda.cuMemsetD8Async)(address(dst.0), value, count, stream)
    };
    bound fn hipMemsetD16Async(dst: hipDeviceptr_t, value: u16, count: usize, stream: hipStream_t) |driver| {
        if count == 0 {
            return Ok(());
        }
        (driver.cuda.cuMemsetD16Async)(address(dst.0), value, count, stream)
    };
    bound fn hipMemsetD32Async(dst: hipDeviceptr_t, value: c_int, count: usize, stream: hipStream_t) |driver| {
        if count == 0 {
            return Ok(());
        }
        (driver.cuda.cuMemsetD32Async)(address(dst.0), value as c_uint, count, stream)
    };
}

forward! {
    hipHostRegister(pointer: *mut c_void, bytes: usize, flags: c_uint) = cuMemHostRegister_v2(pointer, bytes, flags & SHARED_FLAGS);
    hipHostUnregister(pointer: *mut c_void) = cuMemHostUnregister(pointer);
    hipMemGetInfo(free: *mut usize, total: *mut usize) = cuMemGetInfo_v2(free, total);
}
