//! A safe HIP runtime: devices, streams, events, buffers, modules, graphs, run-time compilation, and a caching pool.
//!
//! Everything is written once against the table of C functions that [`hip_abi::Hip`] describes. Behind the table stands
//! AMD's own library or the embedded device, which runs the same kernels on the CPU: see [`Platform`]. Objects are
//! `Send + Sync`, keep what they depend on alive, make their device current before they call, and return [`Result`].
//!
//! ```
//! let platform = hip::Platform::named("host")?; // or Platform::detect() for the machine's GPU
//! let stream = platform.device(0)?.new_stream()?;
//! let mut numbers = stream.upload(&[3u32, 1, 2])?;
//! numbers.slice_mut(1..)?.fill(9)?;
//! assert_eq!(numbers.to_vec()?, [3, 9, 9]);
//! # Ok::<(), hip::Error>(())
//! ```
//!
//! With the feature `kernel`, kernels can be written in Rust: see the module `kernel`. One in HIP C++ is launched by [`Function::launch`], the one thing here that is `unsafe` besides building a buffer from raw
//! parts; [`Compiler`] shows a whole program.

mod buffer;
mod compiler;
#[cfg(feature = "conformance")]
pub mod conformance;
mod copy;
mod copy_threads;
mod device;
mod dispose;
mod driver;
mod element;
mod error;
mod event;
mod exit;
mod graph;
mod image;
#[cfg(feature = "kernel")]
pub mod kernel;
mod known_archs;
mod large_copy;
mod launch;
mod module;
mod pinned;
mod platform;
mod pool;
mod put_off;
mod stream;
mod stream_state;
mod upload_ring;
mod view;

pub use buffer::Buffer;
pub use compiler::{Compiler, Program};
pub use copy::Rows;
pub use device::{Device, Limits, MemoryInfo};
pub use element::{DeviceCopy, DevicePtr};
pub use error::{Error, Result};
pub use event::Event;
pub use graph::Graph;
#[cfg(feature = "kernel")]
pub use hip_macros::{device, kernel, kernels};
pub use launch::{Dim3, DynamicArgs, KernelArg, KernelArgs, LaunchConfig};
pub use module::{Function, FunctionInfo, Module};
pub use pinned::{Pending, PinnedBuffer};
#[doc(hidden)]
pub use platform::warn;
pub use platform::{Platform, PlatformKind, PLATFORM_VARIABLE};
pub use pool::PoolStats;
pub use put_off::{MemoryId, PutOff};
pub use stream::Stream;
pub use stream_state::StreamMemory;
pub use view::{View, ViewMut};

/// HIP's status codes by name, for comparing with [`Error::code`].
pub use hip_abi::hipError_t;

#[cfg(test)]
mod tests {
    #[test]
    fn everything_may_be_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<(crate::Platform, crate::Device, crate::Stream, crate::Event, crate::Graph)>();
        shared::<(
            crate::Buffer<f32>,
            crate::PinnedBuffer<f32>,
            crate::Pending<f32>,
            crate::View<f32>,
            crate::ViewMut<f32>,
        )>();
        shared::<(crate::Module, crate::Function, crate::Compiler, crate::Error)>();
    }
}
