//! Where threads of a block meet: barriers, wave operations, and who runs next.
//!
//! A block starts as a plain loop over its threads (one by one in checked mode, and in any order but the ascending one). The first
//! thread that has to wait is set aside where it stands, and the loop goes on with the threads not yet started; and so on. Waits are
//! resolved when nobody can run: a wave whose live lanes all wait completes the wave operation that comes first in the code; a block
//! whose live threads all wait at the barrier passes it. Some thread can therefore always go on, and a legal kernel never hangs.
//!
//! The known difference from a GPU: lanes that reach one wave operation of the text through both sides of a branch meet there together.
//! On a GPU each side would meet by itself.

use super::block::{active, Chunk, Worker};
use super::jump::{switch, Suspended};
use super::order::Order;
use crate::device::MAX_BLOCK_THREADS;
use crate::module_abi::{barrier_kind, WaveResult};
use crate::report::Cause;
use std::ffi::c_int;

const MAX_THREADS: usize = MAX_BLOCK_THREADS as usize;
/// Waves of a block at the smaller wave size.
const MAX_WAVES: usize = MAX_THREADS / 32;

/// The threads of the block being run.
pub(crate) struct Meeting {
    threads: u32,
    lane_bits: u32,
    /// In which order threads start, and go on where several can.
    order: Order,
    /// Meetings that were arranged by it, each in a way of its own.
    meetings: u64,
    /// First place of the order whose thread has not started.
    next: u32,
    /// Threads started or not, but not finished.
    live: u32,
    /// The thread that runs. Of threads that run as a loop, the first.
    current: u32,
    /// The end of the loop that `current` began, and whether none of its threads has waited yet.
    last: u32,
    looping: bool,
    /// Whether any thread of the block has waited: until then the masks below are not set.
    waiting: bool,
    /// The stack that code about to start stands on.
    starting: u32,
    /// Where the base continues once every thread of the block is done.
    base: Suspended,
    /// Threads at the barrier, and how many of them said yes.
    arrived: u32,
    agreed: u32,
    /// What the last barrier came to: threads that passed it, and how many of them said yes.
    passed: (u32, u32),
    /// Threads that can go on, in order: a ring.
    ready_head: u32,
    ready_count: u32,
    ready: [u16; MAX_THREADS],
    /// The wave operation each waiting thread is at, and the address of the instruction behind it.
    sites: [u32; MAX_THREADS],
    places: [usize; MAX_THREADS],
    suspended: [Suspended; MAX_THREADS],
    waves: [Wave; MAX_WAVES],
}

/// The lanes of one wave, as masks.
#[derive(Clone, Copy)]
struct Wave {
    /// Not finished.
    live: u64,
    /// Waiting for a wave operation.
    operating: u64,
    /// Waiting at the block's barrier.
    at_barrier: u64,
    /// What each waiting lane brought.
    brought: [u64; 64],
    /// What the last operation came to. The next cannot complete before every lane of this one has read it and waits again.
    result: WaveResult,
}

impl Meeting {
    pub fn new() -> Self {
        let result = WaveResult { active: 0, value: [0; 64] };
        Self {
            threads: 0,
            lane_bits: 5,
            order: Order::Ascending,
            meetings: 0,
            next: 0,
            live: 0,
            current: 0,
            last: 0,
            looping: false,
            waiting: false,
            starting: 0,
            base: std::ptr::null_mut(),
            arrived: 0,
            agreed: 0,
            passed: (0, 0),
            ready_head: 0,
            ready_count: 0,
            ready: [0; MAX_THREADS],
            sites: [0; MAX_THREADS],
            places: [0; MAX_THREADS],
            suspended: [std::ptr::null_mut(); MAX_THREADS],
            waves: [Wave { live: 0, operating: 0, at_barrier: 0, brought: [0; 64], result }; MAX_WAVES],
        }
    }

    /// The thread that runs, or is to blame.
    pub fn current(&self) -> u32 {
        self.current
    }

    pub fn blame(&mut self, thread: u32) {
        self.current = thread;
    }

