//! [`Generation`]: one loaded version of a plugin.
//!
//! Invariants: a generation is started at most once, after it became the plugin's current one; its listeners are registered
//! before those of the generation before are removed, so no change is missed in between. A call holds its generation, and
//! with it the informers and indexes that the call may read; they are released with the last such call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_cache::EventFilter as _;
use pilothouse_object::ObjectKey;
use pilothouse_plugin::{DataLimits, Description, KeyMap, Limits, Manifest, OnReload, WatchSpec, World};

use crate::dispatch::backfill::BackfillPart;
use crate::dispatch::guest::Component;
use crate::dispatch::mapping::Filter;
use crate::dispatch::reasons::Reasons;
use crate::imports::plugin_imports::PluginImports;
use crate::lifecycle::feeds::Feeds;
use crate::lifecycle::load::Load;
use crate::lifecycle::plugin::Plugin;
use crate::lifecycle::rollback::Version;

/// One loaded version of a plugin.
pub(crate) struct Generation {
    pub(crate) number: u64,
    pub(crate) code: Arc<dyn Component>,
    /// What a rollback to this generation restores.
    pub(crate) version: Version,
    pub(crate) origin: Origin,
    pub(crate) imports: Arc<PluginImports>,
    pub(crate) limits: Limits,
    /// The limits of what data of the cluster may cost.
    pub(crate) data: DataLimits,
    pub(crate) max_concurrent: u32,
    /// Whether the component reconciles many keys in one call.
    pub(crate) batches: bool,
    pub(crate) description: Description,
    /// Share of the guest threads.
    pub(crate) cpu_weight: u32,
    /// Events that guests may record in a second.
    pub(crate) event_qps: f64,
    pub(crate) on_reload: OnReload,
    /// Whether the component reconciles keys.
    reconciles: bool,
    /// One of them shows a key that comes from a watch of the object itself; none where any key may come.
    key_filters: Option<Vec<Filter>>,
    feeds: Mutex<Feeds>,
    /// Live instances; the mapped code is dropped with the last.
    instances: AtomicUsize,
}

/// Where a generation comes from.
pub(crate) struct Origin {
    /// `sha256:…` of the manifest; empty without one.
    pub(crate) manifest_digest: String,
    pub(crate) manifest: Arc<Manifest>,
}

impl Generation {
    /// A generation that is not fed yet. Its instances are made of `code`, which is that of the load, or records it.
    pub(crate) fn new(
        load: &Load<'_>,
        code: Arc<dyn Component>,
        world: World,
        imports: Arc<PluginImports>,
        description: Description,
    ) -> Self {
        let manifest = load.manifest();
        let granted = manifest.limits.max_concurrent_reconciles;
        Self {
            number: load.number,
            code,
            version: load.version(),
            origin: Origin {
                manifest_digest: load.files.manifest_digest.clone(),
                manifest: Arc::clone(&load.files.manifest),
            },
            limits: manifest.limits.engine,
            data: manifest.limits.data,
            max_concurrent: description.max_concurrent_reconciles.min(granted),
            batches: world.batches(),
            cpu_weight: manifest.limits.cpu_weight,
            event_qps: manifest.limits.event_qps,
            on_reload: manifest.on_reload,
            reconciles: world.reconciles(),
            key_filters: key_filters(&imports, &description),
            imports,
            description,
            feeds: Mutex::default(),
            instances: AtomicUsize::new(0),
        }
    }

    /// Feeds this generation, which is the current one by now, in place of the one before.
    pub(crate) fn start(self: &Arc<Self>, plugin: &Arc<Plugin>, before: Option<&Arc<Self>>) {
        let old = before.map(|generation| std::mem::take(&mut *generation.feeds.lock())).unwrap_or_default();
        let feeds = Feeds::take_over(plugin, self, before, old);
        *self.feeds.lock() = feeds;
        plugin.start_worker_if_wanted();
    }

