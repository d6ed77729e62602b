//! The transforms as operations of Candle on contiguous tensors, along the last dimension, and their gradients. Each is a linear map,
//! so the gradient is its transpose applied to the result's gradient:
//!
//! - Seen as a map of pairs of reals, a complex matrix has its conjugate transpose for a transpose. That of the forward transform is the
//!   inverse one with the same factor, and the other way round.
//! - [`Kind::RealForward`] leaves the second half of the spectrum out. Its transpose is the inverse of a spectrum of which only the first
//!   half is there; the inverse counts each number that has a conjugate twice, so those are halved before.
//! - [`Kind::RealInverse`] is that the other way round: what it counts twice has twice the gradient.

use super::cpu;
use candle_core::{bail, CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor};

/// What is transformed into what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Forward,
    Inverse,
    RealForward,
    RealInverse,
}

/// One transform of each row.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub kind: Kind,
    /// Of the reals, where one side is real.
    pub length: usize,
    /// What results are multiplied by.
    pub scale: f64,
}

impl Operation {
    /// Checks the layout; gives the elements' range and the result's shape.
    pub fn prepare(&self, layout: &Layout) -> Result<(std::ops::Range<usize>, Shape)> {
        let name = self.name();
        let Some((from, to)) = layout.contiguous_offsets() else { bail!("{name} wants a contiguous tensor") };
        let (mut dims, half) = (layout.dims().to_vec(), self.length / 2 + 1);
        let row: &[usize] = match self.kind {
            Kind::Forward | Kind::Inverse => &[self.length, 2],
            Kind::RealForward => &[self.length],
            Kind::RealInverse => &[half, 2],
        };
        if !dims.ends_with(row) {
            bail!("{name} of length {} takes rows of shape {row:?}, not a tensor of shape {dims:?}", self.length)
        }
        dims.truncate(dims.len() - row.len());
        match self.kind {
            Kind::Forward | Kind::Inverse => dims.extend([self.length, 2]),
            Kind::RealForward => dims.extend([half, 2]),
            Kind::RealInverse => dims.push(self.length),
        }
        Ok((from..to, Shape::from(dims)))
    }

    fn of(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }
}

/// For the numbers of half a spectrum of `length` reals: one for the real parts of those without a conjugate, zero for their imaginary
/// parts, which no real tensor has, and `others` for all other numbers. Like `like` in dtype and device.
pub fn weights(length: usize, others: f64, like: &Tensor) -> Result<Tensor> {
    let half = length / 2 + 1;
    let single = |k: usize| k == 0 || 2 * k == length;
    let pair = |k: usize| if single(k) { [1.0, 0.0] } else { [others; 2] };
    let weights: Vec<f64> = (0..half).flat_map(pair).collect();
    Tensor::from_vec(weights, (half, 2), &candle_core::Device::Cpu)?.to_dtype(like.dtype())?.to_device(like.device())
}

impl CustomOp1 for Operation {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Forward => "fft",
            Kind::Inverse => "ifft",
            Kind::RealForward => "rfft",
            Kind::RealInverse => "irfft",
        }
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (range, shape) = self.prepare(layout)?;
        match storage {
            CpuStorage::F32(data) => Ok((CpuStorage::F32(cpu::transform(self, &data[range])), shape)),
            CpuStorage::F64(data) => Ok((CpuStorage::F64(cpu::transform(self, &data[range])), shape)),
            other => Err(unsupported(self.name(), candle_core::backend::BackendStorage::dtype(other), "f32 and f64")),
        }
    }

    #[cfg(feature = "rocm")]
    fn rocm_fwd(
        &self,
        storage: &candle_core::rocm_backend::RocmStorage,
        layout: &Layout,
    ) -> Result<(candle_core::rocm_backend::RocmStorage, Shape)> {
        let (range, shape) = self.prepare(layout)?;
        Ok((super::rocm::transform(self, storage, range, shape.elem_count())?, shape))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let transposed = match self.kind {
            Kind::Forward => gradient.contiguous()?.apply_op1(self.of(Kind::Inverse)),
            Kind::Inverse => gradient.contiguous()?.apply_op1(self.of(Kind::Forward)),
            Kind::RealForward => {
                let halved = gradient.broadcast_mul(&weights(self.length, 0.5, gradient)?)?;
                halved.contiguous()?.apply_op1(self.of(Kind::RealInverse))
            }
            Kind::RealInverse => {
                let spectra = gradient.contiguous()?.apply_op1(self.of(Kind::RealForward))?;
                spectra.broadcast_mul(&weights(self.length, 2.0, gradient)?)
            }
        };
        transposed.map(Some)
    }
}

/// The sentence about a dtype that cannot be transformed.
pub fn unsupported(name: &str, dtype: DType, known: &str) -> candle_core::Error {
    candle_core::Error::Msg(format!("{name} takes {known} here, not {dtype:?}; cast the tensor first")).bt()
}
