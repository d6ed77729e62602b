//! The one clock: nanoseconds since the first question, never going back. Events and `clock64` read it.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds, at least 1, so that 0 can mean "not yet".
pub(crate) fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).map_or(u64::MAX, |elapsed| elapsed + 1)
}
