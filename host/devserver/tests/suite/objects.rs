//! create, get, update, patch: what is kept, what is refused, what counts as a change.

use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Cluster, PODS, config_map, pod, version};

#[tokio::test]
async fn a_created_object_carries_what_the_server_says() {
    let cluster = Cluster::start().await;
    let mut object = config_map("a");
    object["metadata"]["uid"] = "mine".into();
    object["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    let created = cluster.post(CONFIG_MAPS, &object).await;
    assert_eq!(created.code, 201);
    let created = created.ok();
    assert_eq!(created["metadata"]["namespace"], "default");
    assert_eq!(created["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert_ne!(created["metadata"]["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert_eq!(created["data"], json!({"key": "value"}));
    assert!(created["metadata"].get("generation").is_none(), "{created}");
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/a")).await.ok(), created);
}

#[tokio::test]
async fn what_cannot_be_created_is_refused_with_a_reason() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    let with = |path: &str, value: Value| {
        let mut object = config_map("b");
        *object.pointer_mut(path.rsplit_once('/').unwrap().0).unwrap() = {
            let mut parent = object.pointer(path.rsplit_once('/').unwrap().0).unwrap().clone();
            parent[path.rsplit_once('/').unwrap().1] = value;
            parent
        };
        object
    };
    for (object, code, reason) in [
        (config_map("a"), 409, "AlreadyExists"),
        (with("/metadata/name", "Upper".into()), 422, "Invalid"),
        (with("/metadata/name", "".into()), 422, "Invalid"),
        (with("/metadata/labels", json!({"a": "-"})), 422, "Invalid"),
        (with("/metadata/labels", json!({"a": 1})), 400, "BadRequest"),
        (with("/metadata/annotations", json!({"a b": ""})), 422, "Invalid"),
        (with("/metadata/finalizers", json!(["no good"])), 422, "Invalid"),
        (with("/metadata/namespace", "other".into()), 400, "BadRequest"),
        (with("/metadata/resourceVersion", "5".into()), 500, ""),
        (with("/kind", "Secret".into()), 400, "BadRequest"),
        (with("/apiVersion", "v2".into()), 400, "BadRequest"),
        (json!([]), 400, "BadRequest"),
        (json!({"metadata": 5}), 400, "BadRequest"),
    ] {
        let answer = cluster.post(CONFIG_MAPS, &object).await;
        assert_eq!(answer.reason(), (code, reason.to_owned()), "{object}");
    }
    let elsewhere = cluster.post("/api/v1/namespaces/nowhere/configmaps", &config_map("a")).await;
    assert_eq!(
        elsewhere.failed(),
        (404, "NotFound".to_owned(), "namespaces \"nowhere\" not found".to_owned())
    );
    assert_eq!(cluster.get(CONFIG_MAPS).await.ok()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn names_are_generated_and_differ() {
    let cluster = Cluster::start().await;
    let object = json!({"metadata": {"generateName": "job-"}});
    let mut names = Vec::new();
    for _ in 0..20 {
        let made = cluster.post(CONFIG_MAPS, &object).await.ok();
        assert_eq!(made["metadata"]["generateName"], "job-");
        names.push(made["metadata"]["name"].as_str().unwrap().to_owned());
    }
    assert!(names.iter().all(|name| name.starts_with("job-") && name.len() == 9), "{names:?}");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 20);
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let cluster = Cluster::start().await;
    let before = cluster.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a?dryRun=All");
    let created = cluster.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("b")).await;
    assert_eq!(created.code, 201);
    assert_eq!(created.ok()["metadata"]["name"], "b");
    let again = cluster.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a")).await;
    assert_eq!(again.reason(), (409, "AlreadyExists".to_owned()));
    assert_eq!(cluster.merge(&path, &json!({"data": {"key": "other"}})).await.ok()["data"]["key"], "other");
    cluster.delete(&path, &Value::Null).await.ok();
    let wrong = cluster.post(&format!("{CONFIG_MAPS}?dryRun=Some"), &config_map("b")).await;
    assert_eq!(wrong.reason(), (422, "Invalid".to_owned()));
    let list = cluster.get(CONFIG_MAPS).await.ok();
    assert_eq!(version(&list), version(&before), "{list}");
    assert_eq!(list["items"][0]["data"]["key"], "value");
}

#[tokio::test]
async fn an_update_needs_the_version_it_was_made_from() {
    let cluster = Cluster::start().await;
    let first = cluster.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let mut second = first.clone();
    second["data"]["key"] = "second".into();
    let second = cluster.put(&path, &second).await.ok();
    assert!(version(&second) > version(&first));

    let (code, reason, message) = cluster.put(&path, &first).await.failed();
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(message.contains("the object has been modified"), "{message}");
    let stale = json!({"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}});
    assert_eq!(cluster.merge(&path, &stale).await.reason(), (409, "Conflict".to_owned()));
    let mut other = second.clone();
    other["metadata"]["uid"] = "another".into();
    assert_eq!(cluster.put(&path, &other).await.reason(), (409, "Conflict".to_owned()));
    let mut renamed = second.clone();
    renamed["metadata"]["name"] = "b".into();
    assert_eq!(cluster.put(&path, &renamed).await.reason(), (400, "BadRequest".to_owned()));
    // Without a version it is taken as it is.
    assert_eq!(cluster.put(&path, &config_map("a")).await.ok()["data"]["key"], "value");
    let missing = cluster.put(&format!("{CONFIG_MAPS}/missing"), &config_map("missing")).await;
    assert_eq!(missing.reason(), (404, "NotFound".to_owned()));
}

#[tokio::test]
async fn a_put_makes_leases_and_no_config_maps() {
    let cluster = Cluster::start().await;
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/leader";
    let lease = json!({"metadata": {"name": "leader"}, "spec": {"holderIdentity": "me"}});
    let made = cluster.put(path, &lease).await;
    assert_eq!(made.code, 201);
    assert_eq!(cluster.put(path, &made.ok()).await.code, 200);
    assert_eq!(
        cluster.put(path, &lease).await.reason(),
        (422, "Invalid".to_owned()),
        "leases are not taken blindly"
    );
    // One that has gone is not made again by whoever remembers it, and none of another name.
    let other = path.replace("leader", "other");
    let mut remembered = lease.clone();
    remembered["metadata"] = json!({"name": "other", "uid": "gone", "resourceVersion": "7"});
    assert_eq!(cluster.put(&other, &remembered).await.reason(), (409, "Conflict".to_owned()));
    assert_eq!(cluster.put(&other, &lease).await.reason(), (400, "BadRequest".to_owned()));
}

#[tokio::test]
async fn a_write_that_changes_nothing_is_no_write() {
    let cluster = Cluster::start().await;
    let first = cluster.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(cluster.put(&path, &first).await.ok(), first);
    assert_eq!(cluster.merge(&path, &json!({"data": {"key": "value"}})).await.ok(), first);
    assert_eq!(version(&cluster.get(CONFIG_MAPS).await.ok()), version(&first));
}

#[tokio::test]
async fn what_the_server_says_of_an_object_cannot_be_changed() {
    let cluster = Cluster::start().await;
    let first = cluster.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let patch = json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}});
    let (code, _, told) = cluster.merge(&path, &patch).await.failed();
    let wanted = "metadata.deletionTimestamp: Invalid value: \"2001-01-01T00:00:00Z\": field is immutable";
    assert!(code == 422 && told.contains(wanted), "{told}");
    let patch = json!({"metadata": {
        "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7, "selfLink": "/x", "uid": null, "labels": {"new": "label"},
    }});
    let patched = cluster.merge(&path, &patch).await.ok();
    let mut expected = first.clone();
    expected["metadata"]["labels"] = json!({"new": "label"});
    expected["metadata"]["managedFields"] = patched["metadata"]["managedFields"].clone();
    expected["metadata"]["resourceVersion"] = patched["metadata"]["resourceVersion"].clone();
    assert_eq!(patched, expected);
}

/// Applies as `bob`.
async fn apply(cluster: &Cluster, path: &str, config: &Value) -> Value {
    let headers = [("content-type", "application/apply-patch+yaml")];
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}fieldManager=bob");
    cluster.send("PATCH", &path, &headers, config.to_string()).await.ok()
}

