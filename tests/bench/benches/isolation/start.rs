//! A start with many plugins at once that all watch the same many objects, with a Lease: is it ever lost, or only just not?

use std::time::{Duration, Instant};

use anyhow::ensure;
use pilothouse_bench::{Better, Report, is_small};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::{ControlPlane, Host};

use super::plugins::{Components, LOAD, install, states};
use super::sample::{longest_poll_ms, stall_ms};
use super::{POLL_MS, process, user};

/// How long the host is watched once all plugins run: they reconcile all objects meanwhile.
const BUSY: Duration = Duration::from_secs(60);

/// From Kubernetes: a leader that does not renew for so long gives up.
const RENEW_DEADLINE_MS: f64 = 10_000.0;

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let (plugins, objects) = if is_small() { (20, 1_000) } else { (1_000, 100_000) };
    let plane = ControlPlane::start(Options::on(Server::Development))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let client = runtime.block_on(plane.client())?;
    runtime.block_on(user::create_many(&client, "default", objects))?;
    let folder = tempfile::tempdir()?;
    let options = || HostOptions {
        args: ["--leader-elect", "--lease", "default/host"].map(str::to_owned).to_vec(),
        dir: Some(folder.path().to_owned()),
        ..HostOptions::new(plane.kubeconfig())
    };
    // Compiles them all: what is measured is a start with a full compile cache.
    let host = Host::start(options())?;
    install(&host, 0..plugins, Components::Different)?;
    let all_run = |host: &Host| states(host, "running").map(|(count, _)| count == plugins);
    host.wait_for("all plugins to be compiled", LOAD, || all_run(&host))?;
    drop(host);
    // The Lease of a host that was killed runs out.
    let began = Instant::now();
    let host = Host::start(options())?;
    let lease = user::Renewals::watch(&runtime, &client, "default", "host");
    host.wait_for("all plugins to run", LOAD, || all_run(&host))?;
    let running = began.elapsed();
    let before = host.metrics()?;
    let end = Instant::now() + if is_small() { BUSY / 10 } else { BUSY };
    while Instant::now() < end {
        ensure!(host.process().exit_status().is_none(), "the host has ended:\n{}", host.log().tail(30));
        std::thread::sleep(Duration::from_secs(1));
    }
    let after = host.metrics()?;
    let longest = lease.longest();
    let name = format!("start of {plugins} plugins on {objects} objects");
    let mut row = |what: &str, unit: &str, value: f64, bound: Option<f64>| {
        report.bound(&format!("{name}: {what}"), unit, Better::Lower, &mut [value], bound);
    };
    row("until all run", "s", running.as_secs_f64(), None);
    row("Leases lost", "", host.log().matching("\"leader_election_lost\"").len() as f64, Some(0.0));
    row("longest time between two renewals", "ms", longest, Some(RENEW_DEADLINE_MS));
    row("renewals that failed", "", host.log().matching("\"lease_not_renewed\"").len() as f64, None);
    row("CPU time of the longest poll of an informer", "ms", longest_poll_ms(None, &after), Some(POLL_MS));
    row("lateness of tasks on `io` while all reconcile, p99.9", "ms", stall_ms(&before, &after, 0.999), None);
    row("peak of resident memory", "MiB", process::peak_mib(&host)?, None);
    Ok(())
}
