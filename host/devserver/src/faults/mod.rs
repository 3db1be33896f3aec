//! Faults of a real API server, produced at will: which calls they hit, when, and what they do.
//!
//! A [`FaultRule`] is set in process ([`Faults::add`]) or by `POST /_faults` as JSON. Of the rules that hit a call all
//! that only delay, repeat or reorder count, and of the others the first.

mod rule;
mod script;

use std::time::Duration;

pub use rule::{Fault, FaultRule, When};
pub(crate) use script::{Asked, Hit};
pub use script::{FaultState, Faults};

/// What a fault does to a watch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WatchFaults {
    /// Nothing is ever sent.
    pub(crate) silent: bool,
    /// After that many lines, an `ERROR` line with code 410 and the end.
    pub(crate) gone_after: Option<u64>,
    /// After that many lines half of one, and the connection is reset.
    pub(crate) tear_after: Option<u64>,
    /// The bookmark that ends the initial events is left out.
    pub(crate) no_initial_end: bool,
    /// Changes are sent so much later.
    pub(crate) lag: Duration,
    /// Each event comes twice.
    pub(crate) duplicate: bool,
    /// Of each two events the later comes first.
    pub(crate) out_of_order: bool,
}

#[cfg(test)]
mod tests;
