//! watch: order, selectors, bookmarks, initial events, resumption, and the end of history.

use std::time::Duration;

use pilothouse_devserver::DevServerOptions;
use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Cluster, PODS, config_map, pod, version};

#[tokio::test]
async fn a_watch_tells_every_change_in_order() {
    let cluster = Cluster::start().await;
    cluster.config_map("old").await;
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=true")).await;
    assert_eq!(watch.told().await, "ADDED old");
    cluster.config_map("new").await;
    cluster.merge(&format!("{CONFIG_MAPS}/new"), &json!({"data": {"key": "x"}})).await.ok();
    cluster.delete(&format!("{CONFIG_MAPS}/old"), &Value::Null).await.ok();
    let mut last = 0;
    for expected in ["ADDED new", "MODIFIED new", "DELETED old"] {
        let event = watch.next().await.unwrap();
        let name = event["object"]["metadata"]["name"].as_str().unwrap();
        assert_eq!(format!("{} {name}", event["type"].as_str().unwrap()), expected);
        assert_eq!(event["object"]["kind"], "ConfigMap");
        assert!(version(&event["object"]) > last);
        last = version(&event["object"]);
    }
}

#[tokio::test]
async fn a_watch_goes_on_behind_a_version_without_gap_or_double() {
    let cluster = Cluster::start().await;
    let first = version(&cluster.config_map("a").await);
    cluster.config_map("b").await;
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={first}")).await;
    assert_eq!(watch.told().await, "ADDED b");
    cluster.config_map("c").await;
    assert_eq!(watch.told().await, "ADDED c");
    // The old way to write it, and one of a single object.
    let old = CONFIG_MAPS.replace("/api/v1/", "/api/v1/watch/");
    let mut watch = cluster.watch(&format!("{old}?resourceVersion={first}")).await;
    assert_eq!((watch.told().await, watch.told().await), ("ADDED b".to_owned(), "ADDED c".to_owned()));
    let mut watch = cluster.watch(&format!("{old}/c?resourceVersion={first}")).await;
    assert_eq!(watch.told().await, "ADDED c");
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/a?watch=1")).await.ok()["kind"], "ConfigMap");
}

#[tokio::test]
async fn what_comes_into_a_selector_is_added_and_what_leaves_it_is_deleted() {
    let cluster = Cluster::start().await;
    cluster.post(PODS, &pod("a", "one")).await.ok();
    let path = format!("{PODS}/a");
    let mut labels = cluster.watch(&format!("{PODS}?watch=1&labelSelector=app%3Db")).await;
    let mut fields = cluster.watch(&format!("{PODS}?watch=1&fieldSelector=status.phase%3DRunning")).await;

    cluster.merge(&path, &json!({"metadata": {"labels": {"app": "b"}}})).await.ok();
    assert_eq!(labels.told().await, "ADDED a");
    let running = json!({"status": {"phase": "Running"}});
    cluster.merge(&format!("{path}/status"), &running).await.ok();
    assert_eq!((labels.told().await, fields.told().await), ("MODIFIED a".to_owned(), "ADDED a".to_owned()));

    let left = cluster.merge(&path, &json!({"metadata": {"labels": {"app": "c"}}})).await.ok();
    let event = labels.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["labels"]["app"], "b", "with its old content");
    assert_eq!(version(&event["object"]), version(&left), "and the version of the change");
    assert_eq!(fields.told().await, "MODIFIED a");
    cluster.delete(&path, &json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(fields.told().await, "DELETED a");
    assert!(labels.is_silent(Duration::from_millis(50)).await, "it had left");
}

#[tokio::test]
async fn initial_events_end_with_a_marked_bookmark() {
    let cluster = Cluster::start().await;
    let last = version(&cluster.config_map("a").await);
    let path = format!(
        "{CONFIG_MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut watch = cluster.watch(&path).await;
    assert_eq!(watch.told().await, "ADDED a");
    let end = watch.next().await.unwrap();
    assert_eq!((&end["type"], &end["object"]["kind"]), (&json!("BOOKMARK"), &json!("ConfigMap")));
    assert_eq!(end["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    assert_eq!(version(&end["object"]), last);
    cluster.config_map("b").await;
    assert_eq!(watch.told().await, "ADDED b");

    let without = format!("{CONFIG_MAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan");
    let mut watch = cluster.watch(&without).await;
    cluster.config_map("c").await;
    assert_eq!(watch.told().await, "ADDED c");
    for query in [
        "sendInitialEvents=true",
        "resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=true&resourceVersionMatch=Exact",
    ] {
        let answer = cluster.get(&format!("{CONFIG_MAPS}?watch=1&{query}")).await;
        assert_eq!(answer.reason(), (422, "Invalid".to_owned()), "{query}");
    }
    let future = cluster.get(&format!("{path}&resourceVersion=99999")).await;
    assert_eq!(future.reason(), (504, "Timeout".to_owned()));
}

#[tokio::test]
async fn bookmarks_tell_how_far_the_watch_is() {
    let options =
        DevServerOptions { bookmark_every: Duration::from_millis(20), ..DevServerOptions::default() };
    let cluster = Cluster::with(options).await;
    cluster.config_map("a").await;
    let mut watch = cluster.watch(&format!("{PODS}?watch=1&allowWatchBookmarks=true")).await;
    let target = version(&cluster.config_map("b").await);
    // Something else has changed: a watch on pods can go on from there.
    loop {
        let event = watch.next().await.unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        assert!(event["object"]["metadata"].get("annotations").is_none(), "{event}");
        if version(&event["object"]) >= target {
            break;
        }
    }
    let mut none = cluster.watch(&format!("{PODS}?watch=1")).await;
    assert!(none.is_silent(Duration::from_millis(100)).await);
}

#[tokio::test]
async fn a_watch_from_a_forgotten_version_is_told_so() {
    let cluster = Cluster::start().await;
    let first = version(&cluster.config_map("a").await);
    let last = version(&cluster.config_map("b").await);
    let mut open = cluster.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={last}")).await;
    cluster.server.compact();
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={first}")).await;
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(event["object"]["reason"], "Expired");
    assert!(watch.next().await.is_none(), "and that is the end");
    cluster.config_map("c").await;
    assert_eq!(open.told().await, "ADDED c", "one that has seen everything goes on");
}

#[tokio::test]
async fn a_watch_beyond_the_window_is_told_so() {
    let cluster = Cluster::with(DevServerOptions { window: 3, ..DevServerOptions::default() }).await;
    let first = version(&cluster.config_map("a").await);
    for name in ["b", "c", "d"] {
        cluster.config_map(name).await;
    }
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion=");
    assert_eq!(cluster.watch(&format!("{path}{first}")).await.told().await, "ADDED b");
    cluster.config_map("e").await;
    assert_eq!(cluster.watch(&format!("{path}{first}")).await.next().await.unwrap()["type"], "ERROR");
}

#[tokio::test]
async fn a_watch_ends_when_it_said_it_would() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1")).await;
    assert_eq!(watch.told().await, "ADDED a");
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn many_watches_are_told_the_same_bytes() {
    let cluster = Cluster::start().await;
    let mut watches = Vec::new();
    for _ in 0..20 {
        watches.push(cluster.watch(&format!("{CONFIG_MAPS}?watch=1")).await);
    }
    cluster.post(CONFIG_MAPS, &config_map("a")).await.ok();
    let first = watches[0].line().await.unwrap().unwrap();
    for watch in &mut watches[1..] {
        assert_eq!(watch.line().await.unwrap().unwrap(), first);
    }
}
