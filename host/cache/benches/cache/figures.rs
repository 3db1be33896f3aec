//! Whole processes that read from one server over TLS and HTTP/2, one after the other: processor time of the first sync
//! and of events, memory, and how late events come.
//!
//! One run of a client: it lists and watches; events come at 1,000 a second; all watches end with 410 after a tenth of
//! the pods has changed, so that it lists again. From each figure of processor time and memory goes what the same client
//! has with an empty server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use pilothouse_bench::{
    Aim, Better, Peer, Process, ReplayServer, ReplayStats, Report, is_asked, is_full, median,
};

use crate::client::Variant;
use crate::processes::Who;
use crate::usage::Usage;

/// Events a second.
const RATE: usize = 1000;
/// Share of the pods that changed before a relist, in percent.
const CHANGED: u32 = 10;
/// A relist of the slowest peer at the largest size, and what else has to come about.
const PATIENCE: Duration = Duration::from_secs(900);

/// A client of the tables.
struct Client {
    name: &'static str,
    who: Who,
    group: Group,
}

/// What a client stands for in the aims.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Ours,
    GoJson,
    GoProtobufList,
    GoProtobufWatchList,
    GoOther,
    KubeRs,
}

/// Figures of one client, one value a run.
#[derive(Default, Clone)]
struct Figures {
    /// Microseconds a pod.
    sync: Vec<f64>,
    /// KiB a pod, after the first sync; with `trim` after garbage was given back, where there is such a thing.
    rss: Vec<f64>,
    trimmed: Vec<f64>,
    /// Highest memory during the first sync and during a relist, over that of the steady state.
    first_peak: Vec<f64>,
    relist_peak: Vec<f64>,
    /// Microseconds an event.
    event: Vec<f64>,
    /// Of events, in microseconds.
    p50: Vec<f64>,
    p99: Vec<f64>,
}

/// How much is done with one size.
struct Plan {
    objects: usize,
    runs: usize,
    /// Runs that end with a relist.
    relists: usize,
    events: usize,
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let full = is_full();
    measure(
        report,
        &Plan { objects: 10_000, runs: 5, relists: 2, events: RATE * if full { 60 } else { 3 } },
        full,
    )?;
    if full {
        measure(report, &Plan { objects: 1_000, runs: 5, relists: 2, events: RATE * 10 }, true)?;
    }
    Ok(())
}

/// 50,000 and 150,000 pods, beside the peers of the small size; minutes, so only where it is asked for.
pub(crate) fn large(report: &mut Report) -> anyhow::Result<()> {
    if !is_asked("large") {
        return Ok(());
    }
    let (runs, seconds) = if is_full() { (2, 60) } else { (1, 5) };
    for objects in [50_000, 150_000] {
        measure(report, &Plan { objects, runs, relists: 1, events: RATE * seconds }, is_full())?;
    }
    Ok(())
}

fn clients(full: bool) -> Vec<Client> {
    let mut clients: Vec<Client> = Variant::ALL
        .into_iter()
        .map(|variant| Client { name: variant.name(), who: Who::Ours(variant), group: Group::Ours })
        .collect();
    let mut add = |name, who, group| clients.push(Client { name, who, group });
    add("client-go typed, JSON list, stripped", Who::ClientGo(&["-strip"]), Group::GoJson);
    add(
        "client-go typed, protobuf list, stripped",
        Who::ClientGo(&["-strip", "-protobuf"]),
        Group::GoProtobufList,
    );
    add(
        "client-go typed, protobuf watch-list, stripped",
        Who::ClientGo(&["-strip", "-protobuf", "-watch-list"]),
        Group::GoProtobufWatchList,
    );
    add("kube-rs typed, pages, stripped", Who::KubeRs(&["--strip"]), Group::KubeRs);
    if full {
        add(
            "client-go typed, JSON watch-list, stripped",
            Who::ClientGo(&["-strip", "-watch-list"]),
            Group::GoJson,
        );
        add("client-go typed, JSON list", Who::ClientGo(&[]), Group::GoJson);
        add("client-go typed, protobuf list", Who::ClientGo(&["-protobuf"]), Group::GoProtobufList);
        add("client-go dynamic, stripped", Who::ClientGo(&["-mode", "dynamic", "-strip"]), Group::GoOther);
        add("kube-rs typed, whole list, stripped", Who::KubeRs(&["--strip", "--cache"]), Group::KubeRs);
        add(
            "kube-rs typed, streaming list, stripped",
            Who::KubeRs(&["--strip", "--watch-list"]),
            Group::KubeRs,
        );
        add("kube-rs dynamic, pages, stripped", Who::KubeRs(&["--strip", "--dynamic"]), Group::KubeRs);
    }
    clients
}

