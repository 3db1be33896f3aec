//! In which form the server answers: tables, metadata alone, YAML's name, lists, versions of a kind, discovery, the
//! server's own paths.

use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Cluster, PODS, Watch, pod, version};
use crate::definitions::{BOATS, DEFINITIONS, boat, boats};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PARTIALS: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

async fn get_as(cluster: &Cluster, accept: &str, path: &str) -> Value {
    let answer = cluster.send("GET", path, &[("accept", accept)], "").await;
    assert_eq!(answer.headers["content-type"], "application/json", "{path}");
    answer.ok()
}

async fn watch_as(cluster: &Cluster, accept: &str, path: &str) -> Watch {
    let response = cluster.begin("GET", path, &[("accept", accept)], "").await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/json");
    Watch::of(response)
}

fn names(columns: &Value) -> Vec<&str> {
    columns.as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_table_has_a_row_for_each_object_and_no_more_of_it_than_asked() {
    let cluster = Cluster::start().await;
    let made = cluster.config_map("a").await;
    cluster.config_map("b").await;
    let table = get_as(&cluster, TABLE, CONFIG_MAPS).await;
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(names(&table["columnDefinitions"]), ["Name", "Data", "Age"]);
    assert_eq!(table["rows"].as_array().unwrap().len(), 2);
    let row = &table["rows"][0];
    assert_eq!((&row["cells"][0], &row["cells"][1]), (&json!("a"), &json!(1)));
    let object = &row["object"];
    assert_eq!(
        (&object["kind"], &object["apiVersion"]),
        (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!((&object["metadata"], object.get("data")), (&made["metadata"], None));
    assert_eq!(version(&table), cluster.server.revision());

    let none = get_as(&cluster, TABLE, &format!("{CONFIG_MAPS}?includeObject=None")).await;
    assert!(none["rows"][0].get("object").is_none(), "{none}");
    let whole = get_as(&cluster, TABLE, &format!("{CONFIG_MAPS}?includeObject=Object")).await;
    assert_eq!(whole["rows"][0]["object"], made);
    let wrong =
        cluster.send("GET", &format!("{CONFIG_MAPS}?includeObject=Half"), &[("accept", TABLE)], "").await;
    assert_eq!(wrong.reason(), (400, "BadRequest".to_owned()));

    let one = get_as(&cluster, TABLE, &format!("{CONFIG_MAPS}/b")).await;
    assert_eq!((&one["kind"], &one["rows"][0]["cells"][0]), (&json!("Table"), &json!("b")));
    assert_eq!(one["rows"].as_array().unwrap().len(), 1);
    let page = get_as(&cluster, TABLE, &format!("{CONFIG_MAPS}?limit=1")).await;
    assert_eq!(
        (&page["rows"][0]["cells"][0], &page["metadata"]["remainingItemCount"]),
        (&json!("a"), &json!(1))
    );
    let rest = page["metadata"]["continue"].as_str().unwrap();
    let rest = get_as(&cluster, TABLE, &format!("{CONFIG_MAPS}?limit=1&continue={rest}")).await;
    assert_eq!(rest["rows"][0]["cells"][0], "b");
    // An error is a Status, whatever form was asked for.
    let missing = cluster.send("GET", &format!("{CONFIG_MAPS}/c"), &[("accept", TABLE)], "").await;
    assert_eq!(missing.reason(), (404, "NotFound".to_owned()));
}

#[tokio::test]
async fn a_watch_of_tables_tells_the_columns_once() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    cluster.config_map("b").await;
    let mut watch = watch_as(&cluster, TABLE, &format!("{CONFIG_MAPS}?watch=1&includeObject=Object")).await;
    let first = watch.next().await.unwrap();
    assert_eq!(names(&first["object"]["columnDefinitions"]), ["Name", "Data", "Age"]);
    assert_eq!((&first["type"], &first["object"]["rows"][0]["cells"][0]), (&json!("ADDED"), &json!("a")));
    let second = watch.next().await.unwrap();
    assert_eq!(
        (&second["object"]["kind"], &second["object"]["columnDefinitions"]),
        (&json!("Table"), &json!([]))
    );
    cluster.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"more": "x"}})).await.ok();
    let third = watch.next().await.unwrap();
    let row = &third["object"]["rows"][0];
    assert_eq!(
        (&third["type"], &row["cells"][1], &row["object"]["data"]["more"]),
        (&json!("MODIFIED"), &json!(2), &json!("x"))
    );
    assert_eq!(third["object"]["columnDefinitions"], json!([]));

    // The end of initial events is a table, too, and speaks of metadata.
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = watch_as(&cluster, TABLE, &format!("{PODS}?watch=1&{initial}")).await;
    let end = watch.next().await.unwrap();
    assert_eq!((&end["type"], &end["object"]["kind"]), (&json!("BOOKMARK"), &json!("Table")));
    let partial = &end["object"]["rows"][0]["object"]["metadata"];
    assert_eq!(partial["annotations"]["k8s.io/initial-events-end"], "true");
    cluster.post(PODS, &pod("a", "n")).await.ok();
    assert_eq!(names(&watch.next().await.unwrap()["object"]["columnDefinitions"])[0], "Name");
}

