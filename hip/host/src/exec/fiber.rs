//! Stacks and the switch between them. A fiber here is nothing but a stack pointer: everything else about it lies on its stack. The
//! switch is written in assembly because nothing else can do it; it costs a few nanoseconds.

use std::arch::asm;

/// Room for a thread's local variables. Only what is touched takes memory.
const STACK_ROOM: usize = 256 << 10;
/// Stacks mapped at a time.
const SLAB_STACKS: usize = 16;

/// Where a suspended fiber continues: its stack pointer, below which lie the address to continue at and what the compiler keeps.
pub(crate) type Suspended = *mut u8;

/// Suspends the running fiber into `save` and continues `to`. Returns when someone continues `save`.
///
/// # Safety
/// `to` was made by [`Stacks::prepare`] or stored by this function, on this OS thread, and is continued only once. Both stacks stay
/// mapped. No reference to data that the other side changes may be held across the call.
#[inline(always)]
pub(crate) unsafe fn switch(save: *mut Suspended, to: Suspended) {
    // rbx and rbp cannot be named as clobbered, so they are saved by hand; the compiler saves whichever others it needs.
    // SAFETY: the caller's promise; the stack pointer is the same when control comes back to label 2.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rdi], rsp",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbx",
            "pop rbp",
            inout("rdi") save => _,
            inout("rsi") to => _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the embedded device knows how to switch between the threads of a block on x86-64 only");

/// Continues `to` and forgets the running code.
///
/// # Safety
/// As for [`switch`].
pub(crate) unsafe fn leave_for(to: Suspended) -> ! {
    // SAFETY: the caller's promise.
    unsafe { asm!("mov rsp, {to}", "pop rax", "jmp rax", to = in(reg) to, options(noreturn)) }
}

/// What runs on a fresh stack; it returns what is to be continued next.
pub(crate) type Entry = unsafe extern "C" fn() -> Suspended;

/// The address of instructions that continue what a function returned.
fn continue_returned() -> *const u8 {
    let address;
    // SAFETY: only takes the address of label 3, which is jumped over.
    unsafe {
        asm!("lea {address}, [rip + 3f]", "jmp 2f", "3:", "mov rsp, rax", "pop rax", "jmp rax", "2:", address = out(reg) address);
    }
    address
}

/// The stacks of one OS thread. They are kept for the next block and unmapped with the thread.
pub(crate) struct Stacks {
    slabs: Vec<*mut u8>,
    free: Vec<u32>,
    /// From one stack to the next: a guard page and the room above it. Not a power of two, because at such distances the pages of
    /// all stacks would share a few places of the processor's address cache, and each switch would miss it.
    stride: usize,
    after_entry: *const u8,
}

impl Stacks {
    pub fn new() -> Self {
        let stride = page_bytes() + STACK_ROOM;
        Self { slabs: Vec::new(), free: Vec::new(), stride, after_entry: continue_returned() }
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
        // `switch` takes the entry off; then the stack is as after a call, with the address to return to on top.
        // SAFETY: `start` lies within the mapped stack, aligned to 16, with room above for two words.
        unsafe {
            start.cast::<Entry>().write(entry);
            start.cast::<*const u8>().add(1).write(self.after_entry);
        }
        start
    }

    /// Whether an address lies in a guard page: the stack above it overflowed.
    pub fn is_guard(&self, address: usize) -> bool {
        let within =
            |slab: &*mut u8| address.checked_sub(*slab as usize).filter(|offset| *offset < self.stride * SLAB_STACKS);
        self.slabs.iter().find_map(within).is_some_and(|offset| offset % self.stride < page_bytes())
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
            // SAFETY: the lowest page of each stack lies within the mapping just made.
            if unsafe { libc::mprotect(slab.add(stack * self.stride).cast(), page_bytes(), libc::PROT_NONE) } != 0 {
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

/// The size of a page.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf only reads.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
