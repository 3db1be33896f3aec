//! What a plugin with a ServiceAccount is shown, as the rules of the server change.

use std::ops::ControlFlow;
use std::time::Duration;

use pilothouse_cache::testing::config_maps;
use pilothouse_engine::{CacheImports as _, CacheQuery, ObjectCursor, RefusalReason};
use pilothouse_plugin::World;
use serde_json::{Value, json};

use super::*;
use crate::observe::status::PluginState;
use crate::testing::{Calls, FakeComponent, TestPlugin, reads, settle};

const MINUTE: Duration = Duration::from_secs(60);

fn remaining(objects: &dyn ObjectCursor) -> usize {
    objects.remaining(&mut || ControlFlow::Continue(())).unwrap()
}

fn component() -> (FakeComponent, Calls) {
    let watch = |map: &str| json!({"version": "v1", "kind": "ConfigMap", "map": {"type": map}});
    FakeComponent::new("sha256:a", World::Controller, json!({"watches": [watch("self"), watch("handler")]}))
}

fn spec(permissions: Value) -> Value {
    json!({"serviceAccount": {"namespace": "ns", "name": "robot"}, "permissions": permissions, "onReload": "keep"})
}

fn sorted(mut calls: Vec<String>) -> Vec<String> {
    calls.sort_unstable();
    calls
}