#[tokio::test]
async fn metadata_alone() {
    let cluster = Cluster::start().await;
    let made = cluster.config_map("a").await;
    let expected = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]});
    assert_eq!(get_as(&cluster, PARTIAL, &format!("{CONFIG_MAPS}/a")).await, expected);
    let list = get_as(&cluster, PARTIALS, CONFIG_MAPS).await;
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!((&list["items"], version(&list)), (&json!([expected]), cluster.server.revision()));
    let mut watch = watch_as(&cluster, PARTIAL, &format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(watch.next().await.unwrap(), json!({"type": "ADDED", "object": expected}));
    cluster.delete(&format!("{CONFIG_MAPS}/a"), &Value::Null).await.ok();
    let end = watch.next().await.unwrap();
    assert_eq!((&end["type"], &end["object"]["kind"]), (&json!("DELETED"), &json!("PartialObjectMetadata")));
    assert!(end["object"].get("data").is_none(), "{end}");
}

#[tokio::test]
async fn the_first_form_that_both_sides_know() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    for (accept, content_type) in [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/yaml", "application/yaml"),
        ("application/json;q=0.1, application/yaml", "application/yaml"),
        ("application/vnd.kubernetes.protobuf, application/json", "application/json"),
        ("application/cbor, application/*", "application/json"),
    ] {
        let answer = cluster.send("GET", &path, &[("accept", accept)], "").await;
        assert_eq!(answer.headers["content-type"], content_type, "{accept}");
        assert_eq!(answer.ok()["kind"], "ConfigMap", "{accept}");
    }
    for accept in
        ["application/vnd.kubernetes.protobuf", "text/html", "application/json;as=Table;v=v9;g=meta.k8s.io"]
    {
        let (code, reason, message) = cluster.send("GET", &path, &[("accept", accept)], "").await.failed();
        assert_eq!((code, reason.as_str()), (406, "NotAcceptable"), "{accept}");
        assert!(message.contains("application/json"), "{message}");
    }
    let yaml = "metadata:\n  name: b\ndata: {key: 'yes'}\n";
    let made =
        cluster.send("POST", CONFIG_MAPS, &[("content-type", "application/yaml; charset=utf-8")], yaml).await;
    assert_eq!(made.ok()["data"]["key"], "yes");
    let xml = cluster.send("POST", CONFIG_MAPS, &[("content-type", "text/xml")], "<a/>").await;
    assert_eq!(xml.reason(), (415, "UnsupportedMediaType".to_owned()));
}

#[tokio::test]
async fn items_of_built_in_lists_stand_without_their_kind() {
    let cluster = Cluster::start().await;
    cluster.post(DEFINITIONS, &boats()).await.ok();
    cluster.post(BOATS, &boat("a")).await.ok();
    let made = cluster.config_map("a").await;
    let list = cluster.get(CONFIG_MAPS).await.ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    let mut expected = made;
    expected.as_object_mut().unwrap().retain(|field, _| !matches!(field.as_str(), "kind" | "apiVersion"));
    assert_eq!(list["items"], json!([expected]));
    let list = cluster.get(BOATS).await.ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("BoatList"), &json!("yard.test/v1")));
    assert_eq!(
        (&list["items"][0]["kind"], &list["items"][0]["apiVersion"]),
        (&json!("Boat"), &json!("yard.test/v1"))
    );
    let leases = cluster.get("/apis/coordination.k8s.io/v1/leases").await.ok();
    let expected = json!({
        "kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "items": [],
        "metadata": {"resourceVersion": cluster.server.revision().to_string()},
    });
    assert_eq!(leases, expected);
}

