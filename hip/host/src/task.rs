//! Work of libraries that belong to the embedded device: a matrix product runs in stream order like a kernel, but is Rust code.
//! A task can be captured into a graph and run again and again.

use crate::command::{Address, Command};
use crate::{checked, report, stream};
use hip_abi::{hipError_t, hipStream_t};
use std::sync::Arc;

/// What runs when the stream gets there.
pub(crate) struct Task {
    run: Arc<Work>,
    writes: Vec<(Address, usize)>,
}

/// Work that may fail, with a sentence.
type Work = dyn Fn() -> Result<(), String> + Send + Sync;

impl Task {
    /// Does it, and tells checked mode what was written. A failure is the stream's, like that of a kernel.
    pub fn execute(&self) -> Result<(), hipError_t> {
        if let Err(sentence) = (self.run)() {
            report::keep(sentence);
            return Err(hipError_t::hipErrorLaunchFailure);
        }
        if let Some(arena) = checked::arena() {
            self.writes.iter().for_each(|(address, bytes)| arena.written(address.0 as usize, *bytes));
        }
        Ok(())
    }
}

/// Puts `run` at the end of the stream's queue, or into the graph being captured. `writes` are the ranges of device memory that it
/// fills, for checked mode. Whoever wrote `run` answers for the memory it touches, which must be there until it has run.
pub fn enqueue(stream: hipStream_t, writes: &[(*mut u8, usize)], run: Arc<dyn Fn() + Send + Sync>) -> hipError_t {
    enqueue_fallible(
        stream,
        writes,
        Arc::new(move || {
            run();
            Ok(())
        }),
    )
}

/// As [`enqueue`], for work that may fail: its sentence is kept for [`crate::take_report`], and the stream reports `hipErrorLaunchFailure`
/// to whoever waits for it.
pub fn enqueue_fallible(
    stream: hipStream_t,
    writes: &[(*mut u8, usize)],
    run: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
) -> hipError_t {
    let writes = writes.iter().map(|&(address, bytes)| (Address(address.cast()), bytes)).collect();
    let task = Command::Task(Arc::new(Task { run, writes }));
    match stream::resolve(stream).and_then(|stream| stream.submit(task)) {
        Ok(_) => hipError_t::hipSuccess,
        Err(error) => error,
    }
}
