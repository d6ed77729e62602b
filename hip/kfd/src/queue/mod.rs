//! Queues: rings of packets in the process's memory. Each has a thread that runs its packets in order. A thread with nothing to do
//! goes to sleep, and one watcher looks at the write pointers of all sleeping queues.

pub mod aql;
pub mod sdma;
pub mod signal;
#[cfg(test)]
mod tests;

use crate::abi::{amd_queue, CreateQueue};
use crate::log::log;
use crate::memory::DOORBELL_OFFSET;
use crate::state::State;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a queue looks for its next packet without a rest.
const BURST: Duration = Duration::from_micros(20);
/// How long it looks itself, with rests.
const PAUSE: Duration = Duration::from_millis(2);
/// Doorbells of a process, eight bytes each.
const MOST_QUEUES: usize = 1024;

/// A ring of packets.
pub struct Queue {
    /// Its number.
    pub id: u32,
    /// The GPU that runs it.
    pub gpu: usize,
    /// The driver.
    pub state: &'static State,
    /// Address and bytes of the ring.
    pub ring: u64,
    /// See `ring`.
    pub ring_bytes: u64,
    /// Addresses of the indices that the program and the queue share.
    pub write: u64,
    /// See `write`.
    pub read: u64,
    kind: Kind,
    /// The next packet (AQL: a number; SDMA: a byte).
    next: AtomicU64,
    /// The queue is destroyed, or has failed and runs nothing more.
    pub stop: Arc<AtomicBool>,
    asleep: AtomicBool,
    /// When the running kernel began, in nanoseconds; 0 is none.
    pub busy_since: AtomicU64,
    /// The running kernel took too long.
    pub hung: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Aql,
    Sdma,
}

/// What came of looking for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One was run.
    Done,
    /// There is one, and it has to wait.
    Waiting,
    /// There is none.
    Empty,
    /// The queue has failed.
    Failed,
}

/// Queues with their threads, by number.
type Table = Vec<Option<(Arc<Queue>, JoinHandle<()>)>>;

/// All queues of a process.
#[derive(Default)]
pub struct Queues {
    running: Mutex<Table>,
    watched: AtomicBool,
}

/// Nanoseconds of the clock that everything here shows.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A new queue. The error is a number of `errno`.
pub fn create(state: &'static State, request: &mut CreateQueue) -> Result<(), i32> {
    let gpu = state.gpu(request.gpu_id)?;
    let kind = match request.queue_type {
        1 | 3 => Kind::Sdma,
        2 => Kind::Aql,
        _ => return Err(libc::EINVAL),
    };
    if !request.ring_bytes.is_power_of_two()
        || request.ring_bytes < 1024
        || request.ring == 0
        || !request.ring.is_multiple_of(64)
        || request.read_pointer == 0
        || request.write_pointer == 0
    {
        return Err(libc::EINVAL);
    }
    let mut running = state.queues.lock();
    let id = match running.iter().position(Option::is_none) {
        Some(id) => id,
        None if running.len() < MOST_QUEUES => {
            running.push(None);
            running.len() - 1
        }
        None => return Err(libc::ENOMEM),
    };
    let queue = Arc::new(Queue {
        id: id as u32,
        gpu,
        state,
        ring: request.ring,
        ring_bytes: u64::from(request.ring_bytes),
        write: request.write_pointer,
        read: request.read_pointer,
        kind,
        // SAFETY: the program passes the address of its read index.
        next: AtomicU64::new(unsafe { load(request.read_pointer) }),
        stop: Arc::default(),
        asleep: AtomicBool::new(false),
        busy_since: AtomicU64::new(0),
        hung: AtomicBool::new(false),
    });
    let thread = thread::Builder::new().name(format!("kfd queue {id}")).spawn({
        let queue = queue.clone();
        move || queue.serve()
    });
    running[id] = Some((queue, thread.map_err(|_| libc::ENOMEM)?));
    drop(running);
    if !state.queues.watched.swap(true, Ordering::Relaxed) {
        let watcher = thread::Builder::new().name("kfd watcher".to_owned());
        if watcher.spawn(move || state.queues.watch(state)).is_err() {
            // The next queue tries again; without a watcher nothing would wake this one.
            state.queues.watched.store(false, Ordering::Relaxed);
            let _ = state.queues.destroy(id as u32);
            return Err(libc::ENOMEM);
        }
    }
    request.queue_id = id as u32;
    request.doorbell_offset = DOORBELL_OFFSET + 8 * id as u64;
    log!(1, "queue {id} on {}: {kind:?}, ring of {:#x} bytes", state.gpus[gpu].card.arch, request.ring_bytes);
    Ok(())
}

