//! [`Parts`]: which keys of a round the next call gets, halved after a fault; [`BatchSize`]: how many keys a worker gathers.
//!
//! A fault names no key. If the same keys were tried again together, one key that makes the guest trap would hold up all
//! others. So a part that faults is tried again in halves, at once, until a key that faults alone is found; that key waits
//! in backoff. A round is given up after a number of faults in a row: then the guest is at fault, not a key. A call that
//! exceeds its deadline is not tried again at once, but the next rounds are smaller.
//!
//! No call, no clock and no queue in this file.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pilothouse_engine::FaultKind;
use smallvec::SmallVec;

/// Faults in a row of one round that are tolerated, beyond those on the way to a single key.
const TOLERATED_FAULTS: usize = 16;

/// The parts of a round that have not been called yet.
#[derive(Debug)]
pub(super) struct Parts {
    /// The next part last.
    waiting: SmallVec<[Range<usize>; 1]>,
    faults_in_a_row: usize,
    tolerated: usize,
}

/// What follows for the keys of a part whose call faulted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterFault {
    /// They are called again in this round, in halves.
    Halved,
    /// They are tried again after a backoff.
    Backoff,
}

impl Parts {
    /// A round of `keys` keys in calls of at most `max` keys.
    pub(super) fn new(keys: usize, max: usize) -> Self {
        let waiting = (0..keys).step_by(max.max(1)).map(|start| start..keys.min(start + max.max(1)));
        Self {
            waiting: waiting.rev().collect(),
            faults_in_a_row: 0,
            tolerated: TOLERATED_FAULTS + keys.max(1).ilog2() as usize,
        }
    }

    /// Takes the next part; none at the end of the round.
    pub(super) fn next(&mut self) -> Option<Range<usize>> {
        self.waiting.pop()
    }

    /// Takes the parts that were not called.
    pub(super) fn take_waiting(&mut self) -> SmallVec<[Range<usize>; 1]> {
        std::mem::take(&mut self.waiting)
    }

    /// Whether the round is given up: its parts are not called any more.
    pub(super) fn is_given_up(&self) -> bool {
        self.faults_in_a_row > self.tolerated
    }

    /// The call of a part was answered.
    pub(super) fn answered(&mut self) {
        self.faults_in_a_row = 0;
    }

    /// The call of a part faulted.
    pub(super) fn faulted(&mut self, part: Range<usize>, kind: FaultKind) -> AfterFault {
        self.faults_in_a_row += 1;
        if part.len() < 2 || !may_be_of_one_key(kind) {
            return AfterFault::Backoff;
        }
        let middle = part.start + part.len() / 2;
        self.waiting.extend([middle..part.end, part.start..middle]);
        AfterFault::Halved
    }
}

/// Whether a call with fewer keys may be answered. A deadline, or an instance that cannot be made, is not due to a key.
fn may_be_of_one_key(kind: FaultKind) -> bool {
    match kind {
        FaultKind::Trap | FaultKind::Cpu | FaultKind::Memory | FaultKind::Limit | FaultKind::Answer => true,
        FaultKind::Deadline
        | FaultKind::Waiting
        | FaultKind::Instantiate
        | FaultKind::HostBusy
        | FaultKind::CodeUnavailable => false,
    }
}

/// How many keys the rounds of one worker have, where that is fewer than the generation allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchSize(usize);

/// The size with which a new worker begins: that of the worker which ended a round last.
#[derive(Debug)]
pub(crate) struct SharedBatchSize(AtomicUsize);

impl Default for SharedBatchSize {
    fn default() -> Self {
        Self(AtomicUsize::new(BatchSize::default().0))
    }
}

impl SharedBatchSize {
    pub(super) fn get(&self) -> BatchSize {
        BatchSize(self.0.load(Relaxed))
    }

    pub(super) fn set(&self, size: BatchSize) {
        self.0.store(size.0, Relaxed);
    }
}

impl Default for BatchSize {
    fn default() -> Self {
        Self(usize::MAX)
    }
}

