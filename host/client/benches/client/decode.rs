//! Lists and watches without a cache: 10,000 pods of 9 KB (240 templates, random names, UIDs, hashes and times) over TLS and HTTP/2
//! from one replay server, decoded into [`Object`](pilothouse_object::Object)s beside client-go and kube-rs.
//!
//! Each reading has a process of its own: processor time from the request to the last object; memory held and at most,
//! over that before. All drop `managedFields`, ours while decoding, peers afterwards. The aims are those of the cache's first sync and
//! of its events (`host/cache/benches/cache/figures.rs`).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use pilothouse_bench::{Aim, Better, Peer, Process, ReplayServer, Report, is_full, peers};

use crate::reader::{self, Cost};

/// Pods of a list, and events of a watch.
const OBJECTS: usize = 10_000;
const RUNS: usize = 5;
/// More a second than any server can write: all events are there when the client comes to read.
const AT_ONCE: usize = 1_000_000_000;
/// The slowest reading of the slowest machine, and what else has to come about.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A list in pages of 500.
    Pages,
    /// The same in one answer, as servers give it from their watch cache.
    Whole,
    /// A change of every pod.
    Watch,
}

/// What a client stands for in the aims.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Ours,
    GoJson,
    GoProtobuf,
    KubeRs,
}

struct Client {
    name: &'static str,
    group: Group,
    options: &'static [&'static str],
}

impl What {
    const ALL: [Self; 3] = [Self::Pages, Self::Whole, Self::Watch];

    /// On command lines.
    fn word(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Whole => "whole",
            Self::Watch => "watch",
        }
    }

    /// In tables.
    fn name(self) -> &'static str {
        match self {
            Self::Pages => "a list in pages",
            Self::Whole => "a list in one answer",
            Self::Watch => "watch events",
        }
    }
}

impl Client {
    fn all(full: bool) -> Vec<Self> {
        let client = |name, group, options| Self { name, group, options };
        let mut clients = vec![
            client("ours", Group::Ours, &[] as &[_]),
            client("client-go typed, JSON", Group::GoJson, &[]),
            client("client-go typed, protobuf", Group::GoProtobuf, &["-protobuf"]),
            client("kube-rs typed", Group::KubeRs, &[]),
            client("kube-rs dynamic", Group::KubeRs, &["--dynamic"]),
        ];
        if full {
            clients.push(client("client-go dynamic, JSON", Group::GoJson, &["-mode", "dynamic"]));
        }
        clients
    }

    /// Runs one reading.
    fn read(&self, server: &mut ReplayServer, what: What) -> anyhow::Result<Cost> {
        server.wait_for("the end of the last watch", PATIENCE, |stats| stats.open == 0)?;
        let before = server.stats()?;
        let mut process = Process::start(&mut self.command(&server.kubeconfig(), what)?)?;
        let _: Cost = process.read()?;
        let cost: Cost = match what {
            What::Pages | What::Whole => process.ask("begin")?,
            What::Watch => {
                server.wait_for("the watch", PATIENCE, |stats| stats.open == 1)?;
                server.emit(AT_ONCE, OBJECTS)?;
                process.read()?
            }
        };
        ensure!(cost.objects == OBJECTS, "{}: {} of {OBJECTS} objects", self.name, cost.objects);
        ensure!(cost.sum >= OBJECTS, "{}: objects without versions", self.name);
        let after = server.stats()?;
        let pages = after.pages - before.pages;
        let (json, protobuf) = match what {
            What::Watch => {
                (after.json_watches - before.json_watches, after.proto_watches - before.proto_watches)
            }
            _ => (after.json_lists - before.json_lists, after.proto_lists - before.proto_lists),
        };
        let form = if self.group == Group::GoProtobuf { (0, 1) } else { (1, 0) };
        // One more, which opens the connection.
        let asked = match what {
            What::Pages => OBJECTS as u64 / 500 + 1,
            What::Whole => 2,
            What::Watch => 1,
        };
        ensure!((json, protobuf) == form && pages == asked, "{} asked otherwise: {after:?}", self.name);
        Ok(cost)
    }

