//! Owners and dependents in all kinds of deletion. The garbage collector of a real kube-controller-manager is compared in
//! `tests/tests/peers/controllers.rs`.

use pilothouse_devserver::{ControllerSet, DevServerOptions};
use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Cluster, config_map};
use crate::definitions::{BOATS, DEFINITIONS, boat, boats};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const NAMESPACES: &str = "/api/v1/namespaces";

/// A reference to an owner that is a ConfigMap, and that waits for the dependent in a foreground deletion.
fn owned_by(owner: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
    })
}

async fn dependent(cluster: &Cluster, name: &str, owners: &[&Value]) -> Value {
    let mut object = config_map(name);
    object["metadata"]["ownerReferences"] = owners.iter().map(|owner| owned_by(owner)).collect();
    cluster.post(CONFIG_MAPS, &object).await.ok()
}

/// The names of the ConfigMaps that are there when nothing more happens.
async fn left(cluster: &Cluster) -> Vec<String> {
    cluster.server.settled().await;
    let list = cluster.get(CONFIG_MAPS).await.ok();
    let names = list["items"].as_array().unwrap().iter();
    names.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn delete(cluster: &Cluster, name: &str, policy: &str) -> Value {
    cluster.delete(&format!("{CONFIG_MAPS}/{name}"), &json!({"propagationPolicy": policy})).await.ok()
}

#[tokio::test]
async fn dependents_follow_their_owner() {
    let cluster = Cluster::start().await;
    let owner = cluster.config_map("owner").await;
    let child = dependent(&cluster, "child", &[&owner]).await;
    dependent(&cluster, "grandchild", &[&child]).await;
    cluster.config_map("other").await;
    assert_eq!(left(&cluster).await, ["child", "grandchild", "other", "owner"]);
    cluster.delete(&format!("{CONFIG_MAPS}/owner"), &Value::Null).await.ok();
    assert_eq!(left(&cluster).await, ["other"]);
}

#[tokio::test]
async fn in_the_foreground_dependents_go_first() {
    let cluster = Cluster::start().await;
    let owner = cluster.config_map("owner").await;
    let mut child = dependent(&cluster, "child", &[&owner]).await;
    child["metadata"]["finalizers"] = json!(["x.io/wait"]);
    cluster.put(&format!("{CONFIG_MAPS}/child"), &child).await.ok();
    let marked = delete(&cluster, "owner", "Foreground").await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(left(&cluster).await, ["child", "owner"]);
    let waiting = cluster.get(&format!("{CONFIG_MAPS}/child")).await.ok();
    assert!(waiting["metadata"]["deletionTimestamp"].is_string(), "{waiting}");
    cluster.merge(&format!("{CONFIG_MAPS}/child"), &json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(left(&cluster).await, [""; 0]);
}

#[tokio::test]
async fn one_that_does_not_block_is_not_waited_for() {
    let cluster = Cluster::start().await;
    let owner = cluster.config_map("owner").await;
    let mut object = config_map("child");
    object["metadata"]["ownerReferences"] = json!([owned_by(&owner)]);
    object["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = false.into();
    object["metadata"]["finalizers"] = json!(["x.io/wait"]);
    cluster.post(CONFIG_MAPS, &object).await.ok();
    delete(&cluster, "owner", "Foreground").await;
    assert_eq!(left(&cluster).await, ["child"]);
}

#[tokio::test]
async fn orphans_stay_and_name_no_owner() {
    let cluster = Cluster::start().await;
    let owner = cluster.config_map("owner").await;
    let other = cluster.config_map("other").await;
    for number in 0..250 {
        dependent(&cluster, &format!("child-{number}"), &[&owner]).await;
    }
    dependent(&cluster, "shared", &[&owner, &other]).await;
    let marked = delete(&cluster, "owner", "Orphan").await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]));
    assert_eq!(left(&cluster).await.len(), 252);
    let child = cluster.get(&format!("{CONFIG_MAPS}/child-249")).await.ok();
    assert_eq!(child["metadata"]["ownerReferences"], Value::Null);
    let shared = cluster.get(&format!("{CONFIG_MAPS}/shared")).await.ok();
    assert_eq!(shared["metadata"]["ownerReferences"], json!([owned_by(&other)]));
}