impl Queues {
    /// Ends a queue. What runs is stopped.
    pub fn destroy(&self, id: u32) -> Result<(), i32> {
        let taken = self.lock().get_mut(id as usize).and_then(Option::take);
        let (queue, thread) = taken.ok_or(libc::EINVAL)?;
        queue.stop.store(true, Ordering::Release);
        thread.thread().unpark();
        // The thread catches its panics.
        let _ = thread.join();
        log!(1, "queue {id} is gone");
        Ok(())
    }

    /// Whether there is such a queue.
    pub fn check(&self, id: u32) -> Result<(), i32> {
        self.lock().get(id as usize).and_then(Option::as_ref).map(|_| ()).ok_or(libc::EINVAL)
    }

    /// Wakes queues that have work, and stops kernels that take too long.
    fn watch(&self, state: &'static State) {
        settle_in();
        let mut last_work = Instant::now();
        loop {
            let mut found = false;
            for (queue, thread) in self.lock().iter().flatten() {
                if queue.asleep.load(Ordering::Acquire) && queue.has_work() {
                    queue.asleep.store(false, Ordering::Relaxed);
                    thread.thread().unpark();
                    found = true;
                }
                let since = queue.busy_since.load(Ordering::Relaxed);
                let late = |limit: Duration| since != 0 && now().saturating_sub(since) > limit.as_nanos() as u64;
                if state.config.time_limit.is_some_and(late) {
                    queue.hung.store(true, Ordering::Relaxed);
                    queue.stop.store(true, Ordering::Release);
                }
            }
            if found {
                last_work = Instant::now();
            }
            // The longer nothing happens, the less often it is looked at: a program that waits for its user shall cost nothing.
            thread::sleep(match last_work.elapsed().as_millis() {
                0..20 => Duration::from_micros(20),
                20..2000 => Duration::from_micros(200),
                _ => Duration::from_millis(1),
            });
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// The life of a queue's thread.
    fn serve(&self) {
        settle_in();
        let mut last = Instant::now();
        while !self.stop.load(Ordering::Acquire) {
            let step = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match self.kind {
                Kind::Aql => aql::step(self),
                Kind::Sdma => sdma::step(self),
            }));
            let idle = last.elapsed();
            match step {
                Ok(Step::Done) => last = Instant::now(),
                Ok(Step::Failed) => break,
                Err(_) => {
                    crate::dispatch::broke(self);
                    break;
                }
                // The next packet of a burst comes within microseconds. Who waits longer sleeps, which on a busy machine is also the
                // shortest way to be woken.
                Ok(Step::Empty | Step::Waiting) if idle < BURST => std::hint::spin_loop(),
                Ok(Step::Empty | Step::Waiting) if idle < PAUSE => thread::sleep(Duration::from_micros(20)),
                Ok(Step::Waiting) => thread::sleep(Duration::from_micros(100)),
                Ok(Step::Empty) => {
                    self.asleep.store(true, Ordering::Release);
                    thread::park();
                    self.asleep.store(false, Ordering::Relaxed);
                    last = Instant::now();
                }
            }
        }
    }

    /// The next packet.
    pub fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// What the program has written so far.
    pub fn written(&self) -> u64 {
        // SAFETY: the program keeps its write index while the queue is there.
        unsafe { load(self.write) }
    }

    /// Everything before `next` is done with.
    pub fn advance(&self, next: u64) {
        self.next.store(next, Ordering::Relaxed);
        // SAFETY: the program keeps its read index while the queue is there.
        unsafe { AtomicU64::from_ptr(self.read as *mut u64) }.store(next, Ordering::Release);
    }

    /// Whether it takes packets with kernels, and not with copies.
    pub fn is_aql(&self) -> bool {
        self.kind == Kind::Aql
    }

    /// `amd_queue_t` of an AQL queue.
    pub fn descriptor(&self) -> u64 {
        self.write - amd_queue::WRITE_INDEX
    }

    fn has_work(&self) -> bool {
        self.written() > self.next()
    }
}

/// A word that the program shares.
///
/// # Safety
/// The address must be that of such a word.
pub unsafe fn load(address: u64) -> u64 {
    // SAFETY: as the caller promises; both sides access it atomically.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }.load(Ordering::Acquire)
}

/// A thread of the driver's own. Signals of the program are for the program's threads; those that it could cause itself stay.
pub fn settle_in() {
    // Short sleeps shall be short: by default the kernel may add 50 microseconds.
    // SAFETY: a call with numbers only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000) };
    // SAFETY: sets of signals on this stack.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&mut set);
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL] {
            libc::sigdelset(&mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}
