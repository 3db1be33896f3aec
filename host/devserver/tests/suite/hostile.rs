//! Requests that nobody would send: large, deep, many of all. Each is answered, and the server goes on.

use serde_json::{Map, Value, json};

use crate::client::{Answer, CONFIG_MAPS, Cluster, config_map, version};
use crate::definitions::DEFINITIONS;

const KITES: &str = "/apis/wind.example/v1/namespaces/default/kites";
/// More than any answer needs.
const LARGE: usize = 1 << 20;

fn kites(group: &str, schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("kites.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "kites", "kind": "Kite"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// With kites whose spec has each sort of list.
async fn with_kites() -> Cluster {
    let cluster = Cluster::start().await;
    let element = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]});
    let list =
        |kind: &str, items: &Value| json!({"type": "array", "x-kubernetes-list-type": kind, "items": items});
    let mut map = list("map", &element);
    map["x-kubernetes-list-map-keys"] = json!(["a"]);
    let spec = json!({"type": "object", "properties": {
        "map": map,
        "set": list("set", &json!({"type": "integer"})),
        "atomic": list("atomic", &element),
        "any": {"x-kubernetes-preserve-unknown-fields": true},
    }});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    cluster.post(DEFINITIONS, &kites("wind.example", &schema)).await.ok();
    cluster
}

async fn apply(cluster: &Cluster, manager: &str, force: bool, spec: &Value) -> Answer {
    let kite =
        json!({"apiVersion": "wind.example/v1", "kind": "Kite", "metadata": {"name": "k"}, "spec": spec});
    apply_text(cluster, manager, force, kite.to_string()).await
}

async fn apply_text(cluster: &Cluster, manager: &str, force: bool, text: String) -> Answer {
    let path = format!("{KITES}/k?fieldManager={manager}&force={force}");
    let answer =
        cluster.send("PATCH", &path, &[("content-type", "application/apply-patch+yaml")], text).await;
    assert_eq!(cluster.get("/readyz").await.code, 200);
    answer
}

fn fields(count: usize, value: &Value) -> Value {
    (0..count).map(|index| (format!("k{index}"), value.clone())).collect::<Map<_, _>>().into()
}

#[tokio::test]
async fn lists_of_thousands_of_elements_are_applied() {
    const MANY: usize = 4000;
    let cluster = with_kites().await;
    let map = |b: i64| json!({"map": (0..MANY).map(|a| json!({"a": a, "b": b})).collect::<Vec<_>>()});
    let set = |count: usize| json!({"set": (0..count).collect::<Vec<_>>()});
    let any = |value: i64| json!({"any": fields(MANY, &json!(value))});
    for (mine, other, count) in
        [(map(1), map(2), MANY), (any(1), any(2), MANY), (set(MANY), set(MANY / 2), 0)]
    {
        let first = apply(&cluster, "one", true, &mine).await.ok();
        let again = apply(&cluster, "one", false, &mine).await.ok();
        assert_eq!(version(&first), version(&again));
        let refused = apply(&cluster, "two", false, &other).await;
        if count > 0 {
            assert!(refused.body.len() < LARGE, "{}", refused.body.len());
            let causes = refused.json()["details"]["causes"].as_array().unwrap().len();
            let (code, _, message) = refused.failed();
            assert_eq!((code, causes), (409, 1000));
            assert!(
                message.starts_with(&format!("Apply failed with {count} conflicts: ")),
                "{}",
                &message[..80]
            );
        }
        apply(&cluster, "two", true, &other).await.ok();
        // Where nothing is left of the spec it is null, which is refused.
        let emptied = apply(&cluster, "two", true, &json!({})).await;
        assert!([200, 422].contains(&emptied.code), "{}", emptied.code);
    }
}

#[tokio::test]
async fn conflicts_below_a_long_path_are_a_short_answer() {
    let cluster = with_kites().await;
    let any = |value: i64| json!({"any": {"x".repeat(500_000): fields(1000, &json!(value))}});
    apply(&cluster, "one", false, &any(1)).await.ok();
    let answer = apply(&cluster, "two", false, &any(2)).await;
    assert_eq!(answer.code, 409);
    assert!(answer.body.len() < LARGE, "{}", answer.body.len());
}

