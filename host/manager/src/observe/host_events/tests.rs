use std::collections::BTreeSet;

use pilothouse_client::{ClientOptions, ListParams, WriteParams};
use pilothouse_devserver::{DevServer, DevServerOptions};
use pilothouse_events::MemorySink;
use pilothouse_object::Object;
use serde_json::json;

use super::*;

const LONG: Duration = Duration::from_secs(60);

async fn server() -> (DevServer, Client) {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    let options = ClientOptions { server: Some(server.url()), ..ClientOptions::default() };
    let client = Client::new(options).await.unwrap();
    (server, client)
}

fn pod(uid: Option<&str>) -> HostObject {
    HostObject::Pod { key: "default/host".parse().unwrap(), uid: uid.map(str::to_owned) }
}

async fn written(client: &Client) -> Vec<Object> {
    let resource = ApiResource::new(Gvk::new("", "v1", "Event"), "events", true);
    client.list_all(&resource, Some("default"), &ListParams::default()).await.unwrap().items
}

fn reason(event: &Object) -> String {
    event.get_string("/reason").unwrap_or_default().into_owned()
}

#[tokio::test]
async fn each_plugin_has_a_share_of_its_own() {
    let (_server, client) = server().await;
    let events = HostEvents::start(client.clone(), "h", pod(Some("uid"))).await;
    let loud = events.of("loud".into());
    for number in 0..100 {
        loud.failed(&format!("error {number}"), None);
        loud.denied("something");
    }
    for number in 0..40 {
        events.of(format!("p{number}").into()).running(1, None, "sha256:00");
    }
    loud.quarantined(Quarantined { keys: 3, pause: LONG }, "a trap");
    events.shutdown(LONG).await;
    let written = written(&client).await;
    let of = |wanted: &str| written.iter().filter(|event| reason(event) == wanted).count();
    let plugins: BTreeSet<_> = written
        .iter()
        .filter(|event| reason(event) == "PluginLoaded")
        .filter_map(|event| event.annotation(PLUGIN_ANNOTATION).map(String::from))
        .collect();
    assert_eq!((of("PluginLoaded"), plugins.len()), (40, 40));
    // Nine of them and one that stands for all others; what was denied is repeated, and counted.
    assert_eq!((of("PluginFailed"), of("PluginDenied")), (10, 1));
    let counts = events.counts().unwrap();
    assert_eq!(counts.recorder.received, 100 + 5 + 40 + 1);
    assert_eq!((counts.sink.pending(), counts.sink.failed, counts.sink.dropped), (0, 0, 0));
}

#[tokio::test]
async fn what_is_recorded_at_the_start_gets_the_uid_that_the_server_says() {
    let (_server, client) = server().await;
    let resource = ApiResource::new(Gvk::new("", "v1", "Pod"), "pods", true);
    let body = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "host", "namespace": "default"},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    });
    let (body, params) = (body.to_string(), WriteParams::default());
    let made = client.create(&resource, Some("default"), body.as_bytes(), &params).await.unwrap();
    let uid = made.uid().to_owned();
    let events = HostEvents::start(client.clone(), "h", pod(None)).await;
    events.of("p".into()).removed();
    while events.counts().unwrap().sink.sent == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(written(&client).await[0].get_string("/involvedObject/uid").as_deref(), Some(&*uid));
}

#[tokio::test]
async fn without_a_pod_of_that_name_events_are_about_its_namespace() {
    let (_server, client) = server().await;
    let events = HostEvents::start(client.clone(), "h", pod(None)).await;
    events.of("p".into()).removed();
    while events.counts().unwrap().sink.sent == 0 {
        tokio::task::yield_now().await;
    }
    let event = &written(&client).await[0];
    assert_eq!(event.get_string("/involvedObject/kind").as_deref(), Some("Namespace"));
    assert_eq!(event.get_string("/involvedObject/name").as_deref(), Some("default"));
}

#[tokio::test]
async fn what_waits_for_the_uid_at_the_end_is_written_without_and_too_much_is_counted() {
    let (_server, client) = server().await;
    let events = HostEvents::start(client.clone(), "h", pod(None)).await;
    let reporter = events.of("p".into());
    // Nothing else runs before the next await.
    for _ in 0..MOST_WAITING + 10 {
        reporter.removed();
    }
    events.shutdown(LONG).await;
    let written = written(&client).await;
    assert_eq!((written.len(), events.counts().unwrap().recorder.dropped), (1, 10));
    assert_eq!(written[0].get_string("/involvedObject/kind").as_deref(), Some("Pod"));
}

#[tokio::test]
async fn an_event_that_waited_for_the_uid_keeps_the_time_at_which_it_happened() {
    let broadcaster = EventBroadcaster::new(BroadcasterOptions::default());
    let sink = Arc::new(MemorySink::new(10));
    let watch = broadcaster.start_recording_to_sink(Arc::clone(&sink)).await.unwrap();
    let source = EventSource::new(HOST_COMPONENT, "h");
    let inner = Inner {
        broadcaster: broadcaster.clone(),
        source: source.clone(),
        watch,
        unwritten: AtomicU64::new(0),
        object: pod(None).reference(),
        about: Mutex::new(About::Unknown(Vec::new())),
        stopping: CancellationToken::new(),
    };
    let timestamp = Timestamp::constant(1_790_000_000, 0);
    let (recorder, message) = (broadcaster.new_recorder(source), "m".to_owned());
    inner.record(Waiting {
        recorder,
        timestamp,
        event_type: EventType::Normal,
        reason: "PluginLoaded",
        message,
    });
    inner.known(inner.object.clone());
    broadcaster.shutdown(LONG).await;
    let times: Vec<_> = sink.writes().iter().map(|write| write.event().first_timestamp).collect();
    assert_eq!(times, [timestamp]);
}