    /// Ends feeding: the plugin is retired.
    pub(crate) fn stop(&self) {
        std::mem::take(&mut *self.feeds.lock()).stop();
    }

    /// Ends feeding handlers: mapped watches are fed on.
    pub(crate) fn stop_handlers(&self) {
        self.feeds.lock().stop_handlers();
    }

    /// The handler watches whose failed events wait, and whether any event is to be delivered within this time.
    pub(crate) fn deliveries(&self, time: Duration) -> (usize, bool) {
        self.feeds.lock().deliveries(time)
    }

    /// The feeds, as the next generation takes them over.
    #[cfg(test)]
    pub(super) fn take_feeds(&self) -> Feeds {
        std::mem::take(&mut *self.feeds.lock())
    }

    /// All cached objects of the mapped watches, to be reconciled as if they had just been added.
    pub(crate) fn backfill(&self) -> Vec<BackfillPart> {
        self.feeds.lock().backfill(&self.imports)
    }

    /// Lets handlers have the events that waited for the term of this host.
    pub(crate) fn wake_pumps(&self) {
        self.feeds.lock().wake_pumps();
    }

    /// Failed events of handlers that have a time at which they come again.
    #[cfg(test)]
    pub(crate) fn retries_due(&self) -> usize {
        self.feeds.lock().retries_due()
    }

    /// Drops old deletions from the rings of handlers on a standby, if that is `due` or a ring holds too many.
    pub(crate) fn rotate_tombstones(&self, due: bool) {
        self.feeds.lock().rotate_tombstones(due);
    }

    /// Workers that reconcile keys at the same time.
    pub(crate) fn max_workers(&self) -> u32 {
        if self.reconciles { self.max_concurrent } else { 0 }
    }

    /// Instances that reconciles and handlers borrow from: one for each concurrent reconcile, and one more for handlers.
    pub(crate) fn max_instances(&self) -> u32 {
        self.max_concurrent + u32::from(self.description.watches.iter().any(WatchSpec::is_handled))
    }

    /// Whether a key of the queue may be reconciled under the grants in force. One that came from a watch may have been
    /// queued under those of an earlier generation; one that the guest asked for is its own.
    pub(crate) fn may_reconcile(&self, key: &ObjectKey, reasons: Reasons) -> bool {
        let Some(filters) = &self.key_filters else { return true };
        !reasons.are_of_the_object() || filters.iter().any(|filter| filter.shows_key(key))
    }

    /// Keys that one call may have.
    pub(crate) fn batch_max(&self) -> usize {
        if self.batches { self.description.batch.max as usize } else { 1 }
    }

    /// An instance was made.
    pub(crate) fn instance_made(&self) {
        self.instances.fetch_add(1, Ordering::AcqRel);
    }

    /// An instance was dropped.
    pub(crate) fn instance_dropped(&self) {
        if self.instances.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.code.unload();
        }
    }
}

/// The filters of the watches whose objects are the keys. None if keys come from elsewhere too, as from an owner, or if all
/// keys are shown.
fn key_filters(imports: &PluginImports, description: &Description) -> Option<Vec<Filter>> {
    // All keys of a kind are those of another watch.
    let maps = |watch: &WatchSpec| !watch.is_handled() && !matches!(watch.maps[..], [KeyMap::AllKeys(_)]);
    let mapped = description.watches.iter().filter(|watch| maps(watch));
    let are_own_keys = |map: &KeyMap| matches!(map, KeyMap::Itself | KeyMap::AllKeys(_));
    let filters = mapped.map(|watch| match imports.kind(&watch.kind) {
        Some(view) if watch.maps.iter().all(are_own_keys) => Some(view.filter(watch, Arc::default())),
        _ => None,
    });
    let filters = filters.collect::<Option<Vec<_>>>()?;
    let is_open = |filter: &Filter| {
        filter.visible.sees_all() && filter.rights.are_unlimited() && filter.namespaces.is_empty()
    };
    (!filters.is_empty() && !filters.iter().any(is_open)).then_some(filters)
}
