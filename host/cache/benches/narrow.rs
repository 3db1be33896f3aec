//! What narrow informers cost beside a wide one, and what an object with very many index values costs others:
//! `cargo bench -p pilothouse-cache --bench narrow`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::StreamExt as _;
use futures_util::stream;
use parking_lot::Mutex;
use pilothouse_bench::usage::cpu;
use pilothouse_bench::{Better, Report};
use pilothouse_cache::{
    Delta, FactoryOptions, FnListerWatcher, IndexFn, Indexer, InformerOptions, Listener, ListerWatcher,
    SharedInformer, SharedInformerFactory,
};
use pilothouse_client::{ApiResource, WatchEvent};
use pilothouse_object::{Gvk, ListMeta, Object, ObjectKey};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

const RUNS: usize = 5;
const NARROW: usize = 1_000;
const EVENTS: usize = 20_000;
/// Index values of one object.
const VALUES: usize = 100_000;
/// No wait takes as long.
const PATIENCE: Duration = Duration::from_secs(300);

/// As the host's binary has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    pilothouse_bench::run(
        "pilothouse-cache-narrow",
        "cargo bench -p pilothouse-cache --bench narrow",
        &[("followers", followers), ("values", values)],
    )
}

fn config_maps() -> ApiResource {
    ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true)
}

fn config_map(key: &str, version: usize, data: &str) -> anyhow::Result<Object> {
    let key: ObjectKey = key.parse()?;
    let (namespace, name) = (key.namespace().unwrap_or_default(), key.name());
    let body = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"values": data},
        "metadata": {"namespace": namespace, "name": name, "uid": key.as_str(), "resourceVersion": version.to_string()}});
    Ok(Object::decode(body.to_string().as_bytes())?)
}

/// Counts updates, and tells when so many have come.
struct Counter {
    count: AtomicUsize,
    wanted: usize,
    reached: Notify,
}

impl Counter {
    fn new(wanted: usize) -> Arc<Self> {
        Arc::new(Self { count: AtomicUsize::new(0), wanted, reached: Notify::new() })
    }
}

impl Listener for Counter {
    fn on_add(&self, _: &Object, _: bool) {}

    fn on_update(&self, _: &Object, new: &Object, _: bool) {
        std::hint::black_box(new.resource_version());
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 == self.wanted {
            self.reached.notify_one();
        }
    }

    fn on_delete(&self, _: &ObjectKey, _: Option<&Object>, _: bool) {}
}

/// A source that lists these objects at version 1, and whose first watch delivers what is sent.
fn source(listed: Vec<Object>) -> (Arc<dyn ListerWatcher>, mpsc::UnboundedSender<WatchEvent>) {
    let (send, events) = mpsc::unbounded_channel();
    let events = Mutex::new(Some(events));
    let list = move |_: &_| {
        Ok((listed.clone(), ListMeta { resource_version: "1".to_owned(), ..ListMeta::default() }))
    };
    let watch = move |_: &_| match events.lock().take() {
        Some(events) => {
            let next = async |mut events: mpsc::UnboundedReceiver<WatchEvent>| {
                events.recv().await.map(|event| (Ok(event), events))
            };
            Ok(stream::unfold(events, next).boxed())
        }
        None => Ok(stream::pending().boxed()),
    };
    (Arc::new(FnListerWatcher::new(list, watch)), send)
}

/// Figures of one run with some narrow informers beside the wide one.
struct Run {
    /// Processor time of one event.
    cpu: Duration,
    /// Wake-ups of tasks of narrow informers of other namespaces.
    wakeups: u64,
    /// Calls of their listeners.
    calls: usize,
}

