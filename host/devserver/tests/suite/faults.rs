//! Faults as a client sees them; how they are set, when they happen, and what the log says of them.

use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use pilothouse_devserver::{Fault, FaultRule, When};
use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Cluster, PODS, config_map, pod, version};

/// A moment in which nothing must come; what is awaited to come has no such bound.
const MOMENT: Duration = Duration::from_millis(60);
const FAULTS: &str = "/_faults";

/// Sets a rule over HTTP: as JSON it is the same rule.
async fn set(cluster: &Cluster, rule: &FaultRule) -> u64 {
    let ids = cluster.post(FAULTS, &serde_json::to_value(rule).unwrap()).await.ok();
    ids["ids"][0].as_u64().unwrap()
}

/// Sets a fault in process.
fn add(cluster: &Cluster, verb: &str, resource: &str, fault: Fault) -> u64 {
    cluster.server.faults().add(FaultRule::on(verb, resource, fault))
}

#[tokio::test]
async fn a_delayed_answer_is_late_and_whole() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    let rule = FaultRule::on("list", "configmaps", Fault::Delay { milliseconds: 80 });
    set(&cluster, &rule).await;
    cluster.server.faults().add(rule);
    add(&cluster, "list", "configmaps", Fault::Status { code: 503, retry_after: None });
    let start = Instant::now();
    assert_eq!(cluster.get(CONFIG_MAPS).await.code, 503);
    assert!(start.elapsed() >= Duration::from_millis(160), "all delays count, and another fault as well");
    cluster.server.faults().remove(3);
    assert_eq!(cluster.get(CONFIG_MAPS).await.ok()["items"][0]["metadata"]["name"], "a");
}

#[tokio::test]
async fn every_code_comes_with_its_status() {
    let cluster = Cluster::start().await;
    for (code, reason) in [
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (409, "Conflict"),
        (410, "Expired"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
        (418, ""),
    ] {
        let id = add(&cluster, "create", "configmaps", Fault::Status { code, retry_after: None });
        let answer = cluster.post(CONFIG_MAPS, &config_map("a")).await;
        assert!(answer.headers.get("retry-after").is_none());
        assert_eq!(answer.reason(), (code, reason.to_owned()));
        assert!(cluster.server.faults().remove(id));
    }
    set(&cluster, &FaultRule::on("get", "configmaps", Fault::Status { code: 429, retry_after: Some(7) }))
        .await;
    let answer = cluster.get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(answer.headers["retry-after"], "7");
    assert_eq!(answer.json()["details"]["retryAfterSeconds"], 7);
    assert_eq!(
        cluster.get(CONFIG_MAPS).await.ok()["items"],
        json!([]),
        "none was made, and a list is no get"
    );
}

#[tokio::test]
async fn a_reset_comes_instead_of_an_answer() {
    let cluster = Cluster::start().await;
    let id = set(&cluster, &FaultRule::on("create", "configmaps", Fault::Reset).when(When::first(1))).await;
    let json = [("content-type", "application/json")];
    let failed = cluster.begin("POST", CONFIG_MAPS, &json, config_map("a").to_string()).await;
    assert!(failed.is_err(), "{failed:?}");
    assert_eq!(cluster.get(CONFIG_MAPS).await.ok()["items"], json!([]), "it was not carried out");
    cluster.config_map("a").await;
    let hit = &cluster.server.requests()[0];
    assert_eq!((hit.verb.as_str(), hit.code, &hit.faults[..]), ("create", 0, &[id][..]));
}

#[tokio::test]
async fn a_watch_lags_and_loses_nothing() {
    const LAG: Duration = Duration::from_millis(80);

    let cluster = Cluster::start().await;
    set(&cluster, &FaultRule::on("watch", "configmaps", Fault::Lag { milliseconds: 80 })).await;
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    let start = Instant::now();
    cluster.config_map("a").await;
    cluster.config_map("b").await;
    assert_eq!(watch.told().await, "ADDED a");
    assert!(start.elapsed() >= LAG, "{:?}", start.elapsed());
    assert_eq!(watch.told().await, "ADDED b");
}

#[tokio::test]
async fn a_watch_is_torn_in_the_middle_of_a_line() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    for after in [0, 1] {
        let id = add(&cluster, "watch", "configmaps", Fault::Tear { after });
        let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
        cluster.config_map(&format!("b{after}")).await;
        for _ in 0..after {
            assert_eq!(watch.told().await, "ADDED a");
        }
        let end = watch.line().await;
        assert!(end.is_err(), "no whole line and no good end: {end:?}");
        cluster.server.faults().remove(id);
    }
    assert_eq!(cluster.watch(&format!("{CONFIG_MAPS}?watch=1")).await.told().await, "ADDED a");
}

