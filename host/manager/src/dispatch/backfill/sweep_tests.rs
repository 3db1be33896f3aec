//! A change that maps to all keys of a kind has each of them reconciled after it, little by little.

use super::*;
use crate::testing::{Calls, FakeComponent, TestPlugin, settle};
use pilothouse_plugin::World;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// A reconciler of the ConfigMaps with the label `role=key`, of which one with `role=trigger` has all reconciled.
fn component(digest: &'static str, permits: &Arc<Semaphore>, more: Value) -> (FakeComponent, Calls) {
    let all = json!({"type": "allKeys", "version": "v1", "kind": "ConfigMap"});
    let mut trigger =
        json!({"version": "v1", "kind": "ConfigMap", "labelSelector": "role=trigger", "map": [all]});
    for (name, value) in more.as_object().unwrap() {
        trigger[name] = value.clone();
    }
    let description =
        json!({"watches": [trigger, {"version": "v1", "kind": "ConfigMap", "labelSelector": "role=key"}]});
    let (component, calls) = FakeComponent::new(digest, World::Reconciler, description);
    (component.held(permits), calls)
}

fn body(role: &str, value: &str) -> Value {
    json!({"metadata": {"labels": {"role": role}}, "data": {"x": value}})
}

fn create_keys(test: &TestPlugin, count: usize) {
    (0..count).for_each(|n| _ = test.server.create(&format!("ns/{n}"), body("key", "")));
}

/// How often each key is called for, from now until nothing more comes.
async fn called(calls: &mut Calls) -> BTreeMap<String, usize> {
    let mut called = BTreeMap::new();
    loop {
        let lines = calls.so_far().await;
        if lines.is_empty() {
            return called;
        }
        for line in lines {
            let key =
                line.split_whitespace().find(|word| word.starts_with("ns/")).unwrap_or(&line).to_owned();
            *called.entry(key).or_default() += 1;
        }
    }
}

fn each(count: usize, times: usize) -> BTreeMap<String, usize> {
    (0..count).map(|n| (format!("ns/{n}"), times)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_change_has_all_keys_reconciled_once_and_its_own_is_none_of_them() {
    let test = TestPlugin::new().await;
    let count = PORTION * 2 + 7;
    create_keys(&test, count);
    let permits = Arc::new(Semaphore::new(1_000_000));
    let (component, mut calls) = component("sha256:a", &permits, json!({}));
    test.run(component).await;
    assert_eq!(called(&mut calls).await, each(count, 1));
    test.server.create("ns/t", body("trigger", "1"));
    assert_eq!(called(&mut calls).await, each(count, 1));
    test.server.update("ns/t", body("trigger", "2"));
    assert_eq!(called(&mut calls).await, each(count, 1));
    test.server.delete("ns/t");
    assert_eq!(called(&mut calls).await, each(count, 1));
    assert!(!test.plugin.backfill().is_pending());
    test.end().await;
}

/// Changes that come faster than the keys are queued: all are queued once more after the last, and the first portion is not
/// begun again and again.
#[tokio::test(start_paused = true)]
async fn changes_during_a_sweep_are_one_more_sweep() {
    let test = TestPlugin::new().await;
    let count = PORTION * 3;
    create_keys(&test, count);
    test.server.create("ns/t", body("trigger", ""));
    let permits = Arc::new(Semaphore::new(count));
    let (component, mut calls) = component("sha256:a", &permits, json!({}));
    test.run(component).await;
    assert_eq!(called(&mut calls).await, each(count, 1));
    test.server.update("ns/t", body("trigger", "0"));
    settle().await;
    permits.add_permits(PORTION / 2);
    settle().await;
    for turn in 1..20 {
        test.server.update("ns/t", body("trigger", &turn.to_string()));
        settle().await;
    }
    permits.add_permits(1_000_000);
    let called = called(&mut calls).await;
    assert_eq!(called.len(), count);
    assert!(called.values().all(|times| (1..=2).contains(times)), "{called:?}");
    let last = called.get(&format!("ns/{}", count - 1)).copied();
    assert!(called.values().filter(|times| **times == 2).count() > count / 2, "{last:?}");
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn predicates_say_which_changes_have_all_reconciled() {
    let test = TestPlugin::new().await;
    create_keys(&test, 3);
    let permits = Arc::new(Semaphore::new(1_000));
    let predicates = json!({"predicates": [{"type": "on", "events": ["update"]},
        {"type": "not", "of": {"type": "field", "path": "/data/x", "equals": "quiet"}}]});
    let (component, mut calls) = component("sha256:a", &permits, predicates);
    test.run(component).await;
    assert_eq!(called(&mut calls).await, each(3, 1));
    test.server.create("ns/t", body("trigger", "1"));
    assert_eq!(called(&mut calls).await, each(0, 1));
    test.server.update("ns/t", body("trigger", "quiet"));
    assert_eq!(called(&mut calls).await, each(0, 1));
    test.server.update("ns/t", body("trigger", "loud"));
    assert_eq!(called(&mut calls).await, each(3, 1));
    test.server.delete("ns/t");
    assert_eq!(called(&mut calls).await, each(0, 1));
    test.end().await;
}

/// What the watch of the keys says of its own objects is nothing to a change elsewhere.
#[tokio::test(start_paused = true)]
async fn a_sweep_takes_the_own_keys_whatever_predicates_and_maps_the_watch_has() {
    let test = TestPlugin::new().await;
    create_keys(&test, 3);
    let all = json!({"type": "allKeys", "version": "v1", "kind": "ConfigMap"});
    let label = json!({"type": "label", "name": "role", "sameNamespace": true});
    let description = json!({"watches": [
        {"version": "v1", "kind": "ConfigMap", "labelSelector": "role=trigger", "map": all},
        {"version": "v1", "kind": "ConfigMap", "labelSelector": "role=key", "map": [{"type": "self"}, label],
         "predicates": [{"type": "on", "events": ["delete"]}]},
    ]});
    let (component, mut calls) = FakeComponent::new("sha256:a", World::Reconciler, description);
    test.run(component).await;
    assert_eq!(called(&mut calls).await, each(0, 1));
    test.server.create("ns/t", body("trigger", "1"));
    assert_eq!(called(&mut calls).await, each(3, 1));
    test.end().await;
}

/// A sweep that had not begun is done by the generation that takes over and keeps the queue.
#[tokio::test(start_paused = true)]
async fn a_sweep_outlives_a_reload_that_keeps_the_queue() {
    let test = TestPlugin::new().await;
    create_keys(&test, PORTION + 3);
    test.server.create("ns/t", body("trigger", ""));
    let permits = Arc::new(Semaphore::new(PORTION + 3));
    let keep = json!({"onReload": "keep"});
    let (old, mut calls) = component("sha256:old", &permits, json!({}));
    test.run_with(old, keep.clone()).await;
    assert_eq!(called(&mut calls).await, each(PORTION + 3, 1));
    // The one worker is busy with this key, and so no sweep begins.
    test.server.update("ns/0", body("key", "busy"));
    calls.next().await;
    test.server.update("ns/t", body("trigger", "1"));
    settle().await;
    let (new, mut calls) = component("sha256:new", &permits, json!({}));
    test.run_with(new, keep).await;
    permits.add_permits(100_000);
    let called = called(&mut calls).await;
    assert_eq!(called.len(), PORTION + 3);
    test.end().await;
}
