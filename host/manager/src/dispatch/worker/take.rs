//! From one key of the queue to the keys of a call, and the generation that the call is for.
//!
//! Invariants: each key that was taken is either in the returned [`Taken`], or back in the queue or done, also after a panic
//! ([`KeysInProgress`]); the keys in it may be reconciled under the grants of its generation.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_engine::FaultKind;
use pilothouse_workqueue::Verdict;
use smallvec::{SmallVec, smallvec};
use tokio::time::Instant;

use super::parts::BatchSize;
use super::{Key, outcome};
use crate::dispatch::instance_pool::WarmInstance;
use crate::dispatch::writes::{WaitOutcome, WaitScope};
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;
use crate::lifecycle::state::CallKind;
use crate::lifecycle::tracker::CallPermit;

/// The longest that a reconcile waits until the cache shows the plugin's own writes.
const READ_YOUR_WRITES_TIMEOUT: Duration = Duration::from_secs(1);

/// Keys that are looked at for the probe of a quarantine.
const MAX_PROBE_CANDIDATES: usize = 64;

/// Keys to reconcile, and the generation that reconciles them. There are none if no key that was taken is granted any more.
pub(super) struct Taken<'a> {
    pub(super) generation: Arc<Generation>,
    pub(super) keys: KeysInProgress<'a>,
    /// Held until the outcome of the round is recorded.
    pub(super) permit: CallPermit,
}

/// Keys that were taken from the queue. Those that are not [finished](Self::finish), as after a panic, are tried again after
/// a backoff.
pub(super) struct KeysInProgress<'a> {
    plugin: &'a Plugin,
    items: Keys,
}

/// Without an allocation for a single one.
type Keys = SmallVec<[Key; 1]>;

impl KeysInProgress<'_> {
    pub(super) fn items(&mut self) -> &mut [Key] {
        &mut self.items
    }

    /// Ends the progress of the keys: gives those back that have not been given back with their outcome.
    pub(super) fn finish(mut self) {
        let mut items = mem::take(&mut self.items);
        match items.pop() {
            Some(item) if items.is_empty() => self.plugin.queue().done(item),
            last => self.plugin.queue().done_batch(items.into_iter().chain(last)),
        }
    }

    /// Drops the keys that were queued under wider grants than those of this generation.
    fn drop_ungranted(&mut self, generation: &Generation) {
        self.items.retain(|item| {
            let is_granted = generation.may_reconcile(&item.key, item.payload);
            if !is_granted {
                self.plugin.queue().finish(item, Verdict::Done);
            }
            is_granted
        });
    }

    /// Leaves the keys of a plugin without a generation: to its successor if it was retired for one, to nobody otherwise.
    fn leave(self) {
        match self.plugin.is_stopping() {
            true => self.put_back(),
            false => self.finish(),
        }
    }

    /// Leaves the keys to other workers. A queue that is shut takes none.
    fn put_back(self) {
        self.items.iter().for_each(|item| add_again(self.plugin, item));
        self.finish();
    }
}

impl Drop for KeysInProgress<'_> {
    fn drop(&mut self) {
        let items = mem::take(&mut self.items);
        if !items.is_empty() {
            outcome::record_backoff(self.plugin, &items, FaultKind::HostBusy);
            self.plugin.queue().done_batch(items);
        }
    }
}

/// Waits until `first` and the keys gathered with it may be reconciled. None when the worker is to end: the plugin stops,
/// or the host is not the leader. The lease of `warm` ends if a quarantine has to be waited for.
pub(super) async fn take<'a>(
    plugin: &'a Arc<Plugin>,
    first: Key,
    size: BatchSize,
    warm: &mut WarmInstance,
) -> Option<Taken<'a>> {
    let mut keys = KeysInProgress { plugin, items: smallvec![first] };
    // Before the generation is looked up: a new one ends the quarantine, and the call is for it.
    let permit = plugin.quarantine_pause(CallKind::Reconcile, || warm.release()).await;
    let Some(mut generation) = working_generation(plugin) else {
        keys.leave();
        return None;
    };
    if permit.is_probe() {
        choose_probe(plugin, &mut keys.items[0]);
    } else if size.limit(generation.batch_max()) > 1 {
        gather(plugin, &generation, size, &mut keys.items).await;
        // Another generation may have taken over meanwhile.
        let Some(current) = plugin.current() else {
            keys.leave();
            return None;
        };
        generation = current;
    }
    if generation.max_concurrent > 1 {
        // For keys that came together with these, and for those of the first list.
        plugin.start_another_worker();
    }
    let Some(generation) = read_own_writes(plugin, generation).await else {
        keys.leave();
        return None;
    };
    if !plugin.election().is_leader() {
        keys.put_back();
        return None;
    }
    keys.drop_ungranted(&generation);
    Some(Taken { generation, keys, permit })
}

