//! [`LeaderElection`]: whether this host is the leader, a standby, or a leader that lost its term.
//!
//! A standby runs informers, loads and compiles plugins. It calls no plugin: workers take no key, pumps take no event, and
//! live writes are refused. Changed objects wait in the caches for the begin of the term; keys of deleted objects wait in
//! `dispatch/tombstones.rs`. A host is leader once. After a lost term it begins nothing and the process ends: a fresh start
//! is the only way to learn of the requeues that the next leader keeps in its memory.
//!
//! Invariant: before each call of a plugin the caller asks [`LeaderElection::is_leader`], which reads the clock. A process
//! that was stopped and continues after its term begins no call.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pilothouse_election::{ElectionStatus, LeaderHealthzAdaptor, Leadership};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::observe::status::{ElectionView, Role};

/// Time after the end of an unrenewed lease at which the holder becomes unhealthy, because it should have ended before. The
/// value of Kubernetes' own processes.
const TOLERANCE: Duration = Duration::from_secs(20);

/// Whether this host is the leader; a cheap clone.
#[derive(Clone)]
pub struct LeaderElection(Option<Arc<Elected>>);

struct Elected {
    status: ElectionStatus,
    /// For how long a leader that shuts down may renew and begin no call.
    grace: Duration,
    health: LeaderHealthzAdaptor,
    term: OnceLock<Leadership>,
    elected: CancellationToken,
}

impl LeaderElection {
    /// No election: this host is always the leader.
    #[must_use]
    pub fn disabled() -> Self {
        Self(None)
    }

    /// A standby until [`set_elected`](Self::set_elected). `grace` is for how long a leader that shuts down goes on renewing
    /// while its last calls end: objects deleted in that time are left to the next leader.
    #[must_use]
    pub fn enabled(status: ElectionStatus, grace: Duration) -> Self {
        let health = LeaderHealthzAdaptor::new(TOLERANCE);
        health.set_leader_election(status.clone());
        let (term, elected) = (OnceLock::new(), CancellationToken::new());
        Self(Some(Arc::new(Elected { status, grace, health, term, elected })))
    }

    /// Makes the host the leader until the end of the term. Later terms are ignored.
    pub fn set_elected(&self, term: Leadership) {
        if let Some(elected) = &self.0
            && elected.term.set(term).is_ok()
        {
            elected.elected.cancel();
        }
    }

    /// Whether other hosts compete with this one.
    pub(crate) fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the term of this host has begun, even if it is over; always true without an election.
    pub(crate) fn was_elected(&self) -> bool {
        self.0.as_ref().is_none_or(|elected| elected.elected.is_cancelled())
    }

    /// Waits for the begin of this host's term. Cancel-safe.
    pub(crate) async fn wait_until_elected(&self) {
        if let Some(elected) = &self.0 {
            elected.elected.cancelled().await;
        }
    }

    /// How long a tombstone is kept before a leader that is seen at work counts as having handled it. By then that leader had
    /// the duration of a lease in which it was not shutting down.
    pub(crate) fn tombstone_lifetime(&self) -> Duration {
        let lifetime = |elected: &Arc<Elected>| elected.status.lease_duration().saturating_add(elected.grace);
        self.0.as_ref().map_or(Duration::ZERO, lifetime)
    }

    /// The last time at which another leader was surely at work, by the local clock.
    pub(crate) fn leader_at_work(&self) -> Option<Instant> {
        self.0.as_ref().and_then(|elected| elected.status.leader_at_work())
    }

    /// Whether a call may begin now.
    pub(crate) fn is_leader(&self) -> bool {
        self.0.as_ref().is_none_or(|elected| elected.term.get().is_some_and(Leadership::is_leading))
    }

    /// Waits until a call may begin. Never returns when the term is over. Cancel-safe.
    pub(crate) async fn wait_until_leader(&self) {
        if self.0.is_some() {
            self.wait_until_elected().await;
            if !self.is_leader() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The election as `/plugins` shows it; none without one.
    pub(crate) fn view(&self) -> Option<ElectionView> {
        let elected = self.0.as_ref()?;
        let role = match elected.term.get() {
            None => Role::Standby,
            Some(term) if term.is_leading() => Role::Leader,
            Some(_) => Role::Lost,
        };
        Some(ElectionView {
            role,
            lease: elected.status.figures().name,
            identity: elected.status.identity().to_owned(),
            leader: elected.status.leader(),
            transitions: elected.term.get().map(|term| term.token().transitions),
        })
    }

    /// The status that the metrics read; none without an election.
    pub(crate) fn status(&self) -> Option<ElectionStatus> {
        self.0.as_ref().map(|elected| elected.status.clone())
    }

    /// Health of the election: an error when the lease was not renewed in time.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.0.as_ref().map_or(Ok(()), |elected| elected.health.check())
    }
}

impl fmt::Debug for LeaderElection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeaderElection").field(&self.view()).finish()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
    use std::task::Poll;

