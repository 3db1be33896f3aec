//! [`PluginStatus`]: one plugin as `/plugins` and `pilothouse status` show it.

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
}
