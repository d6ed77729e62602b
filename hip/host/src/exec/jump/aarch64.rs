//! The jumps on 64-bit ARM. The stack pointer is a multiple of 16 at all times, so a word takes the room of two.

use super::super::meet::wave;
use super::{Suspended, Wave};
use std::arch::asm;

/// How far taking a word off the stack moves the stack pointer.
pub(crate) const WORD_STRIDE: usize = 16;

/// Suspends the running code into `save` and continues `to`. Returns when someone continues `save`.
///
/// # Safety
/// `to` lies on a stack prepared for [`begin`] or was stored by this function, on this OS thread, and is continued only once. Both stacks
/// stay mapped. No reference to data that the other side changes is held across the call.
#[inline(always)]
pub(crate) unsafe fn switch(save: *mut Suspended, to: Suspended) {
    // x19 and x29 cannot be named as clobbered, so they are saved by hand; the compiler saves whichever others it needs.
    // SAFETY: the caller's promise; the stack pointer is the same when control comes back to label 2.
    unsafe {
        asm!(
            "stp x29, x19, [sp, #-16]!",
            "adr x9, 2f",
            "str x9, [sp, #-16]!",
            "mov x9, sp",
            "str x9, [x0]",
            "mov sp, x1",
            "ldr x9, [sp], #16",
            "br x9",
            "2:",
            "ldp x29, x19, [sp], #16",
            inout("x0") save => _,
            inout("x1") to => _,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _,
            out("x25") _, out("x26") _, out("x27") _, out("x28") _, out("x30") _,
            out("v8") _, out("v9") _, out("v10") _, out("v11") _, out("v12") _, out("v13") _, out("v14") _, out("v15") _,
            clobber_abi("C"),
        );
    }
}

/// Continues `to` and forgets the running code.
///
/// # Safety
/// As for [`switch`].
pub(crate) unsafe fn leave_for(to: Suspended) -> ! {
    // SAFETY: the caller's promise.
    unsafe { asm!("mov sp, {to}", "ldr x9, [sp], #16", "br x9", to = in(reg) to, options(noreturn)) }
}

/// The address at which a fresh stack continues: instructions that take an [`Entry`](super::Entry) off the stack, call it and continue
/// what it returns.
pub(crate) fn begin() -> *const u8 {
    let address;
    // SAFETY: only takes the address of label 3, which is jumped over.
    unsafe {
        asm!(
            "adr {address}, 3f",
            "b 2f",
            "3:",
            "ldr x9, [sp], #16",
            "blr x9",
            "mov sp, x0",
            "ldr x9, [sp], #16",
            "br x9",
            "2:",
            address = out(reg) address,
        );
    }
    address
}

/// The address of a function that calls [`wave`](super::super::meet::wave) with the address behind its own call as a fourth argument.
pub(crate) fn pass_place() -> Wave {
    let address: *const u8;
    // SAFETY: only takes the address of label 3, which is jumped over. There the link register is as a call has left it.
    unsafe {
        asm!(
            "adr {address}, 3f",
            "b 2f",
            "3:",
            "mov x3, x30",
            "b {wave}",
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
        (*context).uc_mcontext.pc = home.cast::<u64>().read();
        (*context).uc_mcontext.sp = (home as usize + WORD_STRIDE) as u64;
    }
}
