//! The steps of a load: which file is blamed when one fails, and when the switch comes.

use std::time::Duration;

use pilothouse_engine::FaultKind;
use pilothouse_plugin::World;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::lifecycle::load_slots::SLOW_AFTER;
use crate::observe::metrics::Metrics;
use crate::observe::status::PluginState;
use crate::testing::{FakeComponent, TestPlugin, description_text, fault, files, host_context, settle};

/// Loads a component, with this `spec` in the manifest.
async fn load(test: &TestPlugin, component: FakeComponent, spec: &Value) -> Arc<FakeComponent> {
    load_unless(test, component, spec, &CancellationToken::new()).await
}

async fn load_unless(
    test: &TestPlugin,
    component: FakeComponent,
    spec: &Value,
    cancel: &CancellationToken,
) -> Arc<FakeComponent> {
    let files = files(b"", spec);
    let config = test.config(&files.manifest).await;
    let component = Arc::new(component);
    let code: Arc<dyn Component> = Arc::clone(&component) as _;
    test.plugin.load_started();
    let number = test.plugin.next_number();
    test.loader
        .load(
            &test.plugin,
            &Load { files: &files, code: &code, config: &config, number, cause: Cause::Change },
            cancel,
        )
        .await;
    component
}

fn described(described: Result<Result<Vec<u8>, String>, FaultKind>) -> FakeComponent {
    FakeComponent::reconciler().0.described(described.map_err(fault))
}

fn described_as(description: Value) -> FakeComponent {
    described(Ok(Ok(description_text(description))))
}

