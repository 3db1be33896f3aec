//! One call of `reconcile` or `reconcile-many`.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_engine::{Fault, FaultKind, Request};
use smallvec::{SmallVec, smallvec};
use tokio::time::Instant;

use super::Key;
use super::outcome::{self, KeyList};
use crate::dispatch::call_id::next_call_id;
use crate::dispatch::guest::Answer;
use crate::dispatch::instance_pool::WarmInstance;
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;

/// Calls the guest for these keys, records each answer and finishes its key. A fault is logged and counted in the metrics; the
/// caller decides what follows for the keys. The instance is gone after a fault.
pub(super) async fn reconcile(
    plugin: &Arc<Plugin>,
    generation: &Arc<Generation>,
    warm: &mut WarmInstance,
    items: &mut [Key],
) -> Result<(), Fault> {
    let call = Call::begin(plugin);
    let answers = answers(plugin, generation, warm, items, call.id).await;
    let took = call.end();
    match answers {
        Ok(answers) => {
            outcome::record(plugin, generation, call.id, took, items.iter_mut().zip(answers));
            Ok(())
        }
        Err(fault) => {
            if fault.kind == FaultKind::CodeUnavailable {
                // It is of no use until the code is made again.
                warm.release();
            } else {
                warm.discard();
            }
            items.iter().for_each(|item| outcome::log_reconcile(plugin, &item.key, Err(&fault), took));
            outcome::log_fault(plugin, generation, &KeyList::of(items), call.id, took, &fault);
            Err(fault)
        }
    }
}

async fn answers(
    plugin: &Arc<Plugin>,
    generation: &Arc<Generation>,
    warm: &mut WarmInstance,
    items: &[Key],
    call: u64,
) -> Result<Answers, Fault> {
    let guest = warm.get(plugin, generation).await?;
    if let [item] = items
        && !generation.batches
    {
        return Ok(smallvec![guest.reconcile(&request(item), call).await?]);
    }
    let requests: Vec<Request<'_>> = items.iter().map(request).collect();
    Ok(guest.reconcile_many(&requests, call).await?.into())
}

/// One for each key; without an allocation for a single one.
type Answers = SmallVec<[Answer; 1]>;

fn request(item: &Key) -> Request<'_> {
    Request {
        key: &item.key,
        attempt: item.num_requeues(),
        reasons: item.payload.of_contract(),
        priority: item.priority.0,
    }
}

/// A call in flight, for the metrics.
struct Call<'a> {
    plugin: &'a Plugin,
    id: u64,
    began: Instant,
}

impl<'a> Call<'a> {
    fn begin(plugin: &'a Plugin) -> Self {
        plugin.metrics().active_workers.inc();
        plugin.count_call();
        Self { plugin, id: next_call_id(), began: Instant::now() }
    }

    /// Returns the duration of the call.
    fn end(&self) -> Duration {
        let took = self.began.elapsed();
        self.plugin.metrics().reconcile_time.observe(took.as_secs_f64());
        took
    }
}

/// Also when the call panics.
impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.plugin.metrics().active_workers.dec();
    }
}
