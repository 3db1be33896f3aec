//! [`ReflectorStatus`]: how a reflector fares, and the counters behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use pilothouse_client::Error;
use tokio::sync::watch;

use crate::metrics::{Histogram, InformerMetrics};
use crate::version::ResourceVersion;

/// How a reflector fares.
#[derive(Debug, Clone, Default)]
pub struct ReflectorStatus {
    /// Why the last list or watch failed; `None` since one went well. Its predicates tell a missing permission
    /// (`is_forbidden`) and a kind that is not served (`is_not_found`) from faults.
    pub last_error: Option<Error>,
    /// Whether the first list has been handled by the informer.
    pub synced: bool,
    /// The version that the next watch or list goes on from; empty before the first list.
    pub last_resource_version: Arc<str>,
    /// Lists begun.
    pub lists: u64,
    /// Watches begun.
    pub watches: u64,
}

/// What a reflector shares with whoever looks at it.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Name of the cluster, for the log.
    cluster: Option<Arc<str>>,
    pub(crate) last_error: Mutex<Option<Error>>,
    pub(crate) version: Mutex<ResourceVersion>,
    /// Sent to when a list is wanted.
    pub(super) relist: watch::Sender<()>,
    /// A list was asked for and none has come since: kept from one reflector to the next.
    pub(crate) list_wanted: AtomicBool,
    pub(super) lists: AtomicU64,
    pub(super) list_failures: AtomicU64,
    pub(super) list_pages: AtomicU64,
    pub(super) list_duration: Mutex<Histogram>,
    pub(super) items_per_list: Mutex<Histogram>,
    pub(super) watches: AtomicU64,
    pub(super) short_watches: AtomicU64,
    pub(super) watch_failures: AtomicU64,
    pub(super) watch_duration: Mutex<Histogram>,
    pub(super) items_per_watch: Mutex<Histogram>,
    pub(super) watched_events: AtomicU64,
    pub(super) bookmarks: AtomicU64,
    pub(super) skipped_events: AtomicU64,
    pub(super) transform_errors: AtomicU64,
    pub(super) inconsistent_watch_lists: AtomicU64,
    /// How long work from the queue takes: the informer's.
    pub(crate) processing_latency: Mutex<Histogram>,
}

impl Shared {
    pub(crate) fn new(cluster: Option<Arc<str>>) -> Self {
        let histogram = |bounds| Mutex::new(Histogram::new(bounds));
        Self {
            cluster,
            last_error: Mutex::default(),
            version: Mutex::default(),
            relist: watch::Sender::new(()),
            list_wanted: AtomicBool::new(false),
            lists: AtomicU64::default(),
            list_failures: AtomicU64::default(),
            list_pages: AtomicU64::default(),
            list_duration: histogram(Histogram::LIST_SECONDS),
            items_per_list: histogram(Histogram::ITEMS),
            watches: AtomicU64::default(),
            short_watches: AtomicU64::default(),
            watch_failures: AtomicU64::default(),
            watch_duration: histogram(Histogram::WATCH_SECONDS),
            items_per_watch: histogram(Histogram::ITEMS),
            watched_events: AtomicU64::default(),
            bookmarks: AtomicU64::default(),
            skipped_events: AtomicU64::default(),
            transform_errors: AtomicU64::default(),
            inconsistent_watch_lists: AtomicU64::default(),
            processing_latency: histogram(Histogram::PROCESSING_SECONDS),
        }
    }

    /// Name of the cluster, for the log; none where there is one alone.
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    pub(crate) fn status(&self, synced: bool) -> ReflectorStatus {
        ReflectorStatus {
            last_error: self.last_error.lock().clone(),
            synced,
            last_resource_version: self.version.lock().to_text(),
            lists: get(&self.lists),
            watches: get(&self.watches),
        }
    }

    /// Makes the reflector list again.
    pub(crate) fn ask_for_list(&self) {
        self.list_wanted.store(true, Ordering::Relaxed);
        self.relist.send_replace(());
    }

    /// Its share of an informer's figures.
    pub(crate) fn metrics(&self) -> InformerMetrics {
        InformerMetrics {
            reflector_lists_total: get(&self.lists),
            reflector_list_failures_total: get(&self.list_failures),
            reflector_list_pages_total: get(&self.list_pages),
            reflector_list_duration_seconds: self.list_duration.lock().clone(),
            reflector_items_per_list: self.items_per_list.lock().clone(),
            reflector_watches_total: get(&self.watches),
            reflector_short_watches_total: get(&self.short_watches),
            reflector_watch_failures_total: get(&self.watch_failures),
            reflector_watch_duration_seconds: self.watch_duration.lock().clone(),
            reflector_items_per_watch: self.items_per_watch.lock().clone(),
            reflector_items_watched_total: get(&self.watched_events),
            reflector_bookmarks_total: get(&self.bookmarks),
            reflector_skipped_events_total: get(&self.skipped_events),
            reflector_transform_errors_total: get(&self.transform_errors),
            reflector_inconsistent_watch_lists_total: get(&self.inconsistent_watch_lists),
            reflector_last_resource_version: self.version.lock().to_text(),
            informer_processing_latency_seconds: self.processing_latency.lock().clone(),
            ..InformerMetrics::default()
        }
    }
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Reads a counter.
pub(crate) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
