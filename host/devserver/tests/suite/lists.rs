//! list: selectors, versions, and pages of one snapshot.

use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Cluster, PODS, config_map, pod, version};

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn selectors_choose() {
    let cluster = Cluster::start().await;
    for (name, node) in [("a", "one"), ("b", "two"), ("c", "one")] {
        cluster.post(PODS, &pod(name, node)).await.ok();
    }
    for (query, expected) in [
        ("", vec!["a", "b", "c"]),
        ("labelSelector=app%3Da", vec!["a"]),
        ("labelSelector=app%20in%20(a,c)", vec!["a", "c"]),
        ("labelSelector=!app", vec![]),
        ("fieldSelector=spec.nodeName%3Done", vec!["a", "c"]),
        ("fieldSelector=spec.nodeName!%3Done,status.phase%3DPending", vec!["b"]),
        ("fieldSelector=metadata.name%3Dc,metadata.namespace%3Ddefault", vec!["c"]),
        ("fieldSelector=spec.hostNetwork%3Dfalse&labelSelector=app%3Db", vec!["b"]),
    ] {
        let list = cluster.get(&format!("{PODS}?{query}")).await.ok();
        assert_eq!(names(&list), expected, "{query}");
    }
    for query in ["labelSelector=a%20in", "fieldSelector=spec.containers%3Dx", "fieldSelector=x"] {
        let answer = cluster.get(&format!("{PODS}?{query}")).await;
        assert_eq!(answer.reason(), (400, "BadRequest".to_owned()), "{query}");
    }
}

#[tokio::test]
async fn pages_are_of_one_snapshot_whatever_happens_between_them() {
    let cluster = Cluster::start().await;
    for index in 0..10 {
        cluster.config_map(&format!("map-{index}")).await;
    }
    let first = cluster.get(&format!("{CONFIG_MAPS}?limit=4")).await.ok();
    assert_eq!(first["metadata"]["remainingItemCount"], 6);
    // One that was told, one that is to come, a new one in between, and one that changes.
    for name in ["map-1", "map-6"] {
        cluster.delete(&format!("{CONFIG_MAPS}/{name}"), &Value::Null).await.ok();
    }
    cluster.config_map("map-55").await;
    cluster.merge(&format!("{CONFIG_MAPS}/map-7"), &json!({"data": {"key": "new"}})).await.ok();
    cluster.delete(&format!("{CONFIG_MAPS}/map-6"), &Value::Null).await;

    let mut all = first["items"].as_array().unwrap().clone();
    let mut token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    while !token.is_empty() {
        let page = cluster.get(&format!("{CONFIG_MAPS}?limit=4&continue={token}")).await.ok();
        assert_eq!(version(&page), version(&first));
        all.extend(page["items"].as_array().unwrap().clone());
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
    }
    let expected: Vec<String> = (0..10).map(|index| format!("map-{index}")).collect();
    assert_eq!(names(&json!({"items": all})), expected);
    assert!(all.iter().all(|item| item["data"]["key"] == "value"));
    let now = cluster.get(CONFIG_MAPS).await.ok();
    assert_eq!(names(&now).len(), 9);
}

