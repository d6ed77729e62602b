//! Modules, kernels, launches, occupancy. A launch passes its arguments straight through; what HIP grants without asking
//! and CUDA does not, more than 48 KiB of shared memory, is asked for here. Kernels of a module that says so wait for their
//! predecessors by themselves, and are launched early enough to do it.

use crate::calls::{calls, forward, put};
use crate::context::{current, Driver};
use crate::device::SHARED_MEMORY_PER_BLOCK_OPTIN;
use crate::driver::{CUlaunchAttribute, CUlaunchConfig};
use crate::status::CUresult;
use hip_abi::*;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::ptr::null_mut;

const STATIC_SHARED_BYTES: c_uint = hipFunction_attribute::HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES.0;
const MAX_DYNAMIC_SHARED_BYTES: c_uint = hipFunction_attribute::HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.0;
/// The last attribute that HIP and CUDA number alike: the preferred carve-out.
const LAST_SHARED_ATTRIBUTE: c_uint = 9;

/// What an image is, told from its first bytes.
#[derive(Debug, PartialEq)]
enum Image {
    /// A cubin, a bundle of them, or PTX as text.
    Ours,
    /// An ELF file for another processor, such as a gfx code object.
    Foreign,
    /// Nothing the driver should be asked to read.
    Unknown,
}

/// Looks at the first bytes and no further than they allow: an image's length is not passed along.
///
/// # Safety
/// `image` points to a code object, or to at least one byte where the first is not that of one.
unsafe fn recognise(image: *const u8) -> Image {
    // SAFETY: each byte is read only once those before it have matched, and every format is longer than what is read.
    let starts_with = |text: &[u8]| (0..text.len()).all(|at| unsafe { image.add(at).read() } == text[at]);
    const EM_CUDA: u16 = 190;
    if starts_with(b"\x7fELF") {
        // SAFETY: an ELF header holds its machine in bytes 18 and 19.
        let machine = unsafe { [image.add(18).read(), image.add(19).read()] };
        return if u16::from_le_bytes(machine) == EM_CUDA { Image::Ours } else { Image::Foreign };
    }
    let bundle = starts_with(&0xba55_ed50_u32.to_le_bytes());
    let text = starts_with(b"//") || starts_with(b".version") || starts_with(b"\n//") || starts_with(b"\n.version");
    if bundle || text {
        Image::Ours
    } else {
        Image::Unknown
    }
}

/// A global variable of this name in a module says that each of its kernels waits by itself (`griddepcontrol.wait`) before it touches
/// what kernels in front of it in the stream may still be writing. Such a kernel may come to the device's units while those
/// end, which hides what a launch costs there.
const WAITING_MODULE: &CStr = c"hip_cuda_kernels_wait_by_themselves";

/// A kernel. Its handle, as callers have it, is the driver's pointer with a mark in the lowest bit, which is free because the
/// driver's objects are aligned: so a launch learns what it has to know without a table.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kernel {
    function: hipFunction_t,
    waits_by_itself: bool,
}

impl Kernel {
    fn of(handle: hipFunction_t) -> Self {
        let waits_by_itself = handle.0.addr() & 1 == 1;
        Self { function: hipFunction_t(handle.0.map_addr(|address| address & !1)), waits_by_itself }
    }

    fn handle(self) -> hipFunction_t {
        hipFunction_t(self.function.0.map_addr(|address| address | usize::from(self.waits_by_itself)))
    }
}

/// Whether the module says of its kernels that they wait, and this driver can make use of it.
fn waits_by_itself(driver: &Driver, module: hipModule_t) -> bool {
    let (mut address, mut bytes) = (0, 0);
    // SAFETY: the module is the caller's handle, the name ends with a zero, and the results are ours to write.
    let found =
        unsafe { (driver.cuda.cuModuleGetGlobal_v2)(&mut address, &mut bytes, module, WAITING_MODULE.as_ptr()) };
    found == CUresult::CUDA_SUCCESS && driver.cuda.cuLaunchKernelEx.is_some()
}

fn function_attribute(driver: &Driver, function: hipFunction_t, attribute: c_uint) -> Result<c_int, hipError_t> {
    let mut value = 0;
    // SAFETY: the function is the caller's handle, and `value` is ours to write.
    unsafe { (driver.cuda.cuFuncGetAttribute)(&mut value, attribute, function) }.check()?;
    Ok(value)
}

/// What a block of this kernel may use beyond its own arrays.
fn dynamic_limit(driver: &Driver, function: hipFunction_t) -> Result<c_int, hipError_t> {
    let most = driver.attribute(SHARED_MEMORY_PER_BLOCK_OPTIN, current() as c_int)?;
    Ok(most - function_attribute(driver, function, STATIC_SHARED_BYTES)?)
}

