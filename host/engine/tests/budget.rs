//! The CPU budget of a call includes the host's work in imports and excludes waiting.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pilothouse_engine::{
    CacheImports, CacheQuery, ClientCall, ClientFuture, ClientImports, Compiler, ConfigImports, Engine,
    EngineOptions, EventImports, Fault, FaultKind, HttpImports, Instance, LogImports, MetricImports,
    ObjectCursor, Outcome, QueueImports, ReasonSet, Refusal, Request, SystemImports, WaitFuture,
};
use pilothouse_object::{Gvk, Object, ObjectKey};
use pilothouse_plugin::Limits;
use pilothouse_testkit::guests;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

const BUDGET: Duration = Duration::from_millis(100);
/// The wall-clock limit of a call that does not exceed its CPU budget.
const DEADLINE: Duration = Duration::from_secs(20);

/// A host with one object, whose cached reads use this CPU time and whose waits take this time.
struct Costly {
    config: Arc<[u8]>,
    object: Object,
    read: Duration,
    wait: Duration,
    reads: AtomicU32,
    /// What the engine says of the work of imports.
    host_time: Mutex<Duration>,
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

impl ConfigImports for Costly {
    fn config(&self) -> Arc<[u8]> {
        Arc::clone(&self.config)
    }
}

impl LogImports for Costly {
    fn host_time(&self, time: Duration) {
        *self.host_time.lock().unwrap() += time;
    }
}

impl CacheImports for Costly {
    fn cache_get(&self, _: &Gvk, _: &ObjectKey) -> Result<Option<Object>, Refusal> {
        self.reads.fetch_add(1, Relaxed);
        let began = cpu_time();
        while cpu_time() - began < self.read {
            std::hint::spin_loop();
        }
        Ok(Some(self.object.clone()))
    }

    fn cache_list(&self, _: &Gvk, _: CacheQuery<'_>) -> Result<Box<dyn ObjectCursor>, Refusal> {
        Ok(Box::new(Vec::new().into_iter()))
    }

    fn cache_wait_for_writes(&self, limit: Duration) -> WaitFuture {
        let wait = self.wait.min(limit);
        Box::pin(async move {
            tokio::time::sleep(wait).await;
            false
        })
    }
}

impl ClientImports for Costly {
    fn client(&self, _: ClientCall) -> ClientFuture {
        Box::pin(std::future::pending())
    }
}

impl EventImports for Costly {}

impl HttpImports for Costly {}

impl MetricImports for Costly {}

impl QueueImports for Costly {}
impl SystemImports for Costly {}

/// The result of a call, its duration and its number of cached reads.
struct Ended {
    outcome: Result<Outcome, Fault>,
    took: Duration,
    reads: u32,
    /// Time of the imports.
    host_time: Duration,
}

/// Runs one reconcile of the probe with this configuration.
async fn call(
    config: Value,
    object: Object,
    read: Duration,
    wait: Duration,
    limits: Limits,
) -> Result<Ended> {
    let dir = tempfile::tempdir()?;
    let options =
        EngineOptions { cache_dir: dir.path().join("cache"), compiler: Compiler::InProcess, instances: 4 };
    let code = Engine::new(options)?.prepare(std::fs::read(guests::wasm("probe")?)?).await?;
    let config = config.to_string().into_bytes().into();
    let host = Arc::new(Costly {
        config,
        object,
        read,
        wait,
        reads: AtomicU32::new(0),
        host_time: Mutex::default(),
    });
    let mut instance = Instance::new(&code, host.clone(), limits).await?;
    let key = "a/b".parse()?;
    let began = Instant::now();
    let outcome = instance
        .reconcile(&Request { key: &key, attempt: 0, reasons: ReasonSet::of_bits(1), priority: 0 }, 1)
        .await;
    let outcome = outcome.map(|answer| answer.unwrap_or_else(|failure| panic!("{failure:?}")));
    let host_time = *host.host_time.lock().unwrap();
    Ok(Ended { outcome, took: began.elapsed(), reads: host.reads.load(Relaxed), host_time })
}

fn limits() -> Limits {
    Limits { call_timeout: DEADLINE, cpu_per_call: BUDGET, ..Limits::default() }
}

fn object(fill: usize) -> Result<Object> {
    let json = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "target", "namespace": "default"},
        "data": {"fill": "x".repeat(fill), "last": "value"},
    });
    Ok(Object::decode(json.to_string().as_bytes())?)
}

/// A guest that reads in a loop, with almost no CPU time in its own code, is interrupted in time.
#[track_caller]
fn assert_cut(ended: &Ended, most_reads: u32) {
    let fault = ended.outcome.as_ref().expect_err("a loop without an end was cut");
    assert_eq!(fault.kind, FaultKind::Cpu, "{fault}, after {:?} and {} reads", ended.took, ended.reads);
    assert!(ended.reads <= most_reads, "{} reads within a budget of {BUDGET:?}", ended.reads);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cached_read_is_charged_to_the_guest() -> Result<()> {
    let cost = Duration::from_millis(5);
    let ended = call(json!({"mode": "read"}), object(0)?, cost, Duration::ZERO, limits()).await?;
    // 20 reads use up the budget; reads after a tick are charged at the next one.
    assert_cut(&ended, 24);
    assert!(ended.host_time >= cost * (ended.reads - 1), "{:?} for {} reads", ended.host_time, ended.reads);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hosts_work_on_an_object_is_charged_to_the_guest() -> Result<()> {
    let object = object(4 << 20)?;
    let began = cpu_time();
    object.get("/data/last").context("the object has the field")?;
    let each = cpu_time() - began;
    let ended = call(json!({"mode": "read"}), object, Duration::ZERO, Duration::ZERO, limits()).await?;
    let fits = u32::try_from(BUDGET.as_nanos() / each.as_nanos().max(1))?;
    // The first read is slower than the following ones, whose bytes are in the CPU cache.
    assert_cut(&ended, fits.saturating_mul(5) + 10);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_writes_is_not_charged_and_ends_before_the_deadline() -> Result<()> {
    let wait = Duration::from_millis(60);
    let config = json!({"mode": "await", "count": 5, "milliseconds": 1000});
    let ended = call(config, object(0)?, Duration::ZERO, wait, limits()).await?;
    assert_eq!(ended.outcome.as_ref().ok(), Some(&Outcome::Done), "{:?}", ended.outcome);
    assert!(ended.took >= wait * 5, "{:?}", ended.took);
    assert!(
        ended.host_time <= ended.took.saturating_sub(wait * 5),
        "a wait counts as work: {:?}",
        ended.host_time
    );

    // A cache that never contains the write: the wait ends early enough for the guest to act on the result.
    let short = Limits { call_timeout: Duration::from_millis(500), ..limits() };
    let config = json!({"mode": "await", "count": 1, "milliseconds": 10_000});
    let ended = call(config, object(0)?, Duration::ZERO, DEADLINE, short).await?;
    assert_eq!(ended.outcome.as_ref().ok(), Some(&Outcome::Done), "{:?}", ended.outcome);
    Ok(())
}
