//! [`Pending`]: the entries of a ring, one a key, in the order in which keys became pending. No lock: that is the
//! `Ring`'s.
//!
//! Invariants:
//! - a key is in `entries` iff it has a pending event; it is in `order` under its entry's `place` iff that is `Some`;
//! - an entry without a place is *parked*: its body was let go and the store does not have that object any more, so a
//!   deletion is on its way and will settle it;
//! - `events` counts all pending items, `initial` the initial adds that are pending or handed out and not acknowledged.

use std::collections::{BTreeMap, VecDeque};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use pilothouse_object::{Object, ObjectKey};

use super::event::{Event, Item};
use super::merge::{Merged, merge};
use super::{Delivery, RingOptions};

/// Above this many slots a table that is mostly empty is made smaller.
const SHRINK_ABOVE: usize = 1024;

pub(super) struct Pending {
    options: RingOptions,
    entries: HashMap<ObjectKey, Entry, RandomState>,
    order: BTreeMap<u64, ObjectKey>,
    next_place: u64,
    events: usize,
    initial: usize,
    initial_list_ended: bool,
    /// Whether bodies are kept: not from when there are too many keys until half of them are gone.
    bodies: bool,
    pub(super) closed: bool,
    pub(super) counters: Counters,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) received: u64,
    pub(super) delivered: u64,
    pub(super) coalesced: u64,
    pub(super) fallbacks: u64,
    pub(super) body_drops: u64,
    pub(super) peak: usize,
}

struct Entry {
    place: Option<u64>,
    first: Item,
    /// With `Latest` at most an `Added` behind a `Deleted`.
    rest: VecDeque<Item>,
}

impl Entry {
    fn last(&self) -> &Item {
        self.rest.back().unwrap_or(&self.first)
    }

    fn pop_last(&mut self) -> Option<Item> {
        self.rest.pop_back()
    }

    /// Merges neighbours as `Latest` would have. `None`: nothing is left of it.
    fn collapse(self, told_elsewhere: bool) -> (Option<u64>, Option<(Item, VecDeque<Item>)>) {
        let mut out: VecDeque<Item> = VecDeque::new();
        for item in std::iter::once(self.first).chain(self.rest) {
            match out.pop_back() {
                None => out.push_back(item),
                Some(last) => match merge(last, item, told_elsewhere && out.is_empty()) {
                    Merged::Nothing => {}
                    Merged::One(item) => out.push_back(item),
                    Merged::Both(last, item) => out.extend([last, item]),
                },
            }
        }
        (self.place, out.pop_front().map(|first| (first, out)))
    }
}

impl Pending {
    pub(super) fn new(options: RingOptions) -> Self {
        Self {
            options,
            entries: HashMap::default(),
            order: BTreeMap::new(),
            next_place: 0,
            events: 0,
            initial: 0,
            initial_list_ended: false,
            bodies: true,
            closed: false,
            counters: Counters::default(),
        }
    }

    /// Pending keys.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Slots held for pending keys.
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Whether the initial list was handed over and every event of it acknowledged.
    pub(super) fn synced(&self) -> bool {
        self.initial_list_ended && self.initial == 0
    }

    pub(super) fn end_initial_list(&mut self) {
        self.initial_list_ended = true;
    }

    /// Initial adds that were handed out have been dealt with.
    pub(super) fn acknowledge(&mut self, initial: usize) {
        self.initial = self.initial.saturating_sub(initial);
    }

    pub(super) fn clear(&mut self) {
        self.entries = HashMap::default();
        self.order.clear();
        self.events = 0;
    }

    /// Takes in an event.
    pub(super) fn push(&mut self, key: &ObjectKey, mut item: Item) {
        self.counters.received += 1;
        if !self.bodies {
            item.drop_bodies();
        }
        self.initial += item.initial();
        let keep_each = self.options.delivery == Delivery::Every && self.bodies;
        let keep = keep_each && self.events < self.options.max_events;
        let Some(entry) = self.entries.get_mut(key) else {
            self.events += 1;
            let place = Some(self.take_place(key));
            self.entries.insert(key.clone(), Entry { place, first: item, rest: VecDeque::new() });
            self.counters.peak = self.counters.peak.max(self.entries.len());
            if self.bodies && self.entries.len() > self.options.max_keys {
                self.drop_bodies();
            }
            return;
        };
        // What lost its body will be read as it is at delivery: a later event of its own would tell that again. And a
        // parked entry must settle. Both merge, whatever the delivery.
        if keep && !entry.last().lacks_body() {
            entry.rest.push_back(item);
            self.events += 1;
            return;
        }
        if self.options.delivery == Delivery::Every {
            self.counters.fallbacks += 1;
        }
        self.merge_into(key, item);
    }

