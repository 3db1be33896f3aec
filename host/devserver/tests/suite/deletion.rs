//! delete, deletecollection, finalizers, grace, and namespaces, which take along what is in them.

use pilothouse_devserver::DevServerOptions;
use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Cluster, PODS, config_map, pod, version};

#[tokio::test]
async fn a_deleted_object_is_gone_and_the_answer_says_which() {
    let cluster = Cluster::start().await;
    let made = cluster.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let status = cluster.delete(&path, &Value::Null).await.ok();
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
    let details = json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]});
    assert_eq!(status["details"], details);
    assert_eq!(cluster.get(&path).await.reason(), (404, "NotFound".to_owned()));
    assert_eq!(cluster.delete(&path, &Value::Null).await.reason(), (404, "NotFound".to_owned()));
    assert_ne!(cluster.config_map("a").await["metadata"]["uid"], made["metadata"]["uid"]);
}

#[tokio::test]
async fn preconditions_name_the_object_that_is_meant() {
    let cluster = Cluster::start().await;
    let made = cluster.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    for wrong in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let answer = cluster.delete(&path, &json!({"preconditions": wrong})).await;
        assert_eq!(answer.reason(), (409, "Conflict".to_owned()), "{wrong}");
    }
    let right =
        json!({"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]});
    cluster.delete(&path, &json!({"preconditions": right})).await.ok();
    let malformed = cluster.delete(&path, &json!({"gracePeriodSeconds": "soon"})).await;
    assert_eq!(malformed.reason(), (400, "BadRequest".to_owned()));
}

#[tokio::test]
async fn an_object_with_finalizers_stays_until_the_last_is_removed() {
    let cluster = Cluster::start().await;
    let mut object = config_map("a");
    object["metadata"]["finalizers"] = json!(["x.io/one", "x.io/two"]);
    cluster.post(CONFIG_MAPS, &object).await.ok();
    let path = format!("{CONFIG_MAPS}/a");
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(watch.told().await, "ADDED a");

    let marked = cluster.delete(&path, &Value::Null).await.ok();
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    assert_eq!(watch.told().await, "MODIFIED a");
    let again = cluster.delete(&path, &Value::Null).await.ok();
    assert_eq!(again["metadata"]["deletionTimestamp"], marked["metadata"]["deletionTimestamp"]);
    let exists = cluster.post(CONFIG_MAPS, &object).await.failed();
    assert!(exists.2.contains("object is being deleted"), "{exists:?}");
    let more = json!({"metadata": {"finalizers": ["x.io/one", "x.io/two", "x.io/three"]}});
    assert_eq!(cluster.merge(&path, &more).await.reason(), (422, "Invalid".to_owned()));

    cluster.merge(&path, &json!({"metadata": {"finalizers": ["x.io/two"]}})).await.ok();
    assert_eq!(watch.told().await, "MODIFIED a");
    cluster.merge(&path, &json!({"metadata": {"finalizers": null}})).await.ok();
    let end = watch.next().await.unwrap();
    assert_eq!(end["type"], "DELETED");
    assert_eq!(end["object"]["metadata"]["finalizers"], json!(["x.io/two"]), "the last one is still listed");
    assert!(version(&end["object"]) > version(&marked));
    assert_eq!(cluster.get(&path).await.code, 404);
}

#[tokio::test]
async fn a_pod_on_a_node_has_its_grace() {
    let cluster = Cluster::start().await;
    for (name, node) in [("waits", "n"), ("goes", ""), ("forced", "n"), ("short", "n")] {
        cluster.post(PODS, &pod(name, node)).await.ok();
    }
    let path = |name: &str| format!("{PODS}/{name}");
    let marked = cluster.delete(&path("waits"), &Value::Null).await.ok();
    assert_eq!(
        (&marked["kind"], &marked["metadata"]["deletionGracePeriodSeconds"]),
        (&json!("Pod"), &json!(30))
    );
    assert_eq!(cluster.get(&path("waits")).await.code, 200);
    let shorter = cluster.delete(&path("waits"), &json!({"gracePeriodSeconds": 5})).await.ok();
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    let longer = cluster.delete(&path("waits"), &json!({"gracePeriodSeconds": 50})).await.ok();
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 5);

    cluster.delete(&path("goes"), &Value::Null).await.ok();
    assert_eq!(cluster.get(&path("goes")).await.code, 404);
    cluster.delete(&path("forced"), &json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(cluster.get(&path("forced")).await.code, 404);
    // There is no kubelet: the server ends it when its time is over.
    let mut watch = cluster.watch(&format!("{PODS}?watch=1&fieldSelector=metadata.name%3Dshort")).await;
    assert_eq!(watch.told().await, "ADDED short");
    cluster.delete(&path("short"), &json!({"gracePeriodSeconds": 1})).await.ok();
    assert_eq!(watch.told().await, "MODIFIED short");
    assert_eq!(watch.told().await, "DELETED short");
}

#[tokio::test]
async fn a_collection_is_deleted_by_what_selects_it() {
    let cluster = Cluster::start().await;
    for name in ["a", "b", "c"] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"keep": (name == "b").to_string()});
        cluster.post(CONFIG_MAPS, &object).await.ok();
    }
    let deleted =
        cluster.delete(&format!("{CONFIG_MAPS}?labelSelector=keep!%3Dtrue"), &Value::Null).await.ok();
    assert_eq!(deleted["kind"], "ConfigMapList");
    assert_eq!(deleted["items"].as_array().unwrap().len(), 2);
    let left = cluster.get(CONFIG_MAPS).await.ok();
    assert_eq!(left["items"][0]["metadata"]["name"], "b");
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_namespace_takes_along_what_is_in_it() {
    let cluster = Cluster::with(DevServerOptions::default()).await;
    let namespace = json!({"metadata": {"name": "yard"}});
    let made = cluster.post("/api/v1/namespaces", &namespace).await.ok();
    assert_eq!(made["status"]["phase"], "Active");
    assert_eq!(made["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "yard"}));
    let maps = "/api/v1/namespaces/yard/configmaps";
    cluster.post(maps, &config_map("a")).await.ok();
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["x.io/y"]);
    cluster.post(maps, &held).await.ok();
    let mut watch =
        cluster.watch("/api/v1/configmaps?watch=1&fieldSelector=metadata.namespace!=kube-system").await;
    assert_eq!((watch.told().await, watch.told().await), ("ADDED a".to_owned(), "ADDED held".to_owned()));

    let ending = cluster.delete("/api/v1/namespaces/yard", &Value::Null).await.ok();
    assert_eq!(ending["status"]["phase"], "Terminating");
    assert_eq!(
        (watch.told().await, watch.told().await),
        ("DELETED a".to_owned(), "MODIFIED held".to_owned())
    );
    let late = cluster.post(maps, &config_map("late")).await;
    let status = late.json();
    assert_eq!(status["details"]["causes"][0]["reason"], "NamespaceTerminating");
    assert_eq!(late.reason(), (403, "Forbidden".to_owned()));
    assert_eq!(cluster.get("/api/v1/namespaces/yard").await.code, 200);

    cluster.merge(&format!("{maps}/held"), &json!({"metadata": {"finalizers": []}})).await.ok();
    assert_eq!(watch.told().await, "DELETED held");
    assert_eq!(cluster.get("/api/v1/namespaces/yard").await.code, 404);
    // An empty one goes at once.
    cluster.post("/api/v1/namespaces", &namespace).await.ok();
    cluster.delete("/api/v1/namespaces/yard", &Value::Null).await.ok();
    assert_eq!(cluster.get("/api/v1/namespaces/yard").await.code, 404);
}

#[tokio::test]
async fn a_pod_that_waits_for_a_finalizer_is_written_once() {
    let cluster = Cluster::start().await;
    let mut object = pod("held", "");
    object["metadata"]["finalizers"] = json!(["x.io/y"]);
    cluster.post(PODS, &object).await.ok();
    let path = format!("{PODS}/held");
    let marked = cluster.delete(&path, &Value::Null).await.ok();
    for _ in 0..3 {
        assert_eq!(cluster.delete(&path, &Value::Null).await.ok(), marked);
    }
    assert_eq!(version(&cluster.get(PODS).await.ok()), version(&marked));
    // One with grace loses it when that is over, and goes with its last finalizer.
    object["metadata"]["name"] = "later".into();
    object["spec"]["nodeName"] = "n".into();
    cluster.post(PODS, &object).await.ok();
    let mut watch = cluster.watch(&format!("{PODS}?watch=1&fieldSelector=metadata.name%3Dlater")).await;
    assert_eq!(watch.told().await, "ADDED later");
    let path = format!("{PODS}/later");
    cluster.delete(&path, &json!({"gracePeriodSeconds": 1})).await.ok();
    assert_eq!(watch.told().await, "MODIFIED later");
    let over = watch.next().await.unwrap();
    assert_eq!(over["object"]["metadata"]["deletionGracePeriodSeconds"], 0);
    cluster.merge(&path, &json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(watch.told().await, "DELETED later");
}

#[tokio::test]
async fn a_pod_on_a_node_ends_soon_as_if_there_were_a_kubelet() {
    let cluster = Cluster::start().await;
    for (name, annotations) in
        [("a", json!({})), ("kept", json!({"pilothouse.dev/keep-terminating": "true"}))]
    {
        let mut object = pod(name, "n");
        object["metadata"]["annotations"] = annotations;
        object["spec"]["terminationGracePeriodSeconds"] = 3600.into();
        cluster.post(PODS, &object).await.ok();
    }
    let mut watch = cluster.watch(&format!("{PODS}?watch=1&fieldSelector=metadata.name%3Da")).await;
    assert_eq!(watch.told().await, "ADDED a");
    cluster.delete(&format!("{PODS}/kept"), &Value::Null).await.ok();
    cluster.delete(&format!("{PODS}/a"), &Value::Null).await.ok();
    assert_eq!(watch.told().await, "MODIFIED a");
    assert_eq!(watch.told().await, "DELETED a");
    let kept = cluster.get(&format!("{PODS}/kept")).await.ok();
    assert_eq!(kept["metadata"]["deletionGracePeriodSeconds"], 3600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_survives_a_namespace_into_which_it_was_put_at_the_end() {
    let cluster = std::sync::Arc::new(Cluster::start().await);
    for round in 0..20 {
        let namespace = format!("yard-{round}");
        cluster.post("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await.ok();
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        // Many at once, so that some are between the look at the namespace and the write when it ends.
        let mut filling = tokio::task::JoinSet::new();
        for filler in 0..8 {
            let (cluster, maps) = (cluster.clone(), maps.clone());
            filling.spawn(async move {
                for number in 0.. {
                    let answer = cluster.post(&maps, &config_map(&format!("map-{filler}-{number}"))).await;
                    if answer.code != 201 {
                        return answer.code;
                    }
                }
                0
            });
        }
        cluster.get(&maps).await.ok();
        cluster.delete(&format!("/api/v1/namespaces/{namespace}"), &Value::Null).await.ok();
        while let Some(code) = filling.join_next().await {
            assert!(matches!(code.unwrap(), 403 | 404));
        }
        cluster.server.settled().await;
        assert_eq!(cluster.get(&format!("/api/v1/namespaces/{namespace}")).await.code, 404, "round {round}");
        assert_eq!(cluster.get(&maps).await.ok()["items"], json!([]), "round {round}");
    }
}

#[tokio::test]
async fn a_namespace_waits_for_the_finalizers_of_others() {
    let cluster = Cluster::start().await;
    let mut made = cluster.post("/api/v1/namespaces", &json!({"metadata": {"name": "yard"}})).await.ok();
    made["spec"]["finalizers"] = json!(["kubernetes", "x.io/y"]);
    cluster.put("/api/v1/namespaces/yard/finalize", &made).await.ok();
    cluster.delete("/api/v1/namespaces/yard", &Value::Null).await.ok();
    cluster.server.settled().await;
    let mut waiting = cluster.get("/api/v1/namespaces/yard").await.ok();
    assert_eq!(waiting["spec"]["finalizers"], json!(["x.io/y"]));
    waiting["spec"]["finalizers"] = json!([]);
    cluster.put("/api/v1/namespaces/yard/finalize", &waiting).await.ok();
    assert_eq!(cluster.get("/api/v1/namespaces/yard").await.code, 404);
}

#[tokio::test]
async fn a_deletion_in_a_dry_run_shows_what_it_would_write() {
    let cluster = Cluster::start().await;
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["x.io/y"]);
    let made = cluster.post(CONFIG_MAPS, &held).await.ok();
    let path = format!("{CONFIG_MAPS}/held");
    let shown = cluster.delete(&path, &json!({"dryRun": ["All"]})).await.ok();
    assert!(shown["metadata"]["deletionTimestamp"].is_string(), "{shown}");
    assert_eq!(shown["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(cluster.get(&path).await.ok(), made);
}

#[tokio::test]
async fn who_asks_for_dependents_in_the_older_form_is_told_that_an_object_waits() {
    let cluster = Cluster::start().await;
    for (options, code) in [(json!({}), 200), (json!({"orphanDependents": false}), 202)] {
        let mut held = config_map("held");
        held["metadata"]["finalizers"] = json!(["x.io/y"]);
        cluster.post(CONFIG_MAPS, &held).await.ok();
        let path = format!("{CONFIG_MAPS}/held");
        assert_eq!(cluster.delete(&path, &options).await.code, code, "{options}");
        cluster.merge(&path, &json!({"metadata": {"finalizers": null}})).await.ok();
    }
}

#[tokio::test]
async fn a_graceful_deletion_under_way_takes_no_other_policy() {
    let cluster = Cluster::start().await;
    let mut object = pod("a", "n");
    object["metadata"]["annotations"] = json!({"pilothouse.dev/keep-terminating": "true"});
    cluster.post(PODS, &object).await.ok();
    let path = format!("{PODS}/a");
    let first = cluster.delete(&path, &Value::Null).await.ok();
    let again = cluster.delete(&path, &json!({"propagationPolicy": "Foreground"})).await.ok();
    assert_eq!(again, first);
}

#[tokio::test]
async fn a_pod_whose_grace_is_over_takes_another_policy_while_finalizers_hold_it() {
    let cluster = Cluster::start().await;
    let mut object = pod("a", "");
    object["metadata"]["finalizers"] = json!(["x.io/wait"]);
    cluster.post(PODS, &object).await.ok();
    let path = format!("{PODS}/a");
    let first = cluster.delete(&path, &Value::Null).await.ok();
    assert_eq!(first["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = cluster.delete(&path, &json!({"propagationPolicy": "Foreground"})).await.ok();
    assert_eq!(again["metadata"]["finalizers"], json!(["x.io/wait", "foregroundDeletion"]));
}

#[tokio::test]
async fn a_claim_goes_when_the_last_pod_that_uses_it_has_ended() {
    const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
    let cluster = Cluster::start().await;
    let claim = |name: &str| {
        let resources = json!({"requests": {"storage": "1Gi"}});
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}})
    };
    let mut user = pod("user", "");
    user["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "used"}}]);
    for name in ["used", "unused"] {
        let made = cluster.post(CLAIMS, &claim(name)).await.ok();
        assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    }
    cluster.post(PODS, &user).await.ok();
    for name in ["used", "unused"] {
        cluster.delete(&format!("{CLAIMS}/{name}"), &Value::Null).await.ok();
    }
    cluster.server.settled().await;
    assert_eq!(cluster.get(&format!("{CLAIMS}/unused")).await.code, 404);
    let waiting = cluster.get(&format!("{CLAIMS}/used")).await.ok();
    assert!(waiting["metadata"]["deletionTimestamp"].is_string());
    let ended = json!({"status": {"phase": "Succeeded"}});
    cluster.merge(&format!("{PODS}/user/status"), &ended).await.ok();
    cluster.server.settled().await;
    assert_eq!(cluster.get(&format!("{CLAIMS}/used")).await.code, 404);
}

#[tokio::test]
async fn a_volume_goes_when_its_claim_has_gone() {
    const VOLUMES: &str = "/api/v1/persistentvolumes";
    let cluster = Cluster::start().await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "disk",
    }});
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    cluster.post(claims, &claim).await.ok();
    let volume = json!({"metadata": {"name": "disk"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"},
        "claimRef": {"namespace": "default", "name": "data"},
    }});
    cluster.post(VOLUMES, &volume).await.ok();
    cluster.merge(&format!("{VOLUMES}/disk/status"), &json!({"status": {"phase": "Bound"}})).await.ok();
    cluster.delete(&format!("{VOLUMES}/disk"), &Value::Null).await.ok();
    cluster.server.settled().await;
    assert_eq!(cluster.get(&format!("{VOLUMES}/disk")).await.code, 200);
    cluster.delete(&format!("{claims}/data"), &Value::Null).await.ok();
    cluster.server.settled().await;
    assert_eq!(cluster.get(&format!("{VOLUMES}/disk")).await.code, 404);
}
