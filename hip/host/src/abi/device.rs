//! Initialisation, devices and their properties.

use super::{hip_functions, present, put, put_text};
use crate::device::{self, Device, MAX_BLOCK_THREADS, MAX_GRID, MAX_SHARED_BYTES};
use crate::{config, graph, memory};
use hip_abi::{hipDeviceAttribute_t, hipDeviceProp_tR0000, hipDeviceProp_tR0600, hipDevice_t, hipError_t};
use std::ffi::{c_char, c_int, c_uint};

/// HIP 6.0, whose calls these are.
const VERSION: c_int = 60_000_000;

hip_functions! {
    fn hipInit(flags: c_uint) {
        if flags != 0 {
            return Err(hipError_t::hipErrorInvalidValue);
        }
        device::all().map(drop)
    }

    fn hipDriverGetVersion(version: *mut c_int) { put(version, VERSION) }

    fn hipRuntimeGetVersion(version: *mut c_int) { put(version, VERSION) }

    fn hipGetDeviceCount(count: *mut c_int) {
        put(count, 0)?;
        put(count, device::all()?.len() as c_int)
    }

    fn hipGetDevice(device: *mut c_int) { put(device, device::current()?.ordinal as c_int) }

    fn hipSetDevice(device: c_int) { device::set_current(device) }

    fn hipDeviceSynchronize() {
        graph::forbid_unsafe_call()?;
        let device = device::current()?;
        device.wait_idle();
        device.take_failure()
    }

    fn hipDeviceReset() {
        graph::forbid_unsafe_call()?;
        let device = device::current()?;
        device.wait_idle();
        let _ = device.take_failure();
        let owned = |allocation: &memory::Allocation| allocation.device == device.ordinal && allocation.kind == memory::Kind::Device;
        for allocation in memory::live_allocations().into_iter().filter(owned) {
            memory::free(allocation.address, memory::Kind::Device)?;
        }
        Ok(())
    }

    fn hipDeviceGetName(name: *mut c_char, len: c_int, device: hipDevice_t) {
        let device = device::get(device)?;
        present(name)?;
        let room = usize::try_from(len).ok().filter(|room| *room > 0).ok_or(hipError_t::hipErrorInvalidValue)?;
        put_text(name, room, &device.name());
        Ok(())
    }

    fn hipDeviceTotalMem(bytes: *mut usize, device: hipDevice_t) { put(bytes, device::get(device)?.memory as usize) }

    fn hipDeviceGetAttribute(value: *mut c_int, attribute: hipDeviceAttribute_t, device: c_int) {
        put(value, attribute_of(device::get(device)?, attribute)?)
    }

    // Of the properties only the names are filled, the rest is zero: everything else has a call whose shape never changed.
    fn hipGetDevicePropertiesR0600(properties: *mut hipDeviceProp_tR0600, device: c_int) {
        let device = device::get(device)?;
        put(properties, hipDeviceProp_tR0600::zeroed())?;
        put_text(properties.cast(), 256, &device.name());
        put_text((&raw mut (*properties).gcnArchName).cast(), 256, device.arch());
        Ok(())
    }

    fn hipGetDeviceProperties(properties: *mut hipDeviceProp_tR0000, device: c_int) {
        let device = device::get(device)?;
        put(properties, hipDeviceProp_tR0000::zeroed())?;
        put_text(properties.cast(), 256, &device.name());
        put_text((&raw mut (*properties).gcnArchName).cast(), 256, device.arch());
        Ok(())
    }

    fn hipDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) {
        let (device, peer) = (device::get(device)?, device::get(peer)?);
        put(can, c_int::from(device.ordinal != peer.ordinal))
    }

    fn hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint) {
        if flags != 0 {
            return Err(hipError_t::hipErrorInvalidValue);
        }
        let (device, peer) = (device::current()?, device::get(peer)?);
        if device.ordinal == peer.ordinal {
            return Err(hipError_t::hipErrorInvalidDevice);
        }
        device.enable_peer(peer.ordinal)
    }

    fn hipDeviceDisablePeerAccess(peer: c_int) { device::current()?.disable_peer(device::get(peer)?.ordinal) }
}

/// The value of an attribute; one that the embedded device has no answer for is `hipErrorInvalidValue`.
fn attribute_of(device: &Device, attribute: hipDeviceAttribute_t) -> Result<c_int, hipError_t> {
    use hipDeviceAttribute_t as A;
    let threads = config::options().map_or(1, |options| options.threads) as c_int;
    Ok(match attribute {
        A::hipDeviceAttributeWarpSize => device.wave as c_int,
        A::hipDeviceAttributeMultiprocessorCount if device.target.is_emulated() => device.units as c_int,
        A::hipDeviceAttributeMaxThreadsPerMultiProcessor if device.target.is_emulated() => 2048,
        A::hipDeviceAttributeMultiprocessorCount => threads,
        A::hipDeviceAttributeMaxThreadsPerBlock
        | A::hipDeviceAttributeMaxThreadsPerMultiProcessor
        | A::hipDeviceAttributeMaxBlockDimX
        | A::hipDeviceAttributeMaxBlockDimY
        | A::hipDeviceAttributeMaxBlockDimZ => MAX_BLOCK_THREADS as c_int,
        A::hipDeviceAttributeMaxGridDimX => MAX_GRID[0] as c_int,
        A::hipDeviceAttributeMaxGridDimY => MAX_GRID[1] as c_int,
        A::hipDeviceAttributeMaxGridDimZ => MAX_GRID[2] as c_int,
        A::hipDeviceAttributeMaxSharedMemoryPerBlock => MAX_SHARED_BYTES as c_int,
        A::hipDeviceAttributeConcurrentKernels | A::hipDeviceAttributeIntegrated => 1,
        A::hipDeviceAttributeCooperativeLaunch | A::hipDeviceAttributeManagedMemory => 0,
        // A processor has no fixed answer to these; HIP's is in kHz, bits and bytes, and 0 says "not known".
        A::hipDeviceAttributeClockRate
        | A::hipDeviceAttributeMemoryClockRate
        | A::hipDeviceAttributeMemoryBusWidth
        | A::hipDeviceAttributeL2CacheSize => 0,
        A::hipDeviceAttributePciBusId => device.ordinal as c_int,
        A::hipDeviceAttributePciDeviceId | A::hipDeviceAttributePciDomainID => 0,
        _ => return Err(hipError_t::hipErrorInvalidValue),
    })
}
