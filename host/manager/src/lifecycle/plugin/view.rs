//! A plugin as it is seen from outside: its line in the list of all, and all that is known of it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::Ordering::Relaxed;

use jiff::Timestamp;
use pilothouse_plugin::{BOUNDS, KeyMap, PluginLimits, WatchSpec};
use tokio::time::Instant;

use super::Plugin;
use crate::lifecycle::generation::{Generation, Origin};
use crate::lifecycle::informers::refused_watch;
use crate::observe::detail::{CurrentView, GenerationView, InformerView, LimitView, PluginDetail, WatchView};
use crate::observe::metrics::atomics::AtomicCounter;
use crate::observe::status::{PluginState, PluginStatus};
use crate::observe::usage::Usage;

/// Makes the digests of configurations of this process.
static CONFIG_DIGESTS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A time of the clock, as text.
fn time(at: Instant) -> Option<String> {
    let left = at.saturating_duration_since(Instant::now());
    Timestamp::now().checked_add(left).ok().map(|time| time.to_string())
}

impl Plugin {
    /// Whether an operator has paused the plugin.
    pub(crate) fn is_paused(&self) -> bool {
        self.state.is_paused()
    }

    /// Whether the plugin is in quarantine.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.state.is_quarantined()
    }

    /// The plugin as `/plugins` shows it.
    pub(crate) fn status(&self) -> PluginStatus {
        let view = self.state.view();
        let refused_watch = || refused_watch(&self.current()?.imports);
        let refused_watch = if view.state == PluginState::Running { refused_watch() } else { None };
        PluginStatus {
            name: self.name.to_string(),
            generation: view.generation,
            digest: view.digest,
            state: if refused_watch.is_some() { PluginState::Waiting } else { view.state },
            last_error: view.last_error,
            warnings: self
                .current()
                .map(|generation| generation.imports.warnings.texts())
                .unwrap_or_default(),
            waiting_for: refused_watch.or(view.waiting_for),
            next_try: view.next_try.and_then(time),
            host_condition: view.host_condition,
            rolled_back: view.rolled_back,
            calls: self.calls.load(Relaxed),
            queue_depth: self.queue.len(),
            shard: self.election.shard(),
            holder: self.election.holder(),
        }
    }

    /// What the plugin has done, and what it uses.
    pub(crate) fn usage(&self) -> Usage {
        let used = self.instances.used();
        let metrics = &self.metrics;
        let results = [&metrics.success, &metrics.error, &metrics.requeue, &metrics.requeue_after];
        Usage {
            reconciles: results.into_iter().map(AtomicCounter::get).sum(),
            events: metrics.handled.get(),
            failures: metrics.errors.get() + metrics.failed_events.get(),
            reconcile_time: metrics.reconcile_time.spread().into(),
            cpu_seconds: self.group.cpu_time().as_secs_f64(),
            memory_bytes: used.memory,
            instances: used.leased + used.idle,
            in_flight: used.leased,
            queue_delayed: self.queue.len_delayed(),
        }
    }

    /// The plugin as `/plugins/NAME` shows it.
    pub(crate) fn detail(&self) -> PluginDetail {
        let view = self.state.view();
        PluginDetail {
            status: self.status(),
            usage: self.usage(),
            last_good: view.last_good.map(|(generation, digest)| GenerationView { generation, digest }),
            quarantined_until: view.pause_ends.and_then(time),
            errors: self.errors.lock().view(),
            current: self.current().map(|generation| self.current_view(&generation)),
        }
    }

    fn current_view(&self, generation: &Generation) -> CurrentView {
        let Origin { manifest_digest, manifest } = &generation.origin;
        let account = manifest.service_account.as_ref();
        let digest = CONFIG_DIGESTS.hash_one(&**generation.version.config.json());
        CurrentView {
            manifest_digest: manifest_digest.clone(),
            config_digest: format!("{digest:016x}"),
            service_account: account.map(|account| format!("{}/{}", account.namespace, account.name)),
            grants: generation.imports.api_calls.grants.rules().to_vec(),
            remote_clusters: generation.imports.remote_clusters.view(),
            watches: generation
                .description
                .watches
                .iter()
                .map(|watch| watch_view(generation, watch))
                .collect(),
            limits: self.limits(generation, &manifest.limits),
        }
    }

    fn limits(&self, generation: &Generation, limits: &PluginLimits) -> Vec<LimitView> {
        let used = |name: &str| match name {
            "queueDepth" => Some(self.queue.len().to_string()),
            "maxConcurrentReconciles" => Some(self.workers.running().to_string()),
            "informers" => Some(generation.imports.caches().count().to_string()),
            _ => None,
        };
        let limit = |bound: &pilothouse_plugin::Bound| LimitView {
            name: bound.name.to_owned(),
            limit: bound.get(limits).map(|value| bound.unit.write(value)),
            used: used(bound.name),
        };
        BOUNDS.iter().map(limit).collect()
    }
}

fn watch_view(generation: &Generation, watch: &WatchSpec) -> WatchView {
    let map = |map: &KeyMap| match map {
        KeyMap::Itself => "self",
        KeyMap::Handler => "handler",
        KeyMap::Owner { .. } => "owner",
        KeyMap::Label { .. } => "label",
        KeyMap::Annotation { .. } => "annotation",
        KeyMap::Field { .. } => "field",
        KeyMap::AllKeys(_) => "allKeys",
    };
    let map = watch.maps.iter().map(map).collect::<Vec<_>>().join(", ");
    let leases = generation.imports.kind(&watch.kind).map_or(&[][..], |view| &view.leases);
    let informers = leases.iter().map(|lease| InformerView {
        namespace: lease.id().namespace.clone(),
        name: lease.id().name.clone(),
        objects: lease.indexer().len(),
        error: lease.status().reflector.last_error.map(|error| error.to_string()),
    });
    WatchView { kind: watch.kind.to_string(), map, informers: informers.collect() }
}
