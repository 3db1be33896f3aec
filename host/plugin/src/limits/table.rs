//! [`BOUNDS`]: the table of the bounds of a plugin, with the texts of their values.

use std::time::Duration;

use super::{Limits, MAX_CONCURRENT_RECONCILES, PluginLimits};
use crate::duration::parse_duration;
use crate::quantity::parse_memory;

/// The unit of a bound. Values of all units are compared as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds, written as in Go.
    Duration,
    /// Bytes, written as in Kubernetes.
    Bytes,
    /// A whole number.
    Count,
    /// A number per second.
    Rate,
}

/// One bound of a plugin.
pub struct Bound {
    /// The name in `spec.limits` of a manifest and in `plugins` of the limits file.
    pub name: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// Lowest and highest value that may be written.
    pub range: (f64, f64),
    /// Whether a higher value is the narrower one: a shortest interval.
    pub is_floor: bool,
    /// What is bounded.
    pub what: &'static str,
    /// What happens beyond it.
    pub beyond: &'static str,
    get: fn(&PluginLimits) -> Option<f64>,
    set: fn(&mut PluginLimits, f64),
}

impl Bound {
    /// The value in the limits of a plugin; `None` for no limit.
    #[must_use]
    pub fn get(&self, limits: &PluginLimits) -> Option<f64> {
        (self.get)(limits)
    }

    pub(super) fn set(&self, limits: &mut PluginLimits, value: f64) {
        (self.set)(limits, value);
    }

    /// Whether a value allows more than another one.
    pub(super) fn is_wider(&self, value: f64, than: f64) -> bool {
        if self.is_floor { value < than } else { value > than }
    }

    /// The default, as it is written in YAML; `None` for no limit.
    #[must_use]
    pub fn default_text(&self) -> Option<String> {
        self.get(&PluginLimits::default()).map(|value| self.unit.write(value))
    }
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bound").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Unit {
    /// Parses a value.
    ///
    /// # Errors
    /// When the text is not a value of this unit: reason and remedy, separated by `; `.
    #[allow(clippy::cast_precision_loss, reason = "no bound is near 2^53")]
    pub(super) fn parse(self, text: &str) -> Result<f64, String> {
        match self {
            Self::Duration => {
                parse_duration(text).map(|d| d.as_nanos() as f64).map_err(|error| error.to_string())
            }
            Self::Bytes => parse_memory(text).map(|bytes| bytes as f64).map_err(|error| error.to_string()),
            Self::Count | Self::Rate => {
                text.parse().map_err(|_| format!("{text:?} is not a number; write one like 10"))
            }
        }
    }

