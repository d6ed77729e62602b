//! Tensors on the ROCm device as Rust's own values. Only the elements that are asked for come back, in the order of the tensor,
//! and straight into the vector that the caller gets.

#![warn(clippy::all, missing_docs)]

use super::{Storage, Tensor};
use crate::backend::BackendStorage;
use crate::rocm_backend::RocmError;
use crate::{Error, Result, WithDType};

/// Up to this many bytes the host puts elements in order faster than a kernel that does it on the device is launched.
const ORDERED_BY_THE_HOST: usize = 64 << 10;

/// `Tensor::to_scalar` on the ROCm device.
pub fn rocm_tensor_to_scalar<S: WithDType>(tensor: &Tensor) -> Result<S> {
    tensor.dims0()?;
    match elements(tensor)?[..] {
        [element] => Ok(element),
        ref several => crate::bail!("a tensor without dimensions has {} elements", several.len()),
    }
}

/// `Tensor::to_vec1` on the ROCm device.
pub fn rocm_tensor_to_vec1<S: WithDType>(tensor: &Tensor) -> Result<Vec<S>> {
    tensor.dims1()?;
    elements(tensor)
}

/// `Tensor::to_vec2` on the ROCm device.
pub fn rocm_tensor_to_vec2<S: WithDType>(tensor: &Tensor) -> Result<Vec<Vec<S>>> {
    let (count, length) = tensor.dims2()?;
    Ok(rows(elements(tensor)?, count, length))
}

/// `Tensor::to_vec3` on the ROCm device.
pub fn rocm_tensor_to_vec3<S: WithDType>(tensor: &Tensor) -> Result<Vec<Vec<Vec<S>>>> {
    let (count, rows_of_each, length) = tensor.dims3()?;
    let mut rows = rows(elements(tensor)?, count * rows_of_each, length).into_iter();
    Ok((0..count).map(|_| rows.by_ref().take(rows_of_each).collect()).collect())
}

/// `count` rows of `length` elements; a single one is the vector itself.
fn rows<S: WithDType>(elements: Vec<S>, count: usize, length: usize) -> Vec<Vec<S>> {
    match count {
        1 => vec![elements],
        _ => (0..count).map(|row| elements[row * length..][..length].to_vec()).collect(),
    }
}

/// All elements in the order of the tensor.
fn elements<S: WithDType>(tensor: &Tensor) -> Result<Vec<S>> {
    let storage = tensor.storage();
    let Storage::Cuda(storage) = &*storage else {
        crate::bail!("a tensor of the ROCm device has its memory elsewhere")
    };
    let (expected, got) = (S::DTYPE, storage.dtype());
    if expected != got {
        return Err(Error::UnexpectedDType { expected, got, msg: "unexpected dtype" }.bt());
    }
    let layout = tensor.layout();
    if let Some((start, end)) = layout.contiguous_offsets() {
        return S::cpu_storage_data(storage.download(start..end)?);
    }
    if storage.slice.len() * got.size_in_bytes() > ORDERED_BY_THE_HOST {
        match storage.in_order(layout) {
            Ok(ordered) => return S::cpu_storage_data(ordered.to_cpu_storage()?),
            // There may be no room for them on the device; on the host there has to be.
            Err(error) if RocmError::is_out_of_memory(&error) => (),
            Err(error) => return Err(error),
        }
    }
    let all = S::cpu_storage_data(storage.to_cpu_storage()?)?;
    Ok(tensor.strided_index().map(|index| all[index]).collect())
}
