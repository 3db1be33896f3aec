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
use std::time::Duration;

use pilothouse_executor::yield_after_slice_at;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::Item;
use tokio::time::Instant;

pub(crate) use self::outcome::{log_fault, record_event_fault};
pub(crate) use self::parts::SharedBatchSize;
pub(crate) use self::take::drop_all_keys;
use crate::dispatch::backfill::FeedPace;
use crate::dispatch::instance_pool::WarmInstance;
use crate::dispatch::reasons::Reasons;
use crate::lifecycle::plugin::Plugin;
use crate::lifecycle::state::CallKind;

/// A key that a worker took from the queue.
type Key = Item<ObjectKey, Reasons>;

/// Target of the debug event that is written for each reconcile: `plugin`, `key`, `outcome` (as the label `result` of the
/// metrics), `after` (the delay of a requeue) and `milliseconds`. It costs nothing unless the log's filter names it.
pub const RECONCILES: &str = "pilothouse::reconciles";

/// How long a worker that panicked counts as one: a bug that shows each time does not fill the log.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// A worker: reconciles keys until there is none. A panic ends it; keys that it had go back into the queue, and another
/// worker takes its place.
pub(crate) async fn run(plugin: Arc<Plugin>) {
    let mut counted = Counted { plugin: &plugin, is_started: false };
    if plugin.guard("a worker", work(&plugin, &mut counted)).await.is_none() {
        let _ = plugin.stopping().run_until_cancelled(tokio::time::sleep(AFTER_PANIC)).await;
    }
}

async fn work(plugin: &Arc<Plugin>, counted: &mut Counted<'_>) {
    let mut warm = WarmInstance::default();
    plugin.quarantine_over(CallKind::Reconcile, || warm.release()).await;
    counted.start();
    let mut size = plugin.batch_size().get();
    let mut pace = FeedPace::default();
    while !plugin.workers().is_surplus()
        && let Some(item) = plugin.take_key(&mut pace).await
    {
        let Some(taken) = take::take(plugin, item, size, &mut warm).await else { break };
        let ended = round::run(plugin, taken, &mut warm, &mut size).await;
        plugin.batch_size().set(size);
        if plugin.instances().is_contended() {
            warm.release();
        }
        // Other plugins' tasks run.
        yield_after_slice_at(|| ended.unwrap_or_else(Instant::now)).await;
        // Before a key is taken: a key that waits out a quarantine in the queue is not in progress.
        plugin.quarantine_over(CallKind::Reconcile, || warm.release()).await;
    }
}

/// A worker among the workers of its plugin.
struct Counted<'a> {
    plugin: &'a Arc<Plugin>,
    is_started: bool,
}

impl Counted<'_> {
    /// The worker is about to look for a key.
    fn start(&mut self) {
        self.is_started = true;
        self.plugin.workers().started();
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if !self.is_started {
            self.start();
        }
        self.plugin.workers().remove();
        // A key may have come since this worker looked for the last time.
        self.plugin.start_worker_if_wanted();
    }
}
