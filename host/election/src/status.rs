//! [`ElectionStatus`]: how an election stands, for health checks, metrics and people.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::LeaderElectionConfig;
use crate::leadership::Leadership;

/// How an election stands; a cheap clone that outlives it.
#[derive(Debug, Clone)]
pub struct ElectionStatus(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    identity: String,
    lease_duration: Duration,
    slowpath: AtomicU64,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Holder in the record that was seen last, and when that was first seen.
    leader: String,
    at: Option<Instant>,
    /// When the lock was looked at last, whatever it showed.
    looked: Option<Instant>,
    /// Another leader has renewed since then.
    at_work: Option<Instant>,
    term: Option<Leadership>,
}

/// The figures of an election, under client-go's names: `leader_election_master_status` and
/// `leader_election_slowpath_total`, both with the label `name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionFigures {
    /// The label `name`.
    pub name: String,
    /// Whether this process leads.
    pub master_status: bool,
    /// Renewals that had to read the lock first.
    pub slowpath_total: u64,
}

impl ElectionStatus {
    pub(crate) fn new(name: String, config: &LeaderElectionConfig) -> Self {
        Self(Arc::new(Inner {
            name,
            identity: config.identity.clone(),
            lease_duration: config.lease_duration,
            slowpath: AtomicU64::new(0),
            seen: Mutex::default(),
        }))
    }

    /// Identity of this candidate.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// Identity of the leader that was seen last; empty when none has been, or it has released.
    #[must_use]
    pub fn leader(&self) -> String {
        self.0.seen.lock().leader.clone()
    }

    /// How long the lease of this candidate lasts after a renewal.
    #[must_use]
    pub fn lease_duration(&self) -> Duration {
        self.0.lease_duration
    }

    /// A time at which another leader was surely there, by local time; none before one has been seen to renew. It is when the
    /// lock was looked at last without the renewal that was seen next, and so never later than that renewal, however late
    /// it was seen.
    #[must_use]
    pub fn leader_at_work(&self) -> Option<Instant> {
        self.0.seen.lock().at_work
    }

    /// Whether this candidate leads, by local time ([`Leadership::is_leading`]).
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0.seen.lock().term.as_ref().is_some_and(Leadership::is_leading)
    }

    /// The present term of this candidate, or the last one.
    #[must_use]
    pub fn leadership(&self) -> Option<Leadership> {
        self.0.seen.lock().term.clone()
    }

    /// The figures for metrics.
    #[must_use]
    pub fn figures(&self) -> ElectionFigures {
        ElectionFigures {
            name: self.0.name.clone(),
            master_status: self.is_leader(),
            slowpath_total: self.0.slowpath.load(Relaxed),
        }
    }

    /// Whether the lease is renewed as it should be; good for a candidate that does not hold it.
    ///
    /// # Errors
    /// When this candidate holds the lease, as far as it knows, and has not renewed it for longer than it lasts and
    /// `tolerance`.
    pub fn check(&self, tolerance: Duration) -> Result<(), String> {
        let seen = self.0.seen.lock();
        let Some(at) = seen.at.filter(|_| seen.leader == self.0.identity) else { return Ok(()) };
        let (age, limit) = (at.elapsed(), self.0.lease_duration + tolerance);
        if age > limit {
            return Err(format!(
                "failed election to renew leadership on lease {}: last renewal {age:?} ago",
                self.0.name
            ));
        }
        Ok(())
    }

    /// A record was seen that differs from the one before.
    pub(crate) fn observed(&self, leader: &str, at: Instant) {
        let mut seen = self.0.seen.lock();
        seen.at = Some(at);
        if !leader.is_empty() && leader != self.0.identity && seen.looked.is_some() {
            seen.at_work = seen.looked;
        }
        if seen.leader != leader {
            leader.clone_into(&mut seen.leader);
        }
    }

    /// The lock was looked at; told after what was seen in it.
    pub(crate) fn looked(&self, at: Instant) {
        self.0.seen.lock().looked = Some(at);
    }

    pub(crate) fn leads(&self, term: Leadership) {
        self.0.seen.lock().term = Some(term);
    }

    pub(crate) fn slowpath(&self) {
        self.0.slowpath.fetch_add(1, Relaxed);
    }
}
