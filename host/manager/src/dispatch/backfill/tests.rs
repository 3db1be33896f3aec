//! Keys of cached objects come little by little, and none is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pilothouse_plugin::World;
use proptest::prelude::*;
use serde_json::json;
use tokio::sync::Semaphore;

use super::*;
use crate::testing::{Calls, FakeComponent, TestPlugin, done, settle};

/// A reconciler of ConfigMaps whose calls each wait for a permit.
fn held(digest: &'static str, permits: &Arc<Semaphore>, concurrent: u32) -> (FakeComponent, Calls) {
    let description = json!({
        "watches": [{"version": "v1", "kind": "ConfigMap"}],
        "maxConcurrentReconciles": concurrent,
    });
    let (component, calls) = FakeComponent::new(digest, World::Reconciler, description);
    let component = component.held(permits);
    (component, calls)
}

fn create_all(test: &TestPlugin, count: usize) {
    (0..count).for_each(|n| _ = test.server.create(&format!("ns/{n}"), json!({})));
}

#[tokio::test(start_paused = true)]
async fn the_queue_holds_some_keys_of_a_long_list_at_a_time_and_all_are_reconciled() {
    let test = TestPlugin::new().await;
    let count = PORTION * 5;
    create_all(&test, count);
    let permits = Arc::new(Semaphore::new(0));
    let (component, mut calls) = held("sha256:a", &permits, 1);
    test.run(component).await;
    let mut seen = BTreeSet::new();
    let mut most = 0;
    while seen.len() < count {
        assert!(seen.insert(calls.next_keys().await));
        most = most.max(test.plugin.queue().len());
        permits.add_permits(1);
    }
    assert!((1..PORTION + 100).contains(&most), "{most} keys waited at once");
    assert_eq!(calls.so_far().await, [""; 0]);
    assert_eq!(test.plugin.backfill().left.lock().parts.capacity(), 0, "it holds no memory any more");
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_goes_before_the_rest_of_a_long_list() {
    let test = TestPlugin::new().await;
    create_all(&test, PORTION * 3);
    let permits = Arc::new(Semaphore::new(0));
    let (component, mut calls) = held("sha256:a", &permits, 1);
    test.run(component).await;
    calls.next().await;
    test.server.create("ns/new", json!({}));
    settle().await;
    permits.add_permits(1);
    assert_eq!(calls.next_keys().await, ["ns/new"]);
    permits.add_permits(PORTION * 5);
    assert_eq!(calls.so_far().await.len(), PORTION * 3 - 1);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_comes_again_and_again_does_not_hold_up_a_list() {
    let test = TestPlugin::new().await;
    create_all(&test, PORTION * 2);
    let description = json!({"watches": [{"version": "v1", "kind": "ConfigMap"}]});
    let (component, mut calls) = FakeComponent::new("sha256:a", World::Reconciler, description);
    let component = component.script(|call| async move {
        let again = call.keys == ["ns/again"];
        let outcome = pilothouse_engine::Outcome::RequeueAfter(Duration::ZERO);
        if again { Ok(vec![Ok(outcome)]) } else { done(&call) }
    });
    test.add("ns/again");
    test.run(component).await;
    let mut left = PORTION * 2;
    while left > 0 {
        left -= usize::from(calls.next_keys().await != ["ns/again"]);
    }
    test.plugin.retire();
    test.plugin.ended().await;
}

/// The longest that an object of the first list waits for its call, while a key that comes each second has calls of five.
async fn longest_wait_beside_a_schedule(concurrent: u32) -> Duration {
    let test = TestPlugin::new().await;
    create_all(&test, 10);
    let description = json!({
        "watches": [{"version": "v1", "kind": "ConfigMap"}],
        "maxConcurrentReconciles": concurrent,
        "schedules": [{"every": "1s", "key": "ns/tick"}],
    });
    let (component, mut calls) = FakeComponent::new("sha256:a", World::Reconciler, description);
    let component = component.script(|call| async move {
        if call.keys == ["ns/tick"] {
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        done(&call)
    });
    test.add("ns/tick");
    let began = tokio::time::Instant::now();
    test.run(component).await;
    let mut left = 10;
    while left > 0 {
        left -= usize::from(calls.next_keys().await != ["ns/tick"]);
    }
    let waited = began.elapsed();
    test.plugin.retire();
    test.plugin.ended().await;
    waited
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_the_first_list_are_called_at_once_while_a_worker_is_free() {
    let waited = longest_wait_beside_a_schedule(16).await;
    assert!(waited < Duration::from_secs(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reload_that_keeps_the_queue_goes_on_with_the_list_of_the_generation_before() {
    let test = TestPlugin::new().await;
    let count = PORTION * 3;
    create_all(&test, count);
    let permits = Arc::new(Semaphore::new(0));
    let keep = json!({"onReload": "keep"});
    let (old, mut calls) = held("sha256:old", &permits, 1);
    test.run_with(old, keep.clone()).await;
    let mut seen = BTreeSet::from([calls.next_keys().await]);
    let (new, mut calls) = held("sha256:new", &permits, 1);
    test.run_with(new, keep).await;
    permits.add_permits(count * 2);
    while seen.len() < count {
        seen.insert(calls.next_keys().await);
    }
    assert_eq!(calls.so_far().await, [""; 0]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_retired_plugin_adds_nothing_more() {
    let test = TestPlugin::new().await;
    create_all(&test, PORTION * 3);
    let permits = Arc::new(Semaphore::new(0));
    let (component, mut calls) = held("sha256:a", &permits, 1);
    test.run(component).await;
    calls.next().await;
    permits.add_permits(PORTION * 5);
    test.end().await;
    assert!(!test.plugin.backfill().is_pending());
    assert!(calls.so_far().await.len() < PORTION);
}

#[derive(Debug, Clone)]
enum Step {
    Change(usize),
    Delete(usize),
    Reload(bool),
    Call(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..PORTION * 2).prop_map(Step::Change),
        2 => (0..PORTION * 2).prop_map(Step::Delete),
        1 => any::<bool>().prop_map(Step::Reload),
        4 => (1..PORTION).prop_map(Step::Call),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Objects come, change and go, and generations take over, while a long list is under way: each object that exists at
    /// the end was reconciled after its last change, and after the last reload that begins anew.
    #[test]
    fn every_object_is_reconciled_after_its_last_change(
        steps in prop::collection::vec(step(), 1..30),
        concurrent in 1_u32..4,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let test = TestPlugin::new().await;
            create_all(&test, PORTION + 50);
            // When each object that exists was changed last, and when each was called last, in numbers of steps.
            let mut changed: BTreeMap<usize, usize> = (0..PORTION + 50).map(|n| (n, 0)).collect();
            let mut called: BTreeMap<usize, usize> = BTreeMap::new();
            let permits = Arc::new(Semaphore::new(0));
            let (component, mut calls) = held("sha256:a", &permits, concurrent);
            test.run(component).await;
            for (number, step) in (1..).zip(steps) {
                match step {
                    Step::Change(n) if changed.contains_key(&n) => {
                        test.server.update(&format!("ns/{n}"), json!({"data": {"x": number.to_string()}}));
                        changed.insert(n, number);
                    }
                    Step::Change(n) => {
                        test.server.create(&format!("ns/{n}"), json!({}));
                        changed.insert(n, number);
                    }
                    Step::Delete(n) if changed.remove(&n).is_some() => _ = test.server.delete(&format!("ns/{n}")),
                    Step::Delete(_) => {}
                    Step::Reload(keeps) => {
                        let spec = if keeps { json!({"onReload": "keep"}) } else { json!({}) };
                        // Calls of the generation before end with it.
                        permits.add_permits(10);
                        note(&mut calls, &mut called, number).await;
                        let (component, next) = held("sha256:a", &permits, concurrent);
                        test.run_with(component, spec).await;
                        calls = next;
                        if !keeps {
                            changed.values_mut().for_each(|at| *at = number);
                        }
                    }
                    Step::Call(count) => permits.add_permits(count),
                }
                // A call that began before the change does not count.
                settle().await;
                note(&mut calls, &mut called, number).await;
            }
            permits.add_permits(100_000);
            note(&mut calls, &mut called, usize::MAX).await;
            for (n, at) in changed {
                prop_assert!(called.get(&n).is_some_and(|called| *called >= at), "{n} was changed in step {at}");
            }
            test.end().await;
            Ok(())
        })?;
    }
}

/// Records the calls up to a step.
async fn note(calls: &mut Calls, called: &mut BTreeMap<usize, usize>, step: usize) {
    for call in calls.so_far().await {
        let number = call.trim_start_matches("reconcile ns/").parse().unwrap();
        called.insert(number, step);
    }
}
