//! Processes of the peers: all are started at once, and their figures added.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use pilothouse_bench::{Process, ReplayServer, peers};
use serde::Deserialize;

use crate::memory::Memory;
use crate::{EVENTS, Figures, PATIENCE, RATE, objects};

/// What a process says of itself.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Usage {
    pub(crate) cpu_us: f64,
    wall_us: f64,
    peak_kb: f64,
    /// Reconciles.
    pub(crate) objects: usize,
    /// Events that were sent since a reset.
    pub(crate) events: usize,
    /// How late events came that were sent since a reset.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
}

/// Processes of controller-runtime with so many controllers each.
pub(crate) fn controller_runtime(
    server: &mut ReplayServer,
    processes: usize,
    controllers: usize,
) -> anyhow::Result<Figures> {
    let start = |_| start_controller_runtime(server, controllers);
    let running = (0..processes).map(start).collect::<anyhow::Result<_>>()?;
    measure(server, running, controllers)
}

pub(crate) fn start_controller_runtime(server: &ReplayServer, controllers: usize) -> anyhow::Result<Process> {
    let mut command = Command::new(peers::go()?);
    command.args(["controllers", "-controllers", &controllers.to_string()]);
    Process::start(command.args(["-objects", &objects().to_string(), "-kubeconfig"]).arg(server.kubeconfig()))
}

/// A program that reads the watch and does nothing with it.
pub(crate) fn start_raw_reader(server: &ReplayServer) -> anyhow::Result<Process> {
    let mut command = Command::new(peers::go()?);
    Process::start(command.args(["client", "-mode", "raw", "-kubeconfig"]).arg(server.kubeconfig()))
}

/// Processes of kube-rs with one controller each.
pub(crate) fn kube_rs(server: &mut ReplayServer, processes: usize) -> anyhow::Result<Figures> {
    let running = (0..processes).map(|_| start_kube_rs(server)).collect::<anyhow::Result<_>>()?;
    measure(server, running, 1)
}

pub(crate) fn start_kube_rs(server: &ReplayServer) -> anyhow::Result<Process> {
    let mut command = Command::new(peers::kube_rs()?);
    Process::start(command.arg("controller").arg(server.kubeconfig()).arg(objects().to_string()))
}

fn measure(
    server: &mut ReplayServer,
    mut running: Vec<Process>,
    controllers: usize,
) -> anyhow::Result<Figures> {
    let started: Vec<Usage> = running.iter_mut().map(Process::read).collect::<anyhow::Result<_>>()?;
    // Garbage is collected twice, and freed memory given back.
    ask(&mut running, "trim")?;
    let settled = ask(&mut running, "trim")?;
    let memory = Memory::sum(running.iter().map(Process::pid))?;
    let watches = server.stats()?.open as f64;
    let sum = |usages: &[Usage], of: fn(&Usage) -> f64| usages.iter().map(of).sum::<f64>();
    server.emit(RATE, EVENTS)?;
    let until = Instant::now() + PATIENCE;
    let after = loop {
        let after = ask(&mut running, "usage")?;
        let reconciles = |usages: &[Usage]| usages.iter().map(|usage| usage.objects).sum::<usize>();
        if reconciles(&after) >= reconciles(&settled) + running.len() * controllers * EVENTS {
            break after;
        }
        ensure!(Instant::now() < until, "{after:?} after {EVENTS} events");
        thread::sleep(Duration::from_millis(100));
    };
    Ok(Figures {
        warm: memory,
        rest: memory,
        peak: sum(&started, |usage| usage.peak_kb) / 1024.0,
        cpu: sum(&started, |usage| usage.cpu_us) / 1e6,
        ready: None,
        wall: started.iter().map(|usage| usage.wall_us / 1e6).fold(0.0, f64::max),
        event: (sum(&after, |usage| usage.cpu_us) - sum(&settled, |usage| usage.cpu_us)) / EVENTS as f64,
        wake: None,
        watches,
    })
}

fn ask(processes: &mut [Process], what: &str) -> anyhow::Result<Vec<Usage>> {
    processes.iter_mut().map(|process| process.ask(what)).collect()
}
