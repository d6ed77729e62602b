//! Memory of a device as a typed, owned value. A buffer belongs to a stream; dropping it gives its memory back to that
//! stream's pool at once. Copies are in `copy.rs`, parts of buffers in `view.rs`.

use crate::device::Device;
use crate::element::{DeviceCopy, DevicePtr};
use crate::error::Result;
use crate::pool::{Allocation, Pool};
use crate::stream::Stream;
use crate::view::{View, ViewMut};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::{Arc, PoisonError};

/// Elements in device memory, owned.
///
/// ```
/// let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
/// let mut a = stream.zeros::<u32>(6)?;
/// let b = stream.upload(&[1u32, 2, 3])?;
/// a.slice_mut(1..4)?.copy_from(&b)?;
/// assert_eq!(a.to_vec()?, [0, 1, 2, 3, 0, 0]);
/// assert!(a.slice(4..9).is_err());
/// # Ok::<(), hip::Error>(())
/// ```
pub struct Buffer<T> {
    address: DevicePtr<T>,
    len: usize,
    block: Arc<Block>,
    marker: PhantomData<T>,
}

/// The memory of a buffer. Shared so that a capture can keep it alive, and what was put off.
pub(crate) struct Block {
    stream: Stream,
    allocation: Option<Allocation>,
    foreign: Option<Box<dyn Any + Send + Sync>>,
    address: u64,
}

impl Block {
    pub(crate) fn new(stream: &Stream, allocation: Allocation) -> Self {
        Self { address: allocation.address(), stream: stream.clone(), allocation: Some(allocation), foreign: None }
    }

    pub(crate) fn empty(stream: &Stream) -> Self {
        Self::borrowed(stream, 0)
    }

    /// Memory that somebody else owns for as long as this is used.
    pub(crate) fn borrowed(stream: &Stream, address: u64) -> Self {
        Self { stream: stream.clone(), allocation: None, foreign: None, address }
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(crate) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        self.allocation.as_ref().is_some_and(|allocation| allocation.is_of(pool))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let (Some(allocation), true) = (self.allocation.take(), self.stream.is_capturing()) else { return };
        // Work recorded so far may name this memory, and a graph runs again: the graph keeps it. Memory that came from
        // the capture itself goes back to the capture's pool, where only the rest of the capture finds it.
        let session = {
            let captured = self.stream.0.captured.lock().unwrap_or_else(PoisonError::into_inner);
            captured
                .as_ref()
                .filter(|captured| !allocation.is_of(&captured.pool))
                .map(|captured| captured.session.clone())
        };
        if let Some(session) = session {
            session.keep(Box::new(allocation));
        }
    }
}

impl<T: DeviceCopy> Buffer<T> {
    pub(crate) fn from_block(block: Block, len: usize) -> Self {
        Self { address: DevicePtr::from_address(block.address), len, block: Arc::new(block), marker: PhantomData }
    }

    /// A buffer over memory that somebody else allocated. `owner` is dropped with the buffer.
    ///
    /// # Safety
    /// `address` must be `len` elements of memory that `stream`'s device can access, aligned for `T`, and valid until
    /// `owner` is dropped; nothing else may use it meanwhile except in the order of `stream`. Dropping `owner` must be
    /// safe while work on `stream` still uses the memory.
    pub unsafe fn from_raw_parts(
        stream: &Stream,
        address: DevicePtr<T>,
        len: usize,
        owner: impl Any + Send + Sync,
    ) -> Self {
        let foreign: Option<Box<dyn Any + Send + Sync>> = Some(Box::new(owner));
        Self::from_block(Block { stream: stream.clone(), allocation: None, foreign, address: address.address() }, len)
    }

    pub(crate) fn again(&self) -> Self {
        Self { address: self.address, len: self.len, block: self.block.clone(), marker: PhantomData }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The stream that it belongs to.
    pub fn stream(&self) -> &Stream {
        &self.block.stream
    }

    /// The device it is on.
    pub fn device(&self) -> &Device {
        self.block.stream.device()
    }

    /// The address of the first element, for kernels. Null when there are no elements.
    pub fn ptr(&self) -> DevicePtr<T> {
        self.address
    }

    pub(crate) fn address_field(&self) -> *const DevicePtr<T> {
        &self.address
    }

    /// All elements, to read.
    pub fn view(&self) -> View<'_, T> {
        View::new(&self.block, self.address, self.len)
    }

    /// All elements, to write.
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::new(&self.block, self.address, self.len)
    }

    /// Some elements, to read. A range beyond the end is an error.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<View<'_, T>> {
        self.view().slice(range)
    }

    /// Some elements, to write. A range beyond the end is an error.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<ViewMut<'_, T>> {
        self.view_mut().slice(range)
    }

    /// The same memory with elements of another type. The bytes must divide into whole elements of it, and the address
    /// must suit its alignment.
    pub fn cast<U: DeviceCopy>(self) -> Result<Buffer<U>> {
        let len = crate::view::cast_len::<T, U>(self.address, self.len)?;
        Ok(Buffer { address: self.address.cast(), len, block: self.block, marker: PhantomData })
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} x {} at {:?})", self.len, std::any::type_name::<T>(), self.address)
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({:#x}{})", self.address, if self.foreign.is_some() { ", foreign" } else { "" })
    }
}
