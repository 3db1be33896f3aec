//! [`Pending`]: the entries of a ring, one a key, in the order in which keys became pending. No lock: that is the
//! `Ring`'s.
//!
//! Invariants:
//! - a key is in `entries` iff it has a pending event; it is in `order` under its entry's `place` iff that is `Some`;
//! - an entry without a place is *parked*, when its body was let go and the store does not have that object any more, so a
//!   deletion is on its way and will settle it; or *held*, when its first event was put in front and waits for its release;
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
    /// Grows each time old deletions are forgotten.
    turn: u32,
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
    /// The consumer was told of what the first item began with, if in vain: a deletion after it is told too.
    told: bool,
    /// It has no place until its release.
    held: bool,
}

impl Entry {
    fn new(place: Option<u64>, first: Item) -> Self {
        Self { place, first, rest: VecDeque::new(), told: false, held: false }
    }

    fn last(&self) -> &Item {
        self.rest.back().unwrap_or(&self.first)
    }

    fn items(&self) -> impl Iterator<Item = &Item> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// Items, and how many of them are initial adds.
    fn counts(&self) -> (usize, usize) {
        (1 + self.rest.len(), self.items().map(Item::initial).sum())
    }

    /// Merges a further item into the last one. `None`: nothing is left.
    fn merged(mut self, item: Item, told_elsewhere: bool) -> Option<Self> {
        let turn = if let Item::Deleted { turn, .. } = &item { *turn } else { 0 };
        match self.rest.pop_back() {
            // Before it stands a deletion, which tells enough.
            Some(last) => match merge(last, item, false) {
                Merged::Nothing => self.rest.back_mut().unwrap_or(&mut self.first).told_again(turn),
                Merged::One(item) => self.rest.push_back(item),
                Merged::Both(last, item) => self.rest.extend([last, item]),
            },
            None => match merge(self.first, item, told_elsewhere || self.told) {
                Merged::Nothing => return None,
                Merged::One(first) => self.first = first,
                Merged::Both(first, last) => {
                    self.first = first;
                    self.rest.push_back(last);
                }
            },
        }
        Some(self)
    }

