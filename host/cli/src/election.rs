//! Leader election of hosts: the options of `run` ([`LeaderElection`]), and the election itself beside a manager
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
    ConfigError, Ended, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, LeaseLock,
    default_identity,
};
use pilothouse_manager::{Lead, parse_duration};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Name of the Lease unless told otherwise.
const LEASE: &str = "pilothouse";

#[derive(Args)]
pub(crate) struct LeaderElection {
    /// Work only while holding a Lease: of several hosts one works, the others keep their caches warm and take over
    #[arg(long)]
    leader_elect: bool,
    /// The Lease [default: pilothouse in the namespace of the context or of the pod]
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "leader_elect", value_parser = lease)]
    lease: Option<(String, String)>,
    /// Others take over after so long without a renewal; whole seconds
    #[arg(long, value_name = "DURATION", requires = "leader_elect", value_parser = parse_duration, default_value = "15s")]
    leader_elect_lease_duration: Duration,
    /// The leader ends when it could not renew for so long
    #[arg(long, value_name = "DURATION", requires = "leader_elect", value_parser = parse_duration, default_value = "10s")]
    leader_elect_renew_deadline: Duration,
    /// Pause between two renewals, and between two tries to take over
    #[arg(long, value_name = "DURATION", requires = "leader_elect", value_parser = parse_duration, default_value = "2s")]
    leader_elect_retry_period: Duration,
}

fn lease(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("write NAMESPACE/NAME, as default/pilothouse".to_owned()),
    }
}

/// How a host takes part in an election.
pub(crate) struct ElectionOptions {
    /// Namespace and name of the Lease; none for the usual one.
    lease: Option<(String, String)>,
    config: LeaderElectionConfig,
}

impl LeaderElection {
    /// None without `--leader-elect`.
    pub(crate) fn options(self) -> Result<Option<ElectionOptions>> {
        if !self.leader_elect {
            return Ok(None);
        }
        let config = LeaderElectionConfig {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
            ..LeaderElectionConfig::new(default_identity())
        };
        config.validate().map_err(in_terms_of_options)?;
        Ok(Some(ElectionOptions { lease: self.lease, config }))
    }
}

fn in_terms_of_options(error: ConfigError) -> Error {
    let option = match error.field {
        "namespace" | "name" => "--lease".to_owned(),
        field => format!("--leader-elect-{}", field.replace('_', "-")),
    };
    anyhow!("{option}: {}; {}", error.reason, error.remedy)
}

/// A host that does not compete yet.
pub(crate) struct Prepared {
    elector: LeaderElector<LeaseLock>,
    lead: Lead,
}

/// A host's part in an election, from standing by to the release.
pub(crate) struct Election {
    release: CancellationToken,
    task: JoinHandle<Ended>,
}

impl Prepared {
    pub(crate) fn new(client: Client, options: ElectionOptions) -> Result<Self> {
        let (namespace, name) =
            options.lease.unwrap_or_else(|| (client.default_namespace().to_owned(), LEASE.to_owned()));
        let lock = LeaseLock::new(client, &namespace, &name).map_err(in_terms_of_options)?;
        let elector = LeaderElector::new(lock, options.config).map_err(in_terms_of_options)?;
        let lead = Lead::elected(elector.status());
        Ok(Self { elector, lead })
    }

    /// What the manager waits for.
    pub(crate) fn lead(&self) -> Lead {
        self.lead.clone()
    }

    /// Begins to compete on the current runtime.
    pub(crate) fn start(self) -> Election {
        let Self { mut elector, lead } = self;
        let (status, release) = (elector.status(), CancellationToken::new());
        let callbacks = LeaderCallbacks::new(move |term: Leadership| async move {
            tracing::info!(token = %term.token(), "this host leads");
            lead.begin(term.clone());
            // By then the manager has ended.
            term.cancelled().await;
        });
        let callbacks = callbacks.on_new_leader(move |leader| {
            if leader != status.identity() {
                tracing::info!(leader, "standing by: another host leads");
            }
        });
        let token = release.clone();
        let task = tokio::spawn(async move { elector.run(&token, callbacks).await });
        Election { release, task }
    }
}

impl Election {
    /// Waits until the Lease is lost, and says why. Cancel-safe.
    pub(crate) async fn lost(&mut self) -> Error {
        match (&mut self.task).await {
            Ok(Ended::Lost(why)) => anyhow!("leader election lost: {why}"),
            Ok(Ended::Cancelled) => anyhow!("leader election ended"),
            Err(error) => anyhow!("leader election failed: {error}"),
        }
    }

    /// Gives the Lease up, if this host holds it. All work must have ended.
    pub(crate) async fn release(mut self) -> Result<()> {
        self.release.cancel();
        match (&mut self.task).await? {
            Ended::Cancelled => Ok(()),
            Ended::Lost(why) => bail!("leader election lost: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        election: LeaderElection,
    }

    fn options(args: &[&str]) -> Result<Option<ElectionOptions>> {
        Command::try_parse_from([&["run"], args].concat())?.election.options()
    }

    #[test]
    fn without_the_option_there_is_no_election_and_the_times_are_those_of_kubernetes() {
        assert!(options(&[]).unwrap().is_none());
        let ElectionOptions { lease, config } = options(&["--leader-elect"]).unwrap().unwrap();
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
        let ElectionOptions { lease, config } = options(&args).unwrap().unwrap();
        assert_eq!(lease, Some(("ns".to_owned(), "name".to_owned())));
        assert_eq!((config.lease_duration.as_secs(), config.renew_deadline.as_secs()), (60, 30));
        assert_eq!(config.retry_period.as_millis(), 500);
    }

    #[test]
    fn bad_options_are_refused_by_name_reason_and_remedy() {
        for (args, words) in [
            (vec!["--lease", "a/b"], ["--leader-elect", "required"]),
            (vec!["--leader-elect-retry-period", "1s"], ["--leader-elect", "required"]),
            (vec!["--leader-elect", "--lease", "name"], ["--lease", "NAMESPACE/NAME"]),
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
}
