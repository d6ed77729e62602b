//! A queue between the threads that ask for work and one thread that does it. NVIDIA's driver takes microseconds for a launch;
//! a thread that only writes down what is to be launched is done in a fraction of that, and computes what comes next meanwhile.
//! Nothing here knows what the work is.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Thread};
use std::time::{Duration, Instant};

/// Requests that the asking thread serves by itself before it wakes the other one: waking takes as long as a few launches, and pays
/// only where more of them follow.
const DIRECT: u32 = 16;

/// How long the thread looks for more work before it sleeps.
const PATIENCE: Duration = Duration::from_micros(100);

/// A counter in a cache line of its own: the two threads would otherwise take it from each other at every step.
#[repr(align(128))]
struct Counter(AtomicUsize);

/// Work waits in a ring of places, which are filled in turn and emptied in the same order.
pub(crate) struct Queue<T> {
    places: Box<[UnsafeCell<T>]>,
    /// Places filled, ever. Written under the lock.
    filled: Counter,
    /// Places emptied, ever. Written by the thread alone.
    emptied: Counter,
    /// Whether the thread looks at the ring. Changes under the lock; while it does not, nothing waits.
    awake: AtomicBool,
    server: Mutex<Server>,
    serve: fn(&T),
    /// The process that has the thread. One that is forked off has none.
    process: u32,
}

/// The thread, as those who ask know it.
#[derive(Default)]
struct Server {
    thread: Option<Thread>,
    /// Requests since it fell asleep, which were served without it.
    passed_over: u32,
    /// There is none to be had, or the process ends.
    gone: bool,
}

// SAFETY: a place is written under the lock while it counts as empty, and read by the one thread while it counts as filled; the
// counters order both.
unsafe impl<T: Send> Sync for Queue<T> {}

/// An empty place, to be filled. Work for it is on its way once this is dropped.
pub(crate) struct Place<'a, T> {
    queue: &'a Queue<T>,
    position: usize,
    _server: MutexGuard<'a, Server>,
}

impl<T> Deref for Place<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the place is empty, so the thread does not look at it, and the lock keeps others away.
        unsafe { &*self.queue.slot(self.position).get() }
    }
}

impl<T> DerefMut for Place<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.queue.slot(self.position).get() }
    }
}

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        self.queue.filled.0.store(self.position.wrapping_add(1), Ordering::Release);
    }
}

impl<T> Queue<T> {
    fn slot(&self, position: usize) -> &UnsafeCell<T> {
        &self.places[position & (self.places.len() - 1)]
    }
}

