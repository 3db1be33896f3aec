//! Loads and unloads: what the host holds after ten thousand of them that it did not hold after a thousand.

use std::time::Duration;

use pilothouse_bench::{Better, Report, is_small};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::{ControlPlane, Host};

use super::plugins::{Components, LOAD, install, name, states};
use super::process::Usage;

/// Plugins that are installed and removed at once: the host waits for files to settle.
const BATCH: usize = 50;

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let (first, all) = if is_small() { (2 * BATCH, 4 * BATCH) } else { (1_000, 10_000) };
    let plane = ControlPlane::start(Options::on(Server::Development))?;
    let args = ["--idle-ttl", "1"].map(str::to_owned).to_vec();
    let host = Host::start(HostOptions { args, ..HostOptions::new(plane.kubeconfig()) })?;
    // One that stays, so that the informer does.
    install(&host, BATCH..BATCH + 1, Components::Different)?;
    host.wait_for("the plugin that stays", LOAD, || states(&host, "running").map(|(count, _)| count == 1))?;
    let mut before = None;
    for loaded in (BATCH..=all).step_by(BATCH) {
        install(&host, 0..BATCH, Components::Different)?;
        host.wait_for("all to run", LOAD, || states(&host, "running").map(|(count, _)| count == BATCH + 1))?;
        for number in 0..BATCH {
            host.remove(&name(number))?;
        }
        host.wait_for("all to be gone", LOAD, || states(&host, "running").map(|(count, _)| count == 1))?;
        if loaded == first {
            before = Some(settled(&host)?);
        }
    }
    let (before, after) = (before.unwrap_or(settled(&host)?), settled(&host)?);
    let mut row = |what: &str, unit: &str, of: fn(&Usage) -> f64, bound: f64| {
        let what = format!("churn: {what}, more after {all} loads than after {first}");
        report.bound(&what, unit, Better::Lower, &mut [of(&after) - of(&before)], Some(bound));
    };
    row("anonymous memory", "KiB", |usage| usage.anonymous_kib, 1024.0);
    row("descriptors", "", |usage| usage.descriptors, 0.0);
    row("maps", "", |usage| usage.maps, 0.0);
    row("threads", "", |usage| usage.threads, 0.0);
    Ok(())
}

/// What the host holds once it is idle: instances, blocking threads and their memory go after some seconds.
fn settled(host: &Host) -> anyhow::Result<Usage> {
    let mut last = Usage::of(host)?;
    loop {
        // Longer than tokio keeps an idle blocking thread.
        std::thread::sleep(Duration::from_secs(12));
        let now = Usage::of(host)?;
        if now.anonymous_kib > last.anonymous_kib - 64.0 && now.threads >= last.threads {
            return Ok(now);
        }
        last = now;
    }
}
