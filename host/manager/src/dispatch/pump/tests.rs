//! Delivery of events: order, faults, quarantine, standby, and the way over a reload.

use std::time::Duration;

use pilothouse_engine::FaultKind;
use pilothouse_plugin::World;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::*;
use crate::leader_election::tests::standby;
use crate::testing::{Calls, FakeComponent, IDLE_TTL, TestPlugin, done, fault};

/// An event handler of ConfigMaps; `more` is merged into its watch.
fn handler(digest: &'static str, more: Value) -> (FakeComponent, Calls) {
    let mut watch = json!({"version": "v1", "kind": "ConfigMap"});
    watch.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    FakeComponent::new(digest, World::EventHandler, json!({"watches": [watch]}))
}

/// A handler whose calls each wait for a permit.
fn held(digest: &'static str) -> (FakeComponent, Calls, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&permits);
    let (component, calls) = handler(digest, json!({"delivery": "every"}));
    let component = component.script(move |call| {
        let permits = Arc::clone(&held);
        async move {
            permits.acquire().await.unwrap().forget();
            done(&call)
        }
    });
    (component, calls, permits)
}

#[tokio::test(start_paused = true)]
async fn events_of_a_watch_are_delivered_in_order_by_one_instance_which_goes_when_idle() {
    let test = TestPlugin::new().await;
    test.server.create("ns/a", json!({}));
    let (component, mut calls) = handler("sha256:h", json!({}));
    let component = test.run(component).await;
    assert_eq!(calls.so_far().await, ["on-add ns/a"]);
    test.server.update("ns/a", json!({"data": {"x": "1"}}));
    assert_eq!(calls.so_far().await, ["on-update ns/a"]);
    test.server.delete("ns/a");
    assert_eq!(calls.so_far().await, ["on-delete ns/a"]);
    assert_eq!((component.instances(), component.is_mapped()), (1, true));
    tokio::time::sleep(IDLE_TTL).await;
    assert_eq!(calls.so_far().await, [""; 0]);
    assert!(!component.is_mapped());
    test.server.create("ns/b", json!({}));
    assert_eq!(calls.so_far().await, ["on-add ns/b"]);
    assert_eq!(component.instances(), 2);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_call_faults_counts_as_delivered_and_the_next_has_a_new_instance() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler("sha256:h", json!({}));
    let component = component.script(|call| async move {
        if call.keys == ["ns/bad"] { Err(fault(FaultKind::Trap)) } else { done(&call) }
    });
    let component = test.run(component).await;
    test.server.create("ns/bad", json!({}));
    test.server.create("ns/good", json!({}));
    assert_eq!(calls.so_far().await, ["on-add ns/bad", "on-add ns/good"]);
    assert_eq!(component.instances(), 2);
    assert_eq!(test.plugin.status().last_error.as_deref(), Some("ns/bad: scripted"));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(calls.so_far().await, [""; 0], "the poisonous event does not come again");
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_quarantine_holds_events_back_and_loses_none() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler("sha256:h", json!({}));
    let component = component.script(|call| async move {
        if call.keys[0].starts_with("ns/bad") { Err(fault(FaultKind::Trap)) } else { done(&call) }
    });
    test.run(component).await;
    (0..10).for_each(|n| _ = test.server.create(&format!("ns/bad{n}"), json!({})));
    assert_eq!(calls.so_far().await.len(), 10);
    test.server.create("ns/good", json!({}));
    assert_eq!(calls.so_far().await, [""; 0], "in quarantine");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(calls.so_far().await, ["on-add ns/good"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_that_the_predicates_drop_is_not_delivered() {
    let test = TestPlugin::new().await;
    let predicates = json!({"predicates": [{"type": "fieldChanged", "path": "/data/x"}]});
    let (component, mut calls) = handler("sha256:h", predicates);
    test.run(component).await;
    test.server.create("ns/a", json!({"data": {"x": "1"}}));
    assert_eq!(calls.so_far().await, ["on-add ns/a"]);
    test.server.update("ns/a", json!({"data": {"x": "1", "y": "1"}}));
    assert_eq!(calls.so_far().await, [""; 0]);
    test.server.update("ns/a", json!({"data": {"x": "2"}}));
    assert_eq!(calls.so_far().await, ["on-update ns/a"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn events_that_the_old_pump_did_not_deliver_come_first_in_the_new_generation() {
    let test = TestPlugin::new().await;
    let (old, mut old_calls, permits) = held("sha256:old");
    test.run_with(old, json!({"onReload": "keep"})).await;
    for n in 0..3 {
        test.server.create(&format!("ns/{n}"), json!({}));
    }
    assert_eq!(old_calls.so_far().await, ["on-add ns/0"], "in the call");
    let (new, mut new_calls, new_permits) = held("sha256:new");
    test.run_with(new, json!({"onReload": "keep"})).await;
    new_permits.add_permits(10);
    assert_eq!(new_calls.so_far().await, [""; 0], "the old call is not over");
    permits.add_permits(10);
    assert_eq!(new_calls.so_far().await, ["on-add ns/1", "on-add ns/2"]);
    test.server.update("ns/0", json!({"data": {}}));
    assert_eq!(new_calls.so_far().await, ["on-update ns/0"]);
    assert_eq!(old_calls.so_far().await, [""; 0]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_standby_delivers_nothing_until_it_is_elected() {
    let (election, begin) = standby();
    let test = TestPlugin::of(election).await;
    let (component, mut calls) = handler("sha256:h", json!({}));
    test.run(component).await;
    test.server.create("ns/a", json!({}));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(calls.so_far().await, [""; 0]);
    begin.await;
    assert_eq!(calls.so_far().await, ["on-add ns/a"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_retired_plugin_ends_its_pump_with_the_call() {
    let test = TestPlugin::new().await;
    let (component, mut calls, permits) = held("sha256:h");
    test.run(component).await;
    test.server.create("ns/a", json!({}));
    test.server.create("ns/b", json!({}));
    assert_eq!(calls.so_far().await, ["on-add ns/a"]);
    test.plugin.retire();
    permits.add_permits(10);
    test.plugin.ended().await;
    assert_eq!(calls.so_far().await, [""; 0]);
}
