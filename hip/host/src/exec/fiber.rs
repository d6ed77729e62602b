//! The stack that kernels run on, and the jumps to and from it. They are written in assembly because nothing else can do them.
//!
//! All threads of a block share one stack. A thread that has to wait is copied away, from its stack pointer up to where the kernel was
//! called, and copied back to the same addresses when it goes on. That is a few hundred bytes in most kernels; separate stacks would
//! spread the same bytes over as many pages, and missing the processor's caches for them costs four times as much as the copies.

use crate::module_abi::Block;
use std::arch::asm;
use std::ffi::c_void;

/// Room for a thread's local variables.
const STACK_BYTES: usize = 1 << 20;

/// Where suspended code continues: its stack pointer. The word there is the address of the next instruction.
pub(crate) type Suspended = *mut u8;

/// What runs the threads `first..last` of a block.
pub(crate) type Run = unsafe extern "C" fn(args: *const c_void, block: *const Block, first: u32, last: u32);

/// The arguments of a [`Run`].
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub run: Run,
    pub arguments: *const c_void,
    pub block: *const Block,
    pub first: u32,
    pub last: u32,
}

/// The two places between which control goes back and forth while a block runs.
#[repr(C)]
pub(crate) struct Stage {
    /// The stack pointer at which kernels are called. What lies below belongs to the thread that runs.
    top: *mut u8,
    /// Where a kernel returns to.
    back: *const u8,
    /// Where the OS thread continues when the kernel's thread cannot.
    pub home: Suspended,
    bottom: *mut u8,
}

impl Stage {
    /// Maps a stack; `None` when the system has no room.
    pub fn new() -> Option<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: a fresh mapping at an address of the system's choice, of which the lowest page is made inaccessible.
        let bottom = unsafe {
            let mapped =
                libc::mmap(std::ptr::null_mut(), STACK_BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if mapped == libc::MAP_FAILED || libc::mprotect(mapped, page_bytes(), libc::PROT_NONE) != 0 {
                return None;
            }
            mapped.cast::<u8>()
        };
        Some(Self { top: bottom, back: std::ptr::null(), home: std::ptr::null_mut(), bottom })
    }

    /// Whether an address lies in the guard page: a thread used up the stack.
    pub fn is_guard(&self, address: usize) -> bool {
        address.wrapping_sub(self.bottom as usize) < page_bytes()
    }

    /// Bytes of the stack that a thread suspended at `at` occupies.
    pub fn occupied(&self, at: Suspended) -> usize {
        self.top as usize - at as usize
    }

    /// Readies the empty stack so that continuing the result calls `entry`, which never returns.
    pub fn prepare(&self, entry: unsafe extern "C" fn() -> !) -> Suspended {
        // At entry the stack is as after a call: 16-byte aligned less 8 on x86-64, where `switch` takes the address off.
        let start = self.bottom.wrapping_add(STACK_BYTES - if cfg!(target_arch = "x86_64") { 80 } else { 64 });
        // SAFETY: `start` lies within the stack, aligned to 16.
        unsafe { start.cast::<unsafe extern "C" fn() -> !>().write(entry) };
        start
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; nothing runs on it when the worker goes.
        unsafe { libc::munmap(self.bottom.cast(), STACK_BYTES) };
    }
}

/// The size of a page.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf only reads.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Called when a kernel returned: where to continue, or null when the block is done.
pub(crate) type Finished = unsafe extern "C" fn() -> Suspended;

#[cfg(target_arch = "x86_64")]
mod jumps {
    use super::*;
    use std::mem::offset_of;

    /// Suspends the running code into `save` and continues `to`. Returns when someone continues `save`.
    ///
    /// # Safety
    /// `to` was made by [`Stage::prepare`] or stored by one of these functions on this OS thread, is continued once, and its stack
    /// is as it was then. No reference to data that the other side changes is held across the call.
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

    /// Continues `to` and forgets the running code.
    ///
    /// # Safety
    /// As for [`switch`].
    pub(crate) unsafe fn leave_for(to: Suspended) -> ! {
        // SAFETY: the caller's promise.
        unsafe { asm!("mov rsp, {to}", "pop rax", "jmp rax", to = in(reg) to, options(noreturn)) }
    }

    /// Calls a kernel from here, noting the place in `stage`, and asks `finished` whenever a kernel returns to this place, this one
    /// or one started by [`start`]. Returns when that says null; otherwise continues where it says.
    ///
    /// # Safety
    /// The call is valid. On the stage's stack.
    #[inline(never)]
    pub(crate) unsafe fn call(stage: *mut Stage, call: Call, finished: Finished) {
        // The kernel's address goes through r11 and `finished` lies on the stack above `top`, where no thread's copy reaches.
        // SAFETY: the caller's promise. Control comes back to label 2 any number of times, always with the stack pointer at `top`, and
        // leaves the block once; the compiler sees a block that runs once. Rust aligns the stack to 16 here, and four words keep that.
        unsafe {
            asm!(
                "push rbp",
                "push rbx",
                "push r10",
                "push r10",
                "lea rax, [rip + 2f]",
                "mov [r8 + {back}], rax",
                "mov [r8 + {top}], rsp",
                "call r11",
                "2:",
                "call [rsp]",
                "test rax, rax",
                "jz 3f",
                "mov rsp, rax",
                "pop rax",
                "jmp rax",
                "3:",
                "add rsp, 16",
                "pop rbx",
                "pop rbp",
                back = const offset_of!(Stage, back),
                top = const offset_of!(Stage, top),
                in("rdi") call.arguments,
                in("rsi") call.block,
                in("edx") call.first,
                in("ecx") call.last,
                in("r8") stage,
                in("r10") finished,
                in("r11") call.run,
                lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
                clobber_abi("sysv64"),
            );
        }
    }

    /// From home: starts a kernel on the stage at the place noted by [`call`], which it will return to.
    ///
    /// # Safety
    /// The call is valid. Whoever occupied the stack below `top` has been copied away or is done.
    #[inline(always)]
    pub(crate) unsafe fn start(stage: *mut Stage, call: Call) {
        // SAFETY: the caller's promise; the stack pointer is the same when control comes back to label 2.
        unsafe {
            asm!(
                "push rbp",
                "push rbx",
                "lea rax, [rip + 2f]",
                "push rax",
                "mov [r8 + {home}], rsp",
                "mov rsp, [r8 + {top}]",
                "push [r8 + {back}]",
                "jmp r11",
                "2:",
                "pop rbx",
                "pop rbp",
                home = const offset_of!(Stage, home),
                back = const offset_of!(Stage, back),
                top = const offset_of!(Stage, top),
                in("rdi") call.arguments,
                in("rsi") call.block,
                in("edx") call.first,
                in("ecx") call.last,
                in("r8") stage,
                in("r11") call.run,
                lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
                clobber_abi("sysv64"),
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the embedded device knows how to switch between the threads of a block on x86-64 only");

pub(crate) use jumps::{call, leave_for, start, switch};
