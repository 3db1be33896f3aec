//! How often keys failed, by the rate limiter's delays.
//!
//! Invariants:
//! - the failures of a key are in its slot, and `failing` counts the slots with failures;
//! - a key that failed and is neither ready, running nor delayed is in the list `failed`, the longest there first;
//! - after [`FORGOTTEN_AFTER`] there its failures count no more. Each key that joins the list releases two such keys, so no
//!   timer is needed and the list does not grow by keys that come and go.
//!
//! Called by the rules in `state` and by the queue.

use std::hash::Hash;
use std::time::Duration;

use super::delays::DelayOptions;
use super::{Add, State};
use crate::clock::{self, Nanos};
use crate::limiter::RateLimiter;
use crate::slots::{Hash32, SlotState};
use crate::{AddOptions, Merge, Priority};

/// How long the failures of a key count that the queue does not hold otherwise.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60 * 60);
/// Keys that are released at a time.
const RELEASED: usize = 2;

impl<K: Clone + Eq + Hash, M: Merge> State<K, M> {
    /// Counts a failure of the key, and adds it after a delay that the limiter chooses and that begins at `began`. Returns
    /// the delay; none if the queue takes no adds.
    pub(crate) fn add_rate_limited(
        &mut self,
        add: Add<K, M>,
        options: &AddOptions,
        began: Nanos,
    ) -> Option<Duration> {
        if self.shutting_down() {
            return None;
        }
        self.catch_up(Some(began));
        let Add { hash, key, payload, priority, coalesce } = add;
        let found = self.slots.find(hash, &key);
        let failures = found.map_or(0, |own| self.failures(own, Some(began)));
        // Code of the user's, which may panic: nothing has changed before it.
        let delay = options.delay(self.limiter.when(failures));
        let own = found.unwrap_or_else(|| self.slots.find_or_insert(hash, key).0);
        self.fail(own, payload, priority, DelayOptions { delay, began, coalesce, is_backoff: true });
        Some(delay)
    }

    /// Does the same with a delay that the limiter has chosen.
    pub(crate) fn add_failed(
        &mut self,
        add: Add<K, M>,
        limited: Duration,
        options: &AddOptions,
        began: Nanos,
    ) {
        if self.shutting_down() {
            return;
        }
        self.catch_up(Some(began));
        let Add { hash, key, payload, priority, coalesce } = add;
        let (own, _) = self.slots.find_or_insert(hash, key);
        let delay = options.delay(limited);
        self.fail(own, payload, priority, DelayOptions { delay, began, coalesce, is_backoff: true });
    }

    /// Counts a failure of the key in a slot, and adds it.
    fn fail(&mut self, own: u32, payload: M, priority: Priority, options: DelayOptions) {
        self.leave_failed(own, Some(options.began));
        self.count_failure(own);
        if options.delay.is_zero() {
            self.retries += 1;
            self.add_at(own, payload, priority, options.coalesce, Some(options.began));
        } else {
            self.delay(own, payload, priority, options);
        }
    }

    /// How long each of these keys has to wait, which failed together.
    pub(crate) fn delays_of_all<'a>(&mut self, keys: impl Iterator<Item = (Hash32, &'a K)>) -> Vec<Duration>
    where
        K: 'a,
    {
        let failures: Vec<u32> = keys.map(|(hash, key)| self.num_requeues(hash, key)).collect();
        self.limiter.when_all(&failures)
    }

    /// Forgets the failures of a key.
    pub(crate) fn forget(&mut self, key: &K) {
        if self.failing > 0
            && let Some(own) = self.slots.find_unhashed(key)
        {
            self.forget_at(own);
            if self.slots[own].state == SlotState::Failed {
                self.take_out_failed(own);
                self.settle_free(own, None);
            }
        }
    }

    /// Forgets the failures of all keys and the limiter's reservations.
    pub(crate) fn forget_all(&mut self) {
        self.limiter.clear();
        if self.failing == 0 {
            return;
        }
        self.failing = 0;
        self.slots.iter_mut().for_each(|(_, slot)| slot.failures = 0);
        while let Some(own) = self.first_failed() {
            self.take_out_failed(own);
            self.settle_free(own, None);
        }
    }

    /// How often a key failed since it was forgotten.
    pub(crate) fn num_requeues(&mut self, hash: Hash32, key: &K) -> u32 {
        self.slots.find(hash, key).map_or(0, |own| self.failures(own, None))
    }

    /// Replaces the limiter and forgets all failures. Returns the limiter before, to be dropped without the lock.
    pub(crate) fn set_rate_limiter(&mut self, limiter: Box<dyn RateLimiter>) -> Box<dyn RateLimiter> {
        self.forget_all();
        std::mem::replace(&mut self.limiter, limiter)
    }

    fn failures(&mut self, own: u32, now: Option<Nanos>) -> u32 {
        let slot = &self.slots[own];
        let (failures, since) = (slot.failures, slot.time);
        let is_over = slot.state == SlotState::Failed && is_over(since, self.clock.read_or_recent(now));
        if is_over { 0 } else { failures }
    }

    /// Counts a failure of the key in a slot, which is not among the failed ones.
    pub(super) fn count_failure(&mut self, own: u32) {
        let slot = &mut self.slots[own];
        self.failing += usize::from(slot.failures == 0);
        slot.failures = slot.failures.saturating_add(1);
    }

    /// Forgets the failures of the key in a slot.
    #[inline]
    pub(super) fn forget_at(&mut self, own: u32) {
        let slot = &mut self.slots[own];
        if slot.failures > 0 {
            slot.failures = 0;
            self.failing -= 1;
        }
    }

    /// Releases a slot that is in no list; one with failures joins the failed ones. `now` is the time; none if it was not read.
    #[inline]
    pub(super) fn settle_free(&mut self, own: u32, now: Option<Nanos>) {
        let slot = &self.slots[own];
        match (slot.state, slot.failures) {
            (SlotState::Free, 0) => {
                self.slots.release(own);
                self.plan_release();
            }
            (SlotState::Free, _) => self.join_failed(own, now),
            _ => {}
        }
    }

    #[cold]
    fn join_failed(&mut self, own: u32, now: Option<Nanos>) {
        let now = self.clock.read_or_recent(now);
        for _ in 0..RELEASED {
            if let Some(first) = self.first_failed()
                && is_over(self.slots[first].time, now)
            {
                self.take_out_failed(first);
                self.forget_at(first);
                self.slots.release(first);
            }
        }
        let slot = self.slots.push_back(&mut self.failed, own);
        (slot.state, slot.time) = (SlotState::Failed, now);
    }

    /// Takes a slot out of the failed ones, if it is among them, and forgets its failures if it was there for long. `now` is the
    /// time; none if it was not read.
    #[inline]
    pub(super) fn leave_failed(&mut self, own: u32, now: Option<Nanos>) {
        if self.slots[own].state == SlotState::Failed {
            self.take_out_failed(own);
            let now = self.clock.read_or_recent(now);
            if is_over(self.slots[own].time, now) {
                self.forget_at(own);
            }
        }
    }

    #[cold]
    fn take_out_failed(&mut self, own: u32) {
        self.slots.unlink(&mut self.failed, own);
        self.slots[own].state = SlotState::Free;
    }

    fn first_failed(&self) -> Option<u32> {
        Some(self.failed.head()).filter(|_| !self.failed.is_empty())
    }
}

/// Whether failures of a key that failed at `since` and was not added since then count no more.
fn is_over(since: Nanos, now: Nanos) -> bool {
    now > clock::deadline(since, FORGOTTEN_AFTER)
}
