//! [`SeriesCache`]: events that are the same but for time and text, as events.k8s.io/v1 puts them into series. Without tasks or clocks.
//!
//! Invariants: an entry has a series from its second occurrence on; `written` is the count that the server is known to have; at most
//! `capacity` entries, and one that has to go is handed out if the server does not have all its count. (client-go's cache is
//! unbounded, and nothing limits how many events an object gets.)

use std::time::Duration;

use jiff::Timestamp;

use crate::event::{Event, EventSeries};
use crate::keys::{Key, Keyer};
use crate::lru::LruCache;
use crate::options::CorrelatorOptions;
use crate::reference::ObjectReference;
use crate::spam_filter::EventSourceObjectSpamFilter;

/// After how long without another occurrence a series is finished, as in client-go.
pub(crate) const FINISH_TIME: Duration = Duration::from_secs(6 * 60);

#[derive(Debug)]
pub(crate) struct SeriesCache {
    options: CorrelatorOptions,
    keyer: Keyer,
    entries: LruCache<Entry>,
    spam_filter: EventSourceObjectSpamFilter,
}

#[derive(Debug)]
struct Entry {
    event: Event,
    last_observed: Timestamp,
    /// Occurrences that the server has.
    written: u32,
    /// Whether the last write is under way.
    finishing: bool,
}

/// What an event is.
#[derive(Debug, PartialEq)]
pub(crate) enum Observed {
    /// The first of its kind: to be created. An event that had to make room for it is to be written, if its count is not yet.
    First { key: Key, event: Event, displaced: Option<(Key, Event)> },
    /// The second: the beginning of a series, to be written.
    Second { key: Key, event: Event },
    /// A further one: counted.
    Counted,
    /// One too many new ones of its source about this object.
    Filtered,
}

impl Entry {
    fn count(&self) -> u32 {
        self.event.series.map_or(1, |series| series.count)
    }

    fn is_written(&self) -> bool {
        self.event.series.is_none() || self.written >= self.count()
    }
}

impl SeriesCache {
    pub(crate) fn new(options: CorrelatorOptions) -> Self {
        let size = options.lru_cache_size;
        Self {
            keyer: Keyer::new(),
            entries: LruCache::new(size),
            spam_filter: EventSourceObjectSpamFilter::new(size, options.burst_size, options.qps),
            options,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    /// Takes an event in.
    pub(crate) fn observe(&mut self, event: Event, now: Timestamp) -> Observed {
        let key = self.key(&event);
        if let Some(entry) = self.entries.get_mut(key) {
            entry.last_observed = now;
            let further = entry.event.series.is_some();
            let count = entry.count().saturating_add(1).min(i32::MAX as u32);
            entry.event.series = Some(EventSeries { count, last_observed_time: now });
            if further {
                return Observed::Counted;
            }
            return Observed::Second { key, event: entry.event.clone() };
        }
        let mut spam = self.keyer.source_and_object(&event);
        match &self.options.spam_key_func {
            None => {
                spam.part(event.body.event_type.as_str());
            }
            Some(parts) => {
                spam = self.keyer.builder();
                parts(&event, &mut spam);
            }
        }
        if self.spam_filter.filter(spam.finish(), now.as_nanosecond()) {
            return Observed::Filtered;
        }
        let entry = Entry { event: event.clone(), last_observed: now, written: 0, finishing: false };
        let displaced = self.entries.insert(key, entry).filter(|entry| !entry.is_written());
        let displaced = displaced.map(|entry| (self.key(&entry.event), entry.event));
        Observed::First { key, event, displaced }
    }

    /// Takes back what [`observe`](Self::observe) has begun, as it cannot be written.
    pub(crate) fn take_back(&mut self, key: Key) {
        match self.entries.peek_mut(key) {
            Some(entry) if entry.count() > 1 => entry.event.series = None,
            _ => {
                self.entries.remove(key);
            }
        }
    }

    /// Remembers that a write with this count has ended, well or not; the last one of an event that was not seen since removes it.
    pub(crate) fn written(&mut self, key: Key, count: u32, stored: bool) {
        let Some(entry) = self.entries.peek_mut(key) else { return };
        if stored {
            entry.written = entry.written.max(count);
        }
        let finished = std::mem::take(&mut entry.finishing) && stored && entry.count() == count;
        if finished {
            self.entries.remove(key);
        }
    }

    /// Forgets single events that were not seen again, and gives the series that were not: to be written a last time.
    pub(crate) fn finish(&mut self, now: Timestamp) -> Vec<(Key, Event)> {
        let mut single = Vec::new();
        let mut series = Vec::new();
        for (key, entry) in self.entries.iter_mut() {
            let idle = now.duration_since(entry.last_observed);
            if entry.finishing || idle <= FINISH_TIME.try_into().unwrap_or(jiff::SignedDuration::MAX) {
                continue;
            }
            if entry.event.series.is_none() {
                single.push(key);
            } else {
                entry.finishing = true;
                series.push((key, entry.event.clone()));
            }
        }
        for key in single {
            self.entries.remove(key);
        }
        series
    }

    /// That a last write could not even begin: it will another time.
    pub(crate) fn not_finishing(&mut self, key: Key) {
        if let Some(entry) = self.entries.peek_mut(key) {
            entry.finishing = false;
        }
    }

    /// All series, to be written again so that the server does not forget them.
    pub(crate) fn refresh(&mut self) -> Vec<(Key, Event)> {
        let series =
            self.entries.iter_mut().filter(|(_, entry)| entry.event.series.is_some() && !entry.finishing);
        series.map(|(key, entry)| (key, entry.event.clone())).collect()
    }

    /// The series of which the server does not have the whole count.
    pub(crate) fn unwritten(&mut self) -> Vec<(Key, Event)> {
        let unwritten = self.entries.iter_mut().filter(|(_, entry)| !entry.is_written());
        unwritten.map(|(key, entry)| (key, entry.event.clone())).collect()
    }

    /// Events are the same in all but time, text and annotations.
    fn key(&self, event: &Event) -> Key {
        let body = &*event.body;
        let mut key = self.keyer.builder();
        key.part(body.event_type.as_str())
            .part(&body.action)
            .part(&body.reason)
            .part(&body.source.component)
            .part(&body.source.reporting_instance);
        let related = body.related.as_deref();
        for reference in [Some(&*body.regarding), related].into_iter().flatten() {
            let ObjectReference { api_version, kind, namespace, name, uid, resource_version, field_path } =
                reference;
            for part in [api_version, kind, namespace, name, uid, resource_version, field_path] {
                key.part(part);
            }
        }
        key.finish()
    }
}
