//! Workers: they take keys from a plugin's queue, call the guest, and do with the key what the outcome says.
//!
//! One worker of each plugin waits for keys for as long as the plugin lives; it is small while it waits. Where
//! the generation allows several, one more stands by whenever all others are in a call, and leaves when nothing came. A busy worker keeps its instance warm;
//! when it has been idle for a while the instance goes, and with the last one the mapped code: the next key wakes the plugin
//! from its `.cwasm`.
//!
//! A guest of the world `batch-reconciler` gets many keys at once: [`batch`].
//!
//! The outcome table is controller-runtime's, except that a terminal failure also forgets the key's failures.

mod batch;

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use pilothouse_engine::{Failure, Fault, FaultKind, Instance, Outcome, Request};
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::{AddOptions, Item};
use tokio::time::Instant;

use crate::dispatch::reasons::Reasons;
use crate::dispatch::writes::{Heed, Waited};
use crate::imports::services::clip;
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;

type Key = Item<ObjectKey, Reasons>;

/// What a guest says of a key.
type Answer = Result<Outcome, Failure>;

/// Target of the event, at debug level, that is written for each reconcile: `plugin`, `key`, `outcome` (as the label `result` of
/// the metrics has it), `after` (a requeue's delay) and `milliseconds`. Nobody listens unless the log's filter names it.
pub const RECONCILES: &str = "pilothouse::reconciles";

/// The longest that a reconcile waits for the cache to show the plugin's own writes.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Numbers all calls of this process, for logs.
static CALLS: AtomicU64 = AtomicU64::new(1);

pub(crate) fn next_call_id() -> u64 {
    CALLS.fetch_add(1, Relaxed)
}

/// The worker that is always there.
pub(crate) async fn wait_for_keys(plugin: Arc<Plugin>) {
    loop {
        let item = tokio::select! {
            biased;
            () = plugin.stopping.cancelled() => break,
            item = led_to_key(&plugin) => item,
        };
        let Some(item) = item else { break };
        // Boxed, so that the waiting task stays small: there is one for each plugin.
        Box::pin(work(&plugin, item, false)).await;
    }
    plugin.worker_left();
}

/// Waits for a key when the host may call guests: what another host works on stays in the queue.
async fn led_to_key(plugin: &Plugin) -> Option<Key> {
    plugin.lead.led().await;
    plugin.next_key().await
}

/// A worker that stands by for keys that come while all others are in a call.
pub(crate) async fn help(plugin: Arc<Plugin>) {
    if let Some(item) = idle(&plugin).await {
        work(&plugin, item, true).await;
    }
    plugin.worker_left();
}

/// Waits for a key as long as an instance is kept warm; none when there was none, or the plugin stops.
async fn idle(plugin: &Plugin) -> Option<Key> {
    tokio::select! {
        biased;
        () = plugin.stopping.cancelled() => None,
        next = tokio::time::timeout(plugin.idle_ttl, plugin.next_key()) => next.ok().flatten(),
    }
}

/// An instance and the generation it belongs to.
pub(crate) struct Warm {
    generation: Arc<Generation>,
    instance: Instance,
}

impl Drop for Warm {
    fn drop(&mut self) {
        self.generation.instance_gone();
    }
}

/// Reconciles keys until none came for a while.
async fn work(plugin: &Arc<Plugin>, first: Key, helper: bool) {
    let mut warm: Option<Warm> = None;
    let mut item = first;
    // Keys that one call may have, where that is fewer than the guest asks for.
    let mut size = usize::MAX;
    loop {
        // Before the generation is looked up: a new one ends the rest, and the call is for it.
        plugin.rest().await;
        if plugin.stopping.is_cancelled() {
            plugin.queue.done(item);
            return;
        }
        let Some(generation) = plugin.current() else {
            plugin.queue.done(item);
            return;
        };
        if helper && plugin.workers() > generation.max_concurrent {
            // The limit was lowered: the others take the key.
            put_back(plugin, item);
            return;
        }
        let (generation, others) = if generation.batches {
            let others = batch::gather(plugin, &generation, size).await;
            (plugin.current(), others)
        } else {
            (Some(generation), Vec::new())
        };
        if let Some(generation) = &generation
            && generation.max_concurrent > 1
        {
            plugin.reinforce(generation.max_concurrent);
        }
        let generation = match generation {
            Some(generation) if plugin.writes.may_be_unmet() => read_own_writes(plugin, generation).await,
            generation => generation,
        };
        let Some(generation) = generation else {
            plugin.queue.done_batch(others.into_iter().chain([item]));
            return;
        };
        if !plugin.lead.leads() {
            others.into_iter().chain([item]).for_each(|item| put_back(plugin, item));
            return;
        }
        if generation.batches {
            size = batch::reconcile(plugin, &generation, &mut warm, item, others, size).await;
        } else {
            // They were gathered for a generation that another one has replaced since.
            others.into_iter().for_each(|item| put_back(plugin, item));
            reconcile(plugin, &generation, &mut warm, item).await;
        }
        drop(generation);
        // Other plugins' tasks get their turn.
        tokio::task::coop::consume_budget().await;
        // A key that waits in the queue is not under way.
        plugin.rest().await;
        item = match plugin.queue.try_get() {
            Some(item) => item,
            None => match idle(plugin).await {
                Some(item) => item,
                None => return,
            },
        };
    }
}

