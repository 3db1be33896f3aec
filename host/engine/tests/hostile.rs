//! Guests that attack the host through its imports: each call beyond a limit ends with a fault that names the limit.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;
use pilothouse_engine::{
    CacheImports, CallContext, ClientAnswer, ClientCall, ClientFuture, ClientImports, ClientVerb, Code,
    Compiler, ConfigImports, Engine, EngineOptions, EventImports, Failure, Fault, FaultKind, HttpImports,
    Instance, LogImports, LogLevel, MetricImports, Outcome, QueueImports, ReasonSet, Refusal, Request,
    SystemImports,
};
use pilothouse_object::{Gvk, Object, ObjectKey};
use pilothouse_plugin::Limits;
use pilothouse_testkit::guests;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// A host with a cached object for every key. It refuses live writes after this CPU time.
struct Target {
    config: Arc<[u8]>,
    objects: Mutex<HashMap<ObjectKey, Object>>,
    refusal: Duration,
    /// The live calls, and the room that each had for its answer.
    calls: AtomicU32,
    room: Mutex<Vec<usize>>,
    lines: Mutex<Vec<(CallContext, String)>>,
    /// Whether writes are done; their answers have a mebibyte.
    writes: bool,
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn object(key: &ObjectKey) -> Object {
    let json = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"large": "x".repeat(1 << 20)},
        "metadata": {"name": key.name(), "namespace": key.namespace()},
    });
    Object::decode(json.to_string().as_bytes()).unwrap()
}

impl ConfigImports for Target {
    fn config(&self) -> Arc<[u8]> {
        Arc::clone(&self.config)
    }
}

impl LogImports for Target {
    fn log_enabled(&self, _: LogLevel) -> bool {
        true
    }

    fn log(&self, context: &CallContext, _: LogLevel, message: &str, fields: &[(String, String)]) {
        let fields: String = fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        self.lines.lock().unwrap().push((context.clone(), format!("{message}{fields}")));
    }
}

impl CacheImports for Target {
    fn cache_get(&self, _: &Gvk, key: &ObjectKey) -> Result<Option<Object>, Refusal> {
        Ok(Some(self.objects.lock().unwrap().entry(key.clone()).or_insert_with(|| object(key)).clone()))
    }

    fn cache_index_values(
        &self,
        _: &Gvk,
        _: &str,
        _: &mut dyn FnMut(Option<&str>) -> ControlFlow<()>,
    ) -> Result<(), Refusal> {
        Ok(())
    }
}

impl ClientImports for Target {
    fn client(&self, call: ClientCall) -> ClientFuture {
        self.calls.fetch_add(1, Relaxed);
        self.room.lock().unwrap().push(call.max_bytes);
        let (cost, writes) = (self.refusal, self.writes);
        Box::pin(async move {
            // All of it before the first wait, as the parsing of a body.
            let began = cpu_time();
            while cpu_time() - began < cost {
                std::hint::spin_loop();
            }
            if matches!(call.verb, ClientVerb::List) {
                let items: Vec<Object> =
                    (0..4).map(|n| object(&format!("a/x{n}").parse().unwrap())).collect();
                return Ok(ClientAnswer::Page {
                    items,
                    continue_token: None,
                    resource_version: "1".to_owned(),
                    remaining_items: None,
                });
            }
            if writes {
                return Ok(ClientAnswer::Object(object(&"a/written".parse().unwrap())));
            }
            Err(Refusal::forbidden("not granted").into())
        })
    }
}

impl EventImports for Target {}
impl HttpImports for Target {}
impl MetricImports for Target {}

impl QueueImports for Target {}
impl SystemImports for Target {}

struct Attack {
    host: Arc<Target>,
    code: Code,
    limits: Limits,
}

type Answer = Result<Result<Outcome, Failure>, Fault>;

impl Attack {
    async fn new(config: Value, limits: Limits) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let options = EngineOptions {
            cache_dir: dir.path().join("cache"),
            compiler: Compiler::InProcess,
            instances: 4,
        };
        let code = Engine::new(options)?.prepare(std::fs::read(guests::wasm("hostile")?)?).await?;
        let host = Target {
            config: config.to_string().into_bytes().into(),
            objects: Mutex::default(),
            refusal: Duration::from_millis(5),
            calls: AtomicU32::new(0),
            room: Mutex::default(),
            lines: Mutex::default(),
            writes: false,
        };
        Ok(Self { host: Arc::new(host), code, limits })
    }

    /// Reconciles these keys one after the other in one instance.
    async fn reconcile(&self, names: &[&str]) -> Result<Vec<Answer>> {
        let mut instance = Instance::new(&self.code, self.host.clone(), self.limits).await?;
        let mut answers = Vec::new();
        for (call, name) in (1..).zip(names) {
            let key = ObjectKey::new(Some("default"), name)?;
            let request = Request { key: &key, attempt: 0, reasons: ReasonSet::of_bits(1), priority: 0 };
            answers.push(instance.reconcile(&request, call).await);
        }
        Ok(answers)
    }

    fn said(&self) -> Vec<String> {
        self.host.lines.lock().unwrap().iter().map(|(_, line)| line.clone()).collect()
    }
}

