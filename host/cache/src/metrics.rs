//! [`InformerMetrics`]: the figures of one informer, read at once.
//!
//! Plain numbers: the host turns them into metrics of its own names. They live in the informer and go with it, so
//! there is nothing to unregister.

use std::sync::Arc;
use std::time::Duration;

/// The figures of one informer. Those named `_total` grow from its start.
#[derive(Debug, Clone, Default)]
pub struct InformerMetrics {
    /// Lists begun.
    pub reflector_lists_total: u64,
    /// Lists that failed.
    pub reflector_list_failures_total: u64,
    /// Pages asked for.
    pub reflector_list_pages_total: u64,
    /// Time spent in lists.
    pub reflector_list_duration_total: Duration,
    /// Objects in all lists.
    pub reflector_items_listed_total: u64,
    /// Watches begun.
    pub reflector_watches_total: u64,
    /// Watches that ended within a second without an event.
    pub reflector_short_watches_total: u64,
    /// Watches that could not be opened or broke.
    pub reflector_watch_failures_total: u64,
    /// Events of all watches, bookmarks not counted.
    pub reflector_items_watched_total: u64,
    /// Bookmarks of all watches.
    pub reflector_bookmarks_total: u64,
    /// The version that the next watch or list goes on from.
    pub reflector_last_resource_version: Arc<str>,
    /// The version up to which the store is complete.
    pub store_resource_version: Arc<str>,
    /// Objects in the store.
    pub objects: usize,
    /// Deltas between the reflector and the store.
    pub queued_deltas: usize,
    /// Listeners.
    pub listeners: usize,
    /// Changes that listeners hold and have not dealt with, over all of them.
    pub listener_depth: usize,
    /// Changes told to listeners (one for each listener).
    pub notifications_total: u64,
    /// Calls of listeners that panicked.
    pub listener_panics_total: u64,
    /// Resyncs.
    pub resyncs_total: u64,
}