    /// Makes the threads not yet started the ones that run.
    fn loop_from_next(&mut self, chunk: &Chunk) -> (u32, u32) {
        self.current = self.order.at(u64::from(self.next), u64::from(self.threads)) as u32;
        self.last = if chunk.one_by_one { self.current + 1 } else { self.threads };
        self.looping = true;
        (self.current, self.last)
    }

    /// Sets the masks: a thread waits, or threads end one by one.
    #[cold]
    fn begin_waiting(&mut self, wave_size: u32) {
        self.waiting = true;
        self.lane_bits = wave_size.trailing_zeros();
        (self.ready_head, self.ready_count, self.arrived, self.agreed) = (0, 0, 0, 0);
        for (first, wave) in (0..self.threads).step_by(wave_size as usize).zip(&mut self.waves) {
            let lanes = (self.threads - first).min(wave_size);
            (wave.live, wave.operating, wave.at_barrier) = (u64::MAX >> (64 - lanes), 0, 0);
        }
    }

    #[inline(always)]
    fn wave_and_lane(&self, thread: u32) -> (usize, u32) {
        ((thread >> self.lane_bits) as usize % MAX_WAVES, thread & ((1 << self.lane_bits) - 1))
    }

    #[inline(always)]
    fn make_ready(&mut self, thread: u32) {
        self.ready[(self.ready_head + self.ready_count) as usize % MAX_THREADS] = thread as u16;
        self.ready_count += 1;
    }

    #[inline(always)]
    fn take_ready(&mut self) -> Option<u32> {
        if self.ready_count == 0 {
            return None;
        }
        let thread = self.ready[self.ready_head as usize % MAX_THREADS];
        self.ready_head = (self.ready_head + 1) % MAX_THREADS as u32;
        self.ready_count -= 1;
        Some(u32::from(thread))
    }

    /// A thread is about to wait. If it is the first of its loop to do so, those before it in the loop have run to their end.
    #[inline(always)]
    fn note_waiting(&mut self, thread: u32, wave_size: u32) {
        if self.looping {
            if !self.waiting {
                self.begin_waiting(wave_size);
            }
            self.looping = false;
            self.next += thread - self.current + 1;
            self.finish(self.current, thread);
        }
    }

    /// Threads have run to their end.
    #[inline(always)]
    fn finish(&mut self, first: u32, end: u32) {
        self.live -= end - first;
        for thread in first..end {
            let (wave, lane) = self.wave_and_lane(thread);
            self.waves[wave].live &= !(1 << lane);
            self.try_complete(wave);
        }
    }

    /// Completes a wave operation once no live lane of the wave can run.
    #[inline(always)]
    fn try_complete(&mut self, index: usize) {
        let wave = &self.waves[index];
        if wave.operating != 0 && wave.live & !(wave.operating | wave.at_barrier) == 0 {
            self.complete(index);
        }
    }

    fn complete(&mut self, index: usize) {
        let wave = &mut self.waves[index];
        let first_thread = (index as u32) << self.lane_bits;
        let (sites, places) = (&self.sites[first_thread as usize..], &self.places[first_thread as usize..]);
        // Loop bodies come before what follows them, so whoever is at the lowest address is who the others have to wait for. The
        // text's own order would not do: a function may be defined long before the loop that it is called behind. But the lanes that
        // meet are those at the same place of the text, since the compiler may have made several copies of it.
        let behind = lanes(wave.operating).min_by_key(|lane| places[*lane as usize]).map(|lane| sites[lane as usize]);
        let at_same_site = |lane: &u32| Some(sites[*lane as usize]) == behind;
        let group = lanes(wave.operating).filter(at_same_site).fold(0u64, |mask, lane| mask | 1 << lane);
        wave.result.active = group;
        let size = 1 << self.lane_bits;
        wave.result.value[..size].copy_from_slice(&wave.brought[..size]);
        wave.operating &= !group;
        let before = self.ready_count;
        for lane in lanes(group) {
            self.make_ready(first_thread + lane);
        }
        if self.order != Order::Ascending {
            self.arrange_ready(before);
        }
    }

