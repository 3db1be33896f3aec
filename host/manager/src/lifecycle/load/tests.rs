//! The steps of a load: which file is blamed when one fails, and when the switch comes.

use std::time::Duration;

use pilothouse_engine::FaultKind;
use pilothouse_plugin::World;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::observe::metrics::Metrics;
use crate::observe::status::PluginState;
use crate::testing::{FakeComponent, TestPlugin, description_text, fault, files, host_context};

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
        .load(&test.plugin, &Load { files: &files, code: &code, config: &config, number }, cancel)
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
        (described_as(json!({"schedules": schedules})), "p.wasm: describe: more than 256 "),
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
    let without = files(b"a", &json!({}));
    let Err(refused) = test.loader.prepare(&without).await else { panic!("accepted") };
    refused.record(&test.plugin, &without);
    let error = test.plugin.status().last_error.unwrap();
    assert!(error.starts_with("p.yaml: spec.serviceAccount is missing"), "{error}");
    let with = files(b"a", &json!({"serviceAccount": {"namespace": "ns", "name": "sa"}}));
    assert!(test.loader.prepare(&with).await.is_ok());
}
