//! What Candle programs use of cudarc, under cudarc's names, on AMD GPUs: memory, streams and launches of the module
//! [`driver`]. Candle's `cuda_backend::cudarc` is this package, and through `[patch.crates-io]` other crates get it too.
//!
//! The types are thin: a [`driver::CudaSlice`] is a [`hip::Buffer`], a [`driver::CudaFunction`] a [`hip::Function`]. What is
//! not here is NVIDIA's own (cuBLAS, cuDNN, NVRTC, PTX, the driver's raw calls): a program that names it does not
//! compile, and asks [`hip`] or the crate `rocm` instead.

pub mod driver;

pub use hip;
