//! CustomResourceDefinitions: what they serve, how they show in discovery, and what they take along when they go.

use serde_json::{Value, json};

use crate::client::{Cluster, version};

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const BOATS: &str = "/apis/yard.test/v1/namespaces/default/boats";
const BOATS_V2: &str = "/apis/yard.test/v2/namespaces/default/boats";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Boats in two versions, of which v1 is stored; v1 has a status, a scale and columns.
pub(crate) fn boats() -> Value {
    let v1 = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        "subresources": {"status": {}, "scale": {
            "specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.crew",
            "labelSelectorPath": ".status.selector",
        }},
        "additionalPrinterColumns": [
            {"name": "Crew", "type": "integer", "jsonPath": ".spec.crew"},
            {"name": "Port", "type": "string", "jsonPath": ".spec.port", "priority": 1},
        ],
    });
    let v2 = json!({"name": "v2", "served": true, "storage": false, "schema": v1["schema"]});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.yard.test"},
        "spec": {
            "group": "yard.test", "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat", "shortNames": ["bo"], "categories": ["all"]},
            "versions": [v1, v2],
        },
    })
}

pub(crate) fn boat(name: &str) -> Value {
    json!({
        "apiVersion": "yard.test/v1", "kind": "Boat", "metadata": {"name": name},
        "spec": {"crew": 2, "port": "north"},
    })
}

/// A patch after which no version is served.
fn unserved() -> Value {
    let mut version = boats()["spec"]["versions"][0].clone();
    version["served"] = false.into();
    json!({"spec": {"versions": [version]}})
}

async fn with_boats() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.post(DEFINITIONS, &boats()).await.ok();
    cluster
}

#[tokio::test]
async fn a_definition_is_served_at_once_and_completed() {
    let cluster = Cluster::start().await;
    assert!(cluster.get(BOATS).await.is_no_page());
    let made = cluster.post(DEFINITIONS, &boats()).await.ok();
    assert_eq!(made["metadata"]["generation"], 1);
    let names = &made["spec"]["names"];
    assert_eq!((&names["singular"], &names["listKind"]), (&json!("boat"), &json!("BoatList")));
    assert_eq!(made["spec"]["conversion"]["strategy"], "None");
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(&made["status"]["acceptedNames"], names);
    for kind in ["Established", "NamesAccepted"] {
        let conditions = made["status"]["conditions"].as_array().unwrap();
        assert!(conditions.iter().any(|c| c["type"] == kind && c["status"] == "True"), "{made}");
    }
    assert_eq!(cluster.get(BOATS).await.ok()["kind"], "BoatList");
}

#[tokio::test]
async fn an_object_is_the_same_in_every_version_but_for_its_name() {
    let cluster = with_boats().await;
    let made = cluster.post(BOATS, &boat("a")).await.ok();
    assert_eq!((&made["apiVersion"], &made["metadata"]["generation"]), (&json!("yard.test/v1"), &json!(1)));
    let mut expected = made.clone();
    expected["apiVersion"] = "yard.test/v2".into();
    assert_eq!(cluster.get(&format!("{BOATS_V2}/a")).await.ok(), expected);
    let list = cluster.get(BOATS_V2).await.ok();
    assert_eq!((&list["apiVersion"], &list["items"][0]), (&json!("yard.test/v2"), &expected));

    // Each version's watch speaks of it in that version, whichever it was written in.
    let mut old = cluster.watch(&format!("{BOATS}?watch=1&resourceVersion={}", version(&made))).await;
    let mut new = cluster.watch(&format!("{BOATS_V2}?watch=1&resourceVersion={}", version(&made))).await;
    let patched = cluster.merge(&format!("{BOATS_V2}/a"), &json!({"spec": {"crew": 3}})).await.ok();
    assert_eq!((&patched["apiVersion"], &patched["spec"]["crew"]), (&json!("yard.test/v2"), &json!(3)));
    assert_eq!(new.next().await.unwrap()["object"], patched);
    expected = patched;
    expected["apiVersion"] = "yard.test/v1".into();
    assert_eq!(old.next().await.unwrap()["object"], expected);

    let wrong = cluster.post(BOATS_V2, &boat("b")).await;
    assert_eq!(wrong.reason(), (400, "BadRequest".to_owned()), "an object of v1 at the path of v2");
    let unnamed = cluster.post(BOATS, &json!({"metadata": {"name": "b"}})).await.failed();
    assert!(unnamed.2.contains("Object 'Kind' is missing in"), "{unnamed:?}");
}

