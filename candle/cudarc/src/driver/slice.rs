//! Device memory, owned. Candle may put an operation off until its result is needed; then a slice is a promise of memory, which is
//! kept when somebody looks at it.

use super::memory::{CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop};
use super::{sys, CudaContext, CudaStream, DriverError};
use hip::{Buffer, DeviceCopy, MemoryId, Stream, View, ViewMut};
use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut, RangeBounds};
use std::sync::{Arc, OnceLock};

/// Elements in device memory, owned: a [`hip::Buffer`], whose methods it has too.
pub struct CudaSlice<T>(Memory<T>);

enum Memory<T> {
    There(Buffer<T>),
    Later(Box<Promise<T>>),
}

/// Memory that is made when it is asked for.
pub trait MadeLater<T>: Send + Sync {
    /// The memory: the same every time, once it could be made.
    fn make(&self) -> hip::Result<Buffer<T>>;

    /// Itself, for whoever knows what it is.
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

struct Promise<T> {
    maker: Arc<dyn MadeLater<T>>,
    len: usize,
    made: OnceLock<Buffer<T>>,
    /// Stands for memory that could not be made, where there is no way to return an error.
    nothing: Buffer<T>,
}

impl<T> Promise<T> {
    fn keep(&self) -> hip::Result<&Buffer<T>> {
        match self.made.get() {
            Some(made) => Ok(made),
            None => {
                let made = self.maker.make()?;
                Ok(self.made.get_or_init(|| made))
            }
        }
    }
}

impl<T> From<Buffer<T>> for CudaSlice<T> {
    fn from(buffer: Buffer<T>) -> Self {
        Self(Memory::There(buffer))
    }
}

impl<T: DeviceCopy> From<CudaSlice<T>> for Buffer<T> {
    fn from(slice: CudaSlice<T>) -> Self {
        slice.into_buffer()
    }
}

impl<T: DeviceCopy> Deref for CudaSlice<T> {
    type Target = Buffer<T>;

    fn deref(&self) -> &Buffer<T> {
        match &self.0 {
            Memory::There(buffer) => buffer,
            Memory::Later(promise) => promise.keep().unwrap_or_else(|error| {
                promise.nothing.device().defer(Err(error));
                &promise.nothing
            }),
        }
    }
}

impl<T: DeviceCopy> DerefMut for CudaSlice<T> {
    fn deref_mut(&mut self) -> &mut Buffer<T> {
        // Makes it, or says why not.
        let memory: &Buffer<T> = self;
        memory.stream().abandon_readers(memory.memory_id());
        self.kept()
    }
}

impl<T: DeviceCopy> CudaSlice<T> {
    /// A slice of `len` elements that `maker` makes when somebody looks at them.
    pub fn later(stream: &Stream, len: usize, maker: Arc<dyn MadeLater<T>>) -> Result<Self, DriverError> {
        let promise = Promise { maker, len, made: OnceLock::new(), nothing: stream.alloc(0)? };
        Ok(Self(Memory::Later(Box::new(promise))))
    }

    /// Who makes the memory, where it was put off.
    pub fn maker(&self) -> Option<&Arc<dyn MadeLater<T>>> {
        match &self.0 {
            Memory::Later(promise) => Some(&promise.maker),
            Memory::There(_) => None,
        }
    }

    /// The memory, or why it could not be made. [`Deref`] has no place for an error: there, the next call on the device says so.
    pub fn buffer(&self) -> Result<&Buffer<T>, DriverError> {
        match &self.0 {
            Memory::There(buffer) => Ok(buffer),
            Memory::Later(promise) => promise.keep(),
        }
    }

    /// The memory to write to, or why what it holds, or what was put off and still reads it, could not be computed.
    pub fn buffer_mut(&mut self) -> Result<&mut Buffer<T>, DriverError> {
        let memory = self.buffer()?;
        memory.stream().settle_readers(memory.memory_id())?;
        Ok(self.kept())
    }

    /// The memory to write to; what its maker knows of it is no longer true.
    fn kept(&mut self) -> &mut Buffer<T> {
        if let Memory::Later(promise) = &mut self.0 {
            if let Some(made) = promise.made.take() {
                self.0 = Memory::There(made);
            }
        }
        match &mut self.0 {
            Memory::There(buffer) => buffer,
            Memory::Later(promise) => &mut promise.nothing,
        }
    }

    /// A second handle of the same memory, or of the same promise.
    pub fn share(&self) -> Result<Self, DriverError> {
        match &self.0 {
            Memory::There(buffer) => Ok(buffer.share().into()),
            Memory::Later(promise) => Self::later(promise.nothing.stream(), promise.len, promise.maker.clone()),
        }
    }