#[tokio::test]
async fn events_of_both_groups_are_the_same_objects() {
    let cluster = Cluster::start().await;
    let (core, new) =
        ("/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events");
    let mut watch = cluster.watch(&format!("{core}?watch=1")).await;
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a.1"},
        "regarding": {"kind": "Pod", "name": "a", "namespace": "default"}, "note": "it happened", "reason": "Because",
        "reportingController": "x.io/y", "reportingInstance": "y-1", "action": "Doing", "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    });
    let made = cluster.post(new, &event).await.ok();
    assert_eq!(
        (&made["note"], &made["regarding"]["name"], made.get("message")),
        (&json!("it happened"), &json!("a"), None)
    );
    let seen = cluster.get(&format!("{core}/a.1")).await.ok();
    assert_eq!((&seen["apiVersion"], &seen["message"]), (&json!("v1"), &json!("it happened")));
    assert_eq!(
        (&seen["involvedObject"], &seen["reportingComponent"]),
        (&event["regarding"], &json!("x.io/y"))
    );
    assert_eq!((seen.get("note"), seen.get("regarding")), (None, None));
    assert_eq!(watch.next().await.unwrap()["object"], seen);

    cluster.merge(&format!("{core}/a.1"), &json!({"message": "again", "count": 2})).await.ok();
    let again = cluster.get(&format!("{new}/a.1")).await.ok();
    assert_eq!((&again["note"], &again["deprecatedCount"]), (&json!("again"), &json!(2)));
    let list = cluster.get(&format!("{new}?fieldSelector=regarding.name%3Da")).await.ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("EventList"), &json!("events.k8s.io/v1")));
    assert_eq!(list["items"][0]["note"], "again");
    let none = cluster.get(&format!("{core}?fieldSelector=involvedObject.name%3Db")).await.ok();
    assert_eq!(none["items"], json!([]));
    let whole = get_as(&cluster, TABLE, &format!("{new}?includeObject=Object")).await;
    assert_eq!(whole["rows"][0]["object"]["note"], "again");
    cluster.delete(&format!("{new}/a.1"), &Value::Null).await.ok();
    assert_eq!(cluster.get(&format!("{core}/a.1")).await.code, 404);
}