#[tokio::test]
async fn discovery_shows_what_is_defined() {
    let cluster = Cluster::start().await;
    let before = cluster.get("/apis").await;
    let tag = before.headers["etag"].to_str().unwrap().to_owned();
    let same = cluster.send("GET", "/apis", &[("if-none-match", &tag)], "").await;
    assert_eq!((same.code, same.body.len()), (304, 0));
    assert_eq!(same.headers["etag"].to_str().unwrap(), tag);
    assert_eq!(cluster.get("/apis/yard.test").await.code, 404);

    cluster.post(DEFINITIONS, &boats()).await.ok();
    let after = cluster.send("GET", "/apis", &[("if-none-match", &tag)], "").await;
    assert_eq!(after.code, 200);
    assert_ne!(after.headers["etag"].to_str().unwrap(), tag);
    let groups = after.ok();
    let group = groups["groups"].as_array().unwrap().iter().find(|g| g["name"] == "yard.test").unwrap();
    assert_eq!(group["preferredVersion"], json!({"groupVersion": "yard.test/v2", "version": "v2"}));
    let alone = cluster.get("/apis/yard.test").await.ok();
    assert_eq!((&alone["kind"], &alone["versions"]), (&json!("APIGroup"), &group["versions"]));

    let list = cluster.get("/apis/yard.test/v1").await.ok();
    let names: Vec<&Value> = list["resources"].as_array().unwrap().iter().map(|r| &r["name"]).collect();
    assert_eq!(names, ["boats", "boats/status", "boats/scale"]);
    let boats = &list["resources"][0];
    assert_eq!((&boats["kind"], &boats["singularName"]), (&json!("Boat"), &json!("boat")));
    assert_eq!((&boats["shortNames"], &boats["categories"]), (&json!(["bo"]), &json!(["all"])));
    assert_eq!((&boats["namespaced"], boats["verbs"].as_array().unwrap().len()), (&json!(true), 8));
    let scale = &list["resources"][2];
    assert_eq!(
        (&scale["kind"], &scale["group"], &scale["version"]),
        (&json!("Scale"), &json!("autoscaling"), &json!("v1"))
    );
    let second = cluster.get("/apis/yard.test/v2").await.ok();
    assert_eq!(second["resources"].as_array().unwrap().len(), 1, "v2 has no parts");

    let aggregated = cluster.send("GET", "/apis", &[("accept", AGGREGATED)], "").await;
    assert_eq!(aggregated.headers["content-type"], AGGREGATED);
    let aggregated = aggregated.ok();
    let group = aggregated["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|g| g["metadata"]["name"] == "yard.test")
        .unwrap();
    assert_eq!(
        (&group["versions"][0]["version"], &group["versions"][1]["version"]),
        (&json!("v2"), &json!("v1"))
    );
    let boats = &group["versions"][1]["resources"][0];
    assert_eq!((&boats["resource"], &boats["scope"]), (&json!("boats"), &json!("Namespaced")));
    assert_eq!(boats["subresources"][1]["responseKind"]["kind"], "Scale");

    cluster.delete(&format!("{DEFINITIONS}/boats.yard.test"), &Value::Null).await.ok();
    assert_eq!(cluster.get("/apis/yard.test").await.code, 404);
    assert_eq!(cluster.get("/apis").await.headers["etag"].to_str().unwrap(), tag);
}

#[tokio::test]
async fn tables_have_the_columns_of_the_definition() {
    let cluster = with_boats().await;
    cluster.post(BOATS, &boat("a")).await.ok();
    let table = cluster.send("GET", BOATS, &[("accept", TABLE)], "").await.ok();
    let columns: Vec<(&Value, &Value)> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| (&c["name"], &c["priority"])).collect();
    assert_eq!(
        columns,
        [(&json!("Name"), &json!(0)), (&json!("Crew"), &json!(0)), (&json!("Port"), &json!(1))]
    );
    assert_eq!(table["rows"][0]["cells"], json!(["a", 2, "north"]));
    let table = cluster.send("GET", BOATS_V2, &[("accept", TABLE)], "").await.ok();
    let names: Vec<&Value> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["Name", "Age"]);
}