#[tokio::test]
async fn a_list_is_torn_or_cut_off() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    let whole = cluster.get(CONFIG_MAPS).await.body;
    let id = set(&cluster, &FaultRule::on("list", "configmaps", Fault::Tear { after: 0 })).await;
    let torn = cluster.begin("GET", CONFIG_MAPS, &[], "").await;
    if let Ok(response) = torn {
        assert!(response.into_body().collect().await.is_err());
    }
    cluster.server.faults().remove(id);
    add(&cluster, "list", "configmaps", Fault::Truncate);
    let cut = cluster.get(CONFIG_MAPS).await;
    assert_eq!((cut.code, &cut.body[..]), (200, &whole[..whole.len() / 2]));
    assert_eq!(cut.headers["content-length"].to_str().unwrap(), cut.body.len().to_string());
    assert!(serde_json::from_slice::<Value>(&cut.body).is_err());
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(watch.told().await, "ADDED a", "a watch has no end to cut off");
}

#[tokio::test]
async fn a_half_open_connection_is_silent_while_another_works() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let id = set(&cluster, &FaultRule::on("get", "configmaps", Fault::HalfOpen).when(When::first(1))).await;
    let mut lost = std::pin::pin!(cluster.begin("GET", &path, &[], ""));
    assert!(tokio::time::timeout(MOMENT, &mut lost).await.is_err());
    assert_eq!(cluster.get(&path).await.code, 200);
    assert!(tokio::time::timeout(MOMENT, &mut lost).await.is_err(), "neither an answer nor an end");
    let hit = cluster.server.requests().into_iter().find(|r| r.faults == [id]).unwrap();
    assert_eq!(hit.code, 0);
}

#[tokio::test]
async fn a_silent_watch_says_nothing() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    set(&cluster, &FaultRule::on("watch", "configmaps", Fault::Silent).when(When::first(1))).await;
    let path = format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true");
    let mut silent = cluster.watch(&path).await;
    let mut speaks = cluster.watch(&path).await;
    cluster.config_map("b").await;
    assert_eq!((speaks.told().await, speaks.told().await), ("ADDED a".to_owned(), "ADDED b".to_owned()));
    assert!(silent.is_silent(MOMENT).await);
}

#[tokio::test]
async fn gone_at_open_and_behind_some_lines() {
    let cluster = Cluster::start().await;
    let first = version(&cluster.config_map("a").await);
    let id = set(&cluster, &FaultRule::on("watch", "configmaps", Fault::Gone { after: None })).await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={first}");
    assert_eq!(cluster.get(&path).await.reason(), (410, "Expired".to_owned()));
    cluster.server.faults().remove(id);
    for after in [0, 2] {
        let id = add(&cluster, "watch", "configmaps", Fault::Gone { after: Some(after) });
        let mut watch = cluster.watch(&path).await;
        for n in 0..after {
            cluster.config_map(&format!("b{n}")).await;
            assert_eq!(watch.told().await, format!("ADDED b{n}"));
        }
        let event = watch.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{after}");
        assert_eq!(event["object"]["reason"], "Expired");
        assert!(watch.next().await.is_none());
        cluster.server.faults().remove(id);
    }
}

