//! Kernels: a packet becomes a launch of the emulator, whose blocks run on the queue's thread and, where it is worth it, on helpers.
//! Failures are printed, then told to the runtime as the hardware would.

use crate::abi::event;
use crate::device::DeviceMemory;
use crate::log::{log, say};
use crate::queue::aql::Packet;
use crate::queue::{now, settle_in, signal, Queue};
use crate::report;
use crate::state::State;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};
use vgpu::{Cause, Failure, Launch, Options, Worker};

/// Waking a helper costs some microseconds; less work than this is not worth it.
const WORTH_SHARING: Duration = Duration::from_micros(30);
/// A share of blocks should take about this long.
const SHARE_TIME: Duration = Duration::from_micros(50);
/// Waves of a block take turns after this many instructions, for kernels in which one waits for another.
const TURN: u32 = 1 << 16;

/// Runs a kernel to its end.
pub fn run(queue: &Queue, packet: &Packet) -> Result<(), Failure> {
    let state = queue.state;
    let gpu = &state.gpus[queue.gpu];
    let memory = DeviceMemory::new(state, queue.gpu);
    let launch = Launch::from_packet(gpu.card.arch, &packet.0, gpu.code.clone(), &memory)?;
    log!(2, "queue {}: kernel at {:#x}, blocks {:?}", queue.id, packet.field(32, 8), launch.blocks());
    // The runtime's own copies have the old header; without them nothing could be loaded.
    if !state.config.kernels && !launch.descriptor().legacy {
        return Ok(());
    }
    let options = Options {
        limit: u64::MAX,
        switch_every: TURN,
        strict_local: state.config.strict_local,
        checks: state.config.checks,
        ..Options::default()
    };
    let launch = launch.with_options(options).with_queue(queue.descriptor()).with_stop(queue.stop.clone());
    queue.busy_since.store(now(), Ordering::Relaxed);
    let result = run_grid(state, launch, memory);
    queue.busy_since.store(0, Ordering::Relaxed);
    result
}

/// A launch whose blocks several threads take.
struct Grid {
    launch: Launch,
    memory: DeviceMemory,
    blocks: u64,
    next: AtomicU64,
    share: AtomicU64,
    failed: AtomicBool,
    failure: Mutex<Option<Failure>>,
    helpers: AtomicUsize,
}

impl Grid {
    /// Runs shares of blocks until none is left.
    fn work(&self) {
        WORKER.with_borrow_mut(|worker| {
            while !self.failed.load(Ordering::Relaxed) {
                let share = self.share.load(Ordering::Relaxed);
                let first = self.next.fetch_add(share, Ordering::Relaxed);
                for n in first..self.blocks.min(first.saturating_add(share)) {
                    if let Err(failure) = self.launch.run_block(self.launch.block_at(n), worker, &self.memory) {
                        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
                        self.failed.store(true, Ordering::Relaxed);
                        return;
                    }
                }
                if first >= self.blocks {
                    return;
                }
            }
        });
    }

    /// A thread that worked on it panicked: the launch fails.
    fn broke(&self) {
        let failure = Failure { cause: Cause::Trap, message: BROKEN.to_owned(), place: None };
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.failed.store(true, Ordering::Relaxed);
    }

    fn has_work(&self) -> bool {
        !self.failed.load(Ordering::Relaxed) && self.next.load(Ordering::Relaxed) < self.blocks
    }
}

thread_local! {
    static WORKER: RefCell<Worker> = RefCell::new(Worker::new());
}

fn run_grid(state: &'static State, launch: Launch, memory: DeviceMemory) -> Result<(), Failure> {
    let blocks = launch.block_count();
    if blocks == 0 {
        return Ok(());
    }
    // The first block tells how long one takes.
    let start = Instant::now();
    WORKER.with_borrow_mut(|worker| launch.run_block(launch.block_at(0), worker, &memory))?;
    let time = start.elapsed().max(Duration::from_nanos(50));
    let left = blocks - 1;
    let worth = u32::try_from(left).map_or(true, |left| time.saturating_mul(left) > WORTH_SHARING);
    let helpers = state.config.threads - 1;
    let most = left.div_ceil(4 * state.config.threads as u64).max(1);
    let share = ((SHARE_TIME.as_nanos() / time.as_nanos()) as u64).clamp(1, most);
    let grid = Grid {
        launch,
        memory,
        blocks,
        next: AtomicU64::new(1),
        share: AtomicU64::new(share),
        failed: AtomicBool::new(false),
        failure: Mutex::new(None),
        helpers: AtomicUsize::new(0),
    };
    if helpers == 0 || left == 0 || !worth {
        grid.work();
        return outcome(&grid);
    }
    let grid = Arc::new(grid);
    CREW.share(&grid, helpers);
    grid.work();
    CREW.wait(&grid);
    outcome(&grid)
}