fn measure(report: &mut Report, plan: &Plan, full: bool) -> anyhow::Result<()> {
    let clients = clients(full);
    let mut empty = ReplayServer::start(0)?;
    let mut bases = BTreeMap::new();
    for client in &clients {
        let mut runs = Vec::new();
        for _ in 0..3 {
            runs.push(sync_alone(client, &mut empty)?);
        }
        let of = |figure: fn(&Usage) -> f64| median(&mut runs.iter().map(figure).collect::<Vec<_>>());
        bases.insert(client.name, Base { cpu_us: of(|u| u.cpu_us), rss_kb: of(|u| u.rss_kb) });
    }
    drop(empty);
    let mut server = ReplayServer::start(plan.objects)?;
    let mut figures: BTreeMap<&str, Figures> = BTreeMap::new();
    let mut raw = (Vec::new(), Vec::new());
    for run in 0..plan.runs {
        // Each begins once, so that none always has the quiet start.
        for turn in 0..clients.len() {
            let client = &clients[(turn + run) % clients.len()];
            let into = figures.entry(client.name).or_default();
            one(client, &mut server, plan, run < plan.relists, &bases[client.name], into)?;
        }
        let reader = read_raw(&mut server, plan)?;
        raw.0.push(reader.p50_us);
        raw.1.push(reader.p99_us);
    }
    tell(report, plan, &clients, &figures, &mut raw);
    Ok(())
}

/// What a client has with an empty server.
struct Base {
    cpu_us: f64,
    rss_kb: f64,
}

fn sync_alone(client: &Client, server: &mut ReplayServer) -> anyhow::Result<Usage> {
    let (mut process, synced) = client.who.start(&server.kubeconfig())?;
    std::thread::sleep(Duration::from_millis(200));
    let settled: Usage = process.ask("usage")?;
    Ok(Usage { cpu_us: synced.cpu_us, ..settled })
}

fn one(
    client: &Client,
    server: &mut ReplayServer,
    plan: &Plan,
    relist: bool,
    base: &Base,
    into: &mut Figures,
) -> anyhow::Result<()> {
    server.wait_for("the end of the last client", PATIENCE, |stats| stats.open == 0)?;
    let before = server.stats()?;
    let count = plan.objects as f64;
    let (mut process, synced) = client.who.start(&server.kubeconfig())?;
    ensure!(synced.objects == plan.objects, "{}: {} of {} pods", client.name, synced.objects, plan.objects);
    into.sync.push((synced.cpu_us - base.cpu_us) / count);
    server.wait_for("the watch", PATIENCE, |stats| stats.open == 1)?;
    std::thread::sleep(Duration::from_secs(1));
    let settled: Usage = process.ask("usage")?;
    into.rss.push((settled.rss_kb - base.rss_kb) / count);
    let asked = server.stats()?;
    speaks(client, &before, &asked)?;

    let began: Usage = process.ask("reset")?;
    server.emit(RATE, plan.events)?;
    let ended = caught_up(&mut process, plan.events)?;
    into.event.push((ended.cpu_us - began.cpu_us) / plan.events as f64);
    into.p50.push(ended.p50_us);
    into.p99.push(ended.p99_us);

    let mut relist_peak = None;
    if relist {
        let _: Usage = process.ask("reset")?;
        server.expire(CHANGED)?;
        server.wait_for("a relist", PATIENCE, |stats| stats.lists() > asked.lists())?;
        let after = quiet(&mut process)?;
        ensure!(after.objects == plan.objects, "{}: {} pods after a relist", client.name, after.objects);
        relist_peak = Some(after.peak_kb);
    }
    let trimmed: Usage = process.ask("trim")?;
    into.trimmed.push((trimmed.rss_kb - base.rss_kb) / count);
    // Garbage that a peer has not collected yet is no steady state.
    let steady = settled.rss_kb.min(trimmed.rss_kb) - base.rss_kb;
    into.first_peak.push((settled.peak_kb - base.rss_kb) / steady);
    into.relist_peak.extend(relist_peak.map(|peak| (peak - base.rss_kb) / steady));
    Ok(())
}