#[tokio::test]
async fn a_version_that_is_not_reached_yet() {
    let cluster = Cluster::start().await;
    add(&cluster, "list", "configmaps", Fault::TooLargeVersion);
    let answer = cluster.get(CONFIG_MAPS).await;
    assert_eq!((answer.code, &answer.headers["retry-after"]), (504, &http::HeaderValue::from(1)));
    let status = answer.json();
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!((&status["reason"], &status["details"]["retryAfterSeconds"]), (&json!("Timeout"), &json!(1)));
}

#[tokio::test]
async fn the_end_of_initial_events_is_withheld() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    set(&cluster, &FaultRule::on("watch", "configmaps", Fault::NoInitialEventsEnd)).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1&{query}")).await;
    assert_eq!(watch.told().await, "ADDED a");
    cluster.config_map("b").await;
    assert_eq!(watch.told().await, "ADDED b", "and no bookmark between");
}

#[tokio::test]
async fn events_come_twice() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    set(&cluster, &FaultRule::on("watch", "configmaps", Fault::Duplicate)).await;
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!((watch.told().await, watch.told().await), ("ADDED a".to_owned(), "ADDED a".to_owned()));
    cluster.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"key": "x"}})).await.ok();
    let first = watch.next().await.unwrap();
    assert_eq!(first["type"], "MODIFIED");
    assert_eq!(watch.next().await.unwrap(), first);
}

#[tokio::test]
async fn of_two_events_the_later_comes_first() {
    let cluster = Cluster::start().await;
    for name in ["a", "b", "c"] {
        cluster.config_map(name).await;
    }
    add(&cluster, "watch", "configmaps", Fault::OutOfOrder);
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1&{query}")).await;
    for name in ["d", "e"] {
        cluster.config_map(name).await;
    }
    let mut told = Vec::new();
    for _ in 0..6 {
        told.push(watch.told().await);
    }
    // A bookmark is true in any case: what it speaks of has been told.
    assert_eq!(told, ["ADDED b", "ADDED a", "ADDED c", "BOOKMARK", "ADDED e", "ADDED d"]);
}

#[tokio::test]
async fn lists_and_gets_from_the_past() {
    let cluster = Cluster::start().await;
    let first = cluster.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    cluster.merge(&path, &json!({"data": {"key": "new"}})).await.ok();
    cluster.config_map("b").await;
    let rules = json!([
        {"verbs": ["get", "list"], "resources": ["configmaps"], "fault": {"type": "stale", "by": 2}},
        {"verbs": ["get"], "resources": ["pods"], "fault": {"type": "stale", "by": 100_000}},
    ]);
    assert_eq!(cluster.post(FAULTS, &rules).await.ok()["ids"], json!([1, 2]));
    let list = cluster.get(CONFIG_MAPS).await.ok();
    assert_eq!((version(&list), list["items"].as_array().unwrap().len()), (version(&first), 1));
    assert_eq!(list["items"][0]["data"]["key"], "value");
    assert_eq!(cluster.get(&path).await.ok(), first);
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/b")).await.reason(), (404, "NotFound".to_owned()));
    cluster.post(PODS, &pod("a", "n")).await.ok();
    assert_eq!(cluster.get(&format!("{PODS}/a")).await.code, 404, "further back than there is history");
}

#[tokio::test]
async fn an_answer_calls_itself_something_else() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    add(&cluster, "list", "configmaps", Fault::ContentType { value: "text/html".to_owned() });
    let answer = cluster.get(CONFIG_MAPS).await;
    assert_eq!(
        (answer.code, &answer.headers["content-type"]),
        (200, &http::HeaderValue::from_static("text/html"))
    );
    cluster.server.faults().clear();
    add(&cluster, "list", "configmaps", Fault::ContentType { value: "\n".to_owned() });
    assert_eq!(cluster.get(CONFIG_MAPS).await.code, 200, "a type that no header can carry is no accident");
}

/// Which of the next calls fail.
async fn struck(cluster: &Cluster, calls: usize) -> Vec<usize> {
    let mut struck = Vec::new();
    for call in 1..=calls {
        if cluster.get(CONFIG_MAPS).await.code == 500 {
            struck.push(call);
        }
    }
    struck
}

