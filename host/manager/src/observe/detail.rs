//! [`PluginDetail`]: one plugin, as `/plugins/NAME` and `pilothouse status NAME` show it.

use pilothouse_plugin::Rule;
use serde::{Deserialize, Serialize};

use crate::observe::recent_errors::ErrorView;
use crate::observe::status::PluginStatus;
use crate::observe::usage::Usage;

/// Everything that an operator may want to know of one plugin.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginDetail {
    /// What the list of all plugins shows of it.
    #[serde(flatten)]
    pub status: PluginStatus,
    /// What it has done, and what it uses.
    #[serde(flatten)]
    pub usage: Usage,
    /// The last generation that was good when another one replaced it; a rollback restores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good: Option<GenerationView>,
    /// End of the pause of a quarantine (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantined_until: Option<String>,
    /// The last different errors, the newest first.
    pub errors: Vec<ErrorView>,
    /// The current generation; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<CurrentView>,
}

/// A generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerationView {
    /// Its number.
    pub generation: u64,
    /// `sha256:…` of its component.
    pub digest: String,
}

/// What is in force in the current generation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CurrentView {
    /// `sha256:…` of the manifest; empty without one.
    pub manifest_digest: String,
    /// A digest of the merged configuration. It is another one in each process, so that nobody guesses a short secret from
    /// it.
    pub config_digest: String,
    /// The ServiceAccount, as `NAMESPACE/NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// The permissions of the manifest, in the cluster of the run.
    pub grants: Vec<Rule>,
    /// The remote clusters of the manifest; absent without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote_clusters: Vec<RemoteClustersView>,
    /// Its watches.
    pub watches: Vec<WatchView>,
    /// Its limits.
    pub limits: Vec<LimitView>,
}

/// An entry of `spec.remoteClusters`: clusters that the plugin accesses with live calls, besides that of its run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteClustersView {
    /// The clusters.
    pub clusters: Vec<RemoteClusterView>,
    /// The permissions in each of them.
    pub grants: Vec<Rule>,
}

/// One of these clusters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteClusterView {
    /// Its name.
    pub name: String,
    /// Why calls fail now: the host does not have the cluster, or its API server refuses connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A watch, and the informers that feed it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchView {
    /// The kind, as `apps/v1/Deployment`.
    pub kind: String,
    /// What becomes of a change: `self`, `owner`, `label`, `field` or `handler`.
    pub map: String,
    /// The informers.
    pub informers: Vec<InformerView>,
}

/// An informer. Plugins that watch the same objects share it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InformerView {
    /// The namespace; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Objects in its cache.
    pub objects: usize,
    /// Why its watch fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A limit, and how much of it is used, where the host knows that at any time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitView {
    /// The name in `spec.limits`.
    pub name: String,
    /// The value, as in a manifest; none for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// How much is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<String>,
}
