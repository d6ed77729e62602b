//! Work that is the same for many things, on all cores. Compiling modules is all that needs it, in the build script too.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `work` for every job, in order, on `threads` threads at once. After a failure no further job is begun, and the
/// first failure is returned.
pub fn for_each<T: Sync, E: Send>(
    jobs: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let worker = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = work(job) {
                next.store(jobs.len(), Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.clamp(1, jobs.len().max(1))).map(|_| scope.spawn(worker)).collect();
        let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        outcomes.into_iter().try_for_each(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// As many threads as there are cores.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn every_job_is_done_once_and_a_failure_ends_it() {
        let done = Mutex::new(Vec::new());
        let jobs: Vec<u32> = (0..100).collect();
        let note = |&job: &u32| {
            done.lock().unwrap().push(job);
            Ok::<_, u32>(())
        };
        assert_eq!(for_each(&jobs, 4, note), Ok(()));
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        assert_eq!(done, jobs);
        assert_eq!(for_each(&jobs, 1, |&job| if job == 7 { Err(job) } else { Ok(()) }), Err(7));
        assert_eq!(for_each(&[], 3, |_: &u8| Err("never called")), Ok(()));
    }
}
