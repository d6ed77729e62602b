//! The jumps between stacks: all that depends on the processor. Nothing but assembly can do them; each costs a few nanoseconds.
//!
//! A suspended piece of code is known by its stack pointer. The word there is the address at which it continues, and is taken off the
//! stack when it does. Each processor's file has the same five functions.

use crate::module_abi::WaveResult;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{begin, leave_for, pass_place, redirect, switch, WORD_STRIDE};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{begin, leave_for, pass_place, redirect, switch, WORD_STRIDE};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the embedded device knows how to switch between the threads of a block on x86-64 and 64-bit ARM only");

/// Where suspended code continues: its stack pointer.
pub(crate) type Suspended = *mut u8;

/// What runs on a fresh stack; it returns what is to be continued next.
pub(crate) type Entry = unsafe extern "C" fn() -> Suspended;

/// A wave operation as kernels call it.
pub(crate) type Wave = unsafe extern "C" fn(thread: u32, site: u32, value: u64) -> *const WaveResult;
