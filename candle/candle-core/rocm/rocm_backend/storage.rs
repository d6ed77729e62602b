//! Memory on a ROCm device: one typed buffer, and the device it belongs to. Here it is made, copied, moved between
//! devices and brought back; what is computed with it lives in the neighbouring files.

use super::put_off::Later;
use super::{RocmDevice, RocmError, WrapErr};
use crate::{CpuStorage, CpuStorageRef, DType, Layout, Result};
use cudarc::driver::{CudaSlice, DeviceRepr};
use float8::F8E4M3;
use half::{bf16, f16};
use hip::{Buffer, MemoryId, View, ViewMut};
use std::ops::Range;
use std::sync::Arc;

/// Calls a macro with every dtype: the variant's name and what one of its elements is on the device.
///
/// `F8E4M3` lives as bytes, because `hip` does not know the crate that defines it; the sub-byte formats are packed.
macro_rules! for_each_dtype {
    ($with:ident) => {
        $with! {
            U8: u8, U32: u32, I16: i16, I32: i32, I64: i64, BF16: bf16, F16: f16, F32: f32, F64: f64,
            F8E4M3: u8, F6E2M3: u8, F6E3M2: u8, F4: u8, F8E8M0: u8
        }
    };
}

macro_rules! define_slice {
    ($($variant:ident: $element:ty),*) => {
        /// A buffer on the device, by dtype.
        #[derive(Debug)]
        #[allow(missing_docs)] // The variants are Candle's dtypes.
        pub enum RocmStorageSlice {
            $($variant(CudaSlice<$element>),)*
        }

        impl RocmStorageSlice {
            /// The dtype of the elements.
            pub fn dtype(&self) -> DType {
                match self { $(Self::$variant(_) => DType::$variant,)* }
            }

            /// The number of elements; for packed sub-byte dtypes, of bytes.
            pub fn len(&self) -> usize {
                match self { $(Self::$variant(buffer) => buffer.len(),)* }
            }

            /// True when there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// All bytes, to read.
            pub fn bytes(&self) -> Result<View<'_, u8>> {
                self.settle()?;
                match self { $(Self::$variant(buffer) => buffer.buffer().w()?.view().cast().w(),)* }
            }

            /// All bytes, to write. What was put off and reads them is submitted before.
            pub fn bytes_mut(&mut self) -> Result<ViewMut<'_, u8>> {
                self.settle()?;
                match self { $(Self::$variant(buffer) => buffer.buffer_mut().w()?.view_mut().cast().w(),)* }
            }

            /// A second handle of the same memory.
            pub(super) fn share(&self) -> Result<Self> {
                match self { $(Self::$variant(buffer) => Ok(Self::$variant(buffer.share().w()?)),)* }
            }

            /// Which memory it is, if that is there.
            pub(super) fn memory_if_there(&self) -> Option<MemoryId> {
                match self { $(Self::$variant(buffer) => buffer.memory_if_there(),)* }
            }

            /// The operation that makes it, where that was put off.
            pub(super) fn later(&self) -> Option<Arc<Later>> {
                let maker = match self { $(Self::$variant(buffer) => buffer.maker().map(|maker| maker.clone().any()),)* };
                maker.and_then(|maker| maker.downcast().ok())
            }

            /// A buffer whose contents are whatever the memory held before.
            pub(super) fn uninitialised(device: &RocmDevice, dtype: DType, count: usize) -> Result<Self> {
                match dtype { $(DType::$variant => Ok(Self::$variant(device.raw_stream().alloc(count).w()?.into())),)* }
            }

            /// A buffer of zeros.
            pub(super) fn zeros(device: &RocmDevice, dtype: DType, count: usize) -> Result<Self> {
                match dtype { $(DType::$variant => Ok(Self::$variant(device.raw_stream().zeros(count).w()?.into())),)* }
            }

            /// A copy on another device, or on another stream of the same one.
            fn copy_to(&self, device: &RocmDevice) -> Result<Self> {
                self.settle()?;
                match self { $(Self::$variant(buffer) => {
                    Ok(Self::$variant(buffer.buffer().w()?.to_stream(device.raw_stream()).w()?.into()))
                })* }
            }
        }
    };
}
for_each_dtype!(define_slice);