/// Checks that a client got its list as its name says.
fn speaks(client: &Client, before: &ReplayStats, after: &ReplayStats) -> anyhow::Result<()> {
    let protobuf = matches!(client.group, Group::GoProtobufList | Group::GoProtobufWatchList);
    let watch_list = client.name.contains("watch-list") || client.name.contains("streaming list");
    let (lists, others) = if protobuf {
        (after.proto_lists - before.proto_lists, after.json_lists - before.json_lists)
    } else {
        (after.json_lists - before.json_lists, after.proto_lists - before.proto_lists)
    };
    let watches = if protobuf {
        after.proto_watches - before.proto_watches
    } else {
        after.json_watches - before.json_watches
    };
    let streamed = after.watch_lists - before.watch_lists;
    // How our own client lists is its own affair.
    let listed =
        client.group == Group::Ours || (lists, streamed) == (u64::from(!watch_list), u64::from(watch_list));
    ensure!(listed && others == 0 && watches >= 1, "{} did not list as it should: {after:?}", client.name);
    Ok(())
}

fn caught_up(process: &mut Process, events: usize) -> anyhow::Result<Usage> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let usage: Usage = process.ask("usage")?;
        if usage.events == events {
            return Ok(usage);
        }
        ensure!(Instant::now() < until, "{} of {events} events came", usage.events);
    }
}

/// Waits until a process does nothing but answer.
fn quiet(process: &mut Process) -> anyhow::Result<Usage> {
    loop {
        let before: Usage = process.ask("usage")?;
        let last: Usage = process.ask("usage")?;
        // Reading the memory of a large process takes some time itself.
        let answer = last.cpu_us - before.cpu_us;
        std::thread::sleep(Duration::from_millis(500));
        let now: Usage = process.ask("usage")?;
        if now.cpu_us - last.cpu_us < 50_000.0 + 1.5 * answer {
            return Ok(now);
        }
    }
}

fn read_raw(server: &mut ReplayServer, plan: &Plan) -> anyhow::Result<Usage> {
    server.wait_for("the end of the last client", PATIENCE, |stats| stats.open == 0)?;
    let (mut process, _) = Who::ClientGo(&["-mode", "raw"]).start(&server.kubeconfig())?;
    server.wait_for("the watch", PATIENCE, |stats| stats.open == 1)?;
    server.emit(RATE, plan.events)?;
    caught_up(&mut process, plan.events)
}

