//! [`MetricImports`]: the host side of the interface `metrics`.

use std::sync::Arc;

use super::Refusal;

/// Which kind of metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A sum that only grows.
    Counter,
    /// A value.
    Gauge,
    /// How values are distributed.
    Histogram,
}

/// A metric as a guest declares it, not validated yet.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSpec {
    /// Which kind.
    pub kind: MetricKind,
    /// The name, without the plugin's prefix.
    pub name: String,
    /// For readers of the metrics.
    pub help: String,
    /// The names of the labels.
    pub labels: Vec<String>,
    /// The upper bounds of a histogram; empty for the default ones.
    pub buckets: Vec<f64>,
}

/// What a guest does with a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricChange {
    /// Adds to a counter or a gauge.
    Add(f64),
    /// Sets a gauge.
    Set(f64),
    /// Adds a value to a histogram.
    Observe(f64),
    /// Forgets the series.
    Remove,
}

/// A metric that was declared.
pub trait GuestMetric: Send + Sync {
    /// Changes the series with these values of the labels, in the order of their names.
    ///
    /// # Errors
    /// When the metric is of another kind, the values do not fit, or there would be too many series.
    fn change(&self, labels: &[String], change: MetricChange) -> Result<(), Refusal>;
}

/// Metrics of the plugin.
pub trait MetricImports {
    /// Declares a metric, or finds the one that was declared alike.
    ///
    /// # Errors
    /// When it is malformed, its name is used otherwise, there are too many, or the host has no metrics.
    fn metric_declare(&self, _spec: MetricSpec) -> Result<Arc<dyn GuestMetric>, Refusal> {
        Err(Refusal::unavailable("this host has no metrics"))
    }
}
