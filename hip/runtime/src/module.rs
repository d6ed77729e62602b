//! Code objects on a device, and the kernels in them. Where code objects come from (ahead of time, a cache, the run-time
//! compiler) is not known here.

use crate::device::Device;
use crate::dispose::Resource;
use crate::driver::call;
use crate::element::DevicePtr;
use crate::error::{human_bytes, Error, Result};
use hip_abi::{hipDeviceptr_t, hipFunction_attribute, hipFunction_t, hipModule_t};
use std::borrow::Cow;
use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

/// A code object loaded on a device. Cloning is cheap; it is unloaded when the last clone and the last of its
/// functions are gone.
#[derive(Clone)]
pub struct Module(Arc<ModuleInner>);

struct ModuleInner {
    device: Device,
    handle: hipModule_t,
    // Runtimes differ in whether they copy the image, and when.
    _image: Cow<'static, [u8]>,
}

impl Module {
    /// Loads a code object: an ELF file or a bundle of them for `gfx` targets, a host code object on the embedded device.
    ///
    /// # Safety
    /// The bytes were made by a compiler that the program trusts. The embedded device loads a host code object as the system loads a
    /// shared library, so that its constructors run; what is no code object at all is an error.
    pub unsafe fn load(device: &Device, image: impl Into<Cow<'static, [u8]>>) -> Result<Self> {
        let image = image.into();
        if image.len() < 16 {
            return Err(Error::refused(format!("a code object of {} bytes is too short to be one", image.len())));
        }
        crate::image::check_extent(&image)?;
        device.0.bind()?;
        let mut handle = hipModule_t::NULL;
        // SAFETY: the image is a compiler's, alive during the call and kept after it.
        device.with_memory_retry(|| unsafe {
            call!(device.platform(), hipModuleLoadData(&mut handle, image.as_ptr().cast()), || format!(
                "loading a code object of {} on device {} ({})",
                human_bytes(image.len()),
                device.ordinal(),
                device.arch()
            ))
        })?;
        Ok(Self(Arc::new(ModuleInner { device: device.clone(), handle, _image: image })))
    }

    /// The device it is loaded on.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Whether both are the same loaded code object.
    pub(crate) fn is(&self, other: &Module) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The kernel of that name.
    pub fn function(&self, name: &str) -> Result<Function> {
        let c_name = c_name(name)?;
        self.0.device.0.bind()?;
        let mut handle = hipFunction_t(std::ptr::null_mut());
        // SAFETY: the module is alive, the name ends with a zero, the pointer is to a live handle.
        unsafe {
            call!(
                self.0.device.platform(),
                hipModuleGetFunction(&mut handle, self.0.handle, c_name.as_ptr()),
                || format!("looking for kernel {name} in its module")
            )
        }?;
        Ok(Function { module: self.clone(), handle, name: name.into() })
    }

    /// The address and the size in bytes of a global variable (`__device__` or `__constant__`) of the code object.
    pub fn global(&self, name: &str) -> Result<(DevicePtr<u8>, usize)> {
        let c_name = c_name(name)?;
        self.0.device.0.bind()?;
        let (mut address, mut bytes) = (hipDeviceptr_t::NULL, 0);
        // SAFETY: the module is alive, the name ends with a zero, both pointers are to live values.
        unsafe {
            call!(
                self.0.device.platform(),
                hipModuleGetGlobal(&mut address, &mut bytes, self.0.handle, c_name.as_ptr()),
                || format!("looking for global {name} in its module")
            )
        }?;
        Ok((DevicePtr::from_address(address.0 as u64), bytes))
    }
}

impl Drop for ModuleInner {
    fn drop(&mut self) {
        self.device.0.dispose(Resource::Module(self.handle));
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module(device {}, {})", self.0.device.ordinal(), human_bytes(self.0._image.len()))
    }
}

/// A kernel of a loaded module, which it keeps loaded. Cloning is cheap. [`Function::launch`] runs it.
#[derive(Clone)]
pub struct Function {
    module: Module,
    handle: hipFunction_t,
    name: Arc<str>,
}

/// What the compiler made of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Threads a block of this kernel may have.
    pub threads_per_block: u32,
    /// Static shared memory of a block.
    pub shared_bytes: u32,
    /// Private memory a thread has beyond its registers: spills and arrays.
    pub local_bytes: u32,
    /// Registers of a thread.
    pub registers: u32,
}

impl Function {
    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The module it is in.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The device it is loaded on.
    pub fn device(&self) -> &Device {
        self.module.device()
    }

    /// The handle as the C calls take it, valid while this function lives.
    pub fn handle(&self) -> hipFunction_t {
        self.handle
    }

    /// What the compiler made of the kernel.
    pub fn info(&self) -> Result<FunctionInfo> {
        self.device().0.bind()?;
        let get = |attribute| {
            let mut value = 0;
            // SAFETY: the function is alive and the pointer is to a live integer.
            unsafe {
                call!(self.device().platform(), hipFuncGetAttribute(&mut value, attribute, self.handle), || format!(
                    "asking about kernel {}",
                    self.name
                ))
            }?;
            Ok::<u32, Error>(value.max(0) as u32)
        };
        Ok(FunctionInfo {
            threads_per_block: get(hipFunction_attribute::HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            shared_bytes: get(hipFunction_attribute::HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            local_bytes: get(hipFunction_attribute::HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            registers: get(hipFunction_attribute::HIP_FUNC_ATTRIBUTE_NUM_REGS)?,
        })
    }

    /// How many blocks of `block` threads with `shared_bytes` of dynamic shared memory fit on a compute unit at once.
    pub fn blocks_per_compute_unit(&self, block: u32, shared_bytes: usize) -> Result<u32> {
        self.device().0.bind()?;
        let mut blocks = 0;
        // SAFETY: the function is alive and the pointer is to a live integer.
        unsafe {
            call!(
                self.device().platform(),
                hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
                    &mut blocks,
                    self.handle,
                    block as i32,
                    shared_bytes
                ),
                || format!("asking for the occupancy of kernel {} with {block} threads a block", self.name)
            )
        }?;
        Ok(blocks.max(0) as u32)
    }

    /// The block size that fills the device best, and the fewest blocks that do: `(grid, block)`.
    pub fn best_block(&self, shared_bytes: usize) -> Result<(u32, u32)> {
        self.device().0.bind()?;
        let (mut grid, mut block) = (0, 0);
        // SAFETY: the function is alive and both pointers are to live integers.
        unsafe {
            call!(
                self.device().platform(),
                hipModuleOccupancyMaxPotentialBlockSize(&mut grid, &mut block, self.handle, shared_bytes, 0),
                || format!("asking for the best block size of kernel {}", self.name)
            )
        }?;
        Ok((grid.max(0) as u32, block.max(0) as u32))
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({}, device {})", self.name, self.device().ordinal())
    }
}

fn c_name(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| Error::refused(format!("the name {name:?} has a zero byte in it")))
}
