//! State that a stream carries for its users: counters, flags, whatever launches of one stream share. It lives inside the
//! stream and ends with it, so nobody has to find out which streams are still in use. Its memory is [`StreamMemory`], which
//! unlike a buffer does not hold the stream: otherwise each would keep the other alive.

use crate::buffer::{Block, Buffer};
use crate::element::{DeviceCopy, DevicePtr};
use crate::error::{Error, Result};
use crate::pool::Allocation;
use crate::stream::Stream;
use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// What a stream carries: at most one value of each type, in a list because there are few.
#[derive(Default)]
pub(crate) struct States(Mutex<Vec<(TypeId, Arc<dyn Any + Send + Sync>)>>);

/// Device memory that belongs to a stream without holding it. Whoever reads or clears it names the stream.
///
/// Dropping it gives the memory back to the stream's pool, behind the work submitted so far.
pub struct StreamMemory<T> {
    allocation: Allocation,
    len: usize,
    marker: PhantomData<fn() -> T>,
}

impl Stream {
    /// The state of type `T` that this stream carries, made by `make` when nobody has asked for it before.
    ///
    /// The value ends with the stream. It must not hold the stream, or a buffer of it: take [`Stream::state_memory`] for memory.
    pub fn state<T: Any + Send + Sync>(&self, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut states = self.0.states.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = states.iter().find(|(kind, _)| *kind == TypeId::of::<T>()).map(|(_, state)| state.clone());
        if let Some(state) = found.and_then(|state| state.downcast::<T>().ok()) {
            return Ok(state);
        }
        let state = Arc::new(make()?);
        states.push((TypeId::of::<T>(), state.clone()));
        Ok(state)
    }

    /// The state of type `T` if this stream carries one.
    pub fn state_if_any<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let states = self.0.states.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = states.iter().find(|(kind, _)| *kind == TypeId::of::<T>()).map(|(_, state)| state.clone());
        found.and_then(|state| state.downcast::<T>().ok())
    }

    /// `len` zeros for [`Stream::state`].
    pub fn state_memory<T: DeviceCopy>(&self, len: usize) -> Result<StreamMemory<T>> {
        self.refuse_in_capture("making memory for the stream's state")?;
        let bytes = len.max(1).checked_mul(size_of::<T>()).filter(|&bytes| bytes > 0 && bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(|| Error::refused(format!("{len} elements of stream state are not possible")))?;
        let memory = StreamMemory { allocation: self.0.allocate(bytes)?, len, marker: PhantomData };
        memory.clear(self)?;
        Ok(memory)
    }
}

impl<T: DeviceCopy> StreamMemory<T> {
    /// The address of the first element, for launches on the stream.
    pub fn ptr(&self) -> DevicePtr<T> {
        DevicePtr::from_address(self.allocation.address())
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements, after all work submitted to `stream` so far.
    pub fn read(&self, stream: &Stream) -> Result<Vec<T>> {
        self.on(stream)?.to_vec()
    }

    /// Sets all bytes to zero, after the work submitted to `stream` so far.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        self.on(stream)?.zero()
    }

    /// The memory as a buffer, for one call.
    fn on(&self, stream: &Stream) -> Result<Buffer<T>> {
        if !self.allocation.is_of(&stream.0.pool) {
            return Err(Error::refused("the state belongs to another stream; ask that one for it"));
        }
        Ok(Buffer::from_block(Block::borrowed(stream, self.allocation.address()), self.len))
    }
}

impl<T> fmt::Debug for StreamMemory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamMemory({} x {})", self.len, std::any::type_name::<T>())
    }
}
