//! Streams: queues whose commands run in order on a dispatcher thread of their own. Work submitted is not done until it is waited
//! for, as on a GPU. The thread is started by the first command and ends when the stream is destroyed or long idle.
//!
//! A command's ticket is its position in the stream; "done up to ticket n" is all that anyone ever waits for. Waits between streams
//! name only tickets that exist already, so they cannot form a circle.

use crate::command::Command;
use crate::device;
use crate::graph::Capturing;
use crate::handles::Handles;
use hip_abi::{hipError_t, hipStream_t};
use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An idle dispatcher gives its thread back after this long.
const IDLE_LIMIT: Duration = Duration::from_secs(10);
/// Checks for new work before a dispatcher goes to sleep, about 5 us: a wake-up costs the submitter about as much.
const SPINS_BEFORE_SLEEP: u32 = 300;
/// A submitter that is this many commands ahead waits for the stream to catch up, so that memory stays bounded.
const MAX_PENDING: u64 = 1 << 16;

/// A stream.
pub(crate) struct Stream {
    pub device: usize,
    role: Role,
    queue: Mutex<Queue>,
    work: Condvar,
    submitted: AtomicU64,
    completed: AtomicU64,
    waiters: AtomicUsize,
    waiting: Mutex<()>,
    progress: Condvar,
    failure: AtomicU32,
}

/// How a stream stands to the null stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Null,
    Blocking,
    NonBlocking,
}

#[derive(Default)]
struct Queue {
    pending: VecDeque<Command>,
    dispatcher: Dispatcher,
    closed: bool,
    /// The ticket of the null stream that this queue waits for already.
    null_awaited: u64,
    capturing: Option<Capturing>,
}

#[derive(Default, PartialEq, Eq)]
enum Dispatcher {
    #[default]
    Absent,
    Sleeping,
    Running,
}

static STREAMS: Handles<Stream> = Handles::new(0x51);

/// Makes a stream of the device.
pub(crate) fn create(device: &device::Device, non_blocking: bool) -> hipStream_t {
    let stream = Arc::new(Stream::new(device.ordinal, if non_blocking { Role::NonBlocking } else { Role::Blocking }));
    device.add_stream(&stream);
    hipStream_t(STREAMS.insert(stream))
}

/// The stream behind a handle; null is the default stream of the current device.
pub(crate) fn resolve(handle: hipStream_t) -> Result<Arc<Stream>, hipError_t> {
    if handle.is_null() {
        return Ok(device::current()?.null_stream().clone());
    }
    STREAMS.get(handle.0).ok_or(hipError_t::hipErrorInvalidHandle)
}

/// Takes the handle back. Work already submitted still runs.
pub(crate) fn destroy(handle: hipStream_t) -> Result<(), hipError_t> {
    let stream = STREAMS.remove(handle.0).ok_or(hipError_t::hipErrorInvalidHandle)?;
    let mut queue = stream.lock();
    if let Some(capturing) = queue.capturing.take() {
        capturing.invalidate();
    }
    queue.closed = true;
    stream.work.notify_one();
    if queue.dispatcher == Dispatcher::Absent {
        drop(queue);
        stream.hand_failure_to_device();
    }
    Ok(())
}

impl Stream {
    fn new(device: usize, role: Role) -> Self {
        Self {
            device,
            role,
            queue: Mutex::default(),
            work: Condvar::new(),
            submitted: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            waiters: AtomicUsize::new(0),
            waiting: Mutex::new(()),
            progress: Condvar::new(),
            failure: AtomicU32::new(0),
        }
    }

    /// The default stream of a device.
    pub fn null(device: usize) -> Arc<Self> {
        Arc::new(Self::new(device, Role::Null))
    }

