//! Event handlers: batches, failures and their return, and the end of the first list.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_engine::{Failure, FaultKind, Outcome};
use pilothouse_plugin::World;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::testing::{Calls, FakeComponent, GuestCall, TestPlugin, done, fault};

/// A handler of ConfigMaps, in a watch of this name.
fn handler(digest: &'static str) -> (FakeComponent, Calls) {
    let watch = json!({"name": "maps", "version": "v1", "kind": "ConfigMap"});
    FakeComponent::new(digest, World::EventHandler, json!({"watches": [watch]}))
}

fn failure(terminal: bool) -> Failure {
    Failure { message: "no".to_owned(), terminal, retry_after: None }
}

/// The keys of all `on-events` so far, a text for each call.
async fn batches(calls: &mut Calls) -> Vec<String> {
    let begun = calls.calls_so_far().await;
    begun.iter().filter_map(|call| call.strip_prefix("on-events ").map(str::to_owned)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_first_list_comes_in_batches_with_the_name_of_the_watch_and_its_end_is_told_once() {
    let test = TestPlugin::new().await;
    (0..300).for_each(|n| _ = test.server.create(&format!("ns/{n}"), json!({})));
    let (component, mut calls) = handler("sha256:h");
    test.run(component).await;
    let mut keys = BTreeSet::new();
    loop {
        let call: GuestCall = calls.next().await;
        assert_eq!(call.watch, "maps");
        if call.function == "on-synced" {
            break;
        }
        assert!(call.function == "on-events" && call.keys.len() <= 128, "{call:?}");
        keys.extend(call.keys);
    }
    assert_eq!(keys.len(), 300);
    test.server.create("ns/later", json!({}));
    assert_eq!(calls.calls_so_far().await, ["on-events ns/later"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_empty_first_list_is_told() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler("sha256:h");
    test.run(component).await;
    assert_eq!(calls.calls_so_far().await, ["on-synced "]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_event_comes_again_after_its_delay_and_others_do_not_wait_for_it() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler("sha256:h");
    let tries: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let seen = Arc::clone(&tries);
    let component = component.script(move |call| {
        let seen = Arc::clone(&seen);
        async move {
            let answer = |key: &String| {
                if key != "ns/bad" {
                    return Ok(Outcome::Done);
                }
                seen.lock().push(Instant::now());
                if seen.lock().len() < 4 { Err(failure(false)) } else { Ok(Outcome::Done) }
            };
            Ok(call.keys.iter().map(answer).collect())
        }
    });
    test.run(component).await;
    test.server.create("ns/bad", json!({}));
    test.server.create("ns/good", json!({}));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let batches = batches(&mut calls).await;
    assert_eq!(batches.iter().filter(|keys| keys.contains("good")).count(), 1, "{batches:?}");
    let tries: Vec<Instant> = tries.lock().clone();
    // The rate limiter's delays: 5 ms, doubled with each failure.
    let waits: Vec<u128> = tries.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    assert_eq!(tries.len(), 4, "{waits:?}");
    assert!(waits[0] >= 5 && waits[1] >= 10 && waits[2] >= 20 && waits[2] < 100, "{waits:?}");
    assert_eq!(test.plugin.metrics().failed_events.get(), 3);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_event_is_merged_with_the_next_one_of_its_object() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler("sha256:h");
    let fails = Arc::new(AtomicBool::new(true));
    let is_failing = Arc::clone(&fails);
    let component = component.script(move |call| {
        let fails = is_failing.load(Relaxed);
        async move {
            Ok(call
                .keys
                .iter()
                .map(|_| if fails { Err(failure(false)) } else { Ok(Outcome::Done) })
                .collect())
        }
    });
    test.run(component).await;
    test.server.create("ns/a", json!({}));
    // Many failures: the next try is far away.
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(calls.calls_so_far().await.len() > 5);
    fails.store(false, Relaxed);
    test.server.update("ns/a", json!({"data": {"x": "1"}}));
    assert_eq!(calls.calls_so_far().await, ["on-events ns/a"], "with the later event, and at once");
    tokio::time::sleep(Duration::from_secs(10_000)).await;
    assert_eq!(calls.calls_so_far().await, [""; 0]);
    // A deletion after an addition that was told in vain is told as well.
    fails.store(true, Relaxed);
    test.server.create("ns/b", json!({}));
    tokio::time::sleep(Duration::from_secs(100)).await;
    let _ = calls.calls_so_far().await;
    fails.store(false, Relaxed);
    test.server.delete("ns/b");
    assert_eq!(calls.calls_so_far().await, ["on-events ns/b"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_deletion_is_told_again_before_the_object_that_came_after_it() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler("sha256:h");
    let permits = Arc::new(Semaphore::new(0));
    let (held, failures) = (Arc::clone(&permits), Arc::new(AtomicUsize::new(2)));
    let component = component.script(move |call| {
        let (held, failures) = (Arc::clone(&held), Arc::clone(&failures));
        async move {
            if call.function == "on-events" {
                held.acquire().await.unwrap().forget();
            }
            let is_deletion = |reasons: &Vec<&str>| reasons == &["deleted"];
            let answer = |reasons| {
                let fails = is_deletion(reasons)
                    && failures.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_ok();
                if fails { Err(failure(false)) } else { Ok(Outcome::Done) }
            };
            Ok(call.reasons.iter().map(answer).collect())
        }
    });
    test.run(component).await;
    assert_eq!(calls.next().await.function, "on-synced");
    test.server.create("ns/a", json!({}));
    assert_eq!(calls.next().await.reasons, [["added"]]);
    // While the call is under way: both come out of the ring together.
    test.server.delete("ns/a");
    test.server.create("ns/a", json!({}));
    permits.add_permits(100);
    for wanted in ["deleted", "deleted", "deleted", "added"] {
        assert_eq!(calls.next().await.reasons, [[wanted]]);
    }
    tokio::time::sleep(Duration::from_secs(10_000)).await;
    assert_eq!(calls.calls_so_far().await, [""; 0]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_terminal_failure_drops_its_event() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler("sha256:h");
    let component =
        component.script(|call| async move { Ok(call.keys.iter().map(|_| Err(failure(true))).collect()) });
    test.run(component).await;
    test.server.create("ns/a", json!({}));
    tokio::time::sleep(Duration::from_secs(10_000)).await;
    assert_eq!(batches(&mut calls).await, ["ns/a"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn after_the_fault_of_a_batch_each_event_has_its_own_call_and_the_poisonous_one_comes_again() {
    let test = TestPlugin::new().await;
    for key in ["ns/a", "ns/bad", "ns/c"] {
        test.server.create(key, json!({}));
    }
    let (component, mut calls) = handler("sha256:h");
    let left = Arc::new(AtomicUsize::new(3));
    let faults = Arc::clone(&left);
    let component = component.script(move |call| {
        let is_bad = call.keys.iter().any(|key| key == "ns/bad");
        let faults = is_bad && faults.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        async move { if faults { Err(fault(FaultKind::Trap)) } else { done(&call) } }
    });
    test.run(component).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let batches = batches(&mut calls).await;
    assert_eq!(batches[0].split(',').count(), 3, "{batches:?}");
    let mut alone: Vec<&str> = batches[1..4].iter().map(String::as_str).collect();
    alone.sort_unstable();
    assert_eq!(alone, ["ns/a", "ns/bad", "ns/c"], "{batches:?}");
    assert_eq!(batches[4..], ["ns/bad", "ns/bad"], "until it is handled: {batches:?}");
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_event_goes_to_the_next_generation_at_once() {
    let test = TestPlugin::new().await;
    let (old, mut old_calls) = handler("sha256:old");
    let old = old.script(|call| async move { Ok(call.keys.iter().map(|_| Err(failure(false))).collect()) });
    test.run_with(old, json!({"onReload": "keep"})).await;
    test.server.create("ns/a", json!({}));
    tokio::time::sleep(Duration::from_secs(100)).await;
    let _ = old_calls.calls_so_far().await;
    let (new, mut new_calls) = handler("sha256:new");
    test.run_with(new, json!({"onReload": "keep"})).await;
    let mut calls = new_calls.calls_so_far().await;
    calls.sort_unstable();
    assert_eq!(calls, ["on-events ns/a", "on-synced "]);
    test.end().await;
}
