//! The worlds `reconciler` and `batch-reconciler`: the traits, the requests and the results. Both are level-triggered,
//! the usual form of a controller.

use std::time::Duration;

use crate::bindings::imports::types as raw;
use crate::duration::milliseconds;
use crate::{Config, Descriptor, Failure, Key};

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

    /// Creates the state of an instance, at its first call.
    ///
    /// A plugin may have several instances, and the host may drop each of them between two calls (idle time, fault,
    /// reload). Use `self` as a cache only; store state in the cluster.
    ///
    /// # Errors
    /// An error fails the call, and the next call tries again.
    fn new(config: &Config) -> Result<Self, String>;

    /// Reconciles one key. Calls for one key never overlap.
    ///
    /// # Errors
    /// A transient [`Failure`] is retried after the rate limiter's delay, a terminal one when something changes.
    fn reconcile(&mut self, request: &Request) -> Result<Outcome, Failure>;
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
    fn reconcile_many(&mut self, requests: &[Request]) -> Vec<Result<Outcome, Failure>>;
}

/// A request to reconcile one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The key to reconcile.
    pub key: Key,
    /// Number of consecutive failed calls for this key; 0 at the first attempt.
    pub attempt: u32,
    /// Why the key was queued, unordered: `added`, `updated`, `deleted`, `owned`, `resync`, `requeued`, `reloaded`,
    /// `scheduled`. Later versions may add others. Use them for logs only; decide from the current state of the
    /// objects.
    pub reasons: Vec<String>,
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

impl From<raw::Request> for Request {
    fn from(raw: raw::Request) -> Self {
        Self { key: raw.key, attempt: raw.attempt, reasons: raw.reasons }
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
