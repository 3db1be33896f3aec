//! [`LeaderHealthzAdaptor`]: client-go's health check of an election.

use std::sync::OnceLock;
use std::time::Duration;

use crate::status::ElectionStatus;

/// A health check that is there before the election is: it fails when this process holds the lease, as far as it knows,
/// and has not been able to renew it for longer than the lease lasts and a tolerance. Whether its term has ended makes no
/// difference: such a process is to end, and is stuck when it has not by then.
#[derive(Debug, Default)]
pub struct LeaderHealthzAdaptor {
    tolerance: Duration,
    election: OnceLock<ElectionStatus>,
}

impl LeaderHealthzAdaptor {
    /// A check that tolerates `tolerance` beyond the end of the lease; Kubernetes' own processes take 20 s.
    #[must_use]
    pub fn new(tolerance: Duration) -> Self {
        Self { tolerance, election: OnceLock::new() }
    }

    /// The name of the check.
    #[must_use]
    pub fn name(&self) -> &'static str {
        "leaderElection"
    }

    /// Checks this election from now on; the first one counts.
    pub fn set_leader_election(&self, election: ElectionStatus) {
        let _ = self.election.set(election);
    }

    /// The check; good while there is no election.
    ///
    /// # Errors
    /// Saying what is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.election.get().map_or(Ok(()), |election| election.check(self.tolerance))
    }
}
