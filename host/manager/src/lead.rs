//! [`Lead`]: whether this host may work, or stands by while another does.
//!
//! What waits is the dispatch: workers take no key, pumps no event, and live writes are refused. Informers run, plugins are
//! loaded and compiled. What changes meanwhile is in the caches for the moment in which this host is the leader, and what goes away is
//! remembered for a while (`memory.rs`). A host leads once: when the term is lost nothing is begun any more, and the process is to end;
//! what the next leader did meanwhile (requeues that run on its clock alone) only a fresh start would make up for.
//!
//! Invariant: whoever is about to call a guest asks [`Lead::leads`] right before, which looks at the clock, so that a
//! process which was stopped begins nothing when it wakes after its term.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pilothouse_election::{ElectionStatus, LeaderHealthzAdaptor, Leadership};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::observe::status::{ElectionView, Role};

/// How long, beyond the end of its lease, a holder may go without a renewal before the host is unhealthy: by then it should
/// have ended. That of Kubernetes' own processes.
const TOLERANCE: Duration = Duration::from_secs(20);

/// Whether this host may work; a cheap clone.
#[derive(Clone)]
pub struct Lead(Option<Arc<Elected>>);

struct Elected {
    status: ElectionStatus,
    /// How long a leader that was told to end may renew and begin nothing.
    grace: Duration,
    health: LeaderHealthzAdaptor,
    term: OnceLock<Leadership>,
    begun: CancellationToken,
}

impl Lead {
    /// A host without others, which always works.
    #[must_use]
    pub fn alone() -> Self {
        Self(None)
    }

    /// A host that stands by until it is told of its term. `grace` is how long the leader may go on renewing after it was
    /// told to end, while its last calls end: what goes away in that time is left to the next.
    #[must_use]
    pub fn elected(status: ElectionStatus, grace: Duration) -> Self {
        let health = LeaderHealthzAdaptor::new(TOLERANCE);
        health.set_leader_election(status.clone());
        let (term, begun) = (OnceLock::new(), CancellationToken::new());
        Self(Some(Arc::new(Elected { status, grace, health, term, begun })))
    }

    /// The host works from now on, for as long as the term lasts. The first term counts.
    pub fn begin(&self, term: Leadership) {
        if let Some(elected) = &self.0
            && elected.term.set(term).is_ok()
        {
            elected.begun.cancel();
        }
    }

    /// Whether others compete with this host.
    pub(crate) fn is_elected(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the term of this host has begun; always without others.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.as_ref().is_none_or(|elected| elected.begun.is_cancelled())
    }

    /// Waits until the term of this host has begun. Cancel-safe.
    pub(crate) async fn begun(&self) {
        if let Some(elected) = &self.0 {
            elected.begun.cancelled().await;
        }
    }

    /// How long before a leader was seen something must have gone away to be that leader's affair: by then it had a whole
    /// lease's time in which it was not about to end.
    pub(crate) fn keep(&self) -> Duration {
        let keep = |elected: &Arc<Elected>| elected.status.lease_duration().saturating_add(elected.grace);
        self.0.as_ref().map_or(Duration::ZERO, keep)
    }

    /// When another leader was surely there, by local time.
    pub(crate) fn leader_at_work(&self) -> Option<Instant> {
        self.0.as_ref().and_then(|elected| elected.status.leader_at_work())
    }

    /// Whether work may begin now.
    pub(crate) fn leads(&self) -> bool {
        self.0.as_ref().is_none_or(|elected| elected.term.get().is_some_and(Leadership::is_leading))
    }

    /// Waits until work may begin; for ever when the term is over. Cancel-safe.
    pub(crate) async fn led(&self) {
        if self.0.is_some() {
            self.begun().await;
            if !self.leads() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The election as operators see it; none without one.
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

    /// What the metrics read; none without an election.
    pub(crate) fn status(&self) -> Option<ElectionStatus> {
        self.0.as_ref().map(|elected| elected.status.clone())
    }

    /// Whether the election goes as it should.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.0.as_ref().map_or(Ok(()), |elected| elected.health.check())
    }
}

impl fmt::Debug for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lead").field(&self.view()).finish()
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

    /// A lock that is free, and never heard of again once it is taken.
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

    /// A host that stands by, and what begins its only term, of ten seconds.
    pub(crate) fn standby() -> (Lead, impl Future<Output = ()>) {
        let mut elector = LeaderElector::new(OneTerm, LeaderElectionConfig::new("me")).unwrap();
        let lead = Lead::elected(elector.status(), Duration::from_secs(5));
        let begun = lead.clone();
        let term = async move {
            let (cancel, opened) = (CancellationToken::new(), lead.clone());
            let callbacks = LeaderCallbacks::new(move |term: Leadership| async move {
                opened.begin(term.clone());
                term.cancelled().await;
            });
            tokio::spawn(async move { elector.run(&cancel, callbacks).await });
            lead.led().await;
        };
        (begun, term)
    }

    /// A lock that another holds, and renews when it is told to.
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

    /// A host that stands by for good, and what makes the leader renew.
    pub(crate) fn standby_of_another() -> (Lead, impl Fn()) {
        let lock = OfAnother(Arc::default());
        let renewals = Arc::clone(&lock.0);
        let mut elector = LeaderElector::new(lock, LeaderElectionConfig::new("me")).unwrap();
        let lead = Lead::elected(elector.status(), Duration::from_secs(5));
        let callbacks = LeaderCallbacks::new(|_| std::future::pending());
        tokio::spawn(async move { elector.run(&CancellationToken::new(), callbacks).await });
        (lead, move || _ = renewals.fetch_add(1, Relaxed))
    }

    async fn is_led(lead: &Lead) -> bool {
        let mut led = pin!(lead.led());
        poll_fn(|context| Poll::Ready(led.as_mut().poll(context).is_ready())).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_works_from_the_begin_of_its_term_to_its_end_and_not_again() {
        let (lead, begin) = standby();
        let view = |lead: &Lead| lead.view().unwrap();
        assert!(!lead.leads() && !is_led(&lead).await);
        assert_eq!((view(&lead).role, view(&lead).transitions), (Role::Standby, None));
        begin.await;
        assert!(lead.leads() && is_led(&lead).await);
        assert_eq!((view(&lead).role, view(&lead).leader.as_str()), (Role::Leader, "me"));
        assert_eq!(view(&lead).transitions, Some(0));
        // Nothing has run since, as in a process that was stopped.
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!lead.leads() && !is_led(&lead).await);
        assert_eq!(view(&lead).role, Role::Lost);
    }

    #[tokio::test]
    async fn a_host_without_others_always_works() {
        let lead = Lead::alone();
        assert!(lead.leads() && is_led(&lead).await && lead.view().is_none());
        assert_eq!(lead.check(), Ok(()));
    }
}
