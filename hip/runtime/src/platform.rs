//! Which implementation of HIP this process uses, and why: AMD's own library, the embedded device, or, only where it is
//! asked for by name, NVIDIA's driver behind HIP's names.
//! A platform is one table of C functions; everything else in this crate is written once against that table.

use crate::device::{Device, DeviceInner};
use crate::error::{Error, Result};
use hip_abi::{hipError_t, Hip, Hiprtc, Origin, Search};
use std::ffi::c_int;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// The environment variable that forces a platform: `amd`, `host` or `cuda`; or architectures, such as `gfx1100` or
/// `gfx1100,gfx90a`, for AMD GPUs in software, a device each. `host,gfx1100` is the embedded device and an emulated GPU.
pub const PLATFORM_VARIABLE: &str = "CANDLE_ROCM_PLATFORM";

/// The implementations of HIP that this crate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlatformKind {
    /// AMD's `libamdhip64` on an AMD GPU.
    Amd,
    /// The embedded device, on CPU threads.
    Host,
    /// HIP's NVIDIA platform.
    Cuda,
}

impl PlatformKind {
    const ALL: [Self; 3] = [Self::Amd, Self::Host, Self::Cuda];

    /// The name users type: `amd`, `host` or `cuda`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amd => "amd",
            Self::Host => "host",
            Self::Cuda => "cuda",
        }
    }

    fn from_name(name: &str) -> Result<Self> {
        let wanted = name.trim().to_ascii_lowercase();
        Self::ALL.into_iter().find(|kind| kind.name() == wanted).ok_or_else(|| {
            Error::refused(format!("there is no platform named {name:?}; the platforms are amd, host and cuda, and architectures of AMD GPUs to emulate (gfx1100)"))
        })
    }
}

/// A HIP implementation that has started and reports at least one device. Cloning is cheap; a process has one of a kind.
///
/// ```
/// let platform = hip::Platform::named("host")?;
/// assert!(!platform.is_gpu());
/// println!("{}: {}", platform.name(), platform.why());
/// # Ok::<(), hip::Error>(())
/// ```
#[derive(Clone)]
pub struct Platform(pub(crate) Arc<PlatformInner>);

pub(crate) struct PlatformInner {
    pub(crate) kind: PlatformKind,
    pub(crate) hip: &'static Hip,
    why: String,
    device_count: usize,
    rtc: OnceLock<Result<&'static Hiprtc>>,
    // One live `Device` an ordinal, so that all who use an ordinal share its pools.
    devices: Mutex<Vec<Weak<DeviceInner>>>,
}

impl Platform {
    /// The platform to use: what `CANDLE_ROCM_PLATFORM` names; otherwise AMD's, when its library loads and reports a
    /// device; otherwise the embedded device, with one warning: in the log, or on standard error where no logger
    /// takes warnings. `CANDLE_ROCM_PLATFORM=amd` refuses the embedded device.
    pub fn detect() -> Result<Self> {
        match Self::asked_for() {
            Some(name) => Self::by_name(&name, &format!("{PLATFORM_VARIABLE}={name} asks for it")),
            None => Self::automatic(),
        }
    }

    /// What `CANDLE_ROCM_PLATFORM` names, if anything.
    pub fn asked_for() -> Option<String> {
        std::env::var(PLATFORM_VARIABLE).ok().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
    }

    /// The platform of that name, `amd`, `host` or `cuda`, or AMD GPUs in software by their architectures (`gfx1100,gfx90a`: two
    /// devices; `host,gfx1100`: the embedded device and one). One that cannot start is an error that says what was tried.
    pub fn named(name: &str) -> Result<Self> {
        Self::by_name(name, "the program asked for it")
    }

    fn by_name(name: &str, why: &str) -> Result<Self> {
        if name.split([',', ';', ' ']).any(|part| part.trim().starts_with("gfx")) {
            // Emulated GPUs are devices of the embedded platform; everything but their code is shared.
            let targets = hip_host::Target::list(name).map_err(Error::refused)?;
            let from_env = hip_host::Options::from_env().map_err(Error::refused)?;
            let options = hip_host::Options { devices: targets.len(), targets, ..from_env };
            hip_host::configure(options).map_err(|why| Error::refused(format!("{name} cannot be emulated: {why}")))?;
            return Self::start(PlatformKind::Host, why);
        }
        Self::start(PlatformKind::from_name(name)?, why)
    }

