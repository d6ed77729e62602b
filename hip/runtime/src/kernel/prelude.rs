//! What kernels in Rust may name. The attributes bring it into the scope of a kernel by themselves.
//!
//! On the host, where rustc checks a kernel and a device function is an ordinary function, there is a grid of one thread: its place is 0, a
//! barrier is passed at once, a wave has one lane.

pub use super::memory::{GlobalMut, Shared};
pub use super::number::{AtomicInteger, AtomicNumber, Number};
pub use super::threads::*;
pub use half::{bf16, f16};