    fn command(&self, kubeconfig: &Path, what: What) -> anyhow::Result<Command> {
        let objects = OBJECTS.to_string();
        Ok(match self.group {
            Group::Ours => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg(reader::COMMAND).arg(kubeconfig).args([what.word(), &objects]);
                command
            }
            Group::GoJson | Group::GoProtobuf => {
                let mut command = Command::new(peers::go()?);
                command.arg("decode").arg("-kubeconfig").arg(kubeconfig);
                command.args(["-what", what.word(), "-objects", &objects]).args(self.options);
                command
            }
            Group::KubeRs => {
                let mut command = Command::new(peers::kube_rs()?);
                command.arg("decode").arg(kubeconfig).args([what.word(), &objects]).args(self.options);
                command
            }
        })
    }
}

/// Figures of one client, one value a run.
#[derive(Default, Clone)]
struct Figures {
    /// Microseconds an object.
    cpu: Vec<f64>,
    /// KiB an object.
    held: Vec<f64>,
    /// MiB.
    peak: Vec<f64>,
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let clients = Client::all(is_full());
    let mut server = ReplayServer::start(OBJECTS)?;
    let mut figures: BTreeMap<(What, &str), Figures> = BTreeMap::new();
    for run in 0..RUNS {
        for what in What::ALL {
            // Each begins once, so that none always has the quiet start.
            for turn in 0..clients.len() {
                let client = &clients[(turn + run) % clients.len()];
                let cost = client.read(&mut server, what)?;
                let into = figures.entry((what, client.name)).or_default();
                into.cpu.push(cost.cpu_us / OBJECTS as f64);
                into.held.push((cost.after_kb - cost.before_kb) / OBJECTS as f64);
                into.peak.push((cost.peak_kb - cost.before_kb) / 1024.0);
            }
        }
    }
    for what in What::ALL {
        tell(report, what, &clients, &figures);
    }
    Ok(())
}

fn tell(report: &mut Report, what: What, clients: &[Client], figures: &BTreeMap<(What, &str), Figures>) {
    type Of = fn(&Figures) -> Vec<f64>;
    let mut row = |scenario: &str, metric: &str, of: Of, keep: &dyn Fn(Group) -> bool, aim: Aim| {
        let (ours, others): (Vec<_>, Vec<_>) = clients
            .iter()
            .filter(|client| client.group == Group::Ours || keep(client.group))
            .partition(|client| client.group == Group::Ours);
        let figure = |client: &Client| of(&figures[&(what, client.name)]);
        let peers: Vec<Peer<'_>> = others.iter().map(|client| (client.name, figure(client))).collect();
        let mut runs: Vec<f64> = ours.iter().flat_map(|client| figure(client)).collect();
        let scenario = format!("{}, {OBJECTS} pods: {scenario}", what.name());
        report.versus(&scenario, metric, Better::Lower, &mut runs, peers, aim);
    };
    let cpu: Of = |f| f.cpu.clone();
    let of = |group: Group| move |g: Group| g == group;
    match what {
        What::Pages | What::Whole => {
            row("CPU beside client-go JSON", "us/object", cpu, &of(Group::GoJson), Aim::Ratio(8.0));
            row("CPU beside kube-rs", "us/object", cpu, &of(Group::KubeRs), Aim::Ratio(3.0));
            row("CPU beside client-go protobuf", "us/object", cpu, &of(Group::GoProtobuf), Aim::Shown);
            row("memory held", "KiB/object", |f| f.held.clone(), &|_| true, Aim::Shown);
        }
        What::Watch => row("CPU", "us/object", cpu, &|_| true, Aim::Ratio(3.0)),
    }
    row("peak above the start", "MiB", |f| f.peak.clone(), &|_| true, Aim::Shown);
}
