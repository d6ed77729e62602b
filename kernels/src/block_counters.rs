//! Counters with which the blocks of a launch find out which of them is the last (`last_to_arrive` in `hip/reduce.hip`). They
//! are zero between launches, because the last block sets its counter back, so no launch has to clear them first. Each stream
//! carries counters of its own: its launches follow one another. A launch in a capture has its own, because the graph may run on
//! any stream; the graph clears them itself. Rows that stay on the chip (`hip/resident.h`) exchange their states in such words too.

use hip::{Buffer, DevicePtr, Result, Stream, StreamMemory};
use std::sync::{Arc, Mutex, PoisonError};

/// Counters a stream begins with: more than the blocks that rows cut in pieces have on any device of today.
const LEAST: u32 = 4096;

/// The counters that a stream carries.
struct StreamCounters(Mutex<Arc<StreamMemory<u32>>>);

/// Counters for one launch. To be held until the launch is submitted: freed memory is used again in the order of the stream.
#[derive(Debug)]
pub enum BlockCounters {
    /// Those of the stream. Another thread may replace them by more; the memory stays until the last launch has let go of it.
    OfStream(Arc<StreamMemory<u32>>),
    /// Those of one operation alone.
    Own(Buffer<u32>),
}

impl BlockCounters {
    /// At least `count` zeros for one launch on `stream`.
    pub fn new(stream: &Stream, count: u32) -> Result<Self> {
        if stream.is_capturing() {
            return Self::own(stream, count);
        }
        let kept = stream.state(|| Ok(StreamCounters(Mutex::new(make(stream, count)?))))?;
        let mut counters = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counters.len() < count as usize {
            *counters = make(stream, count)?;
        }
        Ok(Self::OfStream(counters.clone()))
    }

    /// `count` zeros for an operation of several launches that count on: another thread's launch may come between them.
    pub fn own(stream: &Stream, count: u32) -> Result<Self> {
        Ok(Self::Own(stream.zeros(count as usize)?))
    }

    /// The address of the first.
    pub fn ptr(&self) -> DevicePtr<u32> {
        match self {
            Self::OfStream(memory) => memory.ptr(),
            Self::Own(buffer) => buffer.ptr(),
        }
    }
}

fn make(stream: &Stream, count: u32) -> Result<Arc<StreamMemory<u32>>> {
    Ok(Arc::new(stream.state_memory(count.max(LEAST) as usize)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stay_while_a_launch_holds_them() {
        let device = hip::Platform::named("host").and_then(|host| host.device(0)).expect("the embedded device");
        let stream = device.new_stream().expect("a stream");
        let held = BlockCounters::new(&stream, 10).expect("counters");
        // What another thread does between the look-up and the launch of the first: it needs more of them.
        let more = BlockCounters::new(&stream, 4 * LEAST).expect("more counters");
        assert_ne!(held.ptr(), more.ptr());
        let others: Vec<_> = (0..64).map(|_| stream.alloc::<u32>(LEAST as usize).expect("memory")).collect();
        assert!(
            others.iter().all(|other| other.ptr() != held.ptr()),
            "the counters were given away before their launch"
        );
    }
}
