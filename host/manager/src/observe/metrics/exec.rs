//! [`ExecMetrics`]: what exec plugins for credentials did, under client-go's names. `metrics` owns it.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use pilothouse_client::ExecPluginEvent;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Seconds; client-go's buckets: rotation that is too quick, as it should be, and too slow.
const ROTATION: [f64; 11] = [
    600.0,
    1800.0,
    3600.0,
    14400.0,
    86400.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
    124_416_000.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    code: i64,
    call_status: &'static str,
}

/// Counts of the plugin's runs, and the life of its certificates.
pub(crate) struct ExecMetrics {
    calls: Family<Call, Counter>,
    rotation: Histogram,
    expires: Arc<Mutex<Option<SystemTime>>>,
}

impl ExecMetrics {
    pub(crate) fn new() -> Self {
        Self { calls: Family::default(), rotation: Histogram::new(ROTATION), expires: Arc::default() }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "rest_client_exec_plugin_call",
            "Runs of the exec plugin for credentials by exit code and outcome",
            self.calls.clone(),
        );
        registry.register(
            "rest_client_exec_plugin_certificate_rotation_age",
            "Seconds that certificates of the exec plugin lived before they were replaced",
            self.rotation.clone(),
        );
        registry.register_collector(Box::new(TimeToLive(Arc::clone(&self.expires))));
    }

    pub(crate) fn observe(&self, event: &ExecPluginEvent) {
        match event {
            ExecPluginEvent::Called { code, status } => {
                let call = Call { code: i64::from(*code), call_status: status };
                self.calls.get_or_create(&call).inc();
            }
            ExecPluginEvent::Certificate { expires } => *self.expires.lock() = *expires,
            ExecPluginEvent::Rotated { age } => self.rotation.observe(age.as_secs_f64()),
            _ => {}
        }
    }
}

/// Time that the certificate has left when a scrape comes; infinite without one, negative when it has expired.
#[derive(Debug)]
struct TimeToLive(Arc<Mutex<Option<SystemTime>>>);

impl Collector for TimeToLive {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let expires = *self.0.lock();
        let left = expires.map_or(f64::INFINITY, |expires| match expires.duration_since(SystemTime::now()) {
            Ok(left) => left.as_secs_f64(),
            Err(late) => -late.duration().as_secs_f64(),
        });
        let help = "Time until the certificate of the exec plugin expires";
        let name = "rest_client_exec_plugin_ttl";
        let metric = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        ConstGauge::new(left).encode(metric)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn text(metrics: &ExecMetrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn the_names_and_values_are_those_of_client_go() {
        let metrics = ExecMetrics::new();
        let before = text(&metrics);
        assert!(before.contains("rest_client_exec_plugin_ttl_seconds inf"), "{before}");
        metrics.observe(&ExecPluginEvent::Called { code: 0, status: "no_error" });
        metrics.observe(&ExecPluginEvent::Called { code: -1, status: "plugin_execution_error" });
        metrics.observe(&ExecPluginEvent::Rotated { age: Duration::from_secs(3000) });
        let gone = SystemTime::now() - Duration::from_secs(100);
        metrics.observe(&ExecPluginEvent::Certificate { expires: Some(gone) });
        let after = text(&metrics);
        for line in [
            "rest_client_exec_plugin_call_total{code=\"0\",call_status=\"no_error\"} 1",
            "rest_client_exec_plugin_call_total{code=\"-1\",call_status=\"plugin_execution_error\"} 1",
            "rest_client_exec_plugin_certificate_rotation_age_bucket{le=\"1800.0\"} 0",
            "rest_client_exec_plugin_certificate_rotation_age_bucket{le=\"3600.0\"} 1",
            "rest_client_exec_plugin_ttl_seconds -100.",
        ] {
            assert!(after.contains(line), "{line} is not in\n{after}");
        }
    }
}
