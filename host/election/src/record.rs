//! [`LeaderElectionRecord`]: what a lock says of who leads.

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
