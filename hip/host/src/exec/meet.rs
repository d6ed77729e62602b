//! Where threads of a block meet: barriers, wave operations, and who runs next.
//!
//! A block starts as a plain loop over its threads. The first thread that has to wait is suspended where it stands, and the threads not
//! yet started go on a fresh stack, and so on. All waits are resolved when nobody can run: a wave whose live lanes all wait completes
//! the wave operation that comes first in the text; a block whose live threads all wait at the barrier passes it. Some thread can
//! therefore always go on, and a legal kernel never hangs.

use super::block::{active, leave_for, Chunk, Worker};
use super::fiber::{switch, Suspended};
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
    /// First thread not started.
    next: u32,
    /// Threads started or not, but not finished.
    live: u32,
    /// Where each suspended thread continues.
    suspended: Box<[Suspended; MAX_THREADS]>,
    /// Threads that can go on, in order: a ring.
    ready: Box<[u16; MAX_THREADS]>,
    ready_head: u32,
    ready_count: u32,
    /// Threads at the barrier, and how many of them said yes.
    arrived: u32,
    agreed: u32,
    /// What the last barrier came to: threads that passed it, and how many of them said yes.
    passed: (u32, u32),
    /// The wave operation each waiting thread is at.
    sites: Box<[u32; MAX_THREADS]>,
    waves: Box<[Wave; MAX_WAVES]>,
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
        let wave = Wave { live: 0, operating: 0, at_barrier: 0, brought: [0; 64], result };
        Self {
            threads: 0,
            lane_bits: 5,
            next: 0,
            live: 0,
            suspended: Box::new([std::ptr::null_mut(); MAX_THREADS]),
            ready: Box::new([0; MAX_THREADS]),
            ready_head: 0,
            ready_count: 0,
            arrived: 0,
            agreed: 0,
            passed: (0, 0),
            sites: Box::new([0; MAX_THREADS]),
            waves: Box::new([wave; MAX_WAVES]),
        }
    }

    /// Nobody has started. The masks of the waves are set when the first thread has to wait: most blocks never need them.
    fn begin(&mut self, threads: u32) {
        (self.threads, self.next, self.live) = (threads, 0, threads);
    }

    /// The first thread of the block waits.
    fn begin_waiting(&mut self, wave_size: u32) {
        self.lane_bits = wave_size.trailing_zeros();
        (self.ready_head, self.ready_count, self.arrived, self.agreed) = (0, 0, 0, 0);
        for (first, wave) in (0..self.threads).step_by(wave_size as usize).zip(self.waves.iter_mut()) {
            let lanes = (self.threads - first).min(wave_size);
            (wave.live, wave.operating, wave.at_barrier) = (u64::MAX >> (64 - lanes), 0, 0);
        }
    }

    fn wave_and_lane(&self, thread: u32) -> (usize, u64) {
        ((thread >> self.lane_bits) as usize, 1 << (thread & ((1 << self.lane_bits) - 1)))
    }

    fn make_ready(&mut self, thread: u32) {
        self.ready[(self.ready_head + self.ready_count) as usize % MAX_THREADS] = thread as u16;
        self.ready_count += 1;
    }

    fn take_ready(&mut self) -> Option<u32> {
        if self.ready_count == 0 {
            return None;
        }
        let thread = self.ready[self.ready_head as usize];
        self.ready_head = (self.ready_head + 1) % MAX_THREADS as u32;
        self.ready_count -= 1;
        Some(u32::from(thread))
    }

    /// A thread is about to wait: those before it that were not known to have run have run to their end.
    fn note_started(&mut self, thread: u32, wave_size: u32) {
        if thread >= self.next {
            if self.live == self.threads && self.next == 0 {
                self.begin_waiting(wave_size);
            }
            self.finish(self.next..thread);
            self.next = thread + 1;
        }
    }

    fn finish(&mut self, threads: std::ops::Range<u32>) {
        self.live -= threads.end - threads.start;
        for thread in threads {
            let (wave, lane) = self.wave_and_lane(thread);
            self.waves[wave].live &= !lane;
            self.try_complete(wave);
        }
    }

    /// Completes a wave operation once no live lane of the wave can run.
    fn try_complete(&mut self, index: usize) {
        let wave = &mut self.waves[index];
        if wave.operating == 0 || wave.live & !(wave.operating | wave.at_barrier) != 0 {
            return;
        }
        let first_thread = (index << self.lane_bits) as u32;
        let sites = &self.sites[first_thread as usize..];
        // Loop bodies come before what follows them in the text, so the first site is the one the others still have to wait for.
        let Some(first_site) = lanes(wave.operating).map(|lane| sites[lane as usize]).min() else { return };
        let group = lanes(wave.operating).filter(|lane| sites[*lane as usize] == first_site).fold(0u64, |mask, lane| mask | 1 << lane);
        wave.result.active = group;
        wave.result.value = wave.brought;
        wave.operating &= !group;
        for lane in lanes(group) {
            self.make_ready(first_thread + lane);
        }
    }

    /// Lets everyone past the barrier.
    fn pass_barrier(&mut self) {
        self.passed = (self.arrived, self.agreed);
        (self.arrived, self.agreed) = (0, 0);
        for index in 0..(self.threads as usize).div_ceil(1 << self.lane_bits) {
            for lane in lanes(std::mem::take(&mut self.waves[index].at_barrier)) {
                self.make_ready(((index << self.lane_bits) as u32) + lane);
            }
        }
    }
}

/// The positions of the bits of a mask, lowest first.
fn lanes(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lane = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(lane)
    })
}

