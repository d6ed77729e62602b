//! Modules, and what can be asked of their kernels.

use crate::calls::{calls, put};
use crate::kernel::{self, function_attribute, Kernel, MAX_DYNAMIC_SHARED_BYTES};
use hip_abi::*;
use std::ffi::{c_char, c_int, c_uint, c_void};

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
        put(function, kernel::find(driver, module, name)?)
    };
    bound fn hipModuleUnload(module: hipModule_t) |driver| {
        (driver.cuda.cuModuleUnload)(module).check()?;
        kernel::forget(module);
        Ok(())
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
        let kernel = Kernel::of(function)?;
        put(value, match attribute.0 {
            MAX_DYNAMIC_SHARED_BYTES => kernel.dynamic_limit(driver)?,
            0..=LAST_SHARED_ATTRIBUTE => function_attribute(driver, kernel.function, attribute.0)?,
            _ => return Err(hipError_t::hipErrorInvalidValue),
        })
    };
    bound fn hipModuleOccupancyMaxPotentialBlockSize(grid: *mut c_int, block: *mut c_int, function: hipFunction_t, shared_bytes: usize, block_limit: c_int) |driver| {
        let kernel = Kernel::of(function)?;
        kernel.allow_shared(driver, shared_bytes)?;
        (driver.cuda.cuOccupancyMaxPotentialBlockSize)(grid, block, kernel.function, None, shared_bytes, block_limit)
    };
    bound fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: hipFunction_t, block: c_int, shared_bytes: usize) |driver| {
        let kernel = Kernel::of(function)?;
        kernel.allow_shared(driver, shared_bytes)?;
        (driver.cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor)(blocks, kernel.function, block, shared_bytes)
    };
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
}
