//! Where the memory of buffers comes from: each stream keeps what it frees and uses it again at once, which is safe
//! because the stream runs in order. The system is asked only when nothing kept will do; `hipFree` waits for the whole
//! device and is avoided.

mod arena;

use crate::device::{Device, DeviceInner};
use crate::dispose::Resource;
use crate::driver::call;
use crate::error::{human_bytes, Error, Result};
use arena::{Arena, Idle, Taken};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a pool holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes that buffers have asked for and use now.
    pub live_bytes: usize,
    /// The most bytes in use at once, so far.
    pub peak_live_bytes: usize,
    /// Bytes that are held from the system, in use or kept.
    pub reserved_bytes: usize,
    /// The most bytes held from the system at once, so far.
    pub peak_reserved_bytes: usize,
    /// Allocations asked for.
    pub requests: usize,
    /// Allocations that needed nothing from the system.
    pub hits: usize,
    /// Allocations by the system (`hipMalloc`).
    pub system_allocations: usize,
    /// Memory given back to the system (`hipFree`).
    pub system_frees: usize,
}

/// The statistics as they are counted.
#[derive(Default)]
pub(crate) struct PoolCounters {
    live: AtomicUsize,
    peak_live: AtomicUsize,
    reserved: AtomicUsize,
    peak_reserved: AtomicUsize,
    requests: AtomicUsize,
    hits: AtomicUsize,
    system_allocations: AtomicUsize,
    system_frees: AtomicUsize,
}

impl PoolCounters {
    pub(crate) fn stats(&self) -> PoolStats {
        let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        PoolStats {
            live_bytes: read(&self.live),
            peak_live_bytes: read(&self.peak_live),
            reserved_bytes: read(&self.reserved),
            peak_reserved_bytes: read(&self.peak_reserved),
            requests: read(&self.requests),
            hits: read(&self.hits),
            system_allocations: read(&self.system_allocations),
            system_frees: read(&self.system_frees),
        }
    }

    fn taken(&self, bytes: usize, hit: bool) {
        let live = self.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak_live.fetch_max(live, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.hits.fetch_add(usize::from(hit), Ordering::Relaxed);
    }

    fn given(&self, bytes: usize) {
        self.live.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn reserved(&self, bytes: usize) {
        let reserved = self.reserved.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak_reserved.fetch_max(reserved, Ordering::Relaxed);
        self.system_allocations.fetch_add(1, Ordering::Relaxed);
    }

    fn freed(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        self.system_frees.fetch_add(1, Ordering::Relaxed);
    }
}

/// Who a pool works for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Stream,
    /// A capture: nothing may be freed before the graph is gone.
    Capture,
}

/// Memory for one stream, or for one stream's part of a capture.
pub(crate) struct Pool {
    device: Arc<DeviceInner>,
    owner: Owner,
    counters: PoolCounters,
    arena: Mutex<Arena>,
    /// Checked mode, in a capture: freed, and waiting for the graph to go.
    waiting: Mutex<Vec<(u64, usize)>>,
}

/// Memory in use. Dropping it gives it back to its pool.
pub(crate) struct Allocation {
    pool: Arc<Pool>,
    address: u64,
    bytes: usize,
    /// The arena's block, or none where each allocation is the system's own.
    block: Option<u32>,
}

impl Allocation {
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.pool.give_back(self.address, self.bytes, self.block);
    }
}

impl Pool {
    pub(crate) fn for_stream(device: &Device) -> Arc<Self> {
        Self::new(device, Owner::Stream)
    }

    pub(crate) fn for_capture(device: &Device) -> Arc<Self> {
        Self::new(device, Owner::Capture)
    }

    fn new(device: &Device, owner: Owner) -> Arc<Self> {
        Arc::new(Self {
            device: device.0.clone(),
            owner,
            counters: PoolCounters::default(),
            arena: Mutex::default(),
            waiting: Mutex::default(),
        })
    }

    pub(crate) fn stats(&self) -> PoolStats {
        self.counters.stats()
    }

