//! All adjustable bounds of the host: [`PluginLimits`] for one plugin, [`HostLimits`] for the host.
//!
//! ```text
//!  default (BOUNDS) ──┐
//!  ceiling (--limits) ┼─► PluginLimits of one plugin ─► engine, describe, informers, mapping, imports
//!  spec.limits ───────┘
//! ```
//!
//! Each bound has one row in [`BOUNDS`]: its name in YAML, its unit, its range, and what happens beyond it. The default is
//! the value of [`PluginLimits::default`]. `docs/limits.md` shows the same table; a test compares them.
//!
//! Invariants: every value of a `PluginLimits` that was made from a manifest is within the range of its row and not wider
//! than the ceiling of the host. A value of the manifest that is wider is refused; a default that is wider is narrowed.

mod asked;
mod ceilings;
mod host;
mod table;

use std::time::Duration;

pub(crate) use self::asked::AskedLimits;
pub use self::ceilings::Ceilings;
pub use self::host::HostLimits;
pub use self::table::{BOUNDS, Bound, Unit};

/// The limits of every call of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time of a call, including waits.
    pub call_timeout: Duration,
    /// CPU time of a call. Waiting for the host is not charged.
    pub cpu_per_call: Duration,
    /// Linear memory of one instance in bytes.
    pub memory: usize,
    /// Pointers of one `get-many`.
    pub get_many_pointers: usize,
    /// Objects of one page of a cursor.
    pub page_objects: usize,
    /// Bytes that one import call may answer.
    pub answer_bytes: usize,
    /// Bytes of the objects behind the handles of one call.
    pub handle_bytes: usize,
    /// Bytes of log per second, on average.
    pub log_bytes: usize,
}

impl Limits {
    /// Maximum of `memory` in bytes, and the size of a memory slot in the instance pool.
    pub const MAX_MEMORY: usize = 1 << 30;
    /// The longest that `describe` may take, whatever limits the manifest sets for calls: loads of all plugins take turns. It
    /// has the log and the configuration alone, so it waits for nobody.
    pub const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);
    /// The most CPU time of `describe`.
    pub const DESCRIBE_CPU: Duration = Duration::from_secs(2);

    /// The limits of a call of `describe`.
    #[must_use]
    pub fn for_describe(self) -> Self {
        Self {
            call_timeout: self.call_timeout.min(Self::DESCRIBE_TIMEOUT),
            cpu_per_call: self.cpu_per_call.min(Self::DESCRIBE_CPU),
            ..self
        }
    }
}

/// Maximum number of concurrent reconciles that a descriptor or a manifest may name.
pub(crate) const MAX_CONCURRENT_RECONCILES: u32 = 1024;

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_secs(10),
            cpu_per_call: Duration::from_secs(1),
            memory: 64 << 20,
            get_many_pointers: 64,
            page_objects: 1_000,
            answer_bytes: 16 << 20,
            handle_bytes: 64 << 20,
            log_bytes: 1 << 20,
        }
    }
}

/// The limits of what a descriptor may say. They are checked before the descriptor costs more than its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorLimits {
    /// Bytes of the descriptor.
    pub bytes: usize,
    /// Rules in `permissions`.
    pub permissions: usize,
    /// Combinations of groups, resources, verbs, namespaces and names of one rule: the product of its lists.
    pub rule_combinations: usize,
    /// Hosts in `outgoingHosts`.
    pub outgoing_hosts: usize,
    /// Watches.
    pub watches: usize,
    /// Namespaces of one watch.
    pub watch_namespaces: usize,
    /// Terms of one label selector or field selector, values of a set included.
    pub selector_terms: usize,
    /// Predicates of one watch.
    pub predicates: usize,
    /// Indexes.
    pub indexes: usize,
    /// Schedules.
    pub schedules: usize,
    /// Shortest interval of a resync.
    pub shortest_resync: Duration,
    /// Shortest interval of a schedule.
    pub shortest_schedule: Duration,
}

impl Default for DescriptorLimits {
    fn default() -> Self {
        Self {
            bytes: 256 << 10,
            permissions: 100,
            rule_combinations: 10_000,
            outgoing_hosts: 100,
            watches: 64,
            watch_namespaces: 64,
            selector_terms: 64,
            predicates: 16,
            indexes: 64,
            schedules: 64,
            shortest_resync: Duration::from_secs(10),
            shortest_schedule: Duration::from_millis(100),
        }
    }
}

/// The limits of what data of the cluster may cost for one plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataLimits {
    /// Values of one object in one index.
    pub index_values: usize,
    /// Bytes of one text that an index splits.
    pub split_bytes: usize,
    /// Keys that one object maps to.
    pub mapped_keys: usize,
    /// Informers: one for each kind and namespace, and one for each object that a permission names.
    pub informers: usize,
}

impl Default for DataLimits {
    fn default() -> Self {
        Self { index_values: 1_000, split_bytes: 64 << 10, mapped_keys: 1_000, informers: 256 }
    }
}

/// The limits of a plugin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PluginLimits {
    /// The limits of each call.
    pub engine: Limits,
    /// The limits of the descriptor.
    pub descriptor: DescriptorLimits,
    /// The limits of what data of the cluster may cost.
    pub data: DataLimits,
    /// Maximum number of concurrent reconciles, whatever the descriptor requests.
    pub max_concurrent_reconciles: u32,
    /// Share of the guest threads, relative to that of other plugins.
    pub cpu_weight: u32,
    /// Requests of outgoing HTTP per second on average, with bursts of twice as many.
    pub http_qps: f64,
    /// Live calls per second on average, with bursts of twice as many; `None` for no limit.
    pub api_qps: Option<f64>,
    /// Kubernetes Events that the guests may record per second on average, with bursts of twice as many.
    pub event_qps: f64,
    /// Series that the plugin's own metrics may have in all.
    pub metric_series: usize,
    /// Maximum number of keys in the queue, including delayed ones, when the guest adds a key. Keys that the host adds
    /// are not limited by it, because their number is that of the objects.
    pub queue_depth: usize,
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self {
            engine: Limits::default(),
            descriptor: DescriptorLimits::default(),
            data: DataLimits::default(),
            // Each may hold an instance with its memory.
            max_concurrent_reconciles: 16,
            cpu_weight: 100,
            http_qps: 100.0,
            api_qps: None,
            event_qps: 50.0,
            metric_series: 1_000,
            // More than a cluster has objects of one kind, and about 30 MiB.
            queue_depth: 250_000,
        }
    }
}

#[cfg(test)]
mod tests;
