//! [`Quarantine`]: the policy that pauses a plugin whose calls fault for several different keys.
//!
//! ```text
//!            faults of 3 different keys                the pause is over
//!  Closed ────────────────────────────────► Paused ─────────────────────────► Probing (half open: one key)
//!    ▲                                        ▲  a fault: twice the pause        │
//!    │                                        └──────────────────────────────────┤
//!    └───────────────────────────────────────────────────────────────────────────┘ an answer
//! ```
//!
//! Invariants: a key that faults is retried with the backoff of the queue, and that is all that one key can cause. A key
//! counts once: only its first fault since its last answer is counted, so a few keys that always fault never pause the
//! plugin again and again. The counted faults lie within [`WINDOW`], with no answer between them. An answer closes the
//! quarantine.
//!
//! A plugin has one quarantine for its reconciles and one for its event handlers; a new generation begins with new ones.
//! No clock and no lock in this file: callers pass the time.

use std::collections::HashSet;
use std::mem;
use std::time::Duration;

use pilothouse_object::ObjectKey;
use tokio::time::Instant;

/// Different keys whose faults, without an answer between them, begin a quarantine.
pub(crate) const KEYS_TO_QUARANTINE: usize = 3;
/// The longest time between the first and the last of these faults.
const WINDOW: Duration = Duration::from_secs(60);
/// The first pause.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause: a plugin that was repaired from outside, without a new version, is tried again by then.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Failing keys that are remembered. The faults of further ones are counted each time.
const MAX_FAILING: usize = 1024;

/// The faults of one sort of calls of one generation, and the pause that followed.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    /// Keys whose first fault came since the last answer, with its time.
    row: Vec<(ObjectKey, Instant)>,
    /// Keys whose last call faulted.
    failing: HashSet<ObjectKey>,
    phase: Phase,
    /// Number of the last probe.
    last_probe: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Closed,
    Paused {
        until: Instant,
        pause: Duration,
    },
    /// The pause is over, and one call finds out whether the plugin works again.
    Probing {
        pause: Duration,
    },
}

/// Whether a call may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Call,
    /// This call is the probe with this number; all others wait for its end.
    Probe(u64),
    /// Not before this time, or before the end of the probe.
    Wait(Option<Instant>),
}

/// A quarantine that began or was extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quarantined {
    /// Different keys that faulted; 1 for a probe.
    pub(crate) keys: usize,
    /// Time until the next call.
    pub(crate) pause: Duration,
}

impl Quarantine {
    /// Asks for a call. Whoever gets a probe reports its answer or its fault, or else [`gives it back`](Self::end_probe).
    pub(crate) fn admit(&mut self, now: Instant) -> Admission {
        match self.blocked(now) {
            Some(until) => Admission::Wait(until),
            None => match self.phase {
                Phase::Paused { pause, .. } => {
                    self.phase = Phase::Probing { pause };
                    self.last_probe += 1;
                    Admission::Probe(self.last_probe)
                }
                Phase::Closed | Phase::Probing { .. } => Admission::Call,
            },
        }
    }

    /// Whether no call may begin: until this time, or until the probe ends.
    pub(crate) fn blocked(&self, now: Instant) -> Option<Option<Instant>> {
        match self.phase {
            Phase::Closed => None,
            Phase::Paused { until, .. } => (until > now).then_some(Some(until)),
            Phase::Probing { .. } => Some(None),
        }
    }

    /// A probe ended. Without an answer or a fault of its own the next call is a probe again.
    pub(crate) fn end_probe(&mut self, number: u64, now: Instant) {
        if let Phase::Probing { pause } = self.phase
            && self.last_probe == number
        {
            self.phase = Phase::Paused { until: now, pause };
        }
    }

    /// Ends the pause: calls may begin at once.
    pub(crate) fn release(&mut self) {
        self.row.clear();
        self.phase = Phase::Closed;
    }

