//! A device: what it is, how much memory it has, and the errors of things dropped on it. It makes streams and modules;
//! memory belongs to streams, because our pools are ordered by them.

use crate::driver::call;
use crate::error::{Error, Result};
use crate::platform::{Platform, PlatformKind};
use crate::pool::{PoolCounters, PoolStats};
use crate::stream::{Stream, StreamInner};
use hip_abi::{hipDeviceAttribute_t, hipDeviceProp_tR0000, hipDeviceProp_tR0600};
use std::ffi::{c_char, c_int, CStr};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A device of a platform. Cloning is cheap, and all clones are the same device.
///
/// ```
/// let device = hip::Platform::named("host")?.device(0)?;
/// println!("{} ({}, wave {})", device.name(), device.arch(), device.wave_size());
/// assert!(device.memory()?.total > 0);
/// # Ok::<(), hip::Error>(())
/// ```
#[derive(Clone)]
pub struct Device(pub(crate) Arc<DeviceInner>);

pub(crate) struct DeviceInner {
    pub(crate) platform: Platform,
    pub(crate) ordinal: c_int,
    name: String,
    arch: String,
    limits: Limits,
    /// Every buffer is an allocation of its own, so that the embedded device can tell them apart.
    pub(crate) checked: bool,
    pub(crate) counters: PoolCounters,
    pub(crate) keep_limit: AtomicUsize,
    streams: Mutex<Vec<Weak<StreamInner>>>,
    /// Captures going on, on any stream: meanwhile nothing is given back, because `hipFree` waits for the device.
    captures: AtomicUsize,
    has_deferred: AtomicBool,
    deferred: Mutex<Vec<Error>>,
}

/// What a device can hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Lanes of a wave: 32 or 64.
    pub wave_size: u32,
    /// Compute units (multiprocessors).
    pub compute_units: u32,
    /// Threads a block may have in all.
    pub threads_per_block: u32,
    /// Threads a compute unit holds at once.
    pub threads_per_compute_unit: u32,
    /// Threads a block may have along x, y and z.
    pub block: [u32; 3],
    /// Blocks a grid may have along x, y and z.
    pub grid: [u32; 3],
    /// Shared memory a block may use, static and dynamic together.
    pub shared_bytes_per_block: u32,
    /// Bytes of the last-level cache, zero where it is not told.
    pub l2_cache_bytes: u32,
    /// Core clock in kHz, zero where it is not told.
    pub clock_khz: u32,
    /// Memory clock in kHz, zero where it is not told.
    pub memory_clock_khz: u32,
    /// Width of the memory bus in bits, zero where it is not told.
    pub memory_bus_bits: u32,
    /// True for a GPU that shares the CPU's memory.
    pub integrated: bool,
}

/// Memory of a device in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Free now, for everyone on the device. What the pools keep counts as used.
    pub free: usize,
    /// There in all.
    pub total: usize,
}

impl Device {
    /// The device of that ordinal on the detected platform.
    pub fn new(ordinal: usize) -> Result<Self> {
        Platform::detect()?.device(ordinal)
    }

    /// The platform of this device.
    pub fn platform(&self) -> &Platform {
        &self.0.platform
    }

    /// The number of this device on its platform.
    pub fn ordinal(&self) -> usize {
        self.0.ordinal as usize
    }

    /// The name, such as `AMD Radeon RX 7900 XTX`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The instruction set with its features, such as `gfx1100` or `gfx90a:sramecc+:xnack-`; `host` on the embedded device.
    pub fn arch(&self) -> &str {
        &self.0.arch
    }

    /// The instruction set without its features, such as `gfx90a`.
    pub fn base_arch(&self) -> &str {
        self.0.arch.split(':').next().unwrap_or_default()
    }

    /// Lanes of a wave: 32 or 64.
    pub fn wave_size(&self) -> u32 {
        self.0.limits.wave_size
    }

    /// Compute units (multiprocessors).
    pub fn compute_units(&self) -> u32 {
        self.0.limits.compute_units
    }

    /// What the device can hold at once.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// True for a GPU, emulated ones included; false for the embedded device, whose kernels are code for the processor.
    pub fn is_gpu(&self) -> bool {
        self.platform().is_gpu() || self.is_emulated()
    }

    /// True for an AMD GPU in software: its kernels are AMD's machine code.
    pub fn is_emulated(&self) -> bool {
        self.platform().kind() == PlatformKind::Host && self.arch().starts_with("gfx")
    }

    /// True on an embedded device or an emulated GPU in checked mode, where every buffer is an allocation of its own.
    pub fn is_checked(&self) -> bool {
        self.0.checked
    }

    /// Free and total memory, as the runtime sees them now.
    pub fn memory(&self) -> Result<MemoryInfo> {
        self.0.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both pointers are to live integers.
        unsafe { call!(&self.0.platform, hipMemGetInfo(&mut free, &mut total), || "asking how much memory is free") }?;
        Ok(MemoryInfo { free, total })
    }

    /// Keeps a failure for the next call on this device: for a `Drop`, and for other places that cannot return it.
    pub fn defer(&self, outcome: Result<()>) {
        self.0.defer(outcome);
    }