fn tell(
    report: &mut Report,
    plan: &Plan,
    clients: &[Client],
    figures: &BTreeMap<&str, Figures>,
    raw: &mut (Vec<f64>, Vec<f64>),
) {
    let n = plan.objects;
    let (raw50, raw99) = (median(&mut raw.0), median(&mut raw.1));
    let peers = |keep: &dyn Fn(Group) -> bool, figure: &dyn Fn(&Figures) -> Vec<f64>| -> Vec<Peer<'static>> {
        let wanted = clients.iter().filter(|client| client.group != Group::Ours && keep(client.group));
        wanted.map(|client| (client.name, figure(&figures[client.name]))).collect()
    };
    let all = |_: Group| true;
    let go = |group: Group| group != Group::KubeRs;
    let above = |values: &[f64], base: f64| values.iter().map(|value| value - base).collect::<Vec<_>>();
    for client in clients.iter().filter(|client| client.group == Group::Ours) {
        let (ours, name) = (figures[client.name].clone(), client.name);
        let lower = Better::Lower;
        let mut sync = |against: &str, keep: &dyn Fn(Group) -> bool, aim: Aim| {
            let scenario = format!("{name}, {n} pods: CPU of the first sync{against}");
            report.versus(
                &scenario,
                "us/pod",
                lower,
                &mut ours.sync.clone(),
                peers(keep, &|f| f.sync.clone()),
                aim,
            );
        };
        sync(" beside JSON", &|g| g == Group::GoJson, Aim::Ratio(8.0));
        sync(" beside kube-rs", &|g| g == Group::KubeRs, Aim::Ratio(3.0));
        sync(" beside protobuf watch-list", &|g| g == Group::GoProtobufWatchList, Aim::Ratio(2.0));
        sync(" beside protobuf list", &|g| g == Group::GoProtobufList, Aim::Shown);

        let factor = match name {
            "plain" => 2.0,
            _ => 10.0,
        };
        let scenario = format!("{name}, {n} pods: RSS after the first sync");
        // The better of what a peer has by itself and after its garbage was given back.
        let least = |f: &Figures| f.rss.iter().zip(&f.trimmed).map(|(a, b)| a.min(*b)).collect();
        report.versus(
            &scenario,
            "KiB/pod",
            lower,
            &mut ours.rss.clone(),
            peers(&go, &least),
            Aim::Ratio(factor),
        );
        let scenario = format!("{name}, {n} pods: RSS after the first sync beside kube-rs");
        let of_kube = |g| g == Group::KubeRs;
        report.versus(
            &scenario,
            "KiB/pod",
            lower,
            &mut ours.rss.clone(),
            peers(&of_kube, &least),
            Aim::Shown,
        );
        let scenario = format!("{name}, {n} pods: RSS after events and a relist");
        let trimmed = |f: &Figures| f.trimmed.clone();
        report.versus(
            &scenario,
            "KiB/pod",
            lower,
            &mut ours.trimmed.clone(),
            peers(&all, &trimmed),
            Aim::Shown,
        );
        let scenario = format!("{name}, {n} pods: peak of the first sync");
        let peak = |f: &Figures| f.first_peak.clone();
        let mut runs = ours.first_peak.clone();
        report.versus(&scenario, "x steady", lower, &mut runs, peers(&all, &peak), Aim::Value(1.2));
        let scenario = format!("{name}, {n} pods: peak of a relist");
        let peak = |f: &Figures| f.relist_peak.clone();
        let mut runs = ours.relist_peak.clone();
        report.versus(&scenario, "x steady", lower, &mut runs, peers(&all, &peak), Aim::Value(1.2));

        let scenario = format!("{name}, {n} pods: CPU of an event at {RATE}/s");
        let event = |f: &Figures| f.event.clone();
        report.versus(
            &scenario,
            "us/event",
            lower,
            &mut ours.event.clone(),
            peers(&all, &event),
            Aim::Ratio(3.0),
        );
        let scenario = format!("{name}, {n} pods: event to listener above a raw reader, p50");
        let p50 = |f: &Figures| above(&f.p50, raw50);
        report.versus(
            &scenario,
            "us",
            lower,
            &mut above(&ours.p50, raw50),
            peers(&all, &p50),
            Aim::Ratio(2.0),
        );
        let scenario = format!("{name}, {n} pods: event to listener, p99 (raw reader {raw99:.0})");
        let p99 = |f: &Figures| f.p99.clone();
        report.versus(&scenario, "us", lower, &mut ours.p99.clone(), peers(&all, &p99), Aim::Shown);
    }
    let scenario = format!("{n} pods: raw reader of the same stream, p50");
    report.bound(&scenario, "us", Better::Lower, &mut raw.0, None);
}

/// A million pods in one process of ours, compressed: plain, a first sync would take more than most machines have.
pub(crate) fn million(report: &mut Report) -> anyhow::Result<()> {
    const PODS: usize = 1_000_000;
    if !is_asked("million") {
        return Ok(());
    }
    let server = ReplayServer::start(PODS)?;
    let (mut process, synced) = Who::Ours(Variant::Compressed).start(&server.kubeconfig())?;
    ensure!(synced.objects == PODS, "{} of {PODS} pods", synced.objects);
    std::thread::sleep(Duration::from_secs(2));
    let settled: Usage = process.ask("usage")?;
    let mut row = |what: &str, unit, value: f64, aim| {
        let scenario = format!("compressed, {PODS} pods: {what}");
        report.bound(&scenario, unit, Better::Lower, &mut [value], aim);
    };
    let gib = 1024.0 * 1024.0;
    row("RSS of the process", "GiB", settled.rss_kb / gib, Some(1.4));
    row("peak of the first sync", "GiB", synced.peak_kb / gib, None);
    row("CPU of the first sync", "s", synced.cpu_us / 1e6, None);
    Ok(())
}
