//! What each change of the directory does to the plugins of a host.

use std::path::PathBuf;

use pilothouse_cache::SharedInformerFactory;
use pilothouse_client::Client;
use pilothouse_engine::{FaultKind, LoadError};
use pilothouse_executor::Executor;
use pilothouse_plugin::ComponentHosts;
use pilothouse_plugin::directory::Change;
use serde_json::json;
use tokio::sync::Semaphore;

use super::*;
use crate::lifecycle::plugin_objects::{ObjectChange, PluginObjectsOptions};
use crate::observe::status::PluginStatus;
use crate::observe::traces::tests::Spans;
use crate::testing::{FakeCompiler, FakeComponent, done, fault, files, settle, unreachable_client};

/// A host without an API server.
pub(crate) struct Host {
    pub(crate) manager: Manager,
    pub(crate) compiler: Arc<FakeCompiler>,
    pub(crate) metrics: Metrics,
}

impl Host {
    pub(crate) async fn new() -> Self {
        Self::with(ManagerOptions::new(PathBuf::from("/nowhere"))).await
    }

    pub(super) async fn with(options: ManagerOptions) -> Self {
        Self::with_clusters(options, BTreeMap::new()).await
    }

    pub(super) async fn with_clusters(
        options: ManagerOptions,
        others: BTreeMap<String, ClusterClient>,
    ) -> Self {
        Self::of(unreachable_client().await, options, others).await
    }

    /// A host with this API server.
    pub(super) async fn of(
        client: Client,
        options: ManagerOptions,
        others: BTreeMap<String, ClusterClient>,
    ) -> Self {
        let compiler = Arc::new(FakeCompiler::default());
        let factory = SharedInformerFactory::for_client(client.clone(), Default::default());
        let metrics = Metrics::new();
        let threads = PluginThreads { guests: Executor::on_current_runtime(), work: Handle::current() };
        let engine = Arc::clone(&compiler) as _;
        let clusters = Clusters { home: ClusterClient { client, factory }, others };
        let manager = Manager::new(options, engine, clusters, metrics.clone(), threads, None).await;
        manager.0.home.answers(None);
        Self { manager, compiler, metrics }
    }

    /// Applies a change, and lets everything run that follows from it.
    pub(super) async fn apply(&self, change: Change) {
        self.manager.apply(change);
        settle().await;
    }

    pub(crate) async fn change_to(&self, wasm: &'static [u8]) {
        self.apply(Change::Changed(files(wasm, &json!({})))).await;
    }

    /// The status of the only plugin.
    pub(crate) fn plugin(&self) -> PluginStatus {
        let mut plugins = self.manager.status().plugins;
        assert_eq!(plugins.len(), 1);
        plugins.remove(0)
    }

    fn current(&self) -> Arc<Plugin> {
        self.manager.plugin("p", None)
    }
}

impl Manager {
    pub(crate) fn home(&self) -> &Cluster {
        &self.0.home
    }
}

fn broken() -> Change {
    Change::Broken { name: "p".to_owned(), file: PathBuf::from("p.yaml"), reason: "no YAML".to_owned() }
}

fn removed() -> Change {
    Change::Removed { name: "p".to_owned() }
}

#[tokio::test(start_paused = true)]
async fn files_become_a_running_plugin_and_changed_files_its_next_generation() {
    let host = Host::new().await;
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    host.compiler.add(b"b", FakeComponent::reconciler().0);
    host.change_to(b"a").await;
    assert_eq!((host.plugin().state, host.plugin().generation), (PluginState::Running, 1));
    host.change_to(b"b").await;
    assert_eq!((host.plugin().state, host.plugin().generation), (PluginState::Running, 2));
}

#[tokio::test(start_paused = true)]
async fn newer_files_cancel_the_load_of_those_before() {
    let host = Host::new().await;
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    let older = host.compiler.add(b"b", FakeComponent::reconciler().0);
    // Nothing runs between the two.
    host.manager.apply(Change::Changed(files(b"b", &json!({}))));
    host.change_to(b"a").await;
    assert_eq!(host.plugin().state, PluginState::Running);
    assert_eq!(older.instances(), 0, "the older files are not described any more");
}