    /// Makes this the calling thread's device, for libraries beside this crate that expect their caller to do so.
    pub fn make_current(&self) -> Result<()> {
        self.0.bind()
    }

    /// A new stream. Work on one stream runs in order; streams run beside one another.
    pub fn new_stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    /// Waits for all work on this device, of all its streams.
    pub fn synchronize(&self) -> Result<()> {
        self.0.bind()?;
        // SAFETY: the call takes nothing.
        unsafe { call!(&self.0.platform, hipDeviceSynchronize(), || format!("waiting for device {}", self.ordinal())) }
    }

    /// True when kernels of this device may access memory of `peer` directly.
    pub fn can_access(&self, peer: &Device) -> Result<bool> {
        self.0.bind()?;
        let mut can = 0;
        // SAFETY: the pointer is to a live integer.
        unsafe {
            call!(&self.0.platform, hipDeviceCanAccessPeer(&mut can, self.0.ordinal, peer.0.ordinal), || format!(
                "asking whether device {} can access device {}",
                self.ordinal(),
                peer.ordinal()
            ))
        }?;
        Ok(can != 0)
    }

    /// Lets kernels of this device access memory of `peer`. Asking again does no harm.
    pub fn enable_access(&self, peer: &Device) -> Result<()> {
        self.0.bind()?;
        // SAFETY: the call takes no pointers.
        let outcome = unsafe {
            call!(&self.0.platform, hipDeviceEnablePeerAccess(peer.0.ordinal, 0), || format!(
                "letting device {} access device {}",
                self.ordinal(),
                peer.ordinal()
            ))
        };
        match outcome {
            Err(error) if error.code() == Some(hip_abi::hipError_t::hipErrorPeerAccessAlreadyEnabled) => Ok(()),
            outcome => outcome,
        }
    }

    /// What the pools of all streams of this device hold and have done.
    pub fn pool_stats(&self) -> PoolStats {
        self.0.counters.stats()
    }

    /// The most bytes that each stream's pool keeps beyond what is in use; what is freed above it goes back to the
    /// system. Unlimited by default: a pool limits itself to 1.4 times its peak of bytes in use.
    pub fn set_pool_keep_limit(&self, bytes: usize) {
        self.0.keep_limit.store(bytes, Ordering::Relaxed);
    }

    /// Makes something that needs memory of the device beside the pools (a module, a library's handle). Where that runs out of
    /// memory, gives back what the pools keep unused and tries once more.
    pub fn with_memory_retry<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        match attempt() {
            Err(error) if error.is_out_of_memory() && !self.0.is_capturing() => {
                self.0.bind_quietly()?;
                self.0.release_idle()?;
                self.0.bind_quietly()?;
                attempt()
            }
            outcome => outcome,
        }
    }

    /// Gives all memory that the pools keep unused back to the system. Waits for the device. Returns the bytes.
    pub fn trim_pools(&self) -> Result<usize> {
        self.0.bind()?;
        if self.0.is_capturing() {
            return Err(Error::refused(
                "the pools cannot give memory back while a stream is being captured; do it after",
            ));
        }
        self.0.release_idle()
    }
}

impl DeviceInner {
    pub(crate) fn open(platform: Platform, ordinal: usize) -> Result<Self> {
        let ordinal = c_int::try_from(ordinal)
            .map_err(|_| Error::refused(format!("device ordinal {ordinal} is larger than HIP can name")))?;
        let doing = || format!("opening device {ordinal}");
        // SAFETY: the call takes no pointers.
        unsafe { call!(&platform, hipSetDevice(ordinal), doing) }?;
        let mut name = [0 as c_char; 256];
        // SAFETY: the buffer is as long as we say.
        unsafe { call!(&platform, hipDeviceGetName(name.as_mut_ptr(), name.len() as c_int, ordinal), doing) }?;
        let attribute = |which| {
            let mut value: c_int = 0;
            // SAFETY: the pointer is to a live integer.
            unsafe { call!(&platform, hipDeviceGetAttribute(&mut value, which, ordinal), doing) }?;
            Ok::<u32, Error>(value.max(0) as u32)
        };
        use hipDeviceAttribute_t as A;
        let limits = Limits {
            wave_size: attribute(A::hipDeviceAttributeWarpSize)?,
            compute_units: attribute(A::hipDeviceAttributeMultiprocessorCount)?,
            threads_per_block: attribute(A::hipDeviceAttributeMaxThreadsPerBlock)?,
            threads_per_compute_unit: attribute(A::hipDeviceAttributeMaxThreadsPerMultiProcessor)?,
            block: [
                attribute(A::hipDeviceAttributeMaxBlockDimX)?,
                attribute(A::hipDeviceAttributeMaxBlockDimY)?,
                attribute(A::hipDeviceAttributeMaxBlockDimZ)?,
            ],
            grid: [
                attribute(A::hipDeviceAttributeMaxGridDimX)?,
                attribute(A::hipDeviceAttributeMaxGridDimY)?,
                attribute(A::hipDeviceAttributeMaxGridDimZ)?,
            ],
            shared_bytes_per_block: attribute(A::hipDeviceAttributeMaxSharedMemoryPerBlock)?,
            l2_cache_bytes: attribute(A::hipDeviceAttributeL2CacheSize)?,
            clock_khz: attribute(A::hipDeviceAttributeClockRate)?,
            memory_clock_khz: attribute(A::hipDeviceAttributeMemoryClockRate)?,
            memory_bus_bits: attribute(A::hipDeviceAttributeMemoryBusWidth)?,
            integrated: attribute(A::hipDeviceAttributeIntegrated)? != 0,
        };
        let arch = arch_name(&platform, ordinal)?;
        Ok(Self {
            checked: platform.kind() == PlatformKind::Host && hip_host::options().is_ok_and(|options| options.checked),
            name: text(&name),
            arch,
            limits,
            ordinal,
            counters: PoolCounters::default(),
            keep_limit: AtomicUsize::new(usize::MAX),
            streams: Mutex::new(Vec::new()),
            captures: AtomicUsize::new(0),
            has_deferred: AtomicBool::new(false),
            deferred: Mutex::new(Vec::new()),
            platform,
        })
    }