/// Leaves a key to others, with all that came with it.
fn put_back(plugin: &Plugin, item: Key) {
    add_again(plugin, &item);
    plugin.queue.done(item);
}

fn add_again(plugin: &Plugin, item: &Key) {
    plugin.queue.add_with(item.key.clone(), item.payload, item.priority);
}

/// Waits until the caches show what the plugin has written, a second at most, and answers the generation that works by then;
/// none when the plugin stops. Nothing of an instance is in use meanwhile, and other workers take other keys.
async fn read_own_writes(plugin: &Arc<Plugin>, mut generation: Arc<Generation>) -> Option<Arc<Generation>> {
    let began = Instant::now();
    loop {
        let waited = plugin.writes.wait(generation.services.caches(), Heed::Fresh, began + CATCH_UP);
        let waited = plugin.stopping.run_until_cancelled(waited).await?;
        if waited != Waited::NotAtAll {
            plugin.metrics.read_waits.observe(began.elapsed().as_secs_f64());
        }
        if waited == Waited::TimedOut {
            plugin.metrics.read_timeouts.inc();
            tracing::debug!(
                plugin = &*plugin.name,
                "timeout: the cache does not show the plugin's own writes yet"
            );
        }
        let current = plugin.current()?;
        // One that took over meanwhile may read other caches.
        if waited == Waited::TimedOut || current.number == generation.number {
            return Some(current);
        }
        generation = current;
    }
}

/// One call and what follows from it.
async fn reconcile(plugin: &Arc<Plugin>, generation: &Arc<Generation>, warm: &mut Option<Warm>, item: Key) {
    let call = Call::begin(plugin);
    let mut names = [""; 8];
    let outcome = match instance(plugin, generation, warm).await {
        Ok(instance) => instance.reconcile(&request(plugin, &item, &mut names), call.id).await,
        Err(fault) => Err(fault),
    };
    let took = call.end(plugin);
    told(plugin, &item.key, outcome.as_ref(), took);
    match outcome {
        Ok(answer) => {
            plugin.answered();
            match answer {
                Ok(outcome) => settle(plugin, &item, outcome),
                Err(failure) => {
                    let retry = failed(plugin, &item, &failure);
                    log(plugin, generation, &item.key, call.id, &failure.message, retry);
                }
            }
        }
        Err(fault) => {
            *warm = None;
            faulted(plugin, generation, &item.key, call.id, took, &fault);
            retry(plugin, &item);
        }
    }
    plugin.queue.done(item);
}

/// A call under way, as the metrics have it.
struct Call {
    id: u64,
    began: Instant,
}

impl Call {
    fn begin(plugin: &Plugin) -> Self {
        plugin.metrics.active_workers.inc();
        plugin.count_call();
        Self { id: next_call_id(), began: Instant::now() }
    }

    /// How long it took.
    fn end(&self, plugin: &Plugin) -> Duration {
        let took = self.began.elapsed();
        plugin.metrics.active_workers.dec();
        plugin.metrics.reconcile_time.observe(took.as_secs_f64());
        took
    }
}

/// What the guest is asked. The reasons lie in `names`.
fn request<'a>(plugin: &Plugin, item: &'a Key, names: &'a mut [&'static str; 8]) -> Request<'a> {
    let mut count = 0;
    for name in item.payload.names() {
        names[count] = name;
        count += 1;
    }
    Request { key: &item.key, attempt: plugin.queue.num_requeues(&item.key), reasons: &names[..count] }
}

/// Tells whoever listens. One load of an atomic while nobody does.
fn told(plugin: &Plugin, key: &ObjectKey, outcome: Result<&Answer, &Fault>, took: Duration) {
    tracing::debug!(
        target: RECONCILES,
        plugin = &*plugin.name,
        key = %key,
        outcome = label(outcome),
        after = delay(outcome).map(tracing::field::debug),
        milliseconds = took.as_secs_f64() * 1e3,
        "reconciled"
    );
}

/// A key whose call has faulted.
fn retry(plugin: &Plugin, item: &Key) {
    plugin.metrics.errors.inc();
    plugin.metrics.error.inc();
    requeue(plugin, item, AddOptions { rate_limited: true, ..AddOptions::default() });
}

/// Adds the key of a reconcile again, as controller-runtime does: a key that is queued already has that run only. Returns the
/// delay; none when the queue is shutting down.
fn requeue(plugin: &Plugin, item: &Key, options: AddOptions) -> Option<Duration> {
    let options = AddOptions { priority: item.priority, coalesce: true, ..options };
    plugin.queue.add_with_options(item.key.clone(), Reasons::REQUEUED, options)
}

