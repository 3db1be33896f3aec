//! What recorders make of what they are told.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_events::{
    Event, EventBroadcaster, EventDetails, EventSource, EventType, ObjectReference, RecorderCounts,
};
use pilothouse_object::{Gvk, Object};

use crate::support::{BEGIN, broadcaster, options, pod, recorder};

/// The events that a broadcaster distributes while something is done.
async fn recorded(with: impl AsyncFnOnce(&EventBroadcaster)) -> Vec<Event> {
    let broadcaster = broadcaster();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&seen);
    broadcaster.start_event_watcher(move |event| keeps.lock().push(event.clone())).await.unwrap();
    with(&broadcaster).await;
    assert!(broadcaster.shutdown(Duration::from_secs(1)).await);
    std::mem::take(&mut *seen.lock())
}

#[tokio::test(start_paused = true)]
async fn an_event_has_the_source_the_name_and_the_times_of_client_go_s() {
    let events = recorded(async |broadcaster| {
        recorder(broadcaster).event(pod("web"), EventType::Normal, "Pulled", "pulled {x}");
    })
    .await;
    let event = &events[0];
    assert_eq!(&*event.name, format!("web.{:x}", BEGIN.as_nanosecond()));
    assert_eq!((event.namespace(), &*event.message, event.count), ("shop", "pulled {x}", 1));
    assert_eq!((event.first_timestamp, event.last_timestamp), (BEGIN, BEGIN));
    assert_eq!(*event.body.regarding, pod("web"));
    let source = &event.body.source;
    assert_eq!((source.component.as_str(), source.host.as_str()), ("kubelet", "node-1"));
    assert_eq!(source.reporting_instance, "node-1");
}

#[tokio::test(start_paused = true)]
async fn a_reference_is_made_from_an_object_or_from_a_key_alone() {
    let json =
        br#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"d","uid":"u",
        "resourceVersion":"7"}}"#;
    let object = Object::decode(json).unwrap();
    let key = "shop/d".parse().unwrap();
    let events = recorded(async |broadcaster| {
        let recorder = recorder(broadcaster);
        recorder.event(&object, EventType::Warning, "A", "");
        recorder.event(
            ObjectReference::of_key(&Gvk::new("apps", "v1", "Deployment"), &key),
            EventType::Warning,
            "A",
            "",
        );
    })
    .await;
    let whole = ObjectReference {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: "shop".to_owned(),
        name: "d".to_owned(),
        uid: "u".to_owned(),
        resource_version: "7".to_owned(),
        field_path: String::new(),
    };
    assert_eq!(*events[0].body.regarding, whole);
    let (uid, resource_version) = (String::new(), String::new());
    assert_eq!(*events[1].body.regarding, ObjectReference { uid, resource_version, ..whole });
}

#[tokio::test(start_paused = true)]
async fn events_about_objects_without_a_namespace_live_in_default() {
    let events = recorded(async |broadcaster| {
        let node = ObjectReference { namespace: String::new(), ..pod("node-1") };
        recorder(broadcaster).event(node, EventType::Normal, "Ready", "");
    })
    .await;
    assert_eq!(events[0].namespace(), "default");
    assert_eq!(events[0].body.regarding.namespace, "");
}

#[tokio::test(start_paused = true)]
async fn events_of_one_moment_have_names_of_their_own() {
    let events = recorded(async |broadcaster| {
        for _ in 0..3 {
            recorder(broadcaster).event(pod("web"), EventType::Normal, "A", "");
        }
    })
    .await;
    let names: Vec<String> = (0..3).map(|at| format!("web.{:x}", BEGIN.as_nanosecond() + at)).collect();
    assert_eq!(events.iter().map(|event| &*event.name).collect::<Vec<_>>(), names);
}

#[tokio::test(start_paused = true)]
async fn texts_are_cut_to_what_the_api_takes_and_between_characters() {
    let events = recorded(async |broadcaster| {
        let long = "é".repeat(2000);
        let details = EventDetails { action: format!("x{long}"), ..EventDetails::default() };
        recorder(broadcaster).record(pod("web"), EventType::Normal, &long, format_args!("x{long}"), details);
    })
    .await;
    assert_eq!(&*events[0].message, format!("x{}", "é".repeat(511)));
    assert_eq!(events[0].body.reason, "é".repeat(64));
    assert_eq!(events[0].body.action, format!("x{}", "é".repeat(63)));
    assert_eq!(EventSource::reporting("c", &"h".repeat(200)).reporting_instance.len(), 128);
}

#[tokio::test(start_paused = true)]
async fn past_and_annotated_events_carry_what_they_are_given() {
    let past: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let events = recorded(async |broadcaster| {
        let recorder = recorder(broadcaster);
        recorder.past_eventf(pod("web"), past, EventType::Normal, "A", format_args!("{}", 1));
        recorder.annotated_eventf(pod("web"), &[("k", "v")], EventType::Normal, "A", format_args!("{}", 2));
    })
    .await;
    assert_eq!((events[0].first_timestamp, events[0].last_timestamp), (past, past));
    assert_eq!(&*events[0].name, format!("web.{:x}", BEGIN.as_nanosecond()), "named by when it was recorded");
    assert_eq!(events[1].body.annotations, [("k".to_owned(), "v".to_owned())]);
    assert_eq!(&*events[1].message, "2");
}

#[test]
fn only_normal_and_warning_are_types() {
    assert_eq!("Normal".parse(), Ok(EventType::Normal));
    assert_eq!("Warning".parse(), Ok(EventType::Warning));
    let error = "normal".parse::<EventType>().unwrap_err();
    assert_eq!(error.to_string(), "unsupported event type \"normal\": it is Normal or Warning");
}

#[tokio::test(start_paused = true)]
async fn what_finds_the_queue_full_is_dropped_and_counted() {
    let broadcaster =
        EventBroadcaster::new(pilothouse_events::BroadcasterOptions { queue_length: 3, ..options() });
    let recorder = recorder(&broadcaster);
    // No other task runs until something is awaited.
    for _ in 0..10 {
        recorder.event(pod("web"), EventType::Normal, "A", "");
    }
    assert_eq!(broadcaster.metrics().counts(), RecorderCounts { received: 10, dropped: 7 });
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_a_shutdown_is_dropped_and_counted() {
    let broadcaster = broadcaster();
    let recorder = recorder(&broadcaster);
    broadcaster.shutdown(Duration::from_secs(1)).await;
    recorder.event(pod("web"), EventType::Normal, "A", "");
    assert_eq!(broadcaster.metrics().counts(), RecorderCounts { received: 1, dropped: 1 });
    assert!(broadcaster.start_event_watcher(|_| {}).await.is_err());
}
