//! Panics of the host in a worker: no key is lost.

use super::*;
use crate::testing::panics::panic_at;

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_host_in_a_round_gives_its_keys_back_and_is_counted() {
    let test = TestPlugin::new().await;
    let (component, mut calls) =
        FakeComponent::new("sha256:b", World::BatchReconciler, json!({"maxBatch": 2}));
    let panicked = Arc::new(AtomicBool::new(false));
    let component = component.script(move |call| {
        let panics = call.keys == ["ns/2", "ns/3"] && !panicked.swap(true, Relaxed);
        async move {
            assert!(!panics, "a bug");
            done(&call)
        }
    });
    test.run(component).await;
    add_many(&test, 6);
    calls.so_far().await;
    let status = test.plugin.status();
    assert_eq!(status.last_error.as_deref(), Some("bug of the host: a reconcile panicked: a bug"));
    assert_eq!((test.plugin.metrics().panics.get(), test.plugin.metrics().active_workers.get()), (1, 0));
    tokio::time::sleep(SECOND).await;
    assert_eq!(test.plugin.metrics().success.get(), 6);
    assert_eq!(test.plugin.queue().stats().unfinished_work, Duration::ZERO);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn keys_with_an_outcome_keep_it_when_the_host_panics_while_it_records_others() {
    let test = TestPlugin::new().await;
    let (component, mut calls) =
        FakeComponent::new("sha256:b", World::BatchReconciler, json!({"maxBatch": 3}));
    let component = component.script(|call| async move {
        Ok(call
            .keys
            .iter()
            .map(|key| if key == "ns/1" { failure(true, None) } else { Ok(Outcome::Done) })
            .collect())
    });
    test.run(component).await;
    {
        // In the log of the failure, which follows the outcomes of all keys.
        let _log = panic_at("reconcile_failed", 1);
        add_many(&test, 3);
        assert_eq!(calls.so_far().await, ["reconcile-many ns/0,ns/1,ns/2"]);
    }
    tokio::time::sleep(SECOND * 60).await;
    let metrics = test.plugin.metrics();
    assert_eq!((metrics.panics.get(), metrics.success.get(), metrics.error.get()), (1, 2, 1));
    assert_eq!(calls.so_far().await, [""; 0], "called again");
    assert_eq!(test.plugin.queue().stats().unfinished_work, Duration::ZERO);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_worker_outside_of_calls_gives_its_keys_back_and_another_worker_goes_on() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = FakeComponent::reconciler();
    let component = component.script(|call| async move {
        if call.attempts == [0] { Err(fault(FaultKind::Trap)) } else { done(&call) }
    });
    test.run(component).await;
    add_many(&test, 3);
    {
        // In the records after the third fault, which are not of a call.
        let _log = panic_at("plugin_quarantined", 1);
        assert_eq!(calls.so_far().await.len(), 3);
    }
    assert_eq!(test.plugin.metrics().panics.get(), 1);
    let error = test.plugin.status().last_error.unwrap();
    assert!(error.starts_with("bug of the host: a worker panicked: "), "{error}");
    assert_eq!(test.plugin.queue().stats().unfinished_work, Duration::ZERO, "a key is still in progress");
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!((test.plugin.metrics().success.get(), test.plugin.workers().running()), (3, 0));
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_at_one_object_of_a_first_list_loses_that_object_alone() {
    let test = TestPlugin::new().await;
    for n in 0..700 {
        test.server.create(&format!("ns/a{n}"), json!({"data": {"refs": [format!("ns/k{n}")]}}));
    }
    // More keys than the limit allows: the host writes a line about it.
    test.server.create("ns/many", json!({"data": {"refs": ["ns/x", "ns/y", "ns/z"]}}));
    let map = json!({"type": "field", "path": "/data/refs/[*]"});
    let description = json!({"watches": [{"version": "v1", "kind": "ConfigMap", "map": map}]});
    let (component, mut calls) = FakeComponent::new("sha256:a", World::Reconciler, description);
    {
        let _log = panic_at("data_limit_exceeded", 1);
        test.run_with(component, json!({"limits": {"mappedKeys": 2}})).await;
        tokio::time::sleep(SECOND * 60).await;
    }
    let keys: std::collections::BTreeSet<String> = calls.so_far().await.into_iter().collect();
    let missing: Vec<_> = (0..700).filter(|n| !keys.contains(&format!("reconcile ns/k{n}"))).collect();
    assert_eq!(missing, [0; 0]);
    assert_eq!(test.plugin.metrics().panics.get(), 1);
    assert!(test.plugin.status().last_error.is_some_and(|error| error.contains("a worker panicked: a bug")));
    test.end().await;
}