    /// Merges neighbours as `Latest` would have. `None`: nothing is left.
    fn collapsed(self, told_elsewhere: bool) -> Option<Self> {
        let Self { place, first, rest, told, held } = self;
        let mut entry = Some(Self { told, held, ..Self::new(place, first) });
        for item in rest {
            entry = match entry {
                Some(entry) => entry.merged(item, told_elsewhere),
                None => Some(Self::new(place, item)),
            };
        }
        entry
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
            // So that an adopted deletion can be older.
            turn: 1,
            closed: false,
            counters: Counters::default(),
        }
    }

    /// Pending keys.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is an entry that is not known to be parked.
    pub(super) fn has_next(&self) -> bool {
        !self.order.is_empty()
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
        item.told_again(self.turn);
        let keep_each = self.options.delivery == Delivery::Every && self.bodies;
        let keep = keep_each && self.events < self.options.max_events;
        let Some(entry) = self.entries.get_mut(key) else { return self.insert(key, item) };
        // What lost its body will be read as it is at delivery: a later event of its own would tell that again. And a
        // parked entry must settle. Both merge, whatever the delivery.
        if keep && !entry.last().lacks_body() {
            self.events += 1;
            self.initial += item.initial();
            entry.rest.push_back(item);
            // Events are delivered in order, so those behind a held one wait.
            if !entry.held {
                self.release(key);
            }
            return;
        }
        if self.options.delivery == Delivery::Every {
            self.counters.fallbacks += 1;
        }
        let (before, told_elsewhere) = (self.events, self.options.told_elsewhere);
        let ends_hold = self.options.delivery == Delivery::Latest;
        self.change(key, |entry| {
            let entry = entry.merged(item, told_elsewhere)?;
            Some(Entry { held: entry.held && !ends_hold, ..entry })
        });
        self.counters.coalesced += u64::from(self.events <= before);
    }

    /// Takes in an event that was handed out and must be told again, before all that waits of its key, and holds them until
    /// their release. With `Latest` a further event ends that.
    pub(super) fn put_in_front(&mut self, key: &ObjectKey, mut item: Item) {
        // The initial list was told once, which is all that it stands for.
        if let Item::Added { initial, .. } = &mut item {
            *initial = false;
        }
        item.told_again(self.turn);
        if !self.bodies {
            item.drop_bodies();
        }
        if !self.entries.contains_key(key) {
            self.events += 1;
            self.entries.insert(key.clone(), Entry { told: true, held: true, ..Entry::new(None, item) });
            return self.bound_bodies();
        }
        let keeps_each = self.options.delivery == Delivery::Every && self.bodies;
        self.change(key, |Entry { place, first, mut rest, .. }| {
            rest.push_front(first);
            if keeps_each {
                return Some(Entry { place, first: item, rest, told: true, held: true });
            }
            let told = Entry { told: true, held: true, ..Entry::new(place, item) };
            rest.into_iter().try_fold(told, |entry, next| entry.merged(next, false))
        });
    }

    /// Gives an entry that is parked or held a place again.
    pub(super) fn release(&mut self, key: &ObjectKey) {
        if self.entries.get(key).is_some_and(|entry| entry.place.is_none()) {
            self.change(key, |entry| Some(Entry { held: false, ..entry }));
        }
    }

    /// Gives all entries that are parked or held a place again.
    pub(super) fn release_all(&mut self) {
        let parked = self.entries.iter().filter(|(_, entry)| entry.place.is_none());
        for key in parked.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.release(&key);
        }
    }

    /// Takes in the first item of a key.
    fn insert(&mut self, key: &ObjectKey, item: Item) {
        self.events += 1;
        self.initial += item.initial();
        let place = Some(self.take_place(key));
        self.entries.insert(key.clone(), Entry::new(place, item));
        self.bound_bodies();
    }

    /// Lets go of the bodies if there are too many keys.
    fn bound_bodies(&mut self) {
        self.counters.peak = self.counters.peak.max(self.entries.len());
        if self.bodies && self.entries.len() > self.options.max_keys {
            self.drop_bodies();
        }
    }

    /// Puts what `change` makes of an entry in its place, and keeps the counts. A parked entry gets a place again; one that is
    /// held has none.
    fn change(&mut self, key: &ObjectKey, change: impl FnOnce(Entry) -> Option<Entry>) {
        let Some(entry) = self.entries.remove(key) else { return };
        let (place, before) = (entry.place, entry.counts());
        let changed = change(entry);
        let after = changed.as_ref().map_or((0, 0), Entry::counts);
        self.events = self.events + after.0 - before.0;
        self.initial = self.initial + after.1 - before.1;
        match changed {
            Some(entry) if entry.held => {
                place.map(|place| self.order.remove(&place));
                self.entries.insert(key.clone(), Entry { place: None, ..entry });
            }
            Some(entry) => {
                let place = place.unwrap_or_else(|| self.take_place(key));
                self.entries.insert(key.clone(), Entry { place: Some(place), ..entry });
            }
            None => _ = place.map(|place| self.order.remove(&place)),
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
        if self.options.delivery == Delivery::Every {
            let (before, told_elsewhere) = (self.events, self.options.told_elsewhere);
            for key in self.entries.keys().cloned().collect::<Vec<_>>() {
                self.change(&key, |entry| entry.collapsed(told_elsewhere));
            }
            self.counters.fallbacks += (before - self.events) as u64;
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
                Some(next) => (entry.first, entry.told) = (next, false),
                None => _ = self.entries.remove(&place.remove()),
            }
            self.events -= 1;
            batch.push(event);
        }
        self.counters.delivered += batch.len() as u64;
        self.grow_small();
        batch
    }

    /// Fewer keys may wait than before: what many would not have allowed is done again.
    fn grow_small(&mut self) {
        if !self.bodies && self.entries.len() <= self.options.max_keys / 2 {
            self.bodies = true;
        }
        if self.entries.capacity() > SHRINK_ABOVE && self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    /// Forgets the deletions of before the last call, with what stands in front of them.
    pub(super) fn forget_old_deletions(&mut self) {
        let turn = self.turn;
        let is_old = |item: &Item| item.is_deletion_before(turn);
        let with_old = self.entries.iter().filter(|(_, entry)| entry.items().any(is_old));
        for key in with_old.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.change(&key, |Entry { place, first, mut rest, held, .. }| {
                rest.push_front(first);
                let last = rest.iter().rposition(is_old)?;
                // What is behind the last that goes, if anything, is the first now.
                drop(rest.drain(..=last));
                Some(Entry { place, first: rest.pop_front()?, rest, told: false, held })
            });
        }
        self.turn += 1;
        self.grow_small();
    }

    /// The newest deletion of each key that has one, and how many turns ago it was told.
    pub(super) fn take_deletions(&mut self) -> Vec<(ObjectKey, Item, u32)> {
        let turn = self.turn;
        let entries = std::mem::take(&mut self.entries);
        self.clear();
        let newest = |entry: &Entry| {
            let deletions = entry.items().filter_map(|item| match item {
                Item::Deleted { turn: told, .. } => Some((item.clone(), turn - told)),
                _ => None,
            });
            deletions.last()
        };
        let with_key = |(key, entry)| newest(&entry).map(|(item, age)| (key, item, age));
        entries.into_iter().filter_map(with_key).collect()
    }

    /// Takes in a deletion that was told so many turns ago, before all that waits.
    pub(super) fn adopt(&mut self, key: ObjectKey, mut item: Item, age: u32) {
        item.told_again(self.turn.saturating_sub(age));
        if !self.bodies {
            item.drop_bodies();
        }
        if !self.entries.contains_key(&key) {
            return self.insert(&key, item);
        }
        self.change(&key, |mut entry| {
            if !matches!(entry.first, Item::Deleted { .. }) {
                let behind = std::mem::replace(&mut entry.first, item);
                entry.rest.push_front(behind);
            }
            Some(entry)
        });
    }

    /// Checks the invariants; for tests.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let counts = |of: fn((usize, usize)) -> usize| -> usize {
            self.entries.values().map(|entry| of(entry.counts())).sum()
        };
        assert_eq!(self.events, counts(|(items, _)| items));
        assert_eq!(self.order.len(), self.entries.values().filter(|entry| entry.place.is_some()).count());
        for (place, key) in &self.order {
            assert_eq!(self.entries[key].place, Some(*place));
            assert!(!self.entries[key].held);
        }
        assert!(self.initial >= counts(|(_, initial)| initial));
    }
}