    /// Puts those that became ready after the first `before` into the order.
    #[cold]
    fn arrange_ready(&mut self, before: u32) {
        let mut added = [0u16; MAX_THREADS];
        let added = &mut added[..(self.ready_count - before) as usize];
        let first = (self.ready_head + before) as usize;
        for (i, thread) in added.iter_mut().enumerate() {
            *thread = self.ready[(first + i) % MAX_THREADS];
        }
        self.meetings += 1;
        self.order.derived(self.meetings).arrange(added);
        for (i, thread) in added.iter().enumerate() {
            self.ready[(first + i) % MAX_THREADS] = *thread;
        }
    }

    /// Lets everyone past the barrier.
    fn pass_barrier(&mut self) {
        self.passed = (self.arrived, self.agreed);
        (self.arrived, self.agreed) = (0, 0);
        for index in 0..(self.threads as usize).div_ceil(1 << self.lane_bits) {
            for lane in lanes(std::mem::take(&mut self.waves[index].at_barrier)) {
                self.make_ready(((index as u32) << self.lane_bits) + lane);
            }
        }
        if self.order != Order::Ascending {
            self.arrange_ready(0);
        }
    }
}

/// The positions of the bits of a mask, lowest first.
#[inline(always)]
fn lanes(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lane = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(lane)
    })
}

/// Runs one block.
///
/// # Safety
/// On the base of `worker`, whose `block` is set.
pub(super) unsafe fn run_block(worker: *mut Worker, chunk: &Chunk, order: Order) {
    // SAFETY: `worker` is this OS thread's own. No reference to its parts is held while the kernel runs.
    unsafe {
        let meeting = &mut (*worker).meeting;
        (meeting.threads, meeting.next, meeting.live, meeting.waiting) = (chunk.threads, 0, chunk.threads, false);
        (meeting.order, meeting.meetings) = (order, 0);
        run_unstarted(worker, chunk);
        if (*worker).meeting.live > 0 {
            let next = next_to_run(worker).place(worker);
            switch(&raw mut (*worker).meeting.base, next);
        }
    }
}

/// Runs threads not yet started until there are none.
///
/// # Safety
/// On a stack of `worker`.
#[inline(always)]
unsafe fn run_unstarted(worker: *mut Worker, chunk: &Chunk) {
    // SAFETY: the arguments were packed by this kernel's own table and its module is loaded. The kernel may switch, so nothing of the
    // worker is borrowed across it.
    unsafe {
        while (*worker).meeting.next < chunk.threads {
            let (first, last) = (*worker).meeting.loop_from_next(chunk);
            (chunk.run)(chunk.arguments, &raw const (*worker).block, first, last);
            let meeting = &mut (*worker).meeting;
            if !meeting.looping {
                // The loop was left behind by others when this thread waited; now it alone is done.
                meeting.finish(meeting.current, meeting.current + 1);
            } else if first == 0 && last == chunk.threads {
                // Nobody waited, as in most kernels.
                (meeting.next, meeting.live) = (last, 0);
            } else {
                if !meeting.waiting {
                    meeting.begin_waiting((*worker).block.warp_size);
                }
                meeting.looping = false;
                meeting.next += last - first;
                meeting.finish(first, last);
            }
        }
    }
}

/// What happens on a further stack: threads not yet started, then whatever can run.
unsafe extern "C" fn run_further() -> Suspended {
    let worker = active();
    // SAFETY: started by `next_to_run` on this OS thread. The stack goes back to the worker while we stand on it, but nobody can
    // take it before we have left it.
    unsafe {
        let stack = (*worker).meeting.starting;
        run_unstarted(worker, Worker::chunk(worker));
        let next = next_to_run(worker).place(worker);
        (*worker).stacks.put(stack);
        next
    }
}

/// Who runs next.
enum Next {
    /// A thread that waited.
    Thread(u32),
    /// A further stack, the base, or the way out.
    Place(Suspended),
}

