//! The `metrics` interface: metrics of the plugin.

use wasmtime::component::Resource;

use super::Refused;
use crate::bindings::pilothouse::controller::metrics::{Host, HostMetric, MetricKind as WitKind};
use crate::error::OverLimit;
use crate::host::{MetricChange, MetricKind, MetricSpec};
use crate::imports::{ImportCall, Metric};
use crate::state::StoreState;

/// Most handles of metrics that an instance may have at a time.
pub(crate) const MAX_METRICS: usize = 256;

impl StoreState {
    fn change(
        &self,
        this: &Resource<Metric>,
        labels: &[String],
        change: MetricChange,
    ) -> Result<(), Refused> {
        let Metric(metric) = self.metrics.get(this)?;
        Ok(metric.change(labels, change)?)
    }
}

impl Host for ImportCall<'_> {
    fn declare(
        &mut self,
        kind: WitKind,
        name: String,
        help: String,
        labels: Vec<String>,
        buckets: Vec<f64>,
    ) -> Result<Resource<Metric>, Refused> {
        let kind = match kind {
            WitKind::Counter => MetricKind::Counter,
            WitKind::Gauge => MetricKind::Gauge,
            WitKind::Histogram => MetricKind::Histogram,
        };
        let over = || {
            OverLimit::new(format_args!(
                "an instance may have {MAX_METRICS} handles of metrics at a time: declare each metric once, and keep the handle"
            ))
        };
        // Before the plugin has the metric.
        if !self.metrics.has_room(MAX_METRICS) {
            return Err(over().into());
        }
        let metric = self.host.metric_declare(MetricSpec { kind, name, help, labels, buckets })?;
        Ok(self.metrics.push(Metric(metric), MAX_METRICS).ok_or_else(over)?)
    }
}

impl HostMetric for ImportCall<'_> {
    fn add(&mut self, this: Resource<Metric>, labels: Vec<String>, value: f64) -> Result<(), Refused> {
        self.change(&this, &labels, MetricChange::Add(value))
    }

    fn set(&mut self, this: Resource<Metric>, labels: Vec<String>, value: f64) -> Result<(), Refused> {
        self.change(&this, &labels, MetricChange::Set(value))
    }

    fn observe(&mut self, this: Resource<Metric>, labels: Vec<String>, value: f64) -> Result<(), Refused> {
        self.change(&this, &labels, MetricChange::Observe(value))
    }

    fn remove(&mut self, this: Resource<Metric>, labels: Vec<String>) -> Result<(), Refused> {
        self.change(&this, &labels, MetricChange::Remove)
    }

    fn drop(&mut self, this: Resource<Metric>) -> wasmtime::Result<()> {
        self.metrics.delete(&this);
        Ok(())
    }
}
