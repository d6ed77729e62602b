//! How a launch runs: what is checked and counted, and in which order waves take turns.

use crate::checks::Checks;
use crate::exec::trans::Accuracy;

/// How a launch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How exact the operations are that the manual promises to an accuracy only.
    pub accuracy: Accuracy,
    /// What is checked besides memory.
    pub checks: Checks,
    /// Count what [`Worker::counters`] shows.
    pub count: bool,
    /// Not 0: waves of a block run in an order that this number picks, and change places every `switch_every` instructions.
    pub seed: u64,
    /// How many instructions a wave runs before another one has its turn; 0 is until a barrier or the end.
    pub switch_every: u32,
    /// Instructions that a wave may run before it is taken for an endless loop.
    pub limit: u64,
    /// Run the handlers that need no vector instructions of the host: slow, for comparing. Needs the feature `portable`.
    pub portable: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            accuracy: Accuracy::Exact,
            checks: Checks::default(),
            count: false,
            seed: 0,
            switch_every: 0,
            limit: 1 << 32,
            portable: false,
        }
    }
}
