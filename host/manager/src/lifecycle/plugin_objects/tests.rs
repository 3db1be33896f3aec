//! Which changes of the Plugins of a cluster are reported, and what is decided about them.

use pilothouse_cache::FactoryOptions;
use pilothouse_cache::testing::FakeControllerSource;
use serde_json::{Value, json};

use super::*;
use crate::testing::settle;

pub(super) struct Cluster {
    pub(super) server: FakeControllerSource,
    pub(super) source: PluginObjects,
    _folder: tempfile::TempDir,
}

impl Cluster {
    pub(super) async fn new() -> Self {
        Self::of_host(AllowLists::default(), BTreeSet::new()).await
    }

    /// Of a host with these clusters beside the home cluster.
    async fn of_host(allowed: AllowLists, clusters: BTreeSet<String>) -> Self {
        let server = FakeControllerSource::new(plugins());
        let of = server.clone();
        let factory = SharedInformerFactory::new(
            Arc::new(move |_, namespace| of.source_in(namespace)),
            FactoryOptions::default(),
        );
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(ComponentStore::open(folder.path().join("components")).unwrap());
        let namespaces = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let allowed = AllowLists { namespaces: Some(namespaces.clone()), ..allowed };
        let ceilings = Ceilings::default();
        let source =
            PluginObjects::start(&factory, Some(&namespaces), ceilings, allowed, clusters, store).unwrap();
        settle().await;
        Self { server, source, _folder: folder }
    }

    /// What is reported by now.
    pub(super) fn changes(&mut self) -> Vec<String> {
        let mut lines: Vec<String> = self.source.take().iter().map(line).collect();
        lines.sort();
        lines
    }

    fn admission(&self, name: &str) -> Option<Admission> {
        let admissions = self.source.table().admissions();
        admissions.into_iter().find(|(other, _)| other == name).map(|(_, admission)| admission)
    }
}

fn line(change: &ObjectChange) -> String {
    match change {
        ObjectChange::Changed(files) => format!("{} {}", files.name, files.manifest.limits.queue_depth),
        ObjectChange::Refused { message, .. } => message.clone(),
        ObjectChange::Removed { name } => format!("{name} removed"),
        ObjectChange::Synced => "synced".to_owned(),
    }
}

