//! [`PluginStatus`] and [`ElectionView`]: a plugin, and the election of hosts, as `/plugins` and `pilothouse status` show them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a plugin fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PluginState {
    /// Its first generation is compiled, described or waits for its caches.
    Loading,
    /// A generation works.
    Running,
    /// It was removed; calls in flight end.
    Draining,
    /// No generation could be loaded.
    Failed,
    /// It faulted many times in a row and rests for a while.
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
    /// Number of the working generation; 0 before the first.
    pub generation: u64,
    /// `sha256:…` of the working generation's component; empty before the first.
    pub digest: String,
    /// How it fares.
    pub state: PluginState,
    /// The last error of loading or of a call; none when a generation began since.
    pub last_error: Option<String>,
    /// Calls begun since the plugin appeared.
    pub calls: u64,
    /// Keys that wait to be reconciled.
    pub queue_depth: usize,
}

/// What `/plugins` answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PluginList {
    /// All plugins, by name.
    pub plugins: Vec<PluginStatus>,
    /// The election that this host takes part in; absent without `--leader-elect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub election: Option<ElectionView>,
}

/// What a host may do in an election of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It keeps its caches warm and waits for its turn.
    Standby,
    /// It works.
    Leader,
    /// It worked, and is about to end.
    Lost,
}

/// An election of hosts, seen from one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElectionView {
    /// What this host may do.
    pub role: Role,
    /// The Lease, as `NAMESPACE/NAME`.
    pub lease: String,
    /// This host's name in it.
    pub identity: String,
    /// The name of the leader seen last; empty when there is none.
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
