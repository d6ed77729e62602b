//! Events: a place in a stream that can be asked about, waited for and timed. Recording an event again moves it; whoever waited for
//! the earlier place keeps waiting for that one.

use crate::command::Command;
use crate::graph::{self, Mark};
use crate::handles::Handles;
use crate::stream::{forbid_waiting, Stream};
use hip_abi::{hipError_t, hipEvent_t};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// An event.
pub(crate) struct Event {
    device: usize,
    timed: bool,
    place: Mutex<Place>,
}

#[derive(Clone)]
enum Place {
    Nowhere,
    /// In a stream; the time is 0 until the stream gets there.
    Stream {
        stream: Arc<Stream>,
        ticket: u64,
        time: Arc<AtomicU64>,
    },
    /// In a graph being captured, where it only carries dependencies.
    Capture(Mark),
}

static EVENTS: Handles<Event> = Handles::new(0x52);

/// Makes an event of the device.
pub(crate) fn create(device: usize, timed: bool) -> hipEvent_t {
    hipEvent_t(EVENTS.insert(Arc::new(Event { device, timed, place: Mutex::new(Place::Nowhere) })))
}

/// The event behind a handle.
pub(crate) fn resolve(handle: hipEvent_t) -> Result<Arc<Event>, hipError_t> {
    EVENTS.get(handle.0).ok_or(hipError_t::hipErrorInvalidHandle)
}

/// Takes the handle back. Waits that were submitted still hold.
pub(crate) fn destroy(handle: hipEvent_t) -> Result<(), hipError_t> {
    EVENTS.remove(handle.0).map(drop).ok_or(hipError_t::hipErrorInvalidHandle)
}

impl Event {
    fn place(&self) -> Place {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Moves the event to the end of the stream.
    pub fn record(&self, stream: &Arc<Stream>) -> Result<(), hipError_t> {
        if stream.device != self.device {
            return Err(hipError_t::hipErrorInvalidHandle);
        }
        let place = match graph::mark(stream)? {
            Some(mark) => Place::Capture(mark),
            None => {
                let time = Arc::new(AtomicU64::new(0));
                match stream.submit(Command::Stamp(time.clone()))? {
                    Some(ticket) => Place::Stream { stream: stream.clone(), ticket, time },
                    // A capture began in between, on another thread.
                    None => return Err(hipError_t::hipErrorStreamCaptureUnsupported),
                }
            }
        };
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
        Ok(())
    }

    /// Makes later work of `stream` wait until this event is done. An event never recorded is done.
    pub fn await_on(&self, stream: &Arc<Stream>) -> Result<(), hipError_t> {
        match self.place() {
            Place::Nowhere => Ok(()),
            Place::Capture(mark) => graph::join(stream, &mark),
            Place::Stream { stream: awaited, ticket, .. } => {
                // Work outside cannot be waited for from inside: the graph would not know of it when it is launched again.
                graph::forbid_outside_dependency(stream)?;
                if awaited.is_done(ticket) {
                    return Ok(());
                }
                stream.submit(Command::Wait(awaited, ticket)).map(drop)
            }
        }
    }

    /// Whether the stream has passed the event; `hipErrorNotReady` when not.
    pub fn query(&self) -> Result<(), hipError_t> {
        match self.place() {
            Place::Nowhere => Ok(()),
            Place::Capture(_) => Err(hipError_t::hipErrorCapturedEvent),
            Place::Stream { stream, ticket, .. } if stream.is_done(ticket) => Ok(()),
            Place::Stream { .. } => Err(hipError_t::hipErrorNotReady),
        }
    }

    /// Waits until the stream has passed the event.
    pub fn synchronize(&self) -> Result<(), hipError_t> {
        match self.place() {
            Place::Nowhere => Ok(()),
            Place::Capture(_) => Err(hipError_t::hipErrorCapturedEvent),
            Place::Stream { stream, ticket, .. } => {
                forbid_waiting()?;
                stream.wait_for(ticket);
                stream.take_failure()
            }
        }
    }

    /// When the stream passed the event, in nanoseconds of the one clock.
    fn time(&self) -> Result<u64, hipError_t> {
        match self.place() {
            Place::Stream { time, .. } if self.timed => match time.load(Ordering::Acquire) {
                0 => Err(hipError_t::hipErrorNotReady),
                time => Ok(time),
            },
            Place::Capture(_) => Err(hipError_t::hipErrorCapturedEvent),
            _ => Err(hipError_t::hipErrorInvalidHandle),
        }
    }
}

/// Milliseconds between two events.
pub(crate) fn elapsed(start: &Event, stop: &Event) -> Result<f32, hipError_t> {
    if start.device != stop.device {
        return Err(hipError_t::hipErrorInvalidHandle);
    }
    // An event that cannot be timed is an error even while the other is not ready.
    let (start, stop) = match (start.time(), stop.time()) {
        (Err(error), _) if error != hipError_t::hipErrorNotReady => return Err(error),
        (_, Err(error)) if error != hipError_t::hipErrorNotReady => return Err(error),
        (start, stop) => (start?, stop?),
    };
    Ok(((stop as f64 - start as f64) / 1e6) as f32)
}
