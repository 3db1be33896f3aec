//! [`TombstoneBuffer`]: on a standby, the keys of recently deleted objects of one plugin; [`RotationSchedule`]: when old ones
//! are dropped.
//!
//! Caches do not show deleted objects, so a new leader needs another way to find the keys to reconcile for them. Old
//! deletions were handled by the leader before. Time alone does not tell which are old: a leader may die right after a
//! deletion, and the next one may take over hours later. A tombstone is dropped only when a leader was seen at work at
//! least `lifetime` *after* the deletion, since that leader must have begun the call for it. `lifetime` is the duration of
//! the lease plus the time for which a leader that shuts down still renews but begins no call.
//!
//! The buffer has two halves. It rotates when a leader was seen at work `lifetime` after the last rotation, which drops the
//! old half. So each tombstone is kept for at least one `lifetime` and, while a leader renews, for about two at most. No
//! lock in this file.

use std::mem;
use std::time::Duration;

use hashbrown::HashMap;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::Merge as _;
use tokio::time::Instant;

use crate::dispatch::reasons::Reasons;

/// Most tombstones of one plugin, about 10 MiB; the youngest are kept.
pub(crate) const MAX_TOMBSTONES: usize = 100_000;

/// Keys of recently deleted objects, with the reasons of their reconcile.
#[derive(Debug)]
pub(crate) struct TombstoneBuffer {
    young: HashMap<ObjectKey, Reasons>,
    /// Keys that are not in `young`.
    old: HashMap<ObjectKey, Reasons>,
    most: usize,
}

impl TombstoneBuffer {
    /// An empty buffer of at most `most` keys.
    pub(crate) fn new(most: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), most }
    }

    /// Adds a tombstone. `false` when others were dropped too early because of the bound.
    pub(crate) fn insert(&mut self, key: ObjectKey, mut reasons: Reasons) -> bool {
        if let Some(before) = self.old.remove(&key) {
            reasons.merge(before);
        }
        // Both halves together stay within the bound.
        let full = self.young.len() >= self.most / 2 && !self.young.contains_key(&key);
        let lost = full && !self.old.is_empty();
        if full {
            self.rotate();
        }
        self.young.entry(key).or_default().merge(reasons);
        !lost
    }

    /// Drops the old half; the young half becomes the old one.
    pub(crate) fn rotate(&mut self) {
        self.old = mem::take(&mut self.young);
    }

    /// Number of tombstones.
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// All keys, each once.
    pub(crate) fn into_keys(self) -> impl Iterator<Item = (ObjectKey, Reasons)> {
        self.old.into_iter().chain(self.young)
    }
}

/// Decides when a tombstone buffer may rotate.
#[derive(Debug)]
pub(crate) struct RotationSchedule {
    lifetime: Duration,
    last: Instant,
}

impl RotationSchedule {
    /// Starts now; each tombstone is kept for at least `lifetime` of a leader's time.
    pub(crate) fn new(lifetime: Duration) -> Self {
        Self { lifetime, last: Instant::now() }
    }

    /// Whether the buffer rotates now; `at_work` is the last time at which a leader was surely at work.
    pub(crate) fn is_due(&mut self, at_work: Option<Instant>) -> bool {
        let due = at_work.is_some_and(|at_work| at_work >= self.last + self.lifetime);
        if due {
            self.last = Instant::now();
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(number: usize) -> ObjectKey {
        format!("ns/{number}").parse().unwrap()
    }

    fn names(reasons: Reasons) -> Vec<&'static str> {
        reasons.of_contract().names().collect()
    }

    #[test]
    fn a_key_is_kept_over_one_turn_and_forgotten_with_the_second() {
        let mut buffer = TombstoneBuffer::new(10);
        assert!(buffer.insert(key(1), Reasons::DELETED));
        buffer.rotate();
        assert!(buffer.insert(key(2), Reasons::DELETED));
        assert_eq!(buffer.len(), 2);
        buffer.rotate();
        assert_eq!(buffer.into_keys().map(|(key, _)| key).collect::<Vec<_>>(), [key(2)]);
    }

    #[test]
    fn a_key_that_is_remembered_again_is_young_and_has_all_its_reasons() {
        let mut buffer = TombstoneBuffer::new(10);
        buffer.insert(key(1), Reasons::DELETED);
        buffer.rotate();
        buffer.insert(key(1), Reasons::OWNED);
        assert_eq!(buffer.len(), 1);
        buffer.rotate();
        let left: Vec<_> = buffer.into_keys().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(names(left[0].1), ["deleted", "owned"]);
    }

    #[test]
    fn there_are_never_more_keys_than_the_bound_and_the_youngest_stay() {
        let mut buffer = TombstoneBuffer::new(100);
        // Half of the bound in each half: nothing is lost yet.
        assert!((0..100).all(|n| buffer.insert(key(n), Reasons::DELETED)));
        assert!(!buffer.insert(key(100), Reasons::DELETED), "the first fifty had to go");
        assert_eq!(buffer.len(), 51);
        for n in 101..10_000 {
            buffer.insert(key(n), Reasons::DELETED);
            assert!(buffer.len() <= 100);
        }
        let left: Vec<_> = buffer.into_keys().map(|(key, _)| key).collect();
        assert!((9_950..10_000).all(|n| left.contains(&key(n))), "{left:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_forgotten_while_no_leader_is_seen() {
        let mut schedule = RotationSchedule::new(SECOND * 10);
        let begin = Instant::now();
        tokio::time::advance(SECOND * 3600).await;
        assert!(!schedule.is_due(None));
        // It was there, and has not been heard of since.
        assert!(!schedule.is_due(Some(begin + SECOND * 9)));
        assert!(schedule.is_due(Some(begin + SECOND * 10)));
        // The same renewal does not count twice.
        assert!(!schedule.is_due(Some(begin + SECOND * 10)));
        assert!(!schedule.is_due(Some(begin + SECOND * 3609)));
        assert!(schedule.is_due(Some(begin + SECOND * 3610)));
    }

    proptest! {
        /// In any order of steps: a tombstone stays until a leader was seen `lifetime` after its insertion. With a leader
        /// that renews, it is dropped after a little more than two.
        #[test]
        fn a_key_is_kept_until_a_leader_was_there_long_after_it(
            steps in prop::collection::vec((0_usize..6, 0_u64..8, any::<bool>(), any::<bool>()), 1..100),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let lifetime = SECOND * 10;
                let (mut buffer, mut schedule) = (TombstoneBuffer::new(1000), RotationSchedule::new(lifetime));
                let mut told = HashMap::new();
                let mut at_work = None;
                for (n, seconds, renews, remembers) in steps {
                    tokio::time::advance(SECOND * u32::try_from(seconds).unwrap()).await;
                    if renews {
                        at_work = Some(Instant::now());
                    }
                    if schedule.is_due(at_work) {
                        buffer.rotate();
                    }
                    if remembers {
                        buffer.insert(key(n), Reasons::DELETED);
                        told.insert(n, Instant::now());
                    }
                    for (n, told) in &told {
                        let held = buffer.young.contains_key(&key(*n)) || buffer.old.contains_key(&key(*n));
                        let handled = at_work.is_some_and(|at_work| at_work >= *told + lifetime);
                        prop_assert!(held || handled, "{n} of {told:?} was forgotten, seen {at_work:?}");
                    }
                }
                // The leader renews on.
                for _ in 0..21 {
                    tokio::time::advance(SECOND).await;
                    if schedule.is_due(Some(Instant::now())) {
                        buffer.rotate();
                    }
                }
                prop_assert_eq!(buffer.len(), 0);
                Ok(())
            })?;
        }
    }
}
