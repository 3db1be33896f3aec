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
//! A plugin without keys has no worker: no task, no timer, no lease of an instance. The hook of its queue starts a worker when
//! a key becomes ready, and a worker starts another one for further keys, up to the number of the generation. A worker ends
//! when it finds no key. The protocol by which no key is left without a worker is that of [`WorkerCount`].
//!
//! [`WorkerCount`]: pilothouse_workqueue::WorkerCount

mod call;
mod outcome;
mod parts;
mod round;
mod take;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use pilothouse_executor::yield_after_slice;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::Item;

pub(crate) use self::outcome::record_event_fault;
pub(crate) use self::parts::BatchSize;
use crate::dispatch::instance_pool::WarmInstance;
use crate::dispatch::reasons::Reasons;
use crate::lifecycle::plugin::Plugin;
use crate::lifecycle::state::CallKind;

/// A key that a worker took from the queue.
type Key = Item<ObjectKey, Reasons>;

/// Target of the debug event that is written for each reconcile: `plugin`, `key`, `outcome` (as the label `result` of the
/// metrics), `after` (the delay of a requeue) and `milliseconds`. It costs nothing unless the log's filter names it.
pub const RECONCILES: &str = "pilothouse::reconciles";

/// A worker: reconciles keys until there is none.
pub(crate) async fn run(plugin: Arc<Plugin>) {
    // Also when it panics.
    let _counted = Counted(&plugin);
    let mut warm = WarmInstance::default();
    plugin.quarantine_over(CallKind::Reconcile, || warm.release()).await;
    plugin.workers().started();
    let mut size = plugin.batch_size();
    let mut count = 0;
    while !plugin.workers().is_surplus()
        && let Some(item) = plugin.take_key(&mut count).await
    {
        let Some(taken) = take::take(&plugin, item, size, &mut warm).await else { break };
        round::run(&plugin, taken, &mut warm, &mut size).await;
        plugin.set_batch_size(size);
        if plugin.instances().is_contended() {
            warm.release();
        }
        // Other plugins' tasks run.
        yield_after_slice().await;
        // Before a key is taken: a key that waits out a quarantine in the queue is not in progress.
        plugin.quarantine_over(CallKind::Reconcile, || warm.release()).await;
    }
}

/// A worker among the workers of its plugin.
struct Counted<'a>(&'a Arc<Plugin>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.workers().remove();
        // A key may have come since this worker looked for the last time.
        self.0.start_worker_if_wanted();
    }
}
