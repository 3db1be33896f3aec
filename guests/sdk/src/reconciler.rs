//! The worlds `reconciler` and `batch-reconciler`: the traits, the requests and the results. Level-triggered, the
//! usual way to write a controller.

use std::time::Duration;

use crate::bindings::imports::types as raw;
use crate::duration::milliseconds;
use crate::{Config, Descriptor, Failure, Key};

/// A level-triggered controller: it reconciles one key, regardless of the event.
///
/// Put [`#[pilothouse_sdk::reconciler]`](macro@crate::reconciler) on the `impl` block.
pub trait Reconciler: Sized + 'static {
    /// Returns the descriptor. Called once per generation, before all other functions, possibly in a separate
    /// instance. An error is a message for the operator; the plugin is then not started.
    fn describe(config: &Config) -> Result<Descriptor, String>;

    /// Creates the state of an instance, at its first call. An error fails that call, and the next call tries again.
    ///
    /// There may be several instances, and each may be dropped between two calls (idle, fault, reload). Use `self` as
    /// a cache only; store state in the cluster.
    fn new(config: &Config) -> Result<Self, String>;

    /// Reconciles one key. Calls for one key never overlap.
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
    /// Returns one result per request, in the same order. The host treats each key by its own result. A result of
    /// another length is a fault, after which every key of the call is retried.
    fn reconcile_many(&mut self, requests: &[Request]) -> Vec<Result<Outcome, Failure>>;
}

/// A key to reconcile, and the reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The key.
    pub key: Key,
    /// Number of failed calls for this key in a row; 0 at the first attempt.
    pub attempt: u32,
    /// Unordered: `added`, `updated`, `deleted`, `owned`, `resync`, `requeued`, `reloaded`, `scheduled`. Later
    /// versions may add others. Use them for logs; decide from the current state of the objects.
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
