//! cudarc's `driver`: contexts, streams, memory, launches.

mod launch;
mod memory;
mod slice;
mod stream;
pub mod sys;

pub use launch::{LaunchArgs, LaunchConfig, PushKernelArg};
pub use memory::{
    CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr, DeviceSlice, HostSlice, SyncOnDrop, ValidAsZeroBits,
};
pub use slice::{CudaSlice, MadeLater};
pub use stream::{CudaContext, CudaStream};

/// A kernel.
pub use hip::Function as CudaFunction;

/// What went wrong, in a sentence.
pub use hip::Error as DriverError;

/// The same under the name that tells it from raw calls.
pub mod safe {
    pub use super::*;
}

/// Where cudarc keeps its error.
pub mod result {
    pub use super::DriverError;
}