#[tokio::test]
async fn appliers_do_not_make_an_object_larger_than_etcd_takes() {
    let cluster = with_kites().await;
    let spec = json!({"any": fields(10_000, &json!(1))});
    let mut refused = None;
    for number in 0..100 {
        let answer = apply(&cluster, &format!("m{number}"), false, &spec).await;
        if answer.code != 200 && answer.code != 201 {
            refused = Some((number, answer.failed()));
            break;
        }
    }
    let (number, (code, _, message)) = refused.expect("a refusal");
    assert!(number > 1, "{number}");
    assert_eq!((code, message.as_str()), (500, "etcdserver: request is too large"));
    assert!(cluster.get(&format!("{KITES}/k")).await.body.len() < 2 * LARGE);
    // One who gives all up makes room.
    apply(&cluster, "m0", false, &json!({})).await.ok();
    apply(&cluster, "last", false, &spec).await.ok();
}

#[tokio::test]
async fn managed_fields_of_thousands_of_managers_are_taken() {
    let cluster = with_kites().await;
    apply(&cluster, "one", false, &json!({"any": fields(5000, &json!(1))})).await.ok();
    let entry = |index: usize| {
        json!({"manager": format!("m{index}"), "operation": "Apply", "apiVersion": "wind.example/v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:any": {(format!("f:k{index}")): {}}}}})
    };
    let entries: Vec<Value> = (0..5000).map(entry).collect();
    let kite = format!("{KITES}/k");
    let sent = cluster.merge(&kite, &json!({"metadata": {"managedFields": entries}})).await.ok();
    assert_eq!(sent["metadata"]["managedFields"].as_array().unwrap().len(), 5000);
    let answer = apply(&cluster, "two", false, &json!({"any": fields(5000, &json!(2))})).await;
    assert!(answer.code == 409 && answer.body.len() < LARGE, "{} {}", answer.code, answer.body.len());
    let taken = apply(&cluster, "two", true, &json!({"any": fields(5000, &json!(2))})).await.ok();
    assert_eq!(taken["metadata"]["managedFields"].as_array().unwrap().len(), 1);
    for fields in [json!("f:a"), json!([]), json!({"f:a": {"k:{": {}}}), json!({"x": 1}), json!(null)] {
        let mut entry = entry(1);
        entry["fieldsV1"] = fields;
        let sent = cluster.merge(&kite, &json!({"metadata": {"managedFields": [entry]}})).await;
        assert!(sent.code == 200, "{}", sent.code);
    }
}

