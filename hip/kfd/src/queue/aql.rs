//! AQL packets: kernels, barriers, and AMD's own.

use crate::dispatch;
use crate::log::log;
use crate::queue::{now, signal, Queue, Step};
use std::sync::atomic::{AtomicU16, Ordering};

const PACKET_BYTES: u64 = 64;

/// Kinds of packets, the low byte of the header.
mod kind {
    pub const VENDOR: u8 = 0;
    pub const INVALID: u8 = 1;
    pub const KERNEL: u8 = 2;
    pub const BARRIER_AND: u8 = 3;
    pub const BARRIER_OR: u8 = 5;
}

/// A packet, copied out of the ring.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Packet(pub [u8; 64]);

impl Packet {
    /// A little-endian number of at most eight bytes.
    pub fn field(&self, at: usize, bytes: usize) -> u64 {
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(&self.0[at..at + bytes]);
        u64::from_le_bytes(value)
    }
}

/// Runs the next packet, if there is one and it need not wait.
pub fn step(queue: &Queue) -> Step {
    let next = queue.next();
    if next >= queue.written() {
        return Step::Empty;
    }
    let address = queue.ring + next % (queue.ring_bytes / PACKET_BYTES) * PACKET_BYTES;
    // SAFETY: inside the ring, which the program keeps while the queue is there. It writes the header last.
    let header = unsafe { AtomicU16::from_ptr(address as *mut u16) };
    let kind = header.load(Ordering::Acquire) as u8;
    if kind == kind::INVALID {
        return Step::Waiting;
    }
    // SAFETY: as above; the header says that the packet is complete.
    let packet = unsafe { (address as *const Packet).read_volatile() };
    let start = now();
    match kind {
        kind::KERNEL => {
            if let Err(failure) = dispatch::run(queue, &packet) {
                dispatch::fail(queue, &packet, failure);
                return Step::Failed;
            }
        }
        kind::BARRIER_AND | kind::BARRIER_OR => {
            if !passes(kind, &packet) {
                return Step::Waiting;
            }
            log!(2, "queue {}: barrier", queue.id);
        }
        kind::VENDOR => match packet.field(2, 1) {
            1 => {
                // Commands of the packet processor: the runtime sends them when code has changed.
                queue.state.gpus[queue.gpu].code.clear();
                log!(2, "queue {}: caches are invalid", queue.id);
            }
            2 => {
                if !value_passes(&packet) {
                    return Step::Waiting;
                }
                log!(2, "queue {}: barrier by value", queue.id);
            }
            format => log!(1, "queue {}: a packet of AMD's format {format} is passed over", queue.id),
        },
        _ => log!(1, "queue {}: a packet of kind {kind} is passed over", queue.id),
    }
    header.store(u16::from(kind::INVALID), Ordering::Release);
    queue.advance(next + 1);
    // SAFETY: the program keeps the signal of a packet until it is complete.
    unsafe { signal::complete(queue.state, packet.field(56, 8), start, now()) };
    Step::Done
}

/// Whether the signals of a barrier are 0: all of them, or one.
fn passes(kind: u8, packet: &Packet) -> bool {
    let signals = (0..5).map(|n| packet.field(8 + 8 * n, 8)).filter(|&handle| handle != 0);
    // SAFETY: the program keeps signals that a packet waits for.
    let mut zero = signals.map(|handle| unsafe { signal::value(handle) } == 0).peekable();
    match kind {
        kind::BARRIER_AND => zero.all(|zero| zero),
        _ => zero.peek().is_none() || zero.any(|zero| zero),
    }
}

/// Whether a signal has the value that AMD's barrier waits for.
fn value_passes(packet: &Packet) -> bool {
    let (handle, wanted, mask) = (packet.field(8, 8), packet.field(16, 8) as i64, packet.field(24, 8) as i64);
    if handle == 0 {
        return true;
    }
    // SAFETY: the program keeps signals that a packet waits for.
    let value = unsafe { signal::value(handle) } & mask;
    match packet.field(32, 4) {
        0 => value == wanted,
        1 => value != wanted,
        2 => value < wanted,
        _ => value >= wanted,
    }
}