/// Drops all keys of the queue of a plugin that was retired for a successor, delayed ones as well, with their failures. The
/// gate keeps those of objects that are gone for the successor, whose term adds the keys of all cached objects.
pub(crate) fn drop_all_keys(plugin: &Plugin) {
    plugin.queue().expedite_all(|_| true);
    while let Some(mut item) = plugin.queue().try_get() {
        if item.payload.are_of_gone() {
            plugin.gate().add_deleted(item.key.clone(), item.payload);
        }
        plugin.queue().finish(&mut item, Verdict::Done);
    }
}

/// Adds a key to the queue again, with its reasons and priority.
pub(super) fn add_again(plugin: &Plugin, item: &Key) {
    plugin.queue().add_with(item.key.clone(), item.payload, item.priority);
}

/// The current generation, unless the plugin stops.
fn working_generation(plugin: &Plugin) -> Option<Arc<Generation>> {
    if plugin.is_stopping() { None } else { plugin.current() }
}

/// Exchanges a key that faulted before for one of the next keys that did not, if there is one: the fault of such a key says
/// nothing new about the plugin.
fn choose_probe(plugin: &Plugin, probe: &mut Key) {
    let mut passed = KeysInProgress { plugin, items: Keys::new() };
    while passed.items.len() < MAX_PROBE_CANDIDATES && plugin.is_failing(CallKind::Reconcile, &probe.key) {
        let Some(next) = plugin.queue().try_get() else { break };
        passed.items.push(mem::replace(probe, next));
    }
    passed.put_back();
}

/// Takes more keys: as many as one call may have, and no longer than the generation lets the first one wait.
async fn gather(plugin: &Plugin, generation: &Generation, size: BatchSize, items: &mut Keys) {
    let limit = size.limit(generation.batch_max());
    let linger = generation.description.batch.linger;
    let until = Instant::now() + linger;
    while items.len() < limit {
        let next = match plugin.queue().try_get() {
            Some(item) => Some(item),
            None if linger.is_zero() => None,
            None => {
                let next = tokio::time::timeout_at(until, plugin.queue().get());
                plugin.stopping().run_until_cancelled(next).await.and_then(Result::ok).flatten()
            }
        };
        let Some(item) = next else { break };
        items.push(item);
    }
}

/// Waits until the caches show the plugin's own writes, a second at most. Returns the generation that is current by then; none
/// when the plugin stops. The worker keeps its lease meanwhile, and other workers take other keys.
async fn read_own_writes(plugin: &Arc<Plugin>, mut generation: Arc<Generation>) -> Option<Arc<Generation>> {
    if !plugin.writes().may_be_unmet() {
        return Some(generation);
    }
    let began = Instant::now();
    loop {
        let until = began + READ_YOUR_WRITES_TIMEOUT;
        let wait = plugin.writes().wait(generation.imports.caches(), WaitScope::Fresh, until);
        let outcome = plugin.stopping().run_until_cancelled(wait).await?;
        if outcome != WaitOutcome::NotNeeded {
            plugin.metrics().read_waits.observe(began.elapsed().as_secs_f64());
        }
        if outcome == WaitOutcome::TimedOut {
            plugin.metrics().read_timeouts.inc();
            tracing::debug!(
                plugin = &**plugin.name(),
                "timeout: the cache does not show the plugin's own writes yet"
            );
        }
        let current = plugin.current()?;
        // A generation that took over meanwhile may read other caches.
        if outcome == WaitOutcome::TimedOut || current.number == generation.number {
            return Some(current);
        }
        generation = current;
    }
}
