//! Allocation of device and pinned memory.

use super::{hip_functions, present, put};
use crate::memory::{self, Kind};
use crate::{device, graph};
use hip_abi::hipError_t;
use std::ffi::{c_uint, c_void};

hip_functions! {
    fn hipMalloc(pointer: *mut *mut c_void, bytes: usize) {
        present(pointer)?;
        graph::forbid_unsafe_call()?;
        let address = if bytes == 0 { 0 } else { memory::allocate(device::current()?, bytes, Kind::Device)? };
        put(pointer, address as *mut c_void)
    }

    fn hipFree(pointer: *mut c_void) {
        graph::forbid_unsafe_call()?;
        if pointer.is_null() {
            return Ok(());
        }
        // As AMD's runtime does: no kernel still uses the memory when it goes.
        device::get(memory::owner(pointer as usize)? as i32)?.wait_idle();
        memory::free(pointer as usize, Kind::Device)
    }

    fn hipHostMalloc(pointer: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        present(pointer)?;
        graph::forbid_unsafe_call()?;
        let address = if bytes == 0 { 0 } else { memory::allocate(device::current()?, bytes, Kind::Pinned)? };
        put(pointer, address as *mut c_void)
    }

    fn hipHostFree(pointer: *mut c_void) {
        graph::forbid_unsafe_call()?;
        if pointer.is_null() {
            return Ok(());
        }
        if memory::find(pointer as usize).is_none_or(|found| found.kind != Kind::Pinned) {
            return Err(hipError_t::hipErrorInvalidValue);
        }
        // Pinned memory may be in use by any device.
        device::all()?.iter().for_each(device::Device::wait_idle);
        memory::free(pointer as usize, Kind::Pinned)
    }

    fn hipHostRegister(pointer: *mut c_void, bytes: usize, _flags: c_uint) {
        present(pointer)?;
        if bytes == 0 {
            return Err(hipError_t::hipErrorInvalidValue);
        }
        memory::enter(pointer as usize, bytes, device::current()?.ordinal, Kind::Registered)
    }

    fn hipHostUnregister(pointer: *mut c_void) {
        present(pointer)?;
        memory::take(pointer as usize, Kind::Registered).map(drop).map_err(|_| hipError_t::hipErrorHostMemoryNotRegistered)
    }

    fn hipMemGetInfo(free: *mut usize, total: *mut usize) {
        let device = device::current()?;
        present(total)?;
        put(free, device.free_memory() as usize)?;
        put(total, device.memory as usize)
    }
}
