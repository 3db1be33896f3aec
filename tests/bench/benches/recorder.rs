//! What a recorder call costs a guest: from its side of the boundary, with the grant, the quota and the queue of a running host.
//! `cargo bench -p pilothouse-bench --bench recorder`.

use std::time::Duration;

use anyhow::Context as _;
use pilothouse_bench::{Better, Report};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, guests, loglines};
use serde_json::json;

const NAMESPACE: &str = "measured";
/// Objects, each of which the guest reconciles once.
const OBJECTS: usize = 100;
/// Calls in each reconcile: fewer than the queue takes, so that one that is emptied takes all.
const CALLS: u32 = 200;
/// From the issue.
const MOST_NANOSECONDS: f64 = 2_000.0;
const SOON: Duration = Duration::from_secs(120);

fn main() -> anyhow::Result<()> {
    let command = "cargo bench -p pilothouse-bench --bench recorder";
    pilothouse_bench::run("recorder", command, &[("guest", guest)])
}

fn guest(report: &mut Report) -> anyhow::Result<()> {
    let plane = ControlPlane::shared(Server::Development)?;
    let cluster = Cluster::of(plane)?;
    cluster.namespace(NAMESPACE)?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    // So many that the quota lets all of them through.
    let manifest = Manifest::new("recorder")
        .config(json!({"measure": CALLS}))
        .limits(json!({"eventQPS": 10_000}))
        .reads(&["configmaps"], NAMESPACE)
        .grant(&["events"], &["create"], &[NAMESPACE]);
    host.install("recorder", &guests::wasm("recorder")?, Some(&manifest.to_string()))?;
    plugins::wait_running(&host, "recorder")?;
    for number in 0..OBJECTS {
        cluster.config_map(NAMESPACE, &format!("object-{number}"))?;
    }
    let measured = || loglines::said(&host, "recorder", "measured");
    host.wait_for("all objects to be reconciled", SOON, || anyhow::Ok(measured().len() >= OBJECTS))?;
    let mut figures = Vec::new();
    for line in measured() {
        anyhow::ensure!(line.field("refused") == "0", "the host refused {} calls", line.field("refused"));
        figures.push(line.field("nanoseconds").parse::<f64>().context("no figure")?);
    }
    let metrics = host.metrics()?;
    let dropped =
        metrics.sum("pilothouse_plugin_events_total", &[("plugin", "recorder"), ("result", "dropped")]);
    let (ns, what) = ("ns/call", "a recorder call of a guest, by its own clock");
    report.bound(what, ns, Better::Lower, &mut figures, Some(MOST_NANOSECONDS));
    let share = dropped.unwrap_or_default() / f64::from(CALLS) / OBJECTS as f64;
    let scenario = format!("{what}: with the queue full");
    report.bound(&scenario, "share of the calls", Better::Lower, &mut [share], None);
    Ok(())
}
