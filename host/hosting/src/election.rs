//! Leader election of hosts: the options of `run` ([`LeaderElectionArgs`]), and the election itself beside a manager
//! ([`Prepared`], [`Election`]).
//!
//! A host that loses its Lease ends with an error, as processes with controller-runtime do, and is started anew by whoever
//! runs it. Going back to standing by would lose what the next leader keeps in its memory alone: requeues after a time, and
//! failures to be retried. A fresh start reads everything and reconciles everything.

use std::time::Duration;

use anyhow::{Error, Result, anyhow, bail};
use clap::Args;
use pilothouse_client::Client;
use pilothouse_election::{
    ConfigError, ElectionStatus, Ended, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership,
    LeaseLock, ShardsConfig, default_identity, shards_of_holder,
};
use pilothouse_manager::LeaderElection;
use pilothouse_plugin::parse_duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Name of the Lease unless told otherwise.
pub const LEASE: &str = "pilothouse";

/// The flags of the election.
#[derive(Args)]
pub struct LeaderElectionArgs {
    /// Enable leader election: only the elected host runs plugins, the others are warm standbys
    #[arg(long)]
    leader_elect: bool,
    /// Lease of the election [default: pilothouse in the namespace of the context or the Pod]
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "leader_elect", value_parser = lease)]
    lease: Option<(String, String)>,
    /// Time without a renewal after which another host takes over; whole seconds
    #[arg(long, value_name = "DURATION", requires = "leader_elect", value_parser = parse_duration, default_value = "15s")]
    leader_elect_lease_duration: Duration,
    /// Time without a successful renewal after which the leader exits
    #[arg(long, value_name = "DURATION", requires = "leader_elect", value_parser = parse_duration, default_value = "10s")]
    leader_elect_renew_deadline: Duration,
    /// Interval between renewals, and between attempts to take over
    #[arg(long, value_name = "DURATION", requires = "leader_elect", value_parser = parse_duration, default_value = "2s")]
    leader_elect_retry_period: Duration,
    /// Share the plugins with the other hosts of the Lease, in this many shards, the same number on all hosts; each plugin
    /// runs on one of them [default without a number: 16]
    #[arg(
        long,
        value_name = "SHARDS",
        requires = "leader_elect",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "16"
    )]
    shards: Option<usize>,
    /// Time for which a host must have been ready before shards move to it
    #[arg(
        long,
        value_name = "DURATION",
        requires = "shards",
        value_parser = parse_duration,
        default_value = "10s"
    )]
    shard_join_delay: Duration,
}

/// A Lease as `NAMESPACE/NAME`.
pub fn lease(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("write NAMESPACE/NAME, as default/pilothouse".to_owned()),
    }
}

/// How a host takes part in an election.
pub struct ElectionOptions {
    /// Namespace and name of the Lease; none for the usual one.
    lease: Option<(String, String)>,
    config: LeaderElectionConfig,
    /// How long calls may go on when a host is told to end.
    pub grace: Duration,
    /// How plugins are shared; none where one host runs all.
    pub shards: Option<ShardsConfig>,
}

impl ElectionOptions {
    /// Namespace and name of the Lease.
    pub fn lease(&self, client: &Client) -> (String, String) {
        let usual = || (client.default_namespace().to_owned(), LEASE.to_owned());
        self.lease.clone().unwrap_or_else(usual)
    }
}

impl LeaderElectionArgs {
    /// Whether the host takes part in an election.
    pub fn is_enabled(&self) -> bool {
        self.leader_elect
    }

    /// None without `--leader-elect`. `grace` is how long calls may go on when a host is told to end.
    pub fn options(self, grace: Duration) -> Result<Option<ElectionOptions>> {
        if !self.leader_elect {
            return Ok(None);
        }
        let config = LeaderElectionConfig {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
            ..LeaderElectionConfig::new(default_identity())
        };
        let election = config.clone();
        let join_delay = self.shard_join_delay;
        let shards = self.shards.map(|shards| ShardsConfig { election, shards, join_delay });
        shards
            .as_ref()
            .map_or_else(|| config.validate(), ShardsConfig::validate)
            .map_err(in_terms_of_options)?;
        Ok(Some(ElectionOptions { lease: self.lease, config, grace, shards }))
    }
}

