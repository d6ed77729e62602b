//! The threads that run blocks, shared by all streams and devices. A dispatcher runs its grid's blocks itself; the pool's threads
//! help when there is enough to do. Blocks are handed out in chunks from one counter, so that uneven blocks even out.

use super::block::Worker;
#[cfg(feature = "emulator")]
use super::emulated::Emulated;
use super::order::Order;
use crate::command::Launch;
use crate::config;
use crate::module_abi::Dim;
use hip_abi::hipError_t;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Nothing is emulated without the feature.
#[cfg(not(feature = "emulator"))]
pub(crate) enum Emulated {}

/// Waking a helper costs about 5 us of its time and ours; less work than this is not worth it.
const WORTH_SHARING: Duration = Duration::from_micros(20);
/// A chunk should take about this long: long enough that the counter is no bottleneck, short enough that blocks spread evenly.
const CHUNK_TIME: Duration = Duration::from_micros(50);

/// A launch being executed.
pub(crate) struct Grid<'a> {
    pub launch: &'a Launch,
    pub wave: u32,
    pub order: Order,
    pub blocks: u64,
    next: AtomicU64,
    chunk: AtomicU64,
    /// No chunk is larger, so that every thread gets several.
    chunk_limit: u64,
    /// The first failure; once set, no further block is started.
    failure: AtomicU32,
    /// Set for AMD's machine code.
    emulated: Option<&'a Emulated>,
}

impl<'a> Grid<'a> {
    pub fn new(launch: &'a Launch, wave: u32, order: Order, emulated: Option<&'a Emulated>) -> Self {
        let Dim { x, y, z } = launch.grid;
        let blocks = u64::from(x) * u64::from(y) * u64::from(z);
        Self {
            launch,
            wave,
            order,
            blocks,
            next: AtomicU64::new(0),
            chunk: AtomicU64::new(1),
            chunk_limit: blocks.div_ceil(threads() as u64 * 4),
            failure: AtomicU32::new(0),
            emulated,
        }
    }

    /// The next blocks to run, until there are none or one has failed.
    fn take(&self) -> Option<Range<u64>> {
        if self.failure.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let chunk = self.chunk.load(Ordering::Relaxed);
        let first = self.next.fetch_add(chunk, Ordering::Relaxed);
        (first < self.blocks).then(|| first..self.blocks.min(first + chunk))
    }

    /// Runs a range of blocks on this thread.
    fn run_blocks(&self, worker: &mut Worker, blocks: Range<u64>) -> Result<(), hipError_t> {
        match self.emulated {
            #[cfg(feature = "emulator")]
            Some(emulated) => emulated.run_blocks(blocks, self.blocks, self.order),
            #[cfg(not(feature = "emulator"))]
            Some(never) => match *never {},
            None => worker.run_blocks(self, blocks),
        }
    }

    fn run_chunks(&self, worker: &mut Worker) {
        let mut start = Instant::now();
        while let Some(blocks) = self.take() {
            let count = blocks.end - blocks.start;
            if let Err(failure) = self.run_blocks(worker, blocks) {
                let _ = self.failure.compare_exchange(0, failure.0, Ordering::AcqRel, Ordering::Relaxed);
            }
            let now = Instant::now();
            self.adjust_chunk(count, now - start);
            start = now;
        }
    }

    /// The first block is a poor witness when it had to fault its memory in, so chunks grow and shrink as they go.
    fn adjust_chunk(&self, count: u64, time: Duration) {
        if time < CHUNK_TIME / 2 {
            self.chunk.fetch_max((count * 2).min(self.chunk_limit), Ordering::Relaxed);
        } else if time > CHUNK_TIME * 4 {
            self.chunk.fetch_min((count / 2).max(1), Ordering::Relaxed);
        }
    }

    fn outcome(&self) -> Result<(), hipError_t> {
        match hipError_t(self.failure.load(Ordering::Acquire)) {
            hipError_t::hipSuccess => Ok(()),
            failure => Err(failure),
        }
    }
}

