//! How a HIP function is written here: as a row. `forward!` takes the rows that are one driver call, `calls!` those with
//! a body. Either makes the `extern "C"` function, sees to the context and remembers the error for `hipGetLastError`.

use crate::status::CUresult;
use hip_abi::hipError_t;
use std::cell::Cell;

thread_local! {
    static LAST: Cell<hipError_t> = const { Cell::new(hipError_t::hipSuccess) };
}

/// What the body of a call may come to.
pub(crate) trait Answer {
    fn result(self) -> Result<(), hipError_t>;
}

impl Answer for CUresult {
    fn result(self) -> Result<(), hipError_t> {
        self.check()
    }
}

impl Answer for Result<(), hipError_t> {
    fn result(self) -> Result<(), hipError_t> {
        self
    }
}

/// The code to return, remembered where it is an error. "Not ready" is an answer and not an error.
pub(crate) fn remember(outcome: Result<(), hipError_t>) -> hipError_t {
    let Err(error) = outcome else { return hipError_t::hipSuccess };
    if error != hipError_t::hipErrorNotReady {
        LAST.set(error);
    }
    error
}

pub(crate) unsafe extern "C" fn hipGetLastError() -> hipError_t {
    LAST.replace(hipError_t::hipSuccess)
}

pub(crate) unsafe extern "C" fn hipPeekAtLastError() -> hipError_t {
    LAST.get()
}

/// Writes an answer through the caller's pointer.
///
/// # Safety
/// `pointer` is null or may be written to.
pub(crate) unsafe fn put<T>(pointer: *mut T, value: T) -> Result<(), hipError_t> {
    if pointer.is_null() {
        return Err(hipError_t::hipErrorInvalidValue);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { pointer.write(value) };
    Ok(())
}

/// `context fn hipName(arguments) |driver| body;`, where `context` is `any` (the driver alone), `bound` (the thread's device
/// is current, and no launch waits any more) or `ahead` (launches may wait). The body comes to a `CUresult` or a `Result`, and may use `?`.
macro_rules! calls {
    ($($context:ident fn $name:ident($($argument:ident: $type:ty),* $(,)?) |$driver:pat_param| $body:expr;)*) => {$(
        #[allow(clippy::too_many_arguments, unused_unsafe)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> hip_abi::hipError_t {
            // SAFETY: the body passes the caller's arguments on to the driver, whose contract for them is HIP's; what it
            // reads or writes through a pointer itself, it checks for null.
            $crate::calls::remember((|| unsafe {
                let $driver = $crate::context::$context()?;
                $crate::calls::Answer::result($body)
            })())
        }
    )*};
}

/// `hipName(arguments) = cuName(arguments);`, with the thread's device current.
macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?) = $cuda:ident($($passed:expr),*);)*) => {
        $crate::calls::calls! {
            $(bound fn $name($($argument: $type),*) |driver| (driver.cuda.$cuda)($($passed),*);)*
        }
    };
}

pub(crate) use {calls, forward};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_kept_until_it_is_asked_for() {
        // SAFETY: these calls touch nothing but the thread's own cell.
        let (peek, take) = unsafe { (|| hipPeekAtLastError(), || hipGetLastError()) };
        assert_eq!(take(), hipError_t::hipSuccess);
        remember(Err(hipError_t::hipErrorOutOfMemory));
        remember(Err(hipError_t::hipErrorNotReady));
        remember(Ok(()));
        assert_eq!(peek(), hipError_t::hipErrorOutOfMemory);
        assert_eq!(take(), hipError_t::hipErrorOutOfMemory);
        assert_eq!(take(), hipError_t::hipSuccess);
    }
}
