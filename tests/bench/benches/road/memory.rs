//! Anonymous memory per idle plugin: a thousand plugins in one host, each with a warm instance, and unloaded; different ones,
//! and as many manifests of one component.

use std::time::Duration;

use anyhow::Context;
use pilothouse_bench::{Better, Report};
use pilothouse_tests::controlplane::Options;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::{ControlPlane, Host};

use super::plugins::{Components, LOAD, install, states};

pub(crate) const PLUGINS: usize = 1000;

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let plane = ControlPlane::start(Options::default())?;
    for (what, components, idle_ttl, aim) in [
        ("different plugins, loaded", Components::Different, "3600", 96.0),
        ("different plugins, unloaded", Components::Different, "1", 16.0),
        ("manifests of one component, loaded", Components::Same, "3600", 64.0),
        ("manifests of one component, unloaded", Components::Same, "1", 16.0),
    ] {
        let each = measure(&plane, components, idle_ttl)?;
        let scenario = format!("anonymous memory per idle plugin, {what}");
        report.bound(&scenario, "KiB", Better::Lower, &mut [each], Some(aim));
    }
    Ok(())
}

/// KiB that each plugin adds, after each was called and then left alone.
fn measure(plane: &ControlPlane, components: Components, idle_ttl: &str) -> anyhow::Result<f64> {
    let options = HostOptions {
        args: vec!["--idle-ttl".to_owned(), idle_ttl.to_owned()],
        dir: Some(super::wake::folder()?),
        ..HostOptions::new(plane.kubeconfig())
    };
    // Of an earlier run.
    let left = options.dir.as_ref().map(|dir| dir.join("plugins"));
    if let Some(left) = left.filter(|dir| dir.exists()) {
        std::fs::remove_dir_all(left)?;
    }
    let host = Host::start(options)?;
    install(&host, 0..1, components)?;
    host.wait_for("the first plugin", LOAD, || states(&host, "running").map(|(count, _)| count == 1))?;
    call_all(plane, &host, 1)?;
    let base = settled(&host)?;
    install(&host, 1..PLUGINS, components)?;
    host.wait_for("all plugins", LOAD, || states(&host, "running").map(|(count, _)| count == PLUGINS))?;
    call_all(plane, &host, PLUGINS)?;
    Ok((settled(&host)? - base) / (PLUGINS - 1) as f64)
}

/// Has every plugin reconcile something.
fn call_all(plane: &ControlPlane, host: &Host, plugins: usize) -> anyhow::Result<()> {
    let (_, before) = states(host, "running")?;
    plane.kubectl(&["create", "configmap", &format!("wake-{plugins}-{}", std::process::id())]).ok();
    plane.kubectl(&["delete", "configmap", &format!("wake-{plugins}-{}", std::process::id())])?;
    host.wait_for("each plugin to be called", LOAD, || {
        states(host, "running").map(|(_, calls)| calls >= before + plugins as u64)
    })
}

/// KiB of anonymous memory once it no longer falls.
fn settled(host: &Host) -> anyhow::Result<f64> {
    let mut last = f64::MAX;
    loop {
        std::thread::sleep(Duration::from_secs(5));
        let now = anonymous(host)?;
        if now > last - 64.0 {
            return Ok(now.min(last));
        }
        last = now;
    }
}

fn anonymous(host: &Host) -> anyhow::Result<f64> {
    let path = format!("/proc/{}/smaps_rollup", host.process().pid());
    let text = std::fs::read_to_string(&path).context(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:")).context("no Anonymous line")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
