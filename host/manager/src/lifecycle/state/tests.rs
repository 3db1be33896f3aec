//! The states of a plugin over loads, faults, rollbacks and its removal.

use std::sync::Arc;

use pilothouse_plugin::Manifest;

use super::*;
use crate::lifecycle::config_sources::MergedConfig;
use crate::lifecycle::quarantine::KEYS_TO_QUARANTINE;
use crate::testing::FakeComponent;

/// A generation with this component starts.
fn start(state: &mut LifecycleState, number: u64, digest: &'static str) {
    start_under(state, number, digest, &RollbackRule::default());
}

fn start_under(state: &mut LifecycleState, number: u64, digest: &'static str, rule: &RollbackRule) {
    let (component, _) =
        FakeComponent::new(digest, pilothouse_plugin::World::Reconciler, serde_json::json!({}));
    let version = Version { code: Arc::new(component), config: MergedConfig::empty() };
    state.generation_started(number, &version, rule, Cause::Change);
}

fn shown(state: &LifecycleState) -> (PluginState, u64, String, Option<String>) {
    let StateView { state, generation, digest, last_error, .. } = state.view(Instant::now());
    (state, generation, digest, last_error)
}

fn running() -> LifecycleState {
    let mut state = LifecycleState::default();
    state.load_started();
    start(&mut state, 1, "sha256:a");
    state
}

#[test]
fn a_plugin_is_loaded_runs_and_drains() {
    let mut state = LifecycleState::default();
    state.load_started();
    assert_eq!(shown(&state), (PluginState::Loading, 0, String::new(), None));
    start(&mut state, 1, "sha256:a");
    assert_eq!(shown(&state), (PluginState::Running, 1, "sha256:a".to_owned(), None));
    start(&mut state, 3, "sha256:b");
    assert_eq!(shown(&state), (PluginState::Running, 3, "sha256:b".to_owned(), None));
    state.retired();
    assert_eq!(shown(&state), (PluginState::Draining, 0, "sha256:b".to_owned(), None));
}

#[test]
fn a_failed_first_load_is_shown_until_new_files_are_loaded() {
    let mut state = LifecycleState::default();
    state.load_started();
    state.load_failed("no wasm".to_owned());
    assert_eq!(shown(&state).0, PluginState::Failed);
    assert_eq!(shown(&state).3.as_deref(), Some("no wasm"));
    state.load_started();
    assert_eq!(shown(&state).0, PluginState::Loading);
    start(&mut state, 2, "sha256:a");
    assert_eq!(shown(&state).3, None);
}

#[test]
fn a_failed_reload_leaves_the_running_generation_and_shows_its_error() {
    let mut state = running();
    state.load_started();
    assert_eq!(shown(&state).0, PluginState::Running);
    state.load_failed("describe: no".to_owned());
    let error = Some("describe: no".to_owned());
    assert_eq!(shown(&state), (PluginState::Running, 1, "sha256:a".to_owned(), error));
    assert_eq!(state.generation(), Some(1));
}

#[test]
fn a_configuration_that_may_still_come_keeps_the_load_waiting_and_the_host_ready() {
    let mut state = LifecycleState::default();
    state.load_started();
    assert!(!state.is_first_load_over());
    state.config_failed("no ConfigMap".to_owned(), true);
    assert_eq!(shown(&state).0, PluginState::Waiting);
    assert!(state.is_first_load_over());
    state.config_usable(true);
    assert_eq!((shown(&state).0, shown(&state).3), (PluginState::Loading, None));
    assert!(!state.is_first_load_over());
}

#[test]
fn a_configuration_that_cannot_come_fails_the_load_until_it_is_usable() {
    let mut state = LifecycleState::default();
    state.load_started();
    state.config_failed("not JSON".to_owned(), false);
    assert_eq!(shown(&state).0, PluginState::Failed);
    // Usable again, with the content that was refused before.
    state.config_usable(false);
    assert_eq!(shown(&state).0, PluginState::Failed);
    state.config_usable(true);
    assert_eq!(shown(&state).0, PluginState::Loading);
}

