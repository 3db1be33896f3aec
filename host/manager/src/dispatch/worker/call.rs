//! One call of `reconcile` or `reconcile-many`.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_engine::{CallStart, Fault, FaultKind, Request};
use smallvec::{SmallVec, smallvec};
use tokio::time::Instant;
use tracing::{Instrument as _, Span, field};

use super::Key;
use super::outcome::{self, KeyList};
use crate::dispatch::call_id::next_call_id;
use crate::dispatch::guest::Answer;
use crate::dispatch::instance_pool::WarmInstance;
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;
use crate::observe::audit::{LONGEST, clip};
use crate::observe::traces::{self, TRACE, number};

/// Calls the guest for these keys, records each answer and finishes its key; returns when the call ended, or none if none
/// began, because the term ended while an instance was made. A fault is logged and counted in the metrics; the
/// caller decides what follows for the keys. The instance is gone after it.
pub(super) async fn reconcile(
    plugin: &Arc<Plugin>,
    generation: &Arc<Generation>,
    warm: &mut WarmInstance,
    items: &mut [Key],
) -> Result<Option<Instant>, Fault> {
    let call = Call::begin(plugin);
    let span = span(&call, generation, items);
    let answers = answers(plugin, generation, warm, items, &call).instrument(span.clone()).await;
    let Some(answers) = answers.transpose() else { return Ok(None) };
    let ended = call.end();
    let took = ended.took;
    traces::ended(span, answers.as_deref());
    match answers {
        Ok(answers) => {
            outcome::record(plugin, generation, ended, items.iter_mut().zip(answers));
            Ok(Some(ended.at))
        }
        Err(fault) => {
            if fault.kind == FaultKind::CodeUnavailable {
                // It is of no use until the plugin is loaded again.
                warm.release();
            } else {
                warm.discard();
            }
            items.iter().for_each(|item| outcome::log_reconcile(plugin, &item.key, Err(&fault), took));
            outcome::log_fault(plugin, generation, &KeyList::of(items), ended.id, took, &fault);
            Err(fault)
        }
    }
}

async fn answers(
    plugin: &Arc<Plugin>,
    generation: &Arc<Generation>,
    warm: &mut WarmInstance,
    items: &[Key],
    call: &Call<'_>,
) -> Result<Option<Answers>, Fault> {
    let is_ready = warm.is_ready(generation);
    let guest = warm.get(plugin, generation).await?;
    // To make one takes time.
    if !is_ready && !plugin.election().is_leader() {
        return Ok(None);
    }
    let start = match is_ready {
        true => CallStart { id: call.id, at: call.began.into_std() },
        // An instance was made: its time is not that of the call.
        false => CallStart::from(call.id),
    };
    if let [item] = items
        && !generation.batches
    {
        return Ok(Some(smallvec![guest.reconcile(&request(item), start).await?]));
    }
    let requests: Vec<Request<'_>> = items.iter().map(request).collect();
    Ok(Some(guest.reconcile_many(&requests, start).await?.into()))
}

/// The span of a call; none where nobody asks for it.
fn span(call: &Call<'_>, generation: &Generation, items: &[Key]) -> Span {
    let first = items.first();
    let reasons = |item: &Key| item.payload.of_contract().names().collect::<Vec<_>>().join(",");
    tracing::info_span!(
        target: TRACE,
        parent: None,
        "reconcile",
        pilothouse.plugin = &**call.plugin.name(),
        pilothouse.generation = number(generation.number),
        pilothouse.call = number(call.id),
        pilothouse.key = first.map(|item| clip(item.key.as_str(), LONGEST)),
        pilothouse.keys = number(items.len()),
        pilothouse.reasons = first.map(reasons),
        pilothouse.attempt = first.map(|item| number(item.num_requeues())),
        pilothouse.queued_ms = first.map(|item| number(item.queued_for().as_millis())),
        otel.status_description = field::Empty,
    )
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

    fn end(&self) -> EndedCall {
        let at = Instant::now();
        let took = at.duration_since(self.began);
        self.plugin.metrics().reconcile_time.observe(took.as_secs_f64());
        EndedCall { id: self.id, at, took }
    }
}

/// A call that has ended. Its end is the one reading of the clock for all that follows.
#[derive(Clone, Copy)]
pub(super) struct EndedCall {
    pub(super) id: u64,
    pub(super) at: Instant,
    pub(super) took: Duration,
}

/// Also when the call panics.
impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.plugin.metrics().active_workers.dec();
    }
}