impl<T: Default + Send + 'static> Queue<T> {
    /// A queue of so many places, a power of two, whose thread calls `serve` with what is in them.
    pub fn new(places: usize, serve: fn(&T)) -> Self {
        assert!(places.is_power_of_two());
        Self {
            places: (0..places).map(|_| UnsafeCell::default()).collect(),
            filled: Counter(AtomicUsize::new(0)),
            emptied: Counter(AtomicUsize::new(0)),
            awake: AtomicBool::new(false),
            server: Mutex::default(),
            serve,
            process: std::process::id(),
        }
    }

    /// A place for work, or `None` where the caller had better do it at once: then nothing waits.
    #[inline]
    pub fn place(&'static self) -> Option<Place<'static, T>> {
        let mut server = self.lock();
        if !self.awake.load(Ordering::Relaxed) && !self.wake(&mut server) {
            return None;
        }
        let position = self.filled.0.load(Ordering::Relaxed);
        wait_until(|| position.wrapping_sub(self.emptied.0.load(Ordering::Acquire)) < self.places.len());
        Some(Place { queue: self, position, _server: server })
    }

    /// Waits until everything asked for so far is done.
    #[inline]
    pub fn drain(&self) {
        let filled = self.filled.0.load(Ordering::Acquire);
        if self.emptied.0.load(Ordering::Acquire) != filled {
            self.wait_for(filled);
        }
    }

    /// Waits for what is under way; from now on there are no more places.
    pub fn close(&self) {
        if std::process::id() != self.process {
            return;
        }
        let mut server = self.lock();
        server.gone = true;
        self.drain();
        self.awake.store(false, Ordering::Relaxed);
    }

    #[cold]
    fn wait_for(&self, filled: usize) {
        wait_until(|| filled.wrapping_sub(self.emptied.0.load(Ordering::Acquire)) as isize <= 0);
    }

    fn lock(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the thread looks at the ring now.
    #[cold]
    fn wake(&'static self, server: &mut Server) -> bool {
        if server.gone || server.passed_over < DIRECT {
            server.passed_over = server.passed_over.saturating_add(1);
            return false;
        }
        self.awake.store(true, Ordering::Release);
        match &server.thread {
            Some(thread) => thread.unpark(),
            None => match Builder::new().name("hip-cuda launches".into()).spawn(|| self.work()) {
                Ok(handle) => server.thread = Some(handle.thread().clone()),
                Err(_) => {
                    server.gone = true;
                    self.awake.store(false, Ordering::Relaxed);
                }
            },
        }
        !server.gone
    }

    fn work(&self) {
        let mut position = 0usize;
        loop {
            if !self.look_for(position) {
                self.sleep(position);
                continue;
            }
            // SAFETY: the place is filled, so nobody writes to it until it counts as emptied.
            (self.serve)(unsafe { &*self.slot(position).get() });
            position = position.wrapping_add(1);
            self.emptied.0.store(position, Ordering::Release);
        }
    }

    /// Whether the place is filled, now or soon.
    fn look_for(&self, position: usize) -> bool {
        let is_filled = || self.filled.0.load(Ordering::Acquire) != position;
        if is_filled() {
            return true;
        }
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            for _ in 0..16 {
                if is_filled() {
                    return true;
                }
                std::hint::spin_loop();
            }
        }
        false
    }

    /// Sleeps until somebody wakes the thread, unless there is work after all. Whoever holds the lock may be waiting for this thread, so
    /// it does not wait for the lock.
    fn sleep(&self, position: usize) {
        let Ok(mut server) = self.server.try_lock() else { return };
        if self.filled.0.load(Ordering::Relaxed) != position {
            return;
        }
        server.passed_over = 0;
        self.awake.store(false, Ordering::Relaxed);
        drop(server);
        while !self.awake.load(Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// Waits for what another thread does within microseconds, and gives way where that thread has no core of its own.
fn wait_until(is_so: impl Fn() -> bool) {
    loop {
        for _ in 0..1024 {
            if is_so() {
                return;
            }
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A number for a list, written there after a while.
    #[derive(Default)]
    struct Entry {
        number: usize,
        list: Arc<Mutex<Vec<usize>>>,
        takes: Duration,
    }

    fn write_down(entry: &Entry) {
        std::thread::sleep(entry.takes);
        entry.list.lock().expect("nobody panics with it").push(entry.number);
    }

    fn queue(places: usize) -> &'static Queue<Entry> {
        Box::leak(Box::new(Queue::new(places, write_down)))
    }

    /// Has a number written down, by the queue or at once, and says whether by the queue.
    fn enter(queue: &'static Queue<Entry>, list: &Arc<Mutex<Vec<usize>>>, number: usize, takes: Duration) -> bool {
        let entry = Entry { number, list: list.clone(), takes };
        match queue.place() {
            Some(mut place) => {
                *place = entry;
                true
            }
            None => {
                write_down(&entry);
                false
            }
        }
    }

    fn numbers(list: &Arc<Mutex<Vec<usize>>>) -> Vec<usize> {
        list.lock().expect("nobody panics with it").clone()
    }

    #[test]
    fn work_is_done_in_order_at_first_directly_and_then_by_the_thread() {
        let (queue, list) = (queue(64), Arc::default());
        let queued = (0..10_000).filter(|&number| enter(queue, &list, number, Duration::ZERO)).count();
        queue.drain();
        assert_eq!(numbers(&list), (0..10_000).collect::<Vec<_>>());
        assert!(queued > 0 && queued <= 10_000 - DIRECT as usize, "{queued}");
    }

    #[test]
    fn a_full_ring_makes_the_asking_thread_wait_and_loses_nothing() {
        let (queue, list) = (queue(4), Arc::default());
        for number in 0..100 {
            enter(queue, &list, number, Duration::from_micros(200));
        }
        queue.drain();
        assert_eq!(numbers(&list), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_thread_that_slept_takes_up_its_work_again() {
        let (queue, list) = (queue(64), Arc::default());
        for burst in 0..5 {
            let queued = (0..50).filter(|number| enter(queue, &list, burst * 50 + number, Duration::ZERO)).count();
            assert!(queued > 0, "burst {burst}");
            queue.drain();
            let deadline = Instant::now() + Duration::from_secs(20);
            while queue.awake.load(Ordering::Relaxed) {
                assert!(Instant::now() < deadline, "it never rests");
                std::thread::sleep(PATIENCE);
            }
        }
        assert_eq!(numbers(&list), (0..250).collect::<Vec<_>>());
    }

    #[test]
    fn threads_that_share_a_queue_each_keep_their_order() {
        let (queue, list) = (queue(16), Arc::default());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let list = &list;
                scope.spawn(move || {
                    for number in 0..2_000 {
                        enter(queue, list, thread * 10_000 + number, Duration::ZERO);
                        if number % 97 == 0 {
                            queue.drain();
                            assert!(numbers(list).contains(&(thread * 10_000 + number)));
                        }
                    }
                });
            }
        });
        queue.drain();
        let all = numbers(&list);
        for thread in 0..4 {
            let own: Vec<usize> = all.iter().copied().filter(|number| number / 10_000 == thread).collect();
            assert_eq!(own, (0..2_000).map(|number| thread * 10_000 + number).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_closed_queue_has_done_all_and_takes_nothing_more() {
        let (queue, list) = (queue(256), Arc::default());
        for number in 0..200 {
            enter(queue, &list, number, Duration::from_micros(50));
        }
        queue.close();
        assert_eq!(numbers(&list).len(), 200);
        assert!((200..300).all(|number| !enter(queue, &list, number, Duration::ZERO)));
        assert_eq!(numbers(&list), (0..300).collect::<Vec<_>>());
    }
}