impl Next {
    /// Where that is.
    ///
    /// # Safety
    /// On a stack of `worker`, as someone else than the thread named.
    #[inline(always)]
    unsafe fn place(self, worker: *mut Worker) -> Suspended {
        match self {
            // SAFETY: this OS thread's own worker.
            Self::Thread(thread) => unsafe { (*worker).meeting.suspended[thread as usize % MAX_THREADS] },
            Self::Place(place) => place,
        }
    }
}

/// Who runs next, when the caller cannot.
///
/// # Safety
/// On a stack of `worker`; the result is continued at once.
#[inline(always)]
unsafe fn next_to_run(worker: *mut Worker) -> Next {
    // SAFETY: this OS thread's own worker; nothing here switches.
    unsafe {
        let meeting = &mut (*worker).meeting;
        loop {
            if let Some(thread) = meeting.take_ready() {
                return Next::Thread(thread);
            }
            if meeting.next < meeting.threads {
                let Some(stack) = (*worker).stacks.take() else {
                    return Next::Place((*worker).give_up(None, Cause::NoStack));
                };
                meeting.starting = stack;
                return Next::Place((*worker).stacks.prepare(stack, run_further));
            }
            if meeting.live == 0 {
                return Next::Place(meeting.base);
            }
            meeting.pass_barrier();
        }
    }
}

/// Waits until someone continues this thread.
///
/// # Safety
/// On a stack of `worker`, as `thread`, which has been entered where it waits.
#[inline(always)]
unsafe fn wait(worker: *mut Worker, thread: u32) {
    // SAFETY: the caller's promise; no reference is held across the switch.
    unsafe {
        let next = next_to_run(worker);
        // The last to arrive may be the first to go on, and is not suspended at all then.
        if !matches!(next, Next::Thread(same) if same == thread) {
            let next = next.place(worker);
            switch(&raw mut (*worker).meeting.suspended[thread as usize % MAX_THREADS], next);
        }
        (*worker).meeting.current = thread;
    }
}

/// The block's barrier, called by kernels.
pub(super) unsafe extern "C" fn barrier(thread: u32, predicate: c_int, kind: u32) -> c_int {
    let worker = active();
    // SAFETY: kernels call this on a stack of this OS thread's worker.
    unsafe {
        let wave_size = (*worker).block.warp_size;
        let meeting = &mut (*worker).meeting;
        meeting.note_waiting(thread, wave_size);
        let (wave, lane) = meeting.wave_and_lane(thread);
        meeting.waves[wave].at_barrier |= 1 << lane;
        meeting.arrived += 1;
        meeting.agreed += u32::from(predicate != 0);
        meeting.try_complete(wave);
        wait(worker, thread);
        let (arrived, agreed) = (*worker).meeting.passed;
        match kind {
            barrier_kind::COUNT => agreed as c_int,
            barrier_kind::AND => c_int::from(agreed == arrived),
            barrier_kind::OR => c_int::from(agreed > 0),
            _ => 0,
        }
    }
}

/// A wave operation. Kernels call it by way of [`pass_place`](super::jump::pass_place), which adds the place.
pub(super) unsafe extern "C" fn wave(thread: u32, site: u32, value: u64, place: usize) -> *const WaveResult {
    let worker = active();
    // SAFETY: kernels call this on a stack of this OS thread's worker.
    unsafe {
        let wave_size = (*worker).block.warp_size;
        let meeting = &mut (*worker).meeting;
        meeting.note_waiting(thread, wave_size);
        let (wave, lane) = meeting.wave_and_lane(thread);
        meeting.sites[thread as usize % MAX_THREADS] = site;
        meeting.places[thread as usize % MAX_THREADS] = place;
        meeting.waves[wave].brought[lane as usize] = value;
        meeting.waves[wave].operating |= 1 << lane;
        meeting.try_complete(wave);
        wait(worker, thread);
        &raw const (*worker).meeting.waves[wave].result
    }
}
