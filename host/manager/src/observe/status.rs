//! [`PluginStatus`], [`ElectionView`] and [`ClusterView`]: a plugin, the election of hosts, and a cluster, as `/plugins` and `pilothouse status` show them.

use std::fmt;

use pilothouse_election::shards_of_holder;
use serde::{Deserialize, Serialize};

/// The state of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PluginState {
    /// The first generation is compiled, described, or waits for its caches.
    Loading,
    /// A generation runs.
    Running,
    /// Removed; calls in flight end.
    Draining,
    /// No generation could be loaded; a change of the files or of the configuration is needed.
    Failed,
    /// It waits for something that may take long: a kind that is not served, a permission of the host, a configuration, or
    /// the next try of its load.
    Waiting,
    /// Paused after faults of several keys.
    Quarantined,
    /// Paused by an operator.
    Paused,
}

impl PluginState {
    /// The word that the API uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Failed => "failed",
            Self::Waiting => "waiting",
            Self::Quarantined => "quarantined",
            Self::Paused => "paused",
        }
    }
}

/// One plugin.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// Its name; that of a run elsewhere than at home is `PLUGIN@CLUSTER`.
    pub name: String,
    /// Number of the current generation; 0 without one.
    pub generation: u64,
    /// `sha256:…` of the current generation's component; empty before the first.
    pub digest: String,
    /// Its state.
    pub state: PluginState,
    /// The last error of a load or a call; none when a generation has started since.
    pub last_error: Option<String>,
    /// What does not work as the plugin asks for, although it runs: permissions that are not granted, objects beyond a limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What a load, or the running generation, waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// When the plugin is tried again (RFC 3339): the end of a quarantine's pause, or the next try of a load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<String>,
    /// Why calls cannot be answered now, where that is no fault of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_condition: Option<String>,
    /// The rollback that made the current generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<RollbackView>,
    /// Calls begun since the plugin was added.
    pub calls: u64,
    /// Keys that wait to be reconciled.
    pub queue_depth: usize,
    /// Its shard; absent without `--shards`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<usize>,
    /// The host that runs it, as far as is known; empty while none does. Absent without `--shards`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
}

/// A rollback: a generation whose first calls faulted, and the one that was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RollbackView {
    /// Number of the generation that faulted.
    pub from: u64,
    /// `sha256:…` of its component.
    pub digest: String,
    /// Number of the generation whose component and configuration run again.
    pub to: u64,
    /// The last fault.
    pub reason: String,
}

/// The answer of `/plugins`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PluginList {
    /// Why the host is not ready; absent when it is.
    #[serde(default, rename = "notReady", skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<String>,
    /// All plugins, by name.
    pub plugins: Vec<PluginStatus>,
    /// The election that this host takes part in; absent without `--leader-elect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub election: Option<ElectionView>,
    /// The clusters beside the home cluster, by name; absent without `--clusters`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterView>,
}

/// A cluster beside the home cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterView {
    /// Its name in `spec.clusters`.
    pub name: String,
    /// The address of its API server.
    pub server: String,
    /// Why it does not answer; absent while it does, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The role of a host in the leader election.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It keeps its caches warm and runs no plugin.
    Standby,
    /// It runs plugins.
    Leader,
    /// It was the leader, and is about to end.
    Lost,
}

/// The leader election, as one host sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElectionView {
    /// The role of this host.
    pub role: Role,
    /// The Lease, as `NAMESPACE/NAME`.
    pub lease: String,
    /// This host's name in it.
    pub identity: String,
    /// The name of the last known leader; empty without one. With shards: who holds the Lease in their place.
    pub leader: String,
    /// How many times the Lease had changed hands when this host's term began; none before, and with shards.
    pub transitions: Option<i32>,
    /// How hosts share the plugins; absent without `--shards`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<ShardsView>,
}

/// How hosts share the plugins, as one of them sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardsView {
    /// Shards that this host has.
    pub held: usize,
    /// The host that has each shard, by number; empty for one that nobody has.
    pub holders: Vec<String>,
    /// The hosts that live.
    pub hosts: Vec<String>,
}

impl ElectionView {
    /// Why this host waits until somebody deletes the Lease: it is held by hosts with another number of shards, or with shards
    /// where this one has none. None of a host that may get its turn.
    pub(crate) fn mismatch(&self) -> Option<String> {
        let theirs = shards_of_holder(&self.leader).filter(|_| self.role == Role::Standby)?;
        let own = match &self.shards {
            Some(shards) => format!("--shards={}", shards.holders.len()),
            None => "no --shards".to_owned(),
        };
        Some(format!(
            "the Lease {} is held by hosts with --shards={theirs}, and this host has {own}: start it with --shards={theirs}, or \
             stop all hosts and delete the Lease",
            self.lease
        ))
    }
}

impl fmt::Display for ElectionView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = self.mismatch() {
            return write!(f, "standby: {why}");
        }
        if let Some(ShardsView { held, holders, hosts }) = &self.shards {
            return match self.leader.as_str() {
                "" => write!(f, "{held} of {} shards; hosts: {}", holders.len(), hosts.len()),
                other => write!(f, "standby: no shards while {other} holds the Lease"),
            };
        }
        match self.role {
            Role::Leader => f.write_str("leader"),
            Role::Standby if self.leader.is_empty() => f.write_str("standby: no leader yet"),
            Role::Standby => write!(f, "standby: the leader is {}", self.leader),
            Role::Lost => f.write_str("leader election lost"),
        }
    }
}
