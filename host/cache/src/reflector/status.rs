//! [`ReflectorStatus`]: how a reflector fares, and the counters behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_client::Error;

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
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) last_error: Mutex<Option<Error>>,
    pub(crate) version: Mutex<Arc<str>>,
    pub(crate) lists: AtomicU64,
    pub(crate) list_failures: AtomicU64,
    pub(crate) list_pages: AtomicU64,
    pub(crate) listed_items: AtomicU64,
    list_micros: AtomicU64,
    pub(crate) watches: AtomicU64,
    pub(crate) short_watches: AtomicU64,
    pub(crate) watch_failures: AtomicU64,
    pub(crate) watched_events: AtomicU64,
    pub(crate) bookmarks: AtomicU64,
}

impl Shared {
    pub(crate) fn status(&self, synced: bool) -> ReflectorStatus {
        ReflectorStatus {
            last_error: self.last_error.lock().clone(),
            synced,
            last_resource_version: self.version.lock().clone(),
            lists: get(&self.lists),
            watches: get(&self.watches),
        }
    }

    pub(crate) fn add_list_time(&self, took: Duration) {
        self.list_micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn list_time(&self) -> Duration {
        Duration::from_micros(get(&self.list_micros))
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
