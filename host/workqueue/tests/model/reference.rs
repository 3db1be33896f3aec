//! The reference: lists that are searched, sets that are copied.
//!
//! Invariant: it does at once and by itself what the queue does when somebody looks. Used by `main`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pilothouse_workqueue::{Priority, Verdict};

use crate::{Key, Millis};

/// A run that is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) priority: Priority,
    pub(crate) bits: u8,
    /// When it was first wanted; of a queue that measures no time, its number among those that joined their priority.
    pub(crate) since: Millis,
}

/// A delayed add.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delayed {
    pub(crate) key: Key,
    at: Millis,
    order: usize,
    pub(crate) priority: Priority,
    pub(crate) bits: u8,
    pub(crate) backoff: bool,
}

/// The reference.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) now: Millis,
    dirty: BTreeMap<Key, Wanted>,
    /// Dirty keys that are not in processing, in the order in which they joined their priority.
    pub(crate) queue: Vec<Key>,
    /// Time is measured, as in a queue with a name.
    pub(crate) named: bool,
    joined: u64,
    pub(crate) processing: Vec<(Key, Millis)>,
    pub(crate) delayed: Vec<Delayed>,
    orders: usize,
    pub(crate) failures: BTreeMap<Key, u32>,
    run: usize,
    pub(crate) shut: bool,
    pub(crate) adds: u64,
    pub(crate) retries: u64,
}

impl Model {
    pub(crate) fn new(named: bool) -> Self {
        Self { named, ..Self::default() }
    }

    fn is_processing(&self, key: Key) -> bool {
        self.processing.iter().any(|(other, _)| *other == key)
    }

    fn want(&mut self, key: Key, bits: u8, priority: Priority, since: Millis) {
        if let Some(wanted) = self.dirty.get_mut(&key) {
            wanted.bits |= bits;
            if wanted.priority < priority {
                wanted.priority = priority;
                if !self.is_processing(key) {
                    self.queue.retain(|other| *other != key);
                    self.queue.push(key);
                }
            }
            return;
        }
        self.adds += 1;
        self.dirty.insert(key, Wanted { priority, bits, since });
        if !self.is_processing(key) {
            self.join(key);
        }
    }

    /// A key joins those that wait, and was not among them.
    fn join(&mut self, key: Key) {
        self.joined += 1;
        if !self.named {
            self.dirty.get_mut(&key).expect("it is wanted").since = self.joined;
        }
        self.queue.push(key);
    }

    /// The place of the first key of a priority.
    fn first(&self, priority: Priority) -> usize {
        self.queue.iter().position(|key| self.dirty[key].priority == priority).expect("it has keys")
    }

    pub(crate) fn promote(&mut self) {
        self.delayed.sort_by_key(|delayed| (delayed.at, delayed.order));
        while let Some(due) = self.delayed.first().copied().filter(|due| due.at <= self.now) {
            self.delayed.remove(0);
            self.want(due.key, due.bits, due.priority, due.at);
        }
    }

    pub(crate) fn add(&mut self, key: Key, bits: u8, priority: Priority) {
        if self.shut {
            return;
        }
        self.promote();
        self.want(key, bits, priority, self.now);
    }

    pub(crate) fn add_after(&mut self, key: Key, bits: u8, priority: Priority, delay: Millis, backoff: bool) {
        if self.shut {
            return;
        }
        self.retries += 1;
        if delay == 0 {
            return self.add(key, bits, priority);
        }
        self.promote();
        self.orders += 1;
        let new = Delayed { key, at: self.now + delay, order: self.orders, priority, bits, backoff };
        let Some(old) = self.delayed.iter_mut().find(|old| old.key == key) else {
            return self.delayed.push(new);
        };
        let (bits, priority) = (old.bits | bits, old.priority.max(priority));
        if new.at < old.at {
            *old = new;
        }
        (old.bits, old.priority) = (bits, priority);
    }

