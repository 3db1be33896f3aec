//! [`EventAggregator`]: notices events that are similar and tells when there are so many that one is to stand for all.
//!
//! Of each set of similar events it keeps the keys of fewer than `max_events` different ones. One that makes the set full is not
//! kept: so those that were there first stay events of their own and go on counting, and all others are combined. (client-go drops
//! any of them.)

use std::time::Duration;

use crate::keys::Key;
use crate::lru::{LruCache, lru_cache};

/// The largest `max_events` with which events are combined: the keys of a set are searched one by one.
pub(crate) const MOST_EVENTS: usize = 1024;

#[derive(Debug)]
pub(crate) struct EventAggregator {
    cache: LruCache<AggregateRecord>,
    max_events: usize,
    /// In nanoseconds.
    max_interval: i128,
}

#[derive(Debug)]
struct AggregateRecord {
    local_keys: Vec<Key>,
    /// When the last one came, in nanoseconds since 1970.
    last: i128,
}

impl EventAggregator {
    pub(crate) fn new(lru_cache_size: usize, max_events: usize, max_interval: Duration) -> Self {
        Self {
            cache: lru_cache(lru_cache_size),
            max_events: max_events.max(1),
            max_interval: i128::try_from(max_interval.as_nanos()).unwrap_or(i128::MAX),
        }
    }

    /// Whether the event is to be combined with similar ones. `now` is in nanoseconds since 1970.
    pub(crate) fn is_aggregated(&mut self, aggregate: Key, local: Key, now: i128) -> bool {
        if self.max_events > MOST_EVENTS {
            return false;
        }
        let fresh = || AggregateRecord { local_keys: Vec::new(), last: now };
        let record = self.cache.get_or_insert_mut(aggregate, fresh);
        if now - record.last > self.max_interval {
            record.local_keys.clear();
        }
        record.last = now;
        if record.local_keys.contains(&local) {
            return false;
        }
        if record.local_keys.len() + 1 >= self.max_events {
            return true;
        }
        record.local_keys.push(local);
        false
    }
}
