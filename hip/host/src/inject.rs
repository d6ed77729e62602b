//! Fault injection, for tests of what happens when a HIP call fails: the n-th call of a function on this thread fails with a
//! chosen error. A recording mode says which calls a piece of code makes, so that a test can fail each of them in turn.
//!
//! An injected failure of a call that releases something (`hipFree`, `hipStreamDestroy`, ...) releases it and reports the
//! error all the same, as a GPU does that reports an earlier failure at that point: nothing leaks on account of the test.

use hip_abi::{hipError_t, hiprtcResult};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The status an injected failure returns: HIP's or hipRTC's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure(u32);

impl From<hipError_t> for Failure {
    fn from(error: hipError_t) -> Self {
        Self(error.0)
    }
}

impl From<hiprtcResult> for Failure {
    fn from(result: hiprtcResult) -> Self {
        Self(result.0)
    }
}

/// A status of another library's, for [`check`] in its embedded implementation.
impl From<i32> for Failure {
    fn from(status: i32) -> Self {
        Self(status as u32)
    }
}

/// The calls that release something, and do so even when their failure is injected.
const RELEASING: &[&str] = &[
    "hipFree",
    "hipHostFree",
    "hipHostUnregister",
    "hipStreamDestroy",
    "hipEventDestroy",
    "hipModuleUnload",
    "hipGraphDestroy",
    "hipGraphExecDestroy",
    "hiprtcDestroyProgram",
];

/// Whether a call does its work although its failure is injected.
pub(crate) fn releases(function: &str) -> bool {
    RELEASING.contains(&function)
}

#[derive(Default)]
struct State {
    plan: Option<Plan>,
    calls: Option<BTreeMap<&'static str, u32>>,
}

struct Plan {
    function: String,
    calls_before: u32,
    failure: Failure,
}

thread_local! {
    static ARMED: Cell<bool> = const { Cell::new(false) };
    static STATE: RefCell<State> = RefCell::default();
}

/// A planned failure; it is called off when this is dropped.
#[derive(Debug)]
#[must_use = "the plan is called off when this is dropped"]
pub struct Armed {
    // The plan belongs to the thread that made it.
    _this_thread: std::marker::PhantomData<*const ()>,
}

impl Armed {
    /// Whether the failure has happened.
    pub fn fired(&self) -> bool {
        STATE.with_borrow(|state| state.plan.is_none())
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        let recording = STATE.with_borrow_mut(|state| {
            state.plan = None;
            state.calls.is_some()
        });
        ARMED.set(recording);
    }
}

/// Makes the `nth` call (counted from 1) of `function` on this thread fail with `failure`, once. A second plan replaces the first.
pub fn fail(function: &str, nth: u32, failure: impl Into<Failure>) -> Armed {
    let plan = Plan { function: function.to_owned(), calls_before: nth.saturating_sub(1), failure: failure.into() };
    STATE.with_borrow_mut(|state| state.plan = Some(plan));
    ARMED.set(true);
    Armed { _this_thread: std::marker::PhantomData }
}

/// Runs `work` and lists the fallible calls it made on this thread, by name, with how often each was made.
pub fn record<R>(work: impl FnOnce() -> R) -> (R, Vec<(&'static str, u32)>) {
    STATE.with_borrow_mut(|state| state.calls = Some(BTreeMap::new()));
    ARMED.set(true);
    let result = work();
    let (calls, planned) = STATE.with_borrow_mut(|state| (state.calls.take(), state.plan.is_some()));
    ARMED.set(planned);
    (result, calls.unwrap_or_default().into_iter().collect())
}

/// Called once at the start of every fallible call: the status to return instead, if this is the one to fail. Embedded
/// implementations of other libraries call it too.
pub fn check(function: &'static str) -> Option<u32> {
    if !ARMED.get() {
        return None;
    }
    STATE.with_borrow_mut(|state| {
        if let Some(calls) = &mut state.calls {
            *calls.entry(function).or_default() += 1;
        }
        let plan = state.plan.as_mut().filter(|plan| plan.function == function)?;
        if plan.calls_before > 0 {
            plan.calls_before -= 1;
            return None;
        }
        let failure = plan.failure;
        state.plan = None;
        Some(failure.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_call_fails_once() {
        let armed = fail("hipMalloc", 2, hipError_t::hipErrorOutOfMemory);
        assert_eq!(check("hipMalloc"), None);
        assert_eq!(check("hipFree"), None);
        assert!(!armed.fired());
        assert_eq!(check("hipMalloc"), Some(2));
        assert!(armed.fired());
        assert_eq!(check("hipMalloc"), None);
        drop(armed);
        drop(fail("hipMalloc", 1, hipError_t::hipErrorOutOfMemory));
        assert_eq!(check("hipMalloc"), None);
    }

    #[test]
    fn calls_are_recorded_with_their_number() {
        let ((), calls) = record(|| {
            for name in ["hipMalloc", "hipFree", "hipMalloc"] {
                assert_eq!(check(name), None);
            }
        });
        assert_eq!(calls, [("hipFree", 1), ("hipMalloc", 2)]);
    }
}
