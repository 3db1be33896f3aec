//! Plugins at work: discovered, loaded, called, reloaded, observed.
//!
//! | room | holds |
//! |---|---|
//! | `manager` | the plugins of a directory, and what changes them |
//! | `lifecycle/` | one plugin: files, configuration, component, generation, quarantine |
//! | `dispatch/` | from a change of an object to a call: filters, key mapping, the gate of a standby, workers, pumps of event handlers |
//! | `imports/` | what a component may call: cache, live calls, events, log; each checked against the grants |
//! | `observe/` | status, metrics, admin endpoints, Kubernetes Events of the host |
//! | `leader_election` | whether this host is the leader |

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
pub use lifecycle::directory::{Directory, DirectoryError, DirectoryOptions};
pub use manager::{Manager, ManagerOptions};
pub use observe::admin;
pub use observe::host_events::HostObject;
pub use observe::metrics::Metrics;
pub use observe::status::{ElectionView, PluginList, PluginState, PluginStatus, Role};
