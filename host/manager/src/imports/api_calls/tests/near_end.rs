//! What writes near the end of a term demand, on the development server.

use pilothouse_election::LeaderElectionConfig;

use super::*;
use crate::leader_election::tests::standby_of;

/// Of terms that a test brings near their end.
const RENEW_DEADLINE: Duration = Duration::from_secs(240);

/// Lets so much of the term pass that it is near its end.
async fn come_near_the_end() {
    tokio::time::pause();
    tokio::time::advance(RENEW_DEADLINE / 2 + Duration::from_secs(1)).await;
    tokio::time::resume();
}

impl Plugin {
    /// One of a host that leads, and may do all with ConfigMaps of the namespace. Nothing renews its term.
    async fn leading() -> Self {
        let mut plugin = Self::start().await;
        let (election, begin) = standby_of(LeaderElectionConfig {
            lease_duration: RENEW_DEADLINE * 2,
            renew_deadline: RENEW_DEADLINE,
            ..LeaderElectionConfig::new("me")
        });
        plugin.api_calls.election = election;
        let rules: Vec<Rule> = serde_json::from_value(json!([
            {"groups": [""], "resources": ["configmaps"], "namespaces": ["default"], "verbs": ["*"]},
        ]))
        .unwrap();
        plugin.api_calls.grants = Grants::new(rules);
        begin.await;
        plugin
    }
}

#[tokio::test]
async fn writes_near_the_end_of_a_term_demand_the_version_that_the_plugin_knows() {
    let plugin = Plugin::leading().await;
    let send = async |verb: ClientVerb, known: Option<&str>| {
        let kind = Gvk::new("", "v1", "ConfigMap");
        let (options, context) = Default::default();
        let call = ClientCall { cluster: 0, kind, verb, options, context, max_bytes: MAX_BYTES };
        let known = known.map(str::to_owned);
        match plugin.api_calls.call(call, move |_, _| known).await? {
            ClientAnswer::Object(object) => Ok(object.resource_version().to_owned()),
            _ => Ok::<_, ClientError>(String::new()),
        }
    };
    let body = |data: &str, version: &str| {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": data},
            "metadata": {"name": "x", "namespace": "default", "resourceVersion": version},
        });
        body.to_string().into_bytes()
    };
    let key = || "default/x".parse::<ObjectKey>().unwrap();
    let patch = |kind, body: &str| ClientVerb::Patch { key: key(), kind, body: body.as_bytes().to_vec() };
    let unconditional = |data: &str| {
        let json = format!(r#"[{{"op":"replace","path":"/data/a","value":"{data}"}}]"#);
        let merged = format!(r#"{{"data":{{"a":"{data}"}}}}"#);
        [
            ClientVerb::Update(body(data, "")),
            patch(PatchKind::Merge, &merged),
            patch(PatchKind::Strategic, &merged),
            patch(PatchKind::Json, &json),
        ]
    };
    let first = send(ClientVerb::Create(body("0", "")), None).await.unwrap();
    let mut newest = first.clone();
    // At the begin of the term nothing is demanded.
    for (number, write) in unconditional("early").into_iter().enumerate() {
        let version = send(write, Some(&first)).await;
        newest = version.unwrap_or_else(|error| panic!("write {number}: {}", error.message()));
    }
    let near_end = || plugin.api_calls.metrics.near_end_writes.get();
    assert_eq!(near_end(), 0);
    come_near_the_end().await;
    let mut sent = 0;
    for (number, write) in unconditional("late").into_iter().enumerate() {
        let ClientError::Api(status) = send(write, Some(&first)).await.unwrap_err() else {
            panic!("write {number} was not sent")
        };
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"), "write {number}");
        assert!(status.message.contains("near its end"), "write {number}: {}", status.message);
        sent += 1;
    }
    // What is known is what the object has, or nothing is known.
    for known in [true, false] {
        for (number, write) in unconditional(&format!("late, known: {known}")).into_iter().enumerate() {
            let version = send(write, known.then_some(newest.as_str())).await;
            newest = version.unwrap_or_else(|error| panic!("write {number}: {}", error.message()));
            sent += 1;
        }
    }
    // One that demands a version itself has a conflict of its own, and an apply is left as it is.
    let own = send(ClientVerb::Update(body("own", &first)), Some(&newest)).await.unwrap_err();
    assert!(!own.message().contains("near its end"), "{}", own.message());
    let applied = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"b":"c"}}"#;
    newest = send(patch(PatchKind::Apply, applied), Some(&first)).await.unwrap();
    let refused = send(ClientVerb::Delete(key()), Some(&first)).await.unwrap_err();
    assert!(refused.message().contains("near its end"), "{}", refused.message());
    send(ClientVerb::Delete(key()), Some(&newest)).await.unwrap();
    // Those that are refused before they are sent are not counted.
    let elsewhere = ClientVerb::Delete("elsewhere/x".parse().unwrap());
    let refused = send(elsewhere, Some(&newest)).await.unwrap_err();
    assert_eq!(reason(&refused), Some(RefusalReason::Forbidden));
    let refused = send(ClientVerb::Update(b"no: json".to_vec()), Some(&newest)).await.unwrap_err();
    assert_eq!(reason(&refused), Some(RefusalReason::Invalid));
    assert_eq!(near_end(), sent + 4);
    plugin.server.shutdown().await;
}

