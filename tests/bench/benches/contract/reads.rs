//! Reads of the cache by the guest's own clock, with the snapshot, the grants and the budget of a running host.

use std::time::Duration;

use anyhow::Context as _;
use pilothouse_bench::{Better, Report};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, guests, loglines};
use serde_json::json;

const NAMESPACE: &str = "measured";
const OBJECTS: usize = 10_000;
/// Those at which the guest measures.
const MEASURED: usize = 20;
/// From the issue.
const MOST_FIELDS: f64 = 3.0;
const MOST_KEYS: f64 = 10.0;
const SOON: Duration = Duration::from_secs(300);

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let plane = ControlPlane::shared(Server::Development)?;
    let cluster = Cluster::of(plane)?;
    cluster.namespace(NAMESPACE)?;
    for number in 0..OBJECTS {
        let name = if number < MEASURED { format!("measured-{number}") } else { format!("object-{number}") };
        cluster.create(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": NAMESPACE, "name": name},
            "data": {"first": "a value", "second": "another value", "third": "x".repeat(40)},
        }))?;
    }
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let manifest =
        Manifest::new("reads").config(json!({"objects": OBJECTS})).reads(&["configmaps"], NAMESPACE);
    host.install("reads", &guests::wasm("reads")?, Some(&manifest.to_string()))?;
    plugins::wait_running(&host, "reads")?;
    let read = || loglines::said(&host, "reads", "read");
    host.wait_for("all measured objects to be read", SOON, || anyhow::Ok(read().len() >= MEASURED))?;
    let (mut fields, mut keys) = (Vec::new(), Vec::new());
    for line in read() {
        anyhow::ensure!(line.field("number") == OBJECTS.to_string(), "{} keys", line.field("number"));
        let nanoseconds = |field: &str| line.field(field).parse::<f64>().context("no figure");
        fields.push(nanoseconds("fields")? / 1e3);
        keys.push(nanoseconds("keys")? / 1e6);
    }
    report.bound(
        "three strings of a cached object, by handle",
        "µs",
        Better::Lower,
        &mut fields,
        Some(MOST_FIELDS),
    );
    report.bound("10,000 keys in order through a cursor", "ms", Better::Lower, &mut keys, Some(MOST_KEYS));
    Ok(())
}