pub(crate) fn in_terms_of_options(error: ConfigError) -> Error {
    let option = match error.field {
        "namespace" | "name" => "--lease".to_owned(),
        "shards" => "--shards".to_owned(),
        field => format!("--leader-elect-{}", field.replace('_', "-")),
    };
    anyhow!("{option}: {}; {}", error.reason, error.remedy)
}

/// A host that does not compete yet.
pub struct Prepared {
    elector: LeaderElector<LeaseLock>,
    leader: LeaderElection,
    /// Where the Lease is renewed.
    runtime: Handle,
}

/// A host's part in an election, from standing by to the release.
pub struct Election {
    /// Competes no more.
    stop: CancellationToken,
    /// The work of this host has ended.
    ended: CancellationToken,
    status: ElectionStatus,
    task: JoinHandle<Ended>,
    /// What came of `task`, once it has been waited for.
    outcome: Option<Ended>,
}

impl Prepared {
    /// The elector, its timers and its connections will be on `runtime`, where nothing else delays a renewal.
    pub fn new(client: Client, options: ElectionOptions, runtime: Handle) -> Result<Self> {
        let (namespace, name) = options.lease(&client);
        let lock = LeaseLock::new(client, &namespace, &name).map_err(in_terms_of_options)?;
        let lock = lock.on_runtime(&runtime);
        let elector = LeaderElector::new(lock, options.config).map_err(in_terms_of_options)?;
        let leader = LeaderElection::enabled(elector.status(), options.grace);
        Ok(Self { elector, leader, runtime })
    }

    /// What the manager waits for.
    pub fn leader_election(&self) -> LeaderElection {
        self.leader.clone()
    }

    /// Begins to compete.
    pub fn start(self) -> Election {
        let Self { mut elector, leader, runtime } = self;
        let (status, stop, ended) = (elector.status(), CancellationToken::new(), CancellationToken::new());
        let (own, all_ended) = (status.clone(), ended.clone());
        let callbacks = LeaderCallbacks::new(move |term: Leadership| async move {
            tracing::info!(event = "leader_elected", token = %term.token(), "this host is the leader");
            leader.set_elected(term);
            // Not when the term is cancelled: calls that are under way then still need the lease.
            all_ended.cancelled().await;
        });
        let callbacks = callbacks.on_new_leader(move |leader| match shards_of_holder(leader) {
            Some(shards) => tracing::warn!(
                event = "shards_differ",
                holder = leader,
                "standby: the Lease is held by hosts with {shards} shards, and this host has none. It does not lead before the \
                 Lease is deleted, even when those hosts are gone: start it with --shards={shards}, or stop all hosts and \
                 delete the Lease"
            ),
            None if leader != status.identity() => {
                tracing::info!(event = "standby", leader, "standby: another host is the leader");
            }
            None => {}
        });
        let token = stop.clone();
        let task = runtime.spawn(async move { elector.run(&token, callbacks).await });
        Election { stop, ended, status: own, task, outcome: None }
    }
}

impl Election {
    /// Waits until the Lease is lost, and says why; for ever when it is not. Cancel-safe.
    pub async fn lost(&mut self) -> Error {
        match self.outcome().await {
            Ended::Lost(why) => anyhow!("leader election lost: {why}"),
            // A standby that was told to stop.
            Ended::Cancelled => std::future::pending().await,
        }
    }

    /// Competes no more: a standby is done with it, a leader renews the Lease until [`Election::release`] or
    /// [`Election::abandon`].
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Gives the Lease up, if this host holds it. All work must have ended.
    pub async fn release(mut self) -> Result<()> {
        self.stop.cancel();
        self.ended.cancel();
        match self.outcome().await {
            Ended::Cancelled => Ok(()),
            Ended::Lost(why) => bail!("leader election lost: {why}"),
        }
    }

