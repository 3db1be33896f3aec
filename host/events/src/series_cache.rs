//! [`SeriesCache`]: events that are the same but for time and text, as events.k8s.io/v1 puts them into series. Without tasks or clocks.
//!
//! Invariants: an entry has a series from its second occurrence on; `written` is the count that the server is known to have; at most
//! `capacity` entries, and one that has to go is handed out if the server does not have all its count. (client-go's cache is
//! unbounded, and nothing limits how many events an object gets.)

use std::time::Duration;

use jiff::Timestamp;

use crate::delivery::NotStored;
use crate::event::{Event, EventSeries};
use crate::keys::{Key, Keyer};
use crate::lru::{LruCache, lru_cache};
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
    /// Why the server is to be brought up to date; until that was tried.
    upkeep: Option<Upkeep>,
}

/// Why a series is written that no event waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upkeep {
    /// The server would forget it.
    Refresh,
    /// The last write of a series that does not occur any more.
    Finish,
}

/// A series that left the cache before the server had its whole count.
#[derive(Debug, PartialEq)]
pub(crate) struct Displaced {
    pub(crate) key: Key,
    pub(crate) event: Event,
    /// Occurrences that were counted and not written.
    pub(crate) unwritten: u32,
}

/// The role of an event in its series.
#[derive(Debug, PartialEq)]
pub(crate) enum Observed {
    /// The first of its kind: to be created. A series that had to make room for it is to be written, if its count is not yet.
    First { key: Key, event: Event, displaced: Option<Displaced> },
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

    /// Occurrences that count as aggregated, and which the server does not have. The first two are events of their own.
    fn unwritten(&self) -> u32 {
        self.count().saturating_sub(self.written.max(2))
    }

    fn is_idle(&self, now: Timestamp) -> bool {
        now.duration_since(self.last_observed) > FINISH_TIME.try_into().unwrap_or(jiff::SignedDuration::MAX)
    }
}

impl SeriesCache {
    pub(crate) fn new(options: CorrelatorOptions) -> Self {
        let size = options.lru_cache_size;
        Self {
            keyer: Keyer::new(),
            entries: lru_cache(size),
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
        if let Some(entry) = self.entries.get_mut(&key) {
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
        let entry = Entry { event: event.clone(), last_observed: now, written: 0, upkeep: None };
        let displaced = self.entries.push(key, entry).filter(|(_, entry)| !entry.is_written());
        let displaced =
            displaced.map(|(key, entry)| Displaced { key, unwritten: entry.unwritten(), event: entry.event });
        Observed::First { key, event, displaced }
    }

    /// Undoes [`observe`](Self::observe) for an event that found no room to be written.
    pub(crate) fn take_back(&mut self, key: Key) {
        match self.entries.peek_mut(&key) {
            Some(entry) if entry.count() > 1 => entry.event.series = None,
            _ => {
                self.entries.pop(&key);
            }
        }
    }

    /// Remembers the outcome of a write with this count; none if it was broken off.
    pub(crate) fn written(&mut self, key: Key, count: u32, outcome: Option<Result<(), NotStored>>) {
        if let Some(entry) = self.entries.peek_mut(&key)
            && outcome == Some(Ok(()))
        {
            entry.written = entry.written.max(count);
        }
    }

    /// The same for a write that [`begin_upkeep`](Self::begin_upkeep) gave. The last write of a series removes it, unless the
    /// series occurred meanwhile: also when the sink has refused it, as it would again. Returns the occurrences that are lost.
    pub(crate) fn end_upkeep(&mut self, key: Key, count: u32, outcome: Option<Result<(), NotStored>>) -> u32 {
        self.written(key, count, outcome);
        let Some(entry) = self.entries.peek_mut(&key) else { return 0 };
        let is_last = entry.upkeep.take() == Some(Upkeep::Finish) && entry.count() == count;
        if !is_last || !matches!(outcome, Some(Ok(()) | Err(NotStored::Refused))) {
            return 0;
        }
        let lost = entry.unwritten();
        self.entries.pop(&key);
        lost
    }

    /// Forgets single events that were not seen again, and gives the series that were not: to be written a last time.
    pub(crate) fn finish(&mut self, now: Timestamp) -> Vec<Key> {
        let (mut single, mut series) = (Vec::new(), Vec::new());
        for (&key, entry) in &mut self.entries {
            if entry.upkeep.is_some() || !entry.is_idle(now) {
                continue;
            }
            if entry.event.series.is_none() {
                single.push(key);
            } else {
                entry.upkeep = Some(Upkeep::Finish);
                series.push(key);
            }
        }
        for key in single {
            self.entries.pop(&key);
        }
        series
    }

    /// All series, to be written again so that the server does not forget them.
    pub(crate) fn refresh(&mut self) -> Vec<Key> {
        self.plan_refresh(|entry| entry.event.series.is_some())
    }

    /// The series of which the server does not have the whole count.
    pub(crate) fn unwritten(&mut self) -> Vec<Key> {
        self.plan_refresh(|entry| !entry.is_written())
    }

    fn plan_refresh(&mut self, is_wanted: impl Fn(&Entry) -> bool) -> Vec<Key> {
        let wanted = self.entries.iter_mut().filter(|(_, entry)| entry.upkeep.is_none() && is_wanted(entry));
        wanted
            .map(|(&key, entry)| {
                entry.upkeep = Some(Upkeep::Refresh);
                key
            })
            .collect()
    }

    /// A series as it is to be written now; none if it left the cache, or occurred again and is not to be finished.
    pub(crate) fn begin_upkeep(&mut self, key: Key, now: Timestamp) -> Option<Event> {
        let entry = self.entries.peek_mut(&key)?;
        if entry.event.series.is_none() || entry.upkeep == Some(Upkeep::Finish) && !entry.is_idle(now) {
            entry.upkeep = None;
            return None;
        }
        Some(entry.event.clone())
    }

    /// Occurrences that count as aggregated, and which the server does not have.
    pub(crate) fn unwritten_occurrences(&mut self) -> u32 {
        self.entries.iter_mut().map(|(_, entry)| entry.unwritten()).sum()
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
