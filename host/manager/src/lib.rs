//! Runs plugins: loads them, calls them, reloads them, and shows their state.
//!
//! ```text
//!  plugin directory, Plugins of the cluster ─► manager ─► lifecycle: load ─► generation ─► feeds ──┐ listeners, schedules
//!                                                                          ▼
//!  informers ─► dispatch: mapper ─► leadership gate ─► queue ─► worker: take ─ round ─ call ─ outcome
//!                         ring   ─► pump ──────────────────────────────────────────────┤
//!                                                                                      ▼
//!                                                                    guest ─► imports: cache, live calls, events
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `manager` | the runs of plugins in the clusters of a host; applies each change of the directory and of the cluster |
//! | `lifecycle/` | one plugin: files, configuration, load, generation, state machine, quarantine |
//! | `dispatch/` | from a change of an object to a call: filters, key mapping, leadership gate, workers, pumps of handlers; the seam to the engine (`guest.rs`) |
//! | `access/` | what the ServiceAccounts of plugins may do, asked of the API server again and again |
//! | `imports/` | the host's side of the guest's imports: cache, live calls, events, log; each checked against the grants |
//! | `observe/` | status, metrics, admin endpoints, Kubernetes Events of the host |
//! | `leader_election` | whether plugins may be called on this host: it is the leader, or has their shard |

mod access;
#[cfg(feature = "bench")]
pub mod bench;
mod dispatch;
mod imports;
mod leader_election;
mod lifecycle;
mod manager;
mod observe;
#[cfg(test)]
mod testing;

pub use dispatch::reasons::Reasons;
pub use dispatch::worker::RECONCILES;
pub use imports::guest_events::PLUGIN_ANNOTATION;
pub use leader_election::LeaderElection;
#[cfg(feature = "oci")]
pub use lifecycle::component_fetch::SignaturePolicy;
pub use lifecycle::directory::{Directory, DirectoryError, DirectoryOptions};
pub use lifecycle::plugin_objects::PluginObjectsOptions;
pub use manager::{ClusterClient, Clusters, Manager, ManagerOptions, PluginThreads, StartError};
pub use observe::admin;
pub use observe::audit::AUDIT;
pub use observe::detail::{
    CurrentView, GenerationView, InformerView, LimitView, PluginDetail, RemoteClusterView,
    RemoteClustersView, WatchView,
};
pub use observe::host_events::HostObject;
pub use observe::metrics::Metrics;
pub use observe::recent_errors::ErrorView;
pub use observe::recent_log::{LogLine, LogPage, RecentLog};
pub use observe::rest::{Rest, Troubles};
pub use observe::status::{
    ClusterView, ElectionView, PluginList, PluginState, PluginStatus, Role, ShardsView,
};
pub use observe::traces::TRACE;
pub use observe::usage::{DurationSpread, PluginUsage, Usage, UsageList};