    fn merge_into(&mut self, key: &ObjectKey, item: Item) {
        let Some(mut entry) = self.entries.remove(key) else { return };
        let before = entry.rest.len() + 1;
        let initial_before = entry.first.initial() + entry.rest.iter().map(Item::initial).sum::<usize>();
        let initial_before = initial_before + item.initial();
        let outcome = match entry.pop_last() {
            // Before it stands a deletion, which tells enough.
            Some(last) => match merge(last, item, false) {
                Merged::Nothing => Some(entry),
                Merged::One(item) => {
                    entry.rest.push_back(item);
                    Some(entry)
                }
                Merged::Both(last, item) => {
                    entry.rest.extend([last, item]);
                    Some(entry)
                }
            },
            None => match merge(entry.first, item, self.options.told_elsewhere) {
                Merged::Nothing => {
                    if let Some(place) = entry.place {
                        self.order.remove(&place);
                    }
                    None
                }
                Merged::One(first) => Some(Entry { first, ..entry }),
                Merged::Both(first, last) => {
                    let mut rest = entry.rest;
                    rest.push_back(last);
                    Some(Entry { place: entry.place, first, rest })
                }
            },
        };
        let (after, initial_after) = outcome.as_ref().map_or((0, 0), |entry| {
            let initial = entry.first.initial() + entry.rest.iter().map(Item::initial).sum::<usize>();
            (entry.rest.len() + 1, initial)
        });
        if after <= before {
            self.counters.coalesced += 1;
        }
        self.events = self.events + after - before;
        self.initial = self.initial + initial_after - initial_before;
        if let Some(mut entry) = outcome {
            if entry.place.is_none() {
                entry.place = Some(self.take_place(key));
            }
            self.entries.insert(key.clone(), entry);
        }
    }

    fn take_place(&mut self, key: &ObjectKey) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        self.order.insert(place, key.clone());
        place
    }

    /// Too many keys: their bodies would pin old versions that the store has long let go.
    fn drop_bodies(&mut self) {
        self.bodies = false;
        self.counters.body_drops += 1;
        let every = self.options.delivery == Delivery::Every;
        let keys: Vec<ObjectKey> = if every { self.order.values().cloned().collect() } else { Vec::new() };
        for key in keys {
            let Some(entry) = self.entries.remove(&key) else { continue };
            let initial = |items: &mut dyn Iterator<Item = &Item>| items.map(Item::initial).sum::<usize>();
            let before = entry.rest.len() + 1;
            let initial_before = initial(&mut std::iter::once(&entry.first).chain(&entry.rest));
            let (place, left) = entry.collapse(self.options.told_elsewhere);
            let (after, initial_after) = left.as_ref().map_or((0, 0), |(first, rest)| {
                (rest.len() + 1, initial(&mut std::iter::once(first).chain(rest)))
            });
            self.events -= before - after;
            self.initial -= initial_before - initial_after;
            self.counters.fallbacks += (before - after) as u64;
            match left {
                Some((first, rest)) => _ = self.entries.insert(key, Entry { place, first, rest }),
                None => _ = place.map(|place| self.order.remove(&place)),
            }
        }
        for entry in self.entries.values_mut() {
            entry.first.drop_bodies();
            entry.rest.iter_mut().for_each(Item::drop_bodies);
        }
    }

    /// Hands out up to `max` events. `stored` reads the store.
    pub(super) fn take(&mut self, max: usize, stored: impl Fn(&ObjectKey) -> Option<Object>) -> Vec<Event> {
        let mut batch = Vec::with_capacity(max.min(self.order.len()));
        while batch.len() < max {
            let Some(place) = self.order.first_entry() else { break };
            let Some(entry) = self.entries.get_mut(place.get()) else {
                place.remove();
                continue;
            };
            let stored = if entry.first.lacks_body() { stored(place.get()) } else { None };
            let Some(event) = entry.first.event(place.get(), stored) else {
                // The store is ahead of us: it has dropped the object and we are about to be told.
                entry.place = None;
                place.remove();
                continue;
            };
            match entry.rest.pop_front() {
                Some(next) => entry.first = next,
                None => _ = self.entries.remove(&place.remove()),
            }
            self.events -= 1;
            batch.push(event);
        }
        self.counters.delivered += batch.len() as u64;
        if !self.bodies && self.entries.len() <= self.options.max_keys / 2 {
            self.bodies = true;
        }
        if self.entries.capacity() > SHRINK_ABOVE && self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
        batch
    }

    /// Checks the invariants; for tests.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let items = |entry: &Entry| 1 + entry.rest.len();
        assert_eq!(self.events, self.entries.values().map(items).sum::<usize>());
        assert_eq!(self.order.len(), self.entries.values().filter(|entry| entry.place.is_some()).count());
        for (place, key) in &self.order {
            assert_eq!(self.entries[key].place, Some(*place));
        }
        let initial =
            |entry: &Entry| entry.first.initial() + entry.rest.iter().map(Item::initial).sum::<usize>();
        assert!(self.initial >= self.entries.values().map(initial).sum::<usize>());
    }
}