#[tokio::test]
async fn when_a_fault_happens() {
    let cluster = Cluster::start().await;
    let rule =
        |when| FaultRule::on("list", "configmaps", Fault::Status { code: 500, retry_after: None }).when(when);
    for (when, expected) in [
        (When::default(), vec![1, 2, 3, 4, 5, 6]),
        (When::nth(3), vec![3]),
        (When::first(2), vec![1, 2]),
        (When { skip: 4, ..When::default() }, vec![5, 6]),
        (When { skip: 1, times: Some(3), ..When::default() }, vec![2, 3, 4]),
        (When { for_milliseconds: Some(0), ..When::default() }, vec![]),
        (When { for_milliseconds: Some(600_000), times: Some(1), ..When::default() }, vec![1]),
        (When { probability: Some(0.0), ..When::default() }, vec![]),
        (When { probability: Some(1.0), ..When::default() }, vec![1, 2, 3, 4, 5, 6]),
    ] {
        let id = set(&cluster, &rule(when)).await;
        assert_eq!(struck(&cluster, 6).await, expected, "{when:?}");
        let state = cluster.get(FAULTS).await.ok();
        assert_eq!((&state[0]["seen"], &state[0]["hits"]), (&json!(6), &json!(expected.len())), "{state}");
        cluster.server.faults().remove(id);
    }
    // The same seed, the same calls; of very many about the share that was asked for.
    let mut sequences = Vec::new();
    for seed in [1, 1, 2] {
        let id = set(&cluster, &rule(When { probability: Some(0.5), seed, ..When::default() })).await;
        sequences.push(struck(&cluster, 64).await);
        cluster.server.faults().remove(id);
    }
    assert_eq!(sequences[0], sequences[1]);
    assert_ne!(sequences[0], sequences[2]);
    assert!((12..=52).contains(&sequences[0].len()), "{sequences:?}");
}

#[tokio::test]
async fn whom_a_fault_hits() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    cluster.post(PODS, &pod("a", "n")).await.ok();
    let a = format!("{CONFIG_MAPS}/a");
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    for (rule, hit, missed) in [
        (json!({"namespace": "default"}), CONFIG_MAPS, "/api/v1/namespaces/kube-system/configmaps"),
        (json!({"namespace": "default"}), a.as_str(), "/api/v1/configmaps"),
        (json!({"name": "a"}), a.as_str(), CONFIG_MAPS),
        (json!({"path": "/apis"}), "/apis", "/api"),
        (json!({"path": "/apis"}), deployments, CONFIG_MAPS),
        (json!({"verbs": ["list", "watch"]}), CONFIG_MAPS, a.as_str()),
        (json!({"resources": ["deployments.apps"]}), deployments, CONFIG_MAPS),
        (json!({"resources": ["pods/status"]}), &format!("{PODS}/a/status"), &format!("{PODS}/a")),
        (json!({"resources": ["pods"]}), &format!("{PODS}/a"), &format!("{PODS}/a/status")),
        (json!({"verbs": ["get"]}), "/version", CONFIG_MAPS),
    ] {
        let mut rule = rule;
        rule["fault"] = json!({"type": "status", "code": 500});
        cluster.post(FAULTS, &rule).await.ok();
        assert_eq!(cluster.get(hit).await.code, 500, "{rule} {hit}");
        assert_eq!(cluster.get(missed).await.code, 200, "{rule} {missed}");
        assert_eq!(cluster.delete(FAULTS, &Value::Null).await.ok(), json!({}));
        assert_eq!(cluster.get(hit).await.code, 200);
    }
    for (user, hits, misses) in [
        ("jane", &[("impersonate-user", "jane")][..], &[][..]),
        ("system:admin", &[], &[("impersonate-user", "jane")]),
    ] {
        cluster.post(FAULTS, &json!({"user": user, "fault": {"type": "status", "code": 500}})).await.ok();
        assert_eq!(cluster.send("GET", CONFIG_MAPS, hits, "").await.code, 500, "{user}");
        assert_eq!(cluster.send("GET", CONFIG_MAPS, misses, "").await.code, 200, "{user}");
        cluster.server.faults().clear();
    }
}