/// Allows the kernel this much dynamic shared memory, where it is not allowed it yet. The driver keeps the state, so a
/// launch without dynamic shared memory pays nothing and one with it a look-up.
fn allow_shared(driver: &Driver, function: hipFunction_t, bytes: usize) -> Result<(), hipError_t> {
    let bytes = c_int::try_from(bytes).map_err(|_| hipError_t::hipErrorInvalidConfiguration)?;
    if bytes == 0 || bytes <= function_attribute(driver, function, MAX_DYNAMIC_SHARED_BYTES)? {
        return Ok(());
    }
    if bytes > dynamic_limit(driver, function)? {
        return Err(hipError_t::hipErrorInvalidConfiguration);
    }
    // SAFETY: the function is the caller's handle, and the value within the device's limit.
    unsafe { (driver.cuda.cuFuncSetAttribute)(function, MAX_DYNAMIC_SHARED_BYTES, bytes) }.check()
}

/// Whether grid and block are within what every launch on the device must keep to. Asked only after a launch failed, to
/// say so by the code HIP has for it; the driver calls everything an invalid value.
fn fits(driver: &Driver, grid: [c_uint; 3], block: [c_uint; 3]) -> bool {
    let limit = |attribute| driver.attribute(attribute, current() as c_int).map_or(u64::MAX, |limit| limit as u64);
    let threads: u64 = block.iter().map(|side| u64::from(*side)).product();
    let sides = block.into_iter().chain(grid).map(u64::from);
    threads <= limit(1) && sides.zip(2..).all(|(side, attribute)| side > 0 && side <= limit(attribute))
}

/// HIP's list of packed arguments as CUDA's: the same keys but for the end.
///
/// # Safety
/// `extra` ends with `HIP_LAUNCH_PARAM_END`, and each key before it is followed by its value.
unsafe fn packed(extra: *mut *mut c_void) -> Result<[*mut c_void; 5], hipError_t> {
    let (mut buffer, mut size) = (null_mut(), null_mut());
    for pair in 0.. {
        // SAFETY: reading stops at the end marker, which the caller promises.
        let key = unsafe { extra.add(2 * pair).read() };
        if key == HIP_LAUNCH_PARAM_END {
            break;
        }
        // SAFETY: a key that is not the end has a value after it.
        let value = unsafe { extra.add(2 * pair + 1).read() };
        match key {
            HIP_LAUNCH_PARAM_BUFFER_POINTER => buffer = value,
            HIP_LAUNCH_PARAM_BUFFER_SIZE => size = value,
            _ => return Err(hipError_t::hipErrorInvalidValue),
        }
    }
    // CU_LAUNCH_PARAM_END is null.
    Ok([HIP_LAUNCH_PARAM_BUFFER_POINTER, buffer, HIP_LAUNCH_PARAM_BUFFER_SIZE, size, null_mut()])
}

