//! Queues without a runtime: packets written by hand.

use super::*;
use crate::abi::{flags, AllocMemory};
use crate::cards::CARDS;
use crate::config::Config;
use crate::queue::aql::Packet;
use std::time::Duration;
use vgpu::Arch;

/// A driver of its own for each test, never freed, as in a program.
fn state() -> &'static State {
    let card = CARDS.iter().find(|card| card.arch == Arch::Gfx1030).expect("a card");
    let config = Config {
        cards: vec![card],
        memory: Some(1 << 30),
        threads: 2,
        time_limit: None,
        kernels: true,
        checks: vgpu::Checks::default(),
        strict_local: false,
        log: 0,
    };
    Box::leak(Box::new(State::new(Box::leak(Box::new(config))).expect("memory")))
}

/// Memory of the process that the GPU may touch too; never freed, because queues may outlive a failed test.
fn shared(state: &'static State, words: usize) -> &'static mut [u64] {
    let memory: &'static mut [u64] = Box::leak(vec![0; words].into_boxed_slice());
    let address = memory.as_ptr() as u64;
    let mut request = AllocMemory {
        address,
        bytes: 8 * words as u64,
        handle: 0,
        mmap_offset: address,
        gpu_id: state.gpus[0].id,
        flags: flags::USERPTR | flags::WRITABLE,
    };
    state.memory.allocate(0, &mut request).expect("a table entry");
    state.memory.map(request.handle, 1).expect("mapped");
    memory
}

struct Ring {
    state: &'static State,
    id: u32,
    ring: u64,
    write: u64,
    read: u64,
    packets: u64,
}

impl Ring {
    fn new(state: &'static State, kind: u32) -> Self {
        // An `amd_queue_t` around the indices, and the ring behind, aligned.
        let memory = shared(state, 64 + 1024);
        let base = memory.as_ptr() as u64;
        let ring = (base + 64 * 8).next_multiple_of(64);
        let (write, read) = (base + amd_queue::WRITE_INDEX, base + 0x80);
        let mut request = CreateQueue {
            ring,
            write_pointer: write,
            read_pointer: read,
            doorbell_offset: 0,
            ring_bytes: 4096,
            gpu_id: state.gpus[0].id,
            queue_type: kind,
            percentage: 100,
            priority: 7,
            queue_id: 0,
            eop: 0,
            eop_bytes: 0,
            save_area: 0,
            save_area_bytes: 0,
            control_stack_bytes: 0,
        };
        // Packets that nobody wrote are invalid.
        for n in 0..64 {
            // SAFETY: inside the ring.
            unsafe { ((ring + 64 * n) as *mut u16).write_volatile(1) };
        }
        create(state, &mut request).expect("a queue");
        Self { state, id: request.queue_id, ring, write, read, packets: 0 }
    }

    fn submit(&mut self, packet: &Packet) {
        let at = (self.ring + self.packets % 64 * 64) as *mut u8;
        self.packets += 1;
        // SAFETY: inside the ring; the header goes last, then the index.
        unsafe {
            std::ptr::copy_nonoverlapping(packet.0[2..].as_ptr(), at.add(2), 62);
            let header = u16::from_le_bytes([packet.0[0], packet.0[1]]);
            std::sync::atomic::AtomicU16::from_ptr(at.cast()).store(header, Ordering::Release);
            AtomicU64::from_ptr(self.write as *mut u64).store(self.packets, Ordering::Release);
        }
    }

    fn done(&self) -> u64 {
        // SAFETY: the index that was given to the queue.
        unsafe { load(self.read) }
    }

    fn wait(&self, count: u64) {
        let start = Instant::now();
        while self.done() < count {
            assert!(start.elapsed() < Duration::from_secs(60), "{} of {count} packets are done", self.done());
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn packet(kind: u16, fields: &[(usize, u64, usize)]) -> Packet {
    let mut bytes = [0; 64];
    bytes[..2].copy_from_slice(&kind.to_le_bytes());
    for &(at, value, size) in fields {
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
    Packet(bytes)
}

/// An `amd_signal_t` with this value.
fn signal(state: &'static State, value: u64) -> u64 {
    let memory = shared(state, 8);
    memory[1] = value;
    memory.as_ptr() as u64
}

fn value(handle: u64) -> i64 {
    // SAFETY: made by `signal`.
    unsafe { super::signal::value(handle) }
}

fn set(handle: u64, value: u64) {
    // SAFETY: made by `signal`.
    unsafe { AtomicU64::from_ptr((handle + 8) as *mut u64) }.store(value, Ordering::Release);
}

#[test]
fn barriers_wait_for_all_or_for_one() {
    let state = state();
    let mut ring = Ring::new(state, 2);
    let (a, b, done) = (signal(state, 1), signal(state, 1), signal(state, 1));
    ring.submit(&packet(5, &[(8, a, 8), (16, b, 8)]));
    ring.submit(&packet(3, &[(8, a, 8), (16, b, 8), (56, done, 8)]));
    thread::sleep(Duration::from_millis(20));
    assert_eq!(ring.done(), 0);
    set(a, 0);
    ring.wait(1);
    thread::sleep(Duration::from_millis(20));
    assert_eq!((ring.done(), value(done)), (1, 1));
    set(b, 0);
    ring.wait(2);
    assert_eq!(value(done), 0);
    state.queues.destroy(ring.id).expect("a queue");
    assert_eq!(state.queues.destroy(ring.id), Err(libc::EINVAL));
}

#[test]
fn rings_wrap_around_and_sleeping_queues_wake_up() {
    let state = state();
    let mut ring = Ring::new(state, 2);
    let counter = signal(state, 200);
    for n in 0..200 {
        ring.submit(&packet(3, &[(56, counter, 8)]));
        // Now and then the queue has fallen asleep before the next packet comes.
        if n % 50 == 0 {
            thread::sleep(Duration::from_millis(60));
        }
        ring.wait(n + 1);
    }
    assert_eq!(value(counter), 0);
    state.queues.destroy(ring.id).expect("a queue");
}

#[test]
fn a_busy_queue_can_be_destroyed() {
    let state = state();
    let mut ring = Ring::new(state, 2);
    // A descriptor for wave32, and code that branches to itself.
    let memory = shared(state, 64 + 512);
    let base = (memory.as_ptr() as u64).next_multiple_of(256);
    // SAFETY: inside the memory above.
    unsafe {
        ((base + 16) as *mut u64).write(256);
        ((base + 56) as *mut u16).write(1 << 10);
        ((base + 256) as *mut u32).write(0xbf82_ffff);
    }
    let done = signal(state, 1);
    ring.submit(&packet(
        2,
        &[
            (2, 1, 2),
            (4, 32, 2),
            (6, 1, 2),
            (8, 1, 2),
            (12, 32, 4),
            (16, 1, 4),
            (20, 1, 4),
            (32, base, 8),
            (56, done, 8),
        ],
    ));
    thread::sleep(Duration::from_millis(50));
    assert_eq!((ring.done(), value(done)), (0, 1), "it runs for ever");
    state.queues.destroy(ring.id).expect("a queue");
    assert_eq!(value(done), 1, "and never completed");
}

#[test]
fn copy_engines_copy_fill_and_tell() {
    let state = state();
    let ring = Ring::new(state, 1);
    let data = shared(state, 512);
    data[..4].copy_from_slice(&[1, 2, 3, 4]);
    let at = |word: usize| data.as_ptr() as u64 + 8 * word as u64;
    let halves = |value: u64| [value as u32, (value >> 32) as u32];
    let mut words: Vec<u32> = vec![1, 31, 0];
    words.extend(halves(at(0)).into_iter().chain(halves(at(8))));
    words.extend([11 | 2 << 30, 0, 0, 0x0707_0707, 15]);
    let fill = words.len() - 4;
    words[fill..fill + 2].copy_from_slice(&halves(at(16)));
    words.push(5);
    words.extend(halves(at(20)));
    words.push(99);
    for (n, word) in words.iter().enumerate() {
        // SAFETY: inside the ring.
        unsafe { ((ring.ring + 4 * n as u64) as *mut u32).write_volatile(*word) };
    }
    // SAFETY: the index that was given to the queue, in bytes.
    unsafe { AtomicU64::from_ptr(ring.write as *mut u64) }.store(4 * words.len() as u64, Ordering::Release);
    ring.wait(4 * words.len() as u64);
    assert_eq!(data[8..12], [1, 2, 3, 4]);
    assert_eq!(data[16..19], [0x0707_0707_0707_0707, 0x0707_0707_0707_0707, 0]);
    assert_eq!(data[20], 99);
    ring.state.queues.destroy(ring.id).expect("a queue");
}

#[test]
fn wrong_requests_are_refused() {
    let state = state();
    let mut request = CreateQueue {
        ring: 0x1000,
        write_pointer: 0x2000,
        read_pointer: 0x3000,
        doorbell_offset: 0,
        ring_bytes: 1000,
        gpu_id: state.gpus[0].id,
        queue_type: 2,
        percentage: 0,
        priority: 0,
        queue_id: 0,
        eop: 0,
        eop_bytes: 0,
        save_area: 0,
        save_area_bytes: 0,
        control_stack_bytes: 0,
    };
    assert_eq!(create(state, &mut request), Err(libc::EINVAL), "a ring has a power of two of bytes");
    request.ring_bytes = 4096;
    request.gpu_id = 7;
    assert_eq!(create(state, &mut request), Err(libc::EINVAL), "there is no such GPU");
    assert_eq!(state.queues.destroy(3), Err(libc::EINVAL));
}
