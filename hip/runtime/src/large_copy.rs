//! How much memory passes between a program and the device: through pieces of pinned memory that each stream owns. The device copies
//! to and from those alone, at the speed of the bus; threads copy between the pieces and the program meanwhile, because a processor's one
//! core is slower than the bus, and fresh memory costs a page fault for every page besides. Small uploads are in `upload_ring.rs`.

use crate::copy_threads;
use crate::driver::call;
use crate::element::DeviceCopy;
use crate::error::{human_bytes, Error, Result};
use crate::event::Event;
use crate::pinned::PinnedBuffer;
use crate::stream::Stream;
use hip_abi::hipMemcpyKind;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::PoisonError;

/// A copy of more bytes than this goes in pieces. Below, starting threads costs more than it gains (measured: as fast at 4 MB).
const LARGE_BYTES: usize = 4 << 20;
/// A piece: large enough that submitting it and waiting for it do not show.
const PIECE_BYTES: usize = 1 << 20;
/// Pieces that are in use at a time.
const PIECES: usize = 16;

/// The pieces of a stream, made as they are needed. The one that was used longest ago is in front.
#[derive(Default)]
pub(crate) struct Pieces(VecDeque<Piece>);

/// Pinned memory, and the event behind the copy that used it last.
struct Piece {
    memory: PinnedBuffer<u8>,
    reached: Event,
}

impl Piece {
    fn new(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        Ok(Self { memory: PinnedBuffer::zeros(device, PIECE_BYTES)?, reached: Event::new(device)? })
    }
}

/// A piece that was taken out, so that others can use the rest meanwhile. It goes back when this is dropped.
struct Taken<'a> {
    stream: &'a Stream,
    piece: Option<Piece>,
}

impl<'a> Taken<'a> {
    /// The piece used longest ago, or a new one while that is in use and there are few. No copy uses it any more.
    fn new(stream: &'a Stream) -> Result<Self> {
        let piece = {
            let mut pieces = stream.0.pieces.lock().unwrap_or_else(PoisonError::into_inner);
            let many = pieces.0.len() >= PIECES;
            match pieces.0.front() {
                Some(piece) if many || piece.reached.is_reached()? => pieces.0.pop_front(),
                _ => None,
            }
        };
        // From here on a failure gives the piece back.
        let taken = Self { stream, piece: Some(piece.map_or_else(|| Piece::new(stream), Ok)?) };
        if let Some(piece) = &taken.piece {
            piece.reached.synchronize()?;
        }
        Ok(taken)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.stream.0.pieces.lock().unwrap_or_else(PoisonError::into_inner).0.extend(self.piece.take());
    }
}

/// A piece while it is used: its memory, and the event behind the copy that uses it.
struct Slot<'a> {
    memory: &'a mut [u8],
    reached: &'a Event,
}

