//! What an API server shows of events that were recorded, over HTTP.

use std::time::Duration;

use pilothouse_client::{ApiResource, Client, ClientOptions, ListParams, RetryPolicy};
use pilothouse_devserver::{DevServer, DevServerOptions, Fault, FaultRule, When};
use pilothouse_events::{
    BroadcasterOptions, CoreV1Sink, EventBroadcaster, EventDetails, EventSource, EventType, EventWatch,
    EventsV1Sink, ObjectReference, SinkCounts,
};
use pilothouse_object::Gvk;
use serde_json::{Value, json};

use crate::support::pod;

struct Scene {
    server: DevServer,
    client: Client,
    broadcaster: EventBroadcaster,
}

impl Scene {
    async fn new() -> Self {
        let server = DevServer::start(DevServerOptions::default()).await.unwrap();
        let options = ClientOptions {
            server: Some(server.url()),
            retry: RetryPolicy::none(),
            ..ClientOptions::default()
        };
        let client = Client::new(options).await.unwrap();
        let namespaces = ApiResource::new(Gvk::new("", "v1", "Namespace"), "namespaces", false);
        let shop = br#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}"#;
        client.create(&namespaces, None, shop, &Default::default()).await.unwrap();
        let options =
            BroadcasterOptions { sleep_duration: Duration::from_millis(10), ..BroadcasterOptions::default() };
        Self { server, client, broadcaster: EventBroadcaster::new(options) }
    }

    async fn done(&self, watch: &EventWatch) -> SinkCounts {
        assert!(self.broadcaster.shutdown(Duration::from_secs(20)).await);
        watch.metrics().counts()
    }

