//! Device memory: what was allocated, where it lies in the process, and which GPUs may touch it.
//!
//! Memory of GPUs is a range of one sparse memory file, which the runtime maps at the device's address. Host memory that is made
//! known to a GPU lies where it lies; registered later, it has a device address of its own, which only tables translate.

use crate::abi::{flags, AllocMemory};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// Pages of the memory file are given out in steps of this.
const GRANULE: u64 = 64 << 10;
/// Bytes of the sparse file that holds all of it. Offsets are never used again, so this is also what can be asked for in total.
pub const FILE_BYTES: u64 = 1 << 60;
/// Offsets in the driver's file.
pub const DOORBELL_OFFSET: u64 = 1 << 32;
pub const MMIO_OFFSET: u64 = 2 << 32;
pub const EVENT_PAGE_OFFSET: u64 = 3 << 32;

/// One allocation.
#[derive(Clone, Debug)]
struct Object {
    gpu: usize,
    address: u64,
    bytes: u64,
    /// Where the process sees it.
    host: u64,
    /// Its place in the memory file.
    offset: Option<u64>,
    flags: u32,
    /// A bit for each GPU that may touch it.
    mapped: u64,
}

/// A range that a GPU may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub start: u64,
    pub end: u64,
    /// Where the process sees `start`.
    pub host: u64,
    pub writable: bool,
}

impl Range {
    fn holds(&self, address: u64, bytes: u64) -> bool {
        address >= self.start && address <= self.end && self.end - address >= bytes
    }
}

/// What a GPU may touch, sorted. A new one is made when something changes.
#[derive(Debug, Default)]
pub struct Ranges(Vec<Range>);

impl Ranges {
    /// The range that an address lies in.
    pub fn find(&self, address: u64) -> Option<Range> {
        let behind = self.0.partition_point(|range| range.start <= address);
        let range = self.0[..behind].last()?;
        (address < range.end).then_some(*range)
    }

    /// The last range that starts at or below an address, for reports.
    pub fn below(&self, address: u64) -> Option<Range> {
        let behind = self.0.partition_point(|range| range.start <= address);
        self.0[..behind].last().copied()
    }
}

/// All memory of a process.
pub struct Memory {
    file: OwnedFd,
    capacity: Vec<u64>,
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    objects: HashMap<u64, Object>,
    next_handle: u64,
    next_offset: u64,
    used: Vec<u64>,
    /// By GPU, made anew when `None`.
    ranges: Vec<Option<Arc<Ranges>>>,
}

impl Memory {
    /// Memory of GPUs with these sizes.
    pub fn new(file: OwnedFd, capacity: Vec<u64>) -> Self {
        let tables = Tables {
            next_handle: 1,
            next_offset: GRANULE,
            used: vec![0; capacity.len()],
            ranges: vec![None; capacity.len()],
            ..Tables::default()
        };
        Self { file, capacity, tables: Mutex::new(tables) }
    }

    /// Bytes that a GPU has left.
    pub fn available(&self, gpu: usize) -> u64 {
        self.capacity[gpu].saturating_sub(self.lock().used[gpu])
    }

    /// A new allocation. The error is a number of `errno`.
    pub fn allocate(&self, gpu: usize, request: &mut AllocMemory) -> Result<(), i32> {
        if request.bytes == 0 || request.address.checked_add(request.bytes).is_none() {
            return Err(libc::EINVAL);
        }
        let mut tables = self.lock();
        let mut object = Object {
            gpu,
            address: request.address,
            bytes: request.bytes,
            host: request.address,
            offset: None,
            flags: request.flags,
            mapped: 0,
        };
        if request.flags & flags::USERPTR != 0 {
            object.host = request.mmap_offset;
        } else if request.flags & flags::DOORBELL != 0 {
            request.mmap_offset = DOORBELL_OFFSET;
        } else if request.flags & flags::MMIO_REMAP != 0 {
            request.mmap_offset = MMIO_OFFSET;
        } else {
            if request.flags & flags::VRAM != 0 {
                let used = tables.used[gpu].checked_add(request.bytes).filter(|&used| used <= self.capacity[gpu]);
                tables.used[gpu] = used.ok_or(libc::ENOMEM)?;
            }
            let offset = tables.next_offset;
            let end = request.bytes.checked_next_multiple_of(GRANULE).and_then(|bytes| offset.checked_add(bytes));
            let Some(end) = end.filter(|&end| end <= FILE_BYTES) else {
                if request.flags & flags::VRAM != 0 {
                    tables.used[gpu] -= request.bytes;
                }
                return Err(libc::ENOMEM);
            };
            tables.next_offset = end;
            object.offset = Some(offset);
            request.mmap_offset = offset;
        }
        let handle = tables.next_handle;
        tables.next_handle += 1;
        tables.objects.insert(handle, object);
        request.handle = handle;
        Ok(())
    }