#[tokio::test]
async fn a_declared_status_has_a_path_of_its_own_and_generation_counts_the_rest() {
    let cluster = with_boats().await;
    let mut with_status = boat("a");
    with_status["status"] = json!({"crew": 1});
    let made = cluster.post(BOATS, &with_status).await.ok();
    assert!(made.get("status").is_none(), "{made}");
    let path = format!("{BOATS}/a");
    let both = json!({"spec": {"crew": 9}, "status": {"crew": 7}});
    let main = cluster.merge(&path, &both).await.ok();
    assert_eq!((&main["spec"]["crew"], main.get("status")), (&json!(9), None));
    assert_eq!(main["metadata"]["generation"], 2);
    let part = cluster
        .merge(&format!("{path}/status"), &json!({"spec": {"crew": 1}, "status": {"crew": 7}}))
        .await
        .ok();
    assert_eq!((&part["spec"]["crew"], &part["status"]["crew"]), (&json!(9), &json!(7)));
    assert_eq!(part["metadata"]["generation"], 2);
    let labelled = cluster.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    assert_eq!(labelled["metadata"]["generation"], 2);
    // v2 declares none: there the status is a field like any other.
    let other = cluster.merge(&format!("{BOATS_V2}/a"), &json!({"status": {"crew": 8}})).await.ok();
    assert_eq!(other["status"]["crew"], 8);
    assert_eq!(cluster.get(&format!("{BOATS_V2}/a/status")).await.reason(), (404, "NotFound".to_owned()));
}

#[tokio::test]
async fn a_declared_scale_reads_and_writes_where_it_was_said() {
    let cluster = with_boats().await;
    cluster.post(BOATS, &boat("a")).await.ok();
    cluster
        .merge(&format!("{BOATS}/a/status"), &json!({"status": {"crew": 1, "selector": "app=a"}}))
        .await
        .ok();
    let path = format!("{BOATS}/a/scale");
    let mut scale = cluster.get(&path).await.ok();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(
        (&scale["spec"], &scale["status"]),
        (&json!({"replicas": 2}), &json!({"replicas": 1, "selector": "app=a"}))
    );
    scale["spec"]["replicas"] = 5.into();
    assert_eq!(cluster.put(&path, &scale).await.ok()["spec"]["replicas"], 5);
    let boat = cluster.get(&format!("{BOATS}/a")).await.ok();
    assert_eq!((&boat["spec"]["crew"], &boat["metadata"]["generation"]), (&json!(5), &json!(2)));
    let apply = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 6},
    });
    let headers = [("content-type", "application/apply-patch+yaml")];
    let asked = format!("{path}?fieldManager=a&force=true");
    let applied = cluster.send("PATCH", &asked, &headers, apply.to_string()).await.ok();
    assert_eq!(applied["spec"]["replicas"], 6);
    assert_eq!(cluster.get(&format!("{BOATS_V2}/a/scale")).await.code, 404);
}

#[tokio::test]
async fn a_custom_object_takes_no_strategic_patch_and_no_put_without_a_version() {
    let cluster = with_boats().await;
    cluster.post(BOATS, &boat("a")).await.ok();
    let path = format!("{BOATS}/a");
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    let (code, reason, message) = cluster.send("PATCH", &path, &strategic, "{}").await.failed();
    assert_eq!((code, reason.as_str()), (415, "UnsupportedMediaType"));
    assert!(message.contains("application/merge-patch+json") && !message.contains("strategic"), "{message}");
    let (code, reason, message) = cluster.put(&path, &boat("a")).await.failed();
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(
        message.contains("metadata.resourceVersion") && message.contains("must be specified"),
        "{message}"
    );
}

