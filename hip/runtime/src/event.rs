//! Points in a stream: recorded, waited for, timed.

use crate::device::Device;
use crate::dispose::Resource;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::graph::Session;
use crate::stream::Stream;
use hip_abi::{hipError_t, hipEventDefault, hipEventDisableTiming, hipEvent_t};
use std::fmt;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

/// A point in a stream's work.
///
/// ```
/// let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
/// let start = stream.record_timed()?;
/// let zeros = stream.zeros::<f32>(1 << 20)?;
/// let stop = stream.record_timed()?;
/// stop.synchronize()?;
/// println!("filled {} bytes in {:?}", zeros.bytes(), stop.elapsed_since(&start)?);
/// # Ok::<(), hip::Error>(())
/// ```
pub struct Event {
    device: Device,
    handle: hipEvent_t,
    timed: bool,
    /// The capture it was last recorded in: a stream that waits for it joins that capture.
    session: Mutex<Weak<Session>>,
}

impl Event {
    /// An event for ordering, without a time.
    pub fn new(device: &Device) -> Result<Self> {
        Self::create(device, false)
    }

    /// An event that also notes when it was reached.
    pub fn timed(device: &Device) -> Result<Self> {
        Self::create(device, true)
    }

    fn create(device: &Device, timed: bool) -> Result<Self> {
        device.0.bind()?;
        let mut handle = hipEvent_t::NULL;
        let flags = if timed { hipEventDefault } else { hipEventDisableTiming };
        // SAFETY: the pointer is to a live handle.
        unsafe { call!(device.platform(), hipEventCreateWithFlags(&mut handle, flags), || "making an event") }?;
        crate::exit::made(device.platform(), Resource::Event(handle));
        Ok(Self { device: device.clone(), handle, timed, session: Mutex::new(Weak::new()) })
    }

    /// Records the event on `stream`: it is reached when all work submitted there so far is done, and what was put off there.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        stream.settle()?;
        self.mark(stream)
    }

    /// As [`Event::record`], without what was put off. Whatever an operation that was put off uses when it is submitted, such as copies,
    /// must mark: settling would wait for that operation, which waits for the copy.
    pub(crate) fn mark(&self, stream: &Stream) -> Result<()> {
        stream.refuse_other_threads()?;
        self.device.0.bind()?;
        // SAFETY: both handles are alive.
        unsafe {
            call!(self.device.platform(), hipEventRecord(self.handle, stream.handle()), || {
                "recording an event on a stream"
            })
        }?;
        let session = stream.session().map_or_else(Weak::new, |session| std::sync::Arc::downgrade(&session));
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
        Ok(())
    }

    /// True when all work before the event is done. An event never recorded counts as reached.
    pub fn is_reached(&self) -> Result<bool> {
        self.device.0.bind()?;
        // SAFETY: the handle is alive.
        let outcome = unsafe { call!(self.device.platform(), hipEventQuery(self.handle), || "looking at an event") };
        match outcome {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some(hipError_t::hipErrorNotReady) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until all work before the event is done.
    pub fn synchronize(&self) -> Result<()> {
        self.device.0.bind()?;
        // SAFETY: the handle is alive.
        unsafe { call!(self.device.platform(), hipEventSynchronize(self.handle), || "waiting for an event") }
    }

    /// The time between two timed events that were both reached.
    pub fn elapsed_since(&self, start: &Event) -> Result<Duration> {
        if !self.timed || !start.timed {
            return Err(Error::refused(
                "these events have no time; make them with Event::timed or Stream::record_timed",
            ));
        }
        self.device.0.bind()?;
        let mut milliseconds = 0f32;
        // SAFETY: both handles are alive and the pointer is to a live number.
        unsafe {
            call!(self.device.platform(), hipEventElapsedTime(&mut milliseconds, start.handle, self.handle), || {
                "asking for the time between two events"
            })
        }?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default())
    }

    /// The device it was made on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The handle as the C calls take it, valid while this event lives.
    pub fn handle(&self) -> hipEvent_t {
        self.handle
    }

    pub(crate) fn session(&self) -> Option<std::sync::Arc<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.device.0.dispose(Resource::Event(self.handle));
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event(device {}, {})", self.device.ordinal(), if self.timed { "timed" } else { "untimed" })
    }
}
