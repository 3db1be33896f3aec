//! Runs of plugins in the clusters of a host.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pilothouse_client::ClientOptions;
use pilothouse_plugin::World;
use pilothouse_plugin::directory::Change;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::manager::ManagerOptions;
use crate::manager::tests::Host;
use crate::observe::command::{Command, CommandError};
use crate::observe::status::PluginState::{self, Failed, Running};
use crate::testing::dev_server::until;
use crate::testing::{FakeComponent, files, reads, unreachable_client};

/// Long enough for the end of a run, and for a look whether a cluster is away.
const LATER: Duration = Duration::from_secs(3);

/// A host with the home cluster and these others, which have answered.
async fn host(options: ManagerOptions, names: &[&str]) -> Host {
    let mut others = BTreeMap::new();
    for name in names {
        let client = unreachable_client().await;
        let factory = SharedInformerFactory::for_client(client.clone(), Default::default());
        others.insert((*name).to_owned(), ClusterClient { client, factory });
    }
    let host = Host::with_clusters(options, others).await;
    host.manager.clusters().for_each(|cluster| cluster.answers(None));
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    host
}

fn options() -> ManagerOptions {
    ManagerOptions::new(PathBuf::from("/nowhere"))
}

fn changed(spec: &Value) -> Change {
    Change::Changed(files(b"a", spec))
}

/// Names and states of all runs.
fn runs(host: &Host) -> Vec<(String, PluginState)> {
    host.manager.status().plugins.into_iter().map(|run| (run.name, run.state)).collect()
}

