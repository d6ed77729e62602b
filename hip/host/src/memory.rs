//! Device and pinned memory: who owns which addresses. Plain allocations come from the system allocator; in checked mode they
//! come from the arena (`checked`). Whether an address may be copied from or to is decided here, at submission.

use crate::{checked, device};
use hip_abi::{hipError_t, hipMemcpyKind};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// What an entry of the registry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `hipMalloc`.
    Device,
    /// `hipHostMalloc`.
    Pinned,
    /// Host memory of the caller, `hipHostRegister`.
    Registered,
    /// A `__device__` variable of a loaded module.
    Global,
}

/// A live allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// First address.
    pub address: usize,
    /// Size as it was asked for.
    pub bytes: usize,
    /// The device that it was made on.
    pub device: usize,
    /// What it is.
    pub kind: Kind,
}

impl Allocation {
    fn contains(&self, address: usize) -> bool {
        address >= self.address && address - self.address < self.bytes
    }
}

/// AMD's runtime aligns to 256 bytes and kernels rely on it for vector loads.
const ALIGNMENT: usize = 256;
/// Pinned memory starts at a page, as a DMA engine would want it.
const PINNED_ALIGNMENT: usize = 4096;

static REGISTRY: RwLock<BTreeMap<usize, Allocation>> = RwLock::new(BTreeMap::new());

fn registered<R>(read: impl FnOnce(&BTreeMap<usize, Allocation>) -> R) -> R {
    read(&REGISTRY.read().unwrap_or_else(PoisonError::into_inner))
}

fn register<R>(write: impl FnOnce(&mut BTreeMap<usize, Allocation>) -> R) -> R {
    write(&mut REGISTRY.write().unwrap_or_else(PoisonError::into_inner))
}

/// What the program has allocated and not freed, device and pinned memory alike, in the order of addresses.
pub fn live_allocations() -> Vec<Allocation> {
    let owned = |allocation: &&Allocation| matches!(allocation.kind, Kind::Device | Kind::Pinned);
    registered(|registry| registry.values().filter(owned).copied().collect())
}

/// The allocation that an address lies in.
pub(crate) fn find(address: usize) -> Option<Allocation> {
    registered(|registry| registry.range(..=address).next_back().map(|(_, found)| *found))
        .filter(|found| found.contains(address))
}

/// The live allocation that ends last before an address, for reports of an access past an end.
pub(crate) fn before(address: usize) -> Option<Allocation> {
    registered(|registry| registry.range(..=address).next_back().map(|(_, found)| *found))
}

/// The live allocation that starts first after an address.
pub(crate) fn after(address: usize) -> Option<Allocation> {
    registered(|registry| registry.range(address..).next().map(|(_, found)| *found))
}

fn layout(bytes: usize, kind: Kind) -> Result<Layout, hipError_t> {
    let alignment = if kind == Kind::Pinned { PINNED_ALIGNMENT } else { ALIGNMENT };
    Layout::from_size_align(bytes, alignment).map_err(|_| hipError_t::hipErrorOutOfMemory)
}

/// Allocates device or pinned memory; `bytes` is not zero.
pub(crate) fn allocate(on: &device::Device, bytes: usize, kind: Kind) -> Result<usize, hipError_t> {
    let layout = layout(bytes, kind)?;
    if kind == Kind::Device {
        on.reserve(bytes as u64)?;
    }
    let address = if kind == Kind::Device && device::is_checked() {
        checked::arena().and_then(|arena| arena.allocate(bytes))
    } else {
        // SAFETY: the caller asks for at least one byte.
        Some(unsafe { std::alloc::alloc(layout) } as usize).filter(|address| *address != 0)
    };
    let Some(address) = address else {
        if kind == Kind::Device {
            on.release(bytes as u64);
        }
        return Err(hipError_t::hipErrorOutOfMemory);
    };
    register(|registry| registry.insert(address, Allocation { address, bytes, device: on.ordinal, kind }));
    Ok(address)
}