    /// Which memory it is, if that is there.
    pub fn memory_if_there(&self) -> Option<MemoryId> {
        match &self.0 {
            Memory::There(buffer) => Some(buffer.memory_id()),
            Memory::Later(promise) => promise.made.get().map(Buffer::memory_id),
        }
    }

    /// The buffer itself.
    pub fn into_buffer(mut self) -> Buffer<T> {
        // Its owner may write to it without a word.
        DerefMut::deref_mut(&mut self);
        match self.0 {
            Memory::There(buffer) => buffer,
            Memory::Later(promise) => promise.made.into_inner().unwrap_or(promise.nothing),
        }
    }

    /// The memory if it is there, and what stands for it otherwise: both know their stream.
    fn placed(&self) -> &Buffer<T> {
        match &self.0 {
            Memory::There(buffer) => buffer,
            Memory::Later(promise) => promise.made.get().unwrap_or(&promise.nothing),
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match &self.0 {
            Memory::There(buffer) => buffer.len(),
            Memory::Later(promise) => promise.len,
        }
    }

    /// True when there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All elements, to read.
    pub fn as_view(&self) -> CudaView<'_, T> {
        CudaView(Buffer::view(self))
    }

    /// All elements, to write.
    pub fn as_view_mut(&mut self) -> CudaViewMut<'_, T> {
        CudaViewMut(Buffer::view_mut(self))
    }

    /// Some elements, to read.
    ///
    /// # Panics
    /// When the range goes beyond the end, as with Rust's own slices; [`CudaSlice::try_slice`] does not.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> CudaView<'_, T> {
        self.as_view().slice(range)
    }

    /// Some elements, to read, unless the range goes beyond the end.
    pub fn try_slice(&self, range: impl RangeBounds<usize>) -> Option<CudaView<'_, T>> {
        self.as_view().try_slice(range)
    }

    /// Some elements, to write.
    ///
    /// # Panics
    /// When the range goes beyond the end; [`CudaSlice::try_slice_mut`] does not.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> CudaViewMut<'_, T> {
        CudaViewMut(Buffer::slice_mut(self, range).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Some elements, to write, unless the range goes beyond the end.
    pub fn try_slice_mut(&mut self, range: impl RangeBounds<usize>) -> Option<CudaViewMut<'_, T>> {
        Buffer::slice_mut(self, range).ok().map(CudaViewMut)
    }

    /// A second copy of the elements.
    pub fn try_clone(&self) -> Result<Self, DriverError> {
        self.buffer()?.try_clone().map(Self::from)
    }

    /// The stream that the memory belongs to.
    pub fn stream(&self) -> &CudaStream {
        CudaStream::of(self.placed().stream())
    }

    /// The device it is on.
    pub fn context(&self) -> &CudaContext {
        CudaContext::of(self.placed().device())
    }

    /// The number of the device it is on.
    pub fn ordinal(&self) -> usize {
        self.placed().device().ordinal()
    }

    /// The number of bytes.
    pub fn num_bytes(&self) -> usize {
        self.len() * size_of::<T>()
    }
}

impl<'a, T: DeviceCopy> From<&'a CudaSlice<T>> for View<'a, T> {
    fn from(slice: &'a CudaSlice<T>) -> Self {
        Buffer::view(slice)
    }
}

impl<'a, T: DeviceCopy> From<&'a mut CudaSlice<T>> for ViewMut<'a, T> {
    fn from(slice: &'a mut CudaSlice<T>) -> Self {
        Buffer::view_mut(slice)
    }
}

impl<T> fmt::Debug for CudaSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Memory::There(buffer) => write!(f, "CudaSlice({buffer:?})"),
            Memory::Later(promise) => match promise.made.get() {
                Some(buffer) => write!(f, "CudaSlice({buffer:?})"),
                None => write!(f, "CudaSlice({} x {}, put off)", promise.len, std::any::type_name::<T>()),
            },
        }
    }
}

impl<T: DeviceCopy> DeviceSlice<T> for CudaSlice<T> {
    fn len(&self) -> usize {
        Self::len(self)
    }

    fn stream(&self) -> &CudaStream {
        Self::stream(self)
    }
}

impl<T: DeviceCopy> DevicePtr<T> for CudaSlice<T> {
    fn view(&self) -> View<'_, T> {
        Buffer::view(self)
    }

    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        super::memory::address(Buffer::view(self), stream)
    }
}

impl<T: DeviceCopy> DevicePtrMut<T> for CudaSlice<T> {
    fn view_mut(&mut self) -> ViewMut<'_, T> {
        Buffer::view_mut(self)
    }

    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        let view: ViewMut<'_, T> = Buffer::view_mut(self);
        super::memory::address(view.as_view(), stream)
    }
}