fn run_followers(narrow: usize) -> anyhow::Result<Run> {
    let namespace = |n: usize| format!("n{n}");
    let listed: Vec<Object> =
        (0..=narrow).map(|n| config_map(&format!("{}/x", namespace(n)), 1, "")).collect::<Result<_, _>>()?;
    let events: Vec<Object> =
        (0..EVENTS).map(|n| config_map("n0/x", 2 + n, &n.to_string())).collect::<Result<_, _>>()?;
    let (source, send) = source(listed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let factory =
            SharedInformerFactory::new(Arc::new(move |_, _| Arc::clone(&source)), FactoryOptions::default());
        let wide = factory.informer(&config_maps(), None);
        ensure!(wide.wait_synced().await, "the wide informer has ended");
        let counter = Counter::new(EVENTS);
        let _listens = wide.add_listener(Arc::clone(&counter) as Arc<dyn Listener>, None)?;
        let foreign = Counter::new(usize::MAX);
        let mut leases = Vec::new();
        for n in 1..=narrow {
            let lease = factory.informer(&config_maps(), Some(&namespace(n)));
            ensure!(lease.wait_synced().await, "a narrow informer has ended");
            let listens = lease.add_listener(Arc::clone(&foreign) as Arc<dyn Listener>, None)?;
            leases.push((lease, listens));
        }
        // What they have been woken for so far is over when all of them have been polled.
        let wakeups =
            || leases.iter().map(|(lease, _)| lease.informer().metrics().informer_wakeups_total).sum();
        let mut before: u64 = wakeups();
        loop {
            tokio::task::yield_now().await;
            let now = wakeups();
            if std::mem::replace(&mut before, now) == now {
                break;
            }
        }
        let began = cpu();
        for event in events {
            send.send(WatchEvent::Modified(event)).ok().context("the watch is gone")?;
            // One event at a time: each wakes the informer.
            tokio::task::yield_now().await;
        }
        tokio::time::timeout(PATIENCE, counter.reached.notified()).await?;
        let cpu = (cpu() - began) / u32::try_from(EVENTS)?;
        let run = Run { cpu, wakeups: wakeups() - before, calls: foreign.count.load(Ordering::Relaxed) };
        factory.shutdown().await;
        Ok(run)
    })
}

fn followers(report: &mut Report) -> anyhow::Result<()> {
    for narrow in [0, NARROW] {
        let runs: Vec<Run> = (0..RUNS).map(|_| run_followers(narrow)).collect::<anyhow::Result<_>>()?;
        let scenario = format!("event of one namespace, wide informer and {narrow} narrow ones of others");
        let mut row = |metric: &str, of: &dyn Fn(&Run) -> f64| {
            let mut values: Vec<f64> = runs.iter().map(of).collect();
            report.bound(&scenario, metric, Better::Lower, &mut values, None);
        };
        row("us CPU", &|run| run.cpu.as_secs_f64() * 1e6);
        row("wake-ups of the narrow ones", &|run| run.wakeups as f64);
        row("calls of their listeners", &|run| run.calls as f64);
    }
    Ok(())
}

/// So many words; one of them depends on the version.
fn words(version: usize) -> String {
    let words: Vec<String> = (0..VALUES - 1).map(|n| format!("w{n}")).collect();
    format!("{},v{version}", words.join(","))
}

fn by_word() -> anyhow::Result<IndexFn> {
    Ok(IndexFn::path("/data/values".parse()?).split(","))
}

fn values(report: &mut Report) -> anyhow::Result<()> {
    let mut alone = Vec::new();
    let indexer = Indexer::new(true);
    indexer.add_indexer("word", by_word()?)?;
    indexer.add(config_map("a/large", 1, &words(1))?);
    for version in 2..2 + RUNS {
        let object = config_map("a/large", version, &words(version))?;
        let began = Instant::now();
        indexer.apply([Delta::Updated(object)], None);
        alone.push(began.elapsed().as_secs_f64() * 1e3);
    }
    report.bound(
        &format!("update of an object with {VALUES} index values"),
        "ms",
        Better::Lower,
        &mut alone,
        None,
    );
    let mut behind = (0..RUNS).map(|_| time_behind()).collect::<anyhow::Result<Vec<_>>>()?;
    report.bound(
        "event of another object behind that update",
        "ms until its listener is called",
        Better::Lower,
        &mut behind,
        None,
    );
    Ok(())
}

/// Milliseconds from the events of a large object and of a small one to the call for the small one.
fn time_behind() -> anyhow::Result<f64> {
    let (source, send) = source(vec![config_map("a/large", 1, &words(1))?, config_map("a/small", 1, "")?]);
    let (large, small) = (config_map("a/large", 2, &words(2))?, config_map("a/small", 3, "")?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let informer = SharedInformer::new(source, config_maps(), None, InformerOptions::default());
        informer.indexer().add_indexer("word", by_word()?)?;
        let counter = Counter::new(2);
        let _listens = informer.add_listener(Arc::clone(&counter) as Arc<dyn Listener>, None)?;
        let cancel = CancellationToken::new();
        let run = tokio::spawn({
            let (informer, cancel) = (informer.clone(), cancel.clone());
            async move { informer.run(cancel).await }
        });
        ensure!(informer.wait_synced().await, "the informer has ended");
        let began = Instant::now();
        for object in [large, small] {
            send.send(WatchEvent::Modified(object)).ok().context("the watch is gone")?;
        }
        tokio::time::timeout(PATIENCE, counter.reached.notified()).await?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        cancel.cancel();
        run.await?;
        Ok(took)
    })
}
