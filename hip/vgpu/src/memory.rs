//! Device memory as the executor sees it: device addresses are host addresses, and whoever owns the memory says which ranges
//! may be touched. Two blocks may race on two host threads, as they may on a card, so every access here is atomic and relaxed.

use bytemuck::{AnyBitPattern, NoUninit};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering::Relaxed};

/// States of a byte in the shadow of a range, as the embedded device's checked mode has them.
pub mod shadow {
    /// Not part of any buffer.
    pub const OUTSIDE: u8 = 0;
    /// Allocated, never written.
    pub const FRESH: u8 = 1;
    /// Allocated and written: may be read.
    pub const WRITTEN: u8 = 2;
    /// Was part of a buffer that has been freed.
    pub const FREED: u8 = 3;
}

/// A range of addresses that may be read, and written where it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first address.
    pub start: u64,
    /// The address behind the last.
    pub end: u64,
    /// Stores and atomics are allowed.
    pub writable: bool,
    /// A byte of shadow for each byte, the first for `start`; null where nobody keeps any. Bytes that are [`shadow::OUTSIDE`] may be part
    /// of a span, so that an atomic on the last bytes of a buffer finds the rest of its word; nothing else may touch them.
    pub shadow: *mut u8,
}

// SAFETY: a span is a pair of addresses and a promise about them; the memory behind is only touched by atomic accesses.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Span {
    /// Nothing at all.
    pub const EMPTY: Span = Span { start: 0, end: 0, writable: false, shadow: std::ptr::null_mut() };

    /// Whether `bytes` from `address` on lie in it.
    #[inline(always)]
    pub fn contains(&self, address: u64, bytes: u64) -> bool {
        address >= self.start && address <= self.end && self.end - address >= bytes
    }
}

/// Who owns device memory.
///
/// # Safety
/// Every address of a span that `find` returns must be readable (and writable where it says so) by this process for as long
/// as a launch that uses this memory runs, and nobody may hold a Rust reference to it in that time. The same for its shadow, and for
/// the bytes at an address that `alias` returns.
pub unsafe trait Memory: Sync {
    /// The live range that `address` lies in.
    fn find(&self, address: u64) -> Option<Span>;

    /// Where `bytes` from `address` on lie in this process, for memory that the device sees at another address than the process.
    /// Asked after `find` knew nothing; slower, and not checked.
    fn alias(&self, address: u64, bytes: u64) -> Option<u64> {
        let _ = (address, bytes);
        None
    }

    /// A wave sends an interrupt to the host, with this word.
    fn interrupt(&self, event: u32) {
        let _ = event;
    }

    /// What is at an address that may not be touched, for reports: `"3 bytes behind a buffer of 256 bytes"`.
    fn describe(&self, address: u64) -> String {
        match self.find(address) {
            Some(span) => format!("in a range of {} bytes at {:#x}", span.end - span.start, span.start),
            None => "outside of every buffer".to_owned(),
        }
    }
}

macro_rules! access {
    ($load:ident, $store:ident, $type:ty, $atomic:ty) => {
        /// # Safety
        /// The bytes at `address` must be accessible (see [`Memory`]).
        #[inline(always)]
        pub(crate) unsafe fn $load(address: u64) -> $type {
            let pointer = address as *mut $type;
            if pointer.is_aligned() {
                // SAFETY: accessible by the caller's promise, aligned, and only ever accessed atomically.
                return unsafe { <$atomic>::from_ptr(pointer) }.load(Relaxed);
            }
            let mut bytes = [0; size_of::<$type>()];
            for (i, byte) in bytes.iter_mut().enumerate() {
                // SAFETY: accessible by the caller's promise; a byte is always aligned.
                *byte = unsafe { AtomicU8::from_ptr(pointer.cast::<u8>().add(i)) }.load(Relaxed);
            }
            <$type>::from_le_bytes(bytes)
        }

        /// # Safety
        /// The bytes at `address` must be accessible and writable (see [`Memory`]).
        #[inline(always)]
        pub(crate) unsafe fn $store(address: u64, value: $type) {
            let pointer = address as *mut $type;
            if pointer.is_aligned() {
                // SAFETY: accessible by the caller's promise, aligned, and only ever accessed atomically.
                return unsafe { <$atomic>::from_ptr(pointer) }.store(value, Relaxed);
            }
            for (i, byte) in value.to_le_bytes().into_iter().enumerate() {
                // SAFETY: accessible by the caller's promise; a byte is always aligned.
                unsafe { AtomicU8::from_ptr(pointer.cast::<u8>().add(i)) }.store(byte, Relaxed);
            }
        }
    };
}

