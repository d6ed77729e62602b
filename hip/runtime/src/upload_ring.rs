//! How bytes of the host reach the device without the caller waiting: small ones through a ring of pinned memory that
//! each stream owns, and in a capture by a copy that the graph owns. Large ones are waited for: `large_copy.rs` has them.

use crate::driver::call;
use crate::error::{human_bytes, Result};
use crate::event::Event;
use crate::large_copy;
use crate::pinned::PinnedBuffer;
use crate::stream::Stream;
use hip_abi::hipMemcpyKind;
use std::ffi::c_void;
use std::sync::PoisonError;

/// Uploads up to this size are staged. Above it the copy takes longer than waiting for it costs.
const STAGED_BYTES: usize = 64 << 10;
/// The ring is used a section at a time; a section is free again when the event behind its last copy is reached.
const SECTION_BYTES: usize = 256 << 10;
const SECTIONS: usize = 4;

/// The pinned memory of one stream, written front to back and over again.
pub(crate) struct Ring {
    memory: PinnedBuffer<u8>,
    reached: [Event; SECTIONS],
    section: usize,
    used: usize,
}

impl Ring {
    fn new(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        let event = || Event::new(device);
        Ok(Self {
            memory: PinnedBuffer::zeros(device, SECTION_BYTES * SECTIONS)?,
            reached: [event()?, event()?, event()?, event()?],
            section: 0,
            used: 0,
        })
    }

    /// Room for `bytes` bytes; waits when the device is a whole ring behind.
    fn room(&mut self, stream: &Stream, bytes: usize) -> Result<&mut [u8]> {
        if self.used + bytes > SECTION_BYTES {
            self.reached[self.section].mark(stream)?;
            let next = (self.section + 1) % SECTIONS;
            self.reached[next].synchronize()?;
            self.section = next;
            self.used = 0;
        }
        let start = self.section * SECTION_BYTES + self.used;
        // Kept apart by 64 bytes, so that no two copies share a cache line.
        self.used += bytes.next_multiple_of(64);
        Ok(&mut self.memory[start..start + bytes])
    }
}

/// Copies `bytes` to `target`, which must be that much memory of a buffer of `stream`.
pub(crate) fn upload(stream: &Stream, target: *mut c_void, bytes: &[u8]) -> Result<()> {
    if let Some(session) = stream.session() {
        let kept: Box<[u8]> = bytes.into();
        submit(stream, target, &kept)?;
        session.keep(Box::new(kept));
        return Ok(());
    }
    if bytes.len() > STAGED_BYTES {
        return large_copy::upload(stream, target, bytes);
    }
    let mut ring = stream.0.upload_ring.lock().unwrap_or_else(PoisonError::into_inner);
    let ring = match &mut *ring {
        Some(ring) => ring,
        empty => empty.insert(Ring::new(stream)?),
    };
    let room = ring.room(stream, bytes.len())?;
    room.copy_from_slice(bytes);
    submit(stream, target, room)
}

fn submit(stream: &Stream, target: *mut c_void, source: &[u8]) -> Result<()> {
    stream.device().0.bind()?;
    // SAFETY: the target is memory of a live buffer of this stream; `upload` keeps the source until the copy has run.
    unsafe {
        call!(
            stream.device().platform(),
            hipMemcpyAsync(
                target,
                source.as_ptr().cast(),
                source.len(),
                hipMemcpyKind::hipMemcpyHostToDevice,
                stream.handle()
            ),
            || format!("writing {} to device {}", human_bytes(source.len()), stream.device().ordinal())
        )
    }
}
