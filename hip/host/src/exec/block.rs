//! One block at a time on one OS thread: the worker, its chunk of blocks, and what becomes of a block that fails. A chunk runs on a
//! fiber of its own (the base), so that a failing kernel can be left behind wherever it stands.

use super::fiber::{switch, Stacks, Suspended};
use super::meet::Meeting;
use super::pool::Grid;
use crate::device::MAX_SHARED_BYTES;
use crate::module_abi::{Block, Dim};
use crate::report::{self, Cause, Site};
use crate::{device, signal};
use hip_abi::hipError_t;
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// What an OS thread needs to run blocks, kept from one to the next.
pub(crate) struct Worker {
    pub(super) stacks: Stacks,
    pub(super) meeting: Meeting,
    shared: Box<[SharedLine]>,
    /// The chunk being run; null outside.
    chunk: *const Chunk,
    pub(super) block: Block,
    /// Where the OS thread itself continues.
    home: Suspended,
    /// Where the base fiber continues once every thread of the block is done.
    pub(super) base: Suspended,
    /// The stack that a fiber about to start stands on.
    pub(super) starting: u32,
    /// The thread that runs; meaningful after it has met others, and always in checked mode.
    pub(super) current: u32,
    /// Why the block was left behind.
    cause: Option<Cause>,
}

/// What every block of a chunk has in common.
pub(super) struct Chunk {
    pub run: unsafe extern "C" fn(*const std::ffi::c_void, *const Block, u32, u32),
    pub arguments: *const std::ffi::c_void,
    pub threads: u32,
    /// Run threads one by one, so that `current` is always right.
    pub checked: bool,
    blocks: Range<u64>,
}

#[repr(align(256))]
#[derive(Clone, Copy)]
struct SharedLine(#[allow(dead_code)] [u8; 256]);

thread_local! {
    static WORKER: RefCell<Option<Box<Worker>>> = const { RefCell::new(None) };
    /// The worker of this OS thread while it stands on a fiber; null outside of kernels.
    static ACTIVE: Cell<*mut Worker> = const { Cell::new(std::ptr::null_mut()) };
}

/// The worker that runs a kernel on this OS thread right now, or null.
#[inline(always)]
pub(crate) fn active() -> *mut Worker {
    ACTIVE.get()
}

impl Worker {
    /// Lends this OS thread's worker.
    pub fn with<R>(work: impl FnOnce(&mut Worker) -> R) -> R {
        WORKER.with_borrow_mut(|slot| work(slot.get_or_insert_with(|| Box::new(Worker::new()))))
    }

    fn new() -> Self {
        signal::watch_this_thread();
        let none: Suspended = std::ptr::null_mut();
        Self {
            stacks: Stacks::new(),
            meeting: Meeting::new(),
            shared: vec![SharedLine([0; 256]); MAX_SHARED_BYTES as usize / 256].into_boxed_slice(),
            chunk: std::ptr::null(),
            block: Block {
                block_idx: Dim::default(),
                block_dim: Dim::default(),
                grid_dim: Dim::default(),
                warp_size: 32,
                dynamic_shared_bytes: 0,
                dynamic_shared: none.cast(),
            },
            home: none,
            base: none,
            starting: 0,
            current: 0,
            cause: None,
        }
    }

    /// Runs a range of blocks by linear index. The error is that of the first block that failed; those after it are not run.
    pub fn run_blocks(&mut self, grid: &Grid<'_>, blocks: Range<u64>) -> Result<(), hipError_t> {
        let launch = grid.launch;
        let chunk = Chunk {
            run: launch.function.kernel().run,
            arguments: launch.arguments.as_ptr(),
            threads: launch.block.x * launch.block.y * launch.block.z,
            checked: device::is_checked(),
            blocks,
        };
        self.block = Block {
            block_idx: Dim::default(),
            block_dim: launch.block,
            grid_dim: launch.grid,
            warp_size: grid.wave,
            dynamic_shared_bytes: launch.shared_bytes,
            dynamic_shared: self.shared.as_mut_ptr().cast(),
        };
        let Some(stack) = self.stacks.take() else {
            self.cause = Some(Cause::NoStack);
            return Err(self.failed(grid, false));
        };
        let worker: *mut Self = self;
        // SAFETY: `worker` is this thread's own, and until `switch` returns only the code on fibers uses it, through this same
        // pointer. The base fiber's stack is prepared afresh. `chunk` outlives the switch.
        unsafe {
            (*worker).chunk = &raw const chunk;
            (*worker).starting = stack;
            let base = (*worker).stacks.prepare(stack, run_chunk);
            ACTIVE.set(worker);
            switch(&raw mut (*worker).home, base);
            ACTIVE.set(std::ptr::null_mut());
            (*worker).chunk = std::ptr::null();
            if (*worker).cause.is_some() {
                (*worker).stacks.put_all();
                return Err((*worker).failed(grid, chunk.checked));
            }
            (*worker).stacks.put(stack);
        }
        Ok(())
    }

    /// Reports why the block was left behind.
    fn failed(&mut self, grid: &Grid<'_>, thread_known: bool) -> hipError_t {
        let cause = self.cause.take().unwrap_or(Cause::NoStack);
        let known = thread_known || cause.names_thread();
        let site = Site {
            kernel: grid.launch.function.name(),
            block: self.block.block_idx,
            thread: known.then(|| in_block(self.current, self.block.block_dim)),
        };
        report::file(&site, &cause)
    }

    /// Whether an address lies just below one of this worker's stacks.
    pub fn is_stack_guard(&self, address: usize) -> bool {
        self.stacks.is_guard(address)
    }

    /// Notes why the block is left behind and says where to continue.
    pub fn give_up(&mut self, cause: Cause) -> Suspended {
        self.cause = Some(cause);
        self.home
    }

    /// Notes which thread is at fault.
    pub fn blame(&mut self, thread: u32) {
        self.current = thread;
    }
}

/// The coordinates of a linear thread id.
fn in_block(thread: u32, block: Dim) -> Dim {
    Dim { x: thread % block.x, y: thread / block.x % block.y, z: thread / block.x / block.y }
}

/// What the base fiber does: the blocks of the chunk, then home.
unsafe extern "C" fn run_chunk() -> ! {
    let worker = active();
    // SAFETY: the worker of this thread; `chunk` lives on the OS thread's stack, which waits in `run_blocks`.
    unsafe {
        let chunk = &*(*worker).chunk;
        let Dim { x, y, .. } = (*worker).block.grid_dim;
        for linear in chunk.blocks.clone() {
            let row = linear / u64::from(x);
            (*worker).block.block_idx =
                Dim { x: (linear % u64::from(x)) as u32, y: (row % u64::from(y)) as u32, z: (row / u64::from(y)) as u32 };
            super::meet::run_block(worker, chunk);
        }
        leave_for((*worker).home)
    }
}

/// Continues somewhere else and never comes back here.
///
/// # Safety
/// As for [`switch`]; the stack stood on is left as it is.
pub(super) unsafe fn leave_for(to: Suspended) -> ! {
    let mut forgotten: Suspended = std::ptr::null_mut();
    // SAFETY: the caller's promise. Nobody continues `forgotten`, so the abort is never reached.
    unsafe { switch(&raw mut forgotten, to) };
    std::process::abort()
}

impl Worker {
    /// The chunk being run.
    ///
    /// # Safety
    /// `worker` stands on a fiber.
    pub(super) unsafe fn chunk<'a>(worker: *mut Self) -> &'a Chunk {
        // SAFETY: set in `run_blocks` for as long as fibers run.
        unsafe { &*(*worker).chunk }
    }
}
