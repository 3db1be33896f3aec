//! Workers: they take keys from a plugin's queue, call the guest, and record what follows for each key.
//!
//! The way of a key, in one direction:
//!
//! ```text
//! take ─ gather a batch ─ wait for own writes ─ call, in halves after a fault ─ record the outcome
//! take.rs                                       round.rs, parts.rs, call.rs     outcome.rs
//! ```
//!
//! A key of the worlds `reconciler` and `controller` goes the same way: it is a batch of one.
//!
//! One permanent worker of each plugin waits for keys for as long as the plugin lives; it is small while it waits. Where the
//! generation allows several, a helper waits whenever all others are in a call, and ends when no key came for a while. A
//! busy worker keeps its instance warm, and drops it after a time without keys.

mod call;
mod outcome;
mod parts;
mod round;
mod take;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use pilothouse_object::ObjectKey;
use pilothouse_workqueue::Item;

pub(crate) use self::outcome::record_fault;
use self::parts::BatchSize;
use crate::dispatch::instance::WarmInstance;
use crate::dispatch::reasons::Reasons;
use crate::lifecycle::plugin::Plugin;

/// A key that a worker took from the queue.
type Key = Item<ObjectKey, Reasons>;

/// Target of the debug event that is written for each reconcile: `plugin`, `key`, `outcome` (as the label `result` of the
/// metrics), `after` (the delay of a requeue) and `milliseconds`. It costs nothing unless the log's filter names it.
pub const RECONCILES: &str = "pilothouse::reconciles";

/// The permanent worker.
pub(crate) async fn run_permanent(plugin: Arc<Plugin>) {
    loop {
        let item = tokio::select! {
            biased;
            () = plugin.stopping().cancelled() => break,
            item = next_key_of_leader(&plugin) => item,
        };
        let Some(item) = item else { break };
        // Boxed, so that the waiting task stays small: there is one for each plugin.
        Box::pin(work(&plugin, item, false)).await;
    }
    plugin.workers().remove();
}

/// A helper, which waits for keys that come while all other workers are in a call.
pub(crate) async fn run_helper(plugin: Arc<Plugin>) {
    if let Some(item) = next_key_or_idle(&plugin).await {
        work(&plugin, item, true).await;
    }
    plugin.workers().remove();
}

/// Reconciles keys until none came for a while, or this worker is one too many.
async fn work(plugin: &Arc<Plugin>, first: Key, is_helper: bool) {
    let mut warm = WarmInstance::default();
    let mut size = BatchSize::default();
    let mut next = Some(first);
    while let Some(item) = next {
        let Some(taken) = take::take(plugin, item, is_helper, size).await else { return };
        round::run(plugin, taken, &mut warm, &mut size).await;
        // Other plugins' tasks run.
        tokio::task::coop::consume_budget().await;
        // Before a key is taken: a key that waits out a quarantine in the queue is not in progress.
        plugin.quarantine_pause().await;
        next = match plugin.queue().try_get() {
            Some(item) => Some(item),
            None => next_key_or_idle(plugin).await,
        };
    }
}

/// Waits for a key on the leader. On a standby keys stay in the queue.
async fn next_key_of_leader(plugin: &Plugin) -> Option<Key> {
    plugin.election().wait_until_leader().await;
    plugin.next_key().await
}

/// Waits for a key as long as an instance is kept warm; none when no key came, or the plugin stops.
async fn next_key_or_idle(plugin: &Plugin) -> Option<Key> {
    tokio::select! {
        biased;
        () = plugin.stopping().cancelled() => None,
        next = tokio::time::timeout(plugin.idle_ttl(), plugin.next_key()) => next.ok().flatten(),
    }
}
