//! How a launch runs: what is checked and counted, and in which order waves take turns.

use super::schedule::Schedule;
use crate::checks::Checks;
use crate::exec::trans::Accuracy;

/// How a launch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How exact the operations are that the manual promises to an accuracy only.
    pub accuracy: Accuracy,
    /// What is checked besides memory.
    pub checks: Checks,
    /// An access to local memory beyond the block's fails. Otherwise it reads 0 and stores nothing, as on a card.
    pub strict_local: bool,
    /// Count what [`crate::Worker::counters`] shows.
    pub count: bool,
    /// In which order waves run, and in `Launch::run` blocks.
    pub schedule: Schedule,
    /// How many instructions a wave runs before another one has its turn; 0 is until a barrier or the end. With a seed it is any
    /// number up to this one, another for each turn.
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
            strict_local: true,
            count: false,
            schedule: Schedule::Ascending,
            switch_every: 0,
            limit: 1 << 32,
            portable: false,
        }
    }
}