    fn arena(&self) -> MutexGuard<'_, Arena> {
        self.arena.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, count: impl Fn(&PoolCounters)) {
        count(&self.counters);
        count(&self.device.counters);
    }

    /// Memory of at least `bytes` bytes, more than zero.
    pub(crate) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Allocation> {
        if self.device.checked {
            return self.allocate_alone(bytes);
        }
        let hit = self.arena().take(bytes as u64);
        let taken = match hit {
            Some(taken) => taken,
            None => self.grow(bytes)?,
        };
        self.count(|counters| counters.taken(bytes, hit.is_some()));
        Ok(Allocation { pool: self.clone(), address: taken.address, bytes, block: Some(taken.block) })
    }

    /// Checked mode: each buffer is an allocation of its own, so that the embedded device knows where it ends.
    fn allocate_alone(self: &Arc<Self>, bytes: usize) -> Result<Allocation> {
        let address = self.system_allocate(bytes, bytes)?.0;
        self.count(|counters| {
            counters.reserved(bytes);
            counters.taken(bytes, false);
        });
        Ok(Allocation { pool: self.clone(), address, bytes, block: None })
    }

    /// Gets a segment from the system and takes `bytes` from it. The lock is not held during calls to the runtime.
    fn grow(&self, bytes: usize) -> Result<Taken> {
        let (preferred, least, excess) = {
            let mut arena = self.arena();
            let (preferred, least) = arena.segment_for(bytes as u64);
            let may_release = self.owner == Owner::Stream && !self.device.is_capturing();
            let excess = if may_release { arena.excess(preferred, bytes as u64) } else { Vec::new() };
            (preferred, least, excess)
        };
        self.release(excess)?;
        let (address, reserved) = self.system_allocate(preferred as usize, least as usize)?;
        self.count(|counters| counters.reserved(reserved));
        let mut arena = self.arena();
        arena.add_segment(address, reserved as u64, bytes as u64);
        // The new segment holds the request, and nobody else could take from it: the lock is held since it was added.
        arena.take(bytes as u64).ok_or_else(|| Error::refused("the memory pool lost a segment; please report this"))
    }

    /// Asks the system for `preferred` bytes; when there is not enough memory, gives back all that the pools of the device
    /// keep, and asks once more for `least` bytes. Returns what it got.
    fn system_allocate(&self, preferred: usize, least: usize) -> Result<(u64, usize)> {
        self.device.bind()?;
        let first = self.malloc(preferred);
        match first {
            Ok(address) => Ok((address, preferred)),
            Err(error) if error.is_out_of_memory() && !self.device.is_capturing() => {
                self.device.release_idle()?;
                self.device.bind()?;
                let address = self.malloc(least).map_err(|error| self.explain(error))?;
                Ok((address, least))
            }
            Err(error) if error.is_out_of_memory() && least < preferred => Ok((self.malloc(least)?, least)),
            Err(error) => Err(error),
        }
    }

    fn malloc(&self, bytes: usize) -> Result<u64> {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the pointer is to a live pointer.
        unsafe {
            call!(&self.device.platform, hipMalloc(&mut pointer, bytes), || format!(
                "allocating {} on device {}",
                human_bytes(bytes),
                self.device.ordinal
            ))
        }?;
        Ok(pointer as u64)
    }

    #[cold]
    fn explain(&self, error: Error) -> Error {
        let stats = self.device.counters.stats();
        let (mut free, mut total) = (0, 0);
        // SAFETY: both pointers are to live integers.
        let code = unsafe { (self.device.platform.table().hipMemGetInfo)(&mut free, &mut total) };
        let device = if code.is_success() {
            format!("; the device has {} free of {}", human_bytes(free), human_bytes(total))
        } else {
            String::new()
        };
        error.with_detail(format!(
            "this program's buffers use {}, and nothing more could be given back{device}. Use smaller batches or a smaller model, or free buffers first",
            human_bytes(stats.live_bytes)
        ))
    }

    fn give_back(&self, address: u64, bytes: usize, block: Option<u32>) {
        self.count(|counters| counters.given(bytes));
        match (block, self.owner) {
            (Some(block), _) => {
                let mut arena = self.arena();
                arena.give(block);
                let limit = self.device.keep_limit.load(Ordering::Relaxed) as u64;
                let surplus = arena.kept().saturating_sub(limit);
                if surplus > 0 && self.owner == Owner::Stream && !self.device.is_capturing() {
                    let idle = arena.take_idle(surplus);
                    drop(arena);
                    self.device.defer(self.release(idle));
                }
            }
            (None, Owner::Stream) => self.free_alone(address, bytes),
            (None, Owner::Capture) => {
                self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push((address, bytes));
            }
        }
    }

    fn free_alone(&self, address: u64, bytes: usize) {
        self.count(|counters| counters.freed(bytes));
        self.device.dispose(Resource::Memory(address));
    }

    /// Gives all unused segments back to the system. Returns their bytes.
    pub(crate) fn release_idle(&self) -> Result<usize> {
        let idle = self.arena().take_idle(u64::MAX);
        let bytes = idle.iter().map(|idle| idle.bytes as usize).sum();
        self.release(idle)?;
        Ok(bytes)
    }

    /// Gives segments back to the system; `hipFree` waits for the device, so nothing can still be using them.
    fn release(&self, idle: Vec<Idle>) -> Result<()> {
        let mut outcome = Ok(());
        for segment in idle {
            self.count(|counters| counters.freed(segment.bytes as usize));
            outcome = outcome.and(self.device.release(Resource::Memory(segment.address)));
        }
        outcome
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (address, bytes) in std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner)) {
            self.free_alone(address, bytes);
        }
        let segments = self.arena.get_mut().unwrap_or_else(PoisonError::into_inner).drain();
        for (address, bytes) in segments {
            self.free_alone(address, bytes as usize);
        }
    }
}
