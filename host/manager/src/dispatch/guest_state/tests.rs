//! State goes from instance to instance, and not where the guest may not be called or its room is wanted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use pilothouse_engine::FaultKind;
use pilothouse_plugin::World;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::testing::{Calls, FakeComponent, IDLE_TTL, TestHost, TestPlugin, done, fault};

/// A handler of ConfigMaps.
fn handler(digest: &'static str) -> (FakeComponent, Calls) {
    let watch = json!({"version": "v1", "kind": "ConfigMap"});
    FakeComponent::new(digest, World::EventHandler, json!({"watches": [watch]}))
}

#[tokio::test(start_paused = true)]
async fn state_goes_from_instance_to_instance_over_idle_time_and_reloads_and_not_after_a_fault() {
    let test = TestPlugin::new().await;
    let with_state = |digest| {
        let (component, calls) = handler(digest);
        let component = component.with_state().script(|call| async move {
            if call.keys == ["ns/bad"] { Err(fault(FaultKind::Trap)) } else { done(&call) }
        });
        (component, calls)
    };
    let (old, mut old_calls) = with_state("sha256:old");
    test.run(old).await;
    assert_eq!(old_calls.calls_so_far().await, ["on-synced "]);
    tokio::time::sleep(IDLE_TTL).await;
    assert_eq!(old_calls.calls_so_far().await, ["save "]);
    test.server.create("ns/a", json!({}));
    assert_eq!(old_calls.calls_so_far().await, ["restore ", "on-events ns/a"]);
    let (new, mut new_calls) = with_state("sha256:new");
    test.run(new).await;
    assert_eq!(old_calls.calls_so_far().await, ["save "]);
    let calls = new_calls.calls_so_far().await;
    assert_eq!(calls[0], "restore ", "{calls:?}");
    assert!(calls[1..].iter().all(|call| call != "restore "), "{calls:?}");
    // The instance that faulted is not asked, and the next one begins without state.
    test.server.create("ns/bad", json!({}));
    let calls = new_calls.calls_so_far().await;
    assert!(calls[0] == "on-events ns/bad" && !calls.contains(&"save ".to_owned()), "{calls:?}");
    assert!(!calls.contains(&"restore ".to_owned()), "{calls:?}");
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_plugin_is_not_asked_for_its_state() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler("sha256:h");
    test.run(component.with_state()).await;
    assert_eq!(calls.calls_so_far().await, ["on-synced "]);
    test.plugin.pause(true);
    tokio::time::sleep(IDLE_TTL * 2).await;
    assert_eq!(calls.calls_so_far().await, [""; 0]);
    test.plugin.pause(false);
    test.server.create("ns/a", json!({}));
    assert_eq!(calls.calls_so_far().await, ["on-events ns/a"], "it goes on without");
    test.end().await;
}