/// Runs every block of the grid, here and with the pool's help.
pub(crate) fn run_grid(grid: &Grid<'_>) -> Result<(), hipError_t> {
    Worker::with(|worker| {
        // The first block alone tells how long one takes, and so whether help is worth its wake-up.
        let start = Instant::now();
        if let Some(blocks) = grid.take() {
            grid.run_blocks(worker, blocks)?;
        }
        let left = grid.blocks - 1;
        if left == 0 {
            return Ok(());
        }
        let block_time = start.elapsed().max(Duration::from_nanos(20));
        let by_time = (CHUNK_TIME.as_nanos() / block_time.as_nanos()) as u64;
        let chunk = by_time.clamp(1, grid.chunk_limit);
        grid.chunk.store(chunk, Ordering::Relaxed);
        let worth =
            block_time.checked_mul(u32::try_from(left).unwrap_or(u32::MAX)).is_none_or(|time| time > WORTH_SHARING);
        let helpers = threads() - 1;
        if helpers > 0 && worth {
            let useful = usize::try_from(left.div_ceil(chunk)).map_or(helpers, |chunks| chunks.min(helpers));
            let shared = pool(helpers).share(grid, useful);
            grid.run_chunks(worker);
            drop(shared);
        } else {
            grid.run_chunks(worker);
        }
        grid.outcome()
    })
}

/// Threads that run blocks, the dispatcher included.
fn threads() -> usize {
    config::options().map_or(1, |options| options.threads)
}

/// The helpers and the grids they may help with.
struct Pool {
    open: Mutex<Vec<Open>>,
    work: Condvar,
    left: Condvar,
}

/// A grid that helpers may join, and how many have.
struct Open {
    grid: *const Grid<'static>,
    helpers: usize,
}

// SAFETY: the pointer is followed only by helpers counted in `helpers`, and `Shared` keeps the grid alive until that is 0.
unsafe impl Send for Open {}

/// Helpers may join the grid while this lives; dropping it waits for those who did.
struct Shared<'a> {
    pool: &'static Pool,
    grid: &'a Grid<'a>,
}

fn pool(helpers: usize) -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    static START: OnceLock<()> = OnceLock::new();
    let pool = POOL.get_or_init(|| Pool { open: Mutex::default(), work: Condvar::new(), left: Condvar::new() });
    START.get_or_init(|| {
        for _ in 0..helpers {
            let thread = std::thread::Builder::new().name("hip-host worker".to_owned());
            if let Err(why) = thread.spawn(|| pool.help()) {
                // Fewer helpers make grids slower, not wrong: the dispatcher runs whatever no helper takes.
                log::warn!("the embedded device runs with fewer threads than asked for: {why}");
                break;
            }
        }
    });
    pool
}

impl Pool {
    fn share<'a>(&'static self, grid: &'a Grid<'a>, useful: usize) -> Shared<'a> {
        let open = Open { grid: std::ptr::from_ref(grid).cast(), helpers: 0 };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push(open);
        (0..useful).for_each(|_| self.work.notify_one());
        Shared { pool: self, grid }
    }

    /// The life of a helper.
    fn help(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // SAFETY: an open grid is alive, because `Shared` takes it off the list under this lock before it ends.
            let has_work = |open: &Open| unsafe { (*open.grid).has_work() };
            let Some(found) = open.iter_mut().find(|open| has_work(open)) else {
                open = self.work.wait(open).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            found.helpers += 1;
            let grid = found.grid;
            drop(open);
            // SAFETY: this helper is counted, so `Shared` waits for it.
            Worker::with(|worker| unsafe { (*grid).run_chunks(worker) });
            open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(joined) = open.iter_mut().find(|open| std::ptr::eq(open.grid, grid)) {
                joined.helpers -= 1;
                if joined.helpers == 0 {
                    self.left.notify_all();
                }
            }
        }
    }
}

impl Grid<'_> {
    fn has_work(&self) -> bool {
        self.failure.load(Ordering::Relaxed) == 0 && self.next.load(Ordering::Relaxed) < self.blocks
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        let mine = |open: &Open| std::ptr::eq(open.grid, std::ptr::from_ref(self.grid).cast());
        let mut open = self.pool.open.lock().unwrap_or_else(PoisonError::into_inner);
        while open.iter().any(|open| mine(open) && open.helpers > 0) {
            open = self.pool.left.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
        open.retain(|open| !mine(open));
    }
}
