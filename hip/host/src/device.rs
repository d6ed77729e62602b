//! The virtual devices: their properties, their memory account, their streams and the failures that kernels left behind.
//! They differ in ordinal and wave size only; the processor threads that execute for them are shared (`exec`).

use crate::config;
use crate::stream::Stream;
use crate::target::Target;
use hip_abi::hipError_t;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

/// Threads of a block.
pub(crate) const MAX_BLOCK_THREADS: u32 = 1024;
/// Dynamic shared memory of a block.
pub(crate) const MAX_SHARED_BYTES: u32 = 64 << 10;
/// Blocks of a grid along each axis, as AMD's GPUs have it.
pub(crate) const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// One virtual device.
pub(crate) struct Device {
    pub ordinal: usize,
    pub target: Target,
    pub wave: u32,
    /// Compute units that it reports, if it is an emulated GPU.
    pub units: u32,
    pub memory: u64,
    used: AtomicU64,
    null: OnceLock<Arc<Stream>>,
    streams: RwLock<Vec<Weak<Stream>>>,
    failure: AtomicU32,
    peers: Mutex<BTreeSet<usize>>,
}

static DEVICES: OnceLock<Result<Vec<Device>, hipError_t>> = OnceLock::new();

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// All visible devices. Fails with `hipErrorNoDevice` when none is visible and with `hipErrorNotInitialized` when the
/// configuration is unusable ([`crate::options`] has the sentence).
pub(crate) fn all() -> Result<&'static [Device], hipError_t> {
    let made = DEVICES.get_or_init(|| {
        let options = config::options().map_err(|_| hipError_t::hipErrorNotInitialized)?;
        let make = |(ordinal, (target, wave, units))| Device {
            ordinal,
            target,
            wave,
            units,
            memory: options.memory,
            used: AtomicU64::new(0),
            null: OnceLock::new(),
            streams: RwLock::default(),
            failure: AtomicU32::new(0),
            peers: Mutex::default(),
        };
        let devices: Vec<Device> = options.visible_devices().into_iter().enumerate().map(make).collect();
        if devices.is_empty() {
            return Err(hipError_t::hipErrorNoDevice);
        }
        Ok(devices)
    });
    made.as_deref().map_err(|error| *error)
}

/// The device of this ordinal.
pub(crate) fn get(ordinal: i32) -> Result<&'static Device, hipError_t> {
    usize::try_from(ordinal)
        .ok()
        .and_then(|at| all().map(|all| all.get(at)).transpose())
        .unwrap_or(Err(hipError_t::hipErrorInvalidDevice))
}

/// The device this thread has chosen.
pub(crate) fn current() -> Result<&'static Device, hipError_t> {
    // The ordinal was in range when it was set, and devices never go away.
    all().map(|devices| &devices[CURRENT.get()])
}

/// Chooses the device of this thread.
pub(crate) fn set_current(ordinal: i32) -> Result<(), hipError_t> {
    CURRENT.set(get(ordinal)?.ordinal);
    Ok(())
}

impl Device {
    /// The legacy default stream.
    pub fn null_stream(&self) -> &Arc<Stream> {
        self.null.get_or_init(|| Stream::null(self.ordinal))
    }

    /// Notes a stream, so that the device can wait for it.
    pub fn add_stream(&self, stream: &Arc<Stream>) {
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// Calls `visit` with each stream there is, the null stream excepted.
    pub fn each_stream(&self, mut visit: impl FnMut(Arc<Stream>)) {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        streams.iter().filter_map(Weak::upgrade).for_each(&mut visit);
    }

    /// Every stream, the null stream included.
    pub fn every_stream(&self) -> Vec<Arc<Stream>> {
        let mut streams = vec![self.null_stream().clone()];
        self.each_stream(|stream| streams.push(stream));
        streams
    }

    /// Waits for everything submitted to the device so far.
    pub fn wait_idle(&self) {
        for stream in self.every_stream() {
            stream.wait_submitted();
        }
    }

    /// The first failure of a kernel since it was last asked for, over all streams.
    pub fn take_failure(&self) -> Result<(), hipError_t> {
        let mut first = Ok(());
        for stream in self.every_stream() {
            first = first.and(stream.take_failure());
        }
        let left_behind = hipError_t(self.failure.swap(0, Ordering::AcqRel));
        first.and(if left_behind.is_success() { Ok(()) } else { Err(left_behind) })
    }

    /// Keeps the failure of a stream that goes away.
    pub fn leave_failure(&self, failure: hipError_t) {
        let _ = self.failure.compare_exchange(0, failure.0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Takes `bytes` from the account, if there are so many.
    pub fn reserve(&self, bytes: u64) -> Result<(), hipError_t> {
        let take = |used: u64| used.checked_add(bytes).filter(|after| *after <= self.memory);
        let taken = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        taken.map(drop).map_err(|_| hipError_t::hipErrorOutOfMemory)
    }

    /// Puts `bytes` back.
    pub fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Bytes not allocated.
    pub fn free_memory(&self) -> u64 {
        self.memory.saturating_sub(self.used.load(Ordering::Acquire))
    }

    /// Notes that this device may use the memory of `peer`; an error when it might already.
    pub fn enable_peer(&self, peer: usize) -> Result<(), hipError_t> {
        let added = self.peers.lock().unwrap_or_else(PoisonError::into_inner).insert(peer);
        if added {
            Ok(())
        } else {
            Err(hipError_t::hipErrorPeerAccessAlreadyEnabled)
        }
    }

    /// Takes that back; an error when it was not so.
    pub fn disable_peer(&self, peer: usize) -> Result<(), hipError_t> {
        let removed = self.peers.lock().unwrap_or_else(PoisonError::into_inner).remove(&peer);
        if removed {
            Ok(())
        } else {
            Err(hipError_t::hipErrorPeerAccessNotEnabled)
        }
    }

    /// What a person reads: the processor and the threads in use.
    pub fn name(&self) -> String {
        let threads = config::options().map_or(1, |options| options.threads);
        let (kind, plural) = (self.target, if threads == 1 { "" } else { "s" });
        match kind {
            Target::Host => format!("Embedded device ({}, {threads} thread{plural})", processor()),
            #[cfg(feature = "emulator")]
            Target::Amd(_) => format!("Emulated {kind} ({threads} thread{plural})"),
        }
    }

    /// The architecture that code objects must be made for.
    pub fn arch(&self) -> &'static str {
        self.target.arch(is_checked())
    }
}

/// Whether memory errors are looked for.
pub(crate) fn is_checked() -> bool {
    config::options().is_ok_and(|options| options.checked)
}

/// The processor's name as the system gives it.
fn processor() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
    })
}