calls! {
    bound fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) |driver| {
        if module.is_null() || image.is_null() {
            return Err(hipError_t::hipErrorInvalidValue);
        }
        match recognise(image.cast()) {
            Image::Ours => (driver.cuda.cuModuleLoadData)(module, image),
            Image::Foreign => return Err(hipError_t::hipErrorNoBinaryForGpu),
            Image::Unknown => return Err(hipError_t::hipErrorInvalidImage),
        }
    };
    bound fn hipModuleGetFunction(function: *mut hipFunction_t, module: hipModule_t, name: *const c_char) |driver| {
        if function.is_null() || module.is_null() || name.is_null() {
            return Err(hipError_t::hipErrorInvalidValue);
        }
        let mut found = hipFunction_t(null_mut());
        (driver.cuda.cuModuleGetFunction)(&mut found, module, name).check()?;
        // CUDA 12 loads a kernel when it is first launched, which may be in the middle of a capture; HIP has it ready.
        if let Some(load) = driver.cuda.cuFuncLoad {
            load(found).check()?;
        }
        put(function, Kernel { function: found, waits_by_itself: waits_by_itself(driver, module) }.handle())
    };
    bound fn hipModuleGetGlobal(address: *mut hipDeviceptr_t, bytes: *mut usize, module: hipModule_t, name: *const c_char) |driver| {
        let (mut found, mut size) = (0, 0);
        (driver.cuda.cuModuleGetGlobal_v2)(&mut found, &mut size, module, name).check()?;
        if !bytes.is_null() {
            put(bytes, size)?;
        }
        match address.is_null() {
            true => Ok(()),
            false => put(address, hipDeviceptr_t(std::ptr::with_exposed_provenance_mut(found as usize))),
        }
    };
    // What may be used counts as what is allowed: launches here ask for it by themselves.
    bound fn hipFuncGetAttribute(value: *mut c_int, attribute: hipFunction_attribute, function: hipFunction_t) |driver| {
        let function = Kernel::of(function).function;
        put(value, match attribute.0 {
            MAX_DYNAMIC_SHARED_BYTES => dynamic_limit(driver, function)?,
            0..=LAST_SHARED_ATTRIBUTE => function_attribute(driver, function, attribute.0)?,
            _ => return Err(hipError_t::hipErrorInvalidValue),
        })
    };
    bound fn hipModuleLaunchKernel(
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
        extra: *mut *mut c_void,
    ) |driver| {
        if function.is_null() {
            return Err(hipError_t::hipErrorInvalidHandle);
        }
        let Kernel { function, waits_by_itself } = Kernel::of(function);
        allow_shared(driver, function, shared_bytes as usize)?;
        let mut buffer = if extra.is_null() { [null_mut(); 5] } else { packed(extra)? };
        let extra = if extra.is_null() { extra } else { buffer.as_mut_ptr() };
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let launched = match driver.cuda.cuLaunchKernelEx {
            Some(launch) if waits_by_itself => {
                let attributes = &CUlaunchAttribute::WAITS_BY_ITSELF;
                let config = CUlaunchConfig { grid, block, shared_bytes, stream, attributes, attribute_count: 1 };
                launch(&config, function, params, extra)
            }
            _ => (driver.cuda.cuLaunchKernel)(
                function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params, extra,
            ),
        };
        match launched.check() {
            Err(hipError_t::hipErrorInvalidValue) if !fits(driver, grid, block) =>
                Err(hipError_t::hipErrorInvalidConfiguration),
            outcome => outcome,
        }
    };
    bound fn hipModuleOccupancyMaxPotentialBlockSize(grid: *mut c_int, block: *mut c_int, function: hipFunction_t, shared_bytes: usize, block_limit: c_int) |driver| {
        let function = Kernel::of(function).function;
        allow_shared(driver, function, shared_bytes)?;
        (driver.cuda.cuOccupancyMaxPotentialBlockSize)(grid, block, function, None, shared_bytes, block_limit)
    };
    bound fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: hipFunction_t, block: c_int, shared_bytes: usize) |driver| {
        let function = Kernel::of(function).function;
        allow_shared(driver, function, shared_bytes)?;
        (driver.cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor)(blocks, function, block, shared_bytes)
    };
}

forward! {
    hipModuleUnload(module: hipModule_t) = cuModuleUnload(module);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_told_by_its_first_bytes() {
        let elf = |machine: u16| {
            let mut header = [0u8; 64];
            header[..4].copy_from_slice(b"\x7fELF");
            header[18..20].copy_from_slice(&machine.to_le_bytes());
            header
        };
        // SAFETY: every image here is longer than what its first bytes ask to be read.
        let told = |image: &[u8]| unsafe { recognise(image.as_ptr()) };
        assert_eq!(told(&elf(190)), Image::Ours);
        assert_eq!(told(&elf(224)), Image::Foreign, "AMD's code objects");
        assert_eq!(told(&elf(62)), Image::Foreign, "the embedded device's code objects");
        assert_eq!(told(b"//\n// Generated by NVIDIA NVVM Compiler\n\0"), Image::Ours);
        assert_eq!(told(b".version 8.0\n\0"), Image::Ours);
        assert_eq!(told(b"not a code object\0"), Image::Unknown);
        assert_eq!(told(b"\0"), Image::Unknown);
    }

    #[test]
    fn a_handle_carries_its_mark() {
        for waits_by_itself in [false, true] {
            let function = hipFunction_t(std::ptr::without_provenance_mut(0x1000));
            let kernel = Kernel { function, waits_by_itself };
            assert_eq!(Kernel::of(kernel.handle()), kernel);
            assert_eq!(kernel.handle() == function, !waits_by_itself);
        }
    }

    #[test]
    fn packed_arguments_end_the_way_cuda_wants_it() {
        let (mut bytes, mut size) = ([0u8; 4], 4usize);
        let (buffer, length) = ((&raw mut bytes).cast::<c_void>(), (&raw mut size).cast::<c_void>());
        let mut extra =
            [HIP_LAUNCH_PARAM_BUFFER_SIZE, length, HIP_LAUNCH_PARAM_BUFFER_POINTER, buffer, HIP_LAUNCH_PARAM_END];
        // SAFETY: the list ends with its marker.
        let cuda = unsafe { packed(extra.as_mut_ptr()) };
        let expected = [HIP_LAUNCH_PARAM_BUFFER_POINTER, buffer, HIP_LAUNCH_PARAM_BUFFER_SIZE, length, null_mut()];
        assert_eq!(cuda, Ok(expected));
        extra[0] = std::ptr::without_provenance_mut(77);
        // SAFETY: the list ends with its marker.
        assert_eq!(unsafe { packed(extra.as_mut_ptr()) }, Err(hipError_t::hipErrorInvalidValue));
    }
}
