//! The memory of checked mode. Buffers come from one reserved range of addresses, each ending at a page that cannot be touched; a byte of
//! shadow for every byte says whether it belongs to a buffer and was written. Freed addresses stay unusable for a while. Kernels compiled
//! for checked mode consult the shadow at every access; others still run into the guard pages.

use crate::exec::page_bytes;
use crate::memory::{self, Allocation, Kind};
use crate::module_abi::shadow;
use crate::{command::Launch, device};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Address space to ask for, and the least to be content with. Nothing of it takes memory before it is used.
const LARGEST_ARENA: usize = 256 << 30;
const SMALLEST_ARENA: usize = 1 << 30;
/// Freed address space that is kept unusable.
const QUARANTINE_BYTES: usize = 1 << 30;
/// A buffer's end is moved down to this alignment, so that its start has it too.
const ALIGNMENT: usize = 16;
/// Fresh memory is full of these: not a number in every floating-point format, -1 as an index.
const POISON: u8 = 0xFF;

/// The reserved range and its shadow.
pub(crate) struct Arena {
    base: usize,
    bytes: usize,
    shadow: *mut u8,
    state: Mutex<State>,
}

// SAFETY: the shadow is raw shared memory, written by copies and kernels as the buffers themselves are; all else is behind the lock.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

struct State {
    /// Ranges nobody uses, as offset and length.
    free: BTreeMap<usize, usize>,
    /// Where the search for the next range starts: just behind the last one, so that addresses come back late.
    cursor: usize,
    quarantine: VecDeque<Freed>,
    quarantined: usize,
}

/// A buffer that is gone and the range it had.
struct Freed {
    buffer: Allocation,
    offset: usize,
    span: usize,
}

/// The arena, in checked mode.
pub(crate) fn arena() -> Option<&'static Arena> {
    static ARENA: OnceLock<Option<Arena>> = OnceLock::new();
    ARENA.get_or_init(|| device::is_checked().then(Arena::reserve).flatten()).as_ref()
}

fn map(bytes: usize, protection: i32) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping at an address of the system's choice.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    (mapped != libc::MAP_FAILED).then_some(mapped.cast())
}

impl Arena {
    fn reserve() -> Option<Self> {
        let mut bytes = LARGEST_ARENA;
        while bytes >= SMALLEST_ARENA {
            if let Some(base) = map(bytes, libc::PROT_NONE) {
                if let Some(shadow) = map(bytes, libc::PROT_READ | libc::PROT_WRITE) {
                    // SAFETY: registering a function that takes no arguments and does not unwind.
                    unsafe { libc::atexit(report_leaks) };
                    let free = BTreeMap::from([(0, bytes)]);
                    let state = State { free, cursor: 0, quarantine: VecDeque::new(), quarantined: 0 };
                    return Some(Self { base: base as usize, bytes, shadow, state: Mutex::new(state) });
                }
                // SAFETY: mapped just above.
                unsafe { libc::munmap(base.cast(), bytes) };
            }
            bytes /= 2;
        }
        log::error!("checked mode found no address space for its arena; lift the limit (ulimit -v) or turn HIP_HOST_CHECKED off");
        None
    }

    /// The first address.
    pub fn base(&self) -> usize {
        self.base
    }

    /// How many addresses there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The shadow of the first address.
    pub fn shadow(&self) -> *mut u8 {
        self.shadow
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an address lies in the arena.
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.bytes
    }

    /// The shadow of an address in the arena.
    pub fn shadow_of(&self, address: usize) -> *mut u8 {
        self.shadow.wrapping_add(address - self.base)
    }

    /// For an address in the arena; what lies behind its end is left out.
    fn set_shadow(&self, address: usize, bytes: usize, value: u8) {
        // SAFETY: the range lies in the arena, and the shadow is as long as the arena.
        unsafe { std::ptr::write_bytes(self.shadow_of(address), value, bytes.min(self.room(address))) };
    }

    /// Bytes from an address in the arena to the arena's end.
    fn room(&self, address: usize) -> usize {
        self.bytes - (address - self.base)
    }

    /// Bytes of pages that a buffer takes.
    fn pages(bytes: usize) -> usize {
        bytes.next_multiple_of(page_bytes())
    }

