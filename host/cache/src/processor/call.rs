//! [`Slice`]: calls of listeners and judges, one after the other, until other tasks of the thread are to run. A panic is
//! contained, and a call that blocks is logged.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use pilothouse_object::{Gvr, ObjectKey};
use tokio::time::Instant;

/// Calls between two moments at which other threads get the lock: well under a millisecond, as a rule.
pub(super) const CHUNK: usize = 1000;

/// The longest that calls go on when they take longer: other tasks of the thread wait for them.
pub(super) const SLICE: Duration = Duration::from_millis(1);

/// A call of a listener for so long is logged: client-go's threshold.
const SLOW_CALL: Duration = Duration::from_millis(100);

/// The calls of one slice.
pub(super) struct Slice {
    calls: usize,
    length: Duration,
    began: Instant,
    /// The last reading of the clock: the end of one call is the beginning of the next.
    now: Instant,
}

/// A call that has ended.
pub(super) struct Called<R> {
    /// None if it panicked.
    pub(super) outcome: Option<R>,
    pub(super) took: Duration,
}

impl Slice {
    pub(super) fn new(length: Duration) -> Self {
        let now = Instant::now();
        Self { calls: 0, length, began: now, now }
    }

    /// Counts a listener that is called, or a change, which costs something without listeners, too.
    pub(super) fn count(&mut self) {
        self.calls += 1;
    }

    /// The work since the last call is part of the slice and of no call.
    pub(super) fn tick(&mut self) {
        self.now = Instant::now();
    }

    pub(super) fn is_over(&self) -> bool {
        self.calls >= CHUNK || self.now - self.began >= self.length
    }

    /// Makes a call for a key.
    pub(super) fn run<R>(
        &mut self,
        cluster: Option<&str>,
        resource: &Gvr,
        key: &ObjectKey,
        call: impl FnOnce() -> R,
    ) -> Called<R> {
        let outcome = catch_unwind(AssertUnwindSafe(call));
        let began = std::mem::replace(&mut self.now, Instant::now());
        let took = self.now - began;
        if took > SLOW_CALL {
            tracing::warn!(event = "listener_slow", cluster, %resource,
                %key, ?took, "a listener blocked its informer: listeners must not wait");
        }
        let outcome = outcome.inspect_err(|panic| {
            let message =
                panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
            tracing::error!(event = "listener_panicked", cluster, %resource,
                %key, message, "a listener panicked; the informer goes on without this call");
        });
        Called { outcome: outcome.ok(), took }
    }
}
