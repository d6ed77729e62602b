//! Loaded modules and their kernels. What a code object looks like inside is the business of `image`; who may still use it after it
//! was unloaded is decided here: a queued launch keeps its module loaded until it has run.

use crate::code::{Code, Entry};
use crate::handles::Handles;
use crate::module_abi::Kernel;
use crate::{device, exec, memory};
use hip_abi::{hipError_t, hipFunction_t, hipModule_t};
use std::ffi::{c_void, CStr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A loaded code object.
pub(crate) struct Module {
    pub code: Code,
    pub device: usize,
    /// Addresses of `__device__` variables that were asked for, and so are known as device memory.
    globals: Mutex<Vec<usize>>,
}

/// A kernel of a module.
pub(crate) struct Function {
    pub module: Arc<Module>,
    pub entry: Entry,
    /// How often it has begun to run.
    launches: AtomicU64,
}

// SAFETY: the kernel's table entry is constant data of a module that this keeps loaded.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// The entry of the module's table, where it is code for the processor.
    pub fn native(&self) -> Option<&Kernel> {
        match &self.entry {
            // SAFETY: points into the module, which is loaded as long as this exists.
            Entry::Native(kernel) => Some(unsafe { &**kernel }),
            #[cfg(feature = "emulator")]
            Entry::Amd(_) => None,
        }
    }

    /// Counts a launch that begins.
    pub fn note_launch(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    /// The kernel's name.
    pub fn name(&self) -> String {
        self.entry.name()
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        for address in self.globals.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = memory::take(address, memory::Kind::Global);
        }
    }
}

static MODULES: Handles<Module> = Handles::new(0x57);
static FUNCTIONS: Handles<Function> = Handles::new(0x58);

/// Loads a code object for a device.
///
/// # Safety
/// `image` points to a whole code object.
pub(crate) unsafe fn load(device: usize, image: *const c_void) -> Result<hipModule_t, hipError_t> {
    let target = device::get(device as i32)?.target;
    // SAFETY: the caller's promise.
    let code = unsafe { Code::load(image, target, exec::services()) }.map_err(|(error, why)| {
        log::error!("hipModuleLoadData: {why}");
        error
    })?;
    Ok(hipModule_t(MODULES.insert(Arc::new(Module { code, device, globals: Mutex::default() }))))
}

/// Takes the handle and those of its kernels back.
pub(crate) fn unload(handle: hipModule_t) -> Result<(), hipError_t> {
    let module = MODULES.remove(handle.0).ok_or(hipError_t::hipErrorInvalidHandle)?;
    FUNCTIONS.remove_where(|function| Arc::ptr_eq(&function.module, &module));
    Ok(())
}

fn resolve(handle: hipModule_t) -> Result<Arc<Module>, hipError_t> {
    MODULES.get(handle.0).ok_or(hipError_t::hipErrorInvalidHandle)
}

/// The kernel of that name.
pub(crate) fn function(handle: hipModule_t, name: &CStr) -> Result<hipFunction_t, hipError_t> {
    let module = resolve(handle)?;
    let entry = module.code.kernel(name).ok_or(hipError_t::hipErrorNotFound)?;
    Ok(hipFunction_t(FUNCTIONS.insert(Arc::new(Function { module, entry, launches: AtomicU64::new(0) }))))
}

/// The kernel behind a handle.
pub(crate) fn resolve_function(handle: hipFunction_t) -> Result<Arc<Function>, hipError_t> {
    FUNCTIONS.get(handle.0).ok_or(hipError_t::hipErrorInvalidHandle)
}

/// The bytes of each parameter of a kernel, which HIP itself has no call for; `None` for a handle that means nothing here.
pub fn argument_sizes(function: hipFunction_t) -> Option<Vec<usize>> {
    let function = resolve_function(function).ok()?;
    Some((0..function.entry.arg_count()).map(|index| function.entry.argument(index).1).collect())
}

/// How often the kernel behind this handle has begun to run, launches of graphs included; `None` for a handle that means nothing here.
pub fn launches(function: hipFunction_t) -> Option<u64> {
    Some(resolve_function(function).ok()?.launches.load(Ordering::Relaxed))
}

/// Address and size of a `__device__` or `__constant__` variable, which counts as device memory from here on.
pub(crate) fn global(handle: hipModule_t, name: &CStr) -> Result<(usize, usize), hipError_t> {
    let module = resolve(handle)?;
    let (address, bytes) = module.code.global(name).ok_or(hipError_t::hipErrorNotFound)?;
    let address = address as usize;
    let mut globals = module.globals.lock().unwrap_or_else(PoisonError::into_inner);
    if !globals.contains(&address) {
        memory::enter(address, bytes, module.device, memory::Kind::Global)?;
        globals.push(address);
    }
    Ok((address, bytes))
}