impl RocmStorageSlice {
    /// A promise of memory.
    pub(super) fn promised(device: &RocmDevice, dtype: DType, count: usize, later: Arc<Later>) -> Result<Self> {
        let stream = device.raw_stream();
        match dtype {
            DType::BF16 => Ok(Self::BF16(CudaSlice::later(stream, count, later).w()?)),
            DType::F16 => Ok(Self::F16(CudaSlice::later(stream, count, later).w()?)),
            DType::F32 => Ok(Self::F32(CudaSlice::later(stream, count, later).w()?)),
            _ => crate::bail!("results of {dtype:?} are never put off"),
        }
    }

    /// Sees to it that the memory is there.
    fn settle(&self) -> Result<()> {
        match (self.memory_if_there(), self.later()) {
            (None, Some(later)) => later.slice().map(drop),
            _ => Ok(()),
        }
    }
}

/// A tensor's memory on a ROCm device.
#[derive(Debug)]
pub struct RocmStorage {
    /// The buffer.
    pub slice: RocmStorageSlice,
    /// The device it belongs to.
    pub device: RocmDevice,
}

/// A Rust type whose values are the elements of a dtype on the device.
pub trait RocmDType: DeviceRepr {
    /// The dtype.
    const DTYPE: DType;
    /// The buffer, if the slice holds elements of this type.
    fn of(slice: &RocmStorageSlice) -> Option<&CudaSlice<Self>>;
    /// The buffer to write to, if the slice holds elements of this type.
    fn of_mut(slice: &mut RocmStorageSlice) -> Option<&mut CudaSlice<Self>>;
    /// A slice of these elements.
    fn wrap(buffer: CudaSlice<Self>) -> RocmStorageSlice;
}

macro_rules! define_dtype {
    ($($variant:ident: $element:ty),*) => {
        $(impl RocmDType for $element {
            const DTYPE: DType = DType::$variant;
            fn of(slice: &RocmStorageSlice) -> Option<&CudaSlice<Self>> {
                match slice { RocmStorageSlice::$variant(buffer) => Some(buffer), _ => None }
            }
            fn of_mut(slice: &mut RocmStorageSlice) -> Option<&mut CudaSlice<Self>> {
                match slice { RocmStorageSlice::$variant(buffer) => Some(buffer), _ => None }
            }
            fn wrap(buffer: CudaSlice<Self>) -> RocmStorageSlice {
                RocmStorageSlice::$variant(buffer)
            }
        })*
    };
}
define_dtype!(U8: u8, U32: u32, I16: i16, I32: i32, I64: i64, BF16: bf16, F16: f16, F32: f32, F64: f64);

impl RocmStorage {
    /// A storage around a buffer.
    pub fn wrap_rocm_slice<T: RocmDType>(buffer: impl Into<CudaSlice<T>>, device: RocmDevice) -> Self {
        Self { slice: T::wrap(buffer.into()), device }
    }

    /// The buffer, when its elements are of this type.
    pub fn as_rocm_slice<T: RocmDType>(&self) -> Result<&Buffer<T>> {
        self.as_cuda_slice().map(|slice| &**slice)
    }

    /// The buffer to write to, when its elements are of this type.
    pub fn as_rocm_slice_mut<T: RocmDType>(&mut self) -> Result<&mut Buffer<T>> {
        self.as_cuda_slice_mut().map(|slice| &mut **slice)
    }

    /// The same as CUDA's programs ask for it.
    pub fn wrap_cuda_slice<T: RocmDType>(slice: CudaSlice<T>, device: RocmDevice) -> Self {
        Self::wrap_rocm_slice(slice, device)
    }

    /// The memory, when its elements are of this type.
    pub fn as_cuda_slice<T: RocmDType>(&self) -> Result<&CudaSlice<T>> {
        self.slice.settle()?;
        let slice = T::of(&self.slice).ok_or_else(|| self.unexpected::<T>())?;
        // Kernels of a user's own write to what they were given to read, too.
        let memory = slice.buffer().w()?;
        memory.stream().settle_readers(memory.memory_id()).w()?;
        Ok(slice)
    }

    /// The memory to write to, when its elements are of this type.
    pub fn as_cuda_slice_mut<T: RocmDType>(&mut self) -> Result<&mut CudaSlice<T>> {
        self.slice.settle()?;
        let unexpected = self.unexpected::<T>();
        T::of_mut(&mut self.slice).ok_or(unexpected)
    }

    fn unexpected<T: RocmDType>(&self) -> crate::Error {
        let got = self.slice.dtype();
        RocmError::UnexpectedDType { msg: "unexpected dtype", expected: T::DTYPE, got }.into()
    }

