//! [`Descriptor`]: the builder of the JSON document that `describe` returns (`docs/describe.md`). Each part has its
//! own file.
//!
//! Invariant: fields that were not set are omitted, so the defaults of the running host apply, also of a newer one.

mod index;
mod map;
mod permission;
mod projection;
mod rate_limiter;
mod schedule;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

pub use index::Index;
pub use map::Map;
pub use permission::Permission;
pub use projection::Projection;
pub use rate_limiter::RateLimiter;
pub use schedule::Schedule;
pub use watch::{Delivery, Predicate, Watch};

use crate::duration;

/// The descriptor of a plugin: its watches, indexes, requested permissions and settings.
///
/// ```
/// use pilothouse_sdk::prelude::*;
///
/// const NODE: Kind = Kind::core("v1", "Node");
/// const POD: Kind = Kind::core("v1", "Pod");
///
/// let descriptor = Descriptor::new("pods-per-node")
///     .watch(Watch::new(NODE))
///     .watch(Watch::new(POD).map(Map::field("/spec/nodeName")))
///     .index(Index::by_path(POD, "by-node", "/spec/nodeName"))
///     .max_concurrent_reconciles(4)
///     .permission(Permission::new("", ["nodes", "pods"]));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    api_version: &'static str,
    name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    watches: Vec<Watch>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    indexes: Vec<Index>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    projections: Vec<Projection>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    schedules: Vec<Schedule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_concurrent_reconciles: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_batch: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "duration::serialize")]
    linger: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_limiter: Option<RateLimiter>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "duration::serialize")]
    resync: Option<Duration>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    permissions: Vec<Permission>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outgoing_hosts: Vec<String>,
    #[serde(flatten)]
    more: BTreeMap<String, serde_json::Value>,
}

impl Descriptor {
    /// A descriptor with the author's name of the plugin. The manifest sets the name under which the plugin runs.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            api_version: "pilothouse.dev/describe/v1alpha1",
            name: name.into(),
            watches: Vec::new(),
            indexes: Vec::new(),
            projections: Vec::new(),
            schedules: Vec::new(),
            max_concurrent_reconciles: None,
            max_batch: None,
            linger: None,
            rate_limiter: None,
            resync: None,
            permissions: Vec::new(),
            outgoing_hosts: Vec::new(),
            more: BTreeMap::new(),
        }
    }

    /// Adds a watch.
    #[must_use]
    pub fn watch(mut self, watch: Watch) -> Self {
        self.watches.push(watch);
        self
    }

    /// Adds an index over a watched kind, for [`cache::by_index`](crate::cache::by_index).
    #[must_use]
    pub fn index(mut self, index: Index) -> Self {
        self.indexes.push(index);
        self
    }

    /// Declares the fields that the plugin reads of a watched kind. Without a projection the host keeps whole objects.
    #[must_use]
    pub fn projection(mut self, projection: Projection) -> Self {
        self.projections.push(projection);
        self
    }

    /// Adds a key that is reconciled periodically.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedules.push(schedule);
        self
    }

    /// Sets the maximum number of keys that are reconciled at the same time, each in its own instance.
    #[must_use]
    pub fn max_concurrent_reconciles(mut self, limit: u32) -> Self {
        self.max_concurrent_reconciles = Some(limit);
        self
    }

    /// Sets the maximum number of keys per call of a [`BatchReconciler`](crate::BatchReconciler). The default is 100,
    /// the maximum 10,000.
    #[must_use]
    pub fn max_batch(mut self, keys: u32) -> Self {
        self.max_batch = Some(keys);
        self
    }

    /// Sets how long the host collects keys for a call of a [`BatchReconciler`](crate::BatchReconciler), counted from
    /// the first key; at most one minute. By default a call takes the keys that are ready.
    #[must_use]
    pub fn linger(mut self, time: Duration) -> Self {
        self.linger = Some(time);
        self
    }

    /// Sets the delays between retries.
    #[must_use]
    pub fn rate_limiter(mut self, limiter: RateLimiter) -> Self {
        self.rate_limiter = Some(limiter);
        self
    }

    /// Reconciles every key of the watches again in this interval, changed or not.
    #[must_use]
    pub fn resync(mut self, interval: Duration) -> Self {
        self.resync = Some(interval);
        self
    }

    /// Asks for a permission. Only the manifest grants permissions; the host logs missing ones when it loads the
    /// plugin.
    #[must_use]
    pub fn permission(mut self, permission: Permission) -> Self {
        self.permissions.push(permission);
        self
    }

    /// Asks for a host (`name:port`) that the plugin calls over HTTP. Only the manifest grants hosts.
    #[must_use]
    pub fn outgoing_host(mut self, host: impl Into<String>) -> Self {
        self.outgoing_hosts.push(host.into());
        self
    }

    /// Sets a field for which this version of the SDK has no builder. A host that does not know the field refuses the
    /// plugin.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.more.insert(name.into(), value.into());
        self
    }

    /// Serializes the descriptor as JSON.
    ///
    /// # Errors
    /// When a value given to [`field`](Self::field) cannot be serialized.
    pub fn to_json(&self) -> Result<Vec<u8>, String> {
        serde_json::to_vec(self).map_err(|error| format!("the descriptor cannot be written as JSON: {error}"))
    }
}

/// The three fields of a kind, flattened into other types of the schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct KindFields {
    group: String,
    version: String,
    kind: String,
}

impl From<crate::Kind> for KindFields {
    fn from(kind: crate::Kind) -> Self {
        Self { group: kind.group().into(), version: kind.version().into(), kind: kind.kind().into() }
    }
}

/// Converts and collects strings of any string type.
fn strings(names: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    names.into_iter().map(Into::into).collect()
}
