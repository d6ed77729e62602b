//! AMD's kernel driver in software. Preloaded into a process (`LD_PRELOAD`), this library answers what the user space of ROCm asks
//! the driver for, so that AMD's own libraries, unmodified, find GPUs on a machine that has none. Kernels run on [`vgpu`].
//!
//! - `hooks` are the functions of the C library and of libdrm that programs call; what does not concern the driver goes on to
//!   the next library.
//! - `files` are the driver's files below `/sys` and `/dev`: what GPUs there are. `cards` has each architecture's figures.
//! - `ioctl` answers calls to `/dev/kfd`; `memory`, `events` and `queue` are what they act on.
//! - `queue` runs packets: `queue::aql` for kernels and barriers, `queue::sdma` for copies.
//!
//! `/dev/kfd` and the render nodes are memory files, so mapping them needs no hook. A device address is the process's own address
//! of the same memory, but for host memory that was registered later.
//!
//! `config` lists the environment variables. Without `KFD_ARCH` the library does nothing.

// Tests do without the hooks, which would catch the test program's own calls, and so without most callers.
#![cfg_attr(test, allow(dead_code))]

mod abi;
mod cards;
mod config;
mod device;
mod dispatch;
mod events;
mod files;
#[cfg(not(test))]
mod hooks;
mod ioctl;
mod log;
mod memory;
mod queue;
mod report;
mod state;