impl<'a> Slot<'a> {
    /// Copies a piece that the device has filled to its place.
    fn empty((slot, place): (Self, &'a mut [MaybeUninit<u8>])) -> Self {
        copy_bytes(&slot.memory[..place.len()], place);
        slot
    }

    /// Takes a piece of the caller's memory, given with its index; the answer has its length.
    fn load((slot, index, piece): (Self, usize, &'a [u8])) -> (Self, usize, usize) {
        slot.memory[..piece.len()].copy_from_slice(piece);
        (slot, index, piece.len())
    }
}

impl Pieces {
    /// At least as many pieces as so many bytes can make use of.
    fn slots(&mut self, stream: &Stream, bytes: usize) -> Result<Vec<Slot<'_>>> {
        while self.0.len() < bytes.div_ceil(PIECE_BYTES).min(PIECES) {
            self.0.push_back(Piece::new(stream)?);
        }
        Ok(self.0.iter_mut().map(|Piece { memory, reached }| Slot { memory, reached }).collect())
    }

    /// Fills `target` with the bytes from `source` on. After an error the stream may still be writing to this memory.
    ///
    /// # Safety
    /// `source` has that many bytes and belongs to a buffer of `stream`, which is borrowed meanwhile.
    unsafe fn fill(&mut self, stream: &Stream, source: *const c_void, target: &mut [MaybeUninit<u8>]) -> Result<()> {
        let mut free = self.slots(stream, target.len())?;
        copy_threads::with(&Slot::empty, |threads| {
            let mut pieces = target.chunks_mut(PIECE_BYTES).enumerate().peekable();
            let mut under_way = VecDeque::with_capacity(PIECES);
            loop {
                while pieces.peek().is_some() {
                    let Some(slot) = free.pop() else { break };
                    let Some((index, place)) = pieces.next() else { break };
                    // SAFETY: within the source, by the caller's promise; the slot is put away until the event is reached.
                    unsafe {
                        let from = source.cast::<u8>().add(index * PIECE_BYTES);
                        submit(stream, from.cast(), slot.memory.as_mut_ptr().cast(), place.len(), Direction::Back)?;
                    }
                    slot.reached.mark(stream)?;
                    under_way.push_back((slot, place));
                }
                let Some(piece) = under_way.pop_front() else { return Ok(()) };
                piece.0.reached.synchronize()?;
                free.extend(threads.give(piece));
                free.extend(threads.done());
                if free.is_empty() && under_way.is_empty() {
                    free.extend(threads.wait());
                }
            }
        })
    }

    /// Writes `bytes` to the device from `target` on. Of the caller's memory nothing is needed any more when this returns.
    ///
    /// # Safety
    /// `target` has that many bytes and belongs to a buffer of `stream`, which is borrowed meanwhile.
    unsafe fn send(&mut self, stream: &Stream, target: *mut c_void, bytes: &[u8]) -> Result<()> {
        let mut free = self.slots(stream, bytes.len())?;
        for slot in &free {
            // An earlier copy may still be reading it.
            slot.reached.synchronize()?;
        }
        copy_threads::with(&Slot::load, |threads| {
            let mut pieces = bytes.chunks(PIECE_BYTES).enumerate().peekable();
            let (mut given, mut under_way) = (0, VecDeque::with_capacity(PIECES));
            loop {
                let mut ready = Vec::new();
                while pieces.peek().is_some() {
                    let Some(slot) = free.pop() else { break };
                    let Some((index, piece)) = pieces.next() else { break };
                    given += 1;
                    ready.extend(threads.give((slot, index, piece)));
                }
                if given == 0 {
                    return Ok(());
                }
                ready.extend(threads.done());
                if ready.is_empty() {
                    ready.extend(threads.wait());
                }
                for (slot, index, length) in ready {
                    given -= 1;
                    // SAFETY: within the target, by the caller's promise; the slot is put away until the event is reached.
                    unsafe {
                        let to = target.cast::<u8>().add(index * PIECE_BYTES);
                        submit(stream, slot.memory.as_ptr().cast(), to.cast(), length, Direction::There)?;
                    }
                    slot.reached.mark(stream)?;
                    under_way.push_back(slot);
                }
                if free.is_empty() && pieces.peek().is_some() {
                    let Some(slot) = under_way.pop_front() else { continue };
                    slot.reached.synchronize()?;
                    free.push(slot);
                }
            }
        })
    }
}

fn copy_bytes(from: &[u8], to: &mut [MaybeUninit<u8>]) {
    debug_assert_eq!(from.len(), to.len());
    // SAFETY: of one length, as every caller sees to; the one is borrowed and the other uniquely so.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr().cast(), from.len()) };
}

/// Copies the elements at `source`, memory of a buffer of `stream` that is borrowed meanwhile, into `target`. Waits for the work on the
/// stream.
pub(crate) fn download<T: DeviceCopy>(
    stream: &Stream,
    source: *const c_void,
    target: &mut [MaybeUninit<T>],
) -> Result<()> {
    stream.refuse_in_capture("reading a buffer")?;
    stream.device().0.bind()?;
    let bytes = size_of_val(target);
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the same memory as bytes, which need no initialisation and no alignment.
    let target = unsafe { std::slice::from_raw_parts_mut(target.as_mut_ptr().cast::<MaybeUninit<u8>>(), bytes) };
    if bytes > PIECE_BYTES && bytes <= LARGE_BYTES {
        // SAFETY: both are of this length, and stay until the stream is drained.
        let submitted = unsafe { submit(stream, source, target.as_mut_ptr().cast(), bytes, Direction::Back) };
        return submitted.and(stream.0.drain());
    }
    let mut pieces = stream.0.pieces.lock().unwrap_or_else(PoisonError::into_inner);
    if bytes <= PIECE_BYTES {
        // One piece, without threads: the runtime's own way for memory that is not pinned takes longer at every size.
        let mut slots = pieces.slots(stream, bytes)?;
        let Some(slot) = slots.first_mut() else { return Err(Error::refused("there is no pinned memory")) };
        // SAFETY: a piece has room for as many bytes, and is not touched before the stream is drained.
        let submitted = unsafe { submit(stream, source, slot.memory.as_mut_ptr().cast(), bytes, Direction::Back) };
        submitted.and(stream.0.drain())?;
        copy_bytes(&slot.memory[..bytes], target);
        return Ok(());
    }
    // SAFETY: the caller's source has these bytes.
    let filled = unsafe { pieces.fill(stream, source, target) };
    if filled.is_err() {
        // The first error says what happened; what was begun must have ended before the next copy uses the pieces.
        let _ = stream.0.drain();
    }
    filled
}

/// Copies `bytes` to `target`, which must be that much memory of a buffer of `stream`, and waits for it.
pub(crate) fn upload(stream: &Stream, target: *mut c_void, bytes: &[u8]) -> Result<()> {
    stream.device().0.bind()?;
    if bytes.len() <= LARGE_BYTES {
        // SAFETY: both are of this length, and stay until the stream is drained.
        let submitted = unsafe { submit(stream, bytes.as_ptr().cast(), target, bytes.len(), Direction::There) };
        // Waited for even when it failed: whatever was begun must not read the caller's memory later.
        return submitted.and(stream.0.drain());
    }
    let mut pieces = stream.0.pieces.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the caller's target has these bytes.
    let sent = unsafe { pieces.send(stream, target, bytes) };
    sent.and(stream.0.drain())
}

/// Lets `read` fill `bytes` bytes of the device from `target` on, which must be that much memory of a buffer of `stream`, piece by piece from
/// front to back. What it writes to is pinned memory itself, and while it works on a piece the device copies those before. The last copies are
/// still under way when this returns, so that the next tensor of a file is read meanwhile. No lock is held while `read` runs: it may
/// use the stream.
pub(crate) fn upload_from<E: From<Error>>(
    stream: &Stream,
    target: *mut c_void,
    bytes: usize,
    mut read: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    for start in (0..bytes).step_by(PIECE_BYTES) {
        let length = PIECE_BYTES.min(bytes - start);
        let mut taken = Taken::new(stream)?;
        let Some(piece) = &mut taken.piece else { continue };
        read(&mut piece.memory[..length])?;
        // Here and not before: what `read` did may have made another device current.
        stream.device().0.bind()?;
        // SAFETY: within the target, by the caller's promise. Whoever takes the piece next waits for its event.
        let submitted = unsafe {
            let to = target.cast::<u8>().add(start);
            submit(stream, piece.memory.as_ptr().cast(), to.cast(), length, Direction::There)
        };
        if let Err(error) = submitted.and_then(|()| piece.reached.mark(stream)) {
            // The first error says what happened; a copy without an event behind it must have ended before the piece goes back.
            let _ = stream.0.drain();
            return Err(error.into());
        }
    }
    Ok(())
}

/// Which way a copy goes.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    There,
    Back,
}

