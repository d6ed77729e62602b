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

impl PoolStats {
    fn taken(&mut self, bytes: usize, hit: bool) {
        self.live_bytes += bytes;
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
        self.requests += 1;
        self.hits += usize::from(hit);
    }

    fn reserved(&mut self, bytes: usize) {
        self.reserved_bytes += bytes;
        self.peak_reserved_bytes = self.peak_reserved_bytes.max(self.reserved_bytes);
        self.system_allocations += 1;
    }

    fn freed(&mut self, bytes: usize) {
        self.reserved_bytes -= bytes;
        self.system_frees += 1;
    }
}

/// The same for all pools of a device together. Every allocation counts here, and each instruction that other processors must see
/// at once costs as much as twenty others: so what is rare is counted, and what is not is worked out.
#[derive(Default)]
pub(crate) struct PoolCounters {
    live: AtomicUsize,
    peak_live: AtomicUsize,
    reserved: AtomicUsize,
    peak_reserved: AtomicUsize,
    requests: AtomicUsize,
    misses: AtomicUsize,
    system_allocations: AtomicUsize,
    system_frees: AtomicUsize,
}

impl PoolCounters {
    pub(crate) fn stats(&self) -> PoolStats {
        let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let (misses, requests) = (read(&self.misses), read(&self.requests));
        PoolStats {
            live_bytes: read(&self.live),
            peak_live_bytes: read(&self.peak_live),
            reserved_bytes: read(&self.reserved),
            peak_reserved_bytes: read(&self.peak_reserved),
            requests,
            // Another thread may be about to count.
            hits: requests.saturating_sub(misses),
            system_allocations: read(&self.system_allocations),
            system_frees: read(&self.system_frees),
        }
    }

    fn taken(&self, bytes: usize, hit: bool) {
        raise(&self.peak_live, self.live.fetch_add(bytes, Ordering::Relaxed) + bytes);
        self.requests.fetch_add(1, Ordering::Relaxed);
        if !hit {
            self.misses.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn reserved(&self, bytes: usize) {
        raise(&self.peak_reserved, self.reserved.fetch_add(bytes, Ordering::Relaxed) + bytes);
        self.system_allocations.fetch_add(1, Ordering::Relaxed);
    }

    fn freed(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        self.system_frees.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes a peak at least `value`.
fn raise(peak: &AtomicUsize, value: usize) {
    if value > peak.load(Ordering::Relaxed) {
        peak.fetch_max(value, Ordering::Relaxed);
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
    kept: Mutex<Kept>,
    /// Checked mode, in a capture: freed, and waiting for the graph to go.
    waiting: Mutex<Vec<(u64, usize)>>,
}

/// What the lock of a pool protects.
#[derive(Default)]
struct Kept {
    arena: Arena,
    stats: PoolStats,
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
        Arc::new(Self { device: device.0.clone(), owner, kept: Mutex::default(), waiting: Mutex::default() })
    }

    pub(crate) fn stats(&self) -> PoolStats {
        self.kept().stats
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory of at least `bytes` bytes, more than zero.
    pub(crate) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Allocation> {
        if self.device.checked {
            return self.allocate_alone(bytes);
        }
        let hit = {
            let mut kept = self.kept();
            let hit = kept.arena.take(bytes as u64);
            if hit.is_some() {
                kept.stats.taken(bytes, true);
            }
            hit
        };
        let taken = match hit {
            Some(taken) => taken,
            None => self.grow(bytes)?,
        };
        self.device.counters.taken(bytes, hit.is_some());
        Ok(Allocation { pool: self.clone(), address: taken.address, bytes, block: Some(taken.block) })
    }

    /// Checked mode: each buffer is an allocation of its own, so that the embedded device knows where it ends.
    fn allocate_alone(self: &Arc<Self>, bytes: usize) -> Result<Allocation> {
        let address = self.system_allocate(bytes, bytes)?.0;
        let mut kept = self.kept();
        kept.stats.reserved(bytes);
        kept.stats.taken(bytes, false);
        drop(kept);
        self.device.counters.reserved(bytes);
        self.device.counters.taken(bytes, false);
        Ok(Allocation { pool: self.clone(), address, bytes, block: None })
    }

    /// Gets a segment from the system and takes `bytes` from it. The lock is not held during calls to the runtime.
    fn grow(&self, bytes: usize) -> Result<Taken> {
        let (preferred, least, excess) = {
            let arena = &mut self.kept().arena;
            let (preferred, least) = arena.segment_for(bytes as u64);
            let may_release = self.owner == Owner::Stream && !self.device.is_capturing();
            let excess = if may_release { arena.excess(preferred, bytes as u64) } else { Vec::new() };
            (preferred, least, excess)
        };
        self.release(excess)?;
        let (address, reserved) = self.system_allocate(preferred as usize, least as usize)?;
        self.device.counters.reserved(reserved);
        let mut kept = self.kept();
        kept.stats.reserved(reserved);
        kept.stats.taken(bytes, false);
        kept.arena.add_segment(address, reserved as u64, bytes as u64);
        // The new segment holds the request, and nobody else could take from it: the lock is held since it was added.
        kept.arena
            .take(bytes as u64)
            .ok_or_else(|| Error::refused("the memory pool lost a segment; please report this"))
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
            Err(error) if error.is_out_of_memory() => {
                // During a capture nothing can be given back, because hipFree waits for the device.
                let again = if least < preferred { self.malloc(least) } else { Err(error) };
                let address = again.map_err(|error| {
                    self.explain(error).with_detail(
                        "a capture is going on, during which the pools give nothing back: run the work once before it is captured, or call Device::trim_pools first",
                    )
                })?;
                Ok((address, least))
            }
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
        self.device.counters.live.fetch_sub(bytes, Ordering::Relaxed);
        let mut kept = self.kept();
        kept.stats.live_bytes -= bytes;
        match (block, self.owner) {
            (Some(block), _) => {
                kept.arena.give(block);
                let limit = self.device.keep_limit.load(Ordering::Relaxed) as u64;
                let surplus = kept.arena.kept().saturating_sub(limit);
                if surplus > 0 && self.owner == Owner::Stream && !self.device.is_capturing() {
                    let idle = kept.arena.take_idle(surplus);
                    drop(kept);
                    self.device.defer(self.release(idle));
                }
            }
            (None, Owner::Stream) => {
                kept.stats.freed(bytes);
                drop(kept);
                self.free_alone(address, bytes);
            }
            (None, Owner::Capture) => {
                self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push((address, bytes));
            }
        }
    }

    fn free_alone(&self, address: u64, bytes: usize) {
        self.device.counters.freed(bytes);
        self.device.dispose(Resource::Memory(address));
    }

    /// Gives all unused segments back to the system. Returns their bytes.
    pub(crate) fn release_idle(&self) -> Result<usize> {
        let idle = self.kept().arena.take_idle(u64::MAX);
        let bytes = idle.iter().map(|idle| idle.bytes as usize).sum();
        self.release(idle)?;
        Ok(bytes)
    }

    /// Gives segments back to the system; `hipFree` waits for the device, so nothing can still be using them.
    fn release(&self, idle: Vec<Idle>) -> Result<()> {
        let mut outcome = Ok(());
        for segment in idle {
            self.kept().stats.freed(segment.bytes as usize);
            self.device.counters.freed(segment.bytes as usize);
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
        let segments = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner).arena.drain();
        for (address, bytes) in segments {
            self.free_alone(address, bytes as usize);
        }
    }
}
