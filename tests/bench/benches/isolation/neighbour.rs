//! [`Neighbour`]: a host with a Lease and one well-behaved plugin, whose reconciles are timed.

use std::time::{Duration, Instant};

use pilothouse_bench::{is_small, quantile};
use pilothouse_client::Client;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::latency::Writes;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, guests};
use serde_json::json;
use tokio::runtime::Runtime;

use super::sample::{Sample, longest_poll_ms, stall_ms};

const NAME: &str = "neighbour";
/// Writes of one measurement.
const WRITES: usize = 1_000;
const PACE: Duration = Duration::from_millis(10);

pub(crate) struct Neighbour {
    pub(crate) cluster: Cluster,
    pub(crate) host: Host,
    pub(crate) runtime: Runtime,
    pub(crate) client: Client,
}

impl Neighbour {
    /// Starts the host and waits until the plugin runs.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let plane = ControlPlane::shared(Server::Development)?;
        let cluster = Cluster::of(plane)?;
        cluster.namespace(NAME)?;
        let lease = ["--leader-elect", "--lease", "neighbour/host"].map(str::to_owned).to_vec();
        let host = Host::start(HostOptions { args: lease, ..HostOptions::new(plane.kubeconfig()) })?;
        let manifest = Manifest::new(NAME)
            .config(json!({"kind": "v1/ConfigMap", "namespaces": [NAME], "mode": "log"}))
            .reads(&["configmaps"], NAME);
        host.install(NAME, &guests::wasm("probe")?, Some(&manifest.to_string()))?;
        plugins::wait_running(&host, NAME)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let client = runtime.block_on(plane.client())?;
        Ok(Self { cluster, host, runtime, client })
    }

    /// Writes objects whose names begin with `prefix`, and times their reconciles. Fails when the host has ended, as it does
    /// when it loses its Lease.
    pub(crate) fn sample(&self, prefix: &str) -> anyhow::Result<Sample> {
        let before = self.host.metrics()?;
        let (began, logged) = (Instant::now(), self.host.log().bytes());
        let count = if is_small() { WRITES / 10 } else { WRITES };
        let writes = self.runtime.block_on(Writes::make(&self.client, NAME, prefix, count, PACE))?;
        let took = began.elapsed().as_secs_f64();
        let log_bytes = self.host.log().bytes() - logged;
        let mut seconds = writes.latencies(&self.host, NAME)?;
        let after = self.host.metrics()?;
        Ok(Sample {
            p50_ms: quantile(&mut seconds, 0.5) * 1e3,
            p99_ms: quantile(&mut seconds, 0.99) * 1e3,
            stall_ms: stall_ms(&before, &after, 0.999),
            poll_ms: longest_poll_ms(Some(&before), &after),
            rss_mib: self.host.process().resident_bytes()? as f64 / f64::from(1 << 20),
            log_kib_s: log_bytes as f64 / 1024.0 / took,
        })
    }
}
