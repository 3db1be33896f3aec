//! Which threads a host has, and what its plugins cost on them. What each kind of thread is for: `docs/architecture.md`.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::Manifest;
use pilothouse_tests::{ControlPlane, Host, Stage};
use serde_json::json;

pilothouse_tests::on_both_servers!(
    a_host_with_an_election_renews_its_lease_on_a_thread_of_its_own,
    what_a_plugin_costs_is_told_by_guest_and_host,
);

/// The names of the threads of a host.
fn threads(host: &Host) -> Result<BTreeSet<String>> {
    let folder = format!("/proc/{}/task", host.process().pid());
    let mut names = BTreeSet::new();
    for task in std::fs::read_dir(&folder).context(folder)? {
        // One that has ended meanwhile has no name.
        if let Ok(name) = std::fs::read_to_string(task?.path().join("comm")) {
            names.insert(name.trim().to_owned());
        }
    }
    Ok(names)
}

fn a_host_with_an_election_renews_its_lease_on_a_thread_of_its_own(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let alone = Stage::new(server, "threads")?;
    let expected = ["io", "work", "admin", "guest", "guest-timers"];
    let names = threads(&alone.host)?;
    assert!(expected.iter().all(|name| names.contains(*name)) && !names.contains("lease"), "{names:?}");
    let args = ["--leader-elect", "--lease", "threads/host"].map(str::to_owned).to_vec();
    let elected = Host::start(HostOptions { args, ..HostOptions::new(plane.kubeconfig()) })?;
    elected
        .wait_for("the host to lead", SOON, || !elected.log().matching("\"leader_elected\"").is_empty())?;
    let names = threads(&elected)?;
    assert!(names.contains("lease"), "{names:?}");
    // Hosts on 127.0.0.1 answer through the thread `admin`, and large pages come from `work`.
    let beats = || anyhow::Ok(elected.metrics()?.sum("pilothouse_io_stall_seconds_count", &[]));
    let before = beats()?.context("no heartbeat")?;
    elected.wait_for("the heartbeat to go on", SOON, || beats().map(|beats| beats > Some(before)))
}

fn what_a_plugin_costs_is_told_by_guest_and_host(server: Server) -> Result<()> {
    let stage = Stage::new(server, "costs")?;
    // `read` reads from the cache until its CPU time is over: both parts grow.
    let config = json!({
        "namespaces": ["costs"], "mode": "read", "targetKind": "v1/ConfigMap", "targetKey": "costs/target",
    });
    let manifest = Manifest::new("reader")
        .reads(&["configmaps"], "costs")
        .config(config)
        .limits(json!({"cpuPerCall": "200ms", "cpuWeight": 50}));
    stage.install("reader", "probe", &manifest)?;
    stage.cluster.config_map("costs", "target")?;
    let part = |part: &str| {
        let labels = [("plugin", "reader"), ("part", part)];
        anyhow::Ok(
            stage.host.metrics()?.sum("pilothouse_plugin_cpu_seconds_total", &labels).unwrap_or_default(),
        )
    };
    stage.host.wait_for("both parts to grow", SOON, || {
        let (guest, host) = (part("guest")?, part("host")?);
        anyhow::ensure!(guest > 0.02 && host > 0.02, "guest {guest} s, host {host} s");
        anyhow::Ok(Some(()))
    })?;
    // The part of the host is elapsed time, which a busy machine makes longer; that of the guest is what its threads used.
    let (guest, process) = (part("guest")?, stage.host.cpu_time()?.as_secs_f64());
    assert!(guest < process + 0.1, "{guest} s of {process} s");
    Ok(())
}
