//! Quantized tensors on a ROCm device: blocks of a GGML format in one buffer. Here they are loaded, quantized, and brought
//! back; `products.rs` multiplies with them.

#![warn(clippy::all, missing_docs, clippy::undocumented_unsafe_blocks)]

mod products;
mod widened;

pub use products::RoutedInput;

use super::{GgmlDType, GgmlType, QStorage};
use crate::backend::BackendStorage;
use crate::rocm_backend::hip;
use crate::rocm_backend::kernels::{self, Kernels, Output};
use crate::rocm_backend::WrapErr;
use crate::{CpuStorage, Device, Layout, Result, RocmDevice, RocmStorage, Storage};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, SyncOnDrop};

/// The name that Candle has for it.
pub type QCudaStorage = QRocmStorage;

/// Asks for a slower way to multiply with one row. There is one way here, the fast one; the call is there for programs written for CUDA.
pub fn set_force_dmmv(_: bool) {}

/// Quantized blocks on a ROCm device.
#[derive(Debug)]
pub struct QRocmStorage {
    blocks: CudaSlice<u8>,
    dtype: GgmlDType,
    device: RocmDevice,
}

impl QRocmStorage {
    /// Blocks of zeros for `elem_count` elements.
    pub fn zeros(device: &RocmDevice, elem_count: usize, dtype: GgmlDType) -> Result<Self> {
        let blocks = device.alloc_zeros(elem_count.div_ceil(dtype.block_size()) * dtype.type_size())?;
        Ok(Self { blocks, dtype, device: device.clone() })
    }

    /// Blocks as they lie in a file.
    pub fn from_bytes(device: &RocmDevice, dtype: GgmlDType, blocks: &[u8]) -> Result<Self> {
        Ok(Self { blocks: device.clone_htod(blocks)?, dtype, device: device.clone() })
    }

    /// `bytes` bytes of blocks that `read` takes out of a file, part by part, into memory that the device reaches.
    pub(crate) fn read_in<E: From<hip::Error>>(
        device: &RocmDevice,
        dtype: GgmlDType,
        bytes: usize,
        read: impl FnMut(&mut [u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, E> {
        let mut blocks = device.raw_stream().alloc::<u8>(bytes)?;
        blocks.view_mut().write_from(read)?;
        Ok(Self { blocks: blocks.into(), dtype, device: device.clone() })
    }

    /// The format of the blocks.
    pub fn dtype(&self) -> GgmlDType {
        self.dtype
    }

    /// The device.
    pub fn device(&self) -> &RocmDevice {
        &self.device
    }

    /// The size of all blocks.
    pub fn storage_size_in_bytes(&self) -> usize {
        self.blocks.bytes()
    }

    /// The address of the first block, for kernels of a user's own.
    pub fn device_ptr(&self) -> Result<*const u8> {
        Ok(self.blocks.ptr().as_raw().cast_const().cast())
    }

    /// The same, for work on `stream`.
    pub fn device_ptr_with_guard<'a>(&'a self, stream: &'a CudaStream) -> Result<(*const u8, SyncOnDrop<'a>)> {
        stream.hip_stream().wait_for(self.blocks.stream().hip_stream()).w()?;
        let (address, guard) = self.blocks.device_ptr(stream);
        Ok((address as *const u8, guard))
    }

    /// The blocks, in host memory.
    pub fn data(&self) -> Result<Vec<u8>> {
        self.blocks.to_vec().w()
    }

    /// Quantizes a tensor of this device into the blocks. The simple formats are made by a kernel; the others search for
    /// their scales, which is an algorithm of the host, as on CUDA.
    pub fn quantize(&mut self, source: &RocmStorage) -> Result<()> {
        let format = products::block_format(self.dtype);
        // The kernel takes steps of the largest value's 127th part, as Candle does from 0.11 on; before, it was the 128th.
        let other_steps = cfg!(any(candle = "0.9", candle = "0.10")) && self.dtype == GgmlDType::Q8K;
        if other_steps || !Kernels::can_quantize(format) {
            return self.quantize_onto(&host_f32(source)?);
        }
        let source = source.on(&self.device)?;
        let layout = Layout::contiguous(source.as_rocm_slice::<f32>()?.len());
        let values = source.operand(&layout, "quantize")?;
        let count = self.blocks.len();
        let mut out = Output::new(&mut self.blocks, kernels::DType::U8, 0, count).w()?;
        self.device.kernels().quantize(&values, format, &mut out).w()
    }

    /// Quantizes a tensor of this device, weighing columns by their importance. The search for the best scales is an
    /// algorithm of the host, as on CUDA.
    pub fn quantize_imatrix(&mut self, source: &RocmStorage, weights: &[f32], per_row: usize) -> Result<()> {
        self.quantize_imatrix_onto(&host_f32(source)?, weights, per_row)
    }

    /// Quantizes a tensor in host memory into the blocks.
    pub fn quantize_onto(&mut self, source: &CpuStorage) -> Result<()> {
        self.encode_on_host(source, |blocks, source| blocks.quantize(source))
    }

    /// Quantizes a tensor in host memory, weighing columns by their importance.
    pub fn quantize_imatrix_onto(&mut self, source: &CpuStorage, weights: &[f32], per_row: usize) -> Result<()> {
        self.encode_on_host(source, |blocks, source| blocks.quantize_imatrix(source, weights, per_row))
    }

    fn encode_on_host(
        &mut self,
        source: &CpuStorage,
        encode: impl FnOnce(&mut QStorage, &Storage) -> Result<()>,
    ) -> Result<()> {
        let source = source.as_slice::<f32>()?;
        let mut blocks = Device::Cpu.qzeros(source.len(), self.dtype)?;
        encode(&mut blocks, &Storage::Cpu(CpuStorage::F32(source.to_vec())))?;
        self.blocks = self.device.clone_htod(&*blocks.data()?)?;
        Ok(())
    }
}

fn host_f32(source: &RocmStorage) -> Result<CpuStorage> {
    source.as_rocm_slice::<f32>()?;
    source.to_cpu_storage()
}

/// Takes blocks in host memory to a device.
pub fn load_quantized<T: GgmlType + Send + Sync + 'static>(device: &RocmDevice, blocks: &[T]) -> Result<QStorage> {
    // SAFETY: the blocks of GGML formats are plain numbers without padding; the slice covers exactly these bytes.
    let bytes = unsafe { std::slice::from_raw_parts(blocks.as_ptr().cast::<u8>(), std::mem::size_of_val(blocks)) };
    Ok(QStorage::Cuda(QRocmStorage::from_bytes(device, T::DTYPE, bytes)?))
}