    /// Gives an allocation back.
    pub fn free(&self, handle: u64) -> Result<(), i32> {
        let mut tables = self.lock();
        let object = tables.objects.remove(&handle).ok_or(libc::EINVAL)?;
        if object.flags & flags::VRAM != 0 && object.offset.is_some() {
            tables.used[object.gpu] -= object.bytes;
        }
        if object.mapped != 0 {
            tables.ranges.iter_mut().for_each(|ranges| *ranges = None);
        }
        if let Some(offset) = object.offset {
            let bytes = object.bytes.next_multiple_of(4096);
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: a call with numbers only; the range of the file belongs to this allocation alone.
            unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset as i64, bytes as i64) };
        }
        Ok(())
    }

    /// Lets GPUs touch an allocation.
    pub fn map(&self, handle: u64, gpus: u64) -> Result<(), i32> {
        let mut tables = self.lock();
        let object = tables.objects.get_mut(&handle).ok_or(libc::EINVAL)?;
        let first = object.mapped == 0;
        object.mapped |= gpus;
        if let (true, Some(offset)) = (first && is_hidden(object.flags), object.offset) {
            // The runtime only reserves addresses for memory that the host does not see; kernels here do.
            // SAFETY: the range of addresses was reserved by the runtime for this allocation and nothing else.
            let mapped = unsafe {
                libc::mmap(
                    object.address as *mut libc::c_void,
                    object.bytes as usize,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED | libc::MAP_FIXED,
                    self.file.as_raw_fd(),
                    offset as i64,
                )
            };
            if mapped == libc::MAP_FAILED {
                object.mapped = 0;
                return Err(libc::ENOMEM);
            }
        }
        tables.ranges.iter_mut().for_each(|ranges| *ranges = None);
        Ok(())
    }

    /// GPUs may no longer touch an allocation.
    pub fn unmap(&self, handle: u64, gpus: u64) -> Result<(), i32> {
        let mut tables = self.lock();
        tables.objects.get_mut(&handle).ok_or(libc::EINVAL)?.mapped &= !gpus;
        tables.ranges.iter_mut().for_each(|ranges| *ranges = None);
        Ok(())
    }

    /// What a GPU may touch now.
    pub fn ranges(&self, gpu: usize) -> Arc<Ranges> {
        let mut tables = self.lock();
        if let Some(ranges) = &tables.ranges[gpu] {
            return ranges.clone();
        }
        let seen = |object: &&Object| object.mapped >> gpu & 1 != 0;
        let sorted: BTreeMap<u64, Range> = tables
            .objects
            .values()
            .filter(seen)
            .map(|object| {
                let range = Range {
                    start: object.address,
                    end: object.address + object.bytes,
                    host: object.host,
                    writable: object.flags & flags::WRITABLE != 0,
                };
                (object.address, range)
            })
            .collect();
        let ranges = Arc::new(Ranges(sorted.into_values().collect()));
        tables.ranges[gpu] = Some(ranges.clone());
        ranges
    }

    /// Where the process sees `bytes` at a GPU's address.
    pub fn host(&self, gpu: usize, address: u64, bytes: u64) -> Option<u64> {
        let range = self.ranges(gpu).find(address).filter(|range| range.holds(address, bytes))?;
        Some(range.host + (address - range.start))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the runtime keeps the host from this memory.
fn is_hidden(flags: u32) -> bool {
    flags & flags::VRAM != 0 && flags & flags::PUBLIC == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::memory_file;

    fn memory() -> Memory {
        Memory::new(memory_file("test", 1 << 40).unwrap(), vec![1 << 20, 1 << 20])
    }

    fn request(address: u64, bytes: u64, flags: u32) -> AllocMemory {
        AllocMemory { address, bytes, handle: 0, mmap_offset: 0x5000, gpu_id: 0, flags }
    }

    #[test]
    fn memory_ends_and_comes_back() {
        let memory = memory();
        let mut first = request(0x10000, 1 << 19, flags::VRAM | flags::PUBLIC);
        memory.allocate(0, &mut first).unwrap();
        let mut second = request(0x90000, (1 << 19) + 1, flags::VRAM | flags::PUBLIC);
        assert_eq!(memory.allocate(0, &mut second), Err(libc::ENOMEM));
        memory.allocate(1, &mut second).unwrap();
        memory.free(first.handle).unwrap();
        assert_eq!(memory.available(0), 1 << 20);
        assert_eq!(memory.free(first.handle), Err(libc::EINVAL));
    }

    #[test]
    fn what_no_file_can_hold_is_refused() {
        let memory = memory();
        for bytes in [u64::MAX, u64::MAX - 4096, FILE_BYTES] {
            assert_eq!(memory.allocate(0, &mut request(0, bytes, flags::WRITABLE)), Err(libc::ENOMEM), "{bytes:#x}");
        }
        memory.allocate(0, &mut request(0x10000, 4096, flags::WRITABLE)).unwrap();
    }

    #[test]
    fn each_gpu_sees_what_was_mapped_for_it() {
        let memory = memory();
        let mut request = request(0x10000, 4096, flags::VRAM | flags::PUBLIC | flags::WRITABLE);
        memory.allocate(0, &mut request).unwrap();
        assert!(memory.ranges(0).find(0x10000).is_none());
        memory.map(request.handle, 1).unwrap();
        assert_eq!(memory.host(0, 0x10010, 16), Some(0x10010));
        assert_eq!(memory.host(0, 0x10ff8, 16), None);
        assert_eq!(memory.host(1, 0x10010, 16), None);
        memory.map(request.handle, 2).unwrap();
        memory.unmap(request.handle, 1).unwrap();
        assert_eq!((memory.host(0, 0x10010, 16), memory.host(1, 0x10010, 16)), (None, Some(0x10010)));
    }

    #[test]
    fn registered_memory_has_two_addresses() {
        let memory = memory();
        let mut request = request(0x10000, 4096, flags::USERPTR);
        memory.allocate(0, &mut request).unwrap();
        memory.map(request.handle, 1).unwrap();
        assert_eq!(memory.host(0, 0x10010, 1), Some(0x5010));
        assert_eq!(memory.ranges(0).find(0x11000), None);
    }
}