fn namespace(name: &str, more: &Value) -> Value {
    let mut metadata = more.clone();
    metadata["name"] = name.into();
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
}

#[tokio::test]
async fn an_apply_that_makes_an_object_may_say_when_it_was_deleted_and_a_post_may_not() {
    let cluster = Cluster::start().await;
    let deleted = json!({"deletionTimestamp": "2020-01-01T00:00:00Z", "selfLink": "/x"});
    let dry = apply(&cluster, "/api/v1/namespaces/a?dryRun=All", &namespace("a", &deleted)).await;
    let seen = |made: &Value| json!([made["metadata"]["deletionTimestamp"], made["metadata"]["selfLink"]]);
    assert_eq!(seen(&dry), json!(["2020-01-01T00:00:00Z", "/x"]));
    let made = cluster.post("/api/v1/namespaces", &namespace("b", &deleted)).await.ok();
    assert_eq!(seen(&made), json!([null, null]));
    // A ConfigMap has no controller that would end it.
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "c", "deletionTimestamp": "2020-01-01T00:00:00Z", "selfLink": "/x",
    }});
    let made = apply(&cluster, &format!("{CONFIG_MAPS}/c"), &map).await;
    assert_eq!(seen(&made), json!(["2020-01-01T00:00:00Z", null]));
}