    fn automatic() -> Result<Self> {
        static WARNED: AtomicBool = AtomicBool::new(false);
        match Self::start(PlatformKind::Amd, "its library loads and reports a device") {
            Ok(platform) => Ok(platform),
            Err(no_gpu) => {
                if !WARNED.swap(true, Ordering::Relaxed) {
                    warn(&format!(
                        "no AMD GPU can be used, so kernels run on the CPU, on the embedded device: {no_gpu}. {PLATFORM_VARIABLE}=amd makes that an error, {PLATFORM_VARIABLE}=host leaves this word out"
                    ));
                }
                Self::start(PlatformKind::Host, &format!("no AMD GPU can be used: {no_gpu}"))
            }
        }
    }

    /// The process's platform of this kind, started on first use. A failure is not kept: a later call tries again.
    fn start(kind: PlatformKind, why: &str) -> Result<Self> {
        static STARTED: Mutex<[Option<Platform>; 3]> = Mutex::new([None, None, None]);
        let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut started[kind as usize];
        if let Some(platform) = slot {
            return Ok(platform.clone());
        }
        let platform = Self::open(kind, why)?;
        Ok(slot.insert(platform).clone())
    }

    /// Starts a platform of its own, outside the process-wide ones: for tests of starting itself.
    #[doc(hidden)]
    pub fn open(kind: PlatformKind, why: &str) -> Result<Self> {
        match kind {
            PlatformKind::Amd => Self::with_table(kind, amd_table()?, why),
            PlatformKind::Host => {
                hip_host::options()
                    .map_err(|why| Error::refused(format!("the embedded device cannot start: {why}")))?;
                Self::with_table(kind, hip_host::table(), why)
            }
            PlatformKind::Cuda => {
                let table = hip_cuda::table().map_err(|why| Error::refused(why.to_string()))?;
                Self::with_table(kind, table, why)
            }
        }
    }

    fn with_table(kind: PlatformKind, hip: &'static Hip, why: &str) -> Result<Self> {
        let doing = || format!("starting the platform {} ({})", kind.name(), hip.origin());
        // SAFETY: hipInit takes no pointers, and may be called any number of times.
        let code = unsafe { (hip.hipInit)(0) };
        // Without a GPU AMD's library refuses already here, with one of these two; the count below says it better.
        if !code.is_success() && code != hipError_t::hipErrorNoDevice && code != hipError_t::hipErrorInvalidDevice {
            return Err(Error::hip(code, "hipInit", doing()));
        }
        let mut count: c_int = 0;
        // SAFETY: the pointer is to a live integer.
        let code = unsafe { (hip.hipGetDeviceCount)(&mut count) };
        if code == hipError_t::hipErrorNoDevice || (code.is_success() && count <= 0) {
            return Err(Error::hip(hipError_t::hipErrorNoDevice, "hipGetDeviceCount", doing())
                .with_detail(no_device_hint(kind)));
        }
        if !code.is_success() {
            return Err(Error::hip(code, "hipGetDeviceCount", doing()));
        }
        Ok(Self(Arc::new(PlatformInner {
            kind,
            hip,
            why: why.to_owned(),
            device_count: count as usize,
            rtc: OnceLock::new(),
            devices: Mutex::new((0..count).map(|_| Weak::new()).collect()),
        })))
    }

    /// The kind of this platform.
    pub fn kind(&self) -> PlatformKind {
        self.0.kind
    }