    /// Calls for these keys were answered.
    pub(crate) fn answered<'a>(&mut self, keys: impl IntoIterator<Item = &'a ObjectKey>) {
        self.row.clear();
        self.phase = Phase::Closed;
        if !self.failing.is_empty() {
            keys.into_iter().for_each(|key| _ = self.failing.remove(key));
        }
    }

    /// Calls for these keys faulted, and no other call of the round was answered.
    pub(crate) fn faulted(&mut self, keys: &[ObjectKey], now: Instant) -> Option<Quarantined> {
        self.row.retain(|(_, at)| now.duration_since(*at) <= WINDOW);
        for key in keys {
            if self.mark_failing(key) && self.row.len() < KEYS_TO_QUARANTINE {
                self.row.push((key.clone(), now));
            }
        }
        let (keys, pause) = match self.phase {
            Phase::Closed if self.row.len() < KEYS_TO_QUARANTINE => return None,
            Phase::Closed => (self.row.len(), SHORTEST_PAUSE),
            // A call that began before the pause.
            Phase::Paused { .. } => return None,
            Phase::Probing { pause } => (1, (pause * 2).min(LONGEST_PAUSE)),
        };
        self.row.clear();
        self.phase = Phase::Paused { until: now + pause, pause };
        Some(Quarantined { keys, pause })
    }

    /// The call for a key faulted. Whether the one before had not.
    pub(crate) fn mark_failing(&mut self, key: &ObjectKey) -> bool {
        if self.failing.contains(key) {
            return false;
        }
        if self.failing.len() < MAX_FAILING {
            self.failing.insert(key.clone());
        }
        true
    }

    /// Whether the last call for a key faulted.
    pub(crate) fn is_failing(&self, key: &ObjectKey) -> bool {
        self.failing.contains(key)
    }

    /// Whether an answer changes anything.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.phase != Phase::Closed || !self.row.is_empty() || !self.failing.is_empty()
    }

    /// Whether the plugin is paused or probed.
    pub(crate) fn is_active(&self) -> bool {
        self.phase != Phase::Closed
    }

    /// When the next call may begin; none when there is no pause.
    pub(crate) fn ends_at(&self, now: Instant) -> Option<Instant> {
        self.blocked(now).flatten()
    }

    /// Forgets that calls for these keys faulted: no answer for them will come.
    pub(crate) fn forget(&mut self, keys: &[ObjectKey]) {
        keys.iter().for_each(|key| _ = self.failing.remove(key));
    }

    /// Begins anew, for another generation; returns the keys whose last call faulted. A probe of the generation before ends
    /// none of this one: their numbers go on.
    pub(crate) fn begin_anew(&mut self) -> HashSet<ObjectKey> {
        let before = mem::replace(self, Self { last_probe: self.last_probe, ..Self::default() });
        before.failing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> ObjectKey {
        format!("ns/{number}").parse().unwrap()
    }

    /// One fault of each of these keys.
    fn fault(
        quarantine: &mut Quarantine,
        keys: impl IntoIterator<Item = usize>,
        now: Instant,
    ) -> Vec<Option<u64>> {
        let seconds = |began: Quarantined| began.pause.as_secs();
        keys.into_iter().map(|n| quarantine.faulted(&[key(n)], now).map(seconds)).collect()
    }

    fn quarantined(now: Instant) -> Quarantine {
        let mut quarantine = Quarantine::default();
        assert_eq!(fault(&mut quarantine, 0..3, now), [None, None, Some(1)]);
        quarantine
    }

    #[tokio::test(start_paused = true)]
    async fn one_key_that_always_faults_pauses_nothing() {
        let mut quarantine = Quarantine::default();
        let now = Instant::now();
        assert_eq!(fault(&mut quarantine, [1; 100], now), [None; 100]);
        assert_eq!(fault(&mut quarantine, [1, 2].repeat(100), now), [None; 200]);
        assert_eq!(quarantine.admit(now), Admission::Call);
    }

    #[tokio::test(start_paused = true)]
    async fn three_keys_without_an_answer_between_them_begin_a_pause() {
        let now = Instant::now();
        let mut quarantine = quarantined(now);
        let end = now + SHORTEST_PAUSE;
        assert_eq!(quarantine.admit(now), Admission::Wait(Some(end)));
        assert_eq!(quarantine.ends_at(now), Some(end));
        // Calls that began before the pause change nothing.
        assert_eq!(fault(&mut quarantine, 3..20, now), [None; 17]);
        assert_eq!(quarantine.ends_at(now), Some(end));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_between_them_begins_a_new_row() {
        let mut quarantine = Quarantine::default();
        let now = Instant::now();
        fault(&mut quarantine, 0..2, now);
        quarantine.answered([&key(9)]);
        assert_eq!(fault(&mut quarantine, 2..4, now), [None; 2]);
        assert_eq!(fault(&mut quarantine, [4], now), [Some(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn faults_that_lie_far_apart_are_no_row() {
        let mut quarantine = Quarantine::default();
        let mut now = Instant::now();
        for number in 0..10 {
            assert_eq!(fault(&mut quarantine, [number], now), [None]);
            now += WINDOW / 2 + Duration::from_secs(1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_keys_that_caused_a_quarantine_do_not_cause_another_until_they_were_answered() {
        let now = Instant::now();
        let mut quarantine = quarantined(now);
        quarantine.answered([&key(9)]);
        assert_eq!(fault(&mut quarantine, [0, 1, 2].repeat(10), now), [None; 30]);
        quarantine.answered([&key(0), &key(1), &key(2)]);
        assert!(!quarantine.awaits_answer());
        assert_eq!(fault(&mut quarantine, 0..3, now), [None, None, Some(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_pause_one_call_is_the_probe_and_the_others_wait() {
        let now = Instant::now();
        let mut quarantine = quarantined(now);
        let later = now + SHORTEST_PAUSE;
        assert_eq!(quarantine.admit(later), Admission::Probe(1));
        assert_eq!(quarantine.admit(later), Admission::Wait(None));
        assert!(quarantine.is_active());
        quarantine.answered([&key(7)]);
        assert_eq!(quarantine.admit(later), Admission::Call);
        assert!(!quarantine.is_active());
        // Its end comes after its answer.
        quarantine.end_probe(1, later);
        assert_eq!(quarantine.admit(later), Admission::Call);
    }

    #[tokio::test(start_paused = true)]
    async fn each_probe_that_faults_doubles_the_pause_up_to_five_minutes() {
        let mut now = Instant::now();
        let mut quarantine = quarantined(now);
        for pause in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            now = quarantine.ends_at(now).unwrap();
            assert!(matches!(quarantine.admit(now), Admission::Probe(_)));
            // The key may have faulted before, or not.
            let began = quarantine.faulted(&[key(usize::from(pause > 16))], now);
            assert_eq!(began, Some(Quarantined { keys: 1, pause: Duration::from_secs(pause) }));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_of_the_generation_before_ends_no_probe_of_this_one() {
        let now = Instant::now();
        let mut quarantine = quarantined(now);
        let later = now + SHORTEST_PAUSE;
        assert_eq!(quarantine.admit(later), Admission::Probe(1));
        assert_eq!(quarantine.begin_anew().len(), 3);
        assert_eq!(quarantine.admit(later), Admission::Call);
        fault(&mut quarantine, 0..3, later);
        let again = later + SHORTEST_PAUSE;
        assert_eq!(quarantine.admit(again), Admission::Probe(2));
        quarantine.end_probe(1, again);
        assert_eq!(quarantine.admit(again), Admission::Wait(None), "the second probe is under way");
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_ends_without_an_answer_or_a_fault_is_followed_by_another_at_once() {
        let now = Instant::now();
        let mut quarantine = quarantined(now);
        let later = now + SHORTEST_PAUSE;
        assert_eq!(quarantine.admit(later), Admission::Probe(1));
        quarantine.end_probe(0, later);
        assert_eq!(quarantine.admit(later), Admission::Wait(None), "another probe ended");
        quarantine.end_probe(1, later);
        assert_eq!(quarantine.admit(later), Admission::Probe(2));
    }
}