#[tokio::test(start_paused = true)]
async fn broken_files_fail_a_new_plugin_and_leave_a_running_one() {
    let host = Host::new().await;
    host.apply(broken()).await;
    let error = Some("p.yaml: no YAML".to_owned());
    assert_eq!((host.plugin().state, host.plugin().last_error), (PluginState::Failed, error.clone()));
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    host.change_to(b"a").await;
    assert_eq!((host.plugin().state, host.plugin().last_error), (PluginState::Running, None));
    host.apply(broken()).await;
    assert_eq!((host.plugin().state, host.plugin().last_error), (PluginState::Running, error));
}

#[tokio::test(start_paused = true)]
async fn a_removed_plugin_drains_and_then_is_gone_with_its_metrics() {
    let host = Host::new().await;
    let permits = Arc::new(Semaphore::new(0));
    let (component, mut calls) = FakeComponent::reconciler();
    host.compiler.add(b"a", component.held(&permits));
    host.change_to(b"a").await;
    host.current().queue().add("ns/a".parse().unwrap());
    calls.next().await;
    host.apply(removed()).await;
    assert_eq!(host.plugin().state, PluginState::Draining);
    let shows = |part: &str| host.metrics.encode().contains(part);
    for series in [
        "pilothouse_plugin_state{plugin=\"p\",state=\"draining\"} 1",
        "pilothouse_plugin_memory_bytes{plugin=\"p\"} ",
        "{controller=\"p\"",
    ] {
        assert!(shows(series), "{series}");
    }
    permits.add_permits(1);
    tokio::time::sleep(EVENTS_GRACE).await;
    assert_eq!(host.manager.status().plugins.len(), 0);
    assert!(!shows("=\"p\""));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_comes_back_counts_on_and_waits_for_the_last_call_before_it() {
    let host = Host::new().await;
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    host.change_to(b"a").await;
    let first = host.current();
    let call = first.spawn(std::future::pending::<()>());
    host.apply(removed()).await;
    host.change_to(b"a").await;
    assert_eq!(host.plugin().state, PluginState::Loading);
    call.abort();
    tokio::time::sleep(EVENTS_GRACE).await;
    assert_eq!((host.plugin().state, host.plugin().generation), (PluginState::Running, 2));
    assert!(!Arc::ptr_eq(&first, &host.current()));
}

#[tokio::test(start_paused = true)]
async fn a_host_is_ready_when_the_first_loads_are_over_and_a_failed_one_does_not_matter() {
    let host = Host::new().await;
    host.compiler.add(b"b", FakeComponent::reconciler().0.described(Err(fault(FaultKind::Trap))));
    host.manager.apply(Change::Changed(files(b"b", &json!({}))));
    assert_eq!(host.manager.not_ready().as_deref(), Some("plugin p: loading"));
    host.apply(Change::Synced).await;
    assert_eq!(host.plugin().state, PluginState::Failed);
    assert_eq!(host.manager.not_ready(), None);
}

#[tokio::test(start_paused = true)]
async fn a_host_is_not_ready_before_the_directory_was_read_or_the_server_answered() {
    let host = Host::new().await;
    assert_eq!(host.manager.not_ready().as_deref(), Some("reading the plugin directory"));
    host.apply(Change::Synced).await;
    assert_eq!(host.manager.not_ready(), None);
    host.manager.home().answers(Some("refused"));
    assert_eq!(host.manager.not_ready().as_deref(), Some("no API server yet: refused"));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_calls_no_longer_than_its_grace() {
    let host = Host::new().await;
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    host.change_to(b"a").await;
    let call = host.current().spawn(tokio::time::sleep(Duration::from_secs(10)));
    assert!(!host.manager.shutdown(Duration::from_secs(5)).await);
    assert_eq!(host.manager.not_ready().as_deref(), Some("shutting down"));
    assert!(host.manager.shutdown(Duration::from_secs(30)).await);
    assert!(call.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_load_that_panics_fails_the_plugin_and_the_host_is_ready() {
    let host = Host::new().await;
    host.manager.apply(Change::Changed(files(b"panic", &json!({}))));
    host.apply(Change::Synced).await;
    let status = host.plugin();
    assert_eq!(status.state, PluginState::Failed);
    let error = status.last_error.unwrap();
    assert!(error.starts_with("bug of the host: the load panicked: "), "{error}");
    assert_eq!(host.manager.not_ready(), None);
    // A changed file is loaded like any other.
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    host.change_to(b"a").await;
    assert_eq!(host.plugin().state, PluginState::Running);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_waits_for_the_next_try_of_its_load_does_not_keep_the_host_from_being_ready() {
    let host = Host::new().await;
    host.compiler.fail_next(LoadError::Stopped("no\nmemory".to_owned()));
    host.manager.apply(Change::Changed(files(b"a", &json!({}))));
    host.apply(Change::Synced).await;
    assert_eq!(host.plugin().state, PluginState::Waiting);
    assert_eq!(host.manager.not_ready(), None);
    let reason = host.plugin().waiting_for.unwrap();
    assert!(reason.ends_with("/p.wasm: compilation did not finish: no\\nmemory"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_paused_plugin_makes_no_call_until_it_is_resumed_also_over_a_reload() {
    let host = Host::new().await;
    let (component, mut calls) = FakeComponent::reconciler();
    host.compiler.add(b"a", component);
    host.change_to(b"a").await;
    let command = |command| host.manager.command("p", &command);
    let reconcile = |key: &str| command(Command::Reconcile(key.parse().unwrap())).unwrap();
    reconcile("ns/x");
    assert_eq!(calls.so_far().await, ["reconcile ns/x"]);
    assert_eq!(command(Command::Pause).unwrap(), "p: paused");
    reconcile("ns/y");
    assert_eq!(calls.so_far().await, [""; 0]);
    command(Command::Reload).unwrap();
    settle().await;
    assert_eq!((host.plugin().state, host.plugin().generation), (PluginState::Paused, 2));
    assert_eq!(calls.so_far().await, [""; 0]);
    assert_eq!(command(Command::Resume).unwrap(), "p: running");
    assert_eq!(calls.so_far().await, ["reconcile ns/y"]);
    assert_eq!(host.manager.command("q", &Command::Pause), Err(CommandError::NoPlugin));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_removed_while_it_is_paused_ends() {
    let host = Host::new().await;
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    host.change_to(b"a").await;
    host.manager.command("p", &Command::Pause).unwrap();
    host.manager.command("p", &Command::Reconcile("ns/x".parse().unwrap())).unwrap();
    settle().await;
    host.apply(removed()).await;
    assert!(host.manager.status().plugins.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_quarantine_is_ended_by_an_operator() {
    let host = Host::new().await;
    let (component, mut calls) = FakeComponent::reconciler();
    host.compiler.add(
        b"a",
        component.script(|call| async move {
            if call.keys[0].starts_with("ns/bad") { Err(fault(FaultKind::Trap)) } else { done(&call) }
        }),
    );
    host.change_to(b"a").await;
    let reconcile = |key: String| {
        host.manager.command("p", &Command::Reconcile(key.parse().unwrap())).unwrap();
    };
    (0..3).for_each(|n| reconcile(format!("ns/bad{n}")));
    settle().await;
    let detail = host.manager.detail("p").unwrap();
    assert_eq!(detail.status.state, PluginState::Quarantined);
    assert!(detail.quarantined_until.is_some());
    assert_eq!(detail.errors.len(), 3, "{:?}", detail.errors);
    assert_eq!((detail.usage.reconciles, detail.usage.failures), (3, 3));
    calls.begun();
    reconcile("ns/good".to_owned());
    assert_eq!(host.manager.command("p", &Command::Release).unwrap(), "p: running");
    assert!(calls.so_far().await.contains(&"reconcile ns/good".to_owned()));
    let usage = host.manager.usage();
    let [p] = usage.plugins.as_slice() else { panic!("{usage:?}") };
    assert_eq!((p.status.name.as_str(), p.status.state), ("p", PluginState::Running));
    assert!(p.usage.reconciles > p.usage.failures && p.usage.failures >= 3, "{:?}", p.usage);
    let calls: u64 = p.usage.reconcile_time.buckets.iter().map(|(_, count)| count).sum();
    assert_eq!(calls, p.usage.reconciles, "each call had one key");
    let again = host.manager.command("p", &Command::Release);
    assert!(matches!(again, Err(CommandError::Not(_))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn the_detail_of_a_plugin_says_what_is_in_force() {
    let host = Host::new().await;
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    assert!(host.manager.detail("p").is_none());
    let spec = json!({
        "permissions": [{"groups": [""], "resources": ["pods"], "verbs": ["get"], "namespaces": ["a"]}],
        "serviceAccount": {"namespace": "ns", "name": "robot"},
        "limits": {"queueDepth": 7},
        "config": {"password": "hunter2"},
    });
    host.apply(Change::Changed(files(b"a", &spec))).await;
    let detail = host.manager.detail("p").unwrap();
    let current = detail.current.as_ref().unwrap();
    assert_eq!(current.service_account.as_deref(), Some("ns/robot"));
    assert_eq!(current.grants[0].namespaces, ["a"]);
    assert_eq!(current.manifest_digest, "sha256:manifest");
    let depth = current.limits.iter().find(|limit| limit.name == "queueDepth").unwrap();
    assert_eq!((depth.limit.as_deref(), depth.used.as_deref()), (Some("7"), Some("0")));
    let text = serde_json::to_string(&detail).unwrap();
    assert!(text.contains("\"state\":\"running\"") && !text.contains("hunter2"), "{text}");
    let digest = current.config_digest.clone();
    host.apply(Change::Changed(files(b"a", &json!({"config": {"password": "other"}})))).await;
    assert_ne!(host.manager.detail("p").unwrap().current.unwrap().config_digest, digest);
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_names_what_the_host_does_not_allow_is_refused() {
    let mut options = ManagerOptions::new(PathBuf::from("/nowhere"));
    options.allowed.namespaces = Some(["a".to_owned()].into());
    let host = Host::with(options).await;
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    let spec = |namespace: &str| {
        json!({"permissions": [
            {"groups": [""], "resources": ["pods"], "verbs": ["get"], "namespaces": [namespace]},
        ]})
    };
    host.apply(Change::Changed(files(b"a", &spec("b")))).await;
    let error = host.plugin().last_error.unwrap();
    assert!(error.starts_with("p.yaml: spec.permissions[0].namespaces"), "{error}");
    assert_eq!(host.plugin().state, PluginState::Failed);
    host.apply(Change::Changed(files(b"a", &spec("a")))).await;
    assert_eq!(host.plugin().state, PluginState::Running);
}

#[tokio::test(start_paused = true)]
async fn of_two_of_one_name_that_of_the_directory_runs_and_then_that_of_the_cluster() {
    let host = Host::new().await;
    host.compiler.add(b"file", FakeComponent::reconciler().0);
    host.compiler.add(b"object", FakeComponent::reconciler().0);
    let runs = || host.manager.plugin_view("p").running_manifest;
    let [of_file, of_object] = ["sha256:manifest", "sha256:object"].map(|digest| Some(digest.to_owned()));
    let object = || {
        let manifest_digest = "sha256:object".to_owned();
        ObjectChange::Changed(Files { manifest_digest, ..files(b"object", &json!({})) })
    };
    host.change_to(b"file").await;
    host.manager.apply_object(object());
    settle().await;
    assert_eq!((runs(), host.manager.plugin_view("p").in_directory), (of_file.clone(), true));
    // What concerns the Plugin alone leaves the plugin of the directory.
    let refused = ObjectChange::Refused { name: "p".to_owned(), message: "Plugin p: no".to_owned() };
    host.manager.apply_object(refused);
    host.manager.apply_object(ObjectChange::Removed { name: "p".to_owned() });
    settle().await;
    assert_eq!((runs(), host.plugin().last_error), (of_file, None));
    host.manager.apply_object(object());
    let of_directory = host.current();
    host.apply(removed()).await;
    assert_eq!((runs(), host.manager.plugin_view("p").in_directory), (of_object, false));
    assert!(!Arc::ptr_eq(&of_directory, &host.current()), "no state and no generation of it goes on");
    host.manager.apply_object(ObjectChange::Removed { name: "p".to_owned() });
    tokio::time::sleep(EVENTS_GRACE).await;
    assert_eq!(host.manager.status().plugins.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_ends_when_the_other_source_has_its_name_also_if_that_one_cannot_be_loaded() {
    let host = Host::new().await;
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    let object = |wasm: &[u8]| host.manager.apply_object(ObjectChange::Changed(files(wasm, &json!({}))));
    for (wasm, state) in [(&b"unknown"[..], PluginState::Failed), (&b"endless"[..], PluginState::Loading)] {
        host.change_to(b"a").await;
        assert_eq!(host.plugin().state, PluginState::Running);
        object(wasm);
        host.apply(removed()).await;
        assert_eq!((host.plugin().state, host.plugin().generation), (state, 0));
        host.manager.apply_object(ObjectChange::Removed { name: "p".to_owned() });
        tokio::time::sleep(EVENTS_GRACE).await;
    }
    object(b"a");
    settle().await;
    let of_object = host.current();
    assert_eq!(host.plugin().state, PluginState::Running);
    host.change_to(b"unknown").await;
    assert_eq!(host.plugin().state, PluginState::Failed);
    assert!(of_object.is_stopping());
}

#[tokio::test(start_paused = true)]
async fn a_refused_object_fails_a_new_plugin_and_leaves_a_running_one() {
    let host = Host::new().await;
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    let refuse = || {
        let message = "Plugin p: spec.serviceAccount: it is missing".to_owned();
        host.manager.apply_object(ObjectChange::Refused { name: "p".to_owned(), message });
    };
    refuse();
    let error = Some("Plugin p: spec.serviceAccount: it is missing".to_owned());
    assert_eq!((host.plugin().state, host.plugin().last_error), (PluginState::Failed, error.clone()));
    host.manager.apply_object(ObjectChange::Changed(files(b"a", &json!({}))));
    settle().await;
    assert_eq!((host.plugin().state, host.plugin().last_error), (PluginState::Running, None));
    let running = host.manager.plugin_view("p").running_manifest;
    assert_eq!(running.as_deref(), Some("sha256:manifest"));
    refuse();
    assert_eq!((host.plugin().state, host.plugin().last_error), (PluginState::Running, error));
}

#[tokio::test(start_paused = true)]
async fn a_host_is_ready_when_all_its_sources_were_read() {
    let mut options = ManagerOptions::new(PathBuf::from("/nowhere"));
    let nowhere = PathBuf::from("/nowhere");
    options.objects = Some(PluginObjectsOptions::new(None, nowhere, ComponentHosts::default()));
    let host = Host::with(options).await;
    host.apply(Change::Synced).await;
    assert_eq!(host.manager.not_ready().as_deref(), Some("reading the plugin directory"));
    host.manager.apply_object(ObjectChange::Synced);
    settle().await;
    assert_eq!(host.manager.not_ready(), None);
}

#[tokio::test(start_paused = true)]
async fn a_call_has_a_span_with_its_key_and_its_failure() {
    let (spans, _guard) = Spans::capture();
    let host = Host::new().await;
    let (component, _calls) = FakeComponent::reconciler();
    host.compiler.add(
        b"a",
        component.script(|call| async move {
            if call.keys[0] == "ns/bad" { Err(fault(FaultKind::Trap)) } else { done(&call) }
        }),
    );
    host.change_to(b"a").await;
    for (key, wanted) in [("ns/good", ""), ("ns/bad", "scripted")] {
        host.manager.command("p", &Command::Reconcile(key.parse().unwrap())).unwrap();
        settle().await;
        let spans = spans.take();
        // A key that faulted is tried again.
        let span = spans.first().expect("a span");
        assert_eq!((span.name, span.parent), ("reconcile", None));
        let fields = ["plugin", "key", "keys", "reasons", "attempt"];
        let shown = fields.map(|name| span.field(&format!("pilothouse.{name}")));
        assert_eq!(shown, ["p", key, "1", "manual", "0"], "{span:?}");
        let error = span.field("otel.status_description").to_lowercase();
        assert!(error.is_empty() == wanted.is_empty() && error.contains(wanted), "{span:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_whose_machine_code_is_lost_is_loaded_again_and_keeps_its_keys() {
    let host = Host::new().await;
    let lost = host.compiler.add(b"a", FakeComponent::reconciler().0);
    host.change_to(b"a").await;
    lost.lose_code();
    let (again, mut calls) = FakeComponent::reconciler();
    host.compiler.add(b"a", again);
    host.current().queue().add("ns/a".parse().unwrap());
    assert_eq!(calls.next_keys().await, ["ns/a"]);
    let status = host.plugin();
    assert_eq!((status.generation, status.last_error), (2, None));
}
