//! The transforms on a ROCm device: rocFFT, with the plans that the device's stream keeps.

use super::operation::{unsupported, Kind, Operation};
use candle_core::backend::BackendStorage;
use candle_core::rocm_backend::{RocmDType, RocmStorage, WrapErr};
use candle_core::{DType, Result};
use rocm::fft::{Plan, Real, Transform};
use std::ops::Range;

/// Transforms the elements of a range, rows one behind the other, into `count` elements.
pub fn transform(operation: &Operation, x: &RocmStorage, range: Range<usize>, count: usize) -> Result<RocmStorage> {
    use candle_core::CustomOp1;
    match x.dtype() {
        DType::F16 => typed::<half::f16>(operation, x, range, count),
        DType::F32 => typed::<f32>(operation, x, range, count),
        DType::F64 => typed::<f64>(operation, x, range, count),
        other => Err(unsupported(operation.name(), other, "f16, f32 and f64")),
    }
}

fn typed<T: Real + RocmDType>(
    operation: &Operation,
    x: &RocmStorage,
    range: Range<usize>,
    count: usize,
) -> Result<RocmStorage> {
    let Operation { kind, length, scale } = *operation;
    let (device, stream) = (x.device(), x.device().stream());
    let row = match kind {
        Kind::Forward | Kind::Inverse => 2 * length,
        Kind::RealForward => length,
        Kind::RealInverse => 2 * (length / 2 + 1),
    };
    let batch = range.len() / row;
    let transform = |kind| Transform::new(kind, &[length]).batch(batch).scale(scale);
    // rocFFT may write into what it reads, and a tensor stays what it is: it gets a copy.
    let mut data = stream.alloc::<T>(range.len()).w()?;
    data.copy_from(x.as_rocm_slice::<T>()?.view().slice(range).w()?).w()?;
    let in_place = |kind| Plan::<T>::kept(stream, &transform(kind).in_place()).w();
    let kind = match kind {
        Kind::Forward | Kind::Inverse => {
            let kind = if kind == Kind::Forward { rocm::fft::Kind::Forward } else { rocm::fft::Kind::Inverse };
            in_place(kind)?.execute_in_place(&mut data).w()?;
            return Ok(RocmStorage::wrap_rocm_slice::<T>(data, device.clone()));
        }
        Kind::RealForward => rocm::fft::Kind::RealForward,
        Kind::RealInverse => rocm::fft::Kind::RealInverse,
    };
    let mut results = stream.alloc::<T>(count).w()?;
    Plan::<T>::kept(stream, &transform(kind)).w()?.execute(&mut data, &mut results).w()?;
    Ok(RocmStorage::wrap_rocm_slice::<T>(results, device.clone()))
}