fn named(runs: &[(&str, PluginState)]) -> Vec<(String, PluginState)> {
    runs.iter().map(|(name, state)| ((*name).to_owned(), *state)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_plugin_runs_once_in_each_of_its_clusters_with_a_queue_and_a_configuration_of_its_own() {
    let host = host(options(), &["east", "west"]).await;
    let (component, mut calls) = FakeComponent::reconciler();
    host.compiler.add(b"a", component);
    host.apply(changed(&json!({"clusters": ["home", "east"], "config": {"where": "$(cluster)"}}))).await;
    assert_eq!(runs(&host), named(&[("p", Running), ("p@east", Running)]));
    let digest = |run| host.manager.detail(run).unwrap().current.unwrap().config_digest;
    assert_ne!(digest("p"), digest("p@east"));
    host.manager.command("p@east", &Command::Pause).unwrap();
    for run in ["p", "p@east"] {
        host.manager.command(run, &Command::Reconcile("ns/x".parse().unwrap())).unwrap();
    }
    assert_eq!(calls.so_far().await, ["reconcile ns/x"], "of the run that is not paused");
    let metrics = host.metrics.encode();
    for line in [
        r#"pilothouse_plugin_state{plugin="p",state="running"} 1"#,
        r#"pilothouse_plugin_state{plugin="p@east",cluster="east",state="paused"} 1"#,
        r#"workqueue_depth{name="p",controller="p",priority="0"} "#,
        r#"workqueue_depth{name="p@east",controller="p@east",cluster="east",priority="0"} "#,
        r#"controller_runtime_reconcile_total{controller="p@east",cluster="east",result="success"} 0"#,
        r#"pilothouse_cluster_up{cluster="east"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn runs_come_and_go_with_the_names_in_the_manifest_and_all_of_them_with_the_plugin() {
    let host = host(options(), &["east", "west"]).await;
    host.apply(changed(&json!({"clusters": ["home", "east"]}))).await;
    host.apply(changed(&json!({"clusters": ["east", "west"]}))).await;
    tokio::time::sleep(LATER).await;
    assert_eq!(runs(&host), named(&[("p@east", Running), ("p@west", Running)]));
    let generations = host.manager.status().plugins.into_iter().map(|run| run.generation);
    assert_eq!(generations.collect::<Vec<_>>(), [2, 1]);
    host.apply(changed(&json!({}))).await;
    tokio::time::sleep(LATER).await;
    assert_eq!(runs(&host), named(&[("p", Running)]));
    host.apply(changed(&json!({"clusters": ["home", "west"]}))).await;
    host.apply(Change::Removed { name: "p".to_owned() }).await;
    tokio::time::sleep(LATER).await;
    assert!(runs(&host).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_name_that_the_host_does_not_have_fails_the_run_of_that_name_only() {
    let host = host(options(), &["east"]).await;
    host.apply(changed(&json!({"clusters": ["east", "mars"]}))).await;
    assert_eq!(runs(&host), named(&[("p@east", Running), ("p@mars", Failed)]));
    let error = host.manager.detail("p@mars").unwrap().status.last_error.unwrap();
    let words =
        "p.yaml: spec.clusters: the host has no cluster \"mars\", it has: home, east; name it in --clusters";
    assert_eq!(error, words);
    assert!(matches!(host.manager.command("p@mars", &Command::Reload), Err(CommandError::Not(_))));
    host.apply(Change::Synced).await;
    assert_eq!(host.manager.not_ready(), None);
}

#[tokio::test(start_paused = true)]
async fn files_that_cannot_be_used_leave_all_runs_and_each_says_so() {
    let host = host(options(), &["east"]).await;
    host.apply(changed(&json!({"clusters": ["home", "east"]}))).await;
    let (name, file) = ("p".to_owned(), PathBuf::from("p.yaml"));
    host.apply(Change::Broken { name, file, reason: "no YAML".to_owned() }).await;
    assert_eq!(runs(&host), named(&[("p", Running), ("p@east", Running)]));
    for run in host.manager.status().plugins {
        assert_eq!(run.last_error.as_deref(), Some("p.yaml: no YAML"), "{}", run.name);
    }
}

#[tokio::test(start_paused = true)]
async fn clusters_that_the_operator_does_not_allow_are_refused() {
    let mut options = options();
    options.allowed.clusters = Some(["east".to_owned()].into());
    let open = host(options, &["east", "west"]).await;
    open.apply(changed(&json!({"clusters": ["west"]}))).await;
    assert_eq!(runs(&open), named(&[("p", Failed)]));
    assert!(!open.manager.plugin_view("p").in_directory, "refused files take no name");
}

#[tokio::test(start_paused = true)]
async fn a_remote_cluster_that_the_host_does_not_have_is_a_warning_and_the_plugin_runs() {
    let host = host(options(), &["east", "west"]).await;
    let rule = json!({"groups": [""], "resources": ["pods"], "verbs": ["get"], "namespaces": ["a"]});
    let remote = json!([
        {"clusters": ["east", "mars"], "permissions": [rule]}, {"clusters": ["west"], "permissions": [rule]},
    ]);
    host.apply(changed(&json!({"remoteClusters": remote}))).await;
    assert_eq!(runs(&host), named(&[("p", Running)]));
    let detail = host.manager.detail("p").unwrap();
    let words = "spec.remoteClusters: the host has no cluster \"mars\", it has: east, home, west; ";
    let warnings = &detail.status.warnings;
    assert!(warnings.len() == 1 && warnings[0].starts_with(words), "{warnings:?}");
    let current = detail.current.unwrap();
    let [entry, other] = &current.remote_clusters[..] else { panic!("{:?}", current.remote_clusters) };
    assert!(other.clusters.len() == 1 && other.clusters[0].name == "west", "{other:?}");
    let [east, mars] = &entry.clusters[..] else { panic!("{entry:?}") };
    assert_eq!((&*east.name, &east.error, entry.grants.len()), ("east", &None, 1));
    assert!(mars.name == "mars" && mars.error.as_ref().unwrap().contains(words), "{mars:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_away_does_not_keep_the_host_from_being_ready() {
    let host = host(options(), &["east"]).await;
    let watches = json!({"watches": [{"version": "v1", "kind": "ConfigMap"}]});
    host.compiler.add(b"a", FakeComponent::new("sha256:a", World::Reconciler, watches).0);
    let east = host.manager.clusters().last().unwrap();
    // As when the host has just started.
    *east.reach.lock() = Reach::NotTried;
    host.apply(changed(&json!({"clusters": ["east"], "permissions": reads(&["*"], &[])}))).await;
    host.apply(Change::Synced).await;
    tokio::time::sleep(LATER).await;
    let why = host.manager.not_ready().unwrap();
    assert!(why.starts_with("plugin p@east: "), "{why}");
    east.answers(Some("no route"));
    tokio::time::sleep(LATER).await;
    assert_eq!(host.manager.not_ready(), None);
    assert_eq!(runs(&host), named(&[("p@east", PluginState::Loading)]));
    let view = host.manager.status().clusters;
    let server = "http://127.0.0.1:1".to_owned();
    assert_eq!(view, [ClusterView { name: "east".to_owned(), server, error: Some("no route".to_owned()) }]);
    assert!(host.metrics.encode().contains(r#"pilothouse_cluster_up{cluster="east"} 0"#));
}

/// An API server that has its version alone, and not even that while it is not up; its URL.
async fn version_server(is_up: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let status = if is_up.load(Relaxed) { "200 OK" } else { "404 Not Found" };
            let body = r#"{"major":"1","minor":"36","gitVersion":"v1.36.0","platform":"linux/amd64"}"#;
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all((head + body).as_bytes()).await;
        }
    });
    url
}

#[tokio::test]
async fn a_cluster_without_informers_is_asked_again_whether_it_answers() {
    let is_up = Arc::new(AtomicBool::default());
    let server = Some(version_server(Arc::clone(&is_up)).await);
    let client = Client::new(ClientOptions { server, ..ClientOptions::default() }).await.unwrap();
    let factory = SharedInformerFactory::for_client(client.clone(), Default::default());
    let others = BTreeMap::from([("east".to_owned(), ClusterClient { client, factory })]);
    let host = Host::with_clusters(options(), others).await;
    let east = Arc::clone(host.manager.clusters().last().unwrap());
    let asked = Arc::clone(&east);
    let asking = tokio::spawn(async move { asked.ask_for_version().await });
    for answers in [true, false, true] {
        is_up.store(answers, Relaxed);
        tokio::time::pause();
        tokio::time::advance(VERSION_AGAIN * 2).await;
        tokio::time::resume();
        until("the last answer counts", || east.trouble().is_none() == answers).await;
    }
    asking.abort();
}
