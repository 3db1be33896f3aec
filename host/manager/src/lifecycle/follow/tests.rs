//! From files to generations, with configuration from a file on disk.

use std::fs;
use std::time::Duration;

use pilothouse_engine::FaultKind;
use pilothouse_plugin::World;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;
use crate::observe::status::{PluginState, PluginStatus};
use crate::testing::{Calls, FakeComponent, TestPlugin, done, fault, files, settle};

/// A plugin whose files are followed, with configuration from a file.
struct Followed {
    test: Arc<TestPlugin>,
    folder: TempDir,
    cancel: CancellationToken,
    task: JoinHandle<()>,
    _calls: Calls,
}

impl Followed {
    async fn start(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        fs::write(&path, config).unwrap();
        let test = Arc::new(TestPlugin::new().await);
        let (component, calls) = FakeComponent::reconciler();
        test.compiler.add(b"a", component);
        let files = files(b"a", &json!({"configFrom": [{"file": path}]}));
        let cancel = CancellationToken::new();
        let (follower, token) = (Arc::clone(&test), cancel.clone());
        test.plugin.load_started();
        let task =
            tokio::spawn(
                async move { follower.loader.follow(&follower.plugin, files, &token, || true).await },
            );
        Self { test, folder, cancel, task, _calls: calls }
    }

    /// Replaces the file, as an editor does.
    fn write(&self, config: &str) {
        let temporary = self.folder.path().join("new");
        fs::write(&temporary, config).unwrap();
        fs::rename(temporary, self.folder.path().join("config.json")).unwrap();
    }

