//! The way of a key: what the guest is asked, and what follows from each answer and each fault.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use futures_util::FutureExt as _;
use pilothouse_engine::{Failure, FaultKind, Outcome};
use pilothouse_plugin::World;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::*;
use crate::dispatch::guest::Answer;
use crate::leader_election::tests::standby;
use crate::observe::status::PluginState;
use crate::testing::{Answers, Calls, FakeComponent, GuestCall, IDLE_TTL, TestPlugin, done, fault, settle};

const SECOND: Duration = Duration::from_secs(1);

/// A reconciler whose first call of a key is answered so, and each later one with `done`.
fn first_answers(answer: impl Fn() -> Answer + Send + Sync + 'static) -> (FakeComponent, Calls) {
    let (component, calls) = FakeComponent::reconciler();
    let script = move |call: GuestCall| {
        let answers = if call.attempts == [0] && call.reasons != [["requeued"]] {
            Ok(vec![answer()])
        } else {
            done(&call)
        };
        async move { answers }
    };
    (component.script(script), calls)
}

fn failure(terminal: bool, retry_after: Option<Duration>) -> Answer {
    Err(Failure { message: "no".to_owned(), terminal, retry_after })
}

/// A batch reconciler whose calls with one of these keys trap.
fn poisoned(keys: &'static [&'static str]) -> (FakeComponent, Calls) {
    let (component, calls) = FakeComponent::new("sha256:b", World::BatchReconciler, json!({"maxBatch": 8}));
    let script = move |call: GuestCall| {
        let traps = call.keys.iter().any(|key| keys.contains(&key.as_str()));
        let answers: Answers = if traps { Err(fault(FaultKind::Trap)) } else { done(&call) };
        async move { answers }
    };
    (component.script(script), calls)
}

