//! Fourier transforms along one dimension of a tensor, with gradients, on the CPU and on a ROCm device.
//!
//! ```
//! use candle_core::{Device, Tensor, D};
//! use candle_rocm_extra::fft::{irfft, rfft};
//! let x = Tensor::new(&[[1f32, 2., 3., 4., 5.], [0., 1., 0., 1., 0.]], &Device::Cpu)?;
//! let spectrum = rfft(&x, D::Minus1)?;
//! assert_eq!(spectrum.dims(), [2, 3, 2]);
//! let back = irfft(&spectrum, 5, D::Minus1)?;
//! assert!((back - x)?.abs()?.max_all()?.to_scalar::<f32>()? < 1e-6);
//! # Ok::<(), candle_core::Error>(())
//! ```
//!
//! Candle has no complex numbers. A complex tensor is a real one with a further dimension of 2 at the end, the real part and the imaginary
//! part, which is what PyTorch's `view_as_real` gives. That dimension is not counted: `D::Minus1` is the one before it.
//!
//! Forward transforms multiply by nothing, inverse ones by `1 / n`, as NumPy's and PyTorch's do unless they are told otherwise. Results
//! of a dimension that is not the last one are transposed views; `contiguous` copies them where that matters.

mod cpu;
mod operation;
#[cfg(feature = "rocm")]
mod rocm;

use candle_core::shape::Dim;
use candle_core::{bail, Result, Shape, Tensor};
use operation::{Kind, Operation};

/// The transform of a complex tensor: `y[k] = sum over j of x[j] exp(-2 pi i j k / n)`.
pub fn fft(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    complex(x, dim, Kind::Forward, |_| 1.0, "fft")
}

/// The inverse: `x[j] = sum over k of y[k] exp(2 pi i j k / n) / n`.
pub fn ifft(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    complex(x, dim, Kind::Inverse, |n| 1.0 / n as f64, "ifft")
}

/// The transform of a real tensor: the first `n / 2 + 1` complex numbers along the dimension. The others are their conjugates.
pub fn rfft(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    let (dim, last) = (dim.to_index(x.shape(), "rfft")?, x.rank().saturating_sub(1));
    let length = not_empty(x.dims()[dim], "rfft")?;
    let rows = x.transpose(dim, last)?.contiguous()?;
    let spectra = rows.apply_op1(Operation { kind: Kind::RealForward, length, scale: 1.0 })?;
    spectra.transpose(dim, last)
}

/// The inverse of [`rfft`]: `n` real numbers along the dimension, which has `n / 2 + 1` complex ones. `n` has to be said, because an even
/// one and the odd one after it have the same spectrum's length. The imaginary parts of the first number and, where `n` is even, of the last
/// one cannot be those of a real tensor; they count as zero.
pub fn irfft(x: &Tensor, n: usize, dim: impl Dim) -> Result<Tensor> {
    let (dim, last) = pairs(x, dim, "irfft")?;
    let length = not_empty(n, "irfft")?;
    if x.dims()[dim] != length / 2 + 1 {
        bail!(
            "irfft to {n} real numbers takes {} complex ones along dimension {dim}, not the {} of a tensor of shape {:?}",
            length / 2 + 1,
            x.dims()[dim],
            x.shape()
        )
    }
    let rows = x.transpose(dim, last)?;
    // What cannot be there is taken away here, so that all libraries and all gradients agree about it.
    let rows = rows.broadcast_mul(&operation::weights(length, 1.0, &rows)?)?.contiguous()?;
    let reals = rows.apply_op1(Operation { kind: Kind::RealInverse, length, scale: 1.0 / n as f64 })?;
    reals.transpose(dim, last)
}

fn complex(x: &Tensor, dim: impl Dim, kind: Kind, scale: fn(usize) -> f64, name: &'static str) -> Result<Tensor> {
    let (dim, last) = pairs(x, dim, name)?;
    let length = not_empty(x.dims()[dim], name)?;
    let rows = x.transpose(dim, last)?.contiguous()?;
    rows.apply_op1(Operation { kind, length, scale: scale(length) })?.transpose(dim, last)
}

/// The dimension that is meant and the last one, both without that of the pairs.
fn pairs(x: &Tensor, dim: impl Dim, name: &'static str) -> Result<(usize, usize)> {
    match x.dims() {
        [before @ .., _, 2] => Ok((dim.to_index(&Shape::from(&x.dims()[..before.len() + 1]), name)?, before.len())),
        _ => bail!(
            "{name} takes a complex tensor, whose last dimension of 2 has real and imaginary parts, not one of shape {:?}",
            x.shape()
        ),
    }
}

fn not_empty(length: usize, name: &str) -> Result<usize> {
    if length == 0 {
        bail!("{name} takes at least one element along its dimension, and there is none")
    }
    Ok(length)
}
