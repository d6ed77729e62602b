//! One block at a time on one OS thread: the worker, its chunk of blocks, and what becomes of a block that fails. Kernels run on a stack
//! of their own (the base, and more when threads wait), so that a failing one can be left behind wherever it stands.

use super::fiber::Stacks;
use super::jump::{switch, Suspended};
use super::meet::{self, Meeting};
use super::order::Order;
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
    pub(super) block: Block,
    shared: Box<[SharedLine]>,
    /// The chunk being run; null outside.
    chunk: *const Chunk,
    /// Where the OS thread itself continues.
    home: Suspended,
    /// Why the block was left behind.
    cause: Option<Cause>,
}

/// What every block of a chunk has in common.
pub(super) struct Chunk {
    pub run: unsafe extern "C" fn(*const std::ffi::c_void, *const Block, u32, u32),
    pub arguments: *const std::ffi::c_void,
    pub threads: u32,
    /// Run threads one by one: in any order, and so that the one at fault is always known.
    pub one_by_one: bool,
    pub order: Order,
    /// Places in the order, of all blocks of the grid.
    blocks: Range<u64>,
    all_blocks: u64,
}

#[repr(align(256))]
#[derive(Clone, Copy)]
struct SharedLine(#[allow(dead_code)] [u8; 256]);

thread_local! {
    static WORKER: RefCell<Option<Box<Worker>>> = const { RefCell::new(None) };
    /// The worker of this OS thread while it runs blocks; null outside.
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
        Self {
            stacks: Stacks::new(),
            meeting: Meeting::new(),
            block: Block {
                block_idx: Dim::default(),
                block_dim: Dim::default(),
                grid_dim: Dim::default(),
                warp_size: 32,
                dynamic_shared_bytes: 0,
                dynamic_shared: std::ptr::null_mut(),
            },
            shared: vec![SharedLine([0; 256]); MAX_SHARED_BYTES as usize / 256].into_boxed_slice(),
            chunk: std::ptr::null(),
            home: std::ptr::null_mut(),
            cause: None,
        }
    }

    /// Runs a range of blocks, places in the grid's order. The error is that of the first block that failed; those after it are not run.
    pub fn run_blocks(&mut self, grid: &Grid<'_>, blocks: Range<u64>) -> Result<(), hipError_t> {
        let launch = grid.launch;
        let Some(kernel) = launch.function.native() else { return Err(hipError_t::hipErrorInvalidImage) };
        let chunk = Chunk {
            run: kernel.run,
            arguments: launch.arguments.as_ptr(),
            threads: launch.block.x * launch.block.y * launch.block.z,
            one_by_one: device::is_checked() || grid.order != Order::Ascending,
            order: grid.order,
            blocks,
            all_blocks: grid.blocks,
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
            return Err(self.failed(grid, &Cause::NoStack, false));
        };
        let worker: *mut Self = self;
        // SAFETY: `worker` is this OS thread's own, and until the switch comes back it is used through this pointer only, by the code
        // on the worker's stacks. `chunk` outlives that.
        unsafe {
            (*worker).chunk = &raw const chunk;
            ACTIVE.set(worker);
            let base = (*worker).stacks.prepare(stack, run_chunk);
            switch(&raw mut (*worker).home, base);
            ACTIVE.set(std::ptr::null_mut());
            (*worker).chunk = std::ptr::null();
        }
        if let Some(cause) = self.cause.take() {
            self.stacks.put_all();
            return Err(self.failed(grid, &cause, chunk.one_by_one));
        }
        self.stacks.put(stack);
        Ok(())
    }

    /// Reports why the block was left behind.
    fn failed(&self, grid: &Grid<'_>, cause: &Cause, one_by_one: bool) -> hipError_t {
        let known = one_by_one || cause.names_thread();
        let Dim { x, y, .. } = self.block.block_dim;
        let thread = self.meeting.current();
        let site = Site {
            kernel: grid.launch.function.name(),
            order: grid.order,
            block: self.block.block_idx,
            thread: known.then(|| Dim { x: thread % x, y: thread / x % y, z: thread / x / y }),
        };
        report::file(&site, cause)
    }

    /// Whether an address lies just below one of this worker's stacks.
    pub fn is_stack_guard(&self, address: usize) -> bool {
        self.stacks.is_guard(address)
    }

    /// Notes why the block is left behind, and whose fault it is where that is known, and says where to continue.
    pub fn give_up(&mut self, thread: Option<u32>, cause: Cause) -> Suspended {
        if let Some(thread) = thread {
            self.meeting.blame(thread);
        }
        self.cause = Some(cause);
        self.home
    }
}

/// What happens on the base: the blocks of the chunk, then home.
unsafe extern "C" fn run_chunk() -> Suspended {
    let worker = active();
    // SAFETY: the worker of this OS thread; `chunk` lives on the OS thread's stack, which waits in `run_blocks`.
    unsafe {
        let chunk = &*(*worker).chunk;
        let Dim { x, y, .. } = (*worker).block.grid_dim;
        let (x, y) = (u64::from(x), u64::from(y));
        for place in chunk.blocks.clone() {
            let linear = chunk.order.at(place, chunk.all_blocks);
            let row = linear / x;
            (*worker).block.block_idx = Dim { x: (linear % x) as u32, y: (row % y) as u32, z: (row / y) as u32 };
            meet::run_block(worker, chunk, chunk.order.derived(linear));
        }
        (*worker).home
    }
}

impl Worker {
    /// The chunk being run.
    ///
    /// # Safety
    /// A chunk is being run.
    pub(super) unsafe fn chunk<'a>(worker: *mut Self) -> &'a Chunk {
        // SAFETY: set in `run_blocks` for as long as that waits.
        unsafe { &*(*worker).chunk }
    }
}
