//! No-op reconciles per second and core through the whole road: queue → worker → guest → outcome → queue, with deadline,
//! budget and metrics on. The guest asks for each key again at once, so the road never rests.

use std::time::{Duration, Instant};

use pilothouse_bench::{Better, Report};
use pilothouse_tests::controlplane::Options;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::{ControlPlane, Host, guests};

const KEYS: usize = 64;
const RUNS: usize = 5;
const RUN: Duration = Duration::from_secs(3);

/// The aim, a second and core.
const AIM: f64 = 1_000_000.0;

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let plane = ControlPlane::start(Options::default())?;
    for key in 0..KEYS {
        plane.kubectl(&["create", "configmap", &format!("key-{key}")])?;
    }
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    host.install("noop", &guests::wasm("noop")?, Some(&super::plugins::manifest("noop", "{ again: true }")))?;
    host.wait_for("the guest to be called", Duration::from_secs(120), || {
        super::plugins::states(&host, "running").map(|(_, calls)| calls > 10_000)
    })?;
    let (mut per_core, mut per_second) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (_, calls) = super::plugins::states(&host, "running")?;
        let (began, cpu) = (Instant::now(), host.cpu_time()?);
        // What is measured is what happens in this time.
        std::thread::sleep(RUN);
        let (_, now) = super::plugins::states(&host, "running")?;
        let done = (now - calls) as f64;
        per_second.push(done / began.elapsed().as_secs_f64());
        per_core.push(done / (host.cpu_time()? - cpu).as_secs_f64());
    }
    report.bound(
        "no-op reconciles, one worker, per CPU second",
        "1/s",
        Better::Higher,
        &mut per_core,
        Some(AIM),
    );
    report.bound("no-op reconciles, one worker, per second", "1/s", Better::Higher, &mut per_second, None);
    Ok(())
}