    /// Ends the term and leaves the Lease as it is: others wait for its end. For work that may not have ended; no call and
    /// no write begins any more. Says whether this host led.
    pub async fn abandon(mut self) -> bool {
        let led = self.status.is_leader();
        self.task.abort();
        let _ = self.outcome().await;
        led
    }

    /// Waits for the end of the election. Cancel-safe.
    async fn outcome(&mut self) -> Ended {
        if let Some(outcome) = &self.outcome {
            return outcome.clone();
        }
        let outcome = match (&mut self.task).await {
            Ok(ended) => ended,
            Err(error) => Ended::Lost(format!("leader election failed: {error}")),
        };
        self.outcome.insert(outcome).clone()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use pilothouse_client::ClientOptions;
    use pilothouse_devserver::{DevServer, DevServerOptions};
    use tokio::time::timeout;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        election: LeaderElectionArgs,
    }

    fn options(args: &[&str]) -> Result<Option<ElectionOptions>> {
        Command::try_parse_from([&["run"], args].concat())?.election.options(Duration::from_secs(30))
    }

    #[test]
    fn without_the_option_there_is_no_election_and_the_times_are_those_of_kubernetes() {
        assert!(options(&[]).unwrap().is_none());
        let ElectionOptions { lease, config, .. } = options(&["--leader-elect"]).unwrap().unwrap();
        let usual = LeaderElectionConfig::new(config.identity.clone());
        assert!(lease.is_none() && config == usual && config.identity.contains('_'));
    }

    #[test]
    fn options_are_read() {
        let args = [
            "--leader-elect",
            "--lease",
            "ns/name",
            "--leader-elect-lease-duration=1m",
            "--leader-elect-renew-deadline",
            "30s",
            "--leader-elect-retry-period",
            "500ms",
        ];
        let ElectionOptions { lease, config, shards, .. } = options(&args).unwrap().unwrap();
        assert!(shards.is_none());
        assert_eq!(lease, Some(("ns".to_owned(), "name".to_owned())));
        assert_eq!((config.lease_duration.as_secs(), config.renew_deadline.as_secs()), (60, 30));
        assert_eq!(config.retry_period.as_millis(), 500);
    }

    #[test]
    fn plugins_are_shared_when_asked_for_in_sixteen_shards_unless_told_otherwise() {
        let shards = |args: &[&str]| {
            let options = options(&[&["--leader-elect"], args].concat()).unwrap().unwrap();
            options.shards.map(|config| (config.shards, config.join_delay.as_secs()))
        };
        assert_eq!(shards(&[]), None);
        assert_eq!(shards(&["--shards"]), Some((ShardsConfig::DEFAULT_SHARDS, 10)));
        assert_eq!(shards(&["--shards=4", "--shard-join-delay=1m"]), Some((4, 60)));
        assert_eq!(ShardsConfig::DEFAULT_JOIN_DELAY.as_secs(), 10);
    }

    #[test]
    fn bad_options_are_refused_by_name_reason_and_remedy() {
        for (args, words) in [
            (vec!["--lease", "a/b"], ["--leader-elect", "required"]),
            (vec!["--leader-elect-retry-period", "1s"], ["--leader-elect", "required"]),
            (vec!["--leader-elect", "--lease", "name"], ["--lease", "NAMESPACE/NAME"]),
            (vec!["--shards"], ["--leader-elect", "required"]),
            (vec!["--leader-elect", "--shard-join-delay", "1s"], ["--shards", "required"]),
            (vec!["--leader-elect", "--shards=0"], ["--shards: 0 shards", "use 1 to 256"]),
            (vec!["--leader-elect", "--lease", "a/b/c"], ["--lease", "NAMESPACE/NAME"]),
            (vec!["--leader-elect", "--leader-elect-renew-deadline", "10"], ["renew-deadline", "unit"]),
            (
                vec!["--leader-elect", "--leader-elect-lease-duration", "10s"],
                ["--leader-elect-lease-duration: 10s is not longer", "make it longer"],
            ),
            (
                vec!["--leader-elect", "--leader-elect-lease-duration", "12500ms"],
                ["--leader-elect-lease-duration", "whole seconds"],
            ),
            (
                vec!["--leader-elect", "--leader-elect-retry-period", "9s"],
                ["--leader-elect-renew-deadline", "longer than 10.8s"],
            ),
        ] {
            let error = format!("{:#}", options(&args).err().expect("an error"));
            assert!(words.iter().all(|word| error.contains(word)), "{args:?}: {error}");
        }
    }