#[tokio::test]
async fn discovery_in_its_shapes() {
    let cluster = Cluster::start().await;
    let versions = cluster.get("/api").await.ok();
    assert_eq!((&versions["kind"], &versions["versions"]), (&json!("APIVersions"), &json!(["v1"])));
    let groups = cluster.get("/apis").await.ok();
    assert_eq!((&groups["kind"], &groups["apiVersion"]), (&json!("APIGroupList"), &json!("v1")));
    let apps = groups["groups"].as_array().unwrap().iter().find(|g| g["name"] == "apps").unwrap();
    let expected = json!({"groupVersion": "apps/v1", "version": "v1"});
    assert_eq!((&apps["preferredVersion"], &apps["versions"]), (&expected, &json!([expected])));
    let scaling = groups["groups"].as_array().unwrap().iter().find(|g| g["name"] == "autoscaling").unwrap();
    assert_eq!(scaling["preferredVersion"]["version"], "v2");

    let core = cluster.get("/api/v1").await.ok();
    assert_eq!((&core["kind"], &core["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
    let find = |name: &str| core["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).unwrap();
    let maps = find("configmaps");
    assert_eq!((&maps["kind"], &maps["singularName"]), (&json!("ConfigMap"), &json!("configmap")));
    assert_eq!((&maps["namespaced"], &maps["shortNames"]), (&json!(true), &json!(["cm"])));
    assert_eq!(find("nodes")["namespaced"], false);
    assert_eq!(find("pods/status")["kind"], "Pod");
    let eviction = find("pods/eviction");
    assert_eq!(
        (&eviction["kind"], &eviction["group"], &eviction["version"]),
        (&json!("Eviction"), &json!("policy"), &json!("v1"))
    );

    for (path, first) in [("/api", "v1"), ("/apis", "")] {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        let answer = cluster.send("GET", path, &[("accept", accept)], "").await;
        assert!(answer.headers["content-type"].to_str().unwrap().contains("as=APIGroupDiscoveryList"));
        let list = answer.ok();
        assert_eq!(
            (&list["kind"], &list["apiVersion"]),
            (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2"))
        );
        let groups = list["items"].as_array().unwrap();
        // The core group is under /api alone.
        assert_eq!(groups.iter().any(|g| g["metadata"]["name"] == ""), !first.is_empty());
        assert!(groups.iter().all(|g| g["versions"].as_array().is_some_and(|v| !v.is_empty())), "{list}");
    }
    // A form of it that is not known gives the plain one.
    let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    assert_eq!(cluster.send("GET", "/apis", &[("accept", old)], "").await.ok()["kind"], "APIGroupList");
    let head = cluster.send("HEAD", "/apis", &[], "").await;
    assert_eq!((head.code, head.body.len()), (200, 0));
    for path in ["/apis/", "/api/v1/"] {
        assert_eq!(cluster.get(path).await.code, 200, "{path}");
    }
    for path in ["/api/v2", "/apis/apps/v9", "/apis/apps/v1/nothings"] {
        assert_eq!(cluster.get(path).await.reason(), (404, "NotFound".to_owned()), "{path}");
    }
    for path in ["/apis/nothing", "/apis/nothing/v1", "/apis/nothing/v1/pods", "/nothing"] {
        assert!(cluster.get(path).await.is_no_page(), "{path}");
    }
    assert_eq!(cluster.post("/apis", &json!({})).await.reason(), (405, "MethodNotAllowed".to_owned()));
}

#[tokio::test]
async fn what_the_server_says_of_itself() {
    let cluster = Cluster::start().await;
    let version = cluster.get("/version").await.ok();
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    assert!(version["gitVersion"].as_str().unwrap().starts_with("v1.36."), "{version}");
    assert_eq!(cluster.post("/version", &json!({})).await.reason(), (405, "MethodNotAllowed".to_owned()));
    let paths = cluster.get("/").await.ok();
    for path in ["/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v3", "/version", "/readyz"] {
        assert!(paths["paths"].as_array().unwrap().contains(&json!(path)), "{path}");
    }
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        let answer = cluster.get(path).await;
        assert_eq!((answer.code, &answer.body[..]), (200, &b"ok"[..]), "{path}");
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    }
}

#[tokio::test]
async fn no_object_is_too_deep_for_any_form_of_it() {
    let cluster = Cluster::start().await;
    // Their data may be anything.
    const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let deep = |levels: usize| {
        let data = (1..levels).fold(json!(1), |inner, _| json!([inner]));
        let data = json!({"a": data});
        json!({"metadata": {"name": "deep"}, "revision": 1, "data": data})
    };
    let refused = cluster.post(REVISIONS, &deep(120)).await;
    assert_eq!(refused.reason(), (400, "BadRequest".to_owned()));
    let made = cluster.post(REVISIONS, &deep(119)).await.ok();
    let path = format!("{REVISIONS}?includeObject=Object");
    assert_eq!(get_as(&cluster, TABLE, &path).await["rows"][0]["object"], made);
    let mut watch = watch_as(&cluster, TABLE, &format!("{path}&watch=1")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["rows"][0]["object"], made);
    let deeper = json!([{"op": "copy", "from": "/data", "path": "/data/0"}]).to_string();
    let json_patch = [("content-type", "application/json-patch+json")];
    let refused = cluster.send("PATCH", &format!("{REVISIONS}/deep"), &json_patch, deeper).await.failed();
    assert!(refused.0 == 400 || refused.0 == 422, "{refused:?}");
}
