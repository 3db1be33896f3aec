//! How the feeds of a generation begin, move to the next generation, and end.

use std::time::Duration;

use pilothouse_plugin::World;
use serde_json::{Value, json};

use super::*;
use crate::testing::{Calls, FakeComponent, TestPlugin, reads, settle};

const SECOND: Duration = Duration::from_secs(1);

/// A component with these watches of ConfigMaps.
fn watching(digest: &'static str, world: World, watches: &[Value]) -> (FakeComponent, Calls) {
    let watches: Vec<Value> = watches
        .iter()
        .map(|more| {
            let mut watch = json!({"version": "v1", "kind": "ConfigMap"});
            watch.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            watch
        })
        .collect();
    FakeComponent::new(digest, world, json!({"watches": watches}))
}

fn reconciler(digest: &'static str) -> (FakeComponent, Calls) {
    watching(digest, World::Reconciler, &[json!({})])
}

fn handler(digest: &'static str, labels: &str) -> (FakeComponent, Calls) {
    watching(digest, World::EventHandler, &[json!({"labelSelector": labels})])
}

fn labels(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}})
}

#[tokio::test(start_paused = true)]
async fn the_first_generation_reconciles_everything_in_the_cache_and_each_change_after_it() {
    let test = TestPlugin::new().await;
    test.server.create("ns/a", json!({}));
    test.server.create("ns/b", json!({}));
    let (component, mut calls) = reconciler("sha256:a");
    test.run(component).await;
    let first = calls.next().await;
    assert_eq!(first.reasons, [["added"]]);
    assert_eq!(calls.so_far().await.len(), 1);
    test.server.update("ns/b", json!({"data": {}}));
    assert_eq!(calls.so_far().await, ["reconcile ns/b"]);
    test.server.delete("ns/b");
    assert_eq!(calls.so_far().await, ["reconcile ns/b"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_lists_that_a_generation_keeps_have_no_room_to_spare() {
    let test = TestPlugin::new().await;
    test.run(reconciler("sha256:a").0).await;
    let generation = test.plugin.current().unwrap();
    let feeds = generation.take_feeds();
    assert_eq!((feeds.mappers.len(), feeds.mappers.capacity()), (1, 1));
    let watches = &generation.description.watches;
    assert_eq!((watches.len(), watches.capacity()), (1, 1));
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_reload_reconciles_all_keys_again_unless_the_manifest_keeps_the_queue() {
    for (spec, again) in [(json!({}), 2), (json!({"onReload": "keep"}), 0)] {
        let test = TestPlugin::new().await;
        test.server.create("ns/a", json!({}));
        test.server.create("ns/b", json!({}));
        let (old, mut old_calls) = reconciler("sha256:old");
        test.run_with(old, spec.clone()).await;
        assert_eq!(old_calls.so_far().await.len(), 2);
        let (new, mut new_calls) = reconciler("sha256:new");
        test.run_with(new, spec.clone()).await;
        assert_eq!(new_calls.so_far().await.len(), again, "{spec}");
        // Either way the new generation gets the changes, once each.
        test.server.update("ns/a", json!({"data": {}}));
        assert_eq!(new_calls.so_far().await, ["reconcile ns/a"], "{spec}");
        assert_eq!(old_calls.so_far().await, [""; 0]);
        test.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reload_that_keeps_the_queue_still_reconciles_the_keys_of_a_new_watch() {
    let test = TestPlugin::new().await;
    test.server.create("ns/a", labels("web"));
    let keep = json!({"onReload": "keep"});
    let (old, mut old_calls) =
        watching("sha256:old", World::Reconciler, &[json!({"labelSelector": "app=db"})]);
    test.run_with(old, keep.clone()).await;
    assert_eq!(old_calls.so_far().await, [""; 0]);
    let (new, mut new_calls) = reconciler("sha256:new");
    test.run_with(new, keep).await;
    assert_eq!(new_calls.next().await.reasons, [["reloaded"]]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_reload_that_keeps_the_queue_and_changes_the_grants_reconciles_what_the_watch_shows_now() {
    let test = TestPlugin::new().await;
    for key in ["a/1", "b/1", "b/2", "c/1"] {
        test.server.create(key, json!({}));
    }
    let keep = |namespaces: &[&str]| json!({"onReload": "keep", "permissions": reads(namespaces, &[])});
    let reload = async |namespaces: &[&str]| {
        let (component, mut calls) = reconciler("sha256:a");
        test.run_with(component, keep(namespaces)).await;
        let mut keys = calls.so_far().await;
        keys.sort_unstable();
        keys
    };
    assert_eq!(reload(&["a"]).await, ["reconcile a/1"]);
    assert_eq!(reload(&["a"]).await, [""; 0]);
    assert_eq!(reload(&["a", "b"]).await, ["reconcile a/1", "reconcile b/1", "reconcile b/2"]);
    assert_eq!(reload(&["*"]).await, ["reconcile a/1", "reconcile b/1", "reconcile b/2", "reconcile c/1"]);
    assert_eq!(reload(&["b"]).await, ["reconcile b/1", "reconcile b/2"]);
    assert_eq!(reload(&["a"]).await, ["reconcile a/1"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_hears_of_all_objects_again_after_a_reload_unless_the_manifest_keeps_an_equal_watch() {
    let cases = [
        (json!({}), "app=web", vec!["added ns/a"]),
        (json!({"onReload": "keep"}), "app=web", vec![]),
        // Another watch of the kind: its ring begins with the objects in the cache.
        (json!({"onReload": "keep"}), "app", vec!["added ns/a"]),
    ];
    for (spec, selector, again) in cases {
        let test = TestPlugin::new().await;
        test.server.create("ns/a", labels("web"));
        let (old, mut old_calls) = handler("sha256:old", "app=web");
        test.run_with(old, spec.clone()).await;
        assert_eq!(old_calls.so_far().await, ["added ns/a"]);
        let (new, mut new_calls) = handler("sha256:new", selector);
        test.run_with(new, spec.clone()).await;
        assert_eq!(new_calls.so_far().await, again, "{spec} {selector}");
        test.server.update("ns/a", labels("web"));
        assert_eq!(new_calls.so_far().await, ["updated ns/a"], "{spec} {selector}");
        assert_eq!(old_calls.so_far().await, [""; 0]);
        test.end().await;
    }
}

/// Two namespaces are two informers: each change comes from one of them, to the one call of its watch.
#[tokio::test(start_paused = true)]
async fn a_watch_of_two_namespaces_hears_of_both_and_of_each_object_once() {
    let test = TestPlugin::new().await;
    let create = |key: &str| drop(test.server.create(key, json!({})));
    ["a/1", "b/1", "c/1"].into_iter().for_each(create);
    let namespaces = |map: &str| json!({"namespaces": ["a", "b"], "map": {"type": map}});
    let watches = [namespaces("self"), namespaces("handler")];
    let (component, mut calls) = watching("sha256:a", World::Controller, &watches);
    test.run(component).await;
    assert_eq!(test.plugin.current().unwrap().imports.caches().count(), 2);
    let sorted = |mut calls: Vec<String>| {
        calls.sort_unstable();
        calls
    };
    assert_eq!(sorted(calls.so_far().await), ["added a/1", "added b/1", "reconcile a/1", "reconcile b/1"]);
    ["a/2", "b/2", "c/2"].into_iter().for_each(create);
    assert_eq!(sorted(calls.so_far().await), ["added a/2", "added b/2", "reconcile a/2", "reconcile b/2"]);
    // A reload that keeps the queue keeps both rings.
    let (component, mut calls) = watching("sha256:b", World::Controller, &watches);
    test.run_with(component, json!({"onReload": "keep"})).await;
    assert_eq!(calls.so_far().await, [""; 0]);
    test.server.delete("b/1");
    assert_eq!(sorted(calls.so_far().await), ["deleted b/1", "reconcile b/1"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_replaces_its_equal_and_otherwise_one_that_no_watch_equals() {
    let test = TestPlugin::new().await;
    let watch = |selector: &str| json!({"name": selector, "labelSelector": selector});
    let watches = ["app=a", "app=b", "app=c"].map(watch);
    let (component, _calls) = watching("sha256:h", World::EventHandler, &watches);
    test.run(component).await;
    let generation = test.plugin.current().unwrap();
    let mut old = generation.take_feeds();
    let spec = |selector: &str| {
        let mut spec = generation.description.watches[0].clone();
        spec.label_selector = selector.parse().unwrap();
        spec.name = selector.to_owned();
        spec
    };
    let informer = old.handlers[0].informer.clone();
    let new = [spec("app=x"), spec("app=b"), spec("app=y"), spec("app=z")];
    let replaced: Vec<Option<String>> = new
        .iter()
        .map(|watch| {
            take_replaced(&mut old.handlers, watch, &informer, |feed| new.contains(&feed.watch))
                .map(|feed| feed.watch.label_selector.to_string())
        })
        .collect();
    // The equal one is kept for its equal; the others go to those without one, each once.
    assert_eq!(replaced[1].as_deref(), Some("app=b"));
    let mut others = [replaced[0].clone(), replaced[2].clone()];
    others.sort_unstable();
    assert_eq!(others, [Some("app=a".to_owned()), Some("app=c".to_owned())]);
    assert_eq!(replaced[3], None);
    old.stop();
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_adds_its_key_at_each_tick_of_the_current_generation_only() {
    let test = TestPlugin::new().await;
    let scheduled = |digest, every| {
        let schedules = json!({"schedules": [{"every": every, "key": "ns/tick"}]});
        FakeComponent::new(digest, World::Reconciler, schedules)
    };
    let (old, mut old_calls) = scheduled("sha256:old", "10s");
    test.run(old).await;
    let call = old_calls.next().await;
    assert_eq!((call.keys, call.reasons), (vec!["ns/tick".to_owned()], vec![vec!["scheduled"]]));
    tokio::time::sleep(SECOND * 35).await;
    assert_eq!(old_calls.so_far().await.len(), 3);
    let (new, mut new_calls) = scheduled("sha256:new", "1m");
    test.run(new).await;
    tokio::time::sleep(SECOND * 59).await;
    assert_eq!(new_calls.so_far().await.len(), 1);
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(new_calls.so_far().await.len(), 1);
    assert_eq!(old_calls.so_far().await, [""; 0]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_retired_plugin_has_no_listener_pump_or_schedule_left() {
    let test = TestPlugin::new().await;
    let description = json!({
        "watches": [
            {"version": "v1", "kind": "ConfigMap"},
            {"version": "v1", "kind": "ConfigMap", "map": {"type": "handler"}},
        ],
        "schedules": [{"every": "10s", "key": "ns/tick"}],
    });
    let (component, mut calls) = FakeComponent::new("sha256:c", World::Controller, description);
    test.run(component).await;
    calls.next().await;
    // Waits for every task: one that did not end would make this test hang.
    test.end().await;
    test.server.create("ns/a", json!({}));
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(calls.so_far().await, [""; 0]);
    assert_eq!(test.plugin.queue().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_begin_of_a_term_queues_the_cached_keys_and_those_deleted_before() {
    let (election, begin) = crate::leader_election::tests::standby();
    let test = TestPlugin::of(election).await;
    test.server.create("ns/a", json!({}));
    test.server.create("ns/b", json!({}));
    let (component, mut calls) = reconciler("sha256:a");
    test.run(component).await;
    test.server.delete("ns/b");
    settle().await;
    assert_eq!((test.plugin.queue().len(), test.plugin.gate().tombstones()), (0, 1));
    begin.await;
    let mut keys = [calls.next().await, calls.next().await].map(|call| (call.keys, call.reasons));
    keys.sort_unstable();
    let expected = |key: &str, reason| (vec![key.to_owned()], vec![vec![reason]]);
    assert_eq!(keys, [expected("ns/a", "added"), expected("ns/b", "deleted")]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_told_at_the_begin_of_a_term_of_those_deletions_alone_that_its_newest_selector_shows() {
    let (election, begin) = crate::leader_election::tests::standby();
    let test = TestPlugin::of(election).await;
    for app in ["a", "b"] {
        test.server.create(&format!("ns/{app}"), labels(app));
    }
    test.run(handler("sha256:old", "app").0).await;
    for app in ["a", "b"] {
        test.server.delete(&format!("ns/{app}"));
    }
    settle().await;
    let (component, mut calls) = handler("sha256:new", "app=b");
    test.run(component).await;
    begin.await;
    assert_eq!(calls.so_far().await, ["deleted ns/b"]);
    test.end().await;
}
