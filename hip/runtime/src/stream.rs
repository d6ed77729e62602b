//! Streams: queues of work that run in order, each with a memory pool of its own. Copies live in `copy.rs`, captures in
//! `graph.rs`.

use crate::buffer::{Block, Buffer};
use crate::device::Device;
use crate::dispose::Resource;
use crate::driver::call;
use crate::element::DeviceCopy;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::graph::{Captured, Session};
use crate::large_copy::Pieces;
use crate::pool::{Allocation, Pool, PoolStats};
use crate::put_off::Waiting;
use crate::stream_state::States;
use crate::upload_ring::Ring;
use crate::view::View;
use hip_abi::{hipError_t, hipStreamNonBlocking, hipStream_t};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A queue of work on a device. Cloning is cheap, and all clones are the same queue.
///
/// Memory comes from streams: a buffer belongs to the stream that made it, and its memory can be used again by that
/// stream as soon as it is dropped, because the stream runs in order.
///
/// ```
/// let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
/// let numbers = stream.upload(&[1.0f32, 2.0, 3.0])?;
/// assert_eq!(numbers.to_vec()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), hip::Error>(())
/// ```
#[derive(Clone)]
pub struct Stream(pub(crate) Arc<StreamInner>);

pub(crate) struct StreamInner {
    device: Device,
    handle: hipStream_t,
    pub(crate) pool: Arc<Pool>,
    pub(crate) upload_ring: Mutex<Option<Ring>>,
    pub(crate) pieces: Mutex<Pieces>,
    /// The event by which other streams wait for this one; used under its lock, from recording to the last wait.
    fence: Mutex<Option<Event>>,
    /// Whether `captured` holds something, so that the common path takes no lock.
    pub(crate) capturing: AtomicBool,
    pub(crate) captured: Mutex<Option<Captured>>,
    /// Operations that were put off.
    pub(crate) waiting: Waiting,
    /// What others keep with this stream. Goes after the drop has waited for all work.
    pub(crate) states: States,
}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        device.0.bind()?;
        let mut handle = hipStream_t::NULL;
        // Independent of the null stream: foreign code that uses that one must not serialise our work.
        // SAFETY: the pointer is to a live handle.
        device.with_memory_retry(|| unsafe {
            call!(device.platform(), hipStreamCreateWithFlags(&mut handle, hipStreamNonBlocking), || format!(
                "making a stream on device {}",
                device.ordinal()
            ))
        })?;
        crate::exit::made(device.platform(), Resource::Stream(handle));
        let inner = Arc::new(StreamInner {
            device: device.clone(),
            handle,
            pool: Pool::for_stream(device),
            upload_ring: Mutex::new(None),
            pieces: Mutex::default(),
            fence: Mutex::new(None),
            capturing: AtomicBool::new(false),
            captured: Mutex::new(None),
            waiting: Waiting::default(),
            states: States::default(),
        });
        device.0.register(&inner);
        Ok(Self(inner))
    }

    /// The device of this stream.
    #[inline]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The handle as the C calls take it, valid while this stream lives.
    #[inline]
    pub fn handle(&self) -> hipStream_t {
        self.0.handle
    }

    /// Waits until all work submitted so far is done. An error of a kernel comes out here.
    pub fn synchronize(&self) -> Result<()> {
        self.refuse_in_capture("waiting for the stream")?;
        self.settle()?;
        self.0.device.0.bind()?;
        self.0.synchronize()?;
        self.report()
    }

    /// What kernels in Rust had to report, now that they are known to be done.
    #[inline]
    pub(crate) fn report(&self) -> Result<()> {
        #[cfg(feature = "kernel")]
        crate::kernel::report(self)?;
        Ok(())
    }

    /// True when all work submitted so far is done.
    pub fn is_idle(&self) -> Result<bool> {
        self.refuse_in_capture("asking whether the stream is idle")?;
        self.0.device.0.bind()?;
        // SAFETY: the handle is alive.
        let outcome =
            unsafe { call!(self.device().platform(), hipStreamQuery(self.handle()), || "looking at a stream") };
        match outcome {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some(hipError_t::hipErrorNotReady) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A new event, recorded here.
    pub fn record(&self) -> Result<Event> {
        let event = Event::new(self.device())?;
        event.record(self)?;
        Ok(event)
    }

    /// A new event with a time, recorded here.
    pub fn record_timed(&self) -> Result<Event> {
        let event = Event::timed(self.device())?;
        event.record(self)?;
        Ok(event)
    }

    /// Lets work submitted here from now on wait for an event, of this stream or another, on this device or another.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.refuse_from_outside(event)?;
        self.0.device.0.bind()?;
        // SAFETY: both handles are alive.
        unsafe {
            call!(self.device().platform(), hipStreamWaitEvent(self.handle(), event.handle(), 0), || {
                "letting a stream wait for an event"
            })
        }?;
        if let Some(session) = event.session() {
            session.join(self);
        }
        Ok(())
    }

    /// Lets work submitted here from now on wait for all work submitted to `other` so far, and for what was put off there.
    pub fn wait_for(&self, other: &Stream) -> Result<()> {
        if self != other {
            other.settle()?;
        }
        self.follow(other)
    }

    /// As [`Stream::wait_for`], without what was put off ([`Event::mark`]).
    pub(crate) fn follow(&self, other: &Stream) -> Result<()> {
        if self == other {
            return Ok(());
        }
        let mut fence = other.0.fence.lock().unwrap_or_else(PoisonError::into_inner);
        if fence.is_none() {
            *fence = Some(Event::new(other.device())?);
        }
        if let Some(event) = &*fence {
            event.mark(other)?;
            self.wait(event)?;
        }
        Ok(())
    }

    /// A buffer of `len` elements. Its contents are whatever the memory held before.
    pub fn alloc<T: DeviceCopy>(&self, len: usize) -> Result<Buffer<T>> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize).ok_or_else(|| {
            Error::refused(format!("a buffer of {len} elements of {} bytes is larger than any memory", size_of::<T>()))
        })?;
        if bytes == 0 {
            self.0.device.0.report_deferred()?;
            return Ok(Buffer::from_block(Block::empty(self), len));
        }
        let allocation = self.0.allocate(bytes)?;
        Ok(Buffer::from_block(Block::new(self, allocation), len))
    }

    /// A buffer of `len` elements with all bytes zero.
    pub fn zeros<T: DeviceCopy>(&self, len: usize) -> Result<Buffer<T>> {
        let mut buffer = self.alloc(len)?;
        buffer.zero()?;
        Ok(buffer)
    }

    /// A buffer with a copy of `data`.
    pub fn upload<T: DeviceCopy>(&self, data: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.alloc(data.len())?;
        buffer.write(data)?;
        Ok(buffer)
    }

    /// Checks that memory may be named by work queued here: it belongs to this stream, so that it is not given to anybody else before that
    /// work is done. While a capture is made, the graph keeps it. For libraries that queue work themselves.
    pub fn uses<'a, T: DeviceCopy>(&self, memory: impl Into<View<'a, T>>) -> Result<()> {
        let memory = memory.into();
        if memory.stream() != self {
            return Err(Error::refused(
                "the memory belongs to another stream, whose order says nothing about this one; copy it here with `to_stream` first",
            ));
        }
        self.refuse_other_threads()?;
        memory.keep_in_capture();
        Ok(())
    }

    /// While a capture is made, lets its graph keep `thing`, which the work recorded next needs at every launch. Otherwise drops it.
    pub fn keep_in_capture(&self, thing: impl std::any::Any + Send) {
        if let Some(session) = self.session() {
            session.keep(Box::new(thing));
        }
    }

    /// What the pool of this stream holds and has done.
    pub fn pool_stats(&self) -> PoolStats {
        self.0.pool.stats()
    }

    /// True while a capture is being made on this stream.
    #[inline]
    pub fn is_capturing(&self) -> bool {
        self.0.capturing.load(Ordering::Acquire)
    }

    /// True while another thread captures this stream: what this thread submitted would be recorded, and not run.
    pub fn is_captured_elsewhere(&self) -> bool {
        self.0.is_captured_elsewhere()
    }

    /// Whoever submits work asks this before.
    pub(crate) fn refuse_other_threads(&self) -> Result<()> {
        self.0.refuse_other_threads()
    }

    /// A graph would not wait for an event of work that it does not hold, and HIP refuses to record that.
    fn refuse_from_outside(&self, event: &Event) -> Result<()> {
        self.refuse_other_threads()?;
        let Some(session) = self.session() else { return Ok(()) };
        match event.session() {
            Some(other) if Arc::ptr_eq(&session, &other) => Ok(()),
            _ => Err(Error::refused(
                "a stream that is being captured cannot wait for work outside of the capture, as for a tensor of another stream; copy that here before the capture",
            )),
        }
    }

    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        if !self.is_capturing() {
            return None;
        }
        let captured = self.0.captured.lock().unwrap_or_else(PoisonError::into_inner);
        captured.as_ref().map(|captured| captured.session.clone())
    }

    pub(crate) fn refuse_in_capture(&self, what: &str) -> Result<()> {
        if !self.is_capturing() {
            return Ok(());
        }
        Err(Error::refused(format!("{what} is not possible while the stream is being captured; do it before or after")))
    }
}