impl BatchSize {
    /// Keys of a round, where the generation allows `max`.
    pub(super) fn limit(self, max: usize) -> usize {
        self.0.min(max)
    }

    /// A call of so many keys was answered.
    pub(super) fn answered(&mut self, keys: usize) {
        if keys >= self.0 {
            // Slowly: a size that is too large costs a whole deadline.
            self.0 = self.0.saturating_add(self.0 / 8 + 1);
        }
    }

    /// A call of so many keys faulted.
    pub(super) fn faulted(&mut self, keys: usize, kind: FaultKind) {
        if matches!(kind, FaultKind::Deadline | FaultKind::Waiting) {
            self.0 = (keys / 2).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a round in which calls with one of these keys trap; the sizes of the calls, and the keys in backoff.
    fn round(keys: usize, max: usize, poisonous: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let mut parts = Parts::new(keys, max);
        let (mut calls, mut backoff) = (Vec::new(), Vec::new());
        while let Some(part) = parts.next() {
            if parts.is_given_up() {
                backoff.extend(part);
                continue;
            }
            calls.push(part.len());
            if !poisonous.iter().any(|key| part.contains(key)) {
                parts.answered();
            } else if parts.faulted(part.clone(), FaultKind::Trap) == AfterFault::Backoff {
                backoff.extend(part);
            }
        }
        (calls, backoff)
    }

    #[test]
    fn keys_are_called_in_their_order_in_parts_of_the_largest_size() {
        let mut parts = Parts::new(7, 3);
        let all: Vec<_> = std::iter::from_fn(|| parts.next()).collect();
        assert_eq!(all, [0..3, 3..6, 6..7]);
        assert_eq!(round(3, 1, &[]).0, [1, 1, 1]);
    }

    #[test]
    fn a_part_that_traps_is_halved_down_to_the_key_that_traps_alone() {
        let (calls, backoff) = round(8, 100, &[5]);
        assert_eq!(calls, [8, 4, 4, 2, 1, 1, 2]);
        assert_eq!(backoff, [5]);
    }

    #[test]
    fn each_of_several_poisonous_keys_is_found() {
        assert_eq!(round(100, 100, &[0, 17, 99]).1, [0, 17, 99]);
    }

    #[test]
    fn a_guest_that_always_faults_gets_a_bounded_number_of_calls_and_all_keys_wait() {
        let all: Vec<usize> = (0..100).collect();
        let (calls, mut backoff) = round(100, 100, &all);
        assert_eq!(calls.len(), TOLERATED_FAULTS + 6 + 1);
        backoff.sort_unstable();
        assert_eq!(backoff, all);
    }

    #[test]
    fn faults_that_are_not_due_to_a_key_halve_nothing() {
        let of_no_key = [
            FaultKind::Deadline,
            FaultKind::Waiting,
            FaultKind::Instantiate,
            FaultKind::HostBusy,
            FaultKind::CodeUnavailable,
        ];
        for kind in of_no_key {
            let mut parts = Parts::new(10, 10);
            let part = parts.next().unwrap();
            assert_eq!(parts.faulted(part, kind), AfterFault::Backoff);
            assert_eq!(parts.next(), None);
        }
    }

    #[test]
    fn a_deadline_halves_the_size_and_answers_of_full_size_let_it_grow_slowly() {
        let mut size = BatchSize::default();
        assert_eq!(size.limit(100), 100);
        size.faulted(100, FaultKind::Trap);
        assert_eq!(size.limit(100), 100);
        size.faulted(100, FaultKind::Deadline);
        assert_eq!(size.limit(100), 50);
        size.answered(49);
        assert_eq!(size.limit(100), 50, "the call was not of full size");
        size.answered(50);
        assert_eq!(size.limit(100), 57);
        for _ in 0..10 {
            let limit = size.limit(100);
            size.answered(limit);
        }
        assert_eq!(size.limit(100), 100);
        for _ in 0..10 {
            let limit = size.limit(100);
            size.faulted(limit, FaultKind::Deadline);
        }
        assert_eq!(size.limit(100), 1);
    }
}
