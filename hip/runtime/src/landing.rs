//! How memory of the device comes back to the host. A little is copied straight to where it is wanted. Much of it lands in pinned
//! memory, a piece after the other, and threads carry the pieces on while the device fills the next ones: a program's
//! fresh memory costs a page fault for every page, and those are most of the time that reading back takes.

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
use std::sync::{mpsc, Mutex, PoisonError};

/// From this many bytes on, what is read lands in pinned memory first. Below, starting threads costs more than it gains.
const LARGE_BYTES: usize = 4 << 20;
/// The pieces of a large copy: large enough that submitting and waiting for one does not show, and a page of the largest kind.
const PIECE_BYTES: usize = 2 << 20;
/// Pieces that are filled or carried on at a time.
const PIECES: usize = 6;
/// Threads that carry pieces on, beside the one that asks.
const CARRIERS: usize = 4;

/// The pinned memory through which a stream's large copies come back, made by the first of them.
pub(crate) struct Landing {
    memory: PinnedBuffer<u8>,
    reached: Vec<Event>,
}

/// Pinned memory for a piece, and the event behind the copy that fills it.
struct Slot<'a> {
    memory: &'a mut [u8],
    reached: &'a Event,
}

/// A piece that has landed, and its place.
struct Landed<'a> {
    slot: Slot<'a>,
    place: &'a mut [MaybeUninit<u8>],
}

impl<'a> Landed<'a> {
    /// Carries the piece to its place and gives its memory back.
    fn carry(self) -> Slot<'a> {
        let piece = &self.slot.memory[..self.place.len()];
        // SAFETY: both are of this length, and pinned memory is nobody else's.
        unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), self.place.as_mut_ptr().cast(), piece.len()) };
        self.slot
    }
}

impl Landing {
    fn new(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        Ok(Self {
            memory: PinnedBuffer::zeros(device, PIECE_BYTES * PIECES)?,
            reached: (0..PIECES).map(|_| Event::new(device)).collect::<Result<_>>()?,
        })
    }

    /// Fills `target` with the bytes from `source` on. This thread alone calls the runtime; the others only move bytes. After an
    /// error the stream may still be writing to this memory.
    ///
    /// # Safety
    /// `source` has that many bytes and belongs to a buffer of `stream`, which is borrowed meanwhile.
    unsafe fn fill(&mut self, stream: &Stream, source: *const c_void, target: &mut [MaybeUninit<u8>]) -> Result<()> {
        let slots = self.memory.chunks_exact_mut(PIECE_BYTES).zip(&self.reached);
        let mut free: Vec<Slot> = slots.map(|(memory, reached)| Slot { memory, reached }).collect();
        let (landed, to_carry) = mpsc::channel::<Landed>();
        let (carried, given_back) = mpsc::channel::<Slot>();
        let to_carry = Mutex::new(to_carry);
        let next = || to_carry.lock().unwrap_or_else(PoisonError::into_inner).recv();
        std::thread::scope(|scope| {
            // Moved here, so that it ends with this block and the carriers with it.
            let landed = landed;
            let mut carriers = 0;
            for _ in 0..carrier_count() {
                let carried = carried.clone();
                let carry = move || {
                    while let Ok(piece) = next() {
                        if carried.send(piece.carry()).is_err() {
                            break;
                        }
                    }
                };
                // Without threads the pieces are carried here.
                carriers += usize::from(std::thread::Builder::new().spawn_scoped(scope, carry).is_ok());
            }
            let mut pieces = target.chunks_mut(PIECE_BYTES).enumerate().peekable();
            let mut under_way = VecDeque::with_capacity(PIECES);
            loop {
                while pieces.peek().is_some() {
                    let Some(slot) = free.pop() else { break };
                    let Some((index, place)) = pieces.next() else { break };
                    // SAFETY: within the source, by the caller's promise; the slot is put away until the event is reached.
                    unsafe {
                        let from = source.cast::<u8>().add(index * PIECE_BYTES);
                        submit(stream, from.cast(), slot.memory.as_mut_ptr().cast(), place.len())?;
                    }
                    slot.reached.record(stream)?;
                    under_way.push_back(Landed { slot, place });
                }
                let Some(piece) = under_way.pop_front() else { break };
                piece.slot.reached.synchronize()?;
                let here = if carriers == 0 { Some(piece) } else { landed.send(piece).err().map(|back| back.0) };
                free.extend(here.map(Landed::carry));
                free.extend(given_back.try_iter());
                if free.is_empty() && under_way.is_empty() {
                    free.extend(given_back.recv());
                }
            }
            Ok(())
        })
    }
}

/// A thread for each core that is left, up to a number beyond which memory is the limit.
fn carrier_count() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() - 1).clamp(1, CARRIERS)
}

/// Copies the elements at `source`, memory of a buffer of `stream` that is borrowed meanwhile, into `target`. Waits for the work on the stream.
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
    if bytes < LARGE_BYTES {
        // SAFETY: both are of this length, and stay until the stream is drained below.
        let submitted = unsafe { submit(stream, source, target.as_mut_ptr().cast(), bytes) };
        return submitted.and_then(|()| stream.0.drain());
    }
    let mut landing = stream.0.landing.lock().unwrap_or_else(PoisonError::into_inner);
    let landing = match &mut *landing {
        Some(landing) => landing,
        empty => empty.insert(Landing::new(stream)?),
    };
    // SAFETY: the caller's source has these bytes.
    let filled = unsafe { landing.fill(stream, source, target) };
    if filled.is_err() {
        // The first error says what happened; what was begun must have ended before the next copy lands here.
        let _ = stream.0.drain();
    }
    filled
}

/// Submits a copy to the host.
///
/// # Safety
/// Both are of this many bytes, and neither is used or freed before the copy has run.
unsafe fn submit(stream: &Stream, source: *const c_void, target: *mut c_void, bytes: usize) -> Result<()> {
    let device = stream.device();
    // SAFETY: the caller's promise.
    unsafe {
        call!(
            device.platform(),
            hipMemcpyAsync(target, source, bytes, hipMemcpyKind::hipMemcpyDeviceToHost, stream.handle()),
            || format!("reading {} from device {}", human_bytes(bytes), device.ordinal())
        )
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
    if size_of_val(memory) < LARGE_BYTES {
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
