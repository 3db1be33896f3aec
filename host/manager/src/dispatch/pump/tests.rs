//! Delivery of events: order, faults, quarantine, standby, and the way over a reload.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use futures_util::FutureExt as _;
use pilothouse_engine::FaultKind;
use pilothouse_plugin::World;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::*;
use crate::leader_election::tests::standby;
use crate::testing::{Calls, FakeComponent, IDLE_TTL, TestHost, TestPlugin, done, fault, reads, settle};

/// An event handler of ConfigMaps; `more` is merged into its watch.
fn handler(digest: &'static str, more: Value) -> (FakeComponent, Calls) {
    let mut watch = json!({"version": "v1", "kind": "ConfigMap"});
    watch.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    FakeComponent::new(digest, World::EventHandler, json!({"watches": [watch]}))
}

/// A handler whose calls each wait for a permit.
fn held(digest: &'static str) -> (FakeComponent, Calls, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    let (component, calls) = handler(digest, json!({"delivery": "every"}));
    let component = component.held(&permits);
    (component, calls, permits)
}

#[tokio::test(start_paused = true)]
async fn events_of_a_watch_are_delivered_in_order_by_one_instance_which_goes_when_idle() {
    let test = TestPlugin::new().await;
    test.server.create("ns/a", json!({}));
    let (component, mut calls) = handler("sha256:h", json!({}));
    let component = test.run(component).await;
    assert_eq!(calls.so_far().await, ["added ns/a"]);
    test.server.update("ns/a", json!({"data": {"x": "1"}}));
    assert_eq!(calls.so_far().await, ["updated ns/a"]);
    test.server.delete("ns/a");
    assert_eq!(calls.so_far().await, ["deleted ns/a"]);
    assert_eq!((component.instances(), component.is_mapped()), (1, true));
    tokio::time::sleep(IDLE_TTL).await;
    assert_eq!(calls.so_far().await, [""; 0]);
    assert!(!component.is_mapped());
    test.server.create("ns/b", json!({}));
    assert_eq!(calls.so_far().await, ["added ns/b"]);
    assert_eq!(component.instances(), 2);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_fault_other_events_have_a_new_instance_and_the_event_comes_again() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler("sha256:h", json!({}));
    let component = component.script(|call| async move {
        if call.keys == ["ns/bad"] { Err(fault(FaultKind::Trap)) } else { done(&call) }
    });
    let component = test.run(component).await;
    test.server.create("ns/bad", json!({}));
    assert_eq!(calls.so_far().await, ["added ns/bad"]);
    test.server.create("ns/good", json!({}));
    assert_eq!(calls.so_far().await, ["added ns/good"]);
    assert_eq!(component.instances(), 2);
    assert_eq!(test.plugin.status().last_error.as_deref(), Some("ns/bad: scripted"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = calls.so_far().await;
    assert!(!again.is_empty() && again.iter().all(|told| told == "added ns/bad"), "{again:?}");
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_quarantine_holds_events_back_and_loses_none() {
    let test = TestPlugin::new().await;
    let healed = Arc::new(AtomicBool::new(false));
    let is_healed = Arc::clone(&healed);
    let (component, mut calls) = handler("sha256:h", json!({}));
    let component = component.script(move |call| {
        let is_bad = call.keys.iter().any(|key| key.starts_with("ns/bad"));
        let faults = is_bad && !is_healed.load(Relaxed);
        async move { if faults { Err(fault(FaultKind::Trap)) } else { done(&call) } }
    });
    test.run(component).await;
    for n in 0..3 {
        test.server.create(&format!("ns/bad{n}"), json!({}));
        assert_eq!(calls.so_far().await, [format!("added ns/bad{n}")]);
    }
    test.server.create("ns/good", json!({}));
    assert_eq!(calls.so_far().await, [""; 0], "in quarantine");
    healed.store(true, Relaxed);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut told = calls.so_far().await;
    told.sort_unstable();
    assert_eq!(told, ["added ns/bad0", "added ns/bad1", "added ns/bad2", "added ns/good"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_that_the_predicates_drop_is_not_delivered() {
    let test = TestPlugin::new().await;
    let predicates = json!({"predicates": [{"type": "fieldChanged", "path": "/data/x"}]});
    let (component, mut calls) = handler("sha256:h", predicates);
    test.run(component).await;
    test.server.create("ns/a", json!({"data": {"x": "1"}}));
    assert_eq!(calls.so_far().await, ["added ns/a"]);
    test.server.update("ns/a", json!({"data": {"x": "1", "y": "1"}}));
    assert_eq!(calls.so_far().await, [""; 0]);
    test.server.update("ns/a", json!({"data": {"x": "2"}}));
    assert_eq!(calls.so_far().await, ["updated ns/a"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn events_that_the_old_pump_did_not_deliver_come_first_in_the_new_generation() {
    let test = TestPlugin::new().await;
    let (old, mut old_calls, permits) = held("sha256:old");
    test.run_with(old, json!({"onReload": "keep"})).await;
    test.server.create("ns/0", json!({}));
    assert_eq!(old_calls.so_far().await, ["added ns/0"], "in the call");
    for n in 1..3 {
        test.server.create(&format!("ns/{n}"), json!({}));
    }
    let (new, mut new_calls, new_permits) = held("sha256:new");
    test.run_with(new, json!({"onReload": "keep"})).await;
    new_permits.add_permits(10);
    assert_eq!(new_calls.so_far().await, [""; 0], "the old call is not over");
    permits.add_permits(10);
    assert_eq!(new_calls.so_far().await, ["added ns/1", "added ns/2"]);
    test.server.update("ns/0", json!({"data": {}}));
    assert_eq!(new_calls.so_far().await, ["updated ns/0"]);
    assert_eq!(old_calls.so_far().await, [""; 0]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_call_faults_is_delivered_again_by_the_generation_that_replaces_it() {
    let test = TestPlugin::new().await;
    let keep = json!({"onReload": "keep"});
    test.run_with(handler("sha256:good", json!({})).0, keep.clone()).await;
    let (bad, mut calls) = handler("sha256:bad", json!({}));
    let bad = bad.script(|call| async move {
        if call.keys == ["ns/bad"] { Err(fault(FaultKind::Trap)) } else { done(&call) }
    });
    test.run_with(bad, keep.clone()).await;
    test.server.create("ns/bad", json!({}));
    assert_eq!(calls.so_far().await, ["added ns/bad"]);
    test.server.create("ns/good", json!({}));
    assert_eq!(calls.so_far().await, ["added ns/good"]);
    let (next, mut calls) = handler("sha256:next", json!({}));
    test.run_with(next, keep).await;
    assert_eq!(calls.so_far().await, ["added ns/bad"]);
    test.end().await;
}

/// Runs a good version, then one that faults on the event `bad`; `events` happen, and a third version takes over. Returns the
/// calls of the third version.
async fn delivered_to_the_next_version(
    more: Value,
    bad: &'static str,
    events: impl Fn(&TestPlugin),
) -> Vec<String> {
    let test = TestPlugin::new().await;
    let keep = json!({"onReload": "keep"});
    test.run_with(handler("sha256:good", more.clone()).0, keep.clone()).await;
    let (faulty, mut calls) = handler("sha256:bad", more.clone());
    let faulty = faulty.script(move |call| async move {
        let mut delivered = call.reasons.iter().zip(&call.keys);
        if delivered.any(|(what, key)| format!("{} {key}", what.join("+")) == bad) {
            Err(fault(FaultKind::Trap))
        } else {
            done(&call)
        }
    });
    test.run_with(faulty, keep.clone()).await;
    events(&test);
    assert!(!calls.so_far().await.is_empty());
    let (next, mut calls) = handler("sha256:next", more);
    test.run_with(next, keep).await;
    let delivered = calls.so_far().await;
    test.end().await;
    delivered
}

#[tokio::test(start_paused = true)]
async fn after_faults_no_older_event_of_an_object_comes_after_a_newer_one() {
    let update = |test: &TestPlugin| test.server.update("ns/a", json!({"data": {"x": "2"}}));
    let every = json!({"delivery": "every"});
    // The bad version faulted at the addition, and the update waits behind it: both are told in their order.
    let events = delivered_to_the_next_version(every.clone(), "added ns/a", |test| {
        test.server.create("ns/a", json!({}));
        update(test);
    });
    assert_eq!(events.await, ["added ns/a", "updated ns/a"]);
    // An object that came and went does so again.
    let events = delivered_to_the_next_version(every, "added ns/a", |test| {
        test.server.create("ns/b", json!({}));
        test.server.create("ns/a", json!({}));
        test.server.delete("ns/a");
        test.server.create("ns/c", json!({}));
    });
    assert_eq!(events.await, ["added ns/a", "deleted ns/a"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_host_in_a_delivery_loses_no_other_event() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler("sha256:h", json!({}));
    let component = component.script(|call| async move {
        assert!(!call.keys.contains(&"ns/bug".to_owned()), "a bug");
        done(&call)
    });
    test.run(component).await;
    for key in ["ns/a", "ns/bug", "ns/b"] {
        test.server.create(key, json!({}));
        assert_eq!(calls.so_far().await, [format!("added {key}")]);
    }
    assert_eq!(test.plugin.metrics().panics.get(), 1);
    let error = test.plugin.status().last_error.unwrap();
    assert!(error.starts_with("bug of the host: the delivery of an event panicked"), "{error}");
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
    assert_eq!(calls.so_far().await, ["added ns/a"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_retired_plugin_ends_its_pump_with_the_call() {
    let test = TestPlugin::new().await;
    let (component, mut calls, permits) = held("sha256:h");
    test.run(component).await;
    test.server.create("ns/a", json!({}));
    assert_eq!(calls.so_far().await, ["added ns/a"]);
    test.server.create("ns/b", json!({}));
    assert_eq!(calls.so_far().await, [""; 0]);
    test.plugin.retire();
    permits.add_permits(10);
    test.plugin.ended().await;
    assert_eq!(calls.so_far().await, [""; 0]);
}

/// A handler with three watches of ConfigMaps, by their label `app`, and two instances.
fn three_watches(digest: &'static str) -> (FakeComponent, Calls) {
    let watch = |app| json!({"name": app, "version": "v1", "kind": "ConfigMap", "labelSelector": app, "delivery": "every"});
    let watches = ["app=a", "app=b", "app=c"].map(watch);
    FakeComponent::new(digest, World::EventHandler, json!({"watches": watches}))
}

#[tokio::test(start_paused = true)]
async fn pumps_that_wait_out_a_quarantine_leave_the_instances_to_its_probe_and_all_events_are_delivered() {
    let test = TestPlugin::new().await;
    let (permits, healed) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
    let (held, is_healed) = (Arc::clone(&permits), Arc::clone(&healed));
    let (component, mut calls) = three_watches("sha256:h");
    let component = component.script(move |call| {
        let (permits, healed) = (Arc::clone(&held), Arc::clone(&is_healed));
        async move {
            if call.function == "on-synced" {
                return done(&call);
            }
            permits.acquire().await.unwrap().forget();
            if healed.load(Relaxed) { done(&call) } else { Err(fault(FaultKind::Trap)) }
        }
    });
    test.run(component).await;
    let create = |app: &str, n: usize| {
        test.server.create(&format!("ns/{app}{n}"), json!({"metadata": {"labels": {"app": app}}}));
    };
    (0..5).for_each(|n| ["a", "b"].iter().for_each(|app| create(app, n)));
    let is_told = |call: &&String| call.starts_with("on-events ");
    assert_eq!(calls.calls_so_far().await.iter().filter(is_told).count(), 2, "both instances are in a call");
    // Both of many events; then the third event alone begins the quarantine while a fourth call is under way.
    permits.add_permits(2 + 4);
    let alone = calls.calls_so_far().await;
    let count = alone.iter().filter(is_told).count();
    assert_eq!((count, test.plugin.metrics().quarantines.get()), (4, 1), "{alone:?}");
    create("c", 0);
    assert_eq!(calls.so_far().await, [""; 0], "three pumps wait for the end of the quarantine");
    let mut leases = [WarmInstance::default(), WarmInstance::default()];
    for lease in &mut leases {
        assert!(lease.lease(&test.plugin).now_or_never().is_some(), "a pump holds it while it waits");
    }
    drop(leases);
    healed.store(true, Relaxed);
    permits.add_permits(100);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut told = calls.so_far().await;
    told.sort();
    let keys = (0..5).flat_map(|n| [format!("added ns/a{n}"), format!("added ns/b{n}")]);
    let mut wanted: Vec<_> = keys.chain(["added ns/c0".to_owned()]).collect();
    wanted.sort();
    assert_eq!(told, wanted);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pump_that_waited_for_an_instance_makes_no_call_for_a_generation_that_was_replaced_meanwhile() {
    let test = TestPlugin::new().await;
    let (old, mut old_calls) = handler("sha256:old", json!({}));
    test.run_with(old, json!({"onReload": "keep"})).await;
    let mut leases = [WarmInstance::default(), WarmInstance::default()];
    for lease in &mut leases {
        lease.lease(&test.plugin).await;
    }
    test.server.create("ns/a", json!({}));
    assert_eq!(old_calls.so_far().await, [""; 0], "no instance is free");
    let (new, mut new_calls) = handler("sha256:new", json!({}));
    test.run_with(new, json!({"onReload": "keep"})).await;
    drop(leases);
    assert_eq!(new_calls.so_far().await, ["added ns/a"]);
    assert_eq!(old_calls.so_far().await, [""; 0]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_call_waited_in_vain_is_delivered_again_and_holds_others_back_for_a_time() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler("sha256:h", json!({"delivery": "every"}));
    let component = component.script(|call| async move {
        if call.keys == ["ns/stuck"] { Err(fault(FaultKind::Waiting)) } else { done(&call) }
    });
    test.run(component).await;
    test.server.create("ns/stuck", json!({}));
    assert_eq!(calls.so_far().await, ["added ns/stuck"]);
    test.server.create("ns/next", json!({}));
    assert_eq!(calls.so_far().await, [""; 0]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let told = calls.so_far().await;
    assert_eq!(told.iter().position(|told| told == "added ns/next"), Some(4), "{told:?}");
    assert!(told.len() > 5 && told.iter().filter(|told| *told != "added ns/stuck").count() == 1, "{told:?}");
    assert_eq!(test.plugin.status().last_error, None);
    test.end().await;
}

/// Two informers have the objects of one watch, and the component has instances enough for both.
#[tokio::test(start_paused = true)]
async fn a_watch_with_two_informers_has_one_call_at_a_time_over_a_reload_too() {
    let test = TestPlugin::new().await;
    let spec = || json!({"permissions": reads(&["a", "b"], &[])});
    let handler = || {
        let watch =
            json!({"version": "v1", "kind": "ConfigMap", "delivery": "every", "map": {"type": "handler"}});
        let permits = Arc::new(Semaphore::new(0));
        let description = json!({"watches": [watch], "maxConcurrentReconciles": 4});
        let (component, calls) = FakeComponent::new("sha256:h", World::Controller, description);
        (component.held(&permits), calls, permits)
    };
    let (component, mut calls, permits) = handler();
    test.run_with(component, spec()).await;
    ["a/1", "b/1"].iter().for_each(|key| _ = test.server.create(key, json!({})));
    let mut last = calls.so_far().await;
    ["a/2", "b/2"].iter().for_each(|key| _ = test.server.create(key, json!({})));
    let mut seen = last.clone();
    for n in 0..3 {
        assert_eq!(last.len(), 1, "call {n}: {last:?}");
        permits.add_permits(1);
        last = calls.so_far().await;
        seen.extend(last.clone());
    }
    assert_eq!(last.len(), 1, "{last:?}");
    // The last event is in a call of the old generation, whichever pump has it.
    let (component, mut new_calls, new_permits) = handler();
    test.run_with(component, spec()).await;
    new_permits.add_permits(100);
    let both = |key: &str| json!({"metadata": {"labels": {"of": key}}});
    test.server.update("a/1", both("a"));
    test.server.update("b/1", both("b"));
    assert_eq!(new_calls.so_far().await, [""; 0], "a call of the old generation goes on: {last:?}");
    permits.add_permits(1);
    let mut after = new_calls.so_far().await;
    after.retain(|call| call.starts_with("updated"));
    after.sort_unstable();
    assert_eq!(after, ["updated a/1", "updated b/1"]);
    seen.sort_unstable();
    assert_eq!(seen, ["added a/1", "added a/2", "added b/1", "added b/2"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_call_that_tells_of_the_first_list_takes_its_turn() {
    let test = TestPlugin::new().await;
    for key in ["a/1", "b/1"] {
        test.server.create(key, json!({}));
    }
    let watch = json!({"version": "v1", "kind": "ConfigMap", "map": {"type": "handler"}});
    let description = json!({"watches": [watch], "maxConcurrentReconciles": 4});
    let (component, mut calls) = FakeComponent::new("sha256:h", World::Controller, description);
    let permits = Arc::new(Semaphore::new(0));
    let spec = json!({"permissions": reads(&["a", "b"], &[])});
    let held = Arc::clone(&permits);
    let component = component.script(move |call| {
        let held = Arc::clone(&held);
        async move {
            held.acquire().await.unwrap().forget();
            done(&call)
        }
    });
    test.run_with(component, spec).await;
    let mut delivered = Vec::new();
    for _ in 0..2 {
        let begun = calls.calls_so_far().await;
        assert_eq!(begun.len(), 1, "{begun:?}");
        delivered.extend(begun);
        permits.add_permits(1);
    }
    delivered.sort_unstable();
    assert_eq!(delivered, ["on-events a/1", "on-events b/1"]);
    let told = calls.calls_so_far().await;
    assert!(matches!(&told[..], [call] if call.starts_with("on-synced ")), "{told:?}");
    for key in ["a/2", "b/2"] {
        test.server.create(key, json!({}));
    }
    assert_eq!(calls.calls_so_far().await, [""; 0], "it goes on");
    permits.add_permits(1);
    assert_eq!(calls.calls_so_far().await.len(), 1);
    permits.add_permits(1);
    assert_eq!(calls.calls_so_far().await.len(), 1);
    permits.add_permits(1);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn pumps_that_take_turns_share_one_instance() {
    let test = TestPlugin::on(&TestHost::with_memory(1 << 20)).await;
    let (component, mut calls) = handler("sha256:h", json!({"delivery": "every"}));
    let spec = json!({"permissions": reads(&["a", "b"], &[])});
    // The other pump begins to wait while a call goes on.
    let component = component.script(|call| async move {
        tokio::task::yield_now().await;
        done(&call)
    });
    let component = test.run_with(component, spec).await;
    // A call has one event of an object, so each pump has several calls to make with one lease.
    for n in 0..50 {
        for key in [format!("a/{n}"), format!("b/{n}")] {
            test.server.create(&key, json!({}));
            test.server.update(&key, json!({"metadata": {"labels": {"n": "1"}}}));
        }
        if n % 7 == 0 {
            settle().await;
        }
    }
    let calls = calls.calls_so_far().await;
    let delivered: usize = calls
        .iter()
        .filter_map(|call| call.strip_prefix("on-events "))
        .map(|keys| keys.split(',').count())
        .sum();
    assert_eq!((delivered, component.instances()), (200, 1), "{calls:?}");
    test.end().await;
}
