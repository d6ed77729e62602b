//! Faults of the processor inside kernels. A kernel that reads a bad address, divides by zero or executes a trap gets a signal; the
//! handler leaves its block behind and lets the worker go on. A fault anywhere else goes to whoever handled it before.

use crate::exec;
use crate::report::Cause;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// The signals that a kernel can cause.
const WATCHED: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
/// The handler needs little, but a kernel's stack may be used up.
const ALTERNATE_STACK_BYTES: usize = 64 << 10;

static PREVIOUS: OnceLock<[libc::sigaction; 4]> = OnceLock::new();

/// Makes faults on this OS thread survivable.
pub(crate) fn watch_this_thread() {
    PREVIOUS.get_or_init(|| WATCHED.map(install));
    // SAFETY: only asks.
    let current = unsafe {
        let mut current = MaybeUninit::<libc::stack_t>::zeroed();
        libc::sigaltstack(std::ptr::null(), current.as_mut_ptr());
        current.assume_init()
    };
    // Threads of Rust's standard library have one already.
    if current.ss_flags & libc::SS_DISABLE != 0 {
        // Leaked: it must outlive everything else on this thread, and workers live about as long as the process.
        let stack = Box::leak(vec![0u8; ALTERNATE_STACK_BYTES].into_boxed_slice());
        let wanted = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: ALTERNATE_STACK_BYTES };
        // SAFETY: the memory is this thread's alone, for good.
        unsafe { libc::sigaltstack(&raw const wanted, std::ptr::null_mut()) };
    }
}

fn install(signal: i32) -> libc::sigaction {
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is a valid sigaction; the handler below keeps to what a signal handler may do.
    unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, previous.as_mut_ptr());
        previous.assume_init()
    }
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let worker = exec::active();
    if worker.is_null() {
        return pass_on(signal, info, context);
    }
    // SAFETY: the kernel gave us its siginfo and its context. This OS thread runs a kernel, so nobody else uses its worker, and
    // noting a cause neither allocates nor locks. The frames left behind are the kernel's, which own nothing.
    unsafe {
        let address = (*info).si_addr() as usize;
        let stack_overflow = signal == libc::SIGSEGV && (*worker).is_stack_guard(address);
        let home = (*worker).give_up(None, Cause::Signal { number: signal, address, stack_overflow });
        exec::redirect(context.cast(), home);
    }
}

/// Lets the previous handler have it.
fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let previous =
        PREVIOUS.get().and_then(|all| WATCHED.iter().position(|watched| *watched == signal).map(|at| all[at]));
    // SAFETY: what was installed before is called as it asked to be, or put back so that the fault, when it repeats, finds it.
    unsafe {
        match previous {
            Some(action) if action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN => {
                if action.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) =
                        std::mem::transmute(action.sa_sigaction);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(i32) = std::mem::transmute(action.sa_sigaction);
                    handler(signal);
                }
            }
            _ => {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}