/// Frees what [`allocate`] gave. Anything else is `hipErrorInvalidValue` and changes nothing.
pub(crate) fn free(address: usize, kind: Kind) -> Result<(), hipError_t> {
    let found = take(address, kind)?;
    if kind == Kind::Device {
        if let Ok(device) = device::get(found.device as i32) {
            device.release(found.bytes as u64);
        }
    }
    match checked::arena().filter(|arena| kind == Kind::Device && arena.contains(address)) {
        Some(arena) => arena.free(found),
        // SAFETY: the registry held this address with these bytes, so it came from `alloc` with this layout, once.
        None => unsafe { std::alloc::dealloc(address as *mut u8, layout(found.bytes, kind)?) },
    }
    Ok(())
}

/// Which device owns this base address of device memory.
pub(crate) fn owner(address: usize) -> Result<usize, hipError_t> {
    let found = registered(|registry| registry.get(&address).copied());
    found.filter(|found| found.kind == Kind::Device).map(|found| found.device).ok_or(hipError_t::hipErrorInvalidValue)
}

/// Enters memory that belongs to someone else.
pub(crate) fn enter(address: usize, bytes: usize, device: usize, kind: Kind) -> Result<(), hipError_t> {
    let end = address.checked_add(bytes).ok_or(hipError_t::hipErrorInvalidValue)?;
    register(|registry| {
        let last = registry.range(..end).next_back().map(|(_, last)| *last);
        if let Some(last) = last.filter(|last| last.address + last.bytes > address) {
            let same_global = kind == Kind::Global && last.kind == Kind::Global && last.address == address;
            return if same_global { Ok(()) } else { Err(hipError_t::hipErrorHostMemoryAlreadyRegistered) };
        }
        registry.insert(address, Allocation { address, bytes, device, kind });
        Ok(())
    })
}

/// Takes an entry out by its base address.
pub(crate) fn take(address: usize, kind: Kind) -> Result<Allocation, hipError_t> {
    register(|registry| match registry.get(&address) {
        Some(found) if found.kind == kind => registry.remove(&address).ok_or(hipError_t::hipErrorInvalidValue),
        _ => Err(hipError_t::hipErrorInvalidValue),
    })
}

/// Where one end of a copy lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Device,
    Pinned,
    Host,
}

/// Where a range lies; one that leaves its allocation is an error.
pub(crate) fn place(address: usize, bytes: usize) -> Result<Place, hipError_t> {
    let end = address.checked_add(bytes).ok_or(hipError_t::hipErrorInvalidValue)?;
    let Some(found) = find(address) else { return Ok(Place::Host) };
    if end > found.address + found.bytes {
        return Err(hipError_t::hipErrorInvalidValue);
    }
    Ok(match found.kind {
        Kind::Device | Kind::Global => Place::Device,
        Kind::Pinned | Kind::Registered => Place::Pinned,
    })
}

/// Refuses a copy whose ends are not what its direction says.
pub(crate) fn check_direction(kind: hipMemcpyKind, dst: Place, src: Place) -> Result<(), hipError_t> {
    let (dst_device, src_device) = match kind {
        hipMemcpyKind::hipMemcpyHostToHost => (false, false),
        hipMemcpyKind::hipMemcpyHostToDevice => (true, false),
        hipMemcpyKind::hipMemcpyDeviceToHost => (false, true),
        hipMemcpyKind::hipMemcpyDeviceToDevice => (true, true),
        hipMemcpyKind::hipMemcpyDefault => return Ok(()),
        _ => return Err(hipError_t::hipErrorInvalidMemcpyDirection),
    };
    for (place, device) in [(dst, dst_device), (src, src_device)] {
        match (place, device) {
            // Not in any live allocation: freed, or never device memory.
            (Place::Host, true) => return Err(hipError_t::hipErrorInvalidValue),
            (Place::Device, false) => return Err(hipError_t::hipErrorInvalidMemcpyDirection),
            // Pinned memory is both.
            _ => {}
        }
    }
    Ok(())
}
