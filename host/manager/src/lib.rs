//! Plugins: discover, load, subscribe, dispatch, reload, permissions, admin endpoints.

mod dispatch;
mod imports;
mod lead;
mod lifecycle;
mod manager;
mod observe;

pub use dispatch::reasons::Reasons;
pub use dispatch::worker::RECONCILES;
pub use imports::guest_events::PLUGIN_ANNOTATION;
pub use lead::Lead;
pub use lifecycle::directory::{Directory, DirectoryError, DirectoryOptions};
pub use manager::{Manager, ManagerOptions};
pub use observe::admin;
pub use observe::host_events::HostObject;
pub use observe::metrics::Metrics;
pub use observe::status::{ElectionView, PluginList, PluginState, PluginStatus, Role};
