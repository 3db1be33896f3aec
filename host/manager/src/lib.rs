//! Plugins: discover, load, subscribe, dispatch, reload, permissions, admin endpoints.

pub mod admin;
mod config_sources;
mod describe;
mod directory;
mod duration;
mod election_metrics;
mod event_metrics;
mod exec_metrics;
mod follow;
mod gate;
mod generation;
mod grants;
mod guest_events;
mod host_events;
mod http_metrics;
mod informer_metrics;
mod lead;
mod limiter;
mod live;
mod load;
mod log_limit;
mod manager;
mod manifest;
mod mapper;
mod mapping;
mod memory;
mod metrics;
mod plugin;
mod pump;
mod quantity;
mod queue_metrics;
mod reasons;
mod rest_metrics;
mod services;
mod status;
mod token_bucket;
mod visible_objects;
mod worker;
mod writes;

pub use describe::{
    Batch, Bucket, Delivery, DescribeError, Description, IndexSource, IndexSpec, KeyMap, Predicate,
    ProjectionSpec, RateLimiter, Schedule, WatchSpec,
};
pub use directory::{Change, Directory, DirectoryError, DirectoryOptions, Files};
pub use duration::{DurationError, parse_duration};
pub use grants::{Access, Grants, Missing, Place, Rule, Scope, Visibility};
pub use guest_events::PLUGIN_ANNOTATION;
pub use host_events::HostObject;
pub use lead::Lead;
pub use manager::{Manager, ManagerOptions};
pub use manifest::{
    ConfigFrom, Manifest, ManifestError, NamespacedName, ObjectReference, OnReload, PluginLimits, Position,
    Source,
};
pub use metrics::Metrics;
pub use quantity::{QuantityError, parse_memory};
pub use reasons::Reasons;
pub use status::{ElectionView, PluginList, PluginState, PluginStatus, Role};
pub use worker::RECONCILES;