/// Adds keys `ns/0` and on, all before a worker takes one.
fn add_many(test: &TestPlugin, count: usize) {
    (0..count).for_each(|n| test.add(&format!("ns/{n}")));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_called_once_with_its_reasons_and_forgotten_when_done() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = FakeComponent::reconciler();
    let component = test.run(component).await;
    test.add("ns/a");
    let call = calls.next().await;
    assert_eq!((call.function, call.keys), ("reconcile", vec!["ns/a".to_owned()]));
    assert_eq!((call.attempts, call.reasons), (vec![0], vec![vec!["added"]]));
    assert_eq!(calls.so_far().await, [""; 0]);
    assert_eq!((test.plugin.queue().len(), component.instances()), (0, 1));
    assert_eq!(test.plugin.queue().stats().unfinished_work, Duration::ZERO);
    assert_eq!(test.plugin.metrics().success.get(), 1);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_requeue_comes_again_with_a_backoff_and_counts_as_an_attempt() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = first_answers(|| Ok(Outcome::Requeue));
    test.run(component).await;
    test.add("ns/a");
    calls.next().await;
    let again = calls.next().await;
    assert_eq!((again.attempts, again.reasons), (vec![1], vec![vec!["requeued"]]));
    settle().await;
    // Done: the failures are forgotten.
    assert_eq!(test.plugin.queue().num_requeues(&"ns/a".parse().unwrap()), 0);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_requeue_after_comes_again_after_that_time_and_is_no_attempt() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = first_answers(|| Ok(Outcome::RequeueAfter(SECOND * 90)));
    test.run(component).await;
    test.add("ns/a");
    calls.next().await;
    let began = Instant::now();
    let again = calls.next().await;
    assert_eq!((began.elapsed().as_secs(), again.attempts), (90, vec![0]));
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_tried_again_and_not_before_the_time_it_names() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = first_answers(|| failure(false, Some(SECOND * 60)));
    test.run(component).await;
    test.add("ns/a");
    calls.next().await;
    let began = Instant::now();
    assert_eq!(calls.next().await.attempts, [1]);
    assert_eq!(began.elapsed().as_secs(), 60);
    // A failure is an answer: the instance stays, and there is no fault.
    assert_eq!(test.plugin.status().last_error, None);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_terminal_failure_is_not_tried_again() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = first_answers(|| failure(true, None));
    test.run(component).await;
    test.add("ns/a");
    calls.next().await;
    tokio::time::sleep(SECOND * 3600).await;
    assert_eq!(calls.so_far().await, [""; 0]);
    assert_eq!(test.plugin.metrics().terminal.get(), 1);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_fault_the_key_is_tried_again_on_a_new_instance() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = FakeComponent::reconciler();
    let component = test
        .run(component.script(|call| async move {
            if call.attempts == [0] { Err(fault(FaultKind::Trap)) } else { done(&call) }
        }))
        .await;
    test.add("ns/a");
    calls.next().await;
    assert_eq!(calls.next().await.attempts, [1]);
    assert_eq!(component.instances(), 2);
    assert_eq!(test.plugin.status().last_error.as_deref(), Some("ns/a: scripted"));
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn faults_of_three_keys_stop_all_calls_until_the_pause_is_over() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = FakeComponent::reconciler();
    test.run(component.script(|_| async { Err(fault(FaultKind::Trap)) })).await;
    add_many(&test, 4);
    for _ in 0..3 {
        calls.next().await;
    }
    settle().await;
    assert_eq!(test.plugin.status().state, PluginState::Quarantined);
    let began = Instant::now();
    calls.next().await;
    assert!(began.elapsed() >= SECOND - Duration::from_millis(1), "{:?}", began.elapsed());
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_generation_ends_a_quarantine_at_once() {
    let test = TestPlugin::new().await;
    let (bad, mut calls) = FakeComponent::reconciler();
    test.run(bad.script(|_| async { Err(fault(FaultKind::Trap)) })).await;
    add_many(&test, 4);
    for _ in 0..3 {
        calls.next().await;
    }
    settle().await;
    let (good, mut calls) = FakeComponent::new("sha256:good", World::Reconciler, json!({}));
    let began = Instant::now();
    test.run(good).await;
    assert_eq!(calls.next().await.digest, "sha256:good");
    assert_eq!(began.elapsed().as_secs(), 0);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_the_keys_that_wait_up_to_its_largest_size() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = poisoned(&[]);
    test.run(component).await;
    add_many(&test, 10);
    let first = calls.next().await;
    assert_eq!((first.function, first.keys.len()), ("reconcile-many", 8));
    assert_eq!(calls.next_keys().await, ["ns/8", "ns/9"]);
    settle().await;
    assert_eq!(test.plugin.queue().stats().unfinished_work, Duration::ZERO);
    assert_eq!(test.plugin.metrics().success.get(), 10);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_waits_for_more_keys_as_long_as_it_lingers() {
    let test = TestPlugin::new().await;
    let description = json!({"maxBatch": 3, "linger": "5s"});
    let (component, mut calls) = FakeComponent::new("sha256:b", World::BatchReconciler, description);
    test.run(component).await;
    test.add("ns/a");
    tokio::time::sleep(SECOND * 3).await;
    test.add("ns/b");
    let began = Instant::now();
    assert_eq!(calls.next_keys().await, ["ns/a", "ns/b"]);
    assert_eq!(began.elapsed().as_secs(), 2);
    // A full batch waits no longer.
    add_many(&test, 3);
    let began = Instant::now();
    assert_eq!(calls.next_keys().await.len(), 3);
    assert_eq!(began.elapsed().as_secs(), 0);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_traps_is_halved_and_one_poisonous_key_alone_waits() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = poisoned(&["ns/2"]);
    test.run(component).await;
    add_many(&test, 4);
    let sizes: Vec<usize> = {
        let mut sizes = Vec::new();
        for _ in 0..5 {
            sizes.push(calls.next_keys().await.len());
        }
        sizes
    };
    assert_eq!(sizes, [4, 2, 2, 1, 1]);
    // The poisonous key comes again by itself, after a backoff.
    assert_eq!(calls.next_keys().await, ["ns/2"]);
    assert_eq!(test.plugin.metrics().success.get(), 3);
    // Other calls were answered: nothing counts towards a quarantine.
    assert_eq!(test.plugin.status().state, PluginState::Running);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_faults_of_a_round_without_an_answer_are_recorded_together_at_its_end() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = FakeComponent::new("sha256:b", World::BatchReconciler, json!({}));
    test.run(component.script(|_| async { Err(fault(FaultKind::Trap)) })).await;
    add_many(&test, 8);
    // 8, 4, 2, 1, 1, 2, 1, 1 and the other half: all in one round.
    for _ in 0..15 {
        calls.next().await;
    }
    settle().await;
    assert_eq!(test.plugin.metrics().quarantines.get(), 1);
    let status = test.plugin.status();
    assert_eq!(status.state, PluginState::Quarantined);
    assert!(status.last_error.is_some());
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn one_poisonous_key_of_a_quiet_plugin_holds_up_no_other() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = FakeComponent::reconciler();
    let component = component.script(|call| async move {
        if call.keys == ["ns/bad"] { Err(fault(FaultKind::Trap)) } else { done(&call) }
    });
    test.run(component).await;
    test.add("ns/bad");
    // Nothing else is called: many faults in a row.
    for _ in 0..12 {
        assert_eq!(calls.next_keys().await, ["ns/bad"]);
    }
    assert_eq!(test.plugin.status().state, PluginState::Running);
    test.add("ns/good");
    assert_eq!(calls.so_far().await, ["reconcile ns/good"]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn after_faults_of_three_keys_one_key_tries_the_plugin_and_its_answer_releases_all() {
    let test = TestPlugin::new().await;
    let healed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_healed = Arc::clone(&healed);
    let (component, mut calls) = FakeComponent::new(
        "sha256:b",
        World::BatchReconciler,
        json!({"maxBatch": 8, "maxConcurrentReconciles": 4}),
    );
    let component = component.script(move |call| {
        let healed = is_healed.load(std::sync::atomic::Ordering::Relaxed);
        async move { if healed { done(&call) } else { Err(fault(FaultKind::Trap)) } }
    });
    test.run(component).await;
    add_many(&test, 8);
    calls.so_far().await;
    let status = test.plugin.status();
    assert_eq!(status.state, PluginState::Quarantined);
    assert!(status.next_try.is_some());
    assert_eq!(test.plugin.metrics().quarantines.get(), 1, "one round");
    tokio::time::sleep(SECOND).await;
    let probe = calls.so_far().await;
    assert!(matches!(probe.as_slice(), [probe] if !probe.contains(',')), "one call with one key: {probe:?}");
    assert_eq!(test.plugin.status().state, PluginState::Quarantined);
    healed.store(true, std::sync::atomic::Ordering::Relaxed);
    tokio::time::sleep(SECOND * 2).await;
    calls.so_far().await;
    assert_eq!(test.plugin.status().state, PluginState::Running);
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(test.plugin.metrics().success.get(), 8, "all keys were reconciled");
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_key_that_tries_the_plugin_is_one_that_did_not_fault_if_there_is_one() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = FakeComponent::reconciler();
    let component = component.script(|call| async move {
        if call.keys[0].starts_with("ns/bad") { Err(fault(FaultKind::Trap)) } else { done(&call) }
    });
    test.run(component).await;
    ["ns/bad0", "ns/bad1", "ns/bad2"].iter().for_each(|key| test.add(key));
    assert_eq!(calls.so_far().await.len(), 3);
    // Their backoffs end within the pause, so they stand before this one.
    tokio::time::sleep(SECOND / 2).await;
    test.add("ns/good");
    assert_eq!(calls.so_far().await, [""; 0]);
    tokio::time::sleep(SECOND / 2).await;
    assert_eq!(calls.next_keys().await, ["ns/good"]);
    calls.so_far().await;
    assert_eq!(test.plugin.status().state, PluginState::Running);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_finds_no_room_waits_and_does_not_send_all_keys_into_their_backoff() {
    let test = TestPlugin::new().await;
    let (component, _calls) = FakeComponent::reconciler();
    test.run(component.refuse(1000, fault(FaultKind::HostBusy))).await;
    add_many(&test, 100);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let tries = test.plugin.metrics().faults(FaultKind::HostBusy);
    assert!((2..=11).contains(&tries), "{tries}");
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_host_could_not_answer_is_blamed_on_nobody_and_tried_again_within_30_seconds() {
    for kind in [FaultKind::Waiting, FaultKind::HostBusy] {
        let test = TestPlugin::new().await;
        let (component, mut calls) = FakeComponent::reconciler();
        test.run(component.script(move |_| async move { Err(fault(kind)) })).await;
        add_many(&test, 5);
        for _ in 0..100 {
            calls.next().await;
        }
        let status = test.plugin.status();
        assert_eq!((status.state, status.last_error), (PluginState::Running, None), "{kind:?}");
        assert!(status.host_condition.is_some_and(|condition| condition.ends_with(": scripted")));
        let began = Instant::now();
        for _ in 0..5 {
            calls.next().await;
        }
        assert!(began.elapsed() <= SECOND * 30, "{:?}", began.elapsed());
        test.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_round_goes_to_a_generation_that_takes_over_in_between() {
    let test = TestPlugin::new().await;
    let gate = Arc::new(Semaphore::new(0));
    let entered = Arc::clone(&gate);
    let (old, mut old_calls) = FakeComponent::new("sha256:old", World::BatchReconciler, json!({}));
    test.run(old.script(move |call| {
        let gate = Arc::clone(&entered);
        async move {
            // The first call traps after the test has switched; so it would be halved.
            gate.acquire().await.unwrap().forget();
            let answers: Answers =
                if call.keys.len() > 1 { Err(fault(FaultKind::Trap)) } else { done(&call) };
            answers
        }
    }))
    .await;
    add_many(&test, 4);
    assert_eq!(old_calls.next_keys().await.len(), 4);
    let (new, mut new_calls) = FakeComponent::reconciler();
    test.run(new).await;
    gate.add_permits(10);
    let mut keys = Vec::new();
    for _ in 0..4 {
        let call = new_calls.next().await;
        assert_eq!(call.digest, "sha256:a");
        keys.extend(call.keys);
    }
    keys.sort_unstable();
    assert_eq!(keys, ["ns/0", "ns/1", "ns/2", "ns/3"]);
    assert_eq!(old_calls.so_far().await, [""; 0], "the old generation gets no further call");
    // Its fault says nothing about the new one.
    assert_eq!(test.plugin.status().last_error, None);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn as_many_calls_run_at_once_as_the_generation_allows() {
    let test = TestPlugin::new().await;
    let gate = Arc::new(Semaphore::new(0));
    let description = json!({"maxConcurrentReconciles": 3});
    let (component, mut calls) = FakeComponent::new("sha256:c", World::Reconciler, description);
    test.run(component.held(&gate)).await;
    add_many(&test, 5);
    assert_eq!(calls.so_far().await.len(), 3);
    assert_eq!(test.plugin.workers().running(), 3);
    gate.add_permits(5);
    assert_eq!(calls.so_far().await.len(), 2);
    assert_eq!(test.plugin.workers().running(), 0, "without keys there is no worker");
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_drops_its_instance_and_the_mapped_code_with_it() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = FakeComponent::reconciler();
    let component = test.run(component).await;
    test.add("ns/a");
    test.add("ns/b");
    assert_eq!(calls.so_far().await.len(), 2);
    assert_eq!((component.instances(), component.is_mapped()), (1, true), "the instance is kept warm");
    tokio::time::sleep(IDLE_TTL).await;
    settle().await;
    assert!(!component.is_mapped());
    test.add("ns/a");
    calls.next().await;
    assert_eq!(component.instances(), 2);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_lost_its_term_begins_no_call_and_keeps_the_keys() {
    let (election, begin) = standby();
    let test = TestPlugin::of(election).await;
    begin.await;
    let (component, mut calls) = FakeComponent::reconciler();
    test.run(component).await;
    settle().await;
    // Nothing renews the lease, as in a process that was stopped.
    tokio::time::advance(SECOND * 20).await;
    test.add("ns/a");
    assert_eq!(calls.so_far().await, [""; 0]);
    assert_eq!(test.plugin.queue().len(), 1);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_term_ends_while_its_instance_is_made_does_not_begin_and_keeps_its_key() {
    // A term of ten seconds.
    let (election, begin) = standby();
    let test = TestPlugin::of(election).await;
    begin.await;
    let (component, mut calls) = FakeComponent::reconciler();
    let component = test.run(component.made_within(SECOND * 15)).await;
    settle().await;
    test.add("ns/a");
    tokio::time::sleep(SECOND * 20).await;
    assert_eq!(calls.so_far().await, [""; 0]);
    assert_eq!((component.instances(), test.plugin.queue().len()), (1, 1));
    assert_eq!((test.plugin.metrics().active_workers.get(), test.plugin.workers().running()), (0, 0));
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_retired_plugin_ends_its_call_and_begins_no_other() {
    let test = TestPlugin::new().await;
    let gate = Arc::new(Semaphore::new(0));
    let (component, mut calls) = FakeComponent::reconciler();
    test.run(component.held(&gate)).await;
    add_many(&test, 3);
    calls.next().await;
    test.plugin.retire();
    settle().await;
    assert!(!test.plugin.tasks().is_empty(), "the call goes on");
    gate.add_permits(3);
    test.plugin.ended().await;
    assert_eq!(calls.so_far().await, [""; 0]);
    assert_eq!(test.plugin.metrics().success.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_retired_for_a_successor_keeps_the_keys_of_a_round_that_were_not_called() {
    let test = TestPlugin::new().await;
    let permits = Arc::new(Semaphore::new(0));
    let (component, mut calls) =
        FakeComponent::new("sha256:b", World::BatchReconciler, json!({"maxBatch": 4}));
    let held = Arc::clone(&permits);
    let component = component.script(move |call| {
        let held = Arc::clone(&held);
        async move {
            if call.keys.len() == 4 {
                return Err(fault(FaultKind::Trap));
            }
            held.acquire().await.unwrap().forget();
            done(&call)
        }
    });
    test.run(component).await;
    add_many(&test, 5);
    assert_eq!([calls.next_keys().await.len(), calls.next_keys().await.len()], [4, 2]);
    test.plugin.retire_for_successor();
    permits.add_permits(10);
    test.plugin.ended().await;
    assert_eq!(calls.so_far().await, [""; 0]);
    // The second half, and the key that nobody had taken.
    assert_eq!((test.plugin.metrics().success.get(), test.plugin.queue().len()), (2, 3));
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_waited_for_an_instance_makes_no_call_for_a_generation_that_was_replaced_meanwhile() {
    let test = TestPlugin::new().await;
    let (old, mut old_calls) = FakeComponent::new("sha256:old", World::Reconciler, json!({}));
    test.run(old).await;
    let mut lease = WarmInstance::default();
    lease.lease(&test.plugin).await;
    test.add("ns/a");
    assert_eq!(old_calls.so_far().await, [""; 0], "no instance is free");
    assert_eq!(test.plugin.metrics().active_workers.get(), 0, "to wait is not to reconcile");
    let (new, mut new_calls) = FakeComponent::new("sha256:new", World::Reconciler, json!({}));
    test.run(new).await;
    drop(lease);
    assert_eq!(new_calls.so_far().await, ["reconcile ns/a"]);
    assert_eq!(old_calls.so_far().await, [""; 0]);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn workers_that_wait_out_a_quarantine_leave_the_instances_to_its_probe_and_no_key_is_lost() {
    let test = TestPlugin::new().await;
    let (permits, healed) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
    let (held, is_healed) = (Arc::clone(&permits), Arc::clone(&healed));
    let description = json!({"maxConcurrentReconciles": 2});
    let (component, mut calls) = FakeComponent::new("sha256:c", World::Reconciler, description);
    let component = component.script(move |call| {
        let (permits, healed) = (Arc::clone(&held), Arc::clone(&is_healed));
        async move {
            permits.acquire().await.unwrap().forget();
            if healed.load(Relaxed) { done(&call) } else { Err(fault(FaultKind::Trap)) }
        }
    });
    test.run(component).await;
    add_many(&test, 10);
    assert_eq!(calls.so_far().await.len(), 2, "both instances are in a call");
    // The third fault begins the quarantine while a fourth call is under way.
    permits.add_permits(4);
    assert_eq!(calls.so_far().await.len(), 2);
    assert_eq!(test.plugin.metrics().quarantines.get(), 1);
    assert_eq!(test.plugin.workers().running(), 2, "both workers wait for the end of the quarantine");
    let mut leases = [WarmInstance::default(), WarmInstance::default()];
    for lease in &mut leases {
        assert!(lease.lease(&test.plugin).now_or_never().is_some(), "a worker holds it while it waits");
    }
    drop(leases);
    healed.store(true, Relaxed);
    permits.add_permits(100);
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(test.plugin.metrics().success.get(), 10);
    assert_eq!(test.plugin.queue().stats().unfinished_work, Duration::ZERO);
    test.end().await;
}

mod panics;
