//! [`Probation`]: the first calls of a generation that replaced a good one, and whether they ask for a rollback.
//!
//! The probation lasts for [`MAX_CALLS`] calls, or for [`MAX_TIME`] since the first call; without calls it goes on, so a
//! version that nobody called for a day is still on probation. It fails when calls for [`KEYS_TO_ROLL_BACK`] different
//! keys fault, or, at its end, when there was no answer and a fault. Keys that faulted in the generation before are
//! nothing that a rollback would heal; they do not count.
//!
//! No clock, no timer and no lock in this file: callers pass the time, and a probation ends with the next call after its
//! time.

use std::collections::HashSet;
use std::time::Duration;

use pilothouse_object::ObjectKey;
use tokio::time::Instant;

/// Calls of a probation.
const MAX_CALLS: u32 = 20;
/// Time of a probation since its first call.
const MAX_TIME: Duration = Duration::from_secs(60);
/// Different keys whose faults end a probation at once.
const KEYS_TO_ROLL_BACK: usize = 3;

/// The probation of one generation.
#[derive(Debug)]
pub(crate) struct Probation {
    /// Keys that faulted in the generation before.
    inherited: HashSet<ObjectKey>,
    faulted: HashSet<ObjectKey>,
    first_call: Option<Instant>,
    calls: u32,
    any_answer: bool,
}

/// What a call says about the generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The probation goes on.
    Open,
    /// The generation is good.
    Passed,
    /// The generation before is to come back.
    RollBack,
}

impl Probation {
    pub(crate) fn new(inherited: HashSet<ObjectKey>) -> Self {
        Self { inherited, faulted: HashSet::new(), first_call: None, calls: 0, any_answer: false }
    }

    /// A call was answered.
    pub(crate) fn answered(&mut self, now: Instant) -> Verdict {
        self.any_answer = true;
        self.count_call(now)
    }

    /// The calls of a round faulted for these keys.
    pub(crate) fn faulted(&mut self, keys: &[ObjectKey], now: Instant) -> Verdict {
        let counts = |key: &&ObjectKey| !self.inherited.contains(*key);
        self.faulted.extend(keys.iter().filter(counts).cloned());
        if self.faulted.len() >= KEYS_TO_ROLL_BACK { Verdict::RollBack } else { self.count_call(now) }
    }

    fn count_call(&mut self, now: Instant) -> Verdict {
        self.calls += 1;
        let first = *self.first_call.get_or_insert(now);
        if self.calls < MAX_CALLS && now.duration_since(first) < MAX_TIME {
            Verdict::Open
        } else if self.any_answer || self.faulted.is_empty() {
            Verdict::Passed
        } else {
            Verdict::RollBack
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> ObjectKey {
        format!("ns/{number}").parse().unwrap()
    }

    fn probation() -> Probation {
        Probation::new(HashSet::new())
    }

    #[tokio::test(start_paused = true)]
    async fn faults_of_three_keys_fail_it_whatever_was_answered() {
        let (mut probation, now) = (probation(), Instant::now());
        for number in 0..2 {
            assert_eq!(probation.faulted(&[key(number)], now), Verdict::Open);
            assert_eq!(probation.faulted(&[key(number)], now), Verdict::Open, "the same key again");
            assert_eq!(probation.answered(now), Verdict::Open);
        }
        assert_eq!(probation.faulted(&[key(2)], now), Verdict::RollBack);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_passed_after_twenty_calls_or_sixty_seconds_with_an_answer() {
        let (mut calls, now) = (probation(), Instant::now());
        calls.faulted(&[key(0)], now);
        for _ in 1..MAX_CALLS - 1 {
            assert_eq!(calls.answered(now), Verdict::Open);
        }
        assert_eq!(calls.answered(now), Verdict::Passed);
        let mut time = probation();
        assert_eq!(time.answered(now), Verdict::Open);
        assert_eq!(time.answered(now + MAX_TIME), Verdict::Passed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_with_one_key_fails_it_when_no_call_of_it_was_answered() {
        let (mut time, now) = (probation(), Instant::now());
        assert_eq!(time.faulted(&[key(0)], now), Verdict::Open);
        assert_eq!(time.faulted(&[key(0)], now + MAX_TIME), Verdict::RollBack);
        let mut calls = probation();
        let verdicts: Vec<_> = (0..MAX_CALLS).map(|_| calls.faulted(&[key(0)], now)).collect();
        assert_eq!(verdicts.iter().position(|v| *v == Verdict::RollBack), Some(MAX_CALLS as usize - 1));
    }

    #[tokio::test(start_paused = true)]
    async fn its_time_begins_with_the_first_call() {
        let mut probation = probation();
        tokio::time::advance(MAX_TIME * 10).await;
        assert_eq!(probation.faulted(&[key(0)], Instant::now()), Verdict::Open);
        assert_eq!(probation.faulted(&[key(1), key(2)], Instant::now()), Verdict::RollBack);
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_faulted_before_do_not_count() {
        let now = Instant::now();
        let mut probation = Probation::new((0..10).map(key).collect());
        for number in 0..10 {
            assert_eq!(probation.faulted(&[key(number)], now), Verdict::Open);
        }
        assert_eq!(probation.faulted(&[key(3)], now + MAX_TIME), Verdict::Passed);
    }
}