access!(load_u8, store_u8, u8, AtomicU8);
access!(load_u16, store_u16, u16, AtomicU16);
access!(load_u32, store_u32, u32, AtomicU32);

/// # Safety
/// The eight bytes at `address` must be accessible (see [`Memory`]) and aligned.
#[inline(always)]
pub(crate) unsafe fn load_u64(address: u64) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }.load(Relaxed)
}

/// Replaces a naturally aligned word by `update` of it and returns the old one.
///
/// # Safety
/// The word at `address` must be accessible and writable, and aligned to its size.
#[inline(always)]
pub(crate) unsafe fn update_u32(address: u64, update: impl Fn(u32) -> u32) -> u32 {
    // SAFETY: as the caller promises.
    let word = unsafe { AtomicU32::from_ptr(address as *mut u32) };
    let mut old = word.load(Relaxed);
    // AcqRel: the caches of the host are coherent, and the "last block finishes" pattern needs the order.
    while let Err(now) = word.compare_exchange_weak(old, update(old), std::sync::atomic::Ordering::AcqRel, Relaxed) {
        old = now;
    }
    old
}

/// Replaces a naturally aligned double word by `update` of it and returns the old one.
///
/// # Safety
/// The word at `address` must be accessible and writable, and aligned to its size.
#[inline(always)]
pub(crate) unsafe fn update_u64(address: u64, update: impl Fn(u64) -> u64) -> u64 {
    // SAFETY: as the caller promises.
    let word = unsafe { AtomicU64::from_ptr(address as *mut u64) };
    let mut old = word.load(Relaxed);
    while let Err(now) = word.compare_exchange_weak(old, update(old), std::sync::atomic::Ordering::AcqRel, Relaxed) {
        old = now;
    }
    old
}

/// Buffers of our own, with a shadow: for tests and for whoever runs a kernel by hand. Nothing is ever given back while it
/// lives, so that the addresses of freed buffers are known for what they were.
#[derive(Default)]
pub struct Buffers {
    buffers: Vec<Buffer>,
}

/// Kernels rely on the 256-byte alignment that AMD's runtime gives.
#[derive(Clone, Copy)]
#[repr(C, align(256))]
struct Line([u64; 32]);

/// Behind pointers, not boxes: kernels write through its addresses while `Buffers` is borrowed.
struct Buffer {
    /// A line more than asked for keeps neighbours apart.
    lines: NonNull<[Line]>,
    shadow: NonNull<[u8]>,
    bytes: usize,
    freed: bool,
}

// SAFETY: a buffer owns what it points to, and shares it with nobody but launches, whose accesses are atomic.
unsafe impl Send for Buffer {}
// SAFETY: as above; outside of launches it is written through `&mut Buffers` only.
unsafe impl Sync for Buffer {}

impl Buffer {
    fn start(&self) -> u64 {
        self.lines.cast::<u8>().as_ptr().expose_provenance() as u64
    }

    fn shadow(&self) -> *mut u8 {
        self.shadow.cast().as_ptr()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: both came from boxes, in `Buffers::alloc`, and end here.
        unsafe {
            drop(Box::from_raw(self.lines.as_ptr()));
            drop(Box::from_raw(self.shadow.as_ptr()));
        }
    }
}

