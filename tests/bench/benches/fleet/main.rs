//! Controllers of one kind, N at a time: one host with N plugins beside one process of controller-runtime with N controllers, and
//! beside N processes of controller-runtime or kube-rs. Each controller reads three fields of every pod from its cache.
//!
//! `cargo bench -p pilothouse-bench --bench fleet` runs all parts; a word after `--` runs those whose name contains it (`events`,
//! `million`, `one`, `ten`, `hundred`, `thousand`, `start-pods`, `start-empty`). All read 10,000 pods of 9 KB over TLS from the
//! replay server of `tests/peers/clientgo`; the two starts have no peers, and are on the real kube-apiserver as well.
//!
//! Of N processes ten are run, and the figures multiplied; of one process, that one.

mod events;
mod memory;
mod ours;
mod peers;
mod start;

use std::time::Duration;

use anyhow::Context;
use pilothouse_bench::{Aim, Better, ReplayServer, Report};

use crate::memory::Memory;

/// Pods; `--small` shows with few that the bench works.
fn objects() -> usize {
    if pilothouse_bench::is_small() { 100 } else { 10_000 }
}

/// Events whose cost is measured, and how many come in a second. All are of different pods.
const EVENTS: usize = 100;
const RATE: usize = 50;

/// Longest time of one step.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// How controllers fare that have reconciled all pods.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// After the start: each plugin has a warm instance.
    warm: Memory,
    /// When nothing has happened for longer than a host keeps instances. Of a peer it is the same as after the start, once its
    /// freed memory was given back.
    rest: Memory,
    /// The largest resident set since the start, in MiB.
    peak: f64,
    /// CPU time from the start until each controller had reconciled each pod, in seconds.
    cpu: f64,
    /// Time from the start until the host was ready, in seconds. Not of peers, whose processes say nothing of it.
    ready: Option<f64>,
    /// Time from the start until each controller had reconciled each pod, in seconds.
    wall: f64,
    /// CPU time of one of some events that come one after the other, in microseconds.
    event: f64,
    /// CPU time of one event after rest, in microseconds. Not of peers, which drop nothing at rest.
    wake: Option<f64>,
    /// Watches of pods on the server.
    watches: f64,
}

impl Figures {
    /// The figures of so many times as many processes.
    fn times(self, factor: f64) -> Self {
        Self {
            warm: self.warm.times(factor),
            rest: self.rest.times(factor),
            peak: self.peak * factor,
            cpu: self.cpu * factor,
            ready: self.ready,
            wall: self.wall * factor,
            event: self.event * factor,
            wake: self.wake.map(|wake| wake * factor),
            watches: self.watches * factor,
        }
    }
}

/// A figure: its name, unit and field.
type Measure = (&'static str, &'static str, fn(&Figures) -> f64);

const MEASURES: [Measure; 9] = [
    ("memory at rest", "MiB", |figures| figures.rest.pss),
    ("anonymous memory at rest", "MiB", |figures| figures.rest.anonymous),
    ("memory after the start", "MiB", |figures| figures.warm.pss),
    ("anonymous memory after the start", "MiB", |figures| figures.warm.anonymous),
    ("peak memory", "MiB", |figures| figures.peak),
    ("CPU until all have reconciled all", "s", |figures| figures.cpu),
    ("time until all have reconciled all", "s", |figures| figures.wall),
    ("CPU of an event", "µs", |figures| figures.event),
    ("watches on the server", "", |figures| figures.watches),
];

/// Processes of a peer that stand for any larger number.
const PROCESSES: usize = 10;

fn measure(report: &mut Report, controllers: usize, on_one_manager: bool) -> anyhow::Result<()> {
    let mut server = ReplayServer::start(objects())?;
    let run = |what: &str, figures: anyhow::Result<Figures>| {
        let figures = figures.with_context(|| format!("{controllers} controllers with {what}"))?;
        eprintln!("{controllers} controllers with {what}: {figures:.1?}");
        anyhow::Ok(figures)
    };
    let ours = run("one host", ours::measure(&mut server, controllers, &[]))?;
    let compressed = run("one host, compressed", ours::measure(&mut server, controllers, &["--compress"]))?;
    let processes = controllers.min(PROCESSES);
    let factor = (controllers / processes) as f64;
    let mut peers = vec![
        (
            "controller-runtime, processes",
            run("controller-runtime", peers::controller_runtime(&mut server, processes, 1))?.times(factor),
        ),
        ("kube-rs, processes", run("kube-rs", peers::kube_rs(&mut server, processes))?.times(factor)),
    ];
    if on_one_manager && controllers > 1 {
        let figures = run("one manager", peers::controller_runtime(&mut server, 1, controllers))?;
        peers.push(("controller-runtime, one manager", figures));
    }
    for (name, unit, of) in MEASURES {
        for (kind, ours) in [("", ours), (", compressed", compressed)] {
            let peers = peers.iter().map(|(name, figures)| (*name, vec![of(figures)])).collect();
            let what = format!("{name}{kind}");
            let scenario = format!("{controllers} controllers: {what}");
            report.versus(&scenario, unit, Better::Lower, &mut [of(&ours)], peers, aim(controllers, &what));
        }
    }
    for (kind, mut ours) in [("", ours), (", compressed", compressed)] {
        let scenario = format!("{controllers} controllers: CPU of an event after rest{kind}");
        report.bound(&scenario, "µs", Better::Lower, ours.wake.as_mut_slice(), None);
        let scenario = format!("{controllers} controllers: time until ready{kind}");
        let bound = (controllers == 100).then_some(2.0);
        report.bound(&scenario, "s", Better::Lower, ours.ready.as_mut_slice(), bound);
    }
    Ok(())
}

/// What is aimed at; ratios are over the best peer.
fn aim(controllers: usize, what: &str) -> Aim {
    match (controllers, what) {
        (1_000, "memory at rest") => Aim::Ratio(1_200.0),
        (1_000, "memory at rest, compressed") => Aim::Ratio(1_700.0),
        // Five for each plugin.
        (1_000, "CPU of an event") => Aim::Value(5_000.0),
        (100, "memory at rest") => Aim::Ratio(5.8),
        (100, "memory at rest, compressed") => Aim::Ratio(10.0),
        (100, "CPU until all have reconciled all") => Aim::Ratio(8.0),
        _ => Aim::Shown,
    }
}

fn main() -> anyhow::Result<()> {
    pilothouse_bench::run(
        "fleet",
        "cargo bench -p pilothouse-bench --bench fleet",
        &[
            ("events", events::measure),
            ("million", events::million),
            ("one", |report| measure(report, 1, true)),
            ("ten", |report| measure(report, 10, true)),
            ("hundred", |report| measure(report, 100, true)),
            // One manager with a thousand does not come up: its queues and caches wait for each other longer than it allows.
            ("thousand", |report| measure(report, 1_000, false)),
            ("start-pods", |report| start::measure(report, objects())),
            ("start-empty", |report| start::measure(report, 0)),
        ],
    )
}