    async fn events(&self, group: &str) -> Vec<Value> {
        let resource = ApiResource::new(Gvk::new(group, "v1", "Event"), "events", true);
        let list = self.client.list_all(&resource, None, &ListParams::default()).await.unwrap();
        let mut events: Vec<Value> =
            list.items.iter().map(|event| serde_json::from_str(event.json()).unwrap()).collect();
        events.sort_by_key(|event| event["reason"].as_str().map(str::to_owned));
        events
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn core_v1_events_have_the_fields_that_client_go_writes() {
    let scene = Scene::new().await;
    let watch =
        scene.broadcaster.start_recording_to_sink(CoreV1Sink::new(scene.client.clone())).await.unwrap();
    let recorder = scene.broadcaster.new_recorder(EventSource::new("kubelet", "node-1"));
    let web = pod("web").with_field_path("spec.containers{web}");
    for _ in 0..3 {
        recorder.event(&web, EventType::Warning, "BackOff", "back-off restarting");
    }
    let first = jiff::Timestamp::now();
    let cluster = ObjectReference { namespace: String::new(), kind: "Node".to_owned(), ..pod("node-1") };
    recorder.annotated_eventf(
        cluster,
        &[("a", "b")],
        EventType::Normal,
        "Ready",
        format_args!("{}", "ready"),
    );
    assert_eq!(scene.done(&watch).await, SinkCounts { received: 4, sent: 4, ..SinkCounts::default() });

    let events = scene.events("").await;
    assert_eq!(events.len(), 2, "{events:?}");
    let event = &events[0];
    let involved = json!({"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web", "uid": "uid-web",
        "fieldPath": "spec.containers{web}"});
    assert_eq!(event["involvedObject"], involved);
    assert_eq!(event["count"], 3);
    assert_eq!(event["source"], json!({"component": "kubelet", "host": "node-1"}));
    assert_eq!(
        (&event["reportingComponent"], &event["reportingInstance"]),
        (&json!("kubelet"), &json!("node-1"))
    );
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("BackOff")));
    assert_eq!(event["message"], "back-off restarting");
    assert_eq!(event["metadata"]["namespace"], "shop");
    assert!(event["metadata"]["name"].as_str().unwrap().starts_with("web."));
    for field in ["firstTimestamp", "lastTimestamp"] {
        let text = event[field].as_str().unwrap();
        let time: jiff::Timestamp = text.parse().unwrap();
        assert_eq!(text.len(), 20, "whole seconds: {text}");
        assert!((first.as_second() - time.as_second()).abs() < 10);
    }
    assert!(event["eventTime"].is_null() && event["series"].is_null());
    assert_eq!(events[1]["metadata"]["namespace"], "default");
    assert_eq!(events[1]["metadata"]["annotations"], json!({"a": "b"}));
    let verbs: Vec<_> = scene.server.requests().into_iter().filter(|served| served.verb != "get").collect();
    assert_eq!(verbs.iter().filter(|served| served.verb == "patch").count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_k8s_io_events_have_a_series_and_no_fields_of_core_v1() {
    let scene = Scene::new().await;
    let watch = scene.broadcaster.start_recording(&scene.client).await.unwrap();
    let recorder = scene.broadcaster.new_recorder(EventSource::reporting("example.com/operator", "node-1"));
    let details = || EventDetails {
        action: "Scaling".to_owned(),
        related: Some(pod("other").into()),
        ..EventDetails::default()
    };
    for _ in 0..5 {
        recorder.record(pod("web"), EventType::Normal, "Scaled", format_args!("scaled"), details());
    }
    recorder.event(pod("web"), EventType::Normal, "Stopped", "stopped");
    let counts = scene.done(&watch).await;
    let expected =
        SinkCounts { received: 6, sent: 3, aggregated: 3, series_writes: 1, ..SinkCounts::default() };
    assert_eq!(counts, expected);

    let events = scene.events("events.k8s.io").await;
    assert_eq!(events.len(), 2, "{events:?}");
    let event = &events[0];
    assert_eq!(event["series"]["count"], 5);
    assert_eq!(event["series"]["lastObservedTime"].as_str().unwrap().len(), 27);
    assert_eq!(event["eventTime"].as_str().unwrap().len(), 27);
    assert_eq!(event["reportingController"], "example.com/operator");
    assert_eq!(event["reportingInstance"], "example.com/operator-node-1");
    assert_eq!((&event["action"], &event["reason"]), (&json!("Scaling"), &json!("Scaled")));
    assert_eq!((&event["note"], &event["type"]), (&json!("scaled"), &json!("Normal")));
    assert_eq!((&event["regarding"]["name"], &event["related"]["name"]), (&json!("web"), &json!("other")));
    for field in ["deprecatedCount", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"] {
        assert!(event[field].is_null(), "{field}");
    }
    assert!(events[1]["series"].is_null());
    assert_eq!(events[1]["action"], "Stopped", "the API takes none without an action");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_events_k8s_io_gets_core_v1_events() {
    let scene = Scene::new().await;
    let path = Some("/apis/events.k8s.io".to_owned());
    scene
        .server
        .faults()
        .add(FaultRule { path, ..FaultRule::new(Fault::Status { code: 404, retry_after: None }) });
    assert!(!EventsV1Sink::is_served(&scene.client).await.unwrap());
    let watch = scene.broadcaster.start_recording(&scene.client).await.unwrap();
    let recorder = scene.broadcaster.new_recorder(EventSource::new("kubelet", "node-1"));
    recorder.event(pod("web"), EventType::Normal, "A", "x");
    assert_eq!(scene.done(&watch).await.sent, 1);
    assert_eq!(scene.events("").await[0]["count"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_breaks_connections_has_the_event_once_and_the_whole_count() {
    let scene = Scene::new().await;
    for verb in ["create", "patch"] {
        scene
            .server
            .faults()
            .add(FaultRule::on(verb, "events", Fault::Tear { after: 0 }).when(When::first(2)));
    }
    let watch =
        scene.broadcaster.start_recording_to_sink(CoreV1Sink::new(scene.client.clone())).await.unwrap();
    let recorder = scene.broadcaster.new_recorder(EventSource::new("kubelet", "node-1"));
    for received in 1..=3 {
        recorder.event(pod("web"), EventType::Normal, "A", "x");
        crate::support::settled(&watch, received).await;
    }
    let counts = scene.done(&watch).await;
    assert_eq!((counts.sent, counts.failed), (3, 0), "{counts:?}");
    assert!(counts.retries >= 2, "{counts:?}");
    let events = scene.events("").await;
    assert_eq!((events.len(), &events[0]["count"]), (1, &json!(3)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_was_deleted_on_the_server_comes_again_with_its_count() {
    let scene = Scene::new().await;
    let watch =
        scene.broadcaster.start_recording_to_sink(CoreV1Sink::new(scene.client.clone())).await.unwrap();
    let recorder = scene.broadcaster.new_recorder(EventSource::new("kubelet", "node-1"));
    let event = || recorder.event(pod("web"), EventType::Normal, "A", "x");
    event();
    crate::support::settled(&watch, 1).await;
    let resource = ApiResource::new(Gvk::new("", "v1", "Event"), "events", true);
    let name = scene.events("").await[0]["metadata"]["name"].clone();
    let all = ListParams::default();
    scene.client.delete_collection(&resource, Some("shop"), &Default::default(), &all).await.unwrap();
    event();
    assert_eq!(scene.done(&watch).await.sent, 2);
    let events = scene.events("").await;
    assert_eq!((&events[0]["metadata"]["name"], &events[0]["count"]), (&name, &json!(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_in_a_namespace_that_does_not_exist_fails_and_others_go_on() {
    let scene = Scene::new().await;
    let watch =
        scene.broadcaster.start_recording_to_sink(CoreV1Sink::new(scene.client.clone())).await.unwrap();
    let recorder = scene.broadcaster.new_recorder(EventSource::new("kubelet", "node-1"));
    let lost = ObjectReference { namespace: "nowhere".to_owned(), ..pod("web") };
    recorder.event(lost, EventType::Normal, "A", "x");
    recorder.event(pod("web"), EventType::Normal, "A", "x");
    let counts = scene.done(&watch).await;
    assert_eq!((counts.sent, counts.failed, counts.retries), (1, 1, 0));
}