/// Submits a copy between the host and the stream's device.
///
/// # Safety
/// Both are of this many bytes, and neither is used or freed before the copy has run.
unsafe fn submit(
    stream: &Stream,
    source: *const c_void,
    target: *mut c_void,
    bytes: usize,
    direction: Direction,
) -> Result<()> {
    let device = stream.device();
    let (kind, doing, which) = match direction {
        Direction::There => (hipMemcpyKind::hipMemcpyHostToDevice, "writing", "to"),
        Direction::Back => (hipMemcpyKind::hipMemcpyDeviceToHost, "reading", "from"),
    };
    // SAFETY: the caller's promise.
    unsafe {
        call!(device.platform(), hipMemcpyAsync(target, source, bytes, kind, stream.handle()), || format!(
            "{doing} {} {which} device {}",
            human_bytes(bytes),
            device.ordinal()
        ))
    }
}

/// An empty vector with room for `len` elements.
pub(crate) fn room_for<T>(len: usize) -> Result<Vec<T>> {
    let mut room = Vec::new();
    if room.try_reserve_exact(len).is_err() {
        let bytes = len.saturating_mul(size_of::<T>());
        return Err(Error::refused(format!(
            "the host has no {} to read a buffer into; read it in parts",
            human_bytes(bytes)
        )));
    }
    prefer_huge_pages(room.spare_capacity_mut());
    Ok(room)
}

/// Lets the system back large memory that nobody has written to yet with its largest pages: 64 MB are 32 page faults then and
/// not 16384. It is a request, which changes nothing but the time; a system that refuses it is as well.
#[cfg(target_os = "linux")]
fn prefer_huge_pages<T>(memory: &mut [MaybeUninit<T>]) {
    const HUGE: usize = 2 << 20;
    if size_of_val(memory) <= LARGE_BYTES {
        return;
    }
    let start = memory.as_mut_ptr().cast::<u8>();
    let before = start.addr().next_multiple_of(HUGE) - start.addr();
    let bytes = size_of_val(memory).saturating_sub(before) / HUGE * HUGE;
    // SAFETY: the range lies within memory that is borrowed here, and the advice leaves its contents alone.
    unsafe { libc::madvise(start.add(before).cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn prefer_huge_pages<T>(_: &mut [MaybeUninit<T>]) {}
