//! One host with so many plugins, each a file of its own whose code no other has.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use pilothouse_bench::ReplayServer;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::Manifest;
use pilothouse_tests::{Host, guests};

use crate::{EVENTS, Figures, PATIENCE, RATE, objects};

/// The name in the data of the component.
const NAME: &str = "pod-reader-000000";

pub(crate) fn measure(
    server: &mut ReplayServer,
    controllers: usize,
    args: &[&str],
) -> anyhow::Result<Figures> {
    let folder = folder(controllers)?;
    // Compiled before: a start is measured as it is after an upgrade of the host or of a node.
    let first = Host::start(options(server, &folder))?;
    install(&first, controllers)?;
    let running = || states(&first).map(|(running, _)| running == controllers);
    first.wait_for("all plugins to be compiled", PATIENCE, running)?;
    drop(first);

    let began = Instant::now();
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let host = Host::start(HostOptions { args, ..options(server, &folder) })?;
    let until = |calls: usize| {
        host.wait_for(&format!("{calls} calls"), PATIENCE, || {
            states(&host).map(|(_, called)| called >= calls)
        })
    };
    until(controllers * objects())?;
    let (wall, cpu) = (began.elapsed().as_secs_f64(), host.cpu_time()?.as_secs_f64());
    let peak = kilobytes(&host, "status", "VmHWM:")?;
    let rest = settled(&host)?;
    let watches = server.stats()?.open as f64;
    let (_, calls) = states(&host)?;
    let before = host.cpu_time()?;
    server.emit(RATE, EVENTS)?;
    until(calls + controllers * EVENTS)?;
    let event = (host.cpu_time()? - before).as_secs_f64() * 1e6 / EVENTS as f64;
    Ok(Figures { rest, peak, cpu, wall, event, watches })
}

pub(crate) fn options(server: &ReplayServer, folder: &Path) -> HostOptions {
    HostOptions { dir: Some(folder.to_owned()), ..HostOptions::new(server.kubeconfig()) }
}

/// Where compiled plugins are kept from run to run: compiling a thousand takes minutes.
pub(crate) fn folder(controllers: usize) -> anyhow::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("pilothouse-fleet-{controllers}"));
    let plugins = folder.join("plugins");
    if plugins.exists() {
        std::fs::remove_dir_all(&plugins)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn install(host: &Host, controllers: usize) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let component = std::fs::read(guests::wasm("pod-reader")?)?;
    let at: Vec<usize> =
        (0..component.len()).filter(|at| component[*at..].starts_with(NAME.as_bytes())).collect();
    ensure!(!at.is_empty(), "the component has no text {NAME:?}");
    for number in 0..controllers {
        let name = format!("pod-reader-{number:06}");
        let mut component = component.clone();
        for at in &at {
            component[*at..][..NAME.len()].copy_from_slice(name.as_bytes());
        }
        let wasm = scratch.path().join("component.wasm");
        std::fs::write(&wasm, component)?;
        host.install(&name, &wasm, Some(&Manifest::new(&name).reads(&["pods"], "*").to_string()))?;
    }
    Ok(())
}

/// How many plugins run, and the calls of all.
pub(crate) fn states(host: &Host) -> anyhow::Result<(usize, usize)> {
    let list = host.plugins()?;
    let plugins = list["plugins"].as_array().context("plugins is no list")?;
    let running = plugins.iter().filter(|plugin| plugin["state"] == "running").count();
    let calls: u64 = plugins.iter().filter_map(|plugin| plugin["calls"].as_u64()).sum();
    Ok((running, usize::try_from(calls)?))
}

/// MiB once they no longer fall.
pub(crate) fn settled(host: &Host) -> anyhow::Result<f64> {
    let mut last = f64::MAX;
    loop {
        // What is measured is what happens in this time.
        std::thread::sleep(Duration::from_secs(5));
        let now = kilobytes(host, "smaps_rollup", "Pss:")?;
        if now > last * 0.995 {
            return Ok(now.min(last));
        }
        last = now;
    }
}

/// A line of a file of the process, in MiB.
fn kilobytes(host: &Host, file: &str, name: &str) -> anyhow::Result<f64> {
    let path = format!("/proc/{}/{file}", host.process().pid());
    let text = std::fs::read_to_string(&path).context(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).context("no such line")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<f64>()? / 1024.0)
}
