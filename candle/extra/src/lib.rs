//! Operations that Candle does not have, for its CPU device and, with the feature `rocm`, for a ROCm device: AMD's libraries do the work
//! there. All of them have gradients.
//!
//! [`fft`] has Fourier transforms.

pub mod fft;