#[tokio::test]
async fn the_faults_of_a_definition_are_named() {
    let cluster = Cluster::start().await;
    let set = |pointer: &str, value: Value| {
        let mut definition = boats();
        *definition.pointer_mut(pointer).unwrap() = value;
        definition
    };
    for (definition, field) in [
        (set("/metadata/name", json!("ships.yard.test")), "metadata.name"),
        (set("/spec/scope", json!("Galaxy")), "spec.scope"),
        (set("/spec/versions/1/storage", json!(true)), "spec.versions"),
        (set("/spec/versions/0/storage", json!(false)), "spec.versions"),
        (set("/spec/versions", json!([])), "spec.versions"),
        (set("/spec/names/kind", json!("")), "spec.names.kind"),
        (set("/spec", json!({})), "spec"),
        (set("/spec/versions/1/name", json!("v1")), "spec.versions[1].name"),
        (set("/spec/versions/1/name", json!("V/2")), "spec.versions[1].name"),
        (
            set("/spec/versions/0/subresources/scale/specReplicasPath", json!(".metadata")),
            "spec.versions[0].subresources.scale.specReplicasPath",
        ),
    ] {
        let status = cluster.post(DEFINITIONS, &definition).await.json();
        assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")), "{status}");
        let causes = status["details"]["causes"].as_array().unwrap();
        assert!(causes.iter().any(|c| c["field"] == field), "{field}: {status}");
        assert_eq!(status["details"]["kind"], "CustomResourceDefinition");
    }
    let (code, _, message) = cluster.post(DEFINITIONS, &set("/spec/versions", json!("v1"))).await.failed();
    assert_eq!(code, 400);
    assert!(message.ends_with(
        "CustomResourceDefinitionSpec.spec.versions of type []v1.CustomResourceDefinitionVersion"
    ));
    let mut webhook = boats();
    webhook["spec"]["conversion"] = json!({"strategy": "Webhook"});
    let (code, _, message) = cluster.post(DEFINITIONS, &webhook).await.failed();
    assert!(code == 422 && message.contains("required when strategy is set to Webhook"), "{message}");
    assert_eq!(cluster.get(BOATS).await.code, 404, "and nothing is served");
}

#[tokio::test]
async fn a_definition_does_not_take_what_is_built_in() {
    let cluster = Cluster::start().await;
    let mut definition = boats();
    definition["metadata"]["name"] = "deployments.apps".into();
    definition["spec"]["group"] = "apps".into();
    definition["spec"]["names"] = json!({"plural": "deployments", "kind": "Deployment"});
    assert_eq!(cluster.post(DEFINITIONS, &definition).await.reason(), (422, "Invalid".to_owned()));
}

#[tokio::test]
async fn a_version_comes_and_goes_with_the_definition() {
    let cluster = with_boats().await;
    cluster.post(BOATS, &boat("a")).await.ok();
    let path = format!("{DEFINITIONS}/boats.yard.test");
    let mut definition = cluster.get(&path).await.ok();
    let mut third = definition["spec"]["versions"][1].clone();
    third["name"] = "v3".into();
    definition["spec"]["versions"].as_array_mut().unwrap().push(third);
    definition["spec"]["versions"][0]["served"] = false.into();
    let updated = cluster.put(&path, &definition).await.ok();
    assert_eq!(updated["metadata"]["generation"], 2);
    assert_eq!(cluster.get(&format!("{BOATS}/a")).await.reason(), (404, "NotFound".to_owned()));
    assert_eq!(cluster.get("/apis/yard.test/v1").await.code, 404);
    let seen = cluster.get(&BOATS.replace("/v1/", "/v3/")).await.ok();
    assert_eq!(
        (&seen["items"][0]["apiVersion"], &seen["items"][0]["spec"]["crew"]),
        (&json!("yard.test/v3"), &json!(2))
    );
    // A fault leaves everything as it was.
    let wrong = json!({"spec": {"scope": "Galaxy"}});
    assert_eq!(cluster.merge(&path, &wrong).await.reason(), (422, "Invalid".to_owned()));
    assert_eq!(cluster.get(BOATS_V2).await.code, 200);
}