/// What the metrics call an outcome.
fn label(outcome: Result<&Answer, &Fault>) -> &'static str {
    match outcome {
        Ok(Ok(Outcome::Done)) => "success",
        Ok(Ok(Outcome::Requeue)) => "requeue",
        Ok(Ok(Outcome::RequeueAfter(_))) => "requeue_after",
        Ok(Err(_)) | Err(_) => "error",
    }
}

fn delay(outcome: Result<&Answer, &Fault>) -> Option<Duration> {
    match outcome {
        Ok(Ok(Outcome::RequeueAfter(delay))) => Some(*delay),
        _ => None,
    }
}

/// The warm instance if it is of this generation, or a new one.
pub(crate) async fn instance<'a>(
    plugin: &Plugin,
    generation: &Arc<Generation>,
    warm: &'a mut Option<Warm>,
) -> Result<&'a mut Instance, Fault> {
    let usable = |warm: &Warm| warm.generation.number == generation.number && warm.instance.is_usable();
    if !warm.as_ref().is_some_and(usable) {
        *warm = None;
        let began = Instant::now();
        let instance =
            Instance::new(&generation.code, Arc::clone(&generation.services) as _, generation.limits).await?;
        generation.instance_made();
        plugin.metrics.instantiations.inc();
        plugin.metrics.instantiate_time.observe(began.elapsed().as_secs_f64());
        *warm = Some(Warm { generation: Arc::clone(generation), instance });
    }
    match warm {
        Some(warm) => Ok(&mut warm.instance),
        None => Err(Fault { kind: FaultKind::Instantiate, message: "no instance".to_owned() }),
    }
}

fn settle(plugin: &Plugin, item: &Key, outcome: Outcome) {
    match outcome {
        Outcome::Done => {
            plugin.metrics.success.inc();
            plugin.queue.forget(&item.key);
        }
        Outcome::Requeue => {
            plugin.metrics.requeue.inc();
            requeue(plugin, item, AddOptions { rate_limited: true, ..AddOptions::default() });
        }
        Outcome::RequeueAfter(delay) => {
            plugin.metrics.requeue_after.inc();
            plugin.queue.forget(&item.key);
            requeue(plugin, item, AddOptions { after: delay, ..AddOptions::default() });
        }
    }
}

/// The next try of a key that failed.
#[derive(Debug, Clone, Copy)]
enum Retry {
    /// None: the failure is terminal.
    Never,
    /// After this delay; none when the queue is shutting down and takes no key.
    After(Option<Duration>),
}

/// Requeues a key that failed, unless the failure is terminal.
fn failed(plugin: &Plugin, item: &Key, failure: &Failure) -> Retry {
    plugin.metrics.error.inc();
    plugin.metrics.errors.inc();
    if failure.terminal {
        plugin.metrics.terminal.inc();
        plugin.queue.forget(&item.key);
        return Retry::Never;
    }
    let at_least = failure.retry_after.unwrap_or(Duration::ZERO);
    Retry::After(requeue(plugin, item, AddOptions { rate_limited: true, at_least, ..AddOptions::default() }))
}

fn log(plugin: &Plugin, generation: &Generation, keys: &dyn Display, call: u64, message: &str, retry: Retry) {
    let (kind, retry_in) = match retry {
        Retry::Never => ("terminal", None),
        Retry::After(delay) => ("transient", delay),
    };
    tracing::warn!(
        event = "reconcile_failed", plugin = &*plugin.name,
        generation = generation.number,
        key = %keys,
        call,
        kind,
        retry_in = retry_in.map(tracing::field::debug),
        "reconcile failed: {}",
        clip(message)
    );
}

/// A fault of a guest, to which the plugin answers with a rest if there are many in a row.
pub(crate) fn faulted(
    plugin: &Plugin,
    generation: &Generation,
    key: &dyn Display,
    call: u64,
    took: Duration,
    fault: &Fault,
) {
    tell_fault(plugin, generation, key, call, took, fault);
    hold_against(plugin, generation, key, fault);
}

/// Counts and logs a fault.
fn tell_fault(
    plugin: &Plugin,
    generation: &Generation,
    key: &dyn Display,
    call: u64,
    took: Duration,
    fault: &Fault,
) {
    plugin.metrics.fault(fault.kind);
    tracing::error!(
        event = "plugin_fault", plugin = &*plugin.name,
        generation = generation.number,
        %key,
        call,
        fault = fault.kind.as_str(),
        ?took,
        "plugin fault: {fault}"
    );
}

/// One more fault in a row.
fn hold_against(plugin: &Plugin, generation: &Generation, key: &dyn Display, fault: &Fault) {
    if is_current(plugin, generation) {
        plugin.faulted(&format!("{key}: {fault}"));
    }
}

/// A fault beside calls that went well.
fn note_fault(plugin: &Plugin, generation: &Generation, key: &dyn Display, fault: &Fault) {
    if is_current(plugin, generation) {
        plugin.set_error(Some(format!("{key}: {fault}")));
    }
}

/// What a call of the generation before leaves behind says nothing about the one that took over.
fn is_current(plugin: &Plugin, generation: &Generation) -> bool {
    plugin.current().is_none_or(|current| current.number == generation.number)
}
