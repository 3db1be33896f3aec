//! [`LeaderElectionRecord`]: what a lock says of who leads.

use std::time::Duration;

use jiff::Timestamp;

/// What a lock says of who leads: the fields of a Lease's `spec` that the election is about.
///
/// Two records that are equal mean that nobody has renewed in between; no time in them is compared with a clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaderElectionRecord {
    /// Identity of the leader; empty when it has released.
    pub holder_identity: String,
    /// Seconds after which others may take over, counted from when they saw the record change last.
    pub lease_duration_seconds: i32,
    /// When the holder began to lead, by its own clock; for people.
    pub acquire_time: Option<Timestamp>,
    /// When the holder renewed last, by its own clock; for people.
    pub renew_time: Option<Timestamp>,
    /// How many times the lock has changed hands.
    pub leader_transitions: i32,
}

impl LeaderElectionRecord {
    /// Makes a renewal visible whose time is that of the one before, to the microsecond that a Lease holds: a server keeps
    /// the version of an object that was not changed, and the clock of this machine may stand still, or have been set back.
    pub(crate) fn differ_from(&mut self, before: &Self) {
        let same = |a: Option<Timestamp>, b: Option<Timestamp>| {
            a.map(Timestamp::as_microsecond) == b.map(Timestamp::as_microsecond)
        };
        if self.holder_identity == before.holder_identity && same(self.renew_time, before.renew_time) {
            let next = self.renew_time.and_then(|time| time.checked_add(Duration::from_micros(1)).ok());
            self.renew_time = next.or(self.renew_time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_by_a_clock_that_stands_still_is_another_record() {
        let time: Timestamp = "2026-01-02T03:04:05.678901234Z".parse().unwrap();
        let of = |holder: &str, renew_time| LeaderElectionRecord {
            holder_identity: holder.to_owned(),
            renew_time,
            ..LeaderElectionRecord::default()
        };
        // As a Lease holds it.
        let before = of("me", Some("2026-01-02T03:04:05.678901Z".parse().unwrap()));
        let mut renewed = of("me", Some(time));
        renewed.differ_from(&before);
        assert_eq!(format!("{:.6}", renewed.renew_time.unwrap()), "2026-01-02T03:04:05.678902Z");
        // A time that differs is written as it is, also an earlier one.
        for other in [of("me", None), of("you", before.renew_time), of("me", Some(Timestamp::UNIX_EPOCH))] {
            let mut renewed = of("me", Some(time));
            renewed.differ_from(&other);
            assert_eq!(renewed.renew_time, Some(time));
        }
    }
}
