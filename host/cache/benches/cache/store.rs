//! The store under a concurrent writer: 100,000 pods, one thread that reads and one that changes all of them in turn.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pilothouse_bench::{Aim, Better, Peer as Named, Process, Report, peers, quantile};
use pilothouse_cache::{Delta, IndexFn, Indexer};
use pilothouse_object::{Object, ObjectKey};
use serde::Deserialize;

use crate::client::node_index;
use crate::samples;

const OBJECTS: usize = 100_000;
const RUNS: usize = 5;
/// How long each kind of reading goes on.
const SPAN: Duration = Duration::from_millis(300);

/// Figures of one run: nanoseconds; `tests/peers/clientgo/micro_store.go` says the same.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(crate) struct Figures {
    /// One object by its key, one byte of its body read.
    pub(crate) get: f64,
    /// All pods of a node (50), the version of each read.
    pub(crate) by_node: f64,
    /// All pods of a rack (333), the version of each read.
    pub(crate) by_rack: f64,
    /// 99 of 100 writes take less, alone.
    pub(crate) write_quiet: f64,
    /// 99 of 100 writes take less, while another thread reads.
    pub(crate) write_busy: f64,
}

/// A full store and what is done with it.
pub(crate) struct Bench {
    indexer: Indexer,
    keys: Vec<ObjectKey>,
    nodes: Vec<String>,
    racks: Vec<String>,
    /// Two versions of each pod, that take turns.
    versions: [Vec<Object>; 2],
}

impl Bench {
    pub(crate) fn new(count: usize) -> anyhow::Result<Self> {
        let versions = [samples::objects(count)?, samples::changed(count)?];
        let indexer = Indexer::new(true);
        indexer.add_indexer("node", node_index()?)?;
        indexer.add_indexer("rack", IndexFn::label("topology.kubernetes.io/rack"))?;
        indexer.replace(versions[0].clone(), Some("1"), false);
        let values = |name: &str| -> anyhow::Result<Vec<String>> {
            Ok(indexer.index_values(name)?.iter().map(ToString::to_string).collect())
        };
        let (nodes, racks) = (values("node")?, values("rack")?);
        let keys = versions[0].iter().map(|object| object.key().clone()).collect();
        Ok(Self { indexer, keys, nodes, racks, versions })
    }

    /// One run.
    pub(crate) fn measure(&self) -> Figures {
        let write_quiet = self.beside_writer(|| std::thread::sleep(SPAN)).1;
        let (get, busy_get) = self.beside_writer(|| self.get());
        let (by_node, busy_node) = self.beside_writer(|| self.by_index("node", &self.nodes));
        let (by_rack, busy_rack) = self.beside_writer(|| self.by_index("rack", &self.racks));
        Figures { get, by_node, by_rack, write_quiet, write_busy: busy_get.max(busy_node).max(busy_rack) }
    }

    /// Nanoseconds of one get.
    pub(crate) fn get(&self) -> f64 {
        repeat(|n| {
            let key = &self.keys[n.wrapping_mul(0x9E37_79B9) % self.keys.len()];
            let object = self.indexer.get(key);
            usize::from(object.map_or(0, |object| object.bytes()[object.bytes().len() / 2]))
        })
    }

    fn by_index(&self, index: &str, values: &[String]) -> f64 {
        repeat(|n| {
            let value = &values[n.wrapping_mul(0x9E37_79B9) % values.len()];
            let snapshot = self.indexer.snapshot();
            let Ok(found) = snapshot.by_index(index, value) else { return 0 };
            found.map(|held| usize::from(held.resource_version().as_bytes()[9])).sum()
        })
    }

    /// Does something while another thread writes without a pause; its outcome, and the writer's p99.
    fn beside_writer<T>(&self, work: impl FnOnce() -> T) -> (T, f64) {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut spent = Vec::with_capacity(1 << 20);
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let turn = (n / self.keys.len() + 1) % 2;
                    let object = self.versions[turn][n.wrapping_mul(0x9E37_79B9) % self.keys.len()].clone();
                    let began = Instant::now();
                    self.indexer.apply([Delta::Updated(object)], None);
                    spent.push(began.elapsed().as_nanos() as f64);
                }
                quantile(&mut spent, 0.99)
            });
            let outcome = work();
            stop.store(true, Ordering::Relaxed);
            (outcome, writer.join().unwrap_or(f64::NAN))
        })
    }

    /// Nanoseconds of one update, alone.
    pub(crate) fn update(&self) -> f64 {
        repeat(|n| {
            let turn = (n / self.keys.len() + 1) % 2;
            let object = self.versions[turn][n % self.keys.len()].clone();
            self.indexer.apply([Delta::Updated(object)], None).len()
        })
    }
}

/// Nanoseconds of one call.
fn repeat(mut call: impl FnMut(usize) -> usize) -> f64 {
    let (began, mut count, mut sum) = (Instant::now(), 0, 0);
    while began.elapsed() < SPAN {
        for _ in 0..64 {
            sum += call(count);
            count += 1;
        }
    }
    std::hint::black_box(sum);
    began.elapsed().as_nanos() as f64 / count as f64
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let ours = Bench::new(OBJECTS)?;
    let mut peer =
        Process::start(Command::new(peers::go()?).args(["micro", "-objects", &OBJECTS.to_string()]))?;
    let _: serde_json::Value = peer.read()?;
    let (mut mine, mut theirs): (Vec<Figures>, Vec<Figures>) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        mine.push(ours.measure());
        theirs.push(peer.ask("store")?);
    }
    let mut row = |scenario: &str, metric: &str, figure: fn(&Figures) -> f64, aim: Aim| {
        let of = |runs: &[Figures]| runs.iter().map(figure).collect::<Vec<_>>();
        let named: Vec<Named<'_>> = vec![("client-go", of(&theirs))];
        report.versus(scenario, metric, Better::Lower, &mut of(&mine), named, aim);
    };
    row("store beside a writer: get, a byte of the body read", "ns", |f| f.get, Aim::Ratio(5.0));
    row("store beside a writer: by_index of 50, versions read", "us", |f| f.by_node / 1e3, Aim::Ratio(5.0));
    row("store beside a writer: by_index of 333, versions read", "us", |f| f.by_rack / 1e3, Aim::Ratio(5.0));
    row("store: p99 of a write, alone", "us", |f| f.write_quiet / 1e3, Aim::Shown);
    row("store: p99 of a write beside a reader", "us", |f| f.write_busy / 1e3, Aim::Shown);
    row(
        "store: p99 of a write beside a reader",
        "x alone",
        |f| f.write_busy / f.write_quiet,
        Aim::Value(2.0),
    );
    Ok(())
}