#[test]
fn errors_of_files_and_configuration_go_before_the_last_error_and_stay_over_a_new_generation() {
    let mut state = running();
    state.task_panicked("old".to_owned());
    state.config_failed("config".to_owned(), true);
    state.files_failed("files".to_owned());
    assert_eq!(shown(&state).3.as_deref(), Some("files"));
    start(&mut state, 2, "sha256:b");
    assert_eq!(shown(&state).3.as_deref(), Some("files"));
    state.load_started();
    assert_eq!(shown(&state).3, None);
    state.config_failed("config".to_owned(), true);
    state.task_panicked("fault".to_owned());
    assert_eq!(shown(&state).3.as_deref(), Some("config"));
    state.config_usable(false);
    assert_eq!(shown(&state).3.as_deref(), Some("fault"));
}

#[test]
fn broken_files_fail_a_new_plugin_and_leave_a_load_under_way_alone() {
    let mut state = LifecycleState::default();
    state.files_failed("two components".to_owned());
    assert_eq!(shown(&state).0, PluginState::Failed);
    assert!(state.is_first_load_over());
    state.load_started();
    state.files_failed("two components".to_owned());
    assert_eq!(shown(&state).0, PluginState::Loading);
}

fn key(number: usize) -> ObjectKey {
    format!("ns/{number}").parse().unwrap()
}

/// The faults of these keys in one round each, of this generation.
fn fault(state: &mut LifecycleState, kind: CallKind, generation: u64, keys: std::ops::Range<usize>) -> bool {
    let mut quarantined = false;
    for keys in keys.map(|n| [key(n)]) {
        let faults =
            Faults { kind, generation, keys: &keys, are_deleted: false, any_answer: false, error: "trap" };
        quarantined |= state.record_faults(&faults, Instant::now()).is_some();
    }
    quarantined
}

fn answer(state: &mut LifecycleState, kind: CallKind, generation: u64) {
    state.record_answer(kind, generation, [&key(99)], Instant::now());
}

#[tokio::test(start_paused = true)]
async fn a_quarantine_is_shown_until_an_answer_comes_or_a_generation_begins() {
    let quarantined = || {
        let mut state = running();
        assert!(fault(&mut state, CallKind::Reconcile, 1, 0..KEYS_TO_QUARANTINE));
        assert_eq!((shown(&state).0, shown(&state).3.as_deref()), (PluginState::Quarantined, Some("trap")));
        state
    };
    let mut answered = quarantined();
    let pause = answered.view(Instant::now()).next_try.unwrap() - Instant::now();
    assert_eq!(pause.as_secs(), 1);
    tokio::time::advance(pause).await;
    assert_eq!(shown(&answered).0, PluginState::Quarantined, "no call showed yet that the plugin works");
    answer(&mut answered, CallKind::Reconcile, 1);
    assert_eq!(shown(&answered).0, PluginState::Running);
    let mut replaced = quarantined();
    start(&mut replaced, 2, "sha256:b");
    assert_eq!((shown(&replaced).0, shown(&replaced).3), (PluginState::Running, None));
}