    /// The name of this platform: `amd`, `host` or `cuda`.
    pub fn name(&self) -> &'static str {
        self.0.kind.name()
    }

    /// Why this platform was chosen, as half a sentence.
    pub fn why(&self) -> &str {
        &self.0.why
    }

    /// True when work runs on a GPU, false on the embedded device.
    pub fn is_gpu(&self) -> bool {
        self.0.kind != PlatformKind::Host
    }

    /// Where the functions of this platform live: a library's path, or this program.
    pub fn origin(&self) -> &Origin {
        self.0.hip.origin()
    }

    /// How many devices there are. `HIP_VISIBLE_DEVICES` and `ROCR_VISIBLE_DEVICES` narrow them, as ever with HIP.
    pub fn device_count(&self) -> usize {
        self.0.device_count
    }

    /// The device of that ordinal. All who ask for an ordinal share one device and its memory pools.
    pub fn device(&self, ordinal: usize) -> Result<Device> {
        let mut devices = self.0.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let count = devices.len();
        let Some(slot) = devices.get_mut(ordinal) else {
            let there = match count {
                1 => "one device, with the ordinal 0".to_owned(),
                _ => format!("{count} devices, with the ordinals 0 to {}", count - 1),
            };
            let narrowed =
                ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"].iter().find(|name| std::env::var_os(name).is_some());
            return Err(Error::refused(format!(
                "there is no device {ordinal}: the platform {} has {there}{}",
                self.name(),
                narrowed.map_or_else(String::new, |name| format!("; {name} may hide others"))
            )));
        };
        if let Some(device) = slot.upgrade() {
            return Ok(Device(device));
        }
        let device = Arc::new(DeviceInner::open(self.clone(), ordinal)?);
        *slot = Arc::downgrade(&device);
        Ok(Device(device))
    }

    /// All devices, in order of their ordinals.
    pub fn devices(&self) -> Result<Vec<Device>> {
        (0..self.device_count()).map(|ordinal| self.device(ordinal)).collect()
    }

    /// The version of the HIP runtime as (major, minor, patch), such as (6, 3, 42131).
    pub fn runtime_version(&self) -> Result<(u32, u32, u32)> {
        version_of(self.0.hip)
    }

    /// Whether streams can be captured. HIP before 5.3 runs the kernels of modules where it should record them.
    pub fn can_capture(&self) -> bool {
        self.0.kind != PlatformKind::Amd || self.runtime_version().is_ok_and(|version| version >= (5, 3, 0))
    }

    /// The bare table of C functions, for libraries that stand on HIP and for measurements.
    pub fn table(&self) -> &'static Hip {
        self.0.hip
    }

    /// The table of the run-time compiler, loaded on first use.
    pub fn rtc_table(&self) -> Result<&'static Hiprtc> {
        let load = || match self.0.kind {
            PlatformKind::Host => Ok(hip_host::rtc_table()),
            PlatformKind::Cuda => hip_cuda::rtc_table().map_err(|why| Error::refused(why.to_string())),
            PlatformKind::Amd => amd_rtc_table(),
        };
        self.0.rtc.get_or_init(load).clone()
    }
}

impl fmt::Debug for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Platform({}, {})", self.name(), self.origin())
    }
}

/// A warning that must reach a person: in the log, or on standard error where no logger takes warnings.
#[doc(hidden)]
pub fn warn(sentence: &str) {
    match log::log_enabled!(log::Level::Warn) {
        true => log::warn!("{sentence}"),
        false => eprintln!("candle-rocm: {sentence}"),
    }
}

/// AMD's library, loaded once a process; a failure is tried again at the next call, which may have another `ROCM_PATH`.
pub(crate) fn amd_table() -> Result<&'static Hip> {
    static TABLE: OnceLock<Hip> = OnceLock::new();
    if let Some(table) = TABLE.get() {
        return Ok(table);
    }
    let table = Hip::load(&Search::default())?;
    Ok(TABLE.get_or_init(|| table))
}

/// AMD's run-time compiler, loaded once a process.
pub(crate) fn amd_rtc_table() -> Result<&'static Hiprtc> {
    static TABLE: OnceLock<Hiprtc> = OnceLock::new();
    if let Some(table) = TABLE.get() {
        return Ok(table);
    }
    let table = Hiprtc::load(&Search::default())?;
    Ok(TABLE.get_or_init(|| table))
}

/// The version of a HIP runtime as (major, minor, patch).
pub(crate) fn version_of(hip: &Hip) -> Result<(u32, u32, u32)> {
    let mut version: c_int = 0;
    // SAFETY: the pointer is to a live integer.
    let code = unsafe { (hip.hipRuntimeGetVersion)(&mut version) };
    if !code.is_success() {
        return Err(Error::hip(code, "hipRuntimeGetVersion", "asking for the version of the HIP runtime"));
    }
    let version = version.max(0) as u32;
    Ok((version / 10_000_000, version / 100_000 % 100, version % 100_000))
}

fn no_device_hint(kind: PlatformKind) -> String {
    if kind != PlatformKind::Amd {
        return "it reports no device; look at HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES".to_owned();
    }
    let kfd = std::path::Path::new("/dev/kfd");
    let driver = if !cfg!(target_os = "linux") {
        "check that AMD's driver is installed"
    } else if !kfd.exists() {
        "/dev/kfd is not there: either this machine has no AMD GPU, or its amdgpu driver is not loaded (in a container, pass --device /dev/kfd --device /dev/dri)"
    } else if std::fs::OpenOptions::new().read(true).write(true).open(kfd).is_err() {
        "/dev/kfd cannot be opened: add your user to the groups render and video, and log in again"
    } else {
        "the driver is there; look at HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES, and whether this ROCm supports the GPU"
    };
    format!("the library loads but finds no device; {driver}")
}
