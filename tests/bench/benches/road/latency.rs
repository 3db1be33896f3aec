//! API write → reconcile start: from before the write is sent to the guest's first log line, both by the system clock.

use std::time::Duration;

use pilothouse_bench::{Better, Report, quantile};
use pilothouse_tests::controlplane::Options;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::latency::Writes;
use pilothouse_tests::{ControlPlane, Host, guests};

const WRITES: usize = 500;
const PACE: Duration = Duration::from_millis(10);
const RUNS: usize = 5;

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let plane = ControlPlane::start(Options::default())?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let config = r#"{ kind: "v1/ConfigMap", namespaces: [default], mode: log }"#;
    host.install("probe", &guests::wasm("probe")?, Some(&super::plugins::manifest("probe", config)))?;
    host.wait_for("the probe to run", Duration::from_secs(120), || {
        super::plugins::states(&host, "running").map(|(count, _)| count == 1)
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = runtime.block_on(plane.client())?;
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let prefix = format!("run-{run}");
        let writes = runtime.block_on(Writes::make(&client, "default", &prefix, WRITES, PACE))?;
        let mut seconds = writes.latencies(&host, "probe")?;
        p50.push(quantile(&mut seconds, 0.5) * 1e3);
        p99.push(quantile(&mut seconds, 0.99) * 1e3);
    }
    report.bound("API write to reconcile start, p50", "ms", Better::Lower, &mut p50, None);
    report.bound("API write to reconcile start, p99", "ms", Better::Lower, &mut p99, None);
    Ok(())
}
