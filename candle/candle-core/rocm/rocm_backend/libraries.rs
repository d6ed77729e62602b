//! AMD's math libraries for a stream. Each is looked for when it is first needed. Where one is missing, our own kernels do the
//! same work; where one is there and does not start, they do until it does: it is tried again when memory came back.

use hip::{Result, Stream};
use rocm_libraries::blas::Blas;
#[cfg(feature = "miopen")]
use rocm_libraries::miopen::Miopen;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The libraries of one stream.
#[derive(Default)]
pub(super) struct Libraries {
    blas: Library<Blas>,
    #[cfg(feature = "miopen")]
    miopen: Library<Miopen>,
}

impl Libraries {
    /// Starts all of them, where they can be had.
    pub(super) fn start(&self, stream: &Stream) {
        self.blas(stream);
        #[cfg(feature = "miopen")]
        self.miopen(stream);
    }

    /// rocBLAS.
    pub(super) fn blas(&self, stream: &Stream) -> Option<&Blas> {
        self.blas.get(stream, "rocBLAS", Blas::new)
    }

    /// MIOpen.
    #[cfg(feature = "miopen")]
    pub(super) fn miopen(&self, stream: &Stream) -> Option<&Miopen> {
        self.miopen.get(stream, "MIOpen", Miopen::new)
    }
}

/// One library: started, or not to be had, or to be tried again.
struct Library<T> {
    started: OnceLock<T>,
    state: Mutex<State>,
}

impl<T> Default for Library<T> {
    fn default() -> Self {
        Self { started: OnceLock::new(), state: Mutex::new(State::Untried) }
    }
}

#[derive(Clone, Copy)]
enum State {
    Untried,
    /// It is not installed, or has no kernels for the device. That does not change while a program runs.
    Absent,
    Failed(Failure),
}

/// A start that failed.
#[derive(Clone, Copy)]
struct Failure {
    when: Instant,
    /// How long to wait where nothing was freed here: another process may have freed something.
    wait: Duration,
    /// What this program's buffers used on the device then.
    live_bytes: usize,
}

const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl<T> Library<T> {
    /// The library, if it can be had now. On failure, warns and lets our own kernels do the work.
    fn get(&self, stream: &Stream, name: &str, start: impl FnOnce(&Stream) -> Result<Option<T>>) -> Option<&T> {
        if let Some(library) = self.started.get() {
            return Some(library);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = self.started.get() {
            return Some(library);
        }
        let live_bytes = stream.device().pool_stats().live_bytes;
        let before = match *state {
            State::Untried => None,
            State::Absent => return None,
            State::Failed(failure) if live_bytes >= failure.live_bytes && failure.when.elapsed() < failure.wait => {
                return None;
            }
            State::Failed(failure) => Some(failure),
        };
        // A failed start inside a capture would be part of it.
        if stream.is_capturing() {
            return None;
        }
        match start(stream) {
            Ok(Some(library)) => return Some(self.started.get_or_init(|| library)),
            Ok(None) => *state = State::Absent,
            Err(error) => {
                let wait = before.map_or(FIRST_WAIT, |failure| (failure.wait * 2).min(LONGEST_WAIT));
                *state = State::Failed(Failure { when: Instant::now(), wait, live_bytes });
                log::warn!(
                    "{name} does not start, so our own kernels do its work; it is tried again when memory is freed: {error}"
                );
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hip::Platform;

    fn stream() -> Stream {
        Platform::named("host")
            .and_then(|host| host.device(0))
            .and_then(|device| device.new_stream())
            .expect("a stream")
    }

    /// rocBLAS's status for memory that it did not get.
    const MEMORY_ERROR: i32 = 5;

    #[test]
    fn a_library_that_failed_is_tried_again_when_memory_came_back() {
        let (stream, libraries) = (stream(), Libraries::default());
        let buffer = stream.alloc::<u8>(1 << 20).expect("memory");
        // The pools give back what they keep, and it is tried a second time at once: let both fail.
        for nth in [1, 1] {
            let armed = hip_host::inject::fail("rocblas_create_handle", nth, 1);
            assert!(libraries.blas(&stream).is_none() && armed.fired());
            assert!(libraries.blas(&stream).is_none(), "nothing was freed, and no time has passed");
            if let State::Failed(failure) = &mut *libraries.blas.state.lock().expect("a lock") {
                failure.when -= failure.wait;
            }
        }
        let armed = hip_host::inject::fail("rocblas_create_handle", 1, 1);
        assert!(libraries.blas(&stream).is_none() && armed.fired(), "time has passed: tried, and failed");
        drop(armed);
        drop(buffer);
        assert!(libraries.blas(&stream).is_some(), "memory came back");
    }

    #[test]
    fn out_of_memory_gives_the_pools_memory_back_and_tries_again() {
        let (stream, libraries) = (stream(), Libraries::default());
        drop(stream.alloc::<u8>(64 << 20).expect("memory"));
        let kept = stream.pool_stats().reserved_bytes;
        assert!(kept >= 64 << 20);
        let armed = hip_host::inject::fail("rocblas_create_handle", 1, MEMORY_ERROR);
        assert!(libraries.blas(&stream).is_some() && armed.fired());
        assert!(stream.pool_stats().reserved_bytes < kept, "the pool gave back what it kept");
    }

    #[test]
    fn an_absent_library_is_looked_for_once() {
        let stream = stream();
        let library: Library<u32> = Library::default();
        assert!(library.get(&stream, "a library", |_| Ok(None)).is_none());
        assert!(library.get(&stream, "a library", |_| Ok(Some(1))).is_none());
    }
}
