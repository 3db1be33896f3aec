//! The example `deployment-watcher`, from the first list to the last delete: what it says of each event, and what it lists.

use anyhow::Result;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, guests, loglines};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(deployments_are_told_of_and_listed);

const KIND: &str = "apps/v1/Deployment";

fn deployment(namespace: &str, name: &str, tier: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": namespace, "name": name, "labels": {"tier": tier}},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "web:1"}, {"name": "side", "image": "side:1"}]},
            },
        },
    })
}

fn deployments_are_told_of_and_listed(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let cluster = Cluster::of(plane)?;
    for namespace in ["listed", "other"] {
        cluster.namespace(namespace)?;
    }
    cluster.create(&deployment("listed", "web", "front", 3))?;
    cluster.create(&deployment("listed", "db", "back", 1))?;
    cluster.create(&deployment("other", "web", "front", 1))?;

    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let rule = json!({"groups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"], "namespaces": ["*"]});
    let manifest = Manifest::new("deployment-watcher")
        .with("permissions", json!([rule]))
        .config(json!({"listNamespace": "listed", "labelSelector": "tier=front"}));
    host.install("deployment-watcher", &guests::wasm("deployment-watcher")?, Some(&manifest.to_string()))?;
    plugins::wait_running(&host, "deployment-watcher")?;

    let said = || -> Vec<String> {
        let lines = loglines::of_plugin(&host, "deployment-watcher").into_iter();
        lines.filter(|line| line.target == "guest").map(|line| line.message).collect()
    };
    // Waits for lines that follow on each other, behind those that were waited for before.
    let mut heard = 0;
    let mut hear = |wanted: &[&str]| -> Result<()> {
        host.wait_for(&format!("{wanted:?}"), SOON, || {
            let said = said();
            let at = said[heard..].windows(wanted.len()).position(|lines| lines == wanted);
            heard += at? + wanted.len();
            Some(())
        })
    };

    // The store is full before anything is told.
    for found in ["listed/web: replicas 3", "listed/db: replicas 1", "other/web: replicas 1"] {
        let line = format!("found {found}, image web:1+side:1");
        host.wait_for(&line, SOON, || said().contains(&line))?;
    }
    let lists: Vec<String> = said().into_iter().filter(|line| line.contains(" in listed: ")).collect();
    assert_eq!(lists, ["1 in listed: web 0/3"], "once, and by namespace and label: {:#?}", said());

    cluster.create(&deployment("listed", "api", "front", 2))?;
    hear(&["added listed/api: replicas 2, image web:1+side:1", "2 in listed: api 0/2, web 0/3"])?;
    cluster.merge(KIND, "listed", "web", &json!({"spec": {"replicas": 5}}))?;
    hear(&["updated listed/web: replicas 3 → 5", "2 in listed: api 0/2, web 0/5"])?;
    let containers = json!([{"name": "main", "image": "web:2"}, {"name": "side", "image": "side:1"}]);
    let image = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    cluster.merge(KIND, "listed", "web", &image)?;
    hear(&["updated listed/web: image web:1+side:1 → web:2+side:1", "2 in listed: api 0/2, web 0/5"])?;
    let status = json!({"status": {"replicas": 5, "readyReplicas": 4, "availableReplicas": 4}});
    cluster.merge_status(KIND, "listed", "web", &status)?;
    hear(&["updated listed/web: ready none → 4", "2 in listed: api 0/2, web 4/5"])?;
    cluster.merge(KIND, "listed", "web", &json!({"metadata": {"annotations": {"note": "new"}}}))?;
    hear(&["updated listed/web: something else", "2 in listed: api 0/2, web 4/5"])?;

    // One that the selector does not list, and one elsewhere, which is no reason to list.
    cluster.delete(KIND, "listed", "db")?;
    hear(&["deleted listed/db: last replicas 1, image web:1+side:1", "2 in listed: api 0/2, web 4/5"])?;
    cluster.delete(KIND, "other", "web")?;
    hear(&["deleted other/web: last replicas 1, image web:1+side:1"])?;
    cluster.delete(KIND, "listed", "web")?;
    hear(&["deleted listed/web: last replicas 5, ready 4, image web:2+side:1", "1 in listed: api 0/2"])?;
    let others: Vec<String> = said().into_iter().filter(|line| line.contains("other/web")).collect();
    assert_eq!(others.len(), 2, "found and deleted, and nothing else: {others:#?}");
    Ok(())
}