#[tokio::test(start_paused = true)]
async fn the_server_is_asked_for_each_verb_in_each_scope_of_an_informer_and_for_no_more() {
    let test = TestPlugin::new().await;
    let permissions = json!([
        {"groups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"], "namespaces": ["a", "b"]},
        {"groups": [""], "resources": ["configmaps"], "verbs": ["get"], "namespaces": ["a", "c"], "names": ["x"]},
    ]);
    test.run_with(component().0, spec(permissions)).await;
    let mut asked = test.rules.asked();
    asked.sort_unstable();
    let may_not = |what: &str| format!("ServiceAccount ns/robot may not {what}");
    let wanted = [
        "get configmaps \"x\" in namespace a",
        "list configmaps in namespace a",
        "list configmaps in namespace b",
        "watch configmaps in namespace a",
        "watch configmaps in namespace b",
    ];
    assert_eq!(asked, wanted.map(may_not));
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_load_waits_until_the_account_may_list_and_watch_and_nothing_is_listed_before() {
    let test = TestPlugin::new().await;
    test.server.create("a/1", json!({}));
    test.rules.deny(&["watch configmaps"]);
    let (component, mut calls) = component();
    let running = test.run_with(component, spec(reads(&["*"], &[])));
    let denying = async {
        tokio::time::sleep(3 * MINUTE).await;
        let status = test.plugin.status();
        assert_eq!(
            status.waiting_for.as_deref(),
            Some("ServiceAccount ns/robot may not watch configmaps in the whole cluster: no rule")
        );
        assert_eq!(test.server.requests().len(), 0, "nothing was listed");
        test.rules.deny(&[]);
    };
    tokio::join!(running, denying);
    assert_eq!(sorted(calls.so_far().await), ["added a/1", "reconcile a/1"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_revoked_hides_events_keys_and_reads_until_it_is_back() {
    let test = TestPlugin::new().await;
    test.server.create("a/1", json!({}));
    test.server.create("b/1", json!({}));
    let (component, mut calls) = component();
    test.run_with(component, spec(reads(&["a", "b"], &[]))).await;
    assert_eq!(calls.so_far().await.len(), 4);
    let imports = Arc::clone(&test.plugin.current().unwrap().imports);
    let kind = config_maps().gvk;
    let get = |key: &str| imports.cache_get(&kind, &key.parse().unwrap()).map(|object| object.is_some());
    let list = |namespace| {
        let query = CacheQuery { namespace, ..CacheQuery::default() };
        imports.cache_list(&kind, query).map(|objects| remaining(&*objects))
    };
    assert_eq!((get("b/1").unwrap(), list("").unwrap()), (true, 2));
    assert!(!imports.are_rights_restored());

    test.rules.deny(&["in namespace b"]);
    tokio::time::sleep(2 * MINUTE).await;
    test.server.update("b/1", json!({"data": {}}));
    test.server.create("b/2", json!({}));
    test.server.delete("b/1");
    test.server.update("a/1", json!({"data": {}}));
    assert_eq!(sorted(calls.so_far().await), ["reconcile a/1", "updated a/1"]);
    let refused = |result: Result<usize, pilothouse_engine::Refusal>| {
        let refusal = result.unwrap_err();
        assert!(
            refusal.reason == RefusalReason::Forbidden && refusal.message.contains("may not"),
            "{refusal:?}"
        );
        assert!(refusal.message.contains("in namespace b"), "{refusal:?}");
    };
    refused(get("b/2").map(usize::from));
    refused(list(""));
    refused(list("b"));
    assert_eq!((get("a/1").unwrap(), list("a").unwrap()), (true, 1));
    let status = test.plugin.status();
    assert_eq!(status.state, PluginState::Waiting);
    assert!(status.waiting_for.unwrap().contains("in namespace b"));
    assert_eq!(test.plugin.metrics().denied[2].get(), 3);

    test.rules.deny(&[]);
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(test.plugin.status().state, PluginState::Running);
    assert!(imports.are_rights_restored(), "to be loaded again: it has missed changes");
    assert_eq!(calls.so_far().await, [""; 0]);
    // As that load does; `onReload: keep` keeps nothing that has gaps.
    let (again, mut calls) = self::component();
    test.run_with(again, spec(reads(&["a", "b"], &[]))).await;
    let shown = calls.so_far().await;
    for call in ["added b/2", "reconcile b/2"] {
        assert!(shown.contains(&call.to_owned()), "{shown:?}");
    }
    assert!(!test.plugin.current().unwrap().imports.are_rights_restored());
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn events_and_keys_that_wait_when_a_right_is_revoked_are_not_shown() {
    let test = TestPlugin::new().await;
    let permits = Arc::new(tokio::sync::Semaphore::new(0));
    let (component, mut calls) = component();
    let component = component.held(&permits);
    test.run_with(component, spec(reads(&["a", "b"], &[]))).await;
    test.server.create("a/0", json!({}));
    test.server.create("b/0", json!({}));
    settle().await;
    calls.begun();
    for key in ["b/1", "a/2", "b/2"] {
        test.server.create(key, json!({}));
    }
    test.rules.deny(&["in namespace b"]);
    tokio::time::sleep(2 * MINUTE).await;
    permits.add_permits(100);
    let shown = calls.so_far().await;
    assert!(
        shown.contains(&"added a/2".to_owned()) && shown.contains(&"reconcile a/2".to_owned()),
        "{shown:?}"
    );
    assert!(shown.iter().all(|call| !call.contains(" b/")), "{shown:?}");
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_the_account_may_not_get_are_not_read_and_a_warning_says_so() {
    let test = TestPlugin::new().await;
    test.server.create("a/1", json!({}));
    test.rules.deny(&["get configmaps"]);
    test.run_with(component().0, spec(reads(&["a"], &[]))).await;
    let imports = Arc::clone(&test.plugin.current().unwrap().imports);
    let refusal = imports.cache_get(&config_maps().gvk, &"a/1".parse().unwrap()).unwrap_err();
    assert!(refusal.message.contains("may not get configmaps in namespace a: no rule"), "{refusal:?}");
    let objects = imports.cache_list(&config_maps().gvk, CacheQuery::default()).unwrap();
    assert_eq!(remaining(&*objects), 1);
    let warnings = test.plugin.status().warnings;
    assert!(warnings[0].contains("may not get configmaps"), "{warnings:?}");
    test.end().await;
}