/// Runs one block on the base fiber.
///
/// # Safety
/// On the base fiber of `worker`, whose `block` is set.
pub(super) unsafe fn run_block(worker: *mut Worker, chunk: &Chunk) {
    // SAFETY: `worker` is this OS thread's own. References to its parts end before anything that may switch.
    unsafe {
        (*worker).meeting.begin(chunk.threads);
        run_unstarted(worker, chunk);
        if (*worker).meeting.live > 0 {
            let next = next_to_run(worker).place(worker);
            switch(&raw mut (*worker).base, next);
        }
    }
}

/// Runs threads not yet started until there are none.
///
/// # Safety
/// On a fiber of `worker`.
unsafe fn run_unstarted(worker: *mut Worker, chunk: &Chunk) {
    // SAFETY: the arguments were packed by this kernel's own table and its module is loaded. `run` may switch, so nothing of the
    // worker is borrowed across it.
    unsafe {
        while (*worker).meeting.next < chunk.threads {
            let first = (*worker).meeting.next;
            let last = if chunk.checked { first + 1 } else { chunk.threads };
            (*worker).current = first;
            (chunk.run)(chunk.arguments, &raw const (*worker).block, first, last);
            let meeting = &mut (*worker).meeting;
            if meeting.next > first {
                // The thread that ran last on this stack had to wait at some point and is done now.
                let finished = (*worker).current;
                meeting.finish(finished..finished + 1);
            } else if first == 0 && last == chunk.threads {
                // Nobody waited: the block is done and no mask was ever set.
                (meeting.next, meeting.live) = (last, 0);
            } else {
                if first == 0 {
                    meeting.begin_waiting((*worker).block.warp_size);
                }
                meeting.finish(first..last);
                meeting.next = last;
            }
        }
    }
}

/// What a fresh fiber does: threads not yet started, then whatever can run.
unsafe extern "C" fn run_fiber() -> ! {
    let worker = active();
    // SAFETY: started by `next_to_run` on this OS thread. The stack goes back to the worker while we stand on it, but nobody can
    // take it before `leave_for` has left it.
    unsafe {
        let stack = (*worker).starting;
        run_unstarted(worker, Worker::chunk(worker));
        let next = next_to_run(worker).place(worker);
        (*worker).stacks.put(stack);
        leave_for(next)
    }
}

/// Who runs next.
enum Next {
    /// A thread that waited.
    Thread(u32),
    /// A fresh fiber, the base, or the way out.
    Place(Suspended),
}

impl Next {
    /// Where that is.
    ///
    /// # Safety
    /// On a fiber of `worker`, which is not the thread named.
    unsafe fn place(self, worker: *mut Worker) -> Suspended {
        match self {
            // SAFETY: this OS thread's own worker.
            Self::Thread(thread) => unsafe { (*worker).meeting.suspended[thread as usize] },
            Self::Place(place) => place,
        }
    }
}

/// Who runs next, when the caller cannot.
///
/// # Safety
/// On a fiber of `worker`; the result is continued at once.
unsafe fn next_to_run(worker: *mut Worker) -> Next {
    // SAFETY: this OS thread's own worker; nothing here switches.
    unsafe {
        let meeting = &mut (*worker).meeting;
        loop {
            if let Some(thread) = meeting.take_ready() {
                return Next::Thread(thread);
            }
            if meeting.next < meeting.threads {
                let Some(stack) = (*worker).stacks.take() else { return Next::Place((*worker).give_up(Cause::NoStack)) };
                (*worker).starting = stack;
                return Next::Place((*worker).stacks.prepare(stack, run_fiber));
            }
            if meeting.live == 0 {
                return Next::Place((*worker).base);
            }
            meeting.pass_barrier();
        }
    }
}

/// Waits until someone continues this thread.
///
/// # Safety
/// On a fiber of `worker`, as `thread`, which has been entered where it waits.
#[inline(always)]
unsafe fn wait(worker: *mut Worker, thread: u32) {
    // SAFETY: the caller's promise; no reference is held across the switch.
    unsafe {
        let next = next_to_run(worker);
        // The last to arrive may be the first to go on, and is not suspended at all then.
        if !matches!(next, Next::Thread(same) if same == thread) {
            let next = next.place(worker);
            switch(&raw mut (*worker).meeting.suspended[thread as usize], next);
        }
        (*worker).current = thread;
    }
}

/// The block's barrier, called by kernels.
pub(super) unsafe extern "C" fn barrier(thread: u32, predicate: c_int, kind: u32) -> c_int {
    let worker = active();
    // SAFETY: kernels call this on a fiber of this OS thread's worker.
    unsafe {
        let wave_size = (*worker).block.warp_size;
        let meeting = &mut (*worker).meeting;
        meeting.note_started(thread, wave_size);
        let (wave, lane) = meeting.wave_and_lane(thread);
        meeting.waves[wave].at_barrier |= lane;
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

/// A wave operation, called by kernels.
pub(super) unsafe extern "C" fn wave(thread: u32, site: u32, value: u64) -> *const WaveResult {
    let worker = active();
    // SAFETY: kernels call this on a fiber of this OS thread's worker.
    unsafe {
        let wave_size = (*worker).block.warp_size;
        let meeting = &mut (*worker).meeting;
        meeting.note_started(thread, wave_size);
        let (wave, lane) = meeting.wave_and_lane(thread);
        let index = lane.trailing_zeros() as usize;
        meeting.sites[thread as usize] = site;
        meeting.waves[wave].brought[index] = value;
        meeting.waves[wave].operating |= lane;
        meeting.try_complete(wave);
        wait(worker, thread);
        &raw const (*worker).meeting.waves[wave].result
    }
}
