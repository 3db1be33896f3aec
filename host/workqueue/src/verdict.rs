//! [`Verdict`]: what follows from a run.
//!
//! Read by `Queue::finish`; its cases are the outcomes of a reconcile in controller-runtime.

use std::time::Duration;

/// What follows for a key whose run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: its failures are forgotten.
    Done,
    /// Its failures are forgotten, and it runs again after this delay.
    After(Duration),
    /// It failed, and runs again after the delay of the rate limiter.
    Retry {
        /// The shortest delay, for a failure that says itself how long to wait.
        at_least: Duration,
    },
}

impl Verdict {
    pub(crate) fn after(self) -> Option<Duration> {
        if let Self::After(delay) = self { Some(delay) } else { None }
    }
}
