//! Reload: from the rename of a changed component to the generation that runs it, for components that were never seen and for
//! those whose machine code is in the cache.

use std::time::Instant;

use anyhow::ensure;
use pilothouse_bench::{Better, Report, quantile};
use pilothouse_tests::controlplane::Options;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::{status, wait_running};
use pilothouse_tests::{ControlPlane, Host};

use super::plugins::{component, manifest};

const RELOADS: usize = 100;

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let plane = ControlPlane::start(Options::default())?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let scratch = tempfile::tempdir()?;
    let wasm = scratch.path().join("component.wasm");
    std::fs::write(&wasm, component(RELOADS)?)?;
    host.install("reloaded", &wasm, Some(&manifest("reloaded", "{}")))?;
    let mut generation = wait_running(&host, "reloaded")?.generation;
    for what in ["compiled", "from the cache of machine code"] {
        let mut milliseconds = Vec::with_capacity(RELOADS);
        for number in 0..RELOADS {
            std::fs::write(&wasm, component(number)?)?;
            let began = Instant::now();
            host.install("reloaded", &wasm, None)?;
            loop {
                let now = status(&host, "reloaded")?;
                ensure!(now.last_error.is_none(), "the reload failed: {:?}", now.last_error);
                if now.generation > generation && now.state == "running" {
                    generation = now.generation;
                    break;
                }
            }
            milliseconds.push(began.elapsed().as_secs_f64() * 1e3);
        }
        for (name, q) in [("p50", 0.5), ("p99", 0.99)] {
            let figure = quantile(&mut milliseconds, q);
            report.bound(
                &format!("reload of a running plugin, {what}, {name}"),
                "ms",
                Better::Lower,
                &mut [figure],
                None,
            );
        }
    }
    Ok(())
}
