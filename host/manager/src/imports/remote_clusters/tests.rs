//! Live calls to remote clusters, on two development servers.

use pilothouse_client::{Error, WriteParams};
use pilothouse_engine::{CallContext, CallOptions, ClientAnswer, ClientError, ClientVerb, RefusalReason};
use pilothouse_object::Gvk;
use serde_json::{Value, json};

use super::*;
use crate::imports::api_calls::tests::{Plugin, limited, reason};
use crate::observe::audit::tests::AuditLines;
use crate::observe::host_events::HostEvents;
use crate::observe::metrics::PluginMetrics;
use crate::testing::files;

/// Two clusters of a host: home, whose plugin makes the calls, and east.
struct Servers {
    home: Plugin,
    east: Plugin,
}

impl Servers {
    async fn start() -> Self {
        Self { home: Plugin::start().await, east: Plugin::start().await }
    }

    /// The remote clusters of the plugin at home under this manifest, and the warnings about them.
    fn remote(&self, spec: &Value) -> (RemoteClusters, Vec<String>) {
        let clients = [("home", &self.home), ("east", &self.east)];
        let clients = clients.map(|(name, plugin)| {
            let client = &plugin.api_calls.client;
            (name, client, SharedInformerFactory::for_client(client.clone(), Default::default()))
        });
        let table =
            ClusterTable::new(clients.iter().map(|(name, client, factory)| (*name, *client, factory)));
        let reporter = Arc::new(HostEvents::default().of("plugin".into()));
        let warnings = Warnings::new("plugin".into(), reporter, PluginMetrics::of_test());
        let manifest = files(b"", spec).manifest;
        let remote = RemoteClusters::new(&self.home.api_calls, &manifest, &table, &warnings);
        (remote, warnings.texts())
    }

    async fn shutdown(self) {
        self.home.server.shutdown().await;
        self.east.server.shutdown().await;
    }
}

/// What creates ConfigMaps in these clusters, and nothing else.
fn creates(clusters: &[&str]) -> Value {
    let rule =
        json!({"groups": [""], "resources": ["configmaps"], "verbs": ["create"], "namespaces": ["default"]});
    json!({"remoteClusters": [{"clusters": clusters, "permissions": [rule]}]})
}

/// Makes a call to the cluster of this number, which is not 0.
async fn call(remote: &RemoteClusters, cluster: u32, verb: ClientVerb) -> Result<ClientAnswer, ClientError> {
    let (kind, options) = (Gvk::new("", "v1", "ConfigMap"), CallOptions::default());
    let call =
        ClientCall { cluster, kind, verb, options, max_bytes: 1 << 20, context: CallContext::default() };
    remote.call(cluster - 1, call).await
}

fn create() -> ClientVerb {
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}});
    ClientVerb::Create(body.to_string().into_bytes())
}

/// The refusal of a call has this reason and these words.
#[track_caller]
fn refused(answer: Result<ClientAnswer, ClientError>, why: RefusalReason, words: &[&str]) {
    let error = answer.map(drop).unwrap_err();
    assert_eq!(reason(&error), Some(why), "{error:?}");
    for word in words {
        assert!(error.message().contains(word), "{word} is not in: {}", error.message());
    }
}

#[tokio::test]
async fn a_call_goes_to_the_cluster_of_its_number_under_the_permissions_there() {
    let servers = Servers::start().await;
    let (lines, _guard) = AuditLines::capture();
    let (remote, warnings) = servers.remote(&creates(&["east"]));
    assert_eq!(&*remote.names(), ["home", "east"]);
    assert!(warnings.is_empty(), "{warnings:?}");
    call(&remote, 1, create()).await.unwrap();
    assert_eq!(servers.east.list(limited(0)).await.unwrap().0, ["x"]);
    assert_eq!(servers.home.list(limited(0)).await.unwrap().0, [""; 0]);
    // A list is granted at home, and not there.
    let words = ["cluster \"east\"", "spec.remoteClusters", "verbs: [\"list\"]"];
    refused(call(&remote, 1, ClientVerb::List).await, RefusalReason::Forbidden, &words);
    let lines = lines.get();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((&lines[0]["verb"], &lines[0]["cluster"]), (&json!("create"), &json!("east")));
    servers.shutdown().await;
}

#[tokio::test]
async fn the_cluster_of_the_run_is_none_of_its_remote_clusters() {
    let mut servers = Servers::start().await;
    servers.home.api_calls.plugin = "plugin@east".into();
    let (remote, _) = servers.remote(&creates(&["home", "east"]));
    assert_eq!(&*remote.names(), ["east", "home"]);
    assert_eq!(remote.grants().count(), 1);
    servers.shutdown().await;
}

#[tokio::test]
async fn a_cluster_that_the_host_does_not_have_keeps_its_number_and_is_a_warning() {
    let servers = Servers::start().await;
    let (remote, warnings) = servers.remote(&creates(&["mars", "east"]));
    let words = ["no cluster \"mars\"", "it has: east, home", "--clusters"];
    refused(call(&remote, 1, create()).await, RefusalReason::Unavailable, &words);
    call(&remote, 2, create()).await.unwrap();
    assert!(warnings.len() == 1 && warnings[0].contains("no cluster \"mars\""), "{warnings:?}");
    servers.shutdown().await;
}

#[tokio::test]
async fn a_host_that_does_not_lead_writes_nothing_there_either() {
    let Servers { home, east } = Servers::start().await;
    let (home, begin) = home.standing_by();
    let servers = Servers { home, east };
    let (remote, _) = servers.remote(&creates(&["east"]));
    refused(call(&remote, 1, create()).await, RefusalReason::Unavailable, &["not the leader"]);
    // The client asks last, for what has waited since the first look.
    let ApiCalls { client, .. } = remote.clusters[0].calls.as_ref().unwrap();
    let resource = client.discover_charged(&Gvk::new("", "v1", "ConfigMap")).await.unwrap();
    let ClientVerb::Create(body) = create() else { panic!("no create") };
    let sent = client.create(&resource, Some("default"), &body, &WriteParams::default()).await;
    assert!(matches!(sent, Err(Error::Transport { unsent: true, .. })), "{sent:?}");
    begin.await;
    call(&remote, 1, create()).await.unwrap();
    servers.shutdown().await;
}

#[tokio::test]
async fn a_remote_cluster_that_is_away_says_so_and_the_cluster_of_the_run_goes_on() {
    let servers = Servers::start().await;
    let (remote, _) = servers.remote(&creates(&["east"]));
    let Servers { home, east } = servers;
    east.server.shutdown().await;
    refused(call(&remote, 1, create()).await, RefusalReason::Unavailable, &[]);
    // The next try is later.
    tokio::time::pause();
    let words = ["cluster \"east\"", "refuses connections", "call again later"];
    refused(call(&remote, 1, create()).await, RefusalReason::Unavailable, &words);
    tokio::time::resume();
    assert!(home.list(limited(0)).await.is_ok());
    home.server.shutdown().await;
}
