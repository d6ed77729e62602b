//! One rank's membership in a communicator: the shared memory, what has gone wrong, and how calls get onto a stream.

use super::super::abi::ncclResult_t;
use super::super::limit;
use super::engine;
use super::plan::{plan, Call};
use super::process::Process;
use super::segment::{Segment, State};
use crate::embedded::enqueue_fallible;
use hip_abi::{hipEvent_t, hipStreamCaptureStatus, hipStream_t};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Why something cannot go on.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub code: ncclResult_t,
    pub sentence: String,
}

impl Trouble {
    pub fn new(code: ncclResult_t, sentence: impl Into<String>) -> Self {
        Self { code, sentence: sentence.into() }
    }

    /// The caller's mistake.
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self::new(ncclResult_t::ncclInvalidUsage, sentence)
    }

    /// An argument that cannot be.
    pub fn argument(sentence: impl Into<String>) -> Self {
        Self::new(ncclResult_t::ncclInvalidArgument, sentence)
    }

    /// Another rank's.
    pub fn remote(sentence: impl Into<String>) -> Self {
        Self::new(ncclResult_t::ncclRemoteError, sentence)
    }

    /// A rank did nothing for too long.
    pub fn late(sentence: String) -> Self {
        Self::remote(format!("{sentence}; {} sets the limit", limit::VARIABLE))
    }

    /// Adds what was being done.
    pub fn say_what(&mut self, what: String) {
        self.sentence = format!("{}, in {what}", self.sentence);
    }
}

/// A rank of a communicator.
pub struct Member {
    segment: Segment,
    pub rank: usize,
    pub device: c_int,
    pub limit: Duration,
    /// One list of calls at a time uses the channels.
    running: Mutex<()>,
    trouble: Mutex<Option<Trouble>>,
    aborted: AtomicBool,
    /// The stream of the last call: the next one on another stream comes after it.
    last: Mutex<Option<hipStream_t>>,
}

impl Member {
    pub fn new(segment: Segment, rank: usize, device: c_int, limit: Duration) -> Self {
        let (running, trouble, last) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { segment, rank, device, limit, running, trouble, aborted: AtomicBool::new(false), last }
    }

    pub fn ranks(&self) -> usize {
        self.segment.ranks()
    }

    /// What has gone wrong, since when nothing works any more.
    pub fn trouble(&self) -> Option<Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives up, and lets the other ranks know why.
    pub fn fail(&self, trouble: Trouble) {
        let mut kept = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            self.segment.row(self.rank).fail(&trouble.sentence);
            *kept = Some(trouble);
        }
    }

    /// Ends what is under way, and everything after it.
    pub fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        self.fail(Trouble::usage("its communicator was aborted"));
    }

    /// What is wrong with the ranks that are waited for.
    pub fn trouble_with(&self, awaited: &[usize]) -> Option<Trouble> {
        if self.aborted.load(Ordering::Acquire) {
            return Some(Trouble::usage("the communicator was aborted"));
        }
        awaited.iter().filter(|rank| **rank != self.rank).find_map(|&rank| {
            let (row, name) = (self.segment.row(rank), limit::name_ranks(&[rank], self.ranks()));
            match row.state() {
                State::Failed => Some(Trouble::remote(format!("{name} gave up: {}", row.reason()))),
                State::Left => Some(Trouble::remote(format!("{name} has left the communicator"))),
                State::Present => {
                    let process = Process {
                        pid: row.pid.load(Ordering::Relaxed),
                        started: row.started.load(Ordering::Relaxed),
                        namespace: row.namespace.load(Ordering::Relaxed),
                    };
                    let ended = || Trouble::remote(format!("{name} has ended (process {})", process.pid));
                    process.has_ended().then(ended)
                }
            }
        })
    }

    /// Puts calls at the end of a stream, to be done together.
    pub fn submit(self: &Arc<Self>, stream: hipStream_t, calls: Vec<Call>) -> Result<(), Trouble> {
        if let Some(trouble) = self.trouble() {
            return Err(trouble);
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = last.filter(|before| *before != stream) {
            follow(before, stream)?;
        }
        let writes: Vec<_> =
            calls.iter().map(|call| call.writes(self.ranks(), self.rank)).filter(|(_, bytes)| *bytes > 0).collect();
        let member = self.clone();
        if !enqueue_fallible(stream, &writes, move || member.run(&calls)) {
            return Err(Trouble::new(ncclResult_t::ncclUnhandledCudaError, "the stream does not take the call"));
        }
        *last = Some(stream);
        Ok(())
    }

    /// Does the calls, on the stream's thread.
    fn run(&self, calls: &[Call]) -> Result<(), String> {
        let _alone = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let name = || limit::name_ranks(&[self.rank], self.ranks());
        if let Some(trouble) = self.trouble() {
            return Err(format!("{} has given up before: {}", name(), trouble.sentence));
        }
        let mut steps = Vec::new();
        let planned =
            calls.iter().enumerate().all(|(turn, call)| plan(call, &self.segment, self.rank, turn, &mut steps));
        let done = match planned {
            true => engine::run(self, &mut steps),
            false => Err(Trouble::argument("there is no such reduction")),
        };
        done.map_err(|trouble| {
            let sentence = format!("{}: {}", name(), trouble.sentence);
            self.fail(trouble);
            sentence
        })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.segment.row(self.rank).leave();
    }
}

/// Lets a stream wait for another, as calls of one communicator come one after the other. Within captures, the graph says what comes first.
fn follow(before: hipStream_t, stream: hipStream_t) -> Result<(), Trouble> {
    let hip = hip_host::table();
    let capturing = |stream| {
        let mut status = hipStreamCaptureStatus::hipStreamCaptureStatusNone;
        // SAFETY: the place is ours; a stream that is gone is an error and not a crash.
        let code = unsafe { (hip.hipStreamIsCapturing)(stream, &mut status) };
        !code.is_success() || status != hipStreamCaptureStatus::hipStreamCaptureStatusNone
    };
    if capturing(before) || capturing(stream) {
        return Ok(());
    }
    let mut event = hipEvent_t::NULL;
    // SAFETY: the place is ours, and the event lives until it is destroyed here; what it marks is kept by the stream.
    let ordered = unsafe {
        let mut ordered = (hip.hipEventCreateWithFlags)(&mut event, hip_abi::hipEventDisableTiming);
        if ordered.is_success() {
            ordered = (hip.hipEventRecord)(event, before);
            if ordered.is_success() {
                ordered = (hip.hipStreamWaitEvent)(stream, event, 0);
            }
            (hip.hipEventDestroy)(event);
        }
        ordered
    };
    match ordered.is_success() {
        true => Ok(()),
        false => Err(Trouble::new(
            ncclResult_t::ncclUnhandledCudaError,
            format!("the stream cannot wait for the one that the communicator used before: {ordered}"),
        )),
    }
}