#[tokio::test]
async fn an_owner_that_is_there_is_enough() {
    let cluster = Cluster::start().await;
    let (one, other) = (cluster.config_map("one").await, cluster.config_map("other").await);
    dependent(&cluster, "child", &[&one, &other]).await;
    delete(&cluster, "one", "Background").await;
    assert_eq!(left(&cluster).await, ["child", "other"]);
    let child = cluster.get(&format!("{CONFIG_MAPS}/child")).await.ok();
    assert_eq!(child["metadata"]["ownerReferences"], json!([owned_by(&other)]));
}

#[tokio::test]
async fn an_owner_is_who_has_the_uid() {
    let cluster = Cluster::start().await;
    let owner = cluster.config_map("owner").await;
    let mut impostor = owner.clone();
    impostor["metadata"]["uid"] = "another".into();
    dependent(&cluster, "child", &[&impostor]).await;
    dependent(&cluster, "right", &[&owner]).await;
    assert_eq!(left(&cluster).await, ["owner", "right"]);
}

#[tokio::test]
async fn an_owner_in_another_namespace_counts_as_gone_and_is_told() {
    let cluster = Cluster::start().await;
    cluster.post(NAMESPACES, &json!({"metadata": {"name": "yard"}})).await.ok();
    let owner = cluster.post(&format!("{NAMESPACES}/yard/configmaps"), &config_map("owner")).await.ok();
    dependent(&cluster, "child", &[&owner]).await;
    assert_eq!(left(&cluster).await, [""; 0]);
    let events = cluster.get("/api/v1/namespaces/default/events").await.ok();
    let told: Vec<_> = events["items"].as_array().unwrap().iter().map(|e| &e["reason"]).collect();
    assert_eq!(told, ["OwnerRefInvalidNamespace"], "{events}");
}

#[tokio::test]
async fn what_a_deletion_does_not_say_the_kind_says() {
    let cluster = Cluster::start().await;
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}});
    let job = json!({"metadata": {"name": "job"}, "spec": {"template": template}});
    for (policy, expected) in [(Value::Null, 1), (json!({"propagationPolicy": "Background"}), 0)] {
        let owner = cluster.post(JOBS, &job).await.ok();
        let mut child = config_map("child");
        let uid = &owner["metadata"]["uid"];
        child["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": uid}]);
        cluster.post(CONFIG_MAPS, &child).await.ok();
        cluster.delete(&format!("{JOBS}/job"), &policy).await.ok();
        assert_eq!(left(&cluster).await.len(), expected, "{policy}");
        assert_eq!(cluster.get(&format!("{JOBS}/job")).await.code, 404);
        cluster.delete(&format!("{CONFIG_MAPS}/child"), &Value::Null).await;
    }
}

