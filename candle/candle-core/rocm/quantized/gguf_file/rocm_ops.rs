//! Weights from a GGUF file straight to the ROCm device: each tensor's bytes are read once, into memory that the device copies from while
//! the next ones are read, in every block format. What a damaged file claims is checked before anything is allocated, and an error names the tensor and
//! where in the file it was supposed to lie.

#![warn(clippy::all, missing_docs)]

use super::{Content, TensorInfo};
use crate::quantized::rocm::QRocmStorage;
use crate::quantized::{QStorage, QTensor};
use crate::rocm_backend::{hip, WrapErr};
use crate::{Device, Result};
use std::io::{Read, Seek, SeekFrom};

/// `Content::tensor` on the ROCm device.
pub fn rocm_content_tensor<R: Seek + Read>(
    content: &Content,
    reader: &mut R,
    name: &str,
    device: &Device,
) -> Result<QTensor> {
    match content.tensor_infos.get(name) {
        Some(info) => load(info, reader, content.tensor_data_offset, device, &format!("tensor {name}")),
        None => crate::bail!("cannot find tensor info for {name}"),
    }
}

/// `TensorInfo::read` on the ROCm device.
pub fn rocm_tensor_info_read<R: Seek + Read>(
    info: &TensorInfo,
    reader: &mut R,
    tensor_data_offset: u64,
    device: &Device,
) -> Result<QTensor> {
    load(info, reader, tensor_data_offset, device, "a tensor")
}

fn load<R: Seek + Read>(info: &TensorInfo, reader: &mut R, data: u64, device: &Device, what: &str) -> Result<QTensor> {
    let (dtype, dims) = (info.ggml_dtype, info.shape.dims());
    let start = data.saturating_add(info.offset);
    let fail = |reason: String| -> Result<QTensor> {
        crate::bail!("gguf: {what} ({dtype:?}, shape {dims:?}, at offset {start}) {reason}")
    };
    if !dims.last().is_some_and(|last| last.is_multiple_of(dtype.block_size())) {
        return fail(format!(
            "does not consist of whole blocks of {} elements; the file is damaged",
            dtype.block_size()
        ));
    }
    let elements = dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
    let bytes = elements.and_then(|elements| (elements / dtype.block_size()).checked_mul(dtype.type_size()));
    let length = reader.seek(SeekFrom::End(0))?;
    let Some(bytes) = bytes.filter(|&bytes| bytes as u64 <= length.saturating_sub(start)) else {
        let needs = bytes.map_or("more bytes than can be counted".to_string(), |bytes| format!("{bytes} bytes"));
        return fail(format!(
            "needs {needs}, but the file ends at {length}; it is truncated or damaged, fetch it again"
        ));
    };
    let device = device.as_rocm_device()?;
    // No longer than the file, so that a damaged header cannot ask for all of memory.
    let storage = reader.seek(SeekFrom::Start(start)).map_err(Failure::File).and_then(|_| {
        QRocmStorage::read_in(device, dtype, bytes, |part| reader.read_exact(part).map_err(Failure::File))
    });
    match storage {
        Ok(storage) => QTensor::new(QStorage::Cuda(storage), info.shape.clone()),
        Err(Failure::File(error)) => fail(format!("cannot be read: {error}")),
        Err(Failure::Device(error)) => Err(error).w(),
    }
}

/// What can go wrong between the file and the device.
enum Failure {
    File(std::io::Error),
    Device(hip::Error),
}

impl From<hip::Error> for Failure {
    fn from(error: hip::Error) -> Self {
        Self::Device(error)
    }
}