    /// A storage for `count` elements that an operation is about to fill.
    pub(super) fn uninitialised(device: &RocmDevice, dtype: DType, count: usize) -> Result<Self> {
        Ok(Self { slice: RocmStorageSlice::uninitialised(device, dtype, count)?, device: device.clone() })
    }

    /// A copy on another device, or a second copy on the same one.
    pub fn transfer_to_device(&self, device: &RocmDevice) -> Result<Self> {
        // Whoever waits for the copy does not wait here: a kernel's complaint must come out before.
        if self.device.raw_stream() != device.raw_stream() {
            self.device.check()?;
            // During a capture of ours, that stream becomes part of it; what waits there is not.
            device.raw_stream().settle().w()?;
        }
        Ok(Self { slice: self.slice.copy_to(device)?, device: device.clone() })
    }

    /// Brings elements back, after all work submitted for them. Packed dtypes count bytes.
    pub(crate) fn download(&self, elements: Range<usize>) -> Result<CpuStorage> {
        self.slice.settle()?;
        // Where the host waits anyway is where a kernel's complaint about its input comes out.
        self.device.check()?;
        macro_rules! download {
            ($($variant:ident),*) => {
                match &self.slice {
                    $(RocmStorageSlice::$variant(buffer) => {
                        CpuStorage::$variant(buffer.view().slice(elements).and_then(|part| part.to_vec()).w()?)
                    })*
                    RocmStorageSlice::F8E4M3(buffer) => {
                        let bytes = buffer.view().slice(elements).and_then(|part| part.to_vec()).w()?;
                        CpuStorage::F8E4M3(bytes.into_iter().map(F8E4M3::from_bits).collect())
                    }
                }
            };
        }
        Ok(download!(U8, U32, I16, I32, I64, BF16, F16, F32, F64, F6E2M3, F6E3M2, F4, F8E8M0))
    }

    /// The elements of a layout in their order, with nothing between them.
    pub(crate) fn in_order(&self, layout: &Layout) -> Result<Self> {
        super::elementwise::copy(self, layout)
    }

    /// A second handle of the same memory, for an operation that is put off.
    pub(super) fn share(&self) -> Result<Self> {
        Ok(Self { slice: self.slice.share()?, device: self.device.clone() })
    }

    /// The operation that makes it, where that was put off.
    pub(super) fn later(&self) -> Option<Arc<Later>> {
        self.slice.later()
    }

    /// Takes one number to a device.
    pub(super) fn upload_number(device: &RocmDevice, dtype: DType, number: f32) -> Result<Self> {
        match dtype {
            DType::BF16 => Self::send(device, CpuStorageRef::BF16(&[bf16::from_f32(number)])),
            DType::F16 => Self::send(device, CpuStorageRef::F16(&[f16::from_f32(number)])),
            _ => Self::send(device, CpuStorageRef::F32(&[number])),
        }
    }

    /// Takes memory to a device. A single number may wait until somebody needs it there.
    pub(super) fn upload(device: &RocmDevice, data: CpuStorageRef<'_>) -> Result<Self> {
        let number = match data {
            CpuStorageRef::BF16(&[number]) => super::put_off::number(device, DType::BF16, number.to_f32())?,
            CpuStorageRef::F16(&[number]) => super::put_off::number(device, DType::F16, number.to_f32())?,
            CpuStorageRef::F32(&[number]) => super::put_off::number(device, DType::F32, number)?,
            _ => None,
        };
        match number {
            Some(number) => Ok(number),
            None => Self::send(device, data),
        }
    }

    /// Takes memory to a device now.
    fn send(device: &RocmDevice, data: CpuStorageRef<'_>) -> Result<Self> {
        macro_rules! upload {
            ($($variant:ident),*) => {
                match data {
                    $(CpuStorageRef::$variant(data) => RocmStorageSlice::$variant(device.raw_stream().upload(data).w()?.into()),)*
                    CpuStorageRef::F8E4M3(data) => {
                        let bytes: Vec<u8> = data.iter().map(F8E4M3::to_bits).collect();
                        RocmStorageSlice::F8E4M3(device.raw_stream().upload(&bytes).w()?.into())
                    }
                }
            };
        }
        let slice = upload!(U8, U32, I16, I32, I64, BF16, F16, F32, F64, F6E2M3, F6E3M2, F4, F8E8M0);
        Ok(Self { slice, device: device.clone() })
    }
}
