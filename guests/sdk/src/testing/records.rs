//! What a [`World`](super::World) records of a plugin: Events, writes, log lines and metrics.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::bindings::imports::types as raw;
use crate::events::EventType;
use crate::log::Level;
use crate::metrics::MetricKind;
use crate::sys::{Declaration, MetricUse};
use crate::{Key, Kind, Verb};

/// A Kubernetes Event that the plugin recorded. Formats as `Normal Synced: the note`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedEvent {
    /// Its type.
    pub event_type: EventType,
    /// Machine-readable.
    pub reason: String,
    /// Human-readable.
    pub note: String,
    /// What was done; the reason, if the plugin said nothing else.
    pub action: String,
    /// The kind of the object that it is about.
    pub kind: Kind,
    /// The object that it is about.
    pub key: Key,
    /// The UID of that object; empty if the plugin did not know it.
    pub uid: String,
    /// Another object that is involved.
    pub related: Option<(Kind, Key)>,
    /// A part of the object.
    pub field_path: Option<String>,
    /// Annotations of the Event itself.
    pub annotations: Vec<(String, String)>,
    /// When it happened, if the plugin said so.
    pub timestamp: Option<String>,
}

impl fmt::Display for RecordedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}: {}", self.event_type, self.reason, self.note)
    }
}

/// A live call of the plugin that writes, whether it succeeded or not. Formats as `patch deployments/status a/b`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Write {
    /// The verb.
    pub verb: Verb,
    /// The kind of the object.
    pub kind: Kind,
    /// The plural, with the subresource after a slash.
    pub resource: String,
    /// The object; for a collection its namespace.
    pub key: Key,
    /// The body: the object, or the patch; null for a delete.
    pub body: Value,
    /// Whether nothing was to be stored.
    pub dry_run: bool,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.verb.as_str(), self.resource, self.key)
    }
}

/// A line that the plugin logged. Formats as the message with its fields: `wrote a/b total=3`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// Its level.
    pub level: Level,
    /// The message.
    pub message: String,
    /// The fields.
    pub fields: Vec<(String, String)>,
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.fields.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// The bounds of the contract.
const METRICS: usize = 100;
const SERIES: usize = 1_000;
const LABELS: usize = 8;
const LABEL_BYTES: usize = 128;
const NAME_BYTES: usize = 64;

#[derive(Default)]
pub(super) struct Metrics(BTreeMap<String, Metric>);

struct Metric {
    kind: MetricKind,
    labels: Vec<String>,
    /// Sums and values; of a histogram each value.
    series: BTreeMap<Vec<String>, Vec<f64>>,
}

type Refused<T> = Result<T, raw::Refusal>;

fn invalid<T>(message: String) -> Refused<T> {
    Err(raw::Refusal { reason: raw::RefusalReason::Invalid, message })
}

fn over_limit<T>(message: String) -> Refused<T> {
    Err(raw::Refusal { reason: raw::RefusalReason::OverLimit, message })
}

impl Metrics {
    pub(super) fn declare(&mut self, declaration: &Declaration<'_>) -> Refused<()> {
        let Declaration { kind, name, labels, buckets, .. } = *declaration;
        let is_name = |name: &str| {
            name.len() <= NAME_BYTES
                && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && name.chars().all(|each| each.is_ascii_alphanumeric() || each == '_')
        };
        if let Some(wrong) = std::iter::once(&name).chain(labels).find(|name| !is_name(name)) {
            return invalid(format!("{wrong:?} is not a name of a metric or label"));
        }
        if labels.len() > LABELS {
            return invalid(format!("metric {name} has {} labels, more than {LABELS}", labels.len()));
        }
        if !buckets.is_sorted_by(|one, two| one < two) || buckets.len() > 32 {
            return invalid(format!("metric {name}: the buckets are not ascending, or more than 32"));
        }
        match self.0.get(name) {
            Some(present) if present.kind == kind && present.labels == labels => Ok(()),
            Some(_) => invalid(format!("metric {name} is declared with another kind or other labels")),
            None if self.0.len() == METRICS => over_limit(format!("more than {METRICS} metrics")),
            None => {
                let labels = labels.iter().map(|label| (*label).to_owned()).collect();
                self.0.insert(name.to_owned(), Metric { kind, labels, series: BTreeMap::new() });
                Ok(())
            }
        }
    }

    pub(super) fn apply(&mut self, name: &str, labels: &[&str], what: MetricUse) -> Refused<()> {
        let series: usize = self.0.values().map(|metric| metric.series.len()).sum();
        let Some(metric) = self.0.get_mut(name) else { return invalid(format!("no metric {name}")) };
        if let Some(long) = labels.iter().find(|value| value.len() > LABEL_BYTES) {
            return invalid(format!("a label value has {} bytes, more than {LABEL_BYTES}", long.len()));
        }
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        if what == MetricUse::Remove {
            metric.series.remove(&labels);
            return Ok(());
        }
        if !metric.series.contains_key(&labels) && series >= SERIES {
            return over_limit(format!("more than {SERIES} sets of label values (limits.metricSeries)"));
        }
        let fits = match (metric.kind, what) {
            (MetricKind::Counter, MetricUse::Add(value)) => value >= 0.0,
            (MetricKind::Gauge, MetricUse::Add(_) | MetricUse::Set(_))
            | (MetricKind::Histogram, MetricUse::Observe(_)) => true,
            _ => false,
        };
        if !fits {
            return invalid(format!("metric {name} does not take {what:?}"));
        }
        let values = metric.series.entry(labels).or_default();
        match what {
            MetricUse::Add(value) => *values = vec![values.first().unwrap_or(&0.0) + value],
            MetricUse::Set(value) => *values = vec![value],
            MetricUse::Observe(value) => values.push(value),
            MetricUse::Remove => {}
        }
        Ok(())
    }

    pub(super) fn values(&self, name: &str, labels: &[&str]) -> Vec<f64> {
        let found = self.0.get(name).and_then(|metric| {
            metric.series.iter().find(|(own, _)| own.iter().map(String::as_str).eq(labels.iter().copied()))
        });
        found.map(|(_, values)| values.clone()).unwrap_or_default()
    }
}