#[tokio::test]
async fn rules_are_listed_and_removed() {
    let cluster = Cluster::start().await;
    let everything = FaultRule::new(Fault::Status { code: 503, retry_after: None });
    let id = set(&cluster, &everything).await;
    let second = cluster.server.faults().add(FaultRule::on("get", "pods", Fault::Reset));
    assert_eq!(cluster.get("/version").await.code, 503, "even that");
    assert_eq!(cluster.get("/healthz").await.code, 503);
    let rules = cluster.get(FAULTS).await.ok();
    let expected = json!([
        {"id": id, "seen": 2, "hits": 2, "rule": {"fault": {"type": "status", "code": 503}}},
        {"id": second, "seen": 0, "hits": 0, "rule": {"verbs": ["get"], "resources": ["pods"], "fault": {"type": "reset"}}},
    ]);
    assert_eq!(rules, expected, "and what steers the faults is not hit by them");
    assert_eq!(serde_json::to_value(cluster.server.faults().list()).unwrap(), expected);
    assert_eq!(cluster.delete(&format!("{FAULTS}/{id}"), &Value::Null).await.code, 200);
    assert_eq!(
        cluster.delete(&format!("{FAULTS}/{id}"), &Value::Null).await.reason(),
        (404, "NotFound".to_owned())
    );
    assert_eq!(cluster.delete(&format!("{FAULTS}/x"), &Value::Null).await.code, 404);
    assert_eq!(cluster.get("/version").await.code, 200);
    assert_eq!(cluster.server.faults().list().len(), 1);
    assert_eq!(cluster.put(FAULTS, &json!({})).await.reason(), (405, "MethodNotAllowed".to_owned()));
}

#[tokio::test]
async fn a_malformed_rule_is_refused_by_the_name_of_its_field() {
    let cluster = Cluster::start().await;
    let reset = json!({"type": "reset"});
    for (rule, named) in [
        (json!({}), "fault"),
        (json!({"fault": "reset"}), "fault"),
        (json!({"fault": {}}), "type"),
        (json!({"fault": {"type": "explode"}}), "explode"),
        (json!({"fault": {"type": "status"}}), "fault.code"),
        (json!({"fault": {"type": "status", "code": "many"}}), "fault.code"),
        (json!({"fault": {"type": "status", "code": 200}}), "fault.code"),
        (json!({"fault": {"type": "status", "code": 99_999}}), "fault.code"),
        (json!({"fault": {"type": "status", "code": 429, "retryAfter": -1}}), "fault.retryAfter"),
        (json!({"fault": {"type": "delay", "milliseconds": 1.5}}), "fault.milliseconds"),
        (json!({"fault": {"type": "reset", "after": 1}}), "after"),
        (json!({"fault": reset, "verbs": "list"}), "verbs"),
        (json!({"fault": reset, "verb": ["list"]}), "verb"),
        (json!({"fault": reset, "verbs": ["select"]}), "verbs"),
        (json!({"fault": reset, "when": {"skip": "two"}}), "when.skip"),
        (json!({"fault": reset, "when": {"nth": 2}}), "nth"),
        (json!({"fault": reset, "when": {"probability": 2}}), "when.probability"),
        (json!({"fault": reset, "name": 5}), "name"),
        (json!([{"fault": reset}, {"fault": reset, "path": []}]), "path"),
    ] {
        let (code, reason, message) = cluster.post(FAULTS, &rule).await.failed();
        assert_eq!((code, reason.as_str()), (400, "BadRequest"), "{rule}");
        assert!(message.contains(named), "{rule}: {message}");
    }
    let (code, _, message) = cluster.send("POST", FAULTS, &[], "{").await.failed();
    assert!(code == 400 && message.contains("for example"), "{message}");
    assert!(cluster.server.faults().list().is_empty(), "of several rules all or none are set");
}

