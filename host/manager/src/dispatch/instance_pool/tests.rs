//! Leases of instances: which call waits for which, and what stays warm.

use std::collections::BTreeSet;

use pilothouse_plugin::World;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::observe::status::PluginState;
use crate::testing::{Calls, FakeComponent, IDLE_TTL, TestHost, TestPlugin, fault, files, settle};

use super::*;

/// A component whose reconciles and events each wait for a permit.
fn held(digest: &'static str) -> (FakeComponent, Calls, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    let description = json!({
        "watches": [{"version": "v1", "kind": "ConfigMap", "map": {"type": "handler"}}],
        "maxConcurrentReconciles": 2,
    });
    let (component, calls) = FakeComponent::new(digest, World::Controller, description);
    let component = component.held(&permits);
    (component, calls, permits)
}

#[tokio::test(start_paused = true)]
async fn reconciles_and_handlers_share_the_instances_of_their_plugin() {
    let test = TestPlugin::new().await;
    let (component, mut calls, permits) = held("sha256:c");
    let component = test.run(component).await;
    (0..5).for_each(|n| test.add(&format!("ns/{n}")));
    test.server.create("ns/event", json!({}));
    assert_eq!(calls.so_far().await.len(), 3, "two reconciles and an event");
    permits.add_permits(10);
    assert_eq!(calls.so_far().await.len(), 3);
    assert_eq!(component.instances(), 3);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_gets_no_more_memory_works_on_with_one_instance_and_its_handlers_get_their_turn() {
    let host = TestHost::with_memory(1 << 20);
    let test = TestPlugin::on(&host).await;
    let (component, mut calls, permits) = held("sha256:c");
    let component = test.run(component).await;
    (0..5).for_each(|n| test.add(&format!("ns/{n}")));
    let mut seen = calls.so_far().await;
    assert_eq!(seen.len(), 1);
    test.server.create("ns/event", json!({}));
    assert_eq!(calls.so_far().await, [""; 0], "there is no second instance");
    for _ in 0..5 {
        permits.add_permits(1);
        seen.extend(calls.so_far().await);
    }
    assert_eq!(seen.len(), 6);
    let event = seen.iter().position(|call| call == "added ns/event").expect("delivered");
    assert!(event < 5, "the pump waited for all keys: {seen:?}");
    assert_eq!((component.instances(), test.plugin.status().last_error), (1, None));
    permits.add_permits(10);
    settle().await;
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_instance_of_another_plugin_goes_before_anybody_waits() {
    let host = TestHost::with_memory(2 << 20);
    let (idle, busy) = (TestPlugin::on(&host).await, TestPlugin::on(&host).await);
    let (component, mut calls) = FakeComponent::reconciler();
    let component = idle.run(component).await;
    idle.add("ns/a");
    assert_eq!(calls.so_far().await.len(), 1);
    assert!(component.is_mapped());
    let (greedy, mut calls, permits) = held("sha256:c");
    busy.run(greedy).await;
    (0..2).for_each(|n| busy.add(&format!("ns/{n}")));
    assert_eq!(calls.so_far().await.len(), 2);
    assert!(!component.is_mapped(), "its instance went");
    // It gets another one although there is no room: each plugin may have one.
    idle.add("ns/a");
    settle().await;
    assert_eq!(component.instances(), 2);
    permits.add_permits(10);
    idle.end().await;
    busy.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_the_engine_has_no_slot_for_is_made_once_an_idle_one_is_gone() {
    let host = TestHost::with_memory(1 << 30);
    let (idle, full) = (TestPlugin::on(&host).await, TestPlugin::on(&host).await);
    let (component, mut calls) = FakeComponent::reconciler();
    let component = idle.run(component).await;
    idle.add("ns/a");
    assert_eq!(calls.so_far().await.len(), 1);
    let (refused, mut calls) = FakeComponent::reconciler();
    let refused = full.run(refused.refuse(1, fault(FaultKind::HostBusy))).await;
    full.add("ns/b");
    assert_eq!(calls.so_far().await, ["reconcile ns/b"]);
    assert!(!component.is_mapped() && refused.is_mapped());
    assert_eq!(full.plugin.status().last_error, None);
    idle.end().await;
    full.end().await;
}

#[tokio::test(start_paused = true)]
async fn lost_code_has_the_plugin_loaded_again_once_and_all_keys_wait_for_it_without_blame() {
    let host = TestHost::with_memory(1 << 30);
    let (idle, broken) = (TestPlugin::on(&host).await, TestPlugin::on(&host).await);
    let (component, mut calls) = FakeComponent::reconciler();
    let component = idle.run(component).await;
    idle.add("ns/a");
    assert_eq!(calls.so_far().await.len(), 1);

    let make = || FakeComponent::new("sha256:a", World::Reconciler, json!({"maxConcurrentReconciles": 4}));
    let lost = broken.run(make().0).await;
    lost.lose_code();
    let keys: BTreeSet<String> = (0..50).map(|n| format!("ns/{n}")).collect();
    keys.iter().for_each(|key| broken.add(key));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(broken.reloads(), 1);
    // Each worker found the code missing once, and then waited.
    let faults = broken.plugin.metrics().faults(FaultKind::CodeUnavailable);
    assert!((1..=4).contains(&faults), "{faults}");
    idle.add("ns/b");
    assert_eq!(calls.so_far().await.len(), 1);

    // As that load does.
    let (again, mut calls) = make();
    broken.run(again).await;
    let mut called = BTreeSet::new();
    while called.len() < keys.len() {
        called.extend(calls.next_keys().await);
    }
    assert_eq!(called, keys);
    assert_eq!(broken.reloads(), 0);
    let status = broken.plugin.status();
    assert_eq!((status.state, status.last_error), (PluginState::Running, None));
    assert!(component.is_mapped(), "the instance of the neighbour went");
    idle.end().await;
    broken.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_plugin_ends_the_wait_for_its_code() {
    let test = TestPlugin::new().await;
    let (lost, mut calls) = FakeComponent::reconciler();
    test.run(lost).await.lose_code();
    test.add("ns/a");
    assert_eq!(calls.so_far().await, [""; 0]);
    // Waits for every task.
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_instance_that_describes_a_plugin_counts_like_any_other() {
    let host = TestHost::with_memory(2 << 20);
    let (idle, new) = (TestPlugin::on(&host).await, TestPlugin::on(&host).await);
    let (component, mut calls) = FakeComponent::reconciler();
    let component = idle.run(component).await;
    idle.add("ns/a");
    assert_eq!(calls.so_far().await.len(), 1);
    assert!(component.is_mapped());
    new.compiler.add(b"a", FakeComponent::reconciler().0);
    new.loader.follow(&new.plugin, files(b"a", &json!({})), &CancellationToken::new(), || true).await;
    assert_eq!(new.plugin.status().state, PluginState::Running);
    assert!(!component.is_mapped(), "the idle instance went for it");
    assert_eq!(host.instances.used(), 0, "it has gone itself");
    idle.end().await;
    new.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_without_an_instance_is_delivered_later() {
    let test = TestPlugin::new().await;
    let description = json!({"watches": [{"version": "v1", "kind": "ConfigMap"}]});
    let (component, mut calls) = FakeComponent::new("sha256:h", World::EventHandler, description);
    test.server.create("ns/a", json!({}));
    test.server.create("ns/b", json!({}));
    test.run(component.refuse(3, fault(FaultKind::HostBusy))).await;
    assert_eq!(calls.so_far().await, [""; 0]);
    tokio::time::sleep(IDLE_TTL).await;
    assert_eq!(calls.so_far().await, ["added ns/a", "added ns/b"]);
    // No code of the plugin ran: nothing is held against it.
    assert_eq!(test.plugin.status().last_error, None);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_worn_out_goes_after_its_call() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = FakeComponent::reconciler();
    let component = test.run(component.wears_out()).await;
    for made in 1..4 {
        test.add("ns/a");
        assert_eq!(calls.so_far().await, ["reconcile ns/a"]);
        assert_eq!((component.instances(), component.is_mapped()), (made, false));
    }
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_reload_and_the_end_of_a_plugin_drop_its_idle_instances() {
    let test = TestPlugin::new().await;
    let (old, mut calls) = FakeComponent::reconciler();
    let old = test.run(old).await;
    test.add("ns/a");
    calls.next().await;
    settle().await;
    assert!(old.is_mapped());
    let (new, mut calls) = FakeComponent::reconciler();
    let new = test.run(new).await;
    assert!(!old.is_mapped());
    test.add("ns/a");
    calls.next().await;
    settle().await;
    assert!(new.is_mapped());
    test.end().await;
    assert!(!new.is_mapped());
}

#[tokio::test(start_paused = true)]
async fn an_idle_plugin_has_no_task_and_an_idle_host_no_sweeper() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = FakeComponent::reconciler();
    test.run(component).await;
    assert!(test.plugin.tasks().is_empty());
    test.add("ns/a");
    calls.next().await;
    settle().await;
    assert!(test.plugin.tasks().is_empty());
    tokio::time::sleep(IDLE_TTL).await;
    settle().await;
    assert!(!test.host.instances.0.state.lock().is_sweeping);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_plugin_with_handlers_and_one_of_a_standby_have_no_task() {
    let description = json!({"watches": [{"version": "v1", "kind": "ConfigMap"}]});
    let handler = || FakeComponent::new("sha256:h", World::EventHandler, description.clone());
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler();
    test.run(component).await;
    // `on-synced` is called after the first list.
    settle().await;
    assert!(test.plugin.tasks().is_empty());
    for n in 0..3 {
        test.server.create(&format!("ns/{n}"), json!({}));
        assert_eq!(calls.so_far().await.len(), 1);
        assert!(test.plugin.tasks().is_empty());
    }
    test.end().await;

    let (election, begin) = crate::leader_election::tests::standby();
    let test = TestPlugin::of(election).await;
    let (component, mut calls) = handler();
    test.run(component).await;
    test.server.create("ns/a", json!({}));
    assert_eq!(calls.so_far().await, [""; 0]);
    assert!(test.plugin.tasks().is_empty());
    begin.await;
    assert_eq!(calls.so_far().await, ["added ns/a"]);
    assert!(test.plugin.tasks().is_empty());
    test.end().await;
}