    /// The text of a value, as it is written in YAML.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounds are not negative")]
    pub fn write(self, value: f64) -> String {
        let largest = |units: &[(u64, &str)]| {
            let value = value as u64;
            let fits = units.iter().find(|(size, _)| value > 0 && value.is_multiple_of(*size));
            fits.map_or_else(|| value.to_string(), |(size, name)| format!("{}{name}", value / size))
        };
        match self {
            Self::Duration => {
                const SECOND: u64 = 1_000_000_000;
                largest(&[
                    (3600 * SECOND, "h"),
                    (60 * SECOND, "m"),
                    (SECOND, "s"),
                    (1_000_000, "ms"),
                    (1, "ns"),
                ])
            }
            Self::Bytes => largest(&[(1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")]),
            Self::Count | Self::Rate => value.to_string(),
        }
    }
}

/// Conversion between the type of a field and the number that is compared.
trait Amount {
    fn number(self) -> Option<f64>;
    fn of(number: f64) -> Self;
}

macro_rules! amounts {
    ($($type:ty: $number:expr, $of:expr;)*) => {$(
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss,
            reason = "values are within the range of their bound")]
        impl Amount for $type {
            fn number(self) -> Option<f64> {
                ($number)(self)
            }
            fn of(number: f64) -> Self {
                ($of)(number)
            }
        }
    )*};
}

amounts! {
    Duration: |d: Self| Some(d.as_nanos() as f64), |n: f64| Self::from_nanos(n as u64);
    usize: |n: Self| Some(n as f64), |n: f64| n as Self;
    u32: |n: Self| Some(f64::from(n)), |n: f64| n as Self;
    f64: Some, |n| n;
    Option<f64>: |n| n, Some;
}

macro_rules! bound {
    ($name:literal, $unit:ident, $($field:ident).+, $low:expr, $high:expr, floor, $what:literal, $beyond:literal) => {
        Bound { is_floor: true, ..bound!($name, $unit, $($field).+, $low, $high, $what, $beyond) }
    };
    ($name:literal, $unit:ident, $($field:ident).+, $low:expr, $high:expr, $what:literal, $beyond:literal) => {
        Bound {
            name: $name,
            unit: Unit::$unit,
            range: ($low as f64, $high as f64),
            is_floor: false,
            what: $what,
            beyond: $beyond,
            get: |limits| limits.$($field).+.number(),
            set: |limits, value| limits.$($field).+ = Amount::of(value),
        }
    };
}

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const KI: usize = 1 << 10;
const MI: usize = 1 << 20;

/// All bounds of a plugin.
pub static BOUNDS: [Bound; 31] = [
    bound!(
        "callTimeout",
        Duration,
        engine.call_timeout,
        MS,
        600 * S,
        "wall-clock time of a call, waits included",
        "fault `deadline`"
    ),
    bound!(
        "cpuPerCall",
        Duration,
        engine.cpu_per_call,
        MS,
        600 * S,
        "CPU time of a call, and of the host for it; at most `callTimeout`",
        "fault `cpu`"
    ),
    // Less has no room for the stack of a guest.
    bound!("memory", Bytes, engine.memory, MI, Limits::MAX_MEMORY, "memory of an instance", "fault `memory`"),
    bound!(
        "maxConcurrentReconciles",
        Count,
        max_concurrent_reconciles,
        1,
        MAX_CONCURRENT_RECONCILES,
        "concurrent reconciles",
        "a lower number than the descriptor's is used"
    ),
    bound!(
        "queueDepth",
        Count,
        queue_depth,
        1,
        10_000_000,
        "keys in the queue when the plugin adds one",
        "error `over-limit`"
    ),
    // As in cgroups.
    bound!(
        "cpuWeight",
        Count,
        cpu_weight,
        1,
        10_000,
        "share of the guest threads while they are busy, relative to others",
        "the calls wait longer"
    ),
    bound!(
        "httpQPS",
        Rate,
        http_qps,
        0.01,
        10_000,
        "requests of outgoing HTTP per second",
        "the request waits"
    ),
    bound!("apiQPS", Rate, api_qps, 0.01, 10_000, "live calls per second", "the call waits"),
    bound!("eventQPS", Rate, event_qps, 0.01, 10_000, "Kubernetes Events per second", "error `over-limit`"),
    bound!(
        "metricSeries",
        Count,
        metric_series,
        0,
        100_000,
        "series of the plugin's own metrics",
        "error `over-limit`"
    ),
    bound!(
        "getManyPointers",
        Count,
        engine.get_many_pointers,
        1,
        4096,
        "pointers of one `get-many`",
        "error `over-limit`"
    ),
    bound!(
        "pageObjects",
        Count,
        engine.page_objects,
        1,
        100_000,
        "objects of one page of a cursor",
        "the page is shorter"
    ),
    bound!(
        "answerBytes",
        Bytes,
        engine.answer_bytes,
        64 * KI,
        1024 * MI,
        "bytes that one import call answers",
        "error `over-limit`"
    ),
    bound!(
        "handleBytes",
        Bytes,
        engine.handle_bytes,
        MI,
        1024 * MI,
        "bytes of the objects behind the handles of a call",
        "error `over-limit`"
    ),
    bound!(
        "logBytes",
        Bytes,
        engine.log_bytes,
        KI,
        64 * MI,
        "bytes of log per second",
        "lines are dropped and counted"
    ),
    bound!("descriptorBytes", Bytes, descriptor.bytes, KI, 8 * MI, "bytes of the descriptor", "not loaded"),
    bound!(
        "permissions",
        Count,
        descriptor.permissions,
        0,
        1000,
        "permission rules of the descriptor",
        "not loaded"
    ),
    bound!(
        "ruleCombinations",
        Count,
        descriptor.rule_combinations,
        1,
        1_000_000,
        "product of the lengths of a rule's lists",
        "not loaded"
    ),
    bound!(
        "outgoingHosts",
        Count,
        descriptor.outgoing_hosts,
        0,
        1000,
        "outgoing hosts of the descriptor",
        "not loaded"
    ),
    bound!("watches", Count, descriptor.watches, 0, 256, "watches of the descriptor", "not loaded"),
    bound!(
        "watchNamespaces",
        Count,
        descriptor.watch_namespaces,
        1,
        1024,
        "namespaces of a watch",
        "not loaded"
    ),
    bound!(
        "selectorTerms",
        Count,
        descriptor.selector_terms,
        1,
        1024,
        "terms of a selector, values of its sets included",
        "not loaded; a query of the cache: error `over-limit`"
    ),
    bound!("predicates", Count, descriptor.predicates, 0, 64, "predicates of a watch", "not loaded"),
    bound!("indexes", Count, descriptor.indexes, 0, 256, "indexes of the descriptor", "not loaded"),
    bound!("schedules", Count, descriptor.schedules, 0, 256, "schedules of the descriptor", "not loaded"),
    bound!(
        "shortestResync",
        Duration,
        descriptor.shortest_resync,
        S,
        86_400 * S,
        floor,
        "shortest interval of a resync",
        "not loaded"
    ),
    bound!(
        "shortestSchedule",
        Duration,
        descriptor.shortest_schedule,
        100 * MS,
        86_400 * S,
        floor,
        "shortest interval of a schedule",
        "not loaded"
    ),
    bound!(
        "indexValues",
        Count,
        data.index_values,
        1,
        100_000,
        "values of one object in an index",
        "the index finds the object under none of them"
    ),
    bound!(
        "splitBytes",
        Bytes,
        data.split_bytes,
        KI,
        2 * MI,
        "bytes of a text that an index splits",
        "the index finds the object under none of its values"
    ),
    bound!(
        "mappedKeys",
        Count,
        data.mapped_keys,
        1,
        100_000,
        "keys that one object maps to",
        "only the first ones are reconciled"
    ),
    bound!(
        "informers",
        Count,
        data.informers,
        1,
        4096,
        "informers: one a kind and namespace, or a named object",
        "not loaded"
    ),
];
