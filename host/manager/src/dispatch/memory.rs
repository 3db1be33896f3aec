//! [`Memory`]: the keys for which something went away lately, of a plugin whose host stands by; [`Turns`]: when the memory may
//! forget.
//!
//! What goes away leaves no trace in the caches, so a host that begins to work could not tell its plugins of it. What went
//! long ago was the business of the leader before. How long is long enough is not a matter of the clock alone: a leader may
//! die right after a deletion, and nobody may be able to take over for hours. So a deletion is forgotten only when a leader
//! was seen to be there so long *after* it that it must have begun the call for it: `keep`, which is the duration of the
//! lease, and the time for which a leader that was told to end still renews while it begins nothing.
//!
//! The memory has two halves. They turn when a leader was there `keep` after the turn before: what the old one holds was
//! told before that turn, and goes. Each key is thus kept for one `keep` at least and, with a leader that renews, not much
//! longer than two. Nothing here knows what a key stands for, nor a lock.

use std::mem;
use std::time::Duration;

use hashbrown::HashMap;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::Merge as _;
use tokio::time::Instant;

use crate::dispatch::reasons::Reasons;

/// Most keys that one plugin's memory holds, some 10 MiB; the youngest are kept.
pub(crate) const MOST_REMEMBERED: usize = 100_000;

/// Keys for which something went away lately, and why they are to be reconciled.
#[derive(Debug)]
pub(crate) struct Memory {
    young: HashMap<ObjectKey, Reasons>,
    /// Keys that are not in `young`.
    old: HashMap<ObjectKey, Reasons>,
    most: usize,
}

impl Memory {
    /// An empty memory of at most so many keys.
    pub(crate) fn new(most: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), most }
    }

    /// Remembers a key. `false` when others had to be forgotten for it before their time.
    pub(crate) fn remember(&mut self, key: ObjectKey, mut reasons: Reasons) -> bool {
        if let Some(before) = self.old.remove(&key) {
            reasons.merge(before);
        }
        // So that both halves together hold no more than the bound.
        let full = self.young.len() >= self.most / 2 && !self.young.contains_key(&key);
        let lost = full && !self.old.is_empty();
        if full {
            self.turn();
        }
        self.young.entry(key).or_default().merge(reasons);
        !lost
    }

    /// Forgets the old half, and makes the young one the old one.
    pub(crate) fn turn(&mut self) {
        self.old = mem::take(&mut self.young);
    }

    /// Keys that are remembered.
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// All keys that are remembered, each once.
    pub(crate) fn into_keys(self) -> impl Iterator<Item = (ObjectKey, Reasons)> {
        self.old.into_iter().chain(self.young)
    }
}

/// Tells when memories may turn.
#[derive(Debug)]
pub(crate) struct Turns {
    keep: Duration,
    last: Instant,
}

impl Turns {
    /// From now on; each key is to be kept for `keep` of a leader's time.
    pub(crate) fn new(keep: Duration) -> Self {
        Self { keep, last: Instant::now() }
    }

    /// Whether the memory is to turn now; `at_work` is the last time at which a leader was surely there.
    pub(crate) fn is_due(&mut self, at_work: Option<Instant>) -> bool {
        let due = at_work.is_some_and(|at_work| at_work >= self.last + self.keep);
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
        reasons.names().collect()
    }

    #[test]
    fn a_key_is_kept_over_one_turn_and_forgotten_with_the_second() {
        let mut memory = Memory::new(10);
        assert!(memory.remember(key(1), Reasons::DELETED));
        memory.turn();
        assert!(memory.remember(key(2), Reasons::DELETED));
        assert_eq!(memory.len(), 2);
        memory.turn();
        assert_eq!(memory.into_keys().map(|(key, _)| key).collect::<Vec<_>>(), [key(2)]);
    }

    #[test]
    fn a_key_that_is_remembered_again_is_young_and_has_all_its_reasons() {
        let mut memory = Memory::new(10);
        memory.remember(key(1), Reasons::DELETED);
        memory.turn();
        memory.remember(key(1), Reasons::OWNED);
        assert_eq!(memory.len(), 1);
        memory.turn();
        let left: Vec<_> = memory.into_keys().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(names(left[0].1), ["deleted", "owned"]);
    }

    #[test]
    fn there_are_never_more_keys_than_the_bound_and_the_youngest_stay() {
        let mut memory = Memory::new(100);
        // Half of the bound in each half: nothing is lost yet.
        assert!((0..100).all(|n| memory.remember(key(n), Reasons::DELETED)));
        assert!(!memory.remember(key(100), Reasons::DELETED), "the first fifty had to go");
        assert_eq!(memory.len(), 51);
        for n in 101..10_000 {
            memory.remember(key(n), Reasons::DELETED);
            assert!(memory.len() <= 100);
        }
        let left: Vec<_> = memory.into_keys().map(|(key, _)| key).collect();
        assert!((9_950..10_000).all(|n| left.contains(&key(n))), "{left:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_forgotten_while_no_leader_is_seen() {
        let mut turns = Turns::new(SECOND * 10);
        let begin = Instant::now();
        tokio::time::advance(SECOND * 3600).await;
        assert!(!turns.is_due(None));
        // It was there, and has not been heard of since.
        assert!(!turns.is_due(Some(begin + SECOND * 9)));
        assert!(turns.is_due(Some(begin + SECOND * 10)));
        // The same renewal does not count twice.
        assert!(!turns.is_due(Some(begin + SECOND * 10)));
        assert!(!turns.is_due(Some(begin + SECOND * 3609)));
        assert!(turns.is_due(Some(begin + SECOND * 3610)));
    }

    proptest! {
        /// Whatever comes in which order: a key is there until a leader was seen `keep` after it was remembered, and with one
        /// that renews it is gone after two and some.
        #[test]
        fn a_key_is_kept_until_a_leader_was_there_long_after_it(
            steps in prop::collection::vec((0_usize..6, 0_u64..8, any::<bool>(), any::<bool>()), 1..100),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let keep = SECOND * 10;
                let (mut memory, mut turns) = (Memory::new(1000), Turns::new(keep));
                let mut told = HashMap::new();
                let mut at_work = None;
                for (n, seconds, renews, remembers) in steps {
                    tokio::time::advance(SECOND * u32::try_from(seconds).unwrap()).await;
                    if renews {
                        at_work = Some(Instant::now());
                    }
                    if turns.is_due(at_work) {
                        memory.turn();
                    }
                    if remembers {
                        memory.remember(key(n), Reasons::DELETED);
                        told.insert(n, Instant::now());
                    }
                    for (n, told) in &told {
                        let held = memory.young.contains_key(&key(*n)) || memory.old.contains_key(&key(*n));
                        let handled = at_work.is_some_and(|at_work| at_work >= *told + keep);
                        prop_assert!(held || handled, "{n} of {told:?} was forgotten, seen {at_work:?}");
                    }
                }
                // The leader renews on.
                for _ in 0..21 {
                    tokio::time::advance(SECOND).await;
                    if turns.is_due(Some(Instant::now())) {
                        memory.turn();
                    }
                }
                prop_assert_eq!(memory.len(), 0);
                Ok(())
            })?;
        }
    }
}