    pub(crate) fn when(&mut self, key: Key) -> Millis {
        let failures = self.failures.entry(key).or_default();
        *failures += 1;
        (1 << (*failures - 1).min(10)).min(64)
    }

    pub(crate) fn take(&mut self) -> Option<(Key, Wanted)> {
        self.promote();
        let priorities: BTreeSet<_> =
            self.queue.iter().map(|key| Reverse(self.dirty[key].priority)).collect();
        let priorities: Vec<Priority> = priorities.into_iter().map(|Reverse(priority)| priority).collect();
        let Some(&highest) = priorities.first() else {
            self.run = 0;
            return None;
        };
        let place = if priorities.len() == 1 || self.run == 16 {
            self.run = 0;
            let others = if priorities.len() == 1 { &priorities[..] } else { &priorities[1..] };
            let places: Vec<usize> = others.iter().map(|&priority| self.first(priority)).collect();
            // Of equal ones the first, which has the higher priority.
            *places.iter().min_by_key(|&&place| self.dirty[&self.queue[place]].since).expect("not empty")
        } else {
            self.run += 1;
            self.first(highest)
        };
        let key = self.queue.remove(place);
        let wanted = self.dirty[&key];
        self.dirty.remove(&key);
        self.processing.push((key, self.now));
        Some((key, wanted))
    }

    /// Of the keys in processing, the one at this place.
    pub(crate) fn running(&self, which: usize) -> Option<Key> {
        which.checked_rem(self.processing.len()).map(|n| self.processing[n].0)
    }

    /// As the single calls do it, one after the other; returns the delay until the next run.
    pub(crate) fn finish(
        &mut self,
        key: Key,
        bits: u8,
        priority: Priority,
        verdict: Verdict,
    ) -> Option<Millis> {
        let is_backoff = matches!(verdict, Verdict::Retry { .. });
        let millis = |delay: Duration| delay.as_millis() as Millis;
        let delay = match verdict {
            Verdict::Retry { at_least } => (!self.shut).then(|| self.when(key).max(millis(at_least))),
            Verdict::Done | Verdict::After(_) => {
                self.failures.remove(&key);
                if let Verdict::After(delay) = verdict { Some(millis(delay)) } else { None }
            }
        };
        let delay = delay.filter(|_| !self.shut);
        if let Some(delay) = delay {
            self.coalesce(key, bits, priority, delay, is_backoff);
        }
        self.done(key);
        delay
    }

    /// An add that leaves the key one entry.
    fn coalesce(&mut self, key: Key, bits: u8, priority: Priority, delay: Millis, is_backoff: bool) {
        self.promote();
        if delay > 0 && !self.dirty.contains_key(&key) {
            return self.add_after(key, bits, priority, delay, is_backoff);
        }
        self.retries += 1;
        self.add(key, bits, priority);
        if delay == 0
            && let Some(place) = self.delayed.iter().position(|delayed| delayed.key == key)
        {
            let delayed = self.delayed.remove(place);
            self.add(key, delayed.bits, delayed.priority);
        }
    }

    pub(crate) fn done(&mut self, key: Key) {
        let before = self.processing.len();
        self.processing.retain(|(other, _)| *other != key);
        if before != self.processing.len() && self.dirty.contains_key(&key) {
            self.join(key);
        }
    }

    pub(crate) fn expedite(&mut self, wanted: impl Fn(&Delayed) -> bool) -> usize {
        self.promote();
        let (out, kept): (Vec<Delayed>, Vec<Delayed>) =
            self.delayed.iter().partition(|delayed| wanted(delayed));
        self.delayed = kept;
        for delayed in &out {
            self.want(delayed.key, delayed.bits, delayed.priority, self.now);
        }
        out.len()
    }

    pub(crate) fn shut_down(&mut self, drain: bool) {
        self.promote();
        self.shut = true;
        if !drain {
            self.delayed.clear();
        }
    }
}
