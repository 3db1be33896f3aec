//! One controller at rates of events: how late each event reaches its reconcile, and what it costs. The time is that from the
//! server's write into the watch, which is in an annotation of the pod, to the reconcile.
//!
//! Events of one pod that wait together are one reconcile, which counts from the last of them; so it is with each library.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use pilothouse_bench::{Aim, Better, Peer, Process, ReplayServer, Report};
use pilothouse_tests::plugins::Manifest;
use pilothouse_tests::{Host, guests};

use crate::memory::Memory;
use crate::peers::{self, Usage};
use crate::{PATIENCE, objects, ours};

/// Events a second, and how many.
const RATES: [(usize, usize); 4] = [(100, 1_000), (200, 2_000), (1_000, 10_000), (10_000, 50_000)];

const PLUGIN: &str = "event-latency";

/// What no controller can be faster than: it reads the watch and looks for the annotation in the bytes.
const RAW: &str = "raw reader";

/// Of the events of one rate.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// Microseconds that half, and all but one in a hundred and in a thousand, were late at most.
    p50: f64,
    p99: f64,
    p999: f64,
    /// CPU time of an event, in microseconds.
    cpu: f64,
}

/// A controller that has reconciled all pods.
enum Controller {
    Ours(Host),
    Peer(Process),
}

/// Starts one.
type Start = fn(&ReplayServer) -> anyhow::Result<Controller>;

/// A host whose one plugin has reconciled all pods.
fn start_host(server: &ReplayServer) -> anyhow::Result<Host> {
    let host = Host::start(ours::options(&server.kubeconfig(), &ours::folder(1)?))?;
    let manifest = Manifest::new(PLUGIN).reads(&["pods"], "*").to_string();
    host.install(PLUGIN, &guests::wasm(PLUGIN)?, Some(&manifest))?;
    host.wait_for("all pods to be reconciled", PATIENCE, || {
        ours::states(&host).map(|(_, calls)| calls >= objects())
    })?;
    Ok(host)
}

impl Controller {
    fn peer(mut process: Process) -> anyhow::Result<Self> {
        let _: Usage = process.read()?;
        Ok(Self::Peer(process))
    }

    fn measure(
        &mut self,
        server: &mut ReplayServer,
        (rate, count): (usize, usize),
    ) -> anyhow::Result<Figures> {
        match self {
            Self::Ours(host) => {
                let (late, cpu) = (lateness(host)?, host.cpu_time()?);
                server.emit(rate, count)?;
                rests(|| ours::states(host).map(|(_, calls)| calls))?;
                let cpu = (host.cpu_time()? - cpu).as_secs_f64() * 1e6 / count as f64;
                let mut events = lateness(host)?;
                for (power, count) in late {
                    *events.entry(power).or_default() -= count;
                }
                let at = |fraction| quantile(&events, fraction);
                Ok(Figures { p50: at(0.5), p99: at(0.99), p999: at(0.999), cpu })
            }
            Self::Peer(process) => {
                let before: Usage = process.ask("reset")?;
                server.emit(rate, count)?;
                rests(|| process.ask::<Usage>("usage").map(|usage| usage.events))?;
                let Usage { cpu_us, p50_us, p99_us, p999_us, .. } = process.ask("usage")?;
                let cpu = (cpu_us - before.cpu_us) / count as f64;
                Ok(Figures { p50: p50_us, p99: p99_us, p999: p999_us, cpu })
            }
        }
    }
}

/// A million events, a tenth at a time: memory of the host before and after.
pub(crate) fn million(report: &mut Report) -> anyhow::Result<()> {
    let mut server = ReplayServer::start(objects())?;
    let host = start_host(&server)?;
    let calls = || ours::states(&host).map(|(_, calls)| calls);
    let pid = host.process().pid();
    let before = Memory::settled(pid)?.pss;
    let mut after = Vec::new();
    for _ in 0..10 {
        server.emit(10_000, 100_000)?;
        rests(calls)?;
        after.push(Memory::settled(pid)?.pss);
        eprintln!("{:.1} MiB after {} events", after[after.len() - 1], after.len() * 100_000);
    }
    let shown = Aim::Shown;
    report.versus("memory before a million events", "MiB", Better::Lower, &mut [before], Vec::new(), shown);
    let half = &mut [after[4]];
    report.versus("memory after half a million events", "MiB", Better::Lower, half, Vec::new(), shown);
    let aim = Aim::Value(after[4] * 1.02);
    report.versus("memory after a million events", "MiB", Better::Lower, &mut [after[9]], Vec::new(), aim);
    Ok(())
}

pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let mut server = ReplayServer::start(objects())?;
    let mut all: BTreeMap<&str, Vec<Figures>> = BTreeMap::new();
    let starts: [(&str, Start); 4] = [
        ("Pilothouse", |server| start_host(server).map(Controller::Ours)),
        (RAW, |server| Controller::peer(peers::start_raw_reader(server)?)),
        ("controller-runtime", |server| Controller::peer(peers::start_controller_runtime(server, 1)?)),
        ("kube-rs", |server| Controller::peer(peers::start_kube_rs(server)?)),
    ];
    for (name, start) in starts {
        let mut controller = start(&server)?;
        server.wait_for("one watch", PATIENCE, |stats| stats.open == 1)?;
        for rate in RATES {
            let figures = controller.measure(&mut server, rate).with_context(|| name.to_owned())?;
            eprintln!("{name}, {} events a second: {figures:.1?}", rate.0);
            all.entry(name).or_default().push(figures);
        }
    }
    let ours = all.remove("Pilothouse").unwrap_or_default();
    let raw = all.remove(RAW).unwrap_or_default();
    for (at, (rate, _)) in RATES.into_iter().enumerate() {
        let mut row = |what: &str, of: fn(&Figures) -> f64, aim| {
            let peers: Vec<Peer<'_>> =
                all.iter().map(|(name, rates)| (*name, vec![of(&rates[at])])).collect();
            let scenario = format!("{rate} events a second: {what}");
            report.versus(&scenario, "µs", Better::Lower, &mut [of(&ours[at])], peers, aim);
        };
        let within = |micros: f64| if rate == 200 { Aim::Value(micros) } else { Aim::Shown };
        row("event to reconcile, p50", |figures| figures.p50, within(300.0));
        row("event to reconcile, p99", |figures| figures.p99, within(1_000.0));
        row("event to reconcile, p99.9", |figures| figures.p999, Aim::Shown);
        let aim = if rate == 1_000 { Aim::Ratio(3.0) } else { Aim::Shown };
        row("CPU of an event", |figures| figures.cpu, aim);
        let mut floor = |what: &str, of: fn(&Figures) -> f64| {
            let scenario = format!("{rate} events a second: {RAW}, {what}");
            report.bound(&scenario, "µs", Better::Lower, &mut [of(&raw[at])], None);
        };
        floor("p50", |figures| figures.p50);
        floor("p99", |figures| figures.p99);
        floor("CPU of an event", |figures| figures.cpu);
    }
    Ok(())
}

/// Waits until a count of reconciles no longer grows.
fn rests(mut count: impl FnMut() -> anyhow::Result<usize>) -> anyhow::Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut last = count()?;
    loop {
        thread::sleep(Duration::from_millis(500));
        let now = count()?;
        if now == last {
            return Ok(());
        }
        ensure!(Instant::now() < until, "reconciles do not end: {now}");
        last = now;
    }
}

/// The events that the plugin has counted, by powers of 1.05 of a microsecond.
fn lateness(host: &Host) -> anyhow::Result<BTreeMap<i32, f64>> {
    let metrics = host.metrics()?;
    let events = metrics.matching("plugin_event_latency__events_total", &[]);
    let power = |labels: &pilothouse_tests::metrics::Labels| {
        let power = labels.get("power").context("a series has no label power")?;
        power.parse().with_context(|| format!("the label power is {power:?}"))
    };
    events.map(|(labels, count)| Ok((power(labels)?, count))).collect()
}

/// The microseconds below which a fraction of the events lies.
fn quantile(events: &BTreeMap<i32, f64>, fraction: f64) -> f64 {
    let mut left = events.values().sum::<f64>() * fraction;
    for (power, count) in events {
        left -= count;
        if left <= 0.0 {
            return 1.05_f64.powi(*power);
        }
    }
    f64::NAN
}