/// Limits of time that leave the other limits to be reached first.
fn patient() -> Limits {
    Limits {
        call_timeout: Duration::from_secs(120),
        cpu_per_call: Duration::from_secs(60),
        ..Limits::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_attack_is_refused_with_the_name_of_its_limit() -> Result<()> {
    for (config, words) in [
        (json!({"mode": "many-pointers"}), "with 20000 pointers, at most 64"),
        (json!({"mode": "whole-objects"}), "the empty pointer"),
        (json!({"mode": "large-answer", "count": 64}), "exceeds 16777216 bytes (limits.answerBytes)"),
        (json!({"mode": "kept-handles"}), "exceed 8388608 bytes (limits.handleBytes)"),
        (json!({"mode": "kept-pages"}), "exceed 8388608 bytes (limits.handleBytes)"),
    ] {
        let limits = Limits { handle_bytes: 8 << 20, ..patient() };
        let answers = Attack::new(config.clone(), limits).await?.reconcile(&["bad"]).await?;
        // The guest answers what it was told.
        let answer = answers[0].as_ref().expect("no fault: 0.2 has an error for it");
        let failure = answer.as_ref().expect_err("a call beyond its limit");
        assert!(failure.message.contains(words), "{config}: {failure:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_any_size_is_refused_with_the_bound_that_it_exceeds() -> Result<()> {
    const MEBIBYTE: usize = 1 << 20;
    // One of 4 MiB is answered over-limit, again and again.
    for (bytes, milliseconds, kind) in [
        (4 * MEBIBYTE, 300, FaultKind::Cpu),
        (9 * MEBIBYTE, 60_000, FaultKind::Limit),
        (100_000_000, 60_000, FaultKind::Limit),
    ] {
        let limits =
            Limits { memory: 1 << 30, cpu_per_call: Duration::from_millis(milliseconds), ..patient() };
        let attack = Attack::new(json!({"mode": "refused-writes", "bytes": bytes}), limits).await?;
        let answers = attack.reconcile(&["bad"]).await?;
        let fault = answers[0].as_ref().expect_err("writes without an end");
        assert_eq!(fault.kind, kind, "{fault}");
        assert!(
            kind == FaultKind::Cpu || fault.message.contains("a body of a live call may have 3 MiB"),
            "{fault}"
        );
        assert_eq!(attack.host.calls.load(Relaxed), 0);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_handles_than_wasmtime_has_by_default_are_refused_at_the_limit_of_the_plugin() -> Result<()> {
    let limits = Limits { handle_bytes: 128 << 20, ..patient() };
    let answers = Attack::new(json!({"mode": "kept-handles"}), limits).await?.reconcile(&["bad"]).await?;
    let failure = answers[0].as_ref().expect("no fault").as_ref().expect_err("a call beyond its limit");
    assert!(failure.message.contains("exceed 134217728 bytes (limits.handleBytes)"), "{failure:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_guest_drops_no_handles_is_worn_out_before_it_faults() -> Result<()> {
    let attack = Attack::new(json!({"mode": "leaked-handles", "count": 20_000}), patient()).await?;
    let mut instance = Instance::new(&attack.code, attack.host.clone(), attack.limits).await?;
    let key = "default/bad".parse()?;
    let request = Request { key: &key, attempt: 0, reasons: ReasonSet::of_bits(1), priority: 0 };
    let mut worn_out = Vec::new();
    for call in 1..=4 {
        let answer = instance.reconcile(&request, call).await?;
        assert_eq!(answer, Ok(Outcome::Done));
        worn_out.push(instance.is_worn_out());
        assert!(instance.is_usable());
    }
    assert_eq!(worn_out, [false, true, true, true]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_room_for_an_answer_shrinks_with_what_the_call_holds() -> Result<()> {
    let attack = Attack::new(json!({"mode": "kept-pages"}), patient()).await?;
    attack.reconcile(&["bad"]).await?;
    let room = attack.host.room.lock().unwrap().clone();
    // The options of the list have a handle too.
    assert!((63 << 20..64 << 20).contains(&room[0]), "{room:?}");
    assert!(room.windows(2).all(|pair| pair[0] - pair[1] >= 4 << 20), "{room:?}");
    assert_eq!(room.len(), 16, "the sixteenth page of 4 MiB does not fit");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_write_of_megabytes_is_charged() -> Result<()> {
    let limits = Limits { cpu_per_call: Duration::from_millis(200), ..patient() };
    let attack = Attack::new(json!({"mode": "refused-writes"}), limits).await?;
    let answers = attack.reconcile(&["bad"]).await?;
    let fault = answers[0].as_ref().expect_err("writes without an end");
    assert_eq!(fault.kind, FaultKind::Cpu, "{fault}");
    // 40 refusals of 5 ms use up the budget; those after a tick are charged at the next one.
    let calls = attack.host.calls.load(Relaxed);
    assert!(calls <= 48, "{calls} refusals of 5 ms within 200 ms");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_done_is_answered_whatever_its_answer_weighs_and_one_without_room_is_not_sent()
-> Result<()> {
    let limits = Limits { cpu_per_call: Duration::from_millis(200), handle_bytes: 64 << 10, ..patient() };
    for (bytes, is_sent) in [(100, true), (64 << 10, false)] {
        let mut attack = Attack::new(json!({"mode": "refused-writes", "bytes": bytes}), limits).await?;
        Arc::get_mut(&mut attack.host).expect("no instance has it").writes = true;
        let answers = attack.reconcile(&["bad"]).await?;
        let fault = answers[0].as_ref().expect_err("writes without an end");
        assert_eq!(fault.kind, FaultKind::Cpu, "{fault}");
        // Each answer exceeds the limit by itself.
        let calls = attack.host.calls.load(Relaxed);
        assert!(if is_sent { calls > 1 } else { calls == 0 }, "{calls} writes");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_of_an_earlier_call_fails_and_never_shows_another_object() -> Result<()> {
    let attack = Attack::new(json!({"mode": "stale-handle"}), patient()).await?;
    let answers = attack.reconcile(&["first", "second"]).await?;
    assert!(answers[0].is_ok(), "{answers:?}");
    let fault = answers[1].as_ref().expect_err("a handle that was kept");
    assert!(fault.message.contains("used after the call that got it"), "{fault}");
    assert!(!attack.said().iter().any(|line| line.contains("name=")), "{:?}", attack.said());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_a_handle_of_an_earlier_call_does_not_touch_the_handles_of_this_one() -> Result<()> {
    let attack = Attack::new(json!({"mode": "replaced-handle"}), patient()).await?;
    let answers = attack.reconcile(&["first", "second", "third"]).await?;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let read: Vec<String> = attack.said().into_iter().filter(|line| line.starts_with("read")).collect();
    assert_eq!(read, ["read name=first", "read name=second", "read name=third"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wasi_gives_a_guest_no_file_no_socket_no_name_and_no_environment() -> Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?.to_string();
    let attack = Attack::new(json!({"mode": "wasi", "address": address}), patient()).await?;
    assert!(attack.reconcile(&["bad"]).await?[0].is_ok());
    let said = attack.said();
    let result = |what: &str| {
        let prefix = format!("wasi what={what} said=");
        said.iter().find_map(|line| line.strip_prefix(&prefix)).unwrap_or("nothing").to_owned()
    };
    // There is no folder below which a path could be.
    for what in ["read a file", "list the root", "list the folder", "write a file"] {
        assert!(result(what).starts_with("NotFound"), "{said:#?}");
    }
    for what in ["connect", "listen", "bind for datagrams"] {
        assert!(result(what).starts_with("PermissionDenied"), "{said:#?}");
    }
    // The guest's libc has no word for a resolver that denies.
    assert!(result("look a name up").contains("Non-recoverable error"), "{said:#?}");
    assert!(said.contains(&"environment variables=0 arguments=0".to_owned()), "{said:?}");
    assert!(listener.accept().is_err(), "it connected");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_cannot_hold_a_line_break() -> Result<()> {
    let answers =
        Attack::new(json!({"mode": "forged-failure"}), patient()).await?.reconcile(&["bad"]).await?;
    let failure = answers[0].as_ref().expect("an answer").as_ref().expect_err("a failure");
    assert!(failure.message.starts_with("hello\\n2026"), "{}", failure.message);
    assert!(!failure.message.contains(char::is_control), "{}", failure.message);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_logged_with_the_key_of_its_call() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let options =
        EngineOptions { cache_dir: dir.path().join("cache"), compiler: Compiler::InProcess, instances: 4 };
    let code = Engine::new(options)?.prepare(std::fs::read(guests::wasm("probe")?)?).await?;
    let attack = Attack::new(json!({"mode": "trap"}), patient()).await?;
    let attack = Attack { code, ..attack };
    let answers = attack.reconcile(&["bad"]).await?;
    assert_eq!(answers[0].as_ref().map_err(|fault| fault.kind).map(drop), Err(FaultKind::Trap));
    let lines = attack.host.lines.lock().unwrap();
    let (context, _) =
        lines.iter().find(|(_, line)| line.contains("told to panic")).expect("the panic message");
    assert_eq!(context.key.as_ref().map(ToString::to_string).as_deref(), Some("default/bad"));
    assert_eq!(context.call_id, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_pool_is_not_a_fault_of_the_guest() -> Result<()> {
    let attack = Attack::new(json!({}), patient()).await?;
    let mut instances = Vec::new();
    let fault = loop {
        match Instance::new(&attack.code, attack.host.clone(), attack.limits).await {
            Ok(instance) => instances.push(instance),
            Err(fault) => break fault,
        }
        assert!(instances.len() <= 4, "more instances than the pool has slots");
    };
    assert_eq!(fault.kind, FaultKind::HostBusy, "{fault}");
    drop(instances);
    assert!(attack.reconcile(&["good"]).await?[0].is_ok(), "there is room again");
    Ok(())
}
