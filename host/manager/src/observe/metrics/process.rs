//! Memory and CPU of the process.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Memory and CPU of this process, from `/proc`.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut gauge = |name: &str, help: &str, value: f64| {
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        if let Some(rss) = resident_bytes() {
            gauge("process_resident_memory_bytes", "Memory in use", rss as f64)?;
        }
        let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let seconds = usage.tv_sec as f64 + usage.tv_nsec as f64 / 1e9;
        let metric = ConstCounter::new(seconds);
        metric.encode(encoder.encode_descriptor(
            "process_cpu_seconds",
            "CPU time used",
            None,
            metric.metric_type(),
        )?)
    }
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}
