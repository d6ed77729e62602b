//! Counters with which the blocks of a launch find out which of them is the last (`last_to_arrive` in `hip/reduce.hip`). They
//! are zero between launches, because the last block sets its counter back, so no launch has to clear them first. Each stream
//! has counters of its own: its launches follow one another. So has each launch in a capture, whose graph may run on any stream
//! and clears them itself. Rows that stay on the chip (`hip/resident.h`) exchange their states in such words too.

use hip::{Buffer, DevicePtr, Result, Stream};
use std::sync::{Mutex, PoisonError};

/// Counters a stream begins with: more than the blocks that rows cut in pieces have on any device of today.
const LEAST: u32 = 4096;

/// The counters of a device's streams.
#[derive(Debug, Default)]
pub struct Arrivals {
    streams: Mutex<Vec<Buffer<u32>>>,
}

/// Counters for one launch.
#[derive(Debug)]
pub enum Counters {
    /// Those of the stream.
    Kept(DevicePtr<u32>),
    /// Those of a launch in a capture.
    Own(Buffer<u32>),
}

impl Counters {
    pub fn ptr(&self) -> DevicePtr<u32> {
        match self {
            Self::Kept(ptr) => *ptr,
            Self::Own(buffer) => buffer.ptr(),
        }
    }
}

impl Arrivals {
    /// At least `count` zeros for a launch on `stream`.
    pub fn of(&self, stream: &Stream, count: u32) -> Result<Counters> {
        if stream.is_capturing() {
            return Ok(Counters::Own(stream.zeros(count as usize)?));
        }
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let found = streams.iter().position(|counters| counters.stream().handle() == stream.handle());
        if let Some(counters) = found.map(|at| &streams[at]).filter(|counters| counters.len() >= count as usize) {
            return Ok(Counters::Kept(counters.ptr()));
        }
        let counters = stream.zeros(count.max(LEAST) as usize)?;
        let ptr = counters.ptr();
        match found {
            // The smaller ones go back to the stream's pool, behind the launches that use them.
            Some(at) => streams[at] = counters,
            None => {
                // Those of streams that nobody uses any more end with them.
                streams.retain(|counters| counters.stream().holders() > 1);
                streams.push(counters);
            }
        }
        Ok(Counters::Kept(ptr))
    }
}