/// Another plugin's instance is made at once, and does not wait until one that is evicted has handed its state over.
#[tokio::test(start_paused = true)]
async fn an_instance_that_makes_room_goes_without_a_call() {
    let host = TestHost::with_memory(1 << 20);
    let (first, second) = (TestPlugin::on(&host).await, TestPlugin::on(&host).await);
    let (component, mut calls) = handler("sha256:first");
    let component = first.run(component.with_state()).await;
    assert_eq!(calls.calls_so_far().await, ["on-synced "]);
    assert!(component.is_mapped());
    let (other, mut other_calls) = handler("sha256:second");
    second.run(other).await;
    assert_eq!(other_calls.calls_so_far().await, ["on-synced "]);
    assert_eq!(calls.calls_so_far().await, [""; 0]);
    assert!(!component.is_mapped(), "its code goes with it");
    first.end().await;
    second.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_worn_out_hands_its_state_over_and_is_replaced() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler("sha256:a");
    test.run(component.with_state().wears_out()).await;
    assert_eq!(calls.calls_so_far().await, ["on-synced "]);
    test.server.create("ns/a", json!({}));
    assert_eq!(calls.calls_so_far().await, ["on-events ns/a", "save "]);
    test.server.create("ns/b", json!({}));
    assert_eq!(calls.calls_so_far().await, ["restore ", "on-events ns/b", "save "]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_hands_its_state_over_counts_until_it_is_gone() {
    let test = TestPlugin::new().await;
    let permits = Arc::new(Semaphore::new(0));
    let (component, mut calls) = handler("sha256:h");
    let may_save = Arc::clone(&permits);
    let component = component.with_state().script(move |call| {
        let may_save = Arc::clone(&may_save);
        async move {
            if call.function == "save" {
                may_save.acquire().await.unwrap().forget();
            }
            done(&call)
        }
    });
    test.run(component).await;
    let used = || (test.plugin.instances().used().memory, test.host.instances.used());
    assert_eq!(calls.calls_so_far().await, ["on-synced "]);
    assert_eq!(used(), (1 << 20, 1 << 20), "idle");
    tokio::time::sleep(IDLE_TTL).await;
    assert_eq!(calls.calls_so_far().await, ["save "]);
    assert_eq!(used(), (1 << 20, 1 << 20), "in its last call");
    permits.add_permits(1);
    assert_eq!(calls.calls_so_far().await, [""; 0]);
    assert_eq!(used(), (0, 0), "gone");
    // The next one is made while the one before hands its state over.
    test.server.create("ns/a", json!({}));
    assert_eq!(calls.calls_so_far().await, ["restore ", "on-events ns/a"]);
    let (new, mut new_calls) = handler("sha256:new");
    test.run(new.with_state()).await;
    assert_eq!(calls.calls_so_far().await, ["save "]);
    assert_eq!(new_calls.calls_so_far().await, [""; 0]);
    assert_eq!(used(), (2 << 20, 2 << 20), "two instances");
    permits.add_permits(1);
    assert_eq!(new_calls.calls_so_far().await[0], "restore ");
    assert_eq!(used(), (1 << 20, 1 << 20), "one of them");
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_has_handed_its_state_over_leaves_its_room_to_the_one_that_waits() {
    // For two instances.
    let host = TestHost::with_memory(2 << 20);
    let (first, second) = (TestPlugin::on(&host).await, TestPlugin::on(&host).await);
    let [may_save, may_end] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
    let (component, mut calls) = handler("sha256:first");
    let permits = Arc::clone(&may_save);
    let component = component.with_state().script(move |call| {
        let permits = Arc::clone(&permits);
        async move {
            if call.function == "save" {
                permits.acquire().await.unwrap().forget();
            }
            done(&call)
        }
    });
    first.run(component).await;
    tokio::time::sleep(IDLE_TTL).await;
    assert_eq!(calls.calls_so_far().await, ["on-synced ", "save "]);
    let two = json!({"maxConcurrentReconciles": 2});
    let (other, mut other_calls) = FakeComponent::new("sha256:second", World::Reconciler, two);
    second.run(other.held(&may_end)).await;
    second.add("ns/a");
    second.add("ns/b");
    assert_eq!(other_calls.calls_so_far().await, ["reconcile ns/a"]);
    may_save.add_permits(1);
    assert_eq!(other_calls.calls_so_far().await, ["reconcile ns/b"]);
    may_end.add_permits(2);
    first.end().await;
    second.end().await;
}

#[tokio::test(start_paused = true)]
async fn state_that_the_host_keeps_an_instance_from_taking_is_for_the_next_one() {
    for (kind, times, wanted) in [
        (FaultKind::Waiting, 1, vec!["restore ", "restore ", "on-events ns/b", "save ", "restore "]),
        // A guest that always waits goes on without in the end.
        (
            FaultKind::Waiting,
            9,
            [vec!["restore "; 5], vec!["on-events ns/b", "save "], vec!["restore "]].concat(),
        ),
        (FaultKind::Trap, 1, vec!["restore ", "on-events ns/b", "save ", "restore "]),
    ] {
        let test = TestPlugin::new().await;
        let left = Arc::new(AtomicUsize::new(times));
        let (component, mut calls) = handler("sha256:h");
        let component = component.with_state().script(move |call| {
            let fails = call.function == "restore"
                && left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
            async move { if fails { Err(fault(kind)) } else { done(&call) } }
        });
        test.run(component).await;
        assert_eq!(calls.calls_so_far().await, ["on-synced "]);
        tokio::time::sleep(IDLE_TTL).await;
        assert_eq!(calls.calls_so_far().await, ["save "]);
        test.server.create("ns/b", json!({}));
        // Long enough for all attempts, and for the idle time after them.
        tokio::time::sleep(IDLE_TTL + Duration::from_secs(60)).await;
        test.server.create("ns/c", json!({}));
        let seen = calls.calls_so_far().await;
        assert_eq!(seen[..wanted.len()], wanted, "{kind:?} {times} times");
        test.end().await;
    }
}
