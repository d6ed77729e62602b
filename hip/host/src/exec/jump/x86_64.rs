//! The jumps on x86-64.

use super::super::meet::wave;
use super::{Suspended, Wave};
use std::arch::asm;

/// How far taking a word off the stack moves the stack pointer.
pub(crate) const WORD_STRIDE: usize = 8;

/// Suspends the running code into `save` and continues `to`. Returns when someone continues `save`.
///
/// # Safety
/// `to` lies on a stack prepared for [`begin`] or was stored by this function, on this OS thread, and is continued only once. Both stacks
/// stay mapped. No reference to data that the other side changes is held across the call.
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

/// The address at which a fresh stack continues: instructions that take an [`Entry`](super::Entry) off the stack, call it and continue
/// what it returns. The stack pointer is a multiple of 16 then.
pub(crate) fn begin() -> *const u8 {
    let address;
    // SAFETY: only takes the address of label 3, which is jumped over.
    unsafe {
        asm!(
            "lea {address}, [rip + 3f]",
            "jmp 2f",
            "3:",
            "pop rax",
            "call rax",
            "mov rsp, rax",
            "pop rax",
            "jmp rax",
            "2:",
            address = out(reg) address,
        );
    }
    address
}

/// The address of a function that calls [`wave`](super::super::meet::wave) with the address behind its own call as a fourth argument.
pub(crate) fn pass_place() -> Wave {
    let address: *const u8;
    // SAFETY: only takes the address of label 3, which is jumped over. There the stack is as a call has left it.
    unsafe {
        asm!(
            "lea {address}, [rip + 3f]",
            "jmp 2f",
            "3:",
            "mov rcx, [rsp]",
            "jmp {wave}",
            "2:",
            address = out(reg) address,
            wave = sym wave,
        );
        std::mem::transmute::<*const u8, Wave>(address)
    }
}

/// Makes the code that a signal interrupted continue at `home` instead.
///
/// # Safety
/// `context` is a signal's, and `home` may be continued.
pub(crate) unsafe fn redirect(context: *mut libc::ucontext_t, home: Suspended) {
    // SAFETY: the word at `home` is where it continues.
    unsafe {
        let registers = &mut (*context).uc_mcontext.gregs;
        registers[libc::REG_RIP as usize] = home.cast::<i64>().read();
        registers[libc::REG_RSP as usize] = (home as usize + WORD_STRIDE) as i64;
    }
}