    /// A buffer that ends at a guard page, full of poison.
    pub fn allocate(&self, bytes: usize) -> Option<usize> {
        let aligned = bytes.checked_next_multiple_of(ALIGNMENT)?;
        let pages = aligned.checked_next_multiple_of(page_bytes())?;
        let offset = self.state().take(pages.checked_add(page_bytes())?)?;
        let start = self.base + offset;
        // SAFETY: the range was nobody's and lies in the arena.
        if unsafe { libc::mprotect(start as *mut _, pages, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            self.state().give(offset, pages + page_bytes());
            return None;
        }
        let address = start + pages - aligned;
        // SAFETY: `address..address + bytes` lies in the pages just made accessible.
        unsafe { std::ptr::write_bytes(address as *mut u8, POISON, bytes) };
        self.set_shadow(address, bytes, shadow::FRESH);
        Some(address)
    }

    /// Makes a buffer unusable, and its addresses too for a while.
    pub fn free(&self, buffer: Allocation) {
        let pages = Self::pages(buffer.bytes.next_multiple_of(ALIGNMENT));
        let offset = (buffer.address - self.base) / page_bytes() * page_bytes();
        self.set_shadow(buffer.address, buffer.bytes, shadow::FREED);
        let start = (self.base + offset) as *mut libc::c_void;
        // SAFETY: the pages of this buffer, which the registry has given up.
        unsafe {
            libc::madvise(start, pages, libc::MADV_DONTNEED);
            libc::mprotect(start, pages, libc::PROT_NONE);
        }
        let mut state = self.state();
        state.quarantined += pages + page_bytes();
        state.quarantine.push_back(Freed { buffer, offset, span: pages + page_bytes() });
        while state.quarantined > QUARANTINE_BYTES {
            let Some(Freed { offset, span, .. }) = state.quarantine.pop_front() else { break };
            // Zero pages read as "outside". SAFETY: the shadow of whole pages that belong to no buffer.
            unsafe { libc::madvise(self.shadow.wrapping_add(offset).cast(), span, libc::MADV_DONTNEED) };
            state.quarantined -= span;
            state.give(offset, span);
        }
    }

    /// The freed buffer that an address was in.
    pub fn freed(&self, address: usize) -> Option<Allocation> {
        let offset = address.checked_sub(self.base)?;
        let state = self.state();
        let found = state.quarantine.iter().rev().find(|freed| offset.wrapping_sub(freed.offset) < freed.span)?;
        Some(found.buffer)
    }

    /// A range of a buffer was written from outside a kernel.
    pub fn written(&self, address: usize, bytes: usize) {
        if self.contains(address) {
            self.set_shadow(address, bytes, shadow::WRITTEN);
        }
    }

    /// A range was copied: what was never written at the source was not written at the target either.
    pub fn copied(&self, dst: usize, src: usize, bytes: usize) {
        if self.contains(dst) && self.contains(src) {
            let bytes = bytes.min(self.room(dst)).min(self.room(src));
            // SAFETY: both ranges lie in the arena.
            unsafe { std::ptr::copy(self.shadow_of(src), self.shadow_of(dst), bytes) };
        } else {
            self.written(dst, bytes);
        }
    }

    /// A kernel that does not keep the shadow is about to run: whatever buffers its arguments point to may be written.
    pub fn give_up_on_arguments(&self, launch: &Launch) {
        let words = launch.function.entry.args_bytes() / 8;
        for word in 0..words {
            // SAFETY: packed arguments have that many bytes, aligned to 16.
            let address = unsafe { launch.arguments.as_ptr().cast::<usize>().add(word).read() };
            if let Some(buffer) = memory::find(address).filter(|buffer| buffer.kind == Kind::Device) {
                self.written(buffer.address, buffer.bytes);
            }
        }
    }
}

impl State {
    fn take(&mut self, span: usize) -> Option<usize> {
        let fits = |(_, length): &(&usize, &usize)| **length >= span;
        let found = self.free.range(self.cursor..).find(fits).or_else(|| self.free.iter().find(fits));
        let (offset, length) = found.map(|(offset, length)| (*offset, *length))?;
        self.free.remove(&offset);
        if length > span {
            self.free.insert(offset + span, length - span);
        }
        self.cursor = offset + span;
        Some(offset)
    }

    fn give(&mut self, mut offset: usize, mut span: usize) {
        if let Some(length) = self.free.remove(&(offset + span)) {
            span += length;
        }
        let before = self.free.range(..offset).next_back().map(|(before, length)| (*before, *length));
        if let Some((before, length)) = before.filter(|(before, length)| before + length == offset) {
            (offset, span) = (before, span + length);
        }
        self.free.insert(offset, span);
    }
}

/// Says at exit what was never freed.
extern "C" fn report_leaks() {
    let leaked = memory::live_allocations();
    if leaked.is_empty() {
        return;
    }
    let bytes: usize = leaked.iter().map(|allocation| allocation.bytes).sum();
    let mut text = format!("hip-host: {} allocations ({bytes} bytes) were never freed:", leaked.len());
    for Allocation { bytes, device, kind, .. } in leaked.iter().take(8) {
        let what = if *kind == Kind::Pinned { "pinned" } else { "device memory" };
        text += &format!(" {bytes} bytes of {what} (device {device});");
    }
    if leaked.len() > 8 {
        text += " and more;";
    }
    text.pop();
    text.push('\n');
    // SAFETY: the text is alive. Straight to the descriptor: the standard library's streams may be gone this late.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

#[cfg(test)]
mod tests {
    use super::State;
    use std::collections::{BTreeMap, VecDeque};

    #[test]
    fn ranges_come_back_whole_and_late() {
        let mut state =
            State { free: BTreeMap::from([(0, 100)]), cursor: 0, quarantine: VecDeque::new(), quarantined: 0 };
        assert_eq!((state.take(30), state.take(30)), (Some(0), Some(30)));
        state.give(0, 30);
        assert_eq!(state.take(30), Some(60), "fresh addresses come before used ones");
        assert_eq!(state.take(30), Some(0), "used ones come when nothing else is left");
        assert_eq!(state.take(30), None);
        state.give(60, 30);
        state.give(0, 30);
        state.give(30, 30);
        assert_eq!(state.free, BTreeMap::from([(0, 100)]));
    }
}
