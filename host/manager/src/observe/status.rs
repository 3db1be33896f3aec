//! [`PluginStatus`] and [`ElectionView`]: a plugin, and the election of hosts, as `/plugins` and `pilothouse status` show them.

use std::fmt;

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
    /// No generation could be loaded.
    Failed,
    /// Paused after many faults in a row.
    Quarantined,
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
            Self::Quarantined => "quarantined",
        }
    }
}

/// One plugin.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// Its name.
    pub name: String,
    /// Number of the current generation; 0 without one.
    pub generation: u64,
    /// `sha256:…` of the current generation's component; empty before the first.
    pub digest: String,
    /// Its state.
    pub state: PluginState,
    /// The last error of a load or a call; none when a generation has started since.
    pub last_error: Option<String>,
    /// Calls begun since the plugin was added.
    pub calls: u64,
    /// Keys that wait to be reconciled.
    pub queue_depth: usize,
}

/// The answer of `/plugins`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PluginList {
    /// All plugins, by name.
    pub plugins: Vec<PluginStatus>,
    /// The election that this host takes part in; absent without `--leader-elect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub election: Option<ElectionView>,
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
    /// The name of the last known leader; empty without one.
    pub leader: String,
    /// How many times the Lease had changed hands when this host's term began; none before.
    pub transitions: Option<i32>,
}

impl fmt::Display for ElectionView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.role {
            Role::Leader => f.write_str("leader"),
            Role::Standby if self.leader.is_empty() => f.write_str("standby: no leader yet"),
            Role::Standby => write!(f, "standby: the leader is {}", self.leader),
            Role::Lost => f.write_str("leader election lost"),
        }
    }
}
