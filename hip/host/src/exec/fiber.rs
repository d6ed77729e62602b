//! The stacks of an OS thread. A fiber here is nothing but a stack pointer into one of them; everything else about it lies on the stack.

use super::jump::{begin, Entry, Suspended, WORD_STRIDE};

/// Room for a thread's local variables. Only what is touched takes memory.
const STACK_ROOM: usize = 256 << 10;
/// Compilers touch a large frame at least every so many bytes (64-bit ARM; x86-64 every page), so that it cannot step over the guard.
const PROBE_BYTES: usize = 64 << 10;
/// Stacks mapped at a time.
const SLAB_STACKS: usize = 16;

/// The stacks of one OS thread. They are kept for the next block and unmapped with the thread.
pub(crate) struct Stacks {
    slabs: Vec<*mut u8>,
    free: Vec<u32>,
    /// From one stack to the next: a guard and the room above it. Not a power of two, because at such distances the pages of
    /// all stacks would share a few places of the processor's address cache, and each switch would miss it.
    stride: usize,
    begin: *const u8,
}

impl Stacks {
    pub fn new() -> Self {
        let stride = guard_bytes() + STACK_ROOM;
        Self { slabs: Vec::new(), free: Vec::new(), stride, begin: begin() }
    }

    /// A stack that no one uses; `None` when the system has no more address space.
    pub fn take(&mut self) -> Option<u32> {
        if self.free.is_empty() {
            self.map_slab()?;
        }
        self.free.pop()
    }

    /// Puts a stack back. The caller may still stand on it for as long as nobody takes it.
    pub fn put(&mut self, stack: u32) {
        self.free.push(stack);
    }

    /// Puts every stack back, after a block was abandoned.
    pub fn put_all(&mut self) {
        self.free.clear();
        self.free.extend((0..(self.slabs.len() * SLAB_STACKS) as u32).rev());
    }

    /// Readies a stack so that continuing it calls `entry`, and what that returns is continued next.
    #[inline(always)]
    pub fn prepare(&self, stack: u32, entry: Entry) -> Suspended {
        // Stacks lie a multiple of the cache's way size apart: started at the same offset, the tops of 256 of them would fight for
        // the same few cache lines. Sixty-four different offsets spread them.
        let colour = (stack as usize % 64) * 64;
        let start = self.bottom(stack).wrapping_add(self.stride - 64 - colour);
        // SAFETY: `start` lies within the mapped stack, aligned to 16, with room above for two words.
        unsafe {
            start.cast::<*const u8>().write(self.begin);
            start.add(WORD_STRIDE).cast::<Entry>().write(entry);
        }
        start
    }

    /// Whether an address lies in a guard: the stack above it overflowed.
    pub fn is_guard(&self, address: usize) -> bool {
        let within =
            |slab: &*mut u8| address.checked_sub(*slab as usize).filter(|offset| *offset < self.stride * SLAB_STACKS);
        self.slabs.iter().find_map(within).is_some_and(|offset| offset % self.stride < guard_bytes())
    }

    fn bottom(&self, stack: u32) -> *mut u8 {
        let stack = stack as usize;
        self.slabs[stack / SLAB_STACKS].wrapping_add(stack % SLAB_STACKS * self.stride)
    }

    fn map_slab(&mut self) -> Option<()> {
        let bytes = self.stride * SLAB_STACKS;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: a fresh mapping at an address of the system's choice.
        let slab = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if slab == libc::MAP_FAILED {
            return None;
        }
        let slab = slab.cast::<u8>();
        for stack in 0..SLAB_STACKS {
            // SAFETY: the lowest pages of each stack lie within the mapping just made.
            if unsafe { libc::mprotect(slab.add(stack * self.stride).cast(), guard_bytes(), libc::PROT_NONE) } != 0 {
                // SAFETY: the mapping just made, whole.
                unsafe { libc::munmap(slab.cast(), bytes) };
                return None;
            }
        }
        let first = (self.slabs.len() * SLAB_STACKS) as u32;
        self.slabs.push(slab);
        self.free.extend((first..first + SLAB_STACKS as u32).rev());
        Some(())
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        for slab in &self.slabs {
            // SAFETY: mapped by `map_slab`; no fiber is alive when the worker goes.
            unsafe { libc::munmap(slab.cast(), self.stride * SLAB_STACKS) };
        }
    }
}

/// What lies below a stack and cannot be touched.
fn guard_bytes() -> usize {
    PROBE_BYTES + page_bytes()
}

/// The size of a page.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf only reads.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
