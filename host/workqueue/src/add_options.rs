//! [`AddOptions`]: how a key is added.
//!
//! Read by `Queue::add_with_options`; the field names are those of controller-runtime's `AddOpts` where it has them.

use std::time::Duration;

use crate::Priority;

/// How a key is added. The default adds it at once at normal priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddOptions {
    /// The priority of the run to come.
    pub priority: Priority,
    /// The delay; with `rate_limited` the shorter of the two counts. Zero is no delay.
    pub after: Duration,
    /// Counts a failure of the key, and delays it as long as the rate limiter asks for.
    pub rate_limited: bool,
    /// The shortest delay with `rate_limited`: for a failure that says itself how long to wait.
    pub at_least: Duration,
    /// The key has one entry, as in controller-runtime: an add without a delay ends a delay that the key has, and an add
    /// with a delay joins a run that the key is queued for. Payloads are merged, the higher priority counts. Without this
    /// option a key may be queued and delayed at once, as in client-go, and then runs twice.
    pub coalesce: bool,
}

impl AddOptions {
    /// The delay of a rate-limited add for which the limiter says `limited`.
    pub(crate) fn delay(&self, limited: Duration) -> Duration {
        let delay = if self.after.is_zero() { limited } else { limited.min(self.after) };
        delay.max(self.at_least)
    }
}
