//! Launches. A burst of them is written into a queue, from which one thread hands them to the driver; every other call of HIP waits
//! until the queue is empty, so that nobody can tell but by the clock. What cannot wait in the queue, or would be
//! refused, goes to the driver at once.

use crate::calls::calls;
use crate::context::{self, current, Driver};
use crate::driver::{CUlaunchAttribute, CUlaunchConfig};
use crate::kernel::{Argument, Kernel};
use crate::queue::Queue;
use crate::status::CUresult;
use hip_abi::*;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

/// Launches that can wait. As many again are with the driver, which takes about a thousand before it makes its caller wait.
const PLACES: usize = 1024;

/// Bytes of arguments, and arguments, that a place has room for.
const ROOM: usize = 880;
const ARGUMENTS: usize = 32;

/// The least cores with which a thread for launches helps. With fewer it would take one from those who ask.
const CORES: usize = 3;

/// Where and how wide a kernel is launched.
#[derive(Clone, Copy)]
struct Geometry {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: hipStream_t,
}

/// A launch that waits, with its arguments by value.
#[repr(align(64))]
struct Waiting {
    kernel: *const Kernel,
    device: usize,
    geometry: Geometry,
    arguments: [u8; ROOM],
}

// SAFETY: the driver's handles may be used by every thread, and the kernel outlives the launch: its module is unloaded after the queue
// has been drained.
unsafe impl Send for Waiting {}

impl Default for Waiting {
    fn default() -> Self {
        let geometry = Geometry { grid: [0; 3], block: [0; 3], shared_bytes: 0, stream: hipStream_t::NULL };
        Self { kernel: std::ptr::null(), device: 0, geometry, arguments: [0; ROOM] }
    }
}

/// Whether each launch is to be over before the next: AMD's variable, and the driver's own.
static BLOCKING: LazyLock<bool> =
    LazyLock::new(|| is_set("HIP_LAUNCH_BLOCKING", "1") || is_set("CUDA_LAUNCH_BLOCKING", "1"));

fn is_set(name: &str, value: &str) -> bool {
    std::env::var_os(name).is_some_and(|set| set == value)
}

/// The queue, once there is something for it; `None` where launches do not wait: with `HIP_CUDA_QUEUE=0`, where each is to be over
/// before the next, and on machines with few cores unless `HIP_CUDA_QUEUE=1`.
static QUEUE: OnceLock<Option<Queue<Waiting>>> = OnceLock::new();

/// The streams in capture, and how many these are. Then nothing waits: what is recorded may depend on the thread that launches.
static CAPTURED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static CAPTURES: AtomicUsize = AtomicUsize::new(0);

/// What the driver said to the first launch from the queue that it refused, until somebody has been told.
static REFUSED: AtomicU32 = AtomicU32::new(0);

fn queue() -> Option<&'static Queue<Waiting>> {
    let made = QUEUE.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let unwanted = is_set("HIP_CUDA_QUEUE", "0") || *BLOCKING;
        if unwanted || (cores < CORES && !is_set("HIP_CUDA_QUEUE", "1")) {
            return None;
        }
        // Registered behind the driver's own, and so called before: no launch meets a driver that is gone.
        // SAFETY: the function can be called at any time.
        let registered = unsafe { atexit(close) } == 0;
        registered.then(|| Queue::new(PLACES, serve))
    });
    made.as_ref()
}

extern "C" {
    fn atexit(function: extern "C" fn()) -> c_int;
}

extern "C" fn close() {
    if let Some(Some(queue)) = QUEUE.get() {
        queue.close();
    }
}

/// Waits until the driver has every launch asked for so far.
#[inline]
pub(crate) fn drain() {
    if let Some(Some(queue)) = QUEUE.get() {
        queue.drain();
    }
}

/// What became of launches from the queue. Told once, to those who wait for results or launch more.
#[inline]
pub(crate) fn outcome() -> Result<(), hipError_t> {
    match REFUSED.load(Ordering::Relaxed) {
        0 => Ok(()),
        _ => CUresult(REFUSED.swap(0, Ordering::Relaxed)).check(),
    }
}

