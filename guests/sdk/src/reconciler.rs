//! The worlds `reconciler` and `batch-reconciler`: the traits, what they are asked and what they answer. Level-triggered, the
//! usual way to write a controller.

use std::time::Duration;

use crate::bindings::imports::types as raw;
use crate::duration::milliseconds;
use crate::{Config, Descriptor, Failure, Key};

/// A level-triggered controller: brings the world in line for one key, whatever happened to it.
///
/// Put [`#[pilothouse_sdk::reconciler]`](macro@crate::reconciler) on the `impl` block.
pub trait Reconciler: Sized + 'static {
    /// What the plugin is and needs. Called once per generation, before anything else, in an instance that may not be
    /// used for work. An error is a message for the operator; the plugin is then not started.
    fn describe(config: &Config) -> Result<Descriptor, String>;

    /// Makes the state of an instance, at its first call; an error fails that call, and the next one tries again.
    ///
    /// There may be several instances, and each may vanish between two calls (idle, trapped, reloaded): what is
    /// kept in `self` is a cache and never the truth.
    fn new(config: &Config) -> Result<Self, String>;

    /// Reconciles one key. Calls for one key never overlap.
    fn reconcile(&mut self, request: &Request) -> Result<Outcome, Failure>;
}

/// A level-triggered controller that takes many keys at once: for guests that pay for each call outside, as exporters do.
///
/// Put [`#[pilothouse_sdk::batch_reconciler]`](macro@crate::batch_reconciler) on the `impl` block, and say in the descriptor how
/// many keys a call may bring ([`Descriptor::max_batch`]) and how long the host gathers them ([`Descriptor::linger`]).
pub trait BatchReconciler: Sized + 'static {
    /// What the plugin is and needs; see [`Reconciler::describe`].
    fn describe(config: &Config) -> Result<Descriptor, String>;

    /// Makes the state of an instance; see [`Reconciler::new`].
    fn new(config: &Config) -> Result<Self, String>;

    /// Reconciles keys, which are all different. Calls for one key never overlap.
    ///
    /// Answers one result a request, in their order: each key goes its own way from there. An answer of another length is a fault,
    /// after which every key of the call is tried again.
    fn reconcile_many(&mut self, requests: &[Request]) -> Vec<Result<Outcome, Failure>>;
}

/// What to reconcile and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The key.
    pub key: Key,
    /// How many calls for this key have failed in a row; 0 on the first try.
    pub attempt: u32,
    /// Why, in no order: `added`, `updated`, `deleted`, `owned`, `resync`, `requeued`, `reloaded`, `scheduled`,
    /// `manual`; more may come. For logs: a decision must come from the state of the world.
    pub reasons: Vec<String>,
}

/// What follows from a reconcile that went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing until something changes.
    Done,
    /// Again, after the rate limiter's delay; failures are not forgotten.
    Requeue,
    /// Again after this time; failures are forgotten.
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
