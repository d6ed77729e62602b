//! Packets of the copy engines: copies, fills, waits, and words written when they are done.

use crate::log::log;
use crate::queue::{now, Queue, Step};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A packet has at most this many words.
const MOST_WORDS: usize = 16;

/// What is wrong with a packet: the queue stops.
struct Bad(String);

/// Runs the next packet, if there is one and it need not wait.
pub fn step(queue: &Queue) -> Step {
    let next = queue.next();
    let ready = queue.written().saturating_sub(next);
    if ready < 4 {
        return Step::Empty;
    }
    let mut words = [0u32; MOST_WORDS];
    for (n, word) in words.iter_mut().enumerate().take((ready / 4) as usize) {
        let address = queue.ring + (next + 4 * n as u64) % queue.ring_bytes;
        // SAFETY: inside the ring, which the program keeps while the queue is there.
        *word = unsafe { AtomicU32::from_ptr(address as *mut u32) }.load(Ordering::Relaxed);
    }
    match run(queue, &words) {
        Ok(Some(count)) if u64::from(count) * 4 <= ready => {
            queue.advance(next + 4 * u64::from(count));
            // An interrupt names an event; what it is about must be visible before.
            if words[0] & 0xff == 6 {
                let _ = queue.state.events.set(words[1] & 0x0fff_ffff);
            }
            Step::Done
        }
        Ok(_) => Step::Waiting,
        Err(Bad(why)) => {
            crate::log::say!("kfd: a copy engine stops: {why}");
            let gpu = queue.state.gpus[queue.gpu].id;
            queue.state.events.raise(crate::abi::event::MEMORY, crate::dispatch::memory_payload(gpu, 0, false));
            Step::Failed
        }
    }
}

/// Runs a packet and says how many words it has; `None` if it has to wait.
fn run(queue: &Queue, words: &[u32; MOST_WORDS]) -> Result<Option<u32>, Bad> {
    let long = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
    let host = |address: u64, bytes: u64| {
        queue
            .state
            .memory
            .host(queue.gpu, address, bytes)
            .ok_or_else(|| Bad(format!("{bytes} bytes at {address:#x} are not the GPU's to touch")))
    };
    let (operation, sub) = (words[0] & 0xff, words[0] >> 8 & 0xff);
    Ok(Some(match (operation, sub) {
        (0, _) => 1 + (words[0] >> 16 & 0x3fff),
        (1, 0) => {
            let bytes = u64::from(words[1] & 0x3fff_ffff) + 1;
            log!(2, "queue {}: {bytes} bytes from {:#x} to {:#x}", queue.id, long(3), long(5));
            let (from, to) = (host(long(3), bytes)?, host(long(5), bytes)?);
            // SAFETY: both ranges are mapped for this GPU.
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes as usize) };
            7
        }
        (1, 4) => {
            rectangle(words, &long, &host)?;
            13
        }
        (5, _) => {
            let to = host(long(1), 4)?;
            // SAFETY: mapped for this GPU.
            unsafe { AtomicU32::from_ptr(to as *mut u32) }.store(words[3], Ordering::Release);
            4
        }
        (6, _) => 2,
        // Without the top bit it only flushes the host's caches.
        (8, _) => {
            if words[0] >> 31 != 0 {
                let at = host(long(1), 4)?;
                // SAFETY: mapped for this GPU.
                let value = unsafe { AtomicU32::from_ptr(at as *mut u32) }.load(Ordering::Acquire) & words[4];
                if !compares(words[0] >> 28 & 7, value, words[3]) {
                    return Ok(None);
                }
            }
            6
        }
        (10, _) => {
            let at = host(long(1), 8)?;
            if words[0] >> 25 != ATOMIC_ADD_64 {
                return Err(Bad(format!("the atomic operation {} is not emulated", words[0] >> 25)));
            }
            // SAFETY: mapped for this GPU.
            unsafe { AtomicU64::from_ptr(at as *mut u64) }.fetch_add(long(3), Ordering::AcqRel);
            8
        }
        (11, _) => {
            let bytes = u64::from(words[4] & 0x3fff_ffff) + 1;
            let to = host(long(1), bytes & !3)?;
            for n in 0..bytes / 4 {
                // SAFETY: mapped for this GPU.
                unsafe { AtomicU32::from_ptr((to + 4 * n) as *mut u32) }.store(words[3], Ordering::Relaxed);
            }
            5
        }
        (13, _) => {
            let to = host(long(1), 8)?;
            // SAFETY: mapped for this GPU.
            unsafe { AtomicU64::from_ptr(to as *mut u64) }.store(now(), Ordering::Release);
            3
        }
        // Caches of the GPU.
        (17, _) => 5,
        _ => return Err(Bad(format!("the packet {operation}.{sub} is not emulated"))),
    }))
}

const ATOMIC_ADD_64: u32 = 47;

fn compares(how: u32, value: u32, reference: u32) -> bool {
    match how {
        1 => value < reference,
        2 => value <= reference,
        3 => value == reference,
        4 => value != reference,
        5 => value >= reference,
        6 => value > reference,
        _ => true,
    }
}

/// A window of a pitched array.
fn rectangle(
    words: &[u32; MOST_WORDS],
    long: &dyn Fn(usize) -> u64,
    host: &dyn Fn(u64, u64) -> Result<u64, Bad>,
) -> Result<(), Bad> {
    let element = 1u64 << (words[0] >> 29);
    let place = |at: usize| {
        let (x, y, z) = (words[at] & 0x3fff, words[at] >> 16 & 0x3fff, words[at + 1] & 0x7ff);
        let (pitch, slice) = ((words[at + 1] >> 13) + 1, (words[at + 2] & 0x0fff_ffff) + 1);
        [x, y, z, pitch, slice].map(u64::from)
    };
    let (from, source) = (long(1), place(3));
    let (to, target) = (long(6), place(8));
    let (width, height, depth) = ((words[11] & 0x3fff) + 1, (words[11] >> 16 & 0x3fff) + 1, (words[12] & 0x7ff) + 1);
    let bytes = u64::from(width) * element;
    for z in 0..u64::from(depth) {
        for y in 0..u64::from(height) {
            let row = |base: u64, [x0, y0, z0, pitch, slice]: [u64; 5]| {
                host(base + ((z0 + z) * slice + (y0 + y) * pitch + x0) * element, bytes)
            };
            let (from, to) = (row(from, source)?, row(to, target)?);
            // SAFETY: both ranges are mapped for this GPU.
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes as usize) };
        }
    }
    Ok(())
}
