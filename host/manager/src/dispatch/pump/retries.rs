//! [`Retries`]: the events of one pump whose handling failed. They wait in its ring, which merges them with later events of
//! their keys, until the delay of the rate limiter is over.
//!
//! A task sleeps while there are such events. It ends with the pump; the next pump has all events at once.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_cache::Event;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::RateLimiter;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Pump;
use crate::dispatch::limiter;

/// Events that come again.
pub(super) struct Retries {
    limiter: Box<dyn RateLimiter<ObjectKey>>,
    /// Whether the limiter may count failures.
    any_failed: AtomicBool,
    due: Mutex<Due>,
    changed: Notify,
}

#[derive(Default)]
struct Due {
    keys: BTreeSet<(Instant, ObjectKey)>,
    has_task: bool,
}

impl Retries {
    pub(super) fn new(settings: &pilothouse_plugin::RateLimiter) -> Self {
        Self {
            limiter: limiter::build(settings),
            any_failed: AtomicBool::new(false),
            due: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Whether the task sleeps, or is about to, and whether an event is due within this time.
    pub(super) fn view(&self, time: Duration) -> (bool, bool) {
        let due = self.due.lock();
        let is_due = due.keys.first().is_some_and(|(at, _)| *at <= Instant::now() + time);
        (due.has_task, is_due)
    }

    /// An event was handled.
    pub(super) fn handled(&self, key: &ObjectKey) {
        if self.any_failed.load(Relaxed) {
            self.limiter.forget(key);
        }
    }

    /// Counts a failure, and answers the delay.
    pub(super) fn failed(&self, key: &ObjectKey, at_least: Duration) -> Duration {
        self.any_failed.store(true, Relaxed);
        self.limiter.when(key).max(at_least)
    }

    /// The keys whose delay is over, and when the next one is. Without one the task ends.
    fn next(&self) -> Option<(Vec<ObjectKey>, Instant)> {
        let mut due = self.due.lock();
        let now = Instant::now();
        let mut over = Vec::new();
        while let Some((_, key)) = due.keys.first().filter(|(at, _)| *at <= now).cloned() {
            over.push(key);
            due.keys.pop_first();
        }
        match due.keys.first() {
            Some((at, _)) => Some((over, *at)),
            None if !over.is_empty() => Some((over, now)),
            None => {
                due.has_task = false;
                None
            }
        }
    }
}

impl Pump {
    /// An event comes again after its delay, or with a later one of its key. Those of its key that came out of the ring with it
    /// go back too, in their order.
    pub(super) fn try_again(self: &Arc<Self>, event: Event, delay: Duration, waiting: &mut VecDeque<Event>) {
        let retries = &self.retries;
        let key = event.key().clone();
        let (later, others): (Vec<Event>, Vec<Event>) =
            waiting.drain(..).partition(|other| *other.key() == key);
        waiting.extend(others);
        let mut is_held_back = true;
        for event in std::iter::once(event).chain(later).rev() {
            is_held_back &= self.spec.ring.put_in_front(event);
        }
        if !is_held_back {
            return;
        }
        let mut due = retries.due.lock();
        due.keys.insert((Instant::now() + delay, key));
        let is_first = !std::mem::replace(&mut due.has_task, true);
        drop(due);
        if is_first {
            self.spec.plugin.spawn(Arc::clone(self).release_when_due());
        } else {
            retries.changed.notify_one();
        }
    }

    async fn release_when_due(self: Arc<Self>) {
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