#[tokio::test(start_paused = true)]
async fn reconciles_and_event_handlers_have_quarantines_of_their_own() {
    let mut state = running();
    fault(&mut state, CallKind::Event, 1, 0..2);
    assert!(!fault(&mut state, CallKind::Reconcile, 1, 2..4), "two of each are three of none");
    assert!(fault(&mut state, CallKind::Reconcile, 1, 4..5));
    answer(&mut state, CallKind::Event, 1);
    assert_eq!(shown(&state).0, PluginState::Quarantined, "an answered event says nothing about reconciles");
    answer(&mut state, CallKind::Reconcile, 1);
    assert_eq!(shown(&state).0, PluginState::Running);
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_replaced_generation_change_nothing() {
    let mut state = running();
    start(&mut state, 2, "sha256:b");
    assert!(!fault(&mut state, CallKind::Reconcile, 1, 0..10));
    state.record_host_condition(1, "hung".to_owned());
    assert_eq!(shown(&state), (PluginState::Running, 2, "sha256:b".to_owned(), None));
    assert_eq!(state.view(Instant::now()).host_condition, None);
    assert!(fault(&mut state, CallKind::Reconcile, 2, 0..3));
    answer(&mut state, CallKind::Reconcile, 1);
    assert_eq!(shown(&state).0, PluginState::Quarantined);
}

#[tokio::test(start_paused = true)]
async fn faults_beside_an_answer_of_the_same_round_count_towards_no_quarantine() {
    let mut state = running();
    for number in 0..10 {
        let keys = [key(number)];
        let faults = Faults {
            kind: CallKind::Reconcile,
            generation: 1,
            keys: &keys,
            are_deleted: false,
            any_answer: true,
            error: "trap",
        };
        assert_eq!(state.record_faults(&faults, Instant::now()), None);
    }
    assert_eq!((shown(&state).0, shown(&state).3.as_deref()), (PluginState::Running, Some("trap")));
}

#[tokio::test(start_paused = true)]
async fn a_condition_of_the_host_is_shown_until_a_call_is_answered() {
    let mut state = running();
    state.record_host_condition(1, "the API server hangs".to_owned());
    assert!(state.awaits_answer());
    let view = state.view(Instant::now());
    assert_eq!((view.state, view.last_error), (PluginState::Running, None));
    assert_eq!(view.host_condition.as_deref(), Some("the API server hangs"));
    answer(&mut state, CallKind::Event, 1);
    assert_eq!(state.view(Instant::now()).host_condition, None);
    assert!(!state.awaits_answer());
}

#[tokio::test(start_paused = true)]
async fn a_generation_that_faults_on_three_keys_asks_for_the_last_good_one() {
    let mut state = running();
    start(&mut state, 2, "sha256:b");
    assert!(state.is_on_probation() && state.awaits_answer());
    fault(&mut state, CallKind::Reconcile, 2, 0..3);
    let rollback = state.take_rollback().expect("a rollback");
    assert_eq!((rollback.from, rollback.to, rollback.version.digest()), (2, 1, "sha256:a"));
    assert!(state.take_rollback().is_none() && state.is_on_probation(), "it is loaded now");
    state.generation_started(3, &rollback.version, &RollbackRule::default(), Cause::Rollback(&rollback));
    let view = state.view(Instant::now());
    assert_eq!((view.state, view.generation, view.digest.as_str()), (PluginState::Running, 3, "sha256:a"));
    assert_eq!(view.rolled_back.map(|rolled| (rolled.from, rolled.to)), Some((2, 1)));
    assert!(view.last_error.is_some_and(|error| error.contains("generation 2 was rolled back")));
    assert!(!state.is_on_probation(), "there is no other version to go back to");
    // Once more, for the rights of its account: the newest files are those that failed as before.
    state.generation_started(4, &rollback.version, &RollbackRule::default(), Cause::RightsRestored);
    let view = state.view(Instant::now());
    assert_eq!(view.rolled_back.map(|rolled| (rolled.from, rolled.to)), Some((2, 1)));
    assert!(view.last_error.is_some_and(|error| error.contains("generation 2 was rolled back")));
    assert!(!state.is_on_probation());
    // The next files are tried like any others, and the restored version is the good one.
    start(&mut state, 5, "sha256:c");
    assert_eq!(state.view(Instant::now()).rolled_back, None);
    fault(&mut state, CallKind::Event, 5, 0..3);
    assert_eq!(state.take_rollback().map(|rollback| rollback.to), Some(4));
}

#[tokio::test(start_paused = true)]
async fn a_manifest_without_rollbacks_or_with_another_digest_keeps_the_version_that_faults() {
    let rule = |spec: &str| {
        let head = "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {name: p}\n";
        RollbackRule::of(&Manifest::parse(format!("{head}spec: {spec}").as_bytes()).unwrap())
    };
    let good = format!("sha256:{}", "a".repeat(64));
    let pinned = |digest: &str| rule(&format!("{{source: {{digest: \"{digest}\"}}}}"));
    let good: &'static str = good.leak();
    for (rule, rolls_back) in [
        (rule("{rollback: never}"), false),
        (rule("{rollback: onFault}"), true),
        (pinned(&format!("sha256:{}", "b".repeat(64))), false),
        // The configuration alone is another one.
        (pinned(good), true),
    ] {
        let mut state = LifecycleState::default();
        state.load_started();
        start(&mut state, 1, good);
        start_under(&mut state, 2, "sha256:b", &rule);
        assert_eq!(state.is_on_probation(), rolls_back, "{rule:?}");
        fault(&mut state, CallKind::Reconcile, 2, 0..3);
        assert_eq!(state.take_rollback().is_some(), rolls_back, "{rule:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_never_was_good_is_not_restored() {
    let mut state = running();
    fault(&mut state, CallKind::Reconcile, 1, 0..3);
    start(&mut state, 2, "sha256:b");
    assert!(!state.is_on_probation(), "the first generation was in quarantine");
    start(&mut state, 3, "sha256:c");
    assert!(state.is_on_probation());
    // On probation itself when it is replaced.
    start(&mut state, 4, "sha256:d");
    fault(&mut state, CallKind::Reconcile, 4, 10..13);
    assert_eq!(state.take_rollback().map(|rollback| rollback.to), Some(2));
}

#[tokio::test(start_paused = true)]
async fn the_same_component_with_the_same_configuration_has_no_probation() {
    let mut state = running();
    start(&mut state, 2, "sha256:a");
    assert!(!state.is_on_probation(), "nothing else could be restored");
}

#[tokio::test(start_paused = true)]
async fn keys_that_faulted_before_a_reload_do_not_count_against_the_new_version() {
    let mut state = running();
    fault(&mut state, CallKind::Reconcile, 1, 0..2);
    answer(&mut state, CallKind::Reconcile, 1);
    start(&mut state, 2, "sha256:b");
    fault(&mut state, CallKind::Reconcile, 2, 0..2);
    fault(&mut state, CallKind::Reconcile, 2, 5..7);
    assert!(state.take_rollback().is_none());
    fault(&mut state, CallKind::Reconcile, 2, 7..8);
    assert!(state.take_rollback().is_some());
}

#[test]
fn a_load_that_waits_is_shown_and_hides_no_error_of_the_running_generation() {
    let wait = |may_be_long| Some(LoadWait { reason: "no kind".to_owned(), may_be_long, next_try: None });
    let mut state = LifecycleState::default();
    state.load_started();
    state.load_waits(wait(false));
    assert_eq!((shown(&state).0, shown(&state).3.as_deref()), (PluginState::Loading, Some("no kind")));
    assert!(!state.is_first_load_over());
    state.load_waits(wait(true));
    assert_eq!((shown(&state).0, shown(&state).3.as_deref()), (PluginState::Waiting, Some("no kind")));
    assert!(state.is_first_load_over());
    start(&mut state, 1, "sha256:a");
    assert_eq!((shown(&state).0, shown(&state).3), (PluginState::Running, None));
    state.task_panicked("trap".to_owned());
    state.load_started();
    state.load_waits(wait(true));
    assert_eq!((shown(&state).0, shown(&state).3.as_deref()), (PluginState::Running, Some("trap")));
    assert_eq!(state.view(Instant::now()).waiting_for.as_deref(), Some("no kind"));
}

#[test]
fn nothing_leaves_draining() {
    let mut state = running();
    state.retired();
    state.load_started();
    start(&mut state, 2, "sha256:b");
    state.config_usable(true);
    state.load_failed("late".to_owned());
    state.retired();
    assert_eq!((shown(&state).0, shown(&state).1), (PluginState::Draining, 0));
    assert_eq!(shown(&state).2, "sha256:a");
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_the_deletion_of_an_object_counts_and_its_key_is_not_remembered() {
    let mut state = running();
    let now = Instant::now();
    for number in 0..KEYS_TO_QUARANTINE {
        let key: ObjectKey = format!("ns/{number}").parse().unwrap();
        let faults = Faults {
            kind: CallKind::Event,
            generation: 1,
            keys: std::slice::from_ref(&key),
            are_deleted: true,
            any_answer: false,
            error: "trap",
        };
        let quarantined = state.record_faults(&faults, now);
        assert_eq!(quarantined.is_some(), number + 1 == KEYS_TO_QUARANTINE);
        assert!(!state.quarantine_mut(CallKind::Event).is_failing(&key));
    }
    let other: ObjectKey = "ns/other".parse().unwrap();
    state.record_answer(CallKind::Event, 1, [&other], now);
    assert!(!state.awaits_answer(), "nothing waits for an answer that cannot come");
}