    /// The status once it is as wanted. Files are read on real threads, so the clock of the test runs on until then.
    async fn until(&self, wanted: impl Fn(&PluginStatus) -> bool) -> PluginStatus {
        loop {
            let status = self.test.plugin.status();
            if wanted(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn config(&self) -> Value {
        serde_json::from_slice(&self.test.plugin.current().unwrap().imports.config).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn files_without_config_from_are_loaded_once() {
    let test = TestPlugin::new().await;
    test.compiler.add(b"a", FakeComponent::reconciler().0);
    let files = files(b"a", &json!({"config": {"a": 1}}));
    test.loader.follow(&test.plugin, files, &CancellationToken::new(), || true).await;
    assert_eq!(test.plugin.status().state, PluginState::Running);
    assert_eq!(&*test.plugin.current().unwrap().imports.config, br#"{"a":1}"#);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_component_that_cannot_be_compiled_fails_the_plugin() {
    let test = TestPlugin::new().await;
    test.plugin.load_started();
    test.loader.follow(&test.plugin, files(b"unknown", &json!({})), &CancellationToken::new(), || true).await;
    let status = test.plugin.status();
    assert_eq!(status.state, PluginState::Failed);
    assert!(status.last_error.unwrap().ends_with("/p.wasm: compilation failed: unknown"));
}

#[tokio::test(start_paused = true)]
async fn each_change_of_the_configuration_is_one_more_generation() {
    let followed = Followed::start(r#"{"a": 1}"#).await;
    assert_eq!(followed.until(|status| status.state == PluginState::Running).await.generation, 1);
    assert_eq!(followed.config(), json!({"a": 1}));
    followed.write(r#"{"a": 2}"#);
    assert_eq!(followed.until(|status| status.generation != 1).await.generation, 2);
    assert_eq!(followed.config(), json!({"a": 2}));
    followed.cancel.cancel();
    followed.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unusable_configuration_leaves_the_generation_and_the_same_one_again_is_not_loaded() {
    let followed = Followed::start(r#"{"a": 1}"#).await;
    followed.until(|status| status.state == PluginState::Running).await;
    followed.write("{");
    let broken = followed.until(|status| status.last_error.is_some()).await;
    assert_eq!((broken.state, broken.generation), (PluginState::Running, 1));
    followed.write(r#"{"a": 1}"#);
    let usable = followed.until(|status| status.last_error.is_none()).await;
    assert_eq!((usable.state, usable.generation), (PluginState::Running, 1));
    followed.cancel.cancel();
    followed.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_newer_configuration_cancels_the_load_of_the_one_before() {
    let followed = Followed::start("{").await;
    let failed = followed.until(|status| status.last_error.is_some()).await;
    assert_eq!((failed.state, failed.generation), (PluginState::Failed, 0));
    // This load waits for the last call of a predecessor that never ends.
    let removed = Arc::clone(&followed.test.plugin);
    let blocked = removed.spawn(std::future::pending::<()>());
    followed.cancel.cancel();
    followed.task.await.unwrap();
    removed.retire();

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    fs::write(&path, r#"{"a": 1}"#).unwrap();
    let host = crate::testing::host_context(removed.election().clone());
    let metrics = crate::observe::metrics::Metrics::new();
    let plugin = Plugin::new("p", &host, &metrics, Some(removed));
    let (component, _calls) = FakeComponent::new("sha256:b", World::Reconciler, json!({}));
    followed.test.compiler.add(b"b", component);
    let files = files(b"b", &json!({"configFrom": [{"file": path}]}));
    let cancel = CancellationToken::new();
    plugin.load_started();
    let follower = (Arc::clone(&followed.test), Arc::clone(&plugin), cancel.clone());
    let task = tokio::spawn(async move {
        let (test, plugin, cancel) = follower;
        test.loader.follow(&plugin, files, &cancel, || true).await;
    });
    // Long enough for the first load to begin and to wait.
    tokio::time::sleep(Duration::from_secs(30)).await;
    fs::write(&path, r#"{"a": 2}"#).unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(plugin.status().generation, 0);
    blocked.abort();
    while plugin.status().generation == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // The second configuration, and never the first.
    assert_eq!(plugin.status().generation, 2);
    assert_eq!(&*plugin.current().unwrap().imports.config, br#"{"a":2}"#);
    cancel.cancel();
    task.await.unwrap();
}

/// A component that answers some keys and traps for all others.
fn answers_only(digest: &'static str, good: &'static [&'static str]) -> (FakeComponent, Calls) {
    let (component, calls) = FakeComponent::new(digest, World::Reconciler, json!({}));
    let script = move |call: crate::testing::GuestCall| async move {
        let is_good = call.keys.iter().all(|key| good.contains(&key.as_str()));
        if is_good { done(&call) } else { Err(fault(FaultKind::Trap)) }
    };
    (component.script(script), calls)
}

/// Follows new files, as after a change in the directory; when they take over they end the following of those before.
fn follow(test: &Arc<TestPlugin>, before: Option<CancellationToken>, files: Files) -> CancellationToken {
    let (test, cancel) = (Arc::clone(test), CancellationToken::new());
    let token = cancel.clone();
    test.plugin.files_came();
    tokio::spawn(async move {
        let take_over = || {
            before.inspect(CancellationToken::cancel);
            true
        };
        test.loader.follow(&test.plugin, files, &token, take_over).await;
    });
    cancel
}

#[tokio::test(start_paused = true)]
async fn a_version_that_faults_is_rolled_back_with_the_limits_of_the_newest_manifest_and_no_key_is_lost() {
    let test = Arc::new(TestPlugin::new().await);
    let (good, mut good_calls) = FakeComponent::new("sha256:good", World::Reconciler, json!({}));
    test.compiler.add(b"good", good);
    let (bad, _bad_calls) = answers_only("sha256:bad", &["ns/0"]);
    test.compiler.add(b"bad", bad);
    let first = follow(&test, None, files(b"good", &json!({"config": {"a": 1}})));
    settle().await;
    test.add("ns/first");
    assert_eq!(good_calls.so_far().await, ["reconcile ns/first"]);

    let newest = json!({"config": {"a": 2}, "limits": {"maxConcurrentReconciles": 1, "eventQPS": 7}});
    let second = follow(&test, Some(first), files(b"bad", &newest));
    settle().await;
    assert_eq!(test.plugin.status().generation, 2);
    for n in 0..5 {
        test.add(&format!("ns/{n}"));
    }
    settle().await;
    let status = test.plugin.status();
    assert_eq!((status.state, status.generation), (PluginState::Running, 3));
    assert_eq!(status.digest, "sha256:good");
    let rolled = status.rolled_back.unwrap();
    assert_eq!((rolled.from, rolled.to, rolled.digest.as_str()), (2, 1, "sha256:bad"));
    assert_eq!(test.plugin.metrics().rollbacks.get(), 1);
    let current = test.plugin.current().unwrap();
    assert_eq!((&*current.imports.config, current.event_qps), (&br#"{"a":1}"#[..], 7.0));
    let mut reconciled = good_calls.so_far().await;
    reconciled.sort();
    assert_eq!(reconciled, (1..5).map(|n| format!("reconcile ns/{n}")).collect::<Vec<_>>());

    // A changed file is tried again.
    test.compiler.add(b"better", FakeComponent::new("sha256:better", World::Reconciler, json!({})).0);
    follow(&test, Some(second), files(b"better", &newest));
    settle().await;
    let status = test.plugin.status();
    assert_eq!((status.generation, status.digest.as_str()), (4, "sha256:better"));
    assert_eq!((status.rolled_back, status.last_error), (None, None));
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn files_that_are_refused_end_no_probation_and_stay_in_the_status_until_others_come() {
    let test = Arc::new(TestPlugin::new().await);
    let (good, _good_calls) = FakeComponent::new("sha256:good", World::Reconciler, json!({}));
    test.compiler.add(b"good", good);
    test.compiler.add(b"bad", answers_only("sha256:bad", &[]).0);
    let first = follow(&test, None, files(b"good", &json!({})));
    settle().await;
    let second = follow(&test, Some(first), files(b"bad", &json!({})));
    settle().await;
    let third = follow(&test, Some(second.clone()), files(b"unknown", &json!({})));
    settle().await;
    let is_refusal = |error: Option<String>| error.unwrap().ends_with("/p.wasm: compilation failed: unknown");
    let status = test.plugin.status();
    assert_eq!((status.generation, status.digest.as_str()), (2, "sha256:bad"));
    assert!(status.state == PluginState::Running && is_refusal(status.last_error));
    (0..3).for_each(|n| test.add(&format!("ns/{n}")));
    settle().await;
    let status = test.plugin.status();
    assert_eq!((status.generation, status.digest.as_str()), (3, "sha256:good"));
    assert_eq!(status.rolled_back.map(|rolled| (rolled.from, rolled.to)), Some((2, 1)));
    assert!(is_refusal(status.last_error), "it is about the newest files");
    assert!(!second.is_cancelled() && !third.is_cancelled());
    follow(&test, Some(second.clone()), files(b"bad", &json!({})));
    settle().await;
    let status = test.plugin.status();
    assert_eq!((status.generation, status.last_error), (4, None));
    assert!(second.is_cancelled());
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_is_refused_leaves_the_new_version_and_says_so() {
    let test = Arc::new(TestPlugin::new().await);
    let (good, _calls) = FakeComponent::reconciler();
    test.compiler.add(b"good", good.described_later(1, Ok(Err("no such field".to_owned()))));
    test.compiler.add(b"bad", answers_only("sha256:bad", &[]).0);
    let first = follow(&test, None, files(b"good", &json!({})));
    settle().await;
    follow(&test, Some(first), files(b"bad", &json!({})));
    settle().await;
    (0..3).for_each(|n| test.add(&format!("ns/{n}")));
    settle().await;
    let status = test.plugin.status();
    assert_eq!((status.generation, status.digest.as_str()), (2, "sha256:bad"));
    assert_eq!((status.state, status.rolled_back), (PluginState::Quarantined, None));
    let error = status.last_error.unwrap();
    assert!(error.contains("generation 2 stays, since") && error.contains("no such field"), "{error}");
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_version_that_passes_its_probation_ends_the_task_that_would_roll_it_back() {
    let test = Arc::new(TestPlugin::new().await);
    test.compiler.add(b"a", FakeComponent::reconciler().0);
    test.compiler.add(b"b", answers_only("sha256:b", &["ns/good"]).0);
    test.loader.follow(&test.plugin, files(b"a", &json!({})), &CancellationToken::new(), || true).await;
    let task = tokio::spawn({
        let test = Arc::clone(&test);
        async move {
            test.loader
                .follow(&test.plugin, files(b"b", &json!({})), &CancellationToken::new(), || true)
                .await;
        }
    });
    settle().await;
    assert!(!task.is_finished(), "it is on probation");
    for _ in 0..20 {
        test.add("ns/good");
        settle().await;
    }
    task.await.unwrap();
    for n in 0..5 {
        test.add(&format!("ns/{n}"));
    }
    settle().await;
    let status = test.plugin.status();
    assert_eq!(
        (status.generation, status.state),
        (2, PluginState::Quarantined),
        "it is no new version any more"
    );
    test.end().await;
}
