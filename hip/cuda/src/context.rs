//! The one driver of this process, its devices, and which of them the calling thread uses. HIP has a current device for
//! each thread, CUDA a current context: here the context is always the device's primary one, retained at first use.

use crate::driver::{search, CUcontext, CUdevice, CUdevice_attribute, Cuda};
use crate::launch;
use crate::status::CUresult;
use crate::Unavailable;
use hip_abi::hipError_t;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The loaded driver.
pub(crate) struct Driver {
    pub cuda: Cuda,
    /// What initialisation said; every later call repeats it unless it was success.
    init: CUresult,
    devices: Vec<Device>,
}

/// A device and its primary context, null until somebody needs it.
struct Device {
    id: CUdevice,
    context: AtomicPtr<c_void>,
    retaining: Mutex<()>,
}

/// What the calling thread uses: an ordinal, and the context last made current for it.
#[derive(Clone, Copy)]
struct Current {
    ordinal: usize,
    context: *mut c_void,
}

thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new(Current { ordinal: 0, context: null_mut() }) };
}

static DRIVER: OnceLock<Result<Driver, Unavailable>> = OnceLock::new();

/// Loads and initialises the driver, once.
pub(crate) fn load() -> Result<&'static Driver, &'static Unavailable> {
    let loaded = DRIVER.get_or_init(|| {
        let cuda = Cuda::load(&search()).map_err(|error| Unavailable {
            what: "NVIDIA driver (libcuda)",
            tried: error.tried,
            advice: "Install NVIDIA's driver, or put the folder of libcuda.so.1 into LD_LIBRARY_PATH",
        })?;
        Ok(Driver::start(cuda))
    });
    loaded.as_ref()
}

/// The driver where it is loaded and initialised.
pub(crate) fn any() -> Result<&'static Driver, hipError_t> {
    match DRIVER.get() {
        Some(Ok(driver)) => driver.init.check().map(|()| driver),
        _ => Err(hipError_t::hipErrorNotInitialized),
    }
}

/// The driver, with the context of the thread's device current, and every launch asked for so far with the driver.
pub(crate) fn bound() -> Result<&'static Driver, hipError_t> {
    launch::drain();
    ahead()
}

/// The same while launches may still wait.
pub(crate) fn ahead() -> Result<&'static Driver, hipError_t> {
    let driver = any()?;
    driver.enter(CURRENT.get().ordinal)?;
    Ok(driver)
}

/// The ordinal of the thread's device.
pub(crate) fn current() -> usize {
    CURRENT.get().ordinal
}

impl Driver {
    fn start(cuda: Cuda) -> Self {
        // SAFETY: the symbol has this signature, and zero is the only flag there is.
        let mut init = unsafe { (cuda.cuInit)(0) };
        let mut devices = Vec::new();
        if init == CUresult::CUDA_SUCCESS {
            init = list_devices(&cuda, &mut devices);
        }
        Self { cuda, init, devices }
    }

    /// How many devices there are.
    pub fn count(&self) -> usize {
        self.devices.len()
    }

    fn device(&self, ordinal: usize) -> Result<&Device, hipError_t> {
        self.devices.get(ordinal).ok_or(hipError_t::hipErrorInvalidDevice)
    }

    /// The driver's own name of a device given by HIP's ordinal.
    pub fn id(&self, ordinal: c_int) -> Result<CUdevice, hipError_t> {
        self.device(position(ordinal)?).map(|device| device.id)
    }

    /// A device's primary context, retained at first use and kept for the life of the process.
    pub fn context(&self, ordinal: c_int) -> Result<CUcontext, hipError_t> {
        self.retained(self.device(position(ordinal)?)?).map(CUcontext)
    }

    fn retained(&self, device: &Device) -> Result<*mut c_void, hipError_t> {
        let known = device.context.load(Ordering::Acquire);
        if !known.is_null() {
            return Ok(known);
        }
        let _one_at_a_time = device.retaining.lock().unwrap_or_else(PoisonError::into_inner);
        let known = device.context.load(Ordering::Acquire);
        if !known.is_null() {
            return Ok(known);
        }
        let mut context = CUcontext(null_mut());
        // SAFETY: `id` came from the driver, and `context` is ours to write.
        unsafe { (self.cuda.cuDevicePrimaryCtxRetain)(&mut context, device.id) }.check()?;
        device.context.store(context.0, Ordering::Release);
        Ok(context.0)
    }

    /// Makes a device the thread's. Costs a few loads where it already is.
    pub fn enter(&self, ordinal: usize) -> Result<(), hipError_t> {
        let device = self.device(ordinal)?;
        let context = device.context.load(Ordering::Acquire);
        let current = CURRENT.get();
        if current.ordinal == ordinal && current.context == context && !context.is_null() {
            return Ok(());
        }
        let context = self.retained(device)?;
        // SAFETY: the context is retained for the life of the process.
        unsafe { (self.cuda.cuCtxSetCurrent)(CUcontext(context)) }.check()?;
        CURRENT.set(Current { ordinal, context });
        Ok(())
    }

    /// Ends everything on the thread's device. The next call starts it afresh.
    pub fn reset(&self) -> Result<(), hipError_t> {
        let device = self.device(current())?;
        let _one_at_a_time = device.retaining.lock().unwrap_or_else(PoisonError::into_inner);
        device.context.store(null_mut(), Ordering::Release);
        // SAFETY: `id` came from the driver; that nothing of the device is used afterwards is the caller's promise.
        unsafe { (self.cuda.cuDevicePrimaryCtxReset_v2)(device.id) }.check()
    }

    /// An attribute of a device given by HIP's ordinal.
    pub fn attribute(&self, attribute: CUdevice_attribute, ordinal: c_int) -> Result<c_int, hipError_t> {
        let mut value = 0;
        // SAFETY: `value` is ours to write; an attribute the driver does not know is an error, not a fault.
        unsafe { (self.cuda.cuDeviceGetAttribute)(&mut value, attribute, self.id(ordinal)?) }.check()?;
        Ok(value)
    }
}

/// HIP's ordinal as an index.
pub(crate) fn position(ordinal: c_int) -> Result<usize, hipError_t> {
    usize::try_from(ordinal).map_err(|_| hipError_t::hipErrorInvalidDevice)
}

fn list_devices(cuda: &Cuda, devices: &mut Vec<Device>) -> CUresult {
    let mut count = 0;
    // SAFETY: the driver is initialised, and `count` is ours to write.
    let mut result = unsafe { (cuda.cuDeviceGetCount)(&mut count) };
    for ordinal in 0..count {
        let mut id = 0;
        // SAFETY: the ordinal is below the count, and `id` is ours to write.
        result = unsafe { (cuda.cuDeviceGet)(&mut id, ordinal) };
        if result != CUresult::CUDA_SUCCESS {
            break;
        }
        devices.push(Device { id, context: AtomicPtr::new(null_mut()), retaining: Mutex::new(()) });
    }
    result
}
