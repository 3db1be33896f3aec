//! [`Generation`]: one loaded version of a plugin.
//!
//! Invariants: a generation is started at most once, after it became the plugin's current one; its listeners are registered
//! before those of the generation before are removed, so no change is missed in between. A call holds its generation, and
//! with it the informers and indexes that the call may read; they are released with the last such call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use pilothouse_plugin::{Description, Limits, Manifest, OnReload, World};
use tokio::runtime::Handle;

use crate::dispatch::guest::Component;
use crate::imports::plugin_imports::PluginImports;
use crate::lifecycle::feeds::Feeds;
use crate::lifecycle::plugin::Plugin;

/// Most concurrent reconciles that a plugin gets by asking; a manifest may grant more. Each may hold an instance with its
/// memory.
const DEFAULT_MAX_CONCURRENT: u32 = 16;

/// One loaded version of a plugin.
pub(crate) struct Generation {
    pub(crate) number: u64,
    pub(crate) code: Arc<dyn Component>,
    pub(crate) imports: Arc<PluginImports>,
    pub(crate) limits: Limits,
    pub(crate) max_concurrent: u32,
    /// Whether the component reconciles many keys in one call.
    pub(crate) batches: bool,
    pub(crate) description: Description,
    /// Events that guests may record in a second.
    pub(crate) event_qps: Option<f64>,
    pub(crate) on_reload: OnReload,
    /// Whether the component reconciles keys.
    reconciles: bool,
    feeds: Mutex<Feeds>,
    /// Live instances; the mapped code is dropped with the last.
    instances: AtomicUsize,
}

impl Generation {
    /// A generation that is not fed yet.
    pub(crate) fn new(
        number: u64,
        code: Arc<dyn Component>,
        world: World,
        imports: Arc<PluginImports>,
        description: Description,
        manifest: &Manifest,
    ) -> Self {
        let granted = manifest.limits.max_concurrent_reconciles.unwrap_or(DEFAULT_MAX_CONCURRENT);
        Self {
            number,
            code,
            imports,
            limits: manifest.limits.engine,
            max_concurrent: description.max_concurrent_reconciles.min(granted),
            batches: world.batches(),
            description,
            event_qps: manifest.limits.event_qps,
            on_reload: manifest.on_reload,
            reconciles: world.reconciles(),
            feeds: Mutex::default(),
            instances: AtomicUsize::new(0),
        }
    }

    /// Feeds this generation, which is the current one by now, in place of the one before.
    pub(crate) fn start(self: &Arc<Self>, plugin: &Arc<Plugin>, before: Option<&Arc<Self>>, io: &Handle) {
        let old = before.map(|generation| std::mem::take(&mut *generation.feeds.lock())).unwrap_or_default();
        let feeds = Feeds::take_over(plugin, self, before, old, io);
        *self.feeds.lock() = feeds;
        if self.reconciles {
            plugin.start_workers();
        }
    }

    /// Ends feeding: the plugin is retired.
    pub(crate) fn stop(&self) {
        std::mem::take(&mut *self.feeds.lock()).stop();
    }

    /// The feeds, as the next generation takes them over.
    #[cfg(test)]
    pub(super) fn take_feeds(&self) -> Feeds {
        std::mem::take(&mut *self.feeds.lock())
    }

    /// Queues the keys of all cached objects that the mapped watches show, and returns their number. The gate of the plugin is
    /// open.
    pub(crate) fn queue_all(&self) -> usize {
        self.feeds.lock().queue_all(&self.imports)
    }

    /// Drops old deletions from the rings of handlers on a standby, if that is `due` or a ring holds too many.
    pub(crate) fn rotate_tombstones(&self, due: bool) {
        self.feeds.lock().rotate_tombstones(due);
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
