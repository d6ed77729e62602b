//! Threads that move bytes between pinned memory and a program's own while the thread that asked talks to the runtime. They live
//! for one copy: starting eight costs a fifth of a millisecond, and only copies that take longer ask for them.

use std::sync::{mpsc, Mutex, PoisonError};

/// Threads that copy, beside the one that asks. Measured for 64 MB on a machine with 16 cores: 4 GB/s with one, 12 with four, 16 with eight.
const MOST: usize = 8;

/// The threads as the one that asks sees them: it gives jobs and takes what has become of them, in any order.
pub(crate) struct CopyThreads<'a, Job, Done> {
    jobs: mpsc::Sender<Job>,
    done: mpsc::Receiver<Done>,
    copy: &'a (dyn Fn(Job) -> Done + Sync),
    count: usize,
}

impl<Job, Done> CopyThreads<'_, Job, Done> {
    /// Gives a job to whichever thread is free. Where there are no threads the job is done when this returns.
    pub fn give(&self, job: Job) -> Option<Done> {
        if self.count == 0 {
            return Some((self.copy)(job));
        }
        self.jobs.send(job).err().map(|unsent| (self.copy)(unsent.0))
    }

    /// What has been done since the last time, without waiting.
    pub fn done(&self) -> impl Iterator<Item = Done> + '_ {
        self.done.try_iter()
    }

    /// Waits for a job to be done. Some job must be under way.
    pub fn wait(&self) -> Option<Done> {
        self.done.recv().ok()
    }
}

/// Starts threads that apply `copy` to jobs, runs `drive`, and ends them.
pub(crate) fn with<Job: Send, Done: Send, R>(
    copy: &(dyn Fn(Job) -> Done + Sync),
    drive: impl FnOnce(CopyThreads<'_, Job, Done>) -> R,
) -> R {
    let (jobs, to_do) = mpsc::channel();
    let (finished, done) = mpsc::channel();
    let to_do = Mutex::new(to_do);
    let next = || to_do.lock().unwrap_or_else(PoisonError::into_inner).recv();
    std::thread::scope(|scope| {
        let mut count = 0;
        for _ in 0..thread_count() {
            let finished = finished.clone();
            let work = move || {
                while let Ok(job) = next() {
                    // Who has given the last job does not wait for its answer; it has to be done all the same.
                    let _ = finished.send(copy(job));
                }
            };
            count += usize::from(std::thread::Builder::new().spawn_scoped(scope, work).is_ok());
        }
        // The sender goes with `drive`; the threads do what was given and end.
        drive(CopyThreads { jobs, done, copy, count })
    })
}

/// A thread for each core that is left.
fn thread_count() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() - 1).clamp(1, MOST)
}