impl Buffers {
    /// No buffer yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new buffer, full of poison, and its address, a multiple of 256.
    pub fn alloc(&mut self, bytes: usize) -> u64 {
        let lines = vec![Line([0xcdcd_cdcd_cdcd_cdcd; 32]); bytes / 256 + 2].into_boxed_slice();
        let shadow = vec![shadow::FRESH; bytes].into_boxed_slice();
        let (lines, shadow) = (NonNull::from(Box::leak(lines)), NonNull::from(Box::leak(shadow)));
        self.buffers.push(Buffer { lines, shadow, bytes, freed: false });
        self.buffers.last().map_or(0, Buffer::start)
    }

    /// A new buffer that holds these values.
    pub fn from_slice<T: NoUninit>(&mut self, values: &[T]) -> u64 {
        let address = self.alloc(size_of_val(values));
        self.write(address, values);
        address
    }

    /// Marks a buffer as freed. Its address is refused from then on.
    pub fn free(&mut self, address: u64) {
        for buffer in &mut self.buffers {
            if buffer.start() == address {
                buffer.freed = true;
            }
        }
    }

    fn locate(&self, address: u64, bytes: usize) -> Option<(&Buffer, usize)> {
        let buffer = self.buffers.iter().find(|buffer| address.wrapping_sub(buffer.start()) <= buffer.bytes as u64)?;
        let offset = (address - buffer.start()) as usize;
        (buffer.bytes - offset >= bytes).then_some((buffer, offset))
    }

    /// Copies values into a buffer; what lies outside is not copied.
    pub fn write<T: NoUninit>(&mut self, address: u64, values: &[T]) {
        let bytes = size_of_val(values);
        let Some((buffer, offset)) = self.locate(address, bytes) else { return };
        let (start, shadow) = (buffer.start(), buffer.shadow());
        // SAFETY: the range was found inside one of our buffers, which `&mut self` keeps from everybody else.
        unsafe {
            std::ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), (start as *mut u8).add(offset), bytes);
            std::ptr::write_bytes(shadow.add(offset), shadow::WRITTEN, bytes);
        }
    }

    /// The values at an address; `None` where they do not lie in one buffer.
    pub fn read<T: AnyBitPattern>(&self, address: u64, count: usize) -> Option<Vec<T>> {
        let bytes = count.checked_mul(size_of::<T>())?;
        let (buffer, offset) = self.locate(address, bytes)?;
        let mut values = vec![T::zeroed(); count];
        // SAFETY: the range lies inside one of our buffers; the values have that many bytes, and may be any.
        unsafe {
            let from = (buffer.start() as *const u8).add(offset);
            std::ptr::copy_nonoverlapping(from, values.as_mut_ptr().cast::<u8>(), bytes);
        }
        Some(values)
    }
}

// SAFETY: the buffers live as long as `self`, which a launch borrows; reading and writing them takes `&self` or `&mut self`
// outside of a launch only.
unsafe impl Memory for Buffers {
    fn find(&self, address: u64) -> Option<Span> {
        let buffer = self
            .buffers
            .iter()
            .find(|buffer| !buffer.freed && address.wrapping_sub(buffer.start()) < buffer.bytes as u64)?;
        Some(Span {
            start: buffer.start(),
            end: buffer.start() + buffer.bytes as u64,
            writable: true,
            shadow: buffer.shadow(),
        })
    }

    fn describe(&self, address: u64) -> String {
        // The nearest buffer that starts at or below the address.
        let below = self.buffers.iter().filter(|buffer| buffer.start() <= address).max_by_key(|buffer| buffer.start());
        match below {
            Some(buffer) if address - buffer.start() < buffer.bytes as u64 && buffer.freed => {
                format!("in a freed buffer of {} bytes at {:#x}", buffer.bytes, buffer.start())
            }
            Some(buffer) if address - buffer.start() < 1 << 20 => {
                let past = address as i64 - (buffer.start() + buffer.bytes as u64) as i64;
                format!("{past} bytes behind a buffer of {} bytes at {:#x}", buffer.bytes, buffer.start())
            }
            _ => "outside of every buffer".to_owned(),
        }
    }
}
