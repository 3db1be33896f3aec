//! Plugins: discover, load, subscribe, dispatch, reload, permissions, admin endpoints.

mod describe;
mod directory;
mod duration;
mod grants;
mod manifest;
mod quantity;

pub use describe::{
    Bucket, Delivery, DescribeError, Description, IndexSource, IndexSpec, KeyMap, Predicate, RateLimiter, Schedule, WatchSpec,
};
pub use directory::{Change, Directory, DirectoryError, DirectoryOptions, Files};
pub use duration::{DurationError, parse_duration};
pub use grants::{Access, Grants, Missing, Place, Rule, Scope, Visibility};
pub use manifest::{
    ConfigFrom, Manifest, ManifestError, NamespacedName, OnReload, PluginLimits, Position, Source, Unsupported,
};
pub use quantity::{QuantityError, parse_memory};
