//! One host with so many plugins, each a file of its own whose code no other has.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use pilothouse_bench::ReplayServer;
use pilothouse_bench::usage::kilobytes_of;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::Manifest;
use pilothouse_tests::{Host, guests};

use crate::memory::Memory;
use crate::{EVENTS, Figures, PATIENCE, RATE, objects};

/// Longer than a host keeps an instance that has nothing to do (`--idle-ttl`).
const IDLE: Duration = Duration::from_secs(40);

/// Longer than a file of a plugin is new, for which a start waits a little longer than for an old one.
const AGE: Duration = Duration::from_secs(12);

/// The name in the data of the component.
const NAME: &str = "pod-reader-000000";

pub(crate) fn measure(
    server: &mut ReplayServer,
    controllers: usize,
    args: &[&str],
) -> anyhow::Result<Figures> {
    let folder = compiled(&server.kubeconfig(), controllers)?;
    let began = Instant::now();
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let host = Host::start(HostOptions { args, ..options(&server.kubeconfig(), &folder) })?;
    let is_ready = || host.get("/readyz").map(|answer| answer.status == 200);
    host.wait_for("the host to be ready", PATIENCE, is_ready)?;
    let ready = began.elapsed().as_secs_f64();
    let until = |calls: usize| {
        host.wait_for(&format!("{calls} calls"), PATIENCE, || {
            states(&host).map(|(_, called)| called >= calls)
        })
    };
    until(controllers * objects())?;
    let (wall, cpu) = (began.elapsed().as_secs_f64(), host.cpu_time()?.as_secs_f64());
    let pid = host.process().pid();
    let peak = kilobytes_of(pid, "status", "VmHWM")? / 1024.0;
    let warm = Memory::settled(pid)?;
    let watches = server.stats()?.open as f64;
    let mut event = |count: usize| {
        let (_, calls) = states(&host)?;
        let before = host.cpu_time()?;
        server.emit(RATE, count)?;
        until(calls + controllers * count)?;
        anyhow::Ok((host.cpu_time()? - before).as_secs_f64() * 1e6 / count as f64)
    };
    let each = event(EVENTS)?;
    std::thread::sleep(IDLE);
    let rest = Memory::settled(pid)?;
    let wake = event(1)?;
    Ok(Figures { warm, rest, peak, cpu, ready: Some(ready), wall, event: each, wake: Some(wake), watches })
}

pub(crate) fn options(kubeconfig: &Path, folder: &Path) -> HostOptions {
    HostOptions { dir: Some(folder.to_owned()), ..HostOptions::new(kubeconfig) }
}

/// The folder of a host that has compiled so many plugins. The start of another one with it is that of a host that finds its
/// compile cache.
pub(crate) fn compiled(kubeconfig: &Path, controllers: usize) -> anyhow::Result<PathBuf> {
    let folder = folder(controllers)?;
    let host = Host::start(options(kubeconfig, &folder))?;
    install(&host, controllers)?;
    let running = || states(&host).map(|(running, _)| running == controllers);
    host.wait_for("all plugins to be compiled", PATIENCE, running)?;
    drop(host);
    std::thread::sleep(AGE);
    Ok(folder)
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