fn outcome(grid: &Grid) -> Result<(), Failure> {
    match grid.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

/// Threads that help with large grids, of all queues.
struct Crew {
    open: Mutex<Vec<Arc<Grid>>>,
    work: Condvar,
    left: Condvar,
    start: Once,
}

static CREW: Crew =
    Crew { open: Mutex::new(Vec::new()), work: Condvar::new(), left: Condvar::new(), start: Once::new() };

impl Crew {
    fn share(&'static self, grid: &Arc<Grid>, helpers: usize) {
        self.start.call_once(|| {
            for _ in 0..helpers {
                // Fewer helpers make grids slower, not wrong.
                let _ = std::thread::Builder::new().name("kfd helper".to_owned()).spawn(|| self.help());
            }
        });
        self.lock().push(grid.clone());
        self.work.notify_all();
    }

    fn wait(&self, grid: &Arc<Grid>) {
        let mut open = self.lock();
        open.retain(|other| !Arc::ptr_eq(other, grid));
        while grid.helpers.load(Ordering::Acquire) > 0 {
            open = self.left.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn help(&self) {
        settle_in();
        let mut open = self.lock();
        loop {
            let Some(grid) = open.iter().find(|grid| grid.has_work()).cloned() else {
                open = self.work.wait(open).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            grid.helpers.fetch_add(1, Ordering::AcqRel);
            drop(open);
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| grid.work())).is_err() {
                grid.broke();
            }
            open = self.lock();
            if grid.helpers.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.left.notify_all();
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Grid>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints why a kernel failed and tells the runtime, which will end the program.
pub fn fail(queue: &Queue, packet: &Packet, mut failure: Failure) {
    let hung = queue.hung.load(Ordering::Relaxed);
    if failure.cause == Cause::Limit && !hung {
        // The queue is being destroyed: nobody waits for this kernel.
        return;
    }
    report::name(packet.field(32, 8), &mut failure);
    let state = queue.state;
    let gpu = &state.gpus[queue.gpu];
    if hung {
        let seconds = state.config.time_limit.unwrap_or_default().as_secs();
        failure.message = format!("{}: it ran for more than {seconds} s (KFD_TIME_LIMIT)", failure.message);
    }
    say!("vgpu: on {}: {failure}", gpu.card.arch);
    let address = failure.place.as_ref().and_then(|place| place.address);
    match failure.cause {
        Cause::Memory | Cause::Jump => {
            let read_only = failure.message.contains("read only");
            state.events.raise(event::MEMORY, memory_payload(gpu.id, address.unwrap_or(0), read_only));
        }
        Cause::Limit => {
            // The whole GPU is reset because of a hang, and its memory is lost.
            let told = state.events.raise(event::HW_EXCEPTION, [0, 0, 1, gpu.id, 0, 0, 0, 0]);
            if !told {
                signal::report_error(queue, QUEUE_TRAP);
            }
        }
        Cause::Instruction | Cause::Launch => signal::report_error(queue, QUEUE_ILLEGAL_INSTRUCTION),
        Cause::Lds | Cause::Misaligned => signal::report_error(queue, QUEUE_APERTURE),
        _ => signal::report_error(queue, QUEUE_TRAP),
    }
}

/// Said where the emulator itself has a fault, which a panic message on standard error describes.
const BROKEN: &str = "the emulator failed while it ran a kernel; this is a fault of the emulator";

/// The thread of a queue panicked: says so, and tells the runtime, which would otherwise wait for ever.
pub fn broke(queue: &Queue) {
    let state = queue.state;
    let gpu = &state.gpus[queue.gpu];
    say!("kfd: on {}: {BROKEN}", gpu.card.arch);
    match queue.is_aql() {
        true => signal::report_error(queue, QUEUE_TRAP),
        false => drop(state.events.raise(event::HW_EXCEPTION, [0, 0, 1, gpu.id, 0, 0, 0, 0])),
    }
}

/// What a queue's signal says when it failed.
const QUEUE_APERTURE: u64 = 0x2000_0000;
const QUEUE_ILLEGAL_INSTRUCTION: u64 = 0x4000_0000;
const QUEUE_TRAP: u64 = 0x8000_0000;

/// What an event of a memory fault says: why, where, and on which GPU.
pub fn memory_payload(gpu_id: u32, address: u64, read_only: bool) -> [u32; 8] {
    let page = address & !0xfff;
    [u32::from(!read_only), u32::from(read_only), 0, 0, page as u32, (page >> 32) as u32, gpu_id, 0]
}