#[tokio::test]
async fn an_update_of_a_definition_keeps_what_its_status_remembers() {
    let cluster = with_boats().await;
    let path = format!("{DEFINITIONS}/boats.yard.test");
    let conditions = json!({"status": {"conditions": [
        {"type": "Established", "status": "True", "lastTransitionTime": "2001-01-01T00:00:00Z"},
    ]}});
    cluster.merge(&format!("{path}/status"), &conditions).await.ok();
    let open = &boats()["spec"]["versions"][0]["schema"];
    let other = json!({"spec": {"versions": [
        {"name": "v1", "served": true, "storage": false, "schema": open},
        {"name": "v2", "served": true, "storage": true, "schema": open},
    ]}});
    let updated = cluster.merge(&path, &other).await.ok();
    assert_eq!(updated["status"]["storedVersions"], json!(["v1", "v2"]));
    let conditions = updated["status"]["conditions"].as_array().unwrap();
    let established = conditions.iter().find(|c| c["type"] == "Established").unwrap();
    assert_eq!(established["lastTransitionTime"], "2001-01-01T00:00:00Z");
    assert_eq!(cluster.merge(&path, &other).await.ok(), updated, "the same again is no write");
}

#[tokio::test]
async fn a_deleted_definition_waits_for_the_last_of_its_objects() {
    let cluster = with_boats().await;
    cluster.post(BOATS, &boat("a")).await.ok();
    let mut held = boat("held");
    held["metadata"]["finalizers"] = json!(["x.io/y"]);
    cluster.post(BOATS, &held).await.ok();
    let path = format!("{DEFINITIONS}/boats.yard.test");
    let marked = cluster.delete(&path, &Value::Null).await.ok();
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    let finalizers = marked["metadata"]["finalizers"].as_array().unwrap();
    assert!(finalizers.contains(&json!("customresourcecleanup.apiextensions.k8s.io")), "{marked}");
    let left = cluster.get(BOATS).await.ok();
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    assert!(left["items"][0]["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(cluster.get(&path).await.code, 200);

    cluster.merge(&format!("{BOATS}/held"), &json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(cluster.get(&path).await.code, 404);
    assert_eq!(cluster.get(BOATS).await.code, 404);
    cluster.post(DEFINITIONS, &boats()).await.ok();
    assert_eq!(cluster.get(BOATS).await.ok()["items"], json!([]), "the new one begins empty");
}

#[tokio::test]
async fn objects_that_are_no_longer_served_go_with_their_definition() {
    let cluster = with_boats().await;
    cluster.post(BOATS, &boat("a")).await.ok();
    let path = format!("{DEFINITIONS}/boats.yard.test");
    cluster.merge(&path, &unserved()).await.ok();
    assert_eq!(cluster.get(BOATS).await.code, 404);
    cluster.delete(&path, &Value::Null).await.ok();
    assert_eq!(cluster.get(&path).await.code, 404);
    cluster.post(DEFINITIONS, &boats()).await.ok();
    assert_eq!(cluster.get(BOATS).await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_namespace_takes_along_what_is_no_longer_served() {
    let cluster = with_boats().await;
    cluster.post("/api/v1/namespaces", &json!({"metadata": {"name": "yard"}})).await.ok();
    cluster.post(&BOATS.replace("default", "yard"), &boat("a")).await.ok();
    cluster.merge(&format!("{DEFINITIONS}/boats.yard.test"), &unserved()).await.ok();
    cluster.delete("/api/v1/namespaces/yard", &Value::Null).await.ok();
    assert_eq!(cluster.get("/api/v1/namespaces/yard").await.code, 404);
}

#[tokio::test]
async fn a_watch_of_a_removed_kind_tells_the_end_of_its_objects_and_ends() {
    let cluster = with_boats().await;
    cluster.post(BOATS, &boat("a")).await.ok();
    let mut watch = cluster.watch(&format!("{BOATS}?watch=1")).await;
    assert_eq!(watch.told().await, "ADDED a");
    cluster.delete(&format!("{DEFINITIONS}/boats.yard.test"), &Value::Null).await.ok();
    assert_eq!(watch.told().await, "DELETED a");
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_kind_without_a_namespace_lives_at_the_top() {
    let cluster = Cluster::start().await;
    let mut definition = boats();
    definition["spec"]["scope"] = "Cluster".into();
    definition["spec"]["names"]["listKind"] = "Fleet".into();
    definition["spec"]["names"]["singular"] = "vessel".into();
    cluster.post(DEFINITIONS, &definition).await.ok();
    let made = cluster.post("/apis/yard.test/v1/boats", &boat("a")).await.ok();
    assert!(made["metadata"].get("namespace").is_none(), "{made}");
    let list = cluster.get("/apis/yard.test/v1/boats").await.ok();
    assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("Fleet"), &json!("Boat")));
    assert_eq!(cluster.get(BOATS).await.reason(), (404, "NotFound".to_owned()));
    let resources = cluster.get("/apis/yard.test/v1").await.ok();
    assert_eq!(resources["resources"][0]["singularName"], "vessel");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn definitions_that_come_at_once_are_all_served() {
    let cluster = std::sync::Arc::new(Cluster::start().await);
    for round in 0..5 {
        let mut making = tokio::task::JoinSet::new();
        for number in 0..8 {
            let cluster = cluster.clone();
            let plural = format!("boats{round}x{number}");
            let mut definition = boats();
            definition["metadata"]["name"] = format!("{plural}.yard.test").into();
            definition["spec"]["names"] = json!({"plural": plural, "kind": format!("Boat{round}x{number}")});
            making.spawn(async move {
                cluster.post(DEFINITIONS, &definition).await.ok();
                plural
            });
        }
        while let Some(plural) = making.join_next().await {
            let plural = plural.unwrap();
            assert_eq!(cluster.get(&format!("/apis/yard.test/v1/{plural}")).await.code, 200, "{plural}");
        }
    }
}

#[tokio::test]
async fn nothing_is_made_while_its_definition_ends() {
    let cluster = with_boats().await;
    let mut held = boat("held");
    held["metadata"]["finalizers"] = json!(["x.io/y"]);
    cluster.post(BOATS, &held).await.ok();
    cluster.delete(&format!("{DEFINITIONS}/boats.yard.test"), &Value::Null).await.ok();
    assert_eq!(cluster.post(BOATS, &boat("late")).await.reason(), (405, "MethodNotAllowed".to_owned()));
}

#[tokio::test]
async fn a_watch_ends_when_its_kind_is_defined_otherwise() {
    let cluster = with_boats().await;
    cluster.post(BOATS, &boat("a")).await.ok();
    let path = format!("{DEFINITIONS}/boats.yard.test");
    let mut watch = cluster.watch(&format!("{BOATS}?watch=1")).await;
    assert_eq!(watch.told().await, "ADDED a");
    cluster.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    cluster.post(BOATS, &boat("b")).await.ok();
    assert_eq!(watch.told().await, "ADDED b", "labels define nothing");
    let mut definition = boats();
    definition["spec"]["versions"][1]["served"] = false.into();
    cluster.merge(&path, &json!({"spec": definition["spec"]})).await.ok();
    assert!(watch.next().await.is_none());
    let mut watch = cluster.watch(&format!("{BOATS}?watch=1")).await;
    assert_eq!((watch.told().await, watch.told().await), ("ADDED a".to_owned(), "ADDED b".to_owned()));
    cluster.post(BOATS, &boat("c")).await.ok();
    assert_eq!(watch.told().await, "ADDED c");
}