    pub fn is_null(&self) -> bool {
        self.role == Role::Null
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at or changes what is known about the capture of this stream.
    pub fn with_capturing<R>(&self, change: impl FnOnce(&mut Option<Capturing>) -> R) -> R {
        change(&mut self.lock().capturing)
    }

    /// Puts a command at the end of the queue, or into the graph being captured. The ticket is `None` when captured.
    pub fn submit(self: &Arc<Self>, command: Command) -> Result<Option<u64>, hipError_t> {
        let mut queue = self.lock();
        if let Some(capturing) = &mut queue.capturing {
            return capturing.append(command).map(|()| None);
        }
        let before = match self.role {
            Role::Null => self.blocking_streams_to_await()?,
            Role::Blocking => self.null_stream_to_await(&mut queue),
            Role::NonBlocking => None,
        };
        if queue.dispatcher == Dispatcher::Absent {
            self.start_dispatcher()?;
            queue.dispatcher = Dispatcher::Running;
        }
        let count = 1 + u64::from(before.is_some());
        queue.pending.extend(before);
        queue.pending.push_back(command);
        let ticket = self.submitted.load(Ordering::Relaxed) + count;
        self.submitted.store(ticket, Ordering::Release);
        if queue.dispatcher == Dispatcher::Sleeping {
            // Set here, so that only the first of several submissions pays for the wake-up.
            queue.dispatcher = Dispatcher::Running;
            self.work.notify_one();
        }
        drop(queue);
        if ticket.saturating_sub(self.completed.load(Ordering::Acquire)) > MAX_PENDING && !is_dispatcher() {
            self.wait_for(ticket - MAX_PENDING / 2);
        }
        Ok(Some(ticket))
    }

    /// Work of the null stream waits for all earlier work of the blocking streams of its device.
    fn blocking_streams_to_await(&self) -> Result<Option<Command>, hipError_t> {
        crate::graph::forbid_null_stream(self.device)?;
        let mut waits = Vec::new();
        device::get(self.device as i32)?.each_stream(|stream| {
            if stream.role == Role::Blocking && !stream.is_idle() {
                let ticket = stream.submitted.load(Ordering::Acquire);
                waits.push((stream, ticket));
            }
        });
        Ok(Some(waits).filter(|waits| !waits.is_empty()).map(Command::WaitAll))
    }

    /// Work of a blocking stream waits for all earlier work of the null stream.
    fn null_stream_to_await(&self, queue: &mut Queue) -> Option<Command> {
        let null = device::get(self.device as i32).ok()?.null_stream();
        let ticket = null.submitted.load(Ordering::Acquire);
        if ticket <= queue.null_awaited || null.is_done(ticket) {
            return None;
        }
        queue.null_awaited = ticket;
        Some(Command::Wait(null.clone(), ticket))
    }

    fn start_dispatcher(self: &Arc<Self>) -> Result<(), hipError_t> {
        let stream = self.clone();
        let thread = std::thread::Builder::new().name("hip-host stream".to_owned());
        let started = thread.spawn(move || stream.dispatch());
        started.map(drop).map_err(|_| hipError_t::hipErrorOperatingSystem)
    }

    /// The life of the dispatcher thread.
    fn dispatch(self: Arc<Self>) {
        DISPATCHER.set(true);
        let mut taken = VecDeque::new();
        loop {
            let mut spins = 0;
            while self.is_idle() && spins < SPINS_BEFORE_SLEEP {
                std::hint::spin_loop();
                spins += 1;
            }
            let mut queue = self.lock();
            while queue.pending.is_empty() {
                if queue.closed {
                    drop(queue);
                    self.hand_failure_to_device();
                    return;
                }
                queue.dispatcher = Dispatcher::Sleeping;
                let (woken, timeout) =
                    self.work.wait_timeout(queue, IDLE_LIMIT).unwrap_or_else(PoisonError::into_inner);
                queue = woken;
                if timeout.timed_out() && queue.pending.is_empty() && !queue.closed {
                    queue.dispatcher = Dispatcher::Absent;
                    return;
                }
            }
            queue.dispatcher = Dispatcher::Running;
            std::mem::swap(&mut queue.pending, &mut taken);
            drop(queue);
            for command in taken.drain(..) {
                // A panic here would leave everyone who waits for the stream waiting.
                let done = catch_unwind(AssertUnwindSafe(|| command.execute(self.device)));
                if let Err(failure) = done.unwrap_or(Err(hipError_t::hipErrorUnknown)) {
                    let _ = self.failure.compare_exchange(0, failure.0, Ordering::AcqRel, Ordering::Relaxed);
                }
                // What the command owned (a module, say) is released before anyone is told that it is done.
                drop(command);
                self.complete_one();
            }
        }
    }

    fn complete_one(&self) {
        self.completed.fetch_add(1, Ordering::SeqCst);
        // Whoever is about to wait has said so before it looked at `completed`, or will see the new value.
        if self.waiters.load(Ordering::SeqCst) > 0 {
            drop(self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            self.progress.notify_all();
        }
    }

    /// Whether everything up to the ticket is done.
    pub fn is_done(&self, ticket: u64) -> bool {
        self.completed.load(Ordering::SeqCst) >= ticket
    }

    /// Whether everything submitted so far is done.
    pub fn is_idle(&self) -> bool {
        self.is_done(self.submitted.load(Ordering::Acquire))
    }

    /// Waits until everything up to the ticket is done.
    pub fn wait_for(&self, ticket: u64) {
        if self.is_done(ticket) {
            return;
        }
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_done(ticket) {
            guard = self.progress.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits until everything submitted so far is done.
    pub fn wait_submitted(&self) {
        self.wait_for(self.submitted.load(Ordering::Acquire));
    }

    /// The failure of a kernel since it was last asked for.
    pub fn take_failure(&self) -> Result<(), hipError_t> {
        match hipError_t(self.failure.swap(0, Ordering::AcqRel)) {
            hipError_t::hipSuccess => Ok(()),
            failure => Err(failure),
        }
    }

    fn hand_failure_to_device(&self) {
        if let (Err(failure), Ok(device)) = (self.take_failure(), device::get(self.device as i32)) {
            device.leave_failure(failure);
        }
    }

    /// The streams that a wait for this one waits for: the null stream stands for every blocking stream of its device.
    pub fn with_dependencies(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let mut streams = vec![self.clone()];
        if let (Role::Null, Ok(device)) = (self.role, device::get(self.device as i32)) {
            device.each_stream(|stream| streams.extend(Some(stream).filter(|stream| stream.role == Role::Blocking)));
        }
        streams
    }

    /// Whether it takes part in the legacy ordering with the null stream.
    pub fn is_blocking(&self) -> bool {
        self.role == Role::Blocking
    }
}

thread_local! {
    static DISPATCHER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether this thread is a stream's own.
fn is_dispatcher() -> bool {
    DISPATCHER.get()
}

/// Refuses to wait inside a function that a stream calls (`hipLaunchHostFunc`): the stream would wait for itself.
pub(crate) fn forbid_waiting() -> Result<(), hipError_t> {
    if is_dispatcher() {
        Err(hipError_t::hipErrorIllegalState)
    } else {
        Ok(())
    }
}
