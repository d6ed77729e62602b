//! HIP's NVIDIA platform.
//!
//! The tables that everything above talks to ([`hip_abi::Hip`], [`hip_abi::Hiprtc`]) are filled here with functions that call
//! NVIDIA's driver (`libcuda`) and run-time compiler (`libnvrtc`), both found with `dlopen`: building needs no CUDA, and a
//! machine without it gets a sentence that names every file tried. The crate exists so that the very kernels and the very
//! backend that serve AMD's GPUs can be measured beside CUDA programs on one card; nothing chooses it unless it is asked for.
//!
//! ```
//! match hip_cuda::table() {
//!     Ok(hip) => {
//!         let mut count = 0;
//!         // SAFETY: the pointer is to a variable of ours.
//!         let status = unsafe { (hip.hipGetDeviceCount)(&mut count) };
//!         println!("{count} devices ({status})");
//!     }
//!     Err(why) => println!("{why}"),
//! }
//! ```
//!
//! How HIP's promises are kept where CUDA differs:
//!
//! * A thread has a current device; here that is the device's primary context, shared with the CUDA runtime and so with
//!   cuBLAS. It is made current at the first call of a thread and whenever `hipSetDevice` names another one. Code in the same
//!   thread that changes the driver's context by itself must change it back.
//! * A launch returns before the driver has it: bursts of them wait in a queue, from which one thread hands them on, and every other
//!   call of these tables, cuBLAS's included, waits until the queue is empty. So order is what HIP promises. Code that calls the
//!   driver past these tables, with a stream of theirs, calls `hipStreamQuery` first. A launch that the driver would refuse is
//!   not queued, so its error comes at once. `HIP_CUDA_QUEUE=0` does without, and so do machines of fewer than three cores.
//! * Result codes become HIP's by one table ([`CUresult`]).
//! * A kernel may use as much dynamic shared memory as the device has; CUDA's opt-in above 48 KiB happens at the launch,
//!   and `hipDeviceAttributeMaxSharedMemoryPerBlock` says the whole amount.
//! * Allocating, copying or filling nothing is success.
//! * `hipModuleLoadData` takes a cubin, a bundle of them, or PTX. Code for another processor is `hipErrorNoBinaryForGpu`.
//! * The architecture's name is nvrtc's: `sm_90`.
//! * [`rtc_table`] compiles to machine code for the architecture asked for, or else for the thread's device; options are
//!   clang's, as hipRTC takes them. A program may include `hip/hip_runtime.h`, and CUDA's headers where they are installed.
//! * [`compile`] is the compiler as one safe function, for build scripts and tools.
//! * The null stream is CUDA's legacy default stream, which has HIP's meaning.
#![allow(non_camel_case_types, non_snake_case)]

pub mod blas;
mod calls;
mod context;
mod device;
#[doc(hidden)]
pub mod driver;
mod kernel;
mod launch;
mod memory;
mod module;
mod queue;
mod rtc;
mod status;
mod stream;
mod table;
mod toolkit;

use hip_abi::{Hip, Hiprtc, Tried};
#[doc(hidden)]
pub use rtc::Nvrtc;
pub use rtc::{compile, CompileError, Compiled};
pub use status::CUresult;
use std::sync::OnceLock;
pub use toolkit::search;

/// HIP over NVIDIA's driver. It succeeds where the driver's library loads; whether there is a device, its calls tell.
pub fn table() -> Result<&'static Hip, Unavailable> {
    static TABLE: OnceLock<Hip> = OnceLock::new();
    context::load().map(|_| TABLE.get_or_init(table::filled)).map_err(Clone::clone)
}

/// hipRTC over nvrtc. It needs no GPU and no driver.
pub fn rtc_table() -> Result<&'static Hiprtc, Unavailable> {
    static TABLE: OnceLock<Hiprtc> = OnceLock::new();
    rtc::load().map(|_| TABLE.get_or_init(rtc::filled)).map_err(Clone::clone)
}

/// A library of NVIDIA's could not be loaded.
#[derive(Clone, Debug)]
pub struct Unavailable {
    /// What was looked for.
    pub what: &'static str,
    /// Every file tried, in order.
    pub tried: Vec<Tried>,
    /// What to do about it.
    pub advice: &'static str,
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no usable {}; tried", self.what)?;
        for (position, Tried { file, why }) in self.tried.iter().enumerate() {
            write!(f, "{} {}: {why}", if position == 0 { "" } else { ";" }, file.display())?;
        }
        write!(f, ". {}", self.advice)
    }
}

impl std::error::Error for Unavailable {}