    /// Waits until this holds, for ten seconds or so.
    async fn until(what: &str, holds: impl Fn() -> bool) {
        for _ in 0..1000 {
            if holds() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never: {what}");
    }

    #[tokio::test]
    async fn a_standby_that_is_told_to_stop_competes_no_more_and_a_leader_renews_until_all_has_ended() {
        let server = DevServer::start(DevServerOptions::default()).await.unwrap();
        let start = async || {
            let to = ClientOptions { server: Some(server.url()), ..ClientOptions::default() };
            let client = Client::new(to).await.unwrap();
            let options = options(&["--leader-elect", "--lease", "default/hosts"]).unwrap().unwrap();
            Prepared::new(client, options, Handle::current()).unwrap().start()
        };
        let mut first = start().await;
        until("the first leads", || first.status.is_leader()).await;
        let mut second = start().await;
        until("the second stands by", || second.status.leader() == first.status.identity()).await;

        second.stop();
        assert_eq!(second.outcome().await, Ended::Cancelled);
        first.stop();
        // Its calls may go on: not lost, not given up.
        assert!(timeout(Duration::from_millis(200), first.lost()).await.is_err());
        assert!(timeout(Duration::from_millis(1), second.lost()).await.is_err());
        assert!(first.status.is_leader());
        first.release().await.unwrap();

        let third = start().await;
        until("the third leads", || third.status.is_leader()).await;
        let (status, term) = (third.status.clone(), third.status.leadership().unwrap());
        assert_eq!(term.token().transitions, 1);
        // Its calls go on: nothing of it begins any more, and others wait.
        assert!(third.abandon().await);
        assert!(!status.is_leader() && term.is_cancelled());
        let fourth = start().await;
        until("the fourth stands by", || fourth.status.leader() == status.identity()).await;
        assert!(!fourth.abandon().await);
        server.shutdown().await;
    }

    /// What holds the threads of watches must not cost the Lease.
    #[tokio::test]
    async fn a_lease_is_renewed_while_the_runtime_of_the_client_is_held() {
        let server = DevServer::start(DevServerOptions::default()).await.unwrap();
        let to = || ClientOptions { server: Some(server.url()), ..ClientOptions::default() };
        let runtime = || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            runtime.worker_threads(1).enable_all().build().unwrap()
        };
        let (io, lease) = (runtime(), runtime());
        let client = io.spawn(Client::new(to())).await.unwrap().unwrap();
        let args = ["--leader-elect", "--lease", "default/hosts", "--leader-elect-retry-period", "100ms"];
        let leader = Prepared::new(client, options(&args).unwrap().unwrap(), lease.handle().clone()).unwrap();
        let leader = leader.start();
        until("it leads", || leader.status.is_leader()).await;

        let (release, held) = std::sync::mpsc::channel::<()>();
        let holding = io.spawn(async move { held.recv().is_ok() });
        let observer = Client::new(to()).await.unwrap();
        let kind = pilothouse_object::Gvk::new("coordination.k8s.io", "v1", "Lease");
        let leases = pilothouse_client::ApiResource::new(kind, "leases", true);
        let key = "default/hosts".parse().unwrap();
        let mut renewals = std::collections::BTreeSet::new();
        for _ in 0..500 {
            let lease = observer.get(&leases, &key, None).await.unwrap();
            renewals.extend(lease.get_string("/spec/renewTime").map(String::from));
            if renewals.len() > 5 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(renewals.len() > 5, "{renewals:?}");
        assert!(leader.status.is_leader());
        release.send(()).unwrap();
        assert!(holding.await.unwrap());
        assert!(leader.abandon().await);
        io.shutdown_background();
        lease.shutdown_background();
        server.shutdown().await;
    }
}
