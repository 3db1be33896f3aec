//! What a cache costs when nothing comes any more: processor time of a compressed store whose objects have many shapes, and the
//! memory of a store after most of its objects went: `cargo bench -p pilothouse-cache --bench rest`.
//!
//! Each figure is that of a process of its own: this program, started once more.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use futures_util::StreamExt as _;
use futures_util::stream;
use parking_lot::Mutex;
use pilothouse_bench::usage::{cpu, kilobytes};
use pilothouse_bench::{Better, Process, Report};
use pilothouse_cache::{
    Compression, EventStream, FnListerWatcher, InformerOptions, ListerWatcher, SharedInformer,
};
use pilothouse_client::{ApiResource, WatchEvent};
use pilothouse_object::{Gvk, ListMeta, Object};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

const RUNS: usize = 3;
/// First word of the command line of a child: `child CASE COMPRESSION`.
const CHILD: &str = "child";
/// Shapes of objects: sets of names of their fields.
const SHAPES: usize = 40;
/// Objects of many shapes, and updates of them before the rest.
const MIXED: usize = 10_000;
const UPDATES: usize = 20_000;
/// Objects of which most go, and those that stay.
const MANY: usize = 100_000;
const FEW: usize = 1_000;
/// From the last event to the measurement.
const SETTLE: Duration = Duration::from_secs(10);
/// The rest that is measured, after objects of many shapes came.
const REST: Duration = Duration::from_secs(30);

/// As the host's binary has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a child says.
#[derive(Debug, Serialize, Deserialize)]
struct Figures {
    /// Processor time of the rest, in milliseconds; of objects of many shapes alone.
    rest_ms: f64,
    /// Resident memory in KiB, at the end.
    rss_kb: f64,
    /// Bytes that the objects are kept in.
    retained: usize,
}

fn main() -> anyhow::Result<()> {
    // As the host's binary does.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [first, case, compression] = args.as_slice()
        && first == CHILD
    {
        return child(case, compression);
    }
    pilothouse_bench::run(
        "pilothouse-cache-rest",
        "cargo bench -p pilothouse-cache --bench rest",
        &[("mixed", mixed), ("deletion", deletion)],
    )
}

fn start(case: &str, compression: &str) -> anyhow::Result<Figures> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([CHILD, case, compression]);
    Process::start(&mut command)?.read()
}

fn mixed(report: &mut Report) -> anyhow::Result<()> {
    for compression in ["plain", "compressed"] {
        let runs: Vec<Figures> =
            (0..RUNS).map(|_| start("mixed", compression)).collect::<anyhow::Result<_>>()?;
        let scenario = format!("{compression}: {MIXED} objects of {SHAPES} shapes, after {UPDATES} updates");
        let mut rest: Vec<f64> = runs.iter().map(|run| run.rest_ms).collect();
        report.bound(&scenario, &format!("ms CPU in {REST:?} of rest"), Better::Lower, &mut rest, None);
        let mut retained: Vec<f64> = runs.iter().map(|run| run.retained as f64 / MIXED as f64).collect();
        report.bound(&scenario, "bytes an object", Better::Lower, &mut retained, None);
    }
    Ok(())
}

fn deletion(report: &mut Report) -> anyhow::Result<()> {
    for compression in ["plain", "compressed"] {
        let mut ratios = Vec::new();
        for _ in 0..RUNS {
            let (after, fresh) = (start("deleted", compression)?, start("fresh", compression)?);
            ratios.push(after.rss_kb / fresh.rss_kb);
        }
        let scenario = format!("{compression}: {MANY} objects, of which {FEW} stay");
        report.bound(&scenario, "RSS over that of a fresh start", Better::Lower, &mut ratios, Some(1.5));
    }
    Ok(())
}

fn config_maps() -> ApiResource {
    ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true)
}

/// An object of about 3 KB, of one of the shapes.
fn object(number: usize, version: usize) -> Object {
    let (shape, name) = (number % SHAPES, format!("x{number}"));
    let value =
        |field: usize| ((number * 61 + field) as u64 ^ version as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let data: serde_json::Map<String, serde_json::Value> = (0..60)
        .map(|field| (format!("s{shape}-field-{field}"), format!("{:016x}", value(field)).into()))
        .collect();
    let metadata = serde_json::json!({"namespace": "a", "name": name, "uid": name, "resourceVersion": version.to_string()});
    let body =
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": metadata});
    Object::decode(body.to_string().as_bytes()).expect("it is an object")
}

/// A source that lists so many objects at version 1, and whose first watch delivers the events. None of them is made before it
/// is asked for.
fn source(listed: usize, events: EventStream) -> Arc<dyn ListerWatcher> {
    let events = Mutex::new(Some(events));
    let list = move |_: &_| {
        let objects = (0..listed).map(|number| object(number, 1)).collect();
        Ok((objects, ListMeta { resource_version: "1".to_owned(), ..ListMeta::default() }))
    };
    let watch = move |_: &_| {
        let pending = || stream::pending().boxed();
        Ok(events.lock().take().map_or_else(pending, |events| events.chain(stream::pending()).boxed()))
    };
    Arc::new(FnListerWatcher::new(list, watch))
}

/// So many events, made by their numbers.
fn events(count: usize, event: fn(usize) -> WatchEvent) -> EventStream {
    stream::iter((0..count).map(move |number| Ok(event(number)))).boxed()
}

#[allow(clippy::print_stdout, reason = "the answer to the benchmark")]
fn child(case: &str, compression: &str) -> anyhow::Result<()> {
    let compression = if compression == "plain" { Compression::Off } else { Compression::Auto };
    let (listed, count, event): (_, _, fn(usize) -> WatchEvent) = match case {
        "mixed" => (MIXED, UPDATES, |n| WatchEvent::Modified(object(n * 7 % MIXED, n + 2))),
        "deleted" => (MANY, MANY - FEW, |n| WatchEvent::Deleted(object(FEW + n, n + 2))),
        "fresh" => (FEW, 1, |_| WatchEvent::Modified(object(0, 2))),
        other => bail!("unknown case {other:?}"),
    };
    // As the host's runtime for the network on a machine of up to seven cores.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let figures = runtime.block_on(async {
        let options = InformerOptions { compression, ..InformerOptions::default() };
        let informer =
            SharedInformer::new(source(listed, events(count, event)), config_maps(), None, options);
        let cancel = CancellationToken::new();
        let run = tokio::spawn({
            let (informer, cancel) = (informer.clone(), cancel.clone());
            async move { informer.run(cancel).await }
        });
        informer.indexer().wait_until_seen(&(count + 1).to_string()).await;
        tokio::time::sleep(SETTLE).await;
        let before = cpu();
        if case == "mixed" {
            tokio::time::sleep(REST).await;
        }
        let rest = cpu() - before;
        let rss_kb = kilobytes("smaps_rollup", "Rss");
        let objects = informer.indexer().list();
        let wanted = if case == "mixed" { MIXED } else { FEW };
        ensure!(objects.len() == wanted, "{} objects", objects.len());
        let retained = objects.iter().map(Object::retained_bytes).sum();
        cancel.cancel();
        run.await?;
        Ok::<_, anyhow::Error>(Figures { rest_ms: rest.as_secs_f64() * 1e3, rss_kb, retained })
    })?;
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}
