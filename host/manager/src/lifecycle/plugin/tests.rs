//! Quarantine, standby, removal and succession of a plugin, without a generation.

use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::lifecycle::quarantine::KEYS_TO_QUARANTINE;
use crate::observe::status::PluginState;
use crate::testing::host_context;

fn plugin() -> Arc<Plugin> {
    of_standby(LeaderElection::disabled())
}

/// One fault of each of these keys.
fn fault(plugin: &Plugin, keys: std::ops::Range<usize>) {
    for key in keys {
        fault_of(plugin, &format!("ns/{key}"), "trap");
    }
}

/// A fault of this key with this error.
fn fault_of(plugin: &Plugin, key: &str, error: &str) {
    plugin.record_faults(&Faults {
        kind: CallKind::Reconcile,
        generation: 1,
        keys: &[key.parse().unwrap()],
        are_deleted: false,
        any_answer: false,
        error,
    });
}

/// Waits for a permission to call, on a task of its own.
fn ask(plugin: &Arc<Plugin>) -> tokio::task::JoinHandle<CallPermit> {
    let plugin = Arc::clone(plugin);
    tokio::spawn(async move { plugin.quarantine_pause(CallKind::Reconcile, || ()).await })
}

async fn waited(plugin: &Plugin) -> u64 {
    let begin = Instant::now();
    let permit = plugin.quarantine_pause(CallKind::Reconcile, || ()).await;
    assert!(permit.is_probe() || begin.elapsed().is_zero());
    // The outcome is recorded while the permit is held.
    fault(plugin, 0..1);
    begin.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn faults_of_several_keys_bring_longer_and_longer_pauses() {
    let plugin = plugin();
    fault(&plugin, 0..KEYS_TO_QUARANTINE - 1);
    assert_eq!(waited(&plugin).await, 0);
    fault(&plugin, 10..11);
    for pause in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
        assert_eq!(waited(&plugin).await, pause);
    }
    assert_eq!(plugin.metrics.quarantines.get(), 1 + 11);
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_one_call_tries_the_plugin_and_its_answer_lets_all_others_go_at_once() {
    let plugin = plugin();
    fault(&plugin, 0..KEYS_TO_QUARANTINE);
    let mut asking: Vec<_> = (0..16).map(|_| ask(&plugin)).collect();
    tokio::time::sleep(Duration::from_secs(1000)).await;
    let at = asking.iter().position(tokio::task::JoinHandle::is_finished).expect("a probe");
    let probe = asking.remove(at).await.unwrap();
    assert!(probe.is_probe() && asking.iter().all(|asking| !asking.is_finished()));
    let begin = Instant::now();
    plugin.record_answer(CallKind::Reconcile, 1, []);
    for asking in asking {
        assert!(!asking.await.unwrap().is_probe());
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_task_ends_is_followed_by_another() {
    let plugin = plugin();
    fault(&plugin, 0..KEYS_TO_QUARANTINE);
    let probe = plugin.quarantine_pause(CallKind::Reconcile, || ()).await;
    let next = ask(&plugin);
    tokio::time::sleep(Duration::from_secs(1000)).await;
    assert!(!next.is_finished());
    drop(probe);
    assert!(next.await.unwrap().is_probe());
}

#[tokio::test(start_paused = true)]
async fn a_load_that_was_cancelled_records_no_failure() {
    let plugin = plugin();
    let cancel = CancellationToken::new();
    plugin.load_started();
    cancel.cancel();
    plugin.load_failed("no wasm", &cancel);
    assert_eq!((plugin.status().state, plugin.status().last_error), (PluginState::Loading, None));
}

/// Users of the cluster choose names of objects, and so keys.
#[tokio::test(start_paused = true)]
async fn errors_about_a_key_with_control_characters_command_no_terminal() {
    let plugin = plugin();
    let (hostile, shown) = ("ns/x\nforged\u{1b}[2J: trap", "ns/x\\nforged\\u{1b}[2J: trap");
    fault_of(&plugin, "ns/x", hostile);
    plugin.record_host_condition(1, hostile);
    let status = plugin.status();
    assert_eq!((status.last_error.as_deref(), status.host_condition.as_deref()), (Some(shown), Some(shown)));
    plugin.record_error(hostile);
    let errors = plugin.errors.lock().view();
    assert!(errors.len() == 1 && errors[0].message == shown && errors[0].count == 3, "{errors:?}");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_has_ended_keeps_none_of_those_before_it() {
    let (host, metrics) = (host_context(LeaderElection::disabled()), Metrics::new());
    let after = |before| Plugin::new("p", &host, &metrics, before);
    let first = after(None);
    let second = after(Some(Arc::clone(&first)));
    first.retire();
    second.retire();
    let gone = Arc::downgrade(&first);
    drop(first);
    assert!(gone.upgrade().is_some(), "its last call may go on");
    second.ended().await;
    assert!(gone.upgrade().is_none());
}

fn of_standby(election: LeaderElection) -> Arc<Plugin> {
    Plugin::new("p", &host_context(election), &Metrics::new(), None)
}

#[tokio::test(start_paused = true)]
async fn the_keys_of_a_standby_stay_in_the_queue_until_it_leads() {
    let (election, begin) = crate::leader_election::tests::standby();
    let plugin = of_standby(election);
    plugin.workers.set_limit(1);
    // As a schedule does.
    let key: ObjectKey = "ns/a".parse().unwrap();
    plugin.queue.add_with(key, Reasons::SCHEDULED, Default::default());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!((plugin.queue.len(), plugin.queue.stats().unfinished_work), (1, Duration::ZERO));
    begin.await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(plugin.queue.len(), 0);
    plugin.retire();
    plugin.tasks.wait().await;
}

#[tokio::test(start_paused = true)]
async fn a_standby_tells_of_what_went_when_it_leads_however_long_nobody_did() {
    let (election, begin) = crate::leader_election::tests::standby();
    let plugin = of_standby(election);
    plugin.gate.add_deleted("ns/a".parse().unwrap(), Reasons::DELETED);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(plugin.queue.len(), 0);
    begin.await;
    let item = plugin.queue.get().await.expect("it is told");
    assert_eq!((item.key.to_string().as_str(), item.payload), ("ns/a", Reasons::DELETED));
    plugin.gate.add("ns/b".parse().unwrap(), Reasons::ADDED, Default::default());
    assert_eq!(plugin.queue.len(), 1);
    plugin.retire();
    plugin.tasks.wait().await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_comes_while_the_host_leads_has_an_open_gate() {
    let (election, begin) = crate::leader_election::tests::standby();
    begin.await;
    let plugin = of_standby(election);
    plugin.gate.add("ns/a".parse().unwrap(), Reasons::ADDED, Default::default());
    assert_eq!(plugin.queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_went_is_forgotten_when_a_leader_was_seen_long_after_it() {
    let second = Duration::from_secs(1);
    let (election, renew) = crate::leader_election::tests::standby_of_another();
    let plugin = of_standby(election);
    let tombstones = || plugin.gate.tombstones();
    tokio::time::sleep(second).await;
    plugin.gate.add_deleted("ns/a".parse().unwrap(), Reasons::DELETED);
    // The leader renews, for the lease's duration and the grace: twenty seconds.
    for _ in 0..10 {
        tokio::time::sleep(second * 2).await;
        renew();
        assert_eq!(tombstones(), 1);
    }
    // Not any more, and nothing is known of it.
    tokio::time::sleep(second * 3600).await;
    assert_eq!(tombstones(), 1);
    for _ in 0..40 {
        tokio::time::sleep(second).await;
        renew();
    }
    assert_eq!(tombstones(), 0);
    plugin.retire();
    plugin.tasks.wait().await;
}

#[tokio::test(start_paused = true)]
async fn a_good_call_ends_a_row_of_faults() {
    let plugin = plugin();
    fault(&plugin, 0..KEYS_TO_QUARANTINE - 1);
    plugin.record_answer(CallKind::Reconcile, 1, []);
    fault(&plugin, 5..6);
    assert_eq!(waited(&plugin).await, 0);
    assert_eq!(plugin.status().last_error.as_deref(), Some("trap"));
}

#[tokio::test(start_paused = true)]
async fn removal_ends_a_rest_and_all_workers() {
    let plugin = plugin();
    fault(&plugin, 0..KEYS_TO_QUARANTINE);
    plugin.workers.set_limit(1);
    let resting = ask(&plugin);
    tokio::task::yield_now().await;
    let begin = Instant::now();
    plugin.retire();
    let _ = resting.await.unwrap();
    plugin.tasks.wait().await;
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert_eq!(plugin.status().state, PluginState::Draining);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_has_not_ended_before_all_that_had_its_name() {
    let again = |before: &Arc<Plugin>| {
        before.retire();
        let host = host_context(LeaderElection::disabled());
        Plugin::new("p", &host, &Metrics::new(), Some(Arc::clone(before)))
    };
    let first = plugin();
    first.spawn(tokio::time::sleep(Duration::from_secs(10)));
    let second = again(&first);
    let third = again(&second);
    third.retire();
    let begin = Instant::now();
    third.await_predecessor().await;
    assert_eq!(begin.elapsed(), Duration::from_secs(10));
    second.ended().await;
    assert_eq!(begin.elapsed(), Duration::from_secs(10));

    let first = plugin();
    first.spawn(tokio::time::sleep(Duration::from_secs(10)));
    let third = again(&again(&first));
    third.retire();
    let begin = Instant::now();
    third.ended().await;
    assert_eq!(begin.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_failed_load_wakes_those_who_wait_for_it() {
    let plugin = plugin();
    plugin.load_started();
    let waiting = tokio::spawn({
        let plugin = Arc::clone(&plugin);
        async move { plugin.first_load_over().await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    plugin.load_failed("no wasm", &CancellationToken::new());
    waiting.await.unwrap();
    assert_eq!(plugin.status().state, PluginState::Failed);
}