#[tokio::test]
async fn a_list_at_a_version() {
    let cluster = Cluster::start().await;
    let first = version(&cluster.config_map("a").await);
    let second = version(&cluster.config_map("b").await);
    cluster.delete(&format!("{CONFIG_MAPS}/a"), &Value::Null).await.ok();
    for (query, expected) in [
        (format!("resourceVersion={first}&resourceVersionMatch=Exact"), vec!["a"]),
        (format!("resourceVersion={second}&resourceVersionMatch=Exact"), vec!["a", "b"]),
        (format!("resourceVersion={second}&limit=10"), vec!["a", "b"]),
        (format!("resourceVersion={first}"), vec!["b"]),
        (format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan"), vec!["b"]),
        ("resourceVersion=0".to_owned(), vec!["b"]),
        ("resourceVersion=".to_owned(), vec!["b"]),
    ] {
        let list = cluster.get(&format!("{CONFIG_MAPS}?{query}")).await.ok();
        assert_eq!(names(&list), expected, "{query}");
    }
    let exact = format!("{CONFIG_MAPS}?resourceVersion={first}&resourceVersionMatch=Exact");
    assert_eq!(version(&cluster.get(&exact).await.ok()), first);
    for (query, code, reason) in [
        ("resourceVersion=x", 400, "BadRequest"),
        ("resourceVersion=99999", 504, "Timeout"),
        ("resourceVersion=99999&resourceVersionMatch=Exact", 504, "Timeout"),
        ("resourceVersionMatch=Exact", 422, "Invalid"),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422, "Invalid"),
        ("resourceVersion=1&resourceVersionMatch=Other", 422, "Invalid"),
        ("sendInitialEvents=true", 422, "Invalid"),
        ("continue=nonsense", 400, "BadRequest"),
        ("limit=x", 400, "BadRequest"),
    ] {
        let answer = cluster.get(&format!("{CONFIG_MAPS}?{query}")).await;
        assert_eq!(answer.reason(), (code, reason.to_owned()), "{query}");
    }
    let future = cluster.get(&format!("{CONFIG_MAPS}?resourceVersion=99999")).await.json();
    assert_eq!(future["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    let get = cluster.get(&format!("{CONFIG_MAPS}/b?resourceVersion=99999")).await;
    assert_eq!(get.reason(), (504, "Timeout".to_owned()));
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/b?resourceVersion=x")).await.code, 500);
}

#[tokio::test]
async fn a_limit_is_ignored_at_version_zero() {
    let cluster = Cluster::start().await;
    for name in ["a", "b", "c"] {
        cluster.config_map(name).await;
    }
    let list = cluster.get(&format!("{CONFIG_MAPS}?resourceVersion=0&limit=1")).await.ok();
    assert_eq!(names(&list).len(), 3);
    assert!(list["metadata"].get("continue").is_none());
    let selected = cluster.get(&format!("{CONFIG_MAPS}?limit=1&labelSelector=!x")).await.ok();
    assert!(selected["metadata"].get("remainingItemCount").is_none(), "{selected}");
    assert!(selected["metadata"]["continue"].is_string());
}

#[tokio::test]
async fn what_is_forgotten_is_gone() {
    let cluster = Cluster::start().await;
    let first = version(&cluster.config_map("a").await);
    cluster.config_map("b").await;
    let page = cluster.get(&format!("{CONFIG_MAPS}?limit=1")).await.ok();
    let token = page["metadata"]["continue"].as_str().unwrap();
    cluster.config_map("c").await;
    cluster.server.compact();
    let exact = format!("{CONFIG_MAPS}?resourceVersion={first}&resourceVersionMatch=Exact");
    assert_eq!(cluster.get(&exact).await.reason(), (410, "Expired".to_owned()));
    let expired = cluster.get(&format!("{CONFIG_MAPS}?limit=1&continue={token}")).await;
    let other = expired.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(expired.reason(), (410, "Expired".to_owned()));
    let rest = cluster.get(&format!("{CONFIG_MAPS}?continue={other}")).await.ok();
    assert_eq!(names(&rest), ["b", "c"]);
}

#[tokio::test]
async fn everywhere_is_all_namespaces_in_the_order_of_their_keys() {
    let cluster = Cluster::start().await;
    for namespace in ["ab", "a", "a-b"] {
        cluster.post("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await.ok();
        cluster.post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &config_map("x")).await.ok();
    }
    let list = cluster.get("/api/v1/configmaps").await.ok();
    let namespaces: Vec<&Value> =
        list["items"].as_array().unwrap().iter().map(|i| &i["metadata"]["namespace"]).collect();
    assert_eq!(namespaces, ["a-b", "a", "ab", "kube-system"], "as etcd sorts a-b/x, a/x, ab/x");
    assert_eq!(names(&cluster.get("/api/v1/namespaces/a/configmaps").await.ok()), ["x"]);
    assert_eq!(names(&cluster.get("/api/v1/namespaces/nowhere/configmaps").await.ok()), Vec::<String>::new());
}

/// The test has one thread: while the server reads objects on it nobody else is answered.
#[tokio::test]
async fn a_long_table_holds_up_no_other_request() {
    const PODS_IN_TABLE: usize = 1500;

    let cluster = Cluster::start().await;
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    let pods: Vec<String> = (0..PODS_IN_TABLE)
        .map(|n| {
            let mut object = pod(&format!("p{n}"), "node");
            object["metadata"]["namespace"] = "default".into();
            object.to_string()
        })
        .collect();
    std::fs::write(file.path(), pods.join("\n---\n")).unwrap();
    assert_eq!(cluster.server.seed(file.path()).unwrap().created, PODS_IN_TABLE);

    let accept = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let mut table = std::pin::pin!(cluster.send("GET", PODS, &accept, ""));
    let mut others = 0;
    let table = loop {
        tokio::select! {
            biased;
            table = &mut table => break table,
            other = cluster.get("/version") => {
                assert_eq!(other.code, 200);
                others += 1;
            }
        }
    };
    assert_eq!(table.ok()["rows"].as_array().unwrap().len(), PODS_IN_TABLE);
    // One or two may come before the server sees the request for the table.
    assert!(others > 3, "{others} answers meanwhile");
}
