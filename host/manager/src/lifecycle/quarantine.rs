//! [`Quarantine`]: the policy that pauses a plugin whose calls fault again and again.
//!
//! Ten faults in a row, without an answer between them, start a pause of one second. Each further fault starts a pause of
//! twice the length, up to five minutes. An answer, even a failure, ends the row; so does a new generation.
//!
//! No clock and no lock in this file: callers pass the time.

use std::time::Duration;

use tokio::time::Instant;

/// Faults in a row after which a plugin is quarantined.
pub(crate) const FAULTS_TO_QUARANTINE: u32 = 10;
/// The first pause.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause: a plugin that was repaired from outside, without a new version, is tried again by then.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Faults in a row of one plugin, and the pause that followed.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    faults_in_a_row: u32,
    until: Option<Instant>,
}

/// A quarantine that began with a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quarantined {
    /// Faults in a row so far.
    pub(crate) faults: u32,
    /// Time until the next call.
    pub(crate) pause: Duration,
}

impl Quarantine {
    /// Counts a fault; a quarantine begins when there were many.
    pub(crate) fn record_fault(&mut self, now: Instant) -> Option<Quarantined> {
        self.faults_in_a_row = self.faults_in_a_row.saturating_add(1);
        let beyond = self.faults_in_a_row.checked_sub(FAULTS_TO_QUARANTINE)?;
        // The longest pause is reached with fewer doublings than the shift allows.
        let pause = SHORTEST_PAUSE.saturating_mul(1 << beyond.min(16)).min(LONGEST_PAUSE);
        self.until = Some(now + pause);
        Some(Quarantined { faults: self.faults_in_a_row, pause })
    }

    /// Ends the row of faults, and the quarantine.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Whether the last call faulted.
    pub(crate) fn has_faults(&self) -> bool {
        self.faults_in_a_row > 0
    }

    /// When the quarantine ends; none when the plugin is not in quarantine.
    pub(crate) fn ends_at(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(quarantine: &mut Quarantine, faults: usize) -> Vec<Option<u64>> {
        let now = Instant::now();
        (0..faults).map(|_| quarantine.record_fault(now).map(|began| began.pause.as_secs())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_tenth_fault_in_a_row_starts_a_pause_and_each_further_one_doubles_it_up_to_five_minutes() {
        let mut quarantine = Quarantine::default();
        assert_eq!(pauses(&mut quarantine, 9), [None; 9]);
        let expected = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map(Some);
        assert_eq!(pauses(&mut quarantine, expected.len()), expected);
        // Far beyond the width of the shift.
        assert_eq!(pauses(&mut quarantine, 100).last(), Some(&Some(300)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reset_begins_a_new_row_and_ends_the_pause() {
        let mut quarantine = Quarantine::default();
        pauses(&mut quarantine, 12);
        assert!(quarantine.has_faults() && quarantine.ends_at(Instant::now()).is_some());
        quarantine.reset();
        assert!(!quarantine.has_faults() && quarantine.ends_at(Instant::now()).is_none());
        assert_eq!(pauses(&mut quarantine, 10)[9], Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_quarantine_ends_with_its_pause_and_the_row_goes_on() {
        let mut quarantine = Quarantine::default();
        pauses(&mut quarantine, 10);
        let end = Instant::now() + SHORTEST_PAUSE;
        assert_eq!(quarantine.ends_at(Instant::now()), Some(end));
        tokio::time::advance(SHORTEST_PAUSE).await;
        assert_eq!(quarantine.ends_at(Instant::now()), None);
        assert!(quarantine.has_faults());
        let next = quarantine.record_fault(Instant::now());
        assert_eq!(next, Some(Quarantined { faults: 11, pause: SHORTEST_PAUSE * 2 }));
    }
}
