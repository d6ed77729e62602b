//! What is said about a kernel that failed: which kernel, block and thread, what it did, and to which buffer. The error code alone goes
//! through HIP's calls; the sentence waits here until someone asks for it, and goes to the log.

use crate::checked;
use crate::exec::Order;
use crate::memory::{self, Allocation};
use crate::module_abi::{access, trap_kind, Dim};
use hip_abi::hipError_t;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Why a block was left behind.
pub(crate) enum Cause {
    /// The kernel gave up.
    Trap { kind: u32, message: String },
    /// A checked access found the shadow against it.
    Violation { kind: u32, address: usize, bytes: u32 },
    /// The processor refused.
    Signal { number: i32, address: usize, stack_overflow: bool },
    /// There was no stack for another thread of the block.
    NoStack,
}

impl Cause {
    /// Whether the thread at fault is known even if threads do not run one by one.
    pub fn names_thread(&self) -> bool {
        matches!(self, Self::Trap { .. } | Self::Violation { .. })
    }

    fn error(&self) -> hipError_t {
        match self {
            Self::Trap { kind: trap_kind::ASSERT, .. } => hipError_t::hipErrorAssert,
            Self::Trap { .. } => hipError_t::hipErrorLaunchFailure,
            Self::Violation { .. } => hipError_t::hipErrorIllegalAddress,
            Self::Signal { number: libc::SIGSEGV | libc::SIGBUS, stack_overflow: false, .. } => {
                hipError_t::hipErrorIllegalAddress
            }
            Self::Signal { .. } => hipError_t::hipErrorLaunchFailure,
            Self::NoStack => hipError_t::hipErrorLaunchOutOfResources,
        }
    }

    fn sentence(&self) -> String {
        match self {
            Self::Trap { kind: trap_kind::ASSERT, message } => format!("failed an assertion: {message}"),
            Self::Trap { message, .. } if message.is_empty() => "trapped".to_owned(),
            Self::Trap { message, .. } => format!("trapped: {message}"),
            Self::Violation { kind, address, bytes } => {
                let verb = match *kind {
                    access::LOAD => "read",
                    access::STORE => "wrote",
                    _ => "updated",
                };
                format!("{verb} {bytes} bytes at {address:#x}, {}", whereabouts(*address, *bytes as usize))
            }
            Self::Signal { stack_overflow: true, .. } => {
                "used more stack than a thread has; make its local arrays smaller".to_owned()
            }
            Self::Signal { number: libc::SIGSEGV | libc::SIGBUS, address, .. } => {
                format!("accessed {address:#x}, {}", whereabouts(*address, 1))
            }
            Self::Signal { number: libc::SIGFPE, .. } => "divided an integer by zero".to_owned(),
            Self::Signal { number: libc::SIGILL, .. } => "trapped".to_owned(),
            Self::Signal { number, .. } => format!("was stopped by signal {number}"),
            Self::NoStack => {
                "waits with more threads than the system has stacks for; raise vm.max_map_count or lower HIP_HOST_THREADS".to_owned()
            }
        }
    }
}

/// Where it happened.
pub(crate) struct Site {
    pub kernel: String,
    pub block: Dim,
    /// Unknown when threads do not run one by one.
    pub thread: Option<Dim>,
    pub order: Order,
}

/// Reports kept; beyond that the oldest go.
const KEPT: usize = 64;

static REPORTS: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// The oldest report of a failed kernel that was not taken yet. The queue is the process's: reports of all devices and streams.
pub fn take_report() -> Option<String> {
    REPORTS.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

/// Files a report and gives the code that stands for it.
pub(crate) fn file(site: &Site, cause: &Cause) -> hipError_t {
    let Dim { x, y, z } = site.block;
    let thread = site.thread.map_or_else(
        || "a thread that only checked mode would name".to_owned(),
        |Dim { x, y, z }| format!("thread ({x}, {y}, {z})"),
    );
    let order = how_to_repeat(site.order);
    keep(format!("kernel {}, block ({x}, {y}, {z}), {thread}: {}{order}", site.kernel, cause.sentence()));
    cause.error()
}

/// A remark for reports on the order of the launch, if it was not the usual one.
pub(crate) fn how_to_repeat(order: Order) -> String {
    match order {
        Order::Ascending => String::new(),
        order => format!(" (threads and blocks in another order than usual; HIP_HOST_ORDER={order} repeats it)"),
    }
}

/// Files a report of a copy or a fill, at this target, whose memory is gone.
pub(crate) fn file_command(what: &str, address: usize) -> hipError_t {
    keep(format!("a {what} to {address:#x} was not done: a buffer it uses has been freed since it was submitted"));
    hipError_t::hipErrorIllegalAddress
}

/// Keeps a report that is a whole sentence already.
pub(crate) fn keep(text: String) {
    log::error!("{text}");
    let mut reports = REPORTS.lock().unwrap_or_else(PoisonError::into_inner);
    if reports.len() == KEPT {
        reports.pop_front();
    }
    reports.push_back(text);
}

/// Where an address lies with respect to the buffers there are.
pub(crate) fn whereabouts(address: usize, bytes: usize) -> String {
    let size = |buffer: &Allocation| format!("a buffer of {} bytes (device {})", buffer.bytes, buffer.device);
    if let Some(buffer) = memory::find(address) {
        let end = buffer.address + buffer.bytes;
        if address + bytes > end {
            return format!("{} bytes past the end of {}", address + bytes - end, size(&buffer));
        }
        return format!("which is {} bytes into {} and was never written", address - buffer.address, size(&buffer));
    }
    if let Some(freed) = checked::arena().and_then(|arena| arena.freed(address)) {
        return format!("which is {} bytes into {}, freed before", address - freed.address, size(&freed));
    }
    // A buffer that far away is not the one that was meant.
    const NEAR: usize = 1 << 20;
    let past = memory::before(address).map(|buffer| (address - (buffer.address + buffer.bytes), buffer));
    let short = memory::after(address).map(|buffer| (buffer.address - address, buffer));
    match (past.filter(|(far, _)| *far < NEAR), short.filter(|(far, _)| *far < NEAR)) {
        (Some((past, buffer)), Some((short, _))) if past <= short => {
            format!("{past} bytes past the end of {}", size(&buffer))
        }
        (_, Some((short, buffer))) => format!("{short} bytes before the start of {}", size(&buffer)),
        (Some((past, buffer)), None) => format!("{past} bytes past the end of {}", size(&buffer)),
        (None, None) => "which is in no buffer".to_owned(),
    }
}