#[tokio::test]
async fn an_apply_that_changes_nothing_shows_the_times_that_are_stored_on_a_dry_run_as_well() {
    let cluster = Cluster::start().await;
    let labels = json!({"labels": {"x": "y"}});
    cluster.post("/api/v1/namespaces", &namespace("a", &labels)).await.ok();
    let path = "/api/v1/namespaces/a";
    let time_of_bob = |namespace: &Value| {
        let entries = namespace["metadata"]["managedFields"].as_array().unwrap().iter();
        let of_bob: Vec<&Value> = entries.filter(|entry| entry["manager"] == "bob").collect();
        assert_eq!(of_bob.len(), 1, "{namespace}");
        of_bob[0]["time"].clone()
    };
    // The first apply changes no field, so its entry has no time.
    let first = apply(&cluster, path, &namespace("a", &labels)).await;
    assert_eq!(time_of_bob(&first), Value::Null);
    // The status is merged, and taken back after that.
    let mut with_status = namespace("a", &labels);
    with_status["status"] = json!({"phase": "Terminating"});
    for path in [format!("{path}?dryRun=All"), path.to_owned()] {
        let again = apply(&cluster, &path, &with_status).await;
        assert_eq!(
            (&again["status"]["phase"], time_of_bob(&again)),
            (&json!("Active"), Value::Null),
            "{path}"
        );
    }
    // With another label it is written.
    let other = namespace("a", &json!({"labels": {"x": "z"}}));
    let changed = apply(&cluster, &format!("{path}?force=true"), &other).await;
    assert!(time_of_bob(&changed).is_string(), "{changed}");
}

#[tokio::test]
async fn generation_counts_the_spec_and_status_has_a_path_of_its_own() {
    let cluster = Cluster::start().await;
    let mut object = pod("a", "n");
    object["status"] = json!({"phase": "Running"});
    let made = cluster.post(PODS, &object).await.ok();
    assert_eq!((&made["metadata"]["generation"], &made["status"]["phase"]), (&json!(1), &json!("Pending")));

    let path = format!("{PODS}/a");
    let status =
        json!({"status": {"phase": "Running"}, "spec": {"nodeName": "other"}, "metadata": {"labels": null}});
    let seen = cluster.merge(&path, &json!({"status": {"phase": "Failed"}})).await.ok();
    assert_eq!(seen["status"]["phase"], "Pending");
    let seen = cluster.merge(&format!("{path}/status"), &status).await.ok();
    assert_eq!((&seen["metadata"]["generation"], &seen["status"]["phase"]), (&json!(1), &json!("Running")));
    assert_eq!((&seen["spec"]["nodeName"], &seen["metadata"]["labels"]), (&json!("n"), &Value::Null));
    let seen = cluster.merge(&path, &json!({"metadata": {"labels": {"x": "y"}}})).await.ok();
    assert_eq!(seen["metadata"]["generation"], 1);
    let seen = cluster.merge(&path, &json!({"spec": {"activeDeadlineSeconds": 5}})).await.ok();
    assert_eq!((&seen["metadata"]["generation"], &seen["status"]["phase"]), (&json!(2), &json!("Running")));
}

#[tokio::test]
async fn the_kinds_of_patches() {
    let cluster = Cluster::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = pod("a", "n");
    let object = json!({
        "metadata": {"name": "a", "labels": {"app": "a"}},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template},
    });
    cluster.post(deployments, &object).await.ok();
    let path = format!("{deployments}/a");
    let send = async |kind: &str, patch: &str| {
        cluster.send("PATCH", &path, &[("content-type", kind)], patch.to_owned()).await
    };
    let strategic = "application/strategic-merge-patch+json";
    let patched =
        send(strategic, r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"s"}]}}}}"#)
            .await
            .ok();
    let containers = patched["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let names: Vec<&Value> = containers.iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["side", "main"], "a new container comes first");
    let json_patch = "application/json-patch+json";
    let patched =
        send(json_patch, r#"[{"op":"replace","path":"/metadata/labels/app","value":"b"}]"#).await.ok();
    assert_eq!(patched["metadata"]["labels"]["app"], "b");
    for (kind, patch, code) in [
        (json_patch, r#"[{"op":"test","path":"/metadata/name","value":"b"}]"#, 422),
        (json_patch, r#"{"op":"test"}"#, 400),
        (strategic, r#"{"spec":{"template":{"spec":{"containers":[{"image":"s"}]}}}}"#, 500),
        (strategic, "[", 400),
        ("application/merge-patch+json", r#"{"metadata":{"name":"b"}}"#, 400),
        ("application/merge-patch+json", r#"{"metadata":null}"#, 400),
        ("application/apply-patch+yaml", "{}", 422),
        ("application/apply-patch+cbor", "{}", 422),
        ("application/json", "{}", 415),
        ("", "{}", 415),
    ] {
        let answer = send(kind, patch).await;
        assert_eq!(answer.failed().0, code, "{kind} {patch}");
    }
}

#[tokio::test]
async fn what_is_filled_in_stays_filled_in() {
    let cluster = Cluster::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let object = json!({"metadata": {"name": "a"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "d"}]}},
    }});
    let made = cluster.post(deployments, &object).await.ok();
    assert_eq!(made["spec"]["replicas"], 1);
    let path = format!("{deployments}/a");
    assert_eq!(cluster.put(&path, &object).await.ok(), made, "it changes nothing");
    let patched = cluster.merge(&path, &json!({"spec": {"replicas": null}})).await.ok();
    assert_eq!(patched["spec"]["replicas"], 1);
}
