//! Storages as the kernels take them: memory with a layout that has been checked to stay inside it. This is the one place
//! where Candle's layouts and dtypes meet those of the kernels' crate.

use super::kernels::{self, Operand, OperandMut, Output};
use super::{RocmDevice, RocmError, RocmStorage, WrapErr};
use crate::{DType, Layout, Result};

impl RocmStorage {
    /// The storage as a kernel reads it.
    pub fn operand<'a>(&'a self, layout: &'a Layout, op: &'static str) -> Result<Operand<'a>> {
        let dtype = kernel_dtype(self.slice.dtype(), op)?;
        Operand::new(self.slice.bytes()?, dtype, layout.start_offset(), layout.dims(), layout.stride()).w()
    }

    /// The storage as a kernel updates it in place.
    pub fn operand_mut<'a>(&'a mut self, layout: &'a Layout, op: &'static str) -> Result<OperandMut<'a>> {
        let dtype = kernel_dtype(self.slice.dtype(), op)?;
        OperandMut::new(self.slice.bytes_mut()?, dtype, layout.start_offset(), layout.dims(), layout.stride()).w()
    }

    /// The whole storage as a kernel fills it.
    pub fn output(&mut self, op: &'static str) -> Result<Output<'_>> {
        let count = self.slice.len();
        self.output_at(0, count, op)
    }

    /// Part of the storage as a kernel fills it: `count` elements from `start` on.
    pub fn output_at(&mut self, start: usize, count: usize, op: &'static str) -> Result<Output<'_>> {
        let dtype = kernel_dtype(self.slice.dtype(), op)?;
        Output::new(self.slice.bytes_mut()?, dtype, start, count).w()
    }

    /// A new storage that `fill` fills: how every operation makes its result.
    pub fn filled(
        device: &RocmDevice,
        dtype: DType,
        count: usize,
        op: &'static str,
        fill: impl FnOnce(&mut Output<'_>) -> hip::Result<()>,
    ) -> Result<Self> {
        let mut result = Self::uninitialised(device, dtype, count)?;
        fill(&mut result.output(op)?).w()?;
        Ok(result)
    }

    /// This storage, or a copy of it on the stream of `device`: a kernel reads only memory of the stream it runs on.
    pub fn on(&self, device: &RocmDevice) -> Result<OnStream<'_>> {
        if self.device.raw_stream() == device.raw_stream() {
            return Ok(OnStream::Here(self));
        }
        Ok(OnStream::Copied(self.transfer_to_device(device)?))
    }
}

/// A storage on the stream where it is needed.
pub enum OnStream<'a> {
    /// It was there already.
    Here(&'a RocmStorage),
    /// It came from another stream.
    Copied(RocmStorage),
}

impl std::ops::Deref for OnStream<'_> {
    type Target = RocmStorage;

    fn deref(&self) -> &RocmStorage {
        match self {
            OnStream::Here(storage) => storage,
            OnStream::Copied(storage) => storage,
        }
    }
}

/// The kernels' name for a dtype, or the error for one they do not know.
pub fn kernel_dtype(dtype: DType, op: &'static str) -> Result<kernels::DType> {
    match dtype {
        DType::U8 => Ok(kernels::DType::U8),
        DType::U32 => Ok(kernels::DType::U32),
        DType::I16 => Ok(kernels::DType::I16),
        DType::I32 => Ok(kernels::DType::I32),
        DType::I64 => Ok(kernels::DType::I64),
        DType::BF16 => Ok(kernels::DType::BF16),
        DType::F16 => Ok(kernels::DType::F16),
        DType::F32 => Ok(kernels::DType::F32),
        DType::F64 => Ok(kernels::DType::F64),
        DType::F8E4M3 => Ok(kernels::DType::F8E4M3),
        DType::F6E2M3 | DType::F6E3M2 | DType::F4 | DType::F8E8M0 => {
            Err(RocmError::UnsupportedDtype { dtype, op }.into())
        }
    }
}
