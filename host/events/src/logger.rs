//! [`EventLogger`]: counts how often an event was seen, and knows whether the server has it.

use std::sync::Arc;

use jiff::Timestamp;

use crate::event::Event;
use crate::keys::Key;
use crate::lru::{LruCache, lru_cache};
use crate::sink::Recorded;

#[derive(Debug)]
pub(crate) struct EventLogger {
    cache: LruCache<EventLog>,
}

#[derive(Debug, Default)]
struct EventLog {
    count: u32,
    first_timestamp: Timestamp,
    /// Name of the first occurrence, which all others are counted under.
    name: Arc<str>,
    /// Whether a sink has it, so that it is patched and not created.
    written: bool,
}

impl EventLogger {
    pub(crate) fn new(lru_cache_size: usize) -> Self {
        Self { cache: lru_cache(lru_cache_size) }
    }

    /// Counts the event, makes it the next occurrence of the one that is known, and says whether that was written.
    pub(crate) fn observe(&mut self, key: Key, event: &mut Event) -> bool {
        let log = self.cache.get_or_insert_mut(key, EventLog::default);
        if log.count == 0 {
            log.count = event.count;
            log.first_timestamp = event.first_timestamp;
            log.name = Arc::clone(&event.name);
        } else {
            // The API's number is a signed one.
            log.count = log.count.saturating_add(1).min(i32::MAX as u32);
            event.count = log.count;
            event.first_timestamp = log.first_timestamp;
            event.name = Arc::clone(&log.name);
        }
        log.written
    }

    /// Remembers how a sink has kept the event.
    pub(crate) fn update_state(&mut self, key: Key, recorded: Recorded) {
        let Recorded { count, first_timestamp, name } = recorded;
        self.cache.put(key, EventLog { count, first_timestamp, name, written: true });
    }
}
