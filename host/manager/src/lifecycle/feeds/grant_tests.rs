//! Which grants hold for what was taken in before a reload: those that are in force when it is delivered.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_engine::{Failure, FaultKind, Outcome};
use pilothouse_plugin::World;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::testing::{Answers, Calls, FakeComponent, GuestCall, TestPlugin, fault, reads};

/// A component with a watch that is mapped to the objects themselves and a watch of a handler. Each call waits for a permit.
fn held(permits: &Arc<Semaphore>) -> (FakeComponent, Calls) {
    let watch =
        |map: &str| json!({"version": "v1", "kind": "ConfigMap", "delivery": "every", "map": {"type": map}});
    let mut mapped = watch("self");
    mapped.as_object_mut().unwrap().remove("delivery");
    let description = json!({"watches": [mapped, watch("handler")]});
    let (component, calls) = FakeComponent::new("sha256:a", World::Controller, description);
    let component = component.held(permits);
    (component, calls)
}

fn spec(on_reload: &str, permissions: Value) -> Value {
    json!({"onReload": on_reload, "permissions": permissions})
}

fn sorted(mut calls: Vec<String>) -> Vec<String> {
    calls.sort_unstable();
    calls
}

#[tokio::test(start_paused = true)]
async fn what_waits_while_a_reload_narrows_the_grants_is_not_shown() {
    for on_reload in ["resync", "keep"] {
        let test = TestPlugin::new().await;
        let permits = Arc::new(Semaphore::new(0));
        let (old, mut calls) = held(&permits);
        test.run_with(old, spec(on_reload, reads(&["*"], &[]))).await;
        // The first of each watch is in a call, and the others wait in the queue and in the ring.
        test.server.create("a/0", json!({}));
        assert_eq!(sorted(calls.so_far().await), ["added a/0", "reconcile a/0"]);
        for key in ["b/1", "a/2", "b/2"] {
            test.server.create(key, json!({}));
        }
        test.server.delete("b/1");
        assert_eq!(calls.so_far().await, [""; 0]);
        let (new, mut calls) = held(&permits);
        test.run_with(new, spec(on_reload, reads(&["a"], &[]))).await;
        permits.add_permits(100);
        let shown = sorted(calls.so_far().await);
        assert!(shown.contains(&"added a/2".to_owned()), "{on_reload}: {shown:?}");
        assert!(shown.contains(&"reconcile a/2".to_owned()), "{on_reload}: {shown:?}");
        assert!(shown.iter().all(|call| !call.contains(" b/")), "{on_reload}: {shown:?}");
        test.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reload_that_widens_the_grants_shows_what_is_newly_visible_and_goes_on_with_it() {
    for (on_reload, narrow, wide) in [
        ("resync", reads(&["a"], &[]), reads(&["a", "b"], &[])),
        ("keep", reads(&["a"], &[]), reads(&["a", "b"], &[])),
        ("keep", reads(&["a"], &[]), reads(&["*"], &[])),
        ("keep", reads(&["a", "b"], &["2"]), reads(&["a", "b"], &[])),
    ] {
        let test = TestPlugin::new().await;
        let permits = Arc::new(Semaphore::new(1000));
        test.server.create("a/1", json!({}));
        test.server.create("b/1", json!({}));
        let (old, mut calls) = held(&permits);
        test.run_with(old, spec(on_reload, narrow.clone())).await;
        let before = sorted(calls.so_far().await);
        let (new, mut calls) = held(&permits);
        test.run_with(new, spec(on_reload, wide)).await;
        let shown = [before, calls.so_far().await].concat();
        for call in ["added b/1", "reconcile b/1"] {
            assert!(shown.contains(&call.to_owned()), "{on_reload} {narrow}: {shown:?}");
        }
        test.server.update("b/1", json!({"data": {}}));
        assert_eq!(sorted(calls.so_far().await), ["reconcile b/1", "updated b/1"], "{on_reload} {narrow}");
        test.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_waits_for_another_try_is_dropped_when_its_object_is_no_longer_granted() {
    let tries: [fn(&GuestCall) -> Answers; 3] = [
        |_| Err(fault(FaultKind::Trap)),
        |_| Ok(vec![Err(Failure { message: "no".to_owned(), terminal: false, retry_after: None })]),
        |_| Ok(vec![Ok(Outcome::RequeueAfter(Duration::from_secs(60)))]),
    ];
    for answer in tries {
        let test = TestPlugin::new().await;
        ["a/1", "b/1"].iter().for_each(|key| _ = test.server.create(key, json!({})));
        let description = json!({"watches": [{"version": "v1", "kind": "ConfigMap"}]});
        let watching = || FakeComponent::new("sha256:a", World::Reconciler, description.clone());
        let (old, mut calls) = watching();
        let old = old.script(move |call| async move { answer(&call) });
        test.run_with(old, spec("resync", reads(&["*"], &[]))).await;
        assert_eq!(sorted(calls.so_far().await), ["reconcile a/1", "reconcile b/1"]);
        let (new, mut calls) = watching();
        test.run_with(new, spec("resync", reads(&["a"], &[]))).await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        let shown = calls.so_far().await;
        assert!(!shown.is_empty() && shown.iter().all(|call| call == "reconcile a/1"), "{shown:?}");
        test.end().await;
    }
}

/// Permissions at random, never none.
fn random_permissions(rng: &mut StdRng) -> (Vec<&'static str>, Vec<&'static str>) {
    let mut some = |of: &[&'static str]| -> Vec<&'static str> {
        of.iter().copied().filter(|_| rng.random_bool(0.5)).collect()
    };
    let (namespaces, names) = (some(&["a", "b", "c"]), some(&["x", "y"]));
    (if namespaces.is_empty() { vec!["*"] } else { namespaces }, names)
}

/// The calls that no grant of the present covers.
fn not_granted(calls: &[String], (namespaces, names): &(Vec<&str>, Vec<&str>)) -> Vec<String> {
    let is_granted = |call: &&String| {
        let key = call.split_once(' ').unwrap().1;
        let (namespace, name) = key.split_once('/').unwrap();
        (namespaces.contains(&"*") || namespaces.contains(&namespace))
            && (names.is_empty() || names.contains(&name))
    };
    calls.iter().filter(|call| !is_granted(call)).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn over_200_random_reloads_under_churn_no_object_is_shown_that_is_no_longer_granted() {
    let mut rng = StdRng::seed_from_u64(18);
    let test = TestPlugin::new().await;
    let permits = Arc::new(Semaphore::new(0));
    let mut granted = (vec!["*"], vec![]);
    let (first, calls) = held(&permits);
    test.run(first).await;
    let mut channels = vec![calls];
    let mut there = std::collections::BTreeSet::new();
    let (mut shown, mut reloads) = (0, 0);
    while reloads < 200 {
        let key = format!(
            "{}/{}",
            ["a", "b", "c"][rng.random_range(0..3)],
            ["x", "y", "z"][rng.random_range(0..3)]
        );
        match rng.random_range(0..6) {
            0 if there.remove(&key) => _ = test.server.delete(&key),
            0..=3 if there.contains(&key) => {
                _ = test.server.update(&key, json!({"data": {"n": rng.random::<u8>().to_string()}}));
            }
            0..=3 => {
                there.insert(key.clone());
                test.server.create(&key, json!({}));
            }
            4 => permits.add_permits(rng.random_range(0..4)),
            _ => {
                reloads += 1;
                let next = random_permissions(&mut rng);
                let on_reload = if rng.random_bool(0.5) { "keep" } else { "resync" };
                let (component, calls) = held(&permits);
                test.run_with(component, spec(on_reload, reads(&next.0, &next.1))).await;
                // What began up to the switch, which nothing has run since.
                let before: Vec<String> = channels.iter_mut().flat_map(Calls::begun).collect();
                assert_eq!(not_granted(&before, &granted), [""; 0], "before reload {reloads} to {next:?}");
                granted = next;
                channels.push(calls);
            }
        }
        if rng.random_bool(0.5) {
            crate::testing::settle().await;
        }
        let begun: Vec<String> = channels.iter_mut().flat_map(Calls::begun).collect();
        shown += begun.len();
        assert_eq!(not_granted(&begun, &granted), [""; 0], "after reload {reloads} to {granted:?}");
    }
    assert!(shown > 200, "{shown}");
    // In the end everything is shown to whom it is granted.
    let (last, mut calls) = held(&permits);
    test.run_with(last, spec("resync", reads(&["*"], &[]))).await;
    permits.add_permits(10_000);
    let seen = calls.so_far().await;
    for key in there {
        for call in [format!("added {key}"), format!("reconcile {key}")] {
            assert!(seen.contains(&call), "{call}: {seen:?}");
        }
    }
    test.end().await;
}
