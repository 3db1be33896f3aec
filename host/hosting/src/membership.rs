//! [`Membership`]: how this host takes part with others: in an election of one leader, or with shards of its own. Called by
//! `hosting`, from the start to the release.

use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use pilothouse_client::Client;
use pilothouse_election::{Shards, ShardsTask};
use pilothouse_manager::LeaderElection;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;

use crate::election::{Election, ElectionOptions, Prepared, in_terms_of_options};

/// A host that does not take part yet.
pub(crate) enum PreparedMembership {
    Elects(Box<Prepared>),
    Shares {
        shards: Shards,
        task: Box<ShardsTask>,
        leader: LeaderElection,
        release_within: Duration,
        runtime: Handle,
    },
}

/// A host that takes part.
pub(crate) enum Membership {
    Elects(Election),
    Shares(Sharing),
}

/// A host that shares plugins with others.
pub(crate) struct Sharing {
    shards: Shards,
    task: JoinHandle<()>,
    release_within: Duration,
}

impl PreparedMembership {
    /// Renewals, their timers and their connections will be on `runtime`, where nothing else delays them.
    pub(crate) fn new(client: Client, options: ElectionOptions, runtime: Handle) -> Result<Self> {
        let Some(config) = options.shards.clone() else {
            return Ok(Self::Elects(Box::new(Prepared::new(client, options, runtime)?)));
        };
        let (namespace, name) = options.lease(&client);
        let release_within = config.election.renew_deadline;
        let (shards, task) =
            Shards::new(&client, &namespace, &name, config, &runtime).map_err(in_terms_of_options)?;
        let leader = LeaderElection::sharded(shards.clone(), options.grace);
        Ok(Self::Shares { shards, task: Box::new(task), leader, release_within, runtime })
    }

    /// What the manager waits for.
    pub(crate) fn leader_election(&self) -> LeaderElection {
        match self {
            Self::Elects(prepared) => prepared.leader_election(),
            Self::Shares { leader, .. } => leader.clone(),
        }
    }

    /// Begins to take part.
    pub(crate) fn start(self) -> Membership {
        match self {
            Self::Elects(prepared) => Membership::Elects(prepared.start()),
            Self::Shares { shards, task, release_within, runtime, .. } => {
                let task = runtime.spawn(task.run());
                Membership::Shares(Sharing { shards, task, release_within })
            }
        }
    }
}

impl Membership {
    /// Waits until the host must end at once, and says why. Never without an election that is lost: a host that loses shards
    /// goes on. Cancel-safe.
    pub(crate) async fn lost(&mut self) -> Error {
        match self {
            Self::Elects(election) => election.lost().await,
            Self::Shares(sharing) => match (&mut sharing.task).await {
                Err(error) => failed(&error),
                // Everything was given up, because the host ends.
                Ok(()) => std::future::pending().await,
            },
        }
    }

    /// Takes nothing any more: what the host has is renewed until [`release`](Self::release) or [`abandon`](Self::abandon),
    /// and shards whose work has ended are given up.
    pub(crate) fn stop(&self) {
        match self {
            Self::Elects(election) => election.stop(),
            Self::Shares(sharing) => sharing.shards.leave(),
        }
    }

    /// Gives up what this host has. All work must have ended.
    pub(crate) async fn release(self) -> Result<()> {
        match self {
            Self::Elects(election) => election.release().await,
            Self::Shares(sharing) => sharing.release().await,
        }
    }

    /// Ends all terms and leaves the Leases as they are: others wait for their end. For work that may not have ended; no call
    /// and no write begins any more. Says whether this host had anything.
    pub(crate) async fn abandon(self) -> bool {
        match self {
            Self::Elects(election) => election.abandon().await,
            Self::Shares(sharing) => {
                let had = sharing.shards.held() > 0;
                if !sharing.task.is_finished() {
                    sharing.task.abort();
                    let _ = sharing.task.await;
                }
                had
            }
        }
    }
}

impl Sharing {
    async fn release(mut self) -> Result<()> {
        self.shards.leave();
        (0..self.shards.count()).for_each(|shard| self.shards.work_ended(shard));
        if self.task.is_finished() {
            // It may have been waited for.
            return Ok(());
        }
        match timeout(self.release_within, &mut self.task).await {
            Ok(ended) => ended.map_err(|error| failed(&error)),
            Err(_) => {
                self.task.abort();
                tracing::warn!(
                    event = "lease_not_released",
                    "Leases of shards not released in time: others take over after they expire"
                );
                Ok(())
            }
        }
    }
}

fn failed(error: &JoinError) -> Error {
    anyhow!("sharing of plugins failed: {error}; please report it")
}
