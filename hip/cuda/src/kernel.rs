//! Kernels: what a launch has to know of one, asked of the driver once. HIP grants without asking what CUDA does not, more than
//! 48 KiB of shared memory; it is asked for here.

use crate::context::{current, Driver};
use crate::device::SHARED_MEMORY_PER_BLOCK_OPTIN;
use crate::status::CUresult;
use hip_abi::{hipError_t, hipFunction_attribute, hipFunction_t, hipModule_t};
use std::ffi::{c_char, c_int, c_uint, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

const THREADS_PER_BLOCK: c_uint = hipFunction_attribute::HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK.0;
const STATIC_SHARED_BYTES: c_uint = hipFunction_attribute::HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES.0;
pub(crate) const MAX_DYNAMIC_SHARED_BYTES: c_uint =
    hipFunction_attribute::HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.0;

/// A global variable of this name in a module says that each of its kernels waits by itself (`griddepcontrol.wait`) before it touches
/// what kernels in front of it in the stream may still be writing. Such a kernel may come to the device's units while those
/// end, which hides what a launch costs there.
const WAITING_MODULE: &CStr = c"hip_cuda_kernels_wait_by_themselves";

/// A kernel. Its handle, as callers have it, is where this lies.
pub(crate) struct Kernel {
    pub function: hipFunction_t,
    module: hipModule_t,
    /// Whether the module says of its kernels that they wait, and this driver can make use of it.
    pub waits_by_itself: bool,
    /// The most threads that a block of it may have.
    pub threads: c_uint,
    /// Where its arguments lie in memory, one behind the other; `None` where the driver does not tell, as before CUDA 12.4.
    pub arguments: Option<Vec<Argument>>,
    /// Bytes of dynamic shared memory that it is allowed as yet.
    allowed_shared: AtomicI32,
}

/// An argument's place, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Argument {
    pub offset: usize,
    pub size: usize,
}

// SAFETY: the driver's handles may be used by every thread.
unsafe impl Send for Kernel {}
// SAFETY: as above; what changes is atomic.
unsafe impl Sync for Kernel {}

/// The kernels of modules that are loaded, at addresses that stay.
#[expect(clippy::vec_box, reason = "handles are the addresses")]
static KERNELS: Mutex<Vec<Box<Kernel>>> = Mutex::new(Vec::new());

/// A kernel of a module, by its name.
///
/// # Safety
/// The module is a handle of the driver's, and the name ends with a zero.
pub(crate) unsafe fn find(
    driver: &Driver,
    module: hipModule_t,
    name: *const c_char,
) -> Result<hipFunction_t, hipError_t> {
    let mut function = hipFunction_t(null_mut());
    // SAFETY: as the caller promises; the results are ours to write.
    unsafe {
        (driver.cuda.cuModuleGetFunction)(&mut function, module, name).check()?;
        // CUDA 12 loads a kernel when it is first launched, which may be in the middle of a capture; HIP has it ready.
        if let Some(load) = driver.cuda.cuFuncLoad {
            load(function).check()?;
        }
    }
    let kernel = Box::new(Kernel {
        function,
        module,
        waits_by_itself: waits_by_itself(driver, module),
        threads: function_attribute(driver, function, THREADS_PER_BLOCK)? as c_uint,
        arguments: arguments(driver, function),
        allowed_shared: AtomicI32::new(function_attribute(driver, function, MAX_DYNAMIC_SHARED_BYTES)?),
    });
    let handle = hipFunction_t(std::ptr::from_ref(&*kernel).cast_mut().cast());
    KERNELS.lock().unwrap_or_else(PoisonError::into_inner).push(kernel);
    Ok(handle)
}

/// Forgets the kernels of a module that is gone.
pub(crate) fn forget(module: hipModule_t) {
    KERNELS.lock().unwrap_or_else(PoisonError::into_inner).retain(|kernel| kernel.module != module);
}

fn waits_by_itself(driver: &Driver, module: hipModule_t) -> bool {
    let (mut address, mut bytes) = (0, 0);
    // SAFETY: the module is the caller's handle, the name ends with a zero, and the results are ours to write.
    let found =
        unsafe { (driver.cuda.cuModuleGetGlobal_v2)(&mut address, &mut bytes, module, WAITING_MODULE.as_ptr()) };
    found == CUresult::CUDA_SUCCESS && driver.cuda.cuLaunchKernelEx.is_some()
}

/// The kernel's arguments; the driver refuses the first index behind them.
fn arguments(driver: &Driver, function: hipFunction_t) -> Option<Vec<Argument>> {
    let ask = driver.cuda.cuFuncGetParamInfo?;
    let argument = |index| {
        let mut found = Argument { offset: 0, size: 0 };
        // SAFETY: the function is the driver's, and the results are ours to write.
        let result = unsafe { ask(function, index, &mut found.offset, &mut found.size) };
        (result == CUresult::CUDA_SUCCESS).then_some(found)
    };
    Some((0..).map_while(argument).collect())
}

pub(crate) fn function_attribute(
    driver: &Driver,
    function: hipFunction_t,
    attribute: c_uint,
) -> Result<c_int, hipError_t> {
    let mut value = 0;
    // SAFETY: the function is the caller's handle, and `value` is ours to write.
    unsafe { (driver.cuda.cuFuncGetAttribute)(&mut value, attribute, function) }.check()?;
    Ok(value)
}

impl Kernel {
    /// The kernel behind a handle.
    ///
    /// # Safety
    /// The handle is null, or of [`find`] and a module that is still loaded.
    pub unsafe fn of<'a>(handle: hipFunction_t) -> Result<&'a Self, hipError_t> {
        // SAFETY: such a handle is the address of a kernel in the table.
        unsafe { handle.0.cast::<Self>().as_ref() }.ok_or(hipError_t::hipErrorInvalidHandle)
    }

    /// What a block of this kernel may use beyond its own arrays.
    pub fn dynamic_limit(&self, driver: &Driver) -> Result<c_int, hipError_t> {
        let most = driver.attribute(SHARED_MEMORY_PER_BLOCK_OPTIN, current() as c_int)?;
        Ok(most - function_attribute(driver, self.function, STATIC_SHARED_BYTES)?)
    }

    /// Allows the kernel this much dynamic shared memory, where it is not allowed it yet.
    #[inline]
    pub fn allow_shared(&self, driver: &Driver, bytes: usize) -> Result<(), hipError_t> {
        let bytes = c_int::try_from(bytes).map_err(|_| hipError_t::hipErrorInvalidConfiguration)?;
        if bytes <= self.allowed_shared.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.allow_more_shared(driver, bytes)
    }

    #[cold]
    fn allow_more_shared(&self, driver: &Driver, bytes: c_int) -> Result<(), hipError_t> {
        if bytes > self.dynamic_limit(driver)? {
            return Err(hipError_t::hipErrorInvalidConfiguration);
        }
        // SAFETY: the function is the driver's, and the value within the device's limit.
        unsafe { (driver.cuda.cuFuncSetAttribute)(self.function, MAX_DYNAMIC_SHARED_BYTES, bytes) }.check()?;
        self.allowed_shared.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}
