//! [`TombstoneBuffer`]: on a standby, the keys of recently deleted objects of one plugin; [`RotationSchedule`]: when old ones
//! are dropped.
//!
//! Caches do not show deleted objects, so a new leader needs another way to find the keys to reconcile for them. Old
//! deletions were handled by the leader before. Time alone does not tell which are old: a leader may die right after a
//! deletion, and the next one may take over hours later. A tombstone is dropped only when a leader was seen at work at
//! least `lifetime` *after* the deletion, since that leader must have begun the call for it. `lifetime` is the duration of
//! the lease plus the time for which a leader that shuts down still renews but begins no call.
//!
//! The buffer rotates when a leader was seen at work `lifetime` after the last rotation, which drops what was there before
//! that one. So each tombstone is kept for at least one `lifetime` and, while a leader renews, for about two at most. The
//! number of tombstones is bounded by the gate (`leadership_gate.rs`), over all buffers of a plugin. No lock in this file.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::Merge as _;
use tokio::time::Instant;

use crate::dispatch::reasons::Reasons;

/// Most tombstones of one plugin, about 10 MiB; the youngest are kept.
pub(crate) const MAX_TOMBSTONES: usize = 100_000;

/// Into how many portions the most tombstones are divided. Too many tombstones drop one portion, and each insertion looks for
/// its key in all of them.
const PORTIONS: usize = 32;

/// Keys of recently deleted objects, with the reasons of their reconcile.
#[derive(Debug)]
pub(crate) struct TombstoneBuffer {
    /// The oldest first. Each key is in one of them.
    portions: VecDeque<HashMap<ObjectKey, Reasons>>,
    /// The portions from before the last rotation.
    old: usize,
    /// Keys of a portion.
    portion: usize,
}

impl TombstoneBuffer {
    /// An empty buffer, of a plugin with at most `most` tombstones.
    pub(crate) fn new(most: usize) -> Self {
        Self { portions: VecDeque::new(), old: 0, portion: (most / PORTIONS).max(1) }
    }

    /// Adds a tombstone.
    pub(crate) fn insert(&mut self, key: ObjectKey, mut reasons: Reasons) {
        for (number, portion) in self.portions.iter_mut().enumerate() {
            if number < self.old {
                // It is young from now on.
                if let Some(before) = portion.remove(&key) {
                    reasons.merge(before);
                    break;
                }
            } else if let Some(present) = portion.get_mut(&key) {
                return present.merge(reasons);
            }
        }
        let is_young = self.old < self.portions.len();
        let newest = self.portions.back_mut().filter(|newest| is_young && newest.len() < self.portion);
        match newest {
            Some(newest) => _ = newest.insert(key, reasons),
            None => self.portions.push_back(HashMap::from_iter([(key, reasons)])),
        }
    }

    /// Drops what was there before the last rotation; what is there now counts as old.
    pub(crate) fn rotate(&mut self) {
        self.portions.drain(..self.old);
        self.old = self.portions.len();
    }

    /// Drops the oldest portion.
    pub(crate) fn drop_oldest(&mut self) {
        self.portions.pop_front();
        self.old = self.old.saturating_sub(1);
    }

    /// Number of tombstones.
    pub(crate) fn len(&self) -> usize {
        self.portions.iter().map(HashMap::len).sum()
    }

    /// All keys, each once, the oldest first.
    pub(crate) fn into_keys(self) -> impl Iterator<Item = (ObjectKey, Reasons)> {
        self.portions.into_iter().flatten()
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
        buffer.insert(key(1), Reasons::DELETED);
        buffer.rotate();
        buffer.insert(key(2), Reasons::DELETED);
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
    fn the_oldest_keys_go_first() {
        let mut buffer = TombstoneBuffer::new(PORTIONS * 10);
        for round in 0..2 {
            for n in 0..25 {
                buffer.insert(key(100 * round + n), Reasons::DELETED);
            }
            if round == 0 {
                buffer.rotate();
            }
        }
        // One that is remembered again is young.
        buffer.insert(key(3), Reasons::DELETED);
        buffer.drop_oldest();
        assert_eq!(buffer.len(), 41);
        (0..2).for_each(|_| buffer.drop_oldest());
        assert_eq!(buffer.len(), 26);
        // No portion from before the rotation is left: this drops nothing.
        buffer.rotate();
        let left: Vec<_> = buffer.into_keys().map(|(key, _)| key).collect();
        assert!(left.len() == 26 && left.contains(&key(3)) && left.contains(&key(100)), "{left:?}");
    }

    #[test]
    fn what_comes_again_and_again_makes_no_more_portions() {
        let mut buffer = TombstoneBuffer::new(PORTIONS * 10);
        for _ in 0..1000 {
            (0..25).for_each(|n| buffer.insert(key(n), Reasons::DELETED));
        }
        assert_eq!((buffer.len(), buffer.portions.len()), (25, 3));
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
                        let held = buffer.portions.iter().any(|portion| portion.contains_key(&key(*n)));
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
