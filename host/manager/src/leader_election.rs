//! [`LeaderElection`]: whether plugins may be called on this host now: as its leader, as the holder of their shard, or without
//! an election.
//!
//! A standby runs informers, loads and compiles plugins. It calls no plugin: workers take no key, pumps take no event, and
//! live writes are refused. Changed objects wait in the caches for the begin of the term; keys of deleted objects wait in
//! `dispatch/tombstones.rs`. A plugin has one term. After a lost term of the host the process ends: a fresh start is the
//! only way to learn of the requeues that the next leader keeps in its memory. After a term of a shard the plugin is
//! replaced by another one of the same files, which stands by (`manager/shards.rs`): a fresh start as well, but for the keys
//! of deleted objects.
//!
//! Invariant: before each call of a plugin the caller asks [`LeaderElection::is_leader`], which reads the clock. A process that
//! was stopped and continues after its term begins no call, and sends no write.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pilothouse_client::{Client, WriteGate};
use pilothouse_election::{ElectionStatus, LeaderHealthzAdaptor, Leadership, Shards};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::observe::metrics::PluginMetrics;
use crate::observe::status::{ElectionView, Role, ShardsView};

/// Time after the end of an unrenewed lease at which the holder becomes unhealthy, because it should have ended before. The
/// value of Kubernetes' own processes.
const TOLERANCE: Duration = Duration::from_secs(20);

/// Whether plugins may be called; a cheap clone. With shards, that of the host never is elected, and each plugin has one of
/// its own (`of_plugin`).
#[derive(Clone)]
pub struct LeaderElection(Option<Arc<Elected>>);

struct Elected {
    source: Source,
    /// For how long a leader that shuts down may renew and begin no call.
    grace: Duration,
    term: OnceLock<Leadership>,
    elected: CancellationToken,
}

/// Where terms come from.
enum Source {
    /// One Lease for all plugins.
    Lease { status: ElectionStatus, health: LeaderHealthzAdaptor },
    /// A host that shares plugins with others.
    Shards(Shards),
    /// One shard of it.
    Shard(Shards, usize),
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
        Self::new(Source::Lease { status, health }, grace)
    }

    /// A host that shares plugins with others; `grace` is as for [`enabled`](Self::enabled).
    #[must_use]
    pub fn sharded(shards: Shards, grace: Duration) -> Self {
        Self::new(Source::Shards(shards), grace)
    }

    fn new(source: Source, grace: Duration) -> Self {
        let (term, elected) = (OnceLock::new(), CancellationToken::new());
        Self(Some(Arc::new(Elected { source, grace, term, elected })))
    }

    /// That of a plugin: without shards the same, with shards a standby of the plugin's shard.
    pub(crate) fn of_plugin(&self, plugin: &str) -> Self {
        self.shards().map_or_else(|| self.clone(), |shards| self.of_shard(shards.shard_of(plugin)))
    }

    /// A standby of a shard; without shards the same.
    pub(crate) fn of_shard(&self, shard: usize) -> Self {
        match self.shards() {
            Some(shards) => Self::new(Source::Shard(shards.clone(), shard), self.grace()),
            None => self.clone(),
        }
    }

    fn grace(&self) -> Duration {
        self.0.as_ref().map_or(Duration::ZERO, |elected| elected.grace)
    }

    /// The shards, if the host shares plugins with others.
    pub(crate) fn shards(&self) -> Option<&Shards> {
        match &self.0.as_ref()?.source {
            Source::Shards(shards) | Source::Shard(shards, _) => Some(shards),
            Source::Lease { .. } => None,
        }
    }

    /// The shard of a plugin.
    pub(crate) fn shard(&self) -> Option<usize> {
        match &self.0.as_ref()?.source {
            Source::Shard(_, shard) => Some(*shard),
            Source::Lease { .. } | Source::Shards(_) => None,
        }
    }

    /// Who has the shard of a plugin, as far as is known; empty when nobody has it.
    pub(crate) fn holder(&self) -> Option<String> {
        Some(self.shards()?.holder(self.shard()?))
    }

    /// Makes the host the leader until the end of the term. Later terms are ignored.
    pub fn set_elected(&self, term: Leadership) {
        if let Some(elected) = &self.0
            && elected.term.set(term).is_ok()
        {
            elected.elected.cancel();
        }
    }

    /// The term of the shard, or of the host without shards, in which a plugin that comes now takes part; none on a standby.
    pub(crate) fn running_term(&self) -> Option<Leadership> {
        let elected = self.0.as_ref()?;
        match &elected.source {
            Source::Shard(shards, shard) => shards.term(*shard),
            Source::Lease { .. } | Source::Shards(_) => elected.term.get().cloned(),
        }
    }

    /// Waits for a term to begin. Cancel-safe.
    pub(crate) async fn next_term(&self) -> Leadership {
        if let Some(elected) = &self.0 {
            if let Source::Shard(shards, shard) = &elected.source {
                return shards.next_term(*shard).await;
            }
            elected.elected.cancelled().await;
            if let Some(term) = elected.term.get() {
                return term.clone();
            }
        }
        std::future::pending().await
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
        let Some(elected) = &self.0 else { return Duration::ZERO };
        let lease_duration = match &elected.source {
            Source::Lease { status, .. } => status.lease_duration(),
            _ => self.shards().map_or(Duration::ZERO, Shards::lease_duration),
        };
        lease_duration.saturating_add(elected.grace)
    }

    /// The last time at which another leader was surely at work, by the local clock.
    pub(crate) fn leader_at_work(&self) -> Option<Instant> {
        match &self.0.as_ref()?.source {
            Source::Lease { status, .. } => status.leader_at_work(),
            Source::Shard(shards, shard) => shards.holder_at_work(*shard),
            Source::Shards(_) => None,
        }
    }

    /// Whether a call may begin now.
    pub(crate) fn is_leader(&self) -> bool {
        self.0.as_ref().is_none_or(|elected| elected.term.get().is_some_and(Leadership::is_leading))
    }

    /// Why this host does not do what only the leader, or the host that has a shard, `does`: it is not the leader, or has no
    /// term.
    pub(crate) fn why_not(&self, does: &str) -> String {
        match self.0.as_ref().map(|elected| &elected.source) {
            None | Some(Source::Lease { .. }) => {
                format!("this host is not the leader (--leader-elect): only the leader {does}")
            }
            Some(_) => format!(
                "this host has no term, or none any more, of the plugin's shard (--shards): the host that has the shard {does}"
            ),
        }
    }

    /// Whether this host runs the plugin of a name now: as its leader, as the holder of its shard, or without an election.
    pub(crate) fn has(&self, plugin: &str) -> bool {
        match self.shards() {
            Some(shards) => shards.term(shards.shard_of(plugin)).as_ref().is_some_and(Leadership::is_leading),
            None => self.is_leader(),
        }
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

    /// The client, which refuses the writes of a plugin outside of its term, and counts those that come after it. Without an
    /// election it refuses none.
    pub(crate) fn gated(&self, client: Client, metrics: &Arc<PluginMetrics>) -> Client {
        if self.0.is_none() {
            return client;
        }
        let (election, metrics) = (self.clone(), Arc::clone(metrics));
        client.with_write_gate(WriteGate::new(move || {
            if election.is_leader() {
                return Ok(());
            }
            if election.was_elected() {
                metrics.late_writes.inc();
            }
            Err(election.why_not("writes"))
        }))
    }

    /// The election as `/plugins` shows it; none without one.
    pub(crate) fn view(&self) -> Option<ElectionView> {
        let elected = self.0.as_ref()?;
        let Source::Lease { status, .. } = &elected.source else { return self.shards().map(of_shards) };
        let role = match elected.term.get() {
            None => Role::Standby,
            Some(term) if term.is_leading() => Role::Leader,
            Some(_) => Role::Lost,
        };
        Some(ElectionView {
            role,
            lease: status.figures().name,
            identity: status.identity().to_owned(),
            leader: status.leader(),
            transitions: elected.term.get().map(|term| term.token().transitions),
            shards: None,
        })
    }

    /// The status that the metrics read; none without an election, and with shards.
    pub(crate) fn status(&self) -> Option<ElectionStatus> {
        match &self.0.as_ref()?.source {
            Source::Lease { status, .. } => Some(status.clone()),
            _ => None,
        }
    }

    /// Health of the election: an error when the lease was not renewed in time.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.0.as_ref().map(|elected| &elected.source) {
            Some(Source::Lease { health, .. }) => health.check(),
            _ => self.shards().map_or(Ok(()), |shards| shards.check(TOLERANCE)),
        }
    }
}

