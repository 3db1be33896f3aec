//! [`Retries`]: the events of one pump whose handling failed. They wait in its ring, which merges them with later events of
//! their keys, until the delay of the rate limiter is over.
//!
//! A task sleeps while there are such events. It ends with the pump; the next pump has all events at once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_cache::Event;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::RateLimiter;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::undelivered::Undelivered;
use super::{Pump, SHORTEST_RETRY};
use crate::dispatch::limiter;

/// Events that come again.
pub(super) struct Retries {
    limiter: Box<dyn RateLimiter>,
    /// Whether a key may be in `failing`, or have failures.
    any_failed: AtomicBool,
    failing: Mutex<Failing>,
    changed: Notify,
}

/// The keys with an event that was told in vain.
#[derive(Default)]
struct Failing {
    /// When the event of each comes again; none once it did, until it is answered.
    keys: HashMap<ObjectKey, Option<Instant>>,
    /// Those with a time.
    due: BTreeSet<(Instant, ObjectKey)>,
    /// How often the handling of each failed since it was last handled.
    failures: HashMap<ObjectKey, u32>,
    has_task: bool,
}

impl Failing {
    fn remove(&mut self, key: &ObjectKey) {
        if let Some((key, Some(at))) = self.keys.remove_entry(key) {
            self.due.remove(&(at, key));
        }
    }
}

impl Retries {
    pub(super) fn new(settings: &pilothouse_plugin::RateLimiter) -> Self {
        Self {
            limiter: limiter::build(settings),
            any_failed: AtomicBool::new(false),
            failing: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Whether the task sleeps, or is about to, and whether an event is due within this time.
    pub(super) fn view(&self, time: Duration) -> (bool, bool) {
        let failing = self.failing.lock();
        let is_due = failing.due.first().is_some_and(|(at, _)| *at <= Instant::now() + time);
        (failing.has_task, is_due)
    }

    /// The events of a key are dealt with: its failures count no more.
    pub(super) fn handled(&self, key: &ObjectKey) {
        if self.any_failed.load(Relaxed) {
            let mut failing = self.failing.lock();
            failing.failures.remove(key);
            failing.remove(key);
        }
    }

    /// Counts a failure, and answers the delay.
    pub(super) fn failed(&self, key: &ObjectKey, at_least: Duration) -> Duration {
        self.any_failed.store(true, Relaxed);
        let mut failing = self.failing.lock();
        let failures = failing.failures.entry(key.clone()).or_default();
        let delay = self.limiter.when(*failures);
        *failures = failures.saturating_add(1);
        delay.max(at_least)
    }

    /// Whether an event of this key was told in vain. What it is merged with must be told, whatever it looks like.
    pub(super) fn is_failing(&self, key: &ObjectKey) -> bool {
        self.any_failed.load(Relaxed) && self.failing.lock().keys.contains_key(key)
    }

    /// The failing keys, for the pump that takes over.
    pub(super) fn take_failing(&self) -> HashSet<ObjectKey> {
        let failing = std::mem::take(&mut *self.failing.lock());
        failing.keys.into_keys().collect()
    }

    /// The pump before told events of these keys in vain.
    pub(super) fn adopt(&self, failing: HashSet<ObjectKey>) {
        self.any_failed.fetch_or(!failing.is_empty(), Relaxed);
        self.failing.lock().keys.extend(failing.into_iter().map(|key| (key, None)));
    }

    /// Notes when an event comes again; `true` if a task must be started for it.
    fn note(&self, key: ObjectKey, at: Instant) -> bool {
        let mut failing = self.failing.lock();
        failing.remove(&key);
        failing.due.insert((at, key.clone()));
        failing.keys.insert(key, Some(at));
        let is_first = !std::mem::replace(&mut failing.has_task, true);
        if !is_first {
            self.changed.notify_one();
        }
        is_first
    }

    /// The keys whose delay is over, and when the next one is. Without one the task ends.
    fn next(&self) -> Option<(Vec<ObjectKey>, Instant)> {
        let mut failing = self.failing.lock();
        let now = Instant::now();
        let mut over = Vec::new();
        while failing.due.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, key)) = failing.due.pop_first()
        {
            failing.keys.insert(key.clone(), None);
            over.push(key);
        }
        match failing.due.first() {
            Some((at, _)) => Some((over, *at)),
            None if !over.is_empty() => Some((over, now)),
            None => {
                failing.has_task = false;
                None
            }
        }
    }
}

impl Pump {
    #[cfg(test)]
    pub(crate) fn retries_due(&self) -> usize {
        self.retries.failing.lock().due.len()
    }

    /// Failed events come again, each after its delay. Those of their keys that came out of the ring with them go back too, in
    /// their order.
    pub(super) fn try_again(self: &Arc<Self>, failed: Vec<(Event, Duration)>, undelivered: &mut Undelivered) {
        let keys: HashSet<&ObjectKey> = failed.iter().map(|(event, _)| event.key()).collect();
        let later = undelivered.take_of(&keys);
        later.into_iter().rev().for_each(|event| self.spec.ring.put_in_front(event));
        for (event, delay) in failed {
            let key = event.key().clone();
            self.spec.ring.put_in_front(event);
            if self.retries.note(key, Instant::now() + delay) {
                self.spec.plugin.spawn(Arc::clone(self).release_when_due());
            }
        }
    }

    async fn release_when_due(self: Arc<Self>) {
        while self.spec.plugin.guard("the return of events", self.release_each()).await.is_none() {
            self.pause(SHORTEST_RETRY).await;
        }
    }

    async fn release_each(&self) {
        while let Some((over, next)) = self.retries.next() {
            self.spec.ring.release(&over);
            tokio::select! {
                () = self.spec.cancel.cancelled() => return,
                () = self.spec.plugin.stopping().cancelled() => return,
                () = self.retries.changed.notified() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }
}
