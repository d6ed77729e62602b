//! What a host code object and the run side say to each other: the C structs that `include/hip_host.h` mirrors.
//! The two must be changed together, and `ABI` with them; a module of another number is refused when it is loaded.

use std::ffi::{c_char, c_int, c_void};

/// The number both sides compare before anything else is believed.
pub const ABI: u32 = 1;

/// The one symbol a host code object exports.
pub const MODULE_SYMBOL: &std::ffi::CStr = c"hip_host_module";

/// Three extents or coordinates, as HIP's `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dim {
    /// Along the fastest-running axis.
    pub x: u32,
    /// Along the middle axis.
    pub y: u32,
    /// Along the slowest-running axis.
    pub z: u32,
}

/// Everything that is the same for the threads of one block.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Which block of the grid this is.
    pub block_idx: Dim,
    /// Threads of a block.
    pub block_dim: Dim,
    /// Blocks of the grid.
    pub grid_dim: Dim,
    /// Lanes of a wave: 32 or 64.
    pub warp_size: u32,
    /// Bytes behind `dynamic_shared`.
    pub dynamic_shared_bytes: u32,
    /// What `extern __shared__` names; aligned to 16 bytes or more.
    pub dynamic_shared: *mut c_void,
}

/// One entry point of a module.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// The name a launch asks for.
    pub name: *const c_char,
    /// Number of arguments.
    pub arg_count: u32,
    /// Bytes of all arguments, packed with natural alignment.
    pub args_bytes: u32,
    /// Where each argument starts in the packed arguments.
    pub arg_offsets: *const u32,
    /// How many bytes each argument has.
    pub arg_sizes: *const u32,
    /// Runs the threads `first..last` (linear ids) of one block as a plain loop. Returns early, having finished the
    /// current thread, when that thread crossed a barrier or a wave operation.
    pub run: unsafe extern "C" fn(args: *const c_void, block: *const Block, first: u32, last: u32),
}

/// What every lane of a group that met at a wave operation gets to see.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WaveResult {
    /// Bit `l` is set when lane `l` took part.
    pub active: u64,
    /// What each lane brought; only the lanes in `active` are meaningful.
    pub value: [u64; 64],
}

/// How the predicates of a barrier are combined, the `kind` of [`Runtime::barrier`].
#[allow(missing_docs)]
pub mod barrier_kind {
    pub const PLAIN: u32 = 0;
    pub const COUNT: u32 = 1;
    pub const AND: u32 = 2;
    pub const OR: u32 = 3;
}

/// Why a thread gave up, the `kind` of [`Runtime::trap`].
#[allow(missing_docs)]
pub mod trap_kind {
    /// A failed `assert`.
    pub const ASSERT: u32 = 0;
    /// `abort()`, `__trap()` or `__builtin_trap()`.
    pub const ABORT: u32 = 1;
}

/// What a thread tried, the `kind` of [`Runtime::violation`]. Why it was wrong is in the shadow of the bytes.
#[allow(missing_docs)]
pub mod access {
    pub const LOAD: u32 = 0;
    pub const STORE: u32 = 1;
    /// A read-modify-write in one step.
    pub const ATOMIC: u32 = 2;
}

/// Values of a shadow byte in checked mode.
#[allow(missing_docs)]
pub mod shadow {
    /// Not part of any buffer.
    pub const OUTSIDE: u8 = 0;
    /// Allocated, never written.
    pub const FRESH: u8 = 1;
    /// Allocated and written: may be read.
    pub const WRITTEN: u8 = 2;
    /// Was part of a buffer that has been freed.
    pub const FREED: u8 = 3;
}

/// The services a module's kernels call, given to it once by [`Module::bind`]. All are called from inside a kernel, on
/// the OS thread that runs the block; `thread` is the linear thread id.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    /// [`ABI`].
    pub abi: u32,
    /// The block's barrier; returns the combined predicate.
    pub barrier: unsafe extern "C" fn(thread: u32, predicate: c_int, kind: u32) -> c_int,
    /// Deposits `value`, waits for the lanes at the same `site`, returns what all of them brought. The result is read
    /// before the thread calls the runtime again. Sites are numbered in the order of the text.
    pub wave: unsafe extern "C" fn(thread: u32, site: u32, value: u64) -> *const WaveResult,
    /// Ends the block with a message, which is copied before the call's frame is abandoned. Never returns.
    pub trap: unsafe extern "C" fn(thread: u32, kind: u32, message: *const c_char),
    /// Ends the block for a forbidden access of `bytes` bytes at `address` (checked mode). Never returns.
    pub violation: unsafe extern "C" fn(thread: u32, kind: u32, address: *const c_void, bytes: u32),
    /// Nanoseconds of a clock that never goes back.
    pub clock_ns: unsafe extern "C" fn() -> u64,
    /// Checked mode: the shadow byte of address `a` is `shadow[a - arena_base]`.
    pub shadow: *mut u8,
    /// First address that has a shadow.
    pub arena_base: u64,
    /// Addresses that have a shadow; 0 outside checked mode.
    pub arena_bytes: u64,
}

/// The table a module exports under [`MODULE_SYMBOL`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// [`ABI`] of the compiler that made it.
    pub abi: u32,
    /// 1 when its loads and stores are checked against the shadow.
    pub checked: u32,
    /// Entries behind `kernels`.
    pub kernel_count: u32,
    /// The entry points.
    pub kernels: *const Kernel,
    /// Hands the services to the module; called once, before any kernel.
    pub bind: unsafe extern "C" fn(*const Runtime),
}