/// Remembers that a capture of the stream has begun.
pub(crate) fn capture_begins(stream: hipStream_t) {
    let mut streams = CAPTURED.lock().unwrap_or_else(PoisonError::into_inner);
    streams.push(stream.0.addr());
    CAPTURES.store(streams.len(), Ordering::Relaxed);
}

/// Forgets the capture of the stream, if there was one.
pub(crate) fn capture_is_over(stream: hipStream_t) {
    let mut streams = CAPTURED.lock().unwrap_or_else(PoisonError::into_inner);
    streams.retain(|&captured| captured != stream.0.addr());
    CAPTURES.store(streams.len(), Ordering::Relaxed);
}

/// Hands a launch from the queue to the driver.
fn serve(launch: &Waiting) {
    // SAFETY: whoever filled the place left a kernel whose module is loaded until this is done.
    let kernel = unsafe { &*launch.kernel };
    let mut pointers = [null_mut(); ARGUMENTS];
    let places = kernel.arguments.as_deref().unwrap_or_default();
    for (pointer, place) in pointers.iter_mut().zip(places) {
        *pointer = launch.arguments[place.offset..].as_ptr().cast_mut().cast();
    }
    let launched = context::any().and_then(|driver| {
        driver.enter(launch.device)?;
        // SAFETY: the arguments are the kernel's, copied from the caller's; the driver reads them and writes nothing.
        Ok(unsafe { submit(driver, kernel, launch.geometry, pointers.as_mut_ptr(), null_mut()) })
    });
    let code = launched.unwrap_or(CUresult::CUDA_ERROR_INVALID_CONTEXT).0;
    if code != 0 {
        let _told_already = REFUSED.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The driver's own call.
///
/// # Safety
/// The thread is in the kernel's context, and the arguments, listed or packed, are the kernel's.
unsafe fn submit(
    driver: &Driver,
    kernel: &Kernel,
    geometry: Geometry,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    let Geometry { grid, block, shared_bytes, stream } = geometry;
    match driver.cuda.cuLaunchKernelEx {
        Some(launch) if kernel.waits_by_itself => {
            let attributes = &CUlaunchAttribute::WAITS_BY_ITSELF;
            let config = CUlaunchConfig { grid, block, shared_bytes, stream, attributes, attribute_count: 1 };
            // SAFETY: as the caller promises; the configuration is ours.
            unsafe { launch(&config, kernel.function, params, extra) }
        }
        // SAFETY: as the caller promises.
        _ => unsafe {
            (driver.cuda.cuLaunchKernel)(
                kernel.function,
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                shared_bytes,
                stream,
                params,
                extra,
            )
        },
    }
}

/// Whether the launch may wait: it fits into a place, and the driver will not refuse it. The limits are those of all devices since
/// Kepler.
fn may_wait(kernel: &Kernel, geometry: &Geometry) -> bool {
    let fits = |sides: [c_uint; 3], limits: [c_uint; 3]| {
        sides.iter().zip(limits).all(|(side, limit)| (1..=limit).contains(side))
    };
    let ends = kernel.arguments.as_deref().map(|arguments| match arguments.last() {
        Some(Argument { offset, size }) => (arguments.len(), offset + size),
        None => (0, 0),
    });
    ends.is_some_and(|(count, bytes)| count <= ARGUMENTS && bytes <= ROOM)
        && fits(geometry.grid, [i32::MAX as c_uint, 65_535, 65_535])
        && fits(geometry.block, [1024, 1024, 64])
        && geometry.block.iter().product::<c_uint>() <= kernel.threads
        && CAPTURES.load(Ordering::Relaxed) == 0
}

/// Writes a launch into the queue. False where that is not the way for it.
///
/// # Safety
/// `params` points to a pointer for each of the kernel's arguments.
#[inline]
unsafe fn enqueue(kernel: &Kernel, geometry: Geometry, params: *mut *mut c_void) -> bool {
    let Some(mut place) = queue().filter(|_| may_wait(kernel, &geometry)).and_then(Queue::place) else { return false };
    for (index, Argument { offset, size }) in kernel.arguments.iter().flatten().enumerate() {
        // SAFETY: as the caller promises; the last argument ends within the place.
        unsafe {
            let argument = params.add(index).read().cast::<u8>();
            argument.copy_to_nonoverlapping(place.arguments[*offset..].as_mut_ptr(), *size);
        }
    }
    (place.kernel, place.device, place.geometry) = (kernel, current(), geometry);
    true
}

/// Whether grid and block are within what every launch on the device must keep to. Asked only after a launch failed, to
/// say so by the code HIP has for it; the driver calls everything an invalid value.
fn fits(driver: &Driver, grid: [c_uint; 3], block: [c_uint; 3]) -> bool {
    let limit = |attribute| driver.attribute(attribute, current() as c_int).map_or(u64::MAX, |limit| limit as u64);
    let threads: u64 = block.iter().map(|side| u64::from(*side)).product();
    let sides = block.into_iter().chain(grid).map(u64::from);
    threads <= limit(1) && sides.zip(2..).all(|(side, attribute)| side > 0 && side <= limit(attribute))
}

/// HIP's list of packed arguments as CUDA's: the same keys but for the end.
///
/// # Safety
/// `extra` ends with `HIP_LAUNCH_PARAM_END`, and each key before it is followed by its value.
unsafe fn packed(extra: *mut *mut c_void) -> Result<[*mut c_void; 5], hipError_t> {
    let (mut buffer, mut size) = (null_mut(), null_mut());
    for pair in 0.. {
        // SAFETY: reading stops at the end marker, which the caller promises.
        let key = unsafe { extra.add(2 * pair).read() };
        if key == HIP_LAUNCH_PARAM_END {
            break;
        }
        // SAFETY: a key that is not the end has a value after it.
        let value = unsafe { extra.add(2 * pair + 1).read() };
        match key {
            HIP_LAUNCH_PARAM_BUFFER_POINTER => buffer = value,
            HIP_LAUNCH_PARAM_BUFFER_SIZE => size = value,
            _ => return Err(hipError_t::hipErrorInvalidValue),
        }
    }
    // CU_LAUNCH_PARAM_END is null.
    Ok([HIP_LAUNCH_PARAM_BUFFER_POINTER, buffer, HIP_LAUNCH_PARAM_BUFFER_SIZE, size, null_mut()])
}

calls! {
    ahead fn hipModuleLaunchKernel(
        function: hipFunction_t,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: hipStream_t,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) |driver| {
        let kernel = Kernel::of(function)?;
        outcome()?;
        kernel.allow_shared(driver, shared_bytes as usize)?;
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let geometry = Geometry { grid, block, shared_bytes, stream };
        if extra.is_null() && enqueue(kernel, geometry, params) {
            return Ok(());
        }
        drain();
        let mut buffer = if extra.is_null() { [null_mut(); 5] } else { packed(extra)? };
        let extra = if extra.is_null() { extra } else { buffer.as_mut_ptr() };
        match submit(driver, kernel, geometry, params, extra).check() {
            Err(hipError_t::hipErrorInvalidValue) if !fits(driver, grid, block) =>
                return Err(hipError_t::hipErrorInvalidConfiguration),
            outcome => outcome?,
        }
        if *BLOCKING && CAPTURES.load(Ordering::Relaxed) == 0 {
            (driver.cuda.cuStreamSynchronize)(stream).check()?;
        }
        Ok(())
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_arguments_end_the_way_cuda_wants_it() {
        let (mut bytes, mut size) = ([0u8; 4], 4usize);
        let (buffer, length) = ((&raw mut bytes).cast::<c_void>(), (&raw mut size).cast::<c_void>());
        let mut extra =
            [HIP_LAUNCH_PARAM_BUFFER_SIZE, length, HIP_LAUNCH_PARAM_BUFFER_POINTER, buffer, HIP_LAUNCH_PARAM_END];
        // SAFETY: the list ends with its marker.
        let cuda = unsafe { packed(extra.as_mut_ptr()) };
        let expected = [HIP_LAUNCH_PARAM_BUFFER_POINTER, buffer, HIP_LAUNCH_PARAM_BUFFER_SIZE, length, null_mut()];
        assert_eq!(cuda, Ok(expected));
        extra[0] = std::ptr::without_provenance_mut(77);
        // SAFETY: the list ends with its marker.
        assert_eq!(unsafe { packed(extra.as_mut_ptr()) }, Err(hipError_t::hipErrorInvalidValue));
    }
}
