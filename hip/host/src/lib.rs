//! The embedded device: HIP on the processor's own threads.
//!
//! [`table`] offers HIP's C functions and [`compile()`] turns ordinary HIP source into code objects for them, so that the same runtime
//! and the same kernels run on a machine without a GPU. Streams are real queues, blocks run in parallel, waves have 32 or 64 lanes;
//! checked mode finds bad memory accesses in kernels, and [`inject`] makes any call fail.
//!
//! ```
//! let hip = hip_host::table();
//! let mut count = 0;
//! // SAFETY: the pointer is good for one number.
//! let status = unsafe { (hip.hipGetDeviceCount)(&mut count) };
//! assert!(status.is_success() && count >= 1);
//! ```
#![allow(non_snake_case)] // C's names

mod abi;
mod checked;
mod clang;
mod clock;
mod code;
mod command;
mod compile;
mod config;
mod device;
mod event;
mod exec;
mod graph;
mod handles;
mod image;
pub mod inject;
#[cfg(feature = "emulator")]
mod launch_log;
mod memory;
mod module;
pub mod module_abi;
mod report;
mod rtc;
mod scan;
mod signal;
mod stream;
mod target;
mod task;

pub use abi::table;
pub use clang::Clang;
pub use compile::{compile, fingerprint, CompileError, CompileFailure, CompileRequest, Object};
pub use config::{configure, options, Options};
pub use exec::Order;
#[cfg(feature = "emulator")]
pub use launch_log::{log_launches, take_launch_log, LaunchLog, LoggedLaunch};
pub use memory::{live_allocations, Allocation, Kind};
pub use module::{argument_sizes, launches};
pub use report::take_report;
pub use rtc::rtc_table;
pub use target::Target;
pub use task::{enqueue, enqueue_fallible};
