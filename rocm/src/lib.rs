//! AMD's math libraries behind safe Rust.
//!
//! Each library is a table of its C ABI, filled with `dlopen` on a machine that has ROCm and by an implementation of our
//! own on the embedded device, so that the code above is the same and can be tested anywhere. rocBLAS is
//! [`blas`], MIOpen is [`miopen`], rocRAND is [`rand`], rocFFT is [`fft`], RCCL is [`rccl`].

pub mod blas;
mod embedded;
pub mod fft;
pub mod miopen;
pub mod rand;
pub mod rccl;
