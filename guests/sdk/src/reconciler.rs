//! The worlds `reconciler` and `batch-reconciler`: the traits, the requests and the results. Both are level-triggered,
//! the usual form of a controller.

use std::fmt;
use std::time::Duration;

use crate::bindings::imports::types as raw;
use crate::duration::milliseconds;
use crate::{Config, Context, Descriptor, Failure, Key};

/// A level-triggered controller: it reconciles one key, regardless of the event.
///
/// Put [`#[pilothouse_sdk::reconciler]`](macro@crate::reconciler) on the `impl` block.
pub trait Reconciler: Sized + 'static {
    /// Returns the descriptor. Called once per generation, before all other functions, possibly in a separate instance.
    ///
    /// # Errors
    /// Return an error for an unusable configuration: the host does not start the plugin and shows the message to the
    /// operator.
    fn describe(config: &Config) -> Result<Descriptor, String>;

    /// Creates the state of an instance, at its first call. A type without fields needs no `new`: the attribute adds it.
    ///
    /// A plugin may have several instances, and the host may drop each of them between two calls (idle time, fault,
    /// reload). Use `self` as a cache only; store state in the cluster.
    ///
    /// # Errors
    /// An error fails the call for good, and a call for another key tries again.
    fn new(config: &Config) -> Result<Self, String>;

    /// Reconciles one key. Calls for one key never overlap.
    ///
    /// # Errors
    /// A transient [`Failure`] is retried after the rate limiter's delay, a terminal one when something changes.
    fn reconcile(&mut self, ctx: &Context, request: &Request) -> Result<Outcome, Failure>;
}

/// A level-triggered controller that reconciles many keys per call: for plugins with a high cost per request, such as
/// exporters.
///
/// Put [`#[pilothouse_sdk::batch_reconciler]`](macro@crate::batch_reconciler) on the `impl` block. The descriptor
/// sets the maximum number of keys per call ([`Descriptor::max_batch`]) and how long the host collects them
/// ([`Descriptor::linger`]).
pub trait BatchReconciler: Sized + 'static {
    /// Returns the descriptor; see [`Reconciler::describe`].
    fn describe(config: &Config) -> Result<Descriptor, String>;

    /// Creates the state of an instance; see [`Reconciler::new`].
    fn new(config: &Config) -> Result<Self, String>;

    /// Reconciles several different keys. Calls for one key never overlap.
    ///
    /// Returns one result per request, in the same order. The host handles each key according to its own result.
    /// Another number of results is a fault, after which the host retries every key of the call.
    fn reconcile_many(&mut self, ctx: &Context, requests: &[Request]) -> Vec<Result<Outcome, Failure>>;
}

/// A request to reconcile one key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The key to reconcile.
    pub key: Key,
    /// Number of consecutive failed calls for this key; 0 at the first attempt.
    pub attempt: u32,
    /// Why the key was queued. Use them for logs only; decide from the current state of the objects.
    pub reasons: Reasons,
    /// Priority of the key on the queue; 0 is the usual one, and keys of a reload or a resync have less.
    pub priority: i32,
    /// The cluster of the key; 0 for the one that the plugin runs in.
    pub cluster: u32,
}

impl Request {
    /// A first request for a key, for tests.
    pub fn new(key: Key) -> Self {
        Self { key, attempt: 0, reasons: Reasons::ADDED, priority: 0, cluster: 0 }
    }
}

/// Reasons for which a key was queued. Formats as their names with commas: `added,owned`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Reasons(u16);

impl Reasons {
    /// A watched object of that key appeared.
    pub const ADDED: Self = Self(1);
    /// A watched object of that key changed.
    pub const UPDATED: Self = Self(1 << 1);
    /// A watched object of that key was deleted.
    pub const DELETED: Self = Self(1 << 2);
    /// A watched object that maps to the key changed.
    pub const OWNED: Self = Self(1 << 3);
    /// The descriptor's `resync`.
    pub const RESYNC: Self = Self(1 << 4);
    /// An earlier call asked for it, or failed; or the plugin put the key on its queue.
    pub const REQUEUED: Self = Self(1 << 5);
    /// The plugin was loaded again.
    pub const RELOADED: Self = Self(1 << 6);
    /// A schedule of the descriptor.
    pub const SCHEDULED: Self = Self(1 << 7);
    /// An operator asked for it.
    pub const MANUAL: Self = Self(1 << 8);

    const NAMES: [(Self, &'static str); 9] = [
        (Self::ADDED, "added"),
        (Self::UPDATED, "updated"),
        (Self::DELETED, "deleted"),
        (Self::OWNED, "owned"),
        (Self::RESYNC, "resync"),
        (Self::REQUEUED, "requeued"),
        (Self::RELOADED, "reloaded"),
        (Self::SCHEDULED, "scheduled"),
        (Self::MANUAL, "manual"),
    ];

    /// Whether all reasons of `other` are among these.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and other reasons.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The names of the reasons.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(reason, _)| self.contains(*reason)).map(|(_, name)| name)
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in self.names().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl From<raw::Reasons> for Reasons {
    fn from(raw: raw::Reasons) -> Self {
        Self(raw.bits())
    }
}

/// The result of a successful reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No further call until something changes.
    Done,
    /// Reconcile again after the rate limiter's delay; the failure count is kept.
    Requeue,
    /// Reconcile again after this time; the failure count is reset.
    RequeueAfter(Duration),
}

impl Outcome {
    /// Reconcile again after this time; the failure count is reset.
    pub fn requeue_after(delay: Duration) -> Self {
        Self::RequeueAfter(delay)
    }

    /// The earlier of two outcomes, for a reconcile in parts: a requeue at once comes before a delayed one, and either
    /// before none.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::Done, outcome) | (outcome, Self::Done) => outcome,
            (Self::RequeueAfter(one), Self::RequeueAfter(two)) => Self::RequeueAfter(one.min(two)),
            _ => Self::Requeue,
        }
    }
}

impl From<Outcome> for raw::Outcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::Done,
            Outcome::Requeue => Self::Requeue,
            Outcome::RequeueAfter(delay) => Self::RequeueAfter(milliseconds(delay)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_their_names() {
        let reasons = Reasons::OWNED.with(Reasons::ADDED);
        assert_eq!(reasons.to_string(), "added,owned");
        assert!(reasons.contains(Reasons::OWNED) && !reasons.contains(Reasons::RESYNC));
        assert_eq!(Reasons::default().to_string(), "");
        for (reason, raw) in [
            (Reasons::ADDED, raw::Reasons::ADDED),
            (Reasons::UPDATED, raw::Reasons::UPDATED),
            (Reasons::DELETED, raw::Reasons::DELETED),
            (Reasons::OWNED, raw::Reasons::OWNED),
            (Reasons::RESYNC, raw::Reasons::RESYNC),
            (Reasons::REQUEUED, raw::Reasons::REQUEUED),
            (Reasons::RELOADED, raw::Reasons::RELOADED),
            (Reasons::SCHEDULED, raw::Reasons::SCHEDULED),
            (Reasons::MANUAL, raw::Reasons::MANUAL),
        ] {
            assert_eq!(Reasons::from(raw), reason);
        }
    }

    #[test]
    fn the_sooner_outcome_counts() {
        let after = |seconds| Outcome::requeue_after(Duration::from_secs(seconds));
        assert_eq!(after(3).sooner(after(2)), after(2));
        assert_eq!(Outcome::Done.sooner(after(2)), after(2));
        assert_eq!(after(2).sooner(Outcome::Requeue), Outcome::Requeue);
        assert_eq!(Outcome::Done.sooner(Outcome::Done), Outcome::Done);
    }
}