#[tokio::test(start_paused = true)]
async fn a_load_ends_with_a_running_generation_whose_code_is_not_mapped_before_its_first_call() {
    let test = TestPlugin::new().await;
    let component = load(&test, FakeComponent::reconciler().0, &json!({})).await;
    let status = test.plugin.status();
    assert_eq!((status.state, status.generation), (PluginState::Running, 1));
    assert_eq!((status.digest.as_str(), status.last_error), ("sha256:a", None));
    assert_eq!(
        (component.instances(), component.is_mapped()),
        (1, false),
        "the instance of describe is gone"
    );
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn each_step_that_fails_is_blamed_on_its_file_and_leaves_the_running_generation() {
    let schedules: Vec<Value> = (0..257).map(|n| json!({"every": "1h", "key": format!("k{n}")})).collect();
    let index = json!({"version": "v1", "kind": "Pod", "name": "i", "owner": true});
    let cases = [
        (described(Err(FaultKind::Trap)), "p.wasm: describe failed: scripted; "),
        (described(Ok(Err("no port".to_owned()))), "p.wasm: describe refused its configuration: no port; "),
        (described(Ok(Ok(b"{".to_vec()))), "p.wasm: describe: "),
        (
            described_as(json!({"schedules": schedules})),
            "p.wasm: describe: schedules: there are 257, and 64 are allowed; ",
        ),
        (described_as(json!({"indexes": [index]})), "p.wasm: describe: indexes[0] "),
    ];
    let test = TestPlugin::new().await;
    load(&test, FakeComponent::reconciler().0, &json!({})).await;
    for (component, beginning) in cases {
        let component = load(&test, component, &json!({})).await;
        let status = test.plugin.status();
        let error = status.last_error.unwrap();
        assert!(error.starts_with(beginning), "{error} does not begin with {beginning}");
        assert_eq!((status.state, status.generation), (PluginState::Running, 1));
        assert!(!component.is_mapped(), "{beginning}");
    }
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn code_that_is_lost_before_the_load_has_the_plugin_loaded_anew() {
    let test = TestPlugin::new().await;
    let (lost, _calls) = FakeComponent::reconciler();
    lost.lose_code();
    load(&test, lost, &json!({})).await;
    assert_eq!(test.reloads(), 1);
    assert_eq!((test.plugin.status().generation, test.plugin.status().last_error), (0, None));
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_first_load_leaves_a_failed_plugin_and_the_next_one_may_succeed() {
    let test = TestPlugin::new().await;
    load(&test, described(Err(FaultKind::Memory)), &json!({})).await;
    assert_eq!(test.plugin.status().state, PluginState::Failed);
    load(&test, FakeComponent::reconciler().0, &json!({})).await;
    let status = test.plugin.status();
    assert_eq!((status.state, status.generation, status.last_error), (PluginState::Running, 2, None));
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_load_waits_for_the_last_call_of_a_removed_plugin_of_its_name() {
    let mut test = TestPlugin::new().await;
    let call = Duration::from_secs(10);
    let removed = Arc::clone(&test.plugin);
    removed.spawn(tokio::time::sleep(call));
    removed.retire();
    let host = host_context(removed.election().clone());
    test.plugin = Plugin::new("p", &host, &Metrics::new(), Some(Arc::clone(&removed)));
    let began = Instant::now();
    load(&test, FakeComponent::reconciler().0, &json!({})).await;
    assert_eq!(began.elapsed(), call);
    assert_eq!(test.plugin.status().state, PluginState::Running);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_load_neither_switches_nor_records_an_error() {
    let test = TestPlugin::new().await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    load_unless(&test, FakeComponent::reconciler().0, &json!({}), &cancel).await;
    load_unless(&test, described(Err(FaultKind::Trap)), &json!({}), &cancel).await;
    let status = test.plugin.status();
    assert_eq!((status.state, status.generation, status.last_error), (PluginState::Loading, 0, None));
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_retired_plugin_gets_no_generation() {
    let test = TestPlugin::new().await;
    test.plugin.retire();
    load(&test, FakeComponent::reconciler().0, &json!({})).await;
    assert_eq!(test.plugin.status().state, PluginState::Draining);
    assert!(test.plugin.current().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_manifest_limits_how_many_reconciles_run_at_once() {
    let wanted = json!({"maxConcurrentReconciles": 64});
    let granted = json!({"limits": {"maxConcurrentReconciles": 20}});
    for (spec, runs) in [(json!({}), DEFAULT_MAX), (granted, 20)] {
        let test = TestPlugin::new().await;
        load(&test, FakeComponent::new("sha256:c", World::Reconciler, wanted.clone()).0, &spec).await;
        assert_eq!(test.plugin.current().unwrap().max_concurrent, runs, "{spec}");
        test.end().await;
    }
}

/// As the documentation of the manifest says.
const DEFAULT_MAX: u32 = 16;

#[tokio::test(start_paused = true)]
async fn a_host_that_requires_service_accounts_blames_the_manifest_without_one() {
    let mut test = TestPlugin::new().await;
    test.loader.require_service_account = true;
    test.compiler.add(b"a", FakeComponent::reconciler().0);
    let cancel = CancellationToken::new();
    let without = files(b"a", &json!({}));
    assert!(test.loader.prepare(&test.plugin, &without, &cancel).await.is_none());
    let error = test.plugin.status().last_error.unwrap();
    assert!(error.starts_with("p.yaml: spec.serviceAccount is missing"), "{error}");
    let with = files(b"a", &json!({"serviceAccount": {"namespace": "ns", "name": "sa"}}));
    assert!(test.loader.prepare(&test.plugin, &with, &cancel).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_describe_that_the_host_could_not_answer_is_tried_again_with_a_longer_and_longer_pause() {
    for kind in [FaultKind::Deadline, FaultKind::Waiting, FaultKind::HostBusy] {
        let test = Arc::new(TestPlugin::new().await);
        let component = described(Err(kind)).described_later(3, Ok(Ok(description_text(json!({})))));
        let loaded = tokio::spawn({
            let test = Arc::clone(&test);
            async move { load(&test, component, &json!({})).await }
        });
        settle().await;
        let status = test.plugin.status();
        assert_eq!((status.state, status.generation), (PluginState::Waiting, 0), "{kind:?}");
        let reason = status.waiting_for.unwrap();
        let is_slow = kind != FaultKind::HostBusy;
        let why = if is_slow { "it took longer than 5s" } else { "scripted" };
        assert!(reason.starts_with(&format!("p.wasm: describe failed: {why}")), "{reason}");
        assert!(status.next_try.is_some());
        let began = Instant::now();
        let component = loaded.await.unwrap();
        // 1, 2 and 4 seconds, and each up to twice as long.
        assert!((6..15).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        assert_eq!((test.plugin.status().state, component.instances()), (PluginState::Running, 4));
        assert_eq!((test.plugin.status().waiting_for, test.plugin.status().last_error), (None, None));
        test.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_component_that_cannot_be_compiled_now_is_tried_again_and_its_bytes_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.wasm");
    std::fs::write(&path, b"a").unwrap();
    let test = Arc::new(TestPlugin::new().await);
    let files = Files { wasm_path: path.clone(), ..files(b"a", &json!({})) };
    test.compiler.fail_next(LoadError::Cache("no space left on device".to_owned()));
    test.compiler.add(b"a", FakeComponent::reconciler().0);
    test.compiler.add(b"changed", FakeComponent::reconciler().0);
    let prepared = tokio::spawn({
        let test = Arc::clone(&test);
        async move { test.loader.prepare(&test.plugin, &files, &CancellationToken::new()).await }
    });
    let waits_for = |words: &'static str| {
        let plugin = Arc::clone(&test.plugin);
        // The file is read on a real thread, so the clock of the test runs on until then.
        async move {
            while !plugin.status().waiting_for.is_some_and(|reason| reason.contains(words)) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    waits_for("no space left on device").await;
    std::fs::write(&path, b"changed").unwrap();
    waits_for("it changed while it was loaded").await;
    std::fs::remove_file(&path).unwrap();
    waits_for("it cannot be read").await;
    std::fs::write(&path, b"a").unwrap();
    assert!(prepared.await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_a_component_that_is_refused_is_one_line_of_some_kilobytes() {
    let test = TestPlugin::new().await;
    test.compiler.fail_next(LoadError::Compile(format!("a\nforged{}", "b".repeat(100_000))));
    let files = files(b"a", &json!({}));
    assert!(test.loader.prepare(&test.plugin, &files, &CancellationToken::new()).await.is_none());
    let error = test.plugin.status().last_error.unwrap();
    assert!(error.contains("a\\nforgedb") && error.len() < 10_000, "{} bytes: {error:.200}", error.len());
}

/// All slots that are free.
fn take_slots(test: &TestPlugin) -> Vec<tokio::sync::SemaphorePermit<'_>> {
    let slot = || futures_util::FutureExt::now_or_never(test.loader.slots.prepare());
    std::iter::from_fn(|| slot().map(Result::unwrap)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_component_is_read_only_when_there_is_a_slot_for_it() {
    let test = TestPlugin::new().await;
    let files = Files { wasm_path: "/nowhere/p.wasm".into(), ..files(b"a", &json!({})) };
    let slots = take_slots(&test);
    let mut waiting = Box::pin(test.loader.try_prepare(&files));
    assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
    drop(slots);
    let Err(LoadFailure::Retry(reason)) = waiting.await else { panic!("there is no file") };
    assert!(reason.starts_with("it cannot be read: No such file"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn components_that_take_long_to_compile_hold_up_no_other_one() {
    let test = Arc::new(TestPlugin::new().await);
    test.compiler.add(b"quick", FakeComponent::reconciler().0);
    let prepare = |wasm: &'static [u8]| {
        let test = Arc::clone(&test);
        let files = files(wasm, &json!({}));
        tokio::spawn(async move { test.loader.try_prepare(&files).await.map(drop) })
    };
    let slots = take_slots(&test).len();
    let slow: Vec<_> = (0..slots).map(|_| prepare(b"endless")).collect();
    tokio::time::sleep(SLOW_AFTER + Duration::from_secs(1)).await;
    assert!(prepare(b"quick").await.unwrap().is_ok());
    slow.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_describes_itself_has_its_configuration_and_reaches_nothing_else() {
    use pilothouse_engine::{
        CacheImports as _, CacheQuery, CallContext, CallOptions, ClientCall, ClientImports as _, ClientVerb,
        ConfigImports as _, EventImports as _, EventTarget, GuestEvent, HttpImports as _, MetricImports,
        MetricKind, MetricSpec, QueueImports as _,
    };

    let test = TestPlugin::new().await;
    let everything = json!([{"groups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["*"]}]);
    let spec = json!({"config": {"a": 1}, "permissions": everything, "outgoingHosts": ["example.com"]});
    let files = files(b"", &spec);
    let config = test.config(&files.manifest).await;
    let code: Arc<dyn Component> = Arc::new(FakeComponent::reconciler().0);
    let load = Load { files: &files, code: &code, config: &config, number: 1, cause: Cause::Change };
    let grants = Grants::new(files.manifest.permissions.clone());
    let all = Arc::new(test.loader.imports(&test.plugin, &load, &grants));
    assert!(
        all.http().is_some() && all.queue_room(&["a/b".parse().unwrap()]).is_ok(),
        "granted to other calls"
    );

    let describe = pilothouse_engine::LogOnly::new(Arc::clone(&all) as _);
    let kind = pilothouse_object::Gvk::new("", "v1", "ConfigMap");
    let key: pilothouse_object::ObjectKey = "a/b".parse().unwrap();
    assert_eq!(&*describe.config(), br#"{"a":1}"#);
    assert!(describe.http().is_none());
    let regarding = EventTarget {
        kind: kind.clone(),
        key: key.clone(),
        uid: String::new(),
        resource_version: String::new(),
    };
    let [reason, action, note] = ["Reason", "", "note"].map(str::to_owned);
    let options = pilothouse_engine::EventOptions::default();
    let event = GuestEvent { regarding, related: None, is_warning: false, reason, action, note, options };
    let (context, max_bytes, options) = (CallContext::default(), 1 << 20, CallOptions::default());
    let live = ClientCall {
        cluster: 0,
        kind: kind.clone(),
        verb: ClientVerb::Get(key.clone()),
        options,
        max_bytes,
        context,
    };
    let mut visit = |_: Option<&str>| std::ops::ControlFlow::Continue(());
    let spec = MetricSpec {
        kind: MetricKind::Gauge,
        name: "m".to_owned(),
        help: String::new(),
        labels: Vec::new(),
        buckets: Vec::new(),
    };
    let refusals = [
        describe.cache_get(&kind, &key).map(drop).unwrap_err().message,
        describe.cache_list(&kind, CacheQuery::default()).map(drop).unwrap_err().message,
        describe.metric_declare(spec).map(drop).unwrap_err().message,
        describe.cache_index_values(&kind, "i", &mut visit).unwrap_err().message,
        describe.record_event(&CallContext::default(), event).unwrap_err().message,
        describe.queue_room(std::slice::from_ref(&key)).unwrap_err().message,
        describe.client(live).await.map(drop).unwrap_err().message().to_owned(),
    ];
    for refusal in refusals {
        assert!(refusal.contains("in describe"), "{refusal}");
    }
    describe.queue_forget(&key);
    assert_eq!(test.plugin.queue().len(), 0);
    test.end().await;
}