#[tokio::test]
async fn rules_are_limited_in_number_and_in_size() {
    let cluster = Cluster::start().await;
    let rules = |count: usize| Value::from(vec![json!({"name": "x", "fault": {"type": "reset"}}); count]);
    cluster.post(FAULTS, &rules(999)).await.ok();
    let (code, _, message) = cluster.post(FAULTS, &rules(2)).await.failed();
    assert!(code == 400 && message.contains("at most 1000") && message.contains("DELETE"), "{message}");
    assert_eq!(cluster.server.faults().list().len(), 999, "all or none");
    cluster.post(FAULTS, &rules(1)).await.ok();
    cluster.delete(FAULTS, &Value::Null).await.ok();
    // As many fields as a body can hold: the wrong one is not looked for.
    let many: serde_json::Map<_, _> = (0..100_000).map(|n| (format!("f{n}"), json!(1))).collect();
    let long = json!({"name": "x".repeat(9000), "fault": {"type": "reset"}});
    for rule in [Value::from(many), long] {
        let (code, _, message) = cluster.post(FAULTS, &rule).await.failed();
        assert!(code == 400 && message.contains("8192 are allowed"), "{message}");
    }
}

#[tokio::test]
async fn the_log_says_who_asked_what_and_keeps_no_secret() {
    let cluster = Cluster::start().await;
    let id = add(&cluster, "list", "pods", Fault::Status { code: 429, retry_after: None });
    let headers = [
        ("authorization", "Bearer very-secret-token"),
        ("user-agent", "sailor/1.0"),
        ("impersonate-user", "jane"),
        ("impersonate-group", "sailors"),
    ];
    cluster.send("GET", &format!("{PODS}?limit=3"), &headers, "").await;
    cluster.post(CONFIG_MAPS, &config_map("a")).await.ok();
    cluster.watch("/apis/apps/v1/deployments?watch=1").await;
    cluster.get("/version").await.ok();
    cluster.get("/api/v1/namespaces/yard/pods/p/log").await;

    let log = cluster.server.requests();
    let brief: Vec<_> =
        log.iter().map(|r| (r.sequence, r.verb.as_str(), r.resource.as_str(), r.code)).collect();
    let expected = [
        (1, "list", "pods", 429),
        (2, "create", "configmaps", 201),
        (3, "watch", "deployments", 200),
        (4, "get", "", 200),
        (5, "get", "pods", 404),
    ];
    assert_eq!(brief, expected);
    let first = &log[0];
    assert_eq!((&first.faults[..], first.user.as_str()), (&[id][..], "system:admin"));
    assert_eq!(
        (first.impersonated.as_deref(), &first.impersonated_groups[..]),
        (Some("jane"), &["sailors".to_owned()][..])
    );
    assert_eq!((first.uri.as_str(), first.user_agent.as_str()), (&*format!("{PODS}?limit=3"), "sailor/1.0"));
    assert!(log[1].faults.is_empty() && log[1].impersonated.is_none());
    assert_eq!((log[2].group.as_str(), log[2].namespace.as_str()), ("apps", ""));
    assert_eq!(
        (log[4].namespace.as_str(), log[4].name.as_str(), log[4].subresource.as_str()),
        ("yard", "p", "log")
    );

    let over_http = cluster.get("/_requests").await.ok();
    assert_eq!(over_http, serde_json::to_value(&log).unwrap(), "and asking for it is not noted");
    assert_eq!((&over_http[0]["impersonated"], &over_http[0]["faults"]), (&json!("jane"), &json!([id])));
    let text = format!("{log:?} {over_http}");
    assert!(!text.contains("secret") && !text.contains("Bearer"), "{text}");
    cluster.delete("/_requests", &Value::Null).await.ok();
    assert!(cluster.server.requests().is_empty());
    cluster.get("/version").await.ok();
    assert_eq!(cluster.server.requests()[0].sequence, 6, "numbers go on");
}