#[tokio::test]
async fn a_write_that_waits_for_room_until_the_term_is_near_its_end_demands_a_version() {
    let plugin = Plugin::leading().await;
    plugin.create(1, 1).await;
    let ClientAnswer::Page { items, .. } = plugin.call(ClientVerb::List, in_default()).await.unwrap() else {
        panic!("no page")
    };
    let created = items[0].resource_version().to_owned();
    let patch = |value: &str| {
        let body = json!({"data": {"value": value}}).to_string().into_bytes();
        ClientVerb::Patch { key: "default/x0000".parse().unwrap(), kind: PatchKind::Merge, body }
    };
    // The cache does not show it.
    plugin.call(patch("1"), CallOptions::default()).await.unwrap();
    let taken = plugin.api_calls.write_room.enter(&ClientVerb::Create(vec![b' '; 64 << 20])).await;
    let (kind, verb) = (Gvk::new("", "v1", "ConfigMap"), patch("2"));
    let (options, context) = Default::default();
    let call = ClientCall { cluster: 0, kind, verb, options, context, max_bytes: MAX_BYTES };
    let waiting = async {
        // The write has come to its wait before: it asks the server for nothing.
        plugin.call(ClientVerb::List, in_default()).await.unwrap();
        assert_eq!(plugin.api_calls.metrics.near_end_writes.get(), 0);
        come_near_the_end().await;
        drop(taken);
    };
    let (written, ()) = tokio::join!(plugin.api_calls.call(call, move |_, _| Some(created)), waiting);
    let error = written.unwrap_err();
    assert!(error.message().contains("near its end"), "{}", error.message());
    assert_eq!(plugin.api_calls.metrics.near_end_writes.get(), 1);
    plugin.server.shutdown().await;
}

#[tokio::test]
async fn a_write_near_the_end_of_the_term_demands_what_its_call_has_read_or_written_last() {
    let plugin = Plugin::leading().await;
    plugin.create(1, 1).await;
    let ClientAnswer::Page { items, .. } = plugin.call(ClientVerb::List, in_default()).await.unwrap() else {
        panic!("no page")
    };
    let created = items[0].resource_version().to_owned();
    come_near_the_end().await;
    // The cache never shows more than the object as it was created.
    let send = async |call_id: u64, verb: ClientVerb, options: CallOptions| {
        let context = CallContext { call_id, ..CallContext::default() };
        let kind = Gvk::new("", "v1", "ConfigMap");
        let call = ClientCall { cluster: 0, kind, verb, options, context, max_bytes: MAX_BYTES };
        let created = created.clone();
        plugin.api_calls.call(call, move |_, _| Some(created)).await
    };
    let key = || "default/x0000".parse::<ObjectKey>().unwrap();
    let patch = async |call_id: u64, value: &str| {
        let body = json!({"data": {"value": value}}).to_string().into_bytes();
        let verb = ClientVerb::Patch { key: key(), kind: PatchKind::Merge, body };
        send(call_id, verb, CallOptions::default()).await
    };
    // Each of its own writes makes the next version.
    for value in ["1", "2", "3"] {
        patch(1, value).await.unwrap();
    }
    let stale = patch(2, "4").await.unwrap_err();
    assert!(stale.message().contains("near its end"), "{}", stale.message());
    // A conflict changes nothing of what is known.
    assert!(patch(2, "4").await.is_err());
    send(2, ClientVerb::Get(key()), CallOptions::default()).await.unwrap();
    patch(2, "5").await.unwrap();
    send(3, ClientVerb::List, in_default()).await.unwrap();
    patch(3, "6").await.unwrap();
    // It may have deleted the object, which somebody else has made again: nothing is demanded.
    let none = CallOptions { label_selector: "no=one".to_owned(), ..in_default() };
    send(4, ClientVerb::DeleteCollection, none).await.unwrap();
    patch(4, "7").await.unwrap();
    // What it has read is not the newest any more.
    send(5, ClientVerb::Get(key()), CallOptions::default()).await.unwrap();
    send(6, ClientVerb::Get(key()), CallOptions::default()).await.unwrap();
    patch(6, "8").await.unwrap();
    let stale = patch(5, "9").await.unwrap_err();
    assert!(stale.message().contains("near its end"), "{}", stale.message());
    plugin.server.shutdown().await;
}