/// What a host that shares plugins shows.
fn of_shards(shards: &Shards) -> ElectionView {
    let held = shards.held();
    ElectionView {
        role: if held > 0 { Role::Leader } else { Role::Standby },
        lease: shards.lease().to_owned(),
        identity: shards.identity().to_owned(),
        leader: shards.kept_out_by().unwrap_or_default(),
        transitions: None,
        shards: Some(ShardsView {
            held,
            holders: (0..shards.count()).map(|shard| shards.holder(shard)).collect(),
            hosts: shards.hosts(),
        }),
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
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
    use std::task::Poll;

    use pilothouse_election::{
        LeaderCallbacks, LeaderElectionConfig, LeaderElectionRecord, LeaderElector, Lock, LockError, Stored,
    };

    use super::*;

    /// A lock that is free until it is taken; requests after that never return.
    #[derive(Default)]
    struct OneTerm(AtomicBool);

    impl Lock for OneTerm {
        async fn get(&self) -> Result<Stored, LockError> {
            if self.0.load(Relaxed) {
                return std::future::pending().await;
            }
            Err(LockError::NotFound(String::new()))
        }

        async fn create(&self, record: &LeaderElectionRecord) -> Result<Stored, LockError> {
            self.0.store(true, Relaxed);
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
        let mut elector = LeaderElector::new(OneTerm::default(), LeaderElectionConfig::new("me")).unwrap();
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
    async fn a_refusal_says_who_does_it_instead_with_one_lease_and_with_shards() {
        let (of_lease, _) = standby();
        let host = LeaderElection::sharded(Shards::without_leases("me", 2), Duration::ZERO);
        let of_shard = host.of_plugin("p");
        let why = |election: &LeaderElection| election.why_not("records Events");
        assert_eq!(
            why(&of_lease),
            "this host is not the leader (--leader-elect): only the leader records Events"
        );
        assert!(!of_shard.is_leader());
        assert_eq!(
            why(&of_shard),
            "this host has no term, or none any more, of the plugin's shard (--shards): the host that has the shard records \
             Events"
        );
    }

    #[tokio::test]
    async fn a_host_without_others_always_works() {
        let election = LeaderElection::disabled();
        assert!(election.is_leader() && can_begin(&election).await && election.view().is_none());
        assert_eq!(election.check(), Ok(()));
    }
}