#[tokio::test]
async fn two_that_own_each_other_go_together() {
    let cluster = Cluster::start().await;
    let one = cluster.config_map("one").await;
    let mut other = dependent(&cluster, "other", &[&one]).await;
    let owners = json!({"metadata": {"ownerReferences": [owned_by(&other)]}});
    cluster.merge(&format!("{CONFIG_MAPS}/one"), &owners).await.ok();
    assert_eq!(left(&cluster).await, ["one", "other"]);
    other = delete(&cluster, "other", "Foreground").await;
    assert!(other["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(left(&cluster).await, [""; 0]);
}

#[tokio::test]
async fn an_owner_of_a_kind_to_come_is_not_taken_for_gone() {
    let cluster = Cluster::start().await;
    let mut object = config_map("child");
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "x.io/v1", "kind": "Widget", "name": "w", "uid": "u"}]);
    cluster.post(CONFIG_MAPS, &object).await.ok();
    assert_eq!(left(&cluster).await, ["child"]);
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({
        "metadata": {"name": "widgets.x.io"},
        "spec": {
            "group": "x.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    cluster.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.ok();
    assert_eq!(left(&cluster).await, [""; 0]);
}

#[tokio::test]
async fn a_set_without_the_collector_leaves_everything() {
    let controllers = ControllerSet { garbage_collector: false, ..ControllerSet::default() };
    let cluster = Cluster::with(DevServerOptions { controllers, ..DevServerOptions::default() }).await;
    let owner = cluster.config_map("owner").await;
    dependent(&cluster, "child", &[&owner]).await;
    let marked = delete(&cluster, "owner", "Foreground").await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(left(&cluster).await, ["child", "owner"]);
}

#[tokio::test]
async fn dependents_of_a_custom_object_go_with_its_definition() {
    let cluster = Cluster::start().await;
    cluster.post(DEFINITIONS, &boats()).await.ok();
    let owner = cluster.post(BOATS, &boat("owner")).await.ok();
    let mut child = config_map("child");
    let uid = &owner["metadata"]["uid"];
    child["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "yard.test/v1", "kind": "Boat", "name": "owner", "uid": uid}]);
    cluster.post(CONFIG_MAPS, &child).await.ok();
    assert_eq!(left(&cluster).await, ["child"]);
    cluster.delete(&format!("{DEFINITIONS}/boats.yard.test"), &Value::Null).await.ok();
    assert_eq!(left(&cluster).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_settled_before_the_last_of_a_chain_has_gone() {
    let cluster = Cluster::start().await;
    for round in 0..3 {
        let mut owner = cluster.config_map(&format!("owner-{round}")).await;
        // So many that the last cannot go while the list is asked for.
        for number in 0..200 {
            owner = dependent(&cluster, &format!("child-{round}-{number}"), &[&owner]).await;
        }
        cluster.delete(&format!("{CONFIG_MAPS}/owner-{round}"), &Value::Null).await.ok();
        assert_eq!(left(&cluster).await, [""; 0], "round {round}");
    }
}

#[tokio::test]
async fn a_definition_goes_with_its_objects_where_namespaces_are_left_to_others() {
    let controllers =
        ControllerSet { namespaces: false, garbage_collector: false, ..ControllerSet::default() };
    let cluster = Cluster::with(DevServerOptions { controllers, ..DevServerOptions::default() }).await;
    cluster.post(DEFINITIONS, &boats()).await.ok();
    cluster.post(BOATS, &boat("a")).await.ok();
    cluster.delete(&format!("{DEFINITIONS}/boats.yard.test"), &Value::Null).await.ok();
    cluster.server.settled().await;
    assert_eq!(cluster.get(&format!("{DEFINITIONS}/boats.yard.test")).await.code, 404);
    // Namespaces are another controller's.
    cluster.post("/api/v1/namespaces", &json!({"metadata": {"name": "yard"}})).await.ok();
    cluster.delete("/api/v1/namespaces/yard", &Value::Null).await.ok();
    cluster.server.settled().await;
    assert_eq!(cluster.get("/api/v1/namespaces/yard").await.ok()["status"]["phase"], "Terminating");
}

#[tokio::test]
async fn a_job_in_a_namespace_that_ends_does_not_leave_its_dependents() {
    let cluster = Cluster::start().await;
    cluster.post("/api/v1/namespaces", &json!({"metadata": {"name": "yard"}})).await.ok();
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}});
    let job = json!({"metadata": {"name": "job"}, "spec": {"template": template}});
    let owner = cluster.post(&JOBS.replace("default", "yard"), &job).await.ok();
    let maps = CONFIG_MAPS.replace("default", "yard");
    let mut child = config_map("child");
    let uid = &owner["metadata"]["uid"];
    child["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": uid}]);
    cluster.post(&maps, &child).await.ok();
    // By itself a Job would leave them, and first wait for them.
    let mut watch = cluster.watch(&format!("{}?watch=1", JOBS.replace("default", "yard"))).await;
    assert_eq!(watch.told().await, "ADDED job");
    cluster.delete("/api/v1/namespaces/yard", &Value::Null).await.ok();
    assert_eq!(watch.told().await, "DELETED job");
    cluster.server.settled().await;
    assert_eq!(cluster.get("/api/v1/namespaces/yard").await.code, 404);
}