impl StreamInner {
    /// Waits for this stream. Expects its device to be current.
    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the handle is alive.
        unsafe { call!(self.device.platform(), hipStreamSynchronize(self.handle), || "waiting for a stream") }
    }

    /// Waits for this stream when memory must not go before it is done: should that fail, for the whole device. When both
    /// fail the device is lost, and runs nothing any more.
    pub(crate) fn drain(&self) -> Result<()> {
        let waited = self.synchronize();
        if waited.is_err() {
            // SAFETY: the call takes nothing. Its own failure says no more than the first.
            unsafe { (self.device.platform().table().hipDeviceSynchronize)() };
        }
        waited
    }

    fn is_captured_elsewhere(&self) -> bool {
        if !self.capturing.load(Ordering::Acquire) {
            return false;
        }
        let captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        captured.as_ref().is_some_and(|captured| captured.thread != std::thread::current().id())
    }

    fn refuse_other_threads(&self) -> Result<()> {
        if !self.is_captured_elsewhere() {
            return Ok(());
        }
        Err(Error::refused(
            "another thread is capturing this stream; wait until it is done, or give this thread a stream of its own (for Candle, Device::new_rocm_with_stream)",
        ))
    }

    /// Memory of at least `bytes` bytes: from the capture's pool while one is made, otherwise from this stream's.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<Allocation> {
        self.device.0.report_deferred()?;
        if self.capturing.load(Ordering::Acquire) {
            self.refuse_other_threads()?;
            let pool = {
                let captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
                captured.as_ref().map(|captured| captured.pool.clone())
            };
            if let Some(pool) = pool {
                return pool.allocate(bytes);
            }
        }
        self.pool.allocate(bytes)
    }
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        // The pool and the upload ring go next: nothing may still be using them.
        let bound = self.device.0.bind_quietly();
        self.device.0.defer(bound.and(self.drain()));
        self.device.0.dispose(Resource::Stream(self.handle));
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Stream {}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?}, device {})", self.0.handle.0, self.device().ordinal())
    }
}