    /// Makes this the calling thread's device, after handing out an error that something dropped has left here.
    /// Nothing is remembered between calls: other code on this thread may change the current device at any time.
    #[inline]
    pub(crate) fn bind(&self) -> Result<()> {
        self.report_deferred()?;
        self.bind_quietly()
    }

    /// Hands out an error that something dropped has left here, if there is one.
    #[inline]
    pub(crate) fn report_deferred(&self) -> Result<()> {
        if !self.has_deferred.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.take_deferred().map_or(Ok(()), Err)
    }

    /// As `bind`, but leaves errors of dropped things where they are: for use while dropping.
    pub(crate) fn bind_quietly(&self) -> Result<()> {
        // SAFETY: the call takes no pointers.
        unsafe { call!(&self.platform, hipSetDevice(self.ordinal), || format!("switching to device {}", self.ordinal)) }
    }

    fn take_deferred(&self) -> Option<Error> {
        let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
        let first = if deferred.is_empty() { None } else { Some(deferred.remove(0)) };
        self.has_deferred.store(!deferred.is_empty(), Ordering::Relaxed);
        first
    }

    /// Keeps an error that happened in a `drop` for the next call on this device.
    pub(crate) fn defer(&self, outcome: Result<()>) {
        if let Err(error) = outcome {
            let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
            deferred.push(error.deferred());
            self.has_deferred.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_capturing(&self) -> bool {
        self.captures.load(Ordering::Acquire) > 0
    }

    pub(crate) fn begin_capture(&self) {
        self.captures.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn end_capture(&self) {
        self.captures.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn register(&self, stream: &Arc<StreamInner>) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|known| known.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// Gives back to the system what the pools of all streams keep unused. Expects this device to be current.
    pub(crate) fn release_idle(&self) -> Result<usize> {
        let streams: Vec<_> = {
            let known = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            known.iter().filter_map(Weak::upgrade).collect()
        };
        let mut released = 0;
        for stream in streams {
            released += stream.pool.release_idle()?;
        }
        Ok(released)
    }
}

impl Drop for DeviceInner {
    fn drop(&mut self) {
        // Nobody can call on this device any more: the log is the last place where its errors can still be seen.
        while let Some(error) = self.take_deferred() {
            log::error!("device {} was closed with an error that no call has reported: {error}", self.ordinal);
        }
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} {}, {}, {})", self.0.platform.name(), self.ordinal(), self.name(), self.arch())
    }
}

/// The instruction set's name. Its place in the properties changed with ROCm 6, which gave the call a new name.
fn arch_name(platform: &Platform, ordinal: c_int) -> Result<String> {
    let doing = || format!("asking for the architecture of device {ordinal}");
    if let Some(get) = platform.table().hipGetDevicePropertiesR0600 {
        let mut properties = Box::new(hipDeviceProp_tR0600::zeroed());
        // SAFETY: the structure has the size that this version of the call fills.
        let code = unsafe { get(&mut *properties, ordinal) };
        if !code.is_success() {
            return Err(crate::driver::failed(platform, code, "hipGetDevicePropertiesR0600", doing()));
        }
        return Ok(text(&properties.gcnArchName));
    }
    let Some(get) = platform.table().hipGetDeviceProperties else {
        return Err(Error::refused(format!("{} cannot tell the architecture of its devices", platform.origin())));
    };
    let mut properties = Box::new(hipDeviceProp_tR0000::zeroed());
    // SAFETY: the structure has the size that this version of the call fills.
    let code = unsafe { get(&mut *properties, ordinal) };
    if !code.is_success() {
        return Err(crate::driver::failed(platform, code, "hipGetDeviceProperties", doing()));
    }
    Ok(text(&properties.gcnArchName))
}

/// The text of a C buffer, up to its first zero.
fn text(buffer: &[c_char]) -> String {
    // SAFETY: c_char and u8 have the same size and every value is valid for both.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), buffer.len()) };
    match CStr::from_bytes_until_nul(bytes) {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}