/// A Plugin of a namespace with this depth of its queue and this status.
pub(super) fn plugin(namespace: &str, depth: u32, generation: i64, status: &Value) -> Value {
    json!({
        "metadata": {"generation": generation, "labels": {"team": "x"}},
        "spec": {
            "source": {"url": "https://files.example/p.wasm", "digest": format!("sha256:{:064}", 7)},
            "serviceAccount": {"namespace": namespace, "name": "robot"},
            "limits": {"queueDepth": depth},
        },
        "status": status,
    })
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_reported_for_what_it_says_and_not_for_its_status() {
    let mut cluster = Cluster::new().await;
    let [none, ready] = [json!({}), json!({"conditions": [{"type": "Ready"}]})];
    cluster.server.create("a/p", plugin("a", 5, 1, &none));
    cluster.server.create("elsewhere/p", plugin("elsewhere", 5, 1, &none));
    settle().await;
    let [ObjectChange::Changed(files)] = &cluster.source.take()[..] else { panic!("one plugin") };
    assert_eq!((files.name.as_str(), files.digest.as_str()), ("a/p", &*format!("sha256:{:064}", 7)));
    assert_eq!(files.places.component, "Plugin a/p, https://files.example/p.wasm");
    assert_eq!(files.wasm_path, cluster.source.store.path("a", &files.digest));
    let accepted = Some(Admission { generation: 1, outcome: Ok(files.manifest_digest.clone()) });
    assert_eq!(cluster.admission("a/p"), accepted);

    cluster.server.update("a/p", plugin("a", 5, 1, &ready));
    settle().await;
    assert_eq!(cluster.changes(), [""; 0], "a change of the status alone");
    cluster.server.update("a/p", plugin("a", 6, 2, &ready));
    settle().await;
    assert_eq!(cluster.changes(), ["a/p 6"]);
    assert_eq!(cluster.admission("a/p").unwrap().generation, 2);
    cluster.server.recreate("a/p", plugin("a", 6, 1, &none));
    settle().await;
    let changes: Vec<String> = cluster.source.take().iter().map(line).collect();
    assert_eq!(
        changes,
        ["a/p removed", "a/p 6"],
        "another object, whose deletion and creation are seen together"
    );
    assert_eq!(cluster.admission("a/p").unwrap().generation, 1);
    cluster.server.recreate("a/p", plugin("elsewhere", 6, 1, &none));
    settle().await;
    let changes: Vec<String> = cluster.source.take().iter().map(line).collect();
    assert!(changes.len() == 2 && changes[0] == "a/p removed", "what ran before ends: {changes:?}");
    cluster.server.delete("a/p");
    settle().await;
    assert_eq!(cluster.changes(), ["a/p removed"]);
    assert_eq!(cluster.admission("a/p"), None);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_names_what_it_may_not_is_refused_until_it_is_corrected() {
    let mut cluster = Cluster::new().await;
    cluster.server.create("a/p", plugin("b", 5, 1, &Value::Null));
    settle().await;
    let refusal = "spec.serviceAccount.namespace: namespace \"b\" is not that of the Plugin; name a ServiceAccount of \
                   namespace \"a\"";
    assert_eq!(cluster.changes(), [format!("Plugin a/p: {refusal}")]);
    assert_eq!(cluster.admission("a/p").unwrap().outcome, Err(refusal.to_owned()));
    // So is what the lists of the operator do not allow.
    let rule = json!({"groups": [""], "resources": ["pods"], "verbs": ["get"], "namespaces": ["c"]});
    for (field, value, words) in [
        ("clusters", json!(["home", "east"]), "spec.clusters[1]: cluster \"east\" is not allowed"),
        ("permissions", json!([rule]), "spec.permissions[0].namespaces: namespace \"c\" is not allowed"),
    ] {
        let mut object = plugin("a", 5, 1, &Value::Null);
        object["spec"][field] = value;
        cluster.server.update("a/p", object);
        settle().await;
        let changes = cluster.changes();
        assert!(changes.len() == 1 && changes[0].starts_with(&format!("Plugin a/p: {words}")), "{changes:?}");
        let refused = cluster.admission("a/p").unwrap().outcome.unwrap_err();
        assert!(refused.starts_with(words), "{refused}");
    }
    cluster.server.update("a/p", plugin("a", 5, 2, &Value::Null));
    settle().await;
    assert_eq!(cluster.changes(), ["a/p 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_names_a_cluster_that_the_host_does_not_have_is_refused_with_the_remedy() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let allowed = AllowLists { clusters: Some(names(&["east", "mars"])), ..AllowLists::default() };
    let mut cluster = Cluster::of_host(allowed, names(&["east"])).await;
    let mut body = plugin("a", 5, 1, &json!({}));
    body["spec"]["clusters"] = json!(["home", "mars"]);
    cluster.server.create("a/p", body.clone());
    settle().await;
    let why = "spec.clusters: the host has no cluster \"mars\", it has: home, east; name it in --clusters";
    assert_eq!(cluster.changes(), [format!("Plugin a/p: {why}")]);
    assert_eq!(cluster.admission("a/p").map(|admission| admission.outcome), Some(Err(why.to_owned())));
    body["spec"]["clusters"] = json!(["home", "east"]);
    cluster.server.update("a/p", body);
    settle().await;
    assert_eq!(cluster.changes(), ["a/p 5"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_there_at_the_start_comes_before_the_report_that_all_is_read() {
    let mut cluster = Cluster::new().await;
    cluster.server.create("a/p", plugin("a", 1, 1, &Value::Null));
    cluster.server.create("b/p", plugin("b", 2, 1, &Value::Null));
    settle().await;
    let mut lines = Vec::new();
    while lines.last().is_none_or(|last| last != "synced") {
        lines.extend(cluster.source.next().await.iter().map(line));
    }
    let end = lines.pop();
    lines.sort();
    assert_eq!((lines.join(", "), end.as_deref()), ("a/p 1, b/p 2".to_owned(), Some("synced")));
    assert_eq!(cluster.source.table().why_unlisted(), None);
    // Nothing more, and none of it twice.
    cluster.server.delete("b/p");
    let next = cluster.source.next().await;
    assert_eq!(next.iter().map(line).collect::<Vec<_>>(), ["b/p removed"]);
}
