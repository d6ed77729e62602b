//! The conformance suite: what a platform must do, written once against this crate and run on any platform by name. Whoever
//! brings up a platform runs it first; the embedded device passes it with waves of 32 and of 64.
//!
//! ```no_run
//! let platform = hip::Platform::detect()?;
//! for case in hip::conformance::CASES {
//!     let outcome = hip::conformance::run(case, &platform.device(0)?);
//!     println!("{}: {outcome:?}", case.name);
//! }
//! # Ok::<(), hip::Error>(())
//! ```
//!
//! A case is a function that uses a device and asserts; a case that needs a second device says so where there is none.

mod atomics;
mod copies;
mod geometry;
mod graphs;
mod modules;
mod pools;
mod shared_memory;
mod streams;
mod threads;
mod two_devices;
mod waves;

use crate::{Compiler, Device, DeviceCopy, Function, KernelArgs, LaunchConfig, Module, Program, Result, Stream};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

/// One behaviour that every platform must have.
#[derive(Clone, Copy)]
pub struct Case {
    /// What it is about.
    pub name: &'static str,
    test: fn(&Bench) -> Result<Done>,
}

/// How a case ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The platform behaves.
    Passed,
    /// The case could not be tried here, and why.
    NotHere(&'static str),
}

macro_rules! cases {
    ($($file:ident: $($case:ident),* $(,)?;)*) => {
        /// Every case, in the order in which they build on each other.
        pub const CASES: &[Case] = &[$($(Case { name: concat!(stringify!($file), "::", stringify!($case)), test: $file::$case }),*),*];
    };
}

cases! {
    copies: round_trips, between_streams, rows, pinned_memory, fills, small_uploads_outrun_the_device, files_are_read_in,
        reading_a_file_outruns_the_device, refused_copies;
    geometry: arguments_by_value, three_dimensions, blocks_of_1024, a_million_blocks, launch_errors;
    shared_memory: dynamic, two_types_at_once, tree_reduction, uneven_loops, early_exits, votes;
    waves: wave_size, shuffles, ballots, reductions;
    atomics: words, halves, in_shared_memory;
    streams: work_is_asynchronous, events_order_streams, a_missing_wait_is_visible, events_tell_time;
    graphs: replay_with_changed_inputs, memory_of_a_capture, forks_and_joins, what_a_capture_refuses, a_failed_capture_is_forgotten;
    modules: load_and_unload, globals, bad_images, unknown_kernels, kernels_tell_about_themselves, compile_errors_carry_the_log;
    pools: steady_state, growing_context, out_of_memory, keep_limit;
    threads: eight_threads_share_a_device, eight_threads_share_a_stream, a_capture_beside_other_threads;
    two_devices: copies_between_devices, kernels_stay_on_their_device;
}

/// Runs a case on a device. A failed assertion or an error comes back as text.
pub fn run(case: &Case, device: &Device) -> Result<Done, String> {
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| (case.test)(&Bench::new(device)?)));
    match outcome {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "it panicked".to_owned())),
    }
}

/// What a case works with: a device, a stream, and the suite's kernels loaded.
struct Bench {
    device: Device,
    stream: Stream,
    module: Module,
}

/// A module of what the platform's compiler has made, or of bytes that are no code object.
fn load(device: &Device, image: Vec<u8>) -> Result<Module> {
    // SAFETY: a compiler made it, or it is refused.
    unsafe { Module::load(device, image) }
}

impl Bench {
    fn new(device: &Device) -> Result<Self> {
        let module = load(device, compiled(device, "kernels.hip", include_str!("kernels.hip"))?.to_vec())?;
        Ok(Self { device: device.clone(), stream: device.new_stream()?, module })
    }

    fn kernel(&self, name: &str) -> Result<Function> {
        self.module.function(name)
    }

    /// Launches a kernel of the suite on the bench's stream.
    fn launch(&self, name: &str, config: LaunchConfig, args: &impl KernelArgs) -> Result<()> {
        self.launch_on(&self.stream, name, config, args)
    }

    fn launch_on(&self, stream: &Stream, name: &str, config: LaunchConfig, args: &impl KernelArgs) -> Result<()> {
        // SAFETY: the cases pass what the kernels in kernels.hip take, and keep it until it has run.
        unsafe { self.kernel(name)?.launch(stream, config, args) }
    }

    fn upload<T: DeviceCopy>(&self, data: &[T]) -> Result<crate::Buffer<T>> {
        self.stream.upload(data)
    }
}

/// Long enough that whoever does not wait for it is seen, on any clock between 100 MHz and 3 GHz.
const LONG_TICKS: i64 = 100_000_000;

/// A kernel that waits longer than this for another stream gives up, so that a failure does not hang.
const PATIENCE_TICKS: i64 = 300 * LONG_TICKS;

/// The code object of a source for a device's architecture, compiled once a process.
fn compiled(device: &Device, name: &str, source: &str) -> Result<Arc<[u8]>> {
    type Key = (&'static str, String, String);
    static CACHE: Mutex<Option<HashMap<Key, Arc<[u8]>>>> = Mutex::new(None);
    let key = (device.platform().name(), device.arch().to_owned(), source.to_owned());
    // Held while compiling: the others wait for the one compilation instead of starting their own.
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = cache.get_or_insert_default();
    if let Some(code) = cache.get(&key) {
        return Ok(code.clone());
    }
    let code = Compiler::new(device.platform())?.compile(&Program::new(name, source).for_device(device))?;
    Ok(cache.entry(key).or_insert(code.into()).clone())
}