    use pilothouse_election::{
        LeaderCallbacks, LeaderElectionConfig, LeaderElectionRecord, LeaderElector, Lock, LockError, Stored,
    };

    use super::*;

    /// A lock that is free; its renewals never return.
    struct OneTerm;

    impl Lock for OneTerm {
        async fn get(&self) -> Result<Stored, LockError> {
            Err(LockError::NotFound(String::new()))
        }

        async fn create(&self, record: &LeaderElectionRecord) -> Result<Stored, LockError> {
            Ok(Stored { record: record.clone(), ..Stored::default() })
        }

        async fn update(&self, _: &Stored, _: &LeaderElectionRecord) -> Result<Stored, LockError> {
            std::future::pending().await
        }

        fn describe(&self) -> String {
            "ns/lock".to_owned()
        }
    }

    /// A standby, and a future that begins its only term, of ten seconds.
    pub(crate) fn standby() -> (LeaderElection, impl Future<Output = ()>) {
        let mut elector = LeaderElector::new(OneTerm, LeaderElectionConfig::new("me")).unwrap();
        let election = LeaderElection::enabled(elector.status(), Duration::from_secs(5));
        let standby = election.clone();
        let term = async move {
            let (cancel, opened) = (CancellationToken::new(), election.clone());
            let callbacks = LeaderCallbacks::new(move |term: Leadership| async move {
                opened.set_elected(term.clone());
                term.cancelled().await;
            });
            tokio::spawn(async move { elector.run(&cancel, callbacks).await });
            election.wait_until_leader().await;
        };
        (standby, term)
    }

    /// A lock that another host holds and renews on request.
    #[derive(Clone)]
    struct OfAnother(Arc<AtomicI32>);

    impl Lock for OfAnother {
        async fn get(&self) -> Result<Stored, LockError> {
            let record = LeaderElectionRecord {
                holder_identity: "another".to_owned(),
                lease_duration_seconds: i32::MAX,
                acquire_time: None,
                renew_time: None,
                // Whatever changes tells that it is there.
                leader_transitions: self.0.load(Relaxed),
            };
            Ok(Stored { record, ..Stored::default() })
        }

        async fn create(&self, _: &LeaderElectionRecord) -> Result<Stored, LockError> {
            std::future::pending().await
        }

        async fn update(&self, _: &Stored, _: &LeaderElectionRecord) -> Result<Stored, LockError> {
            std::future::pending().await
        }

        fn describe(&self) -> String {
            "ns/lock".to_owned()
        }
    }

    /// A standby that is never elected, and a function that makes the leader renew.
    pub(crate) fn standby_of_another() -> (LeaderElection, impl Fn()) {
        let lock = OfAnother(Arc::default());
        let renewals = Arc::clone(&lock.0);
        let mut elector = LeaderElector::new(lock, LeaderElectionConfig::new("me")).unwrap();
        let election = LeaderElection::enabled(elector.status(), Duration::from_secs(5));
        let callbacks = LeaderCallbacks::new(|_| std::future::pending());
        tokio::spawn(async move { elector.run(&CancellationToken::new(), callbacks).await });
        (election, move || _ = renewals.fetch_add(1, Relaxed))
    }

    async fn can_begin(election: &LeaderElection) -> bool {
        let mut leader = pin!(election.wait_until_leader());
        poll_fn(|context| Poll::Ready(leader.as_mut().poll(context).is_ready())).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_works_from_the_begin_of_its_term_to_its_end_and_not_again() {
        let (election, begin) = standby();
        let view = |election: &LeaderElection| election.view().unwrap();
        assert!(!election.is_leader() && !can_begin(&election).await);
        assert_eq!((view(&election).role, view(&election).transitions), (Role::Standby, None));
        begin.await;
        assert!(election.is_leader() && can_begin(&election).await);
        assert_eq!((view(&election).role, view(&election).leader.as_str()), (Role::Leader, "me"));
        assert_eq!(view(&election).transitions, Some(0));
        // Nothing has run since, as in a process that was stopped.
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!election.is_leader() && !can_begin(&election).await);
        assert_eq!(view(&election).role, Role::Lost);
    }

    #[tokio::test]
    async fn a_host_without_others_always_works() {
        let election = LeaderElection::disabled();
        assert!(election.is_leader() && can_begin(&election).await && election.view().is_none());
        assert_eq!(election.check(), Ok(()));
    }
}