#[tokio::test]
async fn yaml_that_grows_without_end_is_refused() {
    let cluster = with_kites().await;
    let head = "apiVersion: wind.example/v1\nkind: Kite\nmetadata: {name: k}\nspec:\n  any:\n";
    let mut bomb = format!("{head}    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        bomb.push_str(&format!("    a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(", ")));
    }
    let deep = format!("{head}    a: {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    let deep_json = format!("{{\"a\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_block: String = (0..2000).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    let wide = format!("{head}    a: [{}]\n", "{},".repeat(300_000));
    let own = format!("{head}    a: &a [*a]\n");
    let anchors: Vec<String> = (0..100_000).map(|n| format!("&a{n} 1")).collect();
    let anchors = format!("{head}    a: [{}]\n", anchors.join(","));
    for text in [bomb, deep, deep_json, deep_block, wide, own, anchors] {
        let answer = apply_text(&cluster, "a", true, text.clone()).await;
        let head = &text[..text.len().min(200)];
        assert_eq!(answer.code, 400, "{head}");
        assert!(answer.body.len() < 10_000, "{head}");
        let posted = cluster.send("POST", KITES, &[("content-type", "application/yaml")], text.clone()).await;
        assert_eq!(posted.code, 400, "{head}");
    }
}

#[tokio::test]
async fn an_object_of_thousands_of_owners_is_collected() {
    let cluster = Cluster::start().await;
    let owner = |index: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": format!("u{index}")});
    let mut map = config_map("many");
    map["metadata"]["ownerReferences"] = (0..10_000).map(owner).collect();
    map["metadata"]["finalizers"] = json!(["x.io/wait"]);
    cluster.post(CONFIG_MAPS, &map).await.ok();
    cluster.server.settled().await;
    let there = cluster.get(&format!("{CONFIG_MAPS}/many")).await.ok();
    assert!(there["metadata"]["deletionTimestamp"].is_string());
    // Ten at most are looked for in other namespaces, and none is there.
    let events = cluster.get("/api/v1/namespaces/default/events").await.ok();
    assert_eq!(events["items"], json!([]));
    map["metadata"]["ownerReferences"] = json!([owner(0)]);
    map["metadata"]["finalizers"] = json!([]);
    cluster.put(&format!("{CONFIG_MAPS}/many"), &map).await.ok();
    cluster.server.settled().await;
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/many")).await.code, 404);
}

#[tokio::test]
async fn owners_in_circles_and_of_themselves_come_to_an_end() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let cases: [(&str, bool, &[&str]); 6] = [
        ("Foreground", false, &[]),
        ("Background", false, &[]),
        ("Orphan", false, &["b", "c"]),
        // Each has a living owner in itself, and the first waits for itself, as on a real cluster.
        ("Foreground", true, &NAMES),
        ("Background", true, &["b", "c"]),
        ("Orphan", true, &["b", "c"]),
    ];
    for (policy, owns_itself, expected) in cases {
        let cluster = Cluster::start().await;
        let mut uids = Vec::new();
        for name in NAMES {
            uids.push(cluster.config_map(name).await["metadata"]["uid"].clone());
        }
        let owner = |index: usize| {
            let (name, uid) = (NAMES[index], &uids[index]);
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": true})
        };
        for (index, name) in NAMES.into_iter().enumerate() {
            let mut owners = vec![owner((index + 1) % 3)];
            owners.extend(owns_itself.then(|| owner(index)));
            let patch = json!({"metadata": {"ownerReferences": owners}});
            cluster.merge(&format!("{CONFIG_MAPS}/{name}"), &patch).await.ok();
        }
        cluster.server.settled().await;
        cluster.delete(&format!("{CONFIG_MAPS}/a"), &json!({"propagationPolicy": policy})).await.ok();
        cluster.server.settled().await;
        let list = cluster.get(CONFIG_MAPS).await.ok();
        let items = list["items"].as_array().unwrap().iter();
        let names: Vec<&str> = items.map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{policy} {owns_itself}");
    }
}

#[tokio::test]
async fn hundreds_of_definitions_are_served() {
    const MANY: usize = 300;
    let cluster = Cluster::start().await;
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    for index in 0..MANY {
        cluster.post(DEFINITIONS, &kites(&format!("w{index}.example"), &open)).await.ok();
    }
    let index = cluster.get("/openapi/v3").await.ok();
    let paths = index["paths"].as_object().unwrap();
    assert_eq!(paths.keys().filter(|path| path.ends_with(".example/v1")).count(), MANY);
    assert_eq!(cluster.get(&format!("/openapi/v3/apis/w{}.example/v1", MANY - 1)).await.code, 200);
}

#[tokio::test]
async fn lists_of_objects_that_gain_large_defaults_are_refused_as_a_whole() {
    let cluster = Cluster::start().await;
    let spec = |properties: &Value| json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    cluster.post(DEFINITIONS, &kites("wind.example", &spec(&json!({})))).await.ok();
    for index in 0..80 {
        let kite = json!({"apiVersion": "wind.example/v1", "kind": "Kite", "metadata": {"name": format!("k{index:02}")}, "spec": {}});
        cluster.post(KITES, &kite).await.ok();
    }
    // A MiB as the server counts, which is written as an eighth of one.
    const MANY: usize = LARGE / 16;
    let numbers = json!({"type": "array", "items": {"type": "integer"}, "default": vec![0; MANY]});
    let large = json!({"numbers": numbers});
    let patch = json!({"spec": kites("wind.example", &spec(&large))["spec"]});
    cluster.merge(&format!("{DEFINITIONS}/kites.wind.example"), &patch).await.ok();
    for accept in ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"] {
        let path = format!("{KITES}?includeObject=Object");
        let answer = cluster.send("GET", &path, &[("accept", accept)], "").await;
        let (code, reason, message) = answer.failed();
        assert_eq!((code, reason.as_str()), (413, "RequestEntityTooLarge"), "{message}");
        assert!(message.contains("`limit`"), "{message}");
    }
    let page = cluster.get(&format!("{KITES}?limit=5")).await;
    assert!(page.body.len() > 5 * 2 * MANY);
    assert_eq!(page.ok()["items"].as_array().unwrap().len(), 5);
    let one = cluster.get(&format!("{KITES}/k00")).await.ok();
    assert_eq!(one["spec"]["numbers"].as_array().unwrap().len(), MANY);
    // They are deleted all the same.
    let deleted = cluster.delete(KITES, &Value::Null).await.ok();
    assert_eq!((&deleted["kind"], &deleted["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(cluster.get(KITES).await.ok()["items"], json!([]));
}
