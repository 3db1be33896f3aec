use std::collections::BTreeMap;

use pilothouse_client::{ClientOptions, ListParams};
use pilothouse_devserver::{DevServer, DevServerOptions};
use pilothouse_engine::{EventOptions, RefusalReason};
use pilothouse_object::{Gvk, Object};
use pilothouse_plugin::Rule;
use serde_json::json;

use super::*;
use crate::observe::audit::tests::AuditLines;

fn grants() -> Grants {
    let rule: Rule = serde_json::from_value(json!({
        "groups": [""], "resources": ["events"], "verbs": ["create"], "namespaces": ["default"],
    }))
    .unwrap();
    Grants::new(vec![rule])
}

fn plugin() -> PluginEvents {
    PluginEvents::new("p".into(), "h".into(), Handle::current())
}

fn event(reason: &str) -> GuestEvent {
    let key = "default/a".parse().unwrap();
    let (uid, resource_version) = (String::new(), String::new());
    GuestEvent {
        regarding: EventTarget { kind: Gvk::new("", "v1", "ConfigMap"), key, uid, resource_version },
        related: None,
        is_warning: false,
        reason: reason.to_owned(),
        action: String::new(),
        note: "a note".to_owned(),
        options: EventOptions::default(),
    }
}

fn record(events: &PluginEvents, event: GuestEvent) -> Result<(), Refusal> {
    record_with(events, &grants(), event)
}

fn record_with(events: &PluginEvents, grants: &Grants, event: GuestEvent) -> Result<(), Refusal> {
    events.record(events.generation.load(Relaxed), None, grants, event)
}

async fn server() -> (DevServer, Client) {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    let options = ClientOptions { server: Some(server.url()), ..ClientOptions::default() };
    let client = Client::new(options).await.unwrap();
    (server, client)
}

async fn written(client: &Client) -> Vec<Object> {
    let resource = pilothouse_client::ApiResource::new(Gvk::new("", "v1", "Event"), "events", true);
    client.list_all(&resource, Some("default"), &ListParams::default()).await.unwrap().items
}

#[tokio::test]
async fn a_plugin_that_records_nothing_has_no_queue_and_ends_at_once() {
    let events = plugin();
    assert_eq!(
        record_with(&events, &Grants::default(), event("Refused")).unwrap_err().reason,
        RefusalReason::Forbidden
    );
    assert!(events.running.get().is_none());
    events.shutdown(Duration::from_secs(3600)).await;
}

#[tokio::test]
async fn what_was_recorded_is_written_before_the_end() {
    let (_server, client) = server().await;
    let events = plugin();
    events.speak_as(1, client.clone(), 50.0);
    for number in 0..20 {
        record(&events, event(&format!("Reason{number}"))).unwrap();
    }
    events.shutdown(Duration::from_secs(60)).await;
    assert_eq!(written(&client).await.len(), 20);
    let counts = events.counts();
    assert_eq!((counts.recorder.received, counts.sink.sent), (20, 20));
    // Nothing is taken any more, and that is counted.
    record(&events, event("Late")).unwrap();
    assert_eq!(events.counts().recorder.dropped, 1);
}

#[tokio::test]
async fn a_guest_cannot_speak_for_another_plugin() {
    let (_server, client) = server().await;
    let events = plugin();
    events.speak_as(1, client.clone(), 50.0);
    let annotations = [("pilothouse.dev/plugin", "other"), ("a", "b")];
    let annotations = annotations.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let options = EventOptions { annotations, ..EventOptions::default() };
    record(&events, GuestEvent { options, ..event("Reason") }).unwrap();
    events.shutdown(Duration::from_secs(60)).await;
    let written = written(&client).await;
    assert_eq!(written[0].annotation(PLUGIN_ANNOTATION).as_deref(), Some("p"));
    assert_eq!(written[0].annotation("a").as_deref(), Some("b"));
    assert_eq!(written[0].get_string("/reportingComponent").as_deref(), Some("p"));
}

#[tokio::test]
async fn what_is_malformed_names_what_is_wrong() {
    let events = plugin();
    let long = "x".repeat(MAX_TEXTS);
    let many = (0..=MAX_ANNOTATIONS).map(|number| (number.to_string(), String::new())).collect();
    let none = EventOptions::default;
    let with = |options| GuestEvent { options, ..event("R") };
    let odd = BTreeMap::from([("a b".to_owned(), String::new())]);
    for (event, part) in [
        (event(""), "the reason is empty"),
        (with(EventOptions { timestamp: Some("now".to_owned()), ..none() }), "RFC 3339"),
        (with(EventOptions { annotations: odd, ..none() }), "\"a b\" is not"),
        (with(EventOptions { annotations: many, ..none() }), "more than 64 annotations"),
        (with(EventOptions { field_path: long, ..none() }), "may have 8192"),
    ] {
        let refusal = record(&events, event).unwrap_err();
        assert_eq!(refusal.reason, RefusalReason::Invalid);
        assert!(refusal.message.contains(part), "{}", refusal.message);
    }
    assert_eq!(events.counts().refused, 5);
}

#[tokio::test]
async fn more_than_the_quota_is_refused_and_counted() {
    let events = plugin();
    let (_server, client) = server().await;
    events.speak_as(1, client, 0.01);
    assert!(record(&events, event("R")).is_ok());
    assert_eq!(record(&events, event("R")).unwrap_err().reason, RefusalReason::OverLimit);
    assert_eq!((events.counts().over_quota, events.counts().recorder.received), (1, 1));
}

#[tokio::test]
async fn only_generations_that_work_or_did_may_record_and_only_where_the_host_leads() {
    let events = plugin();
    let (_server, client) = server().await;
    events.speak_as(2, client, 50.0);
    let outcome = |generation, not_here: Option<&str>| {
        events.record(generation, not_here.map(str::to_owned), &grants(), event("R"))
    };
    assert!(outcome(2, None).is_ok() && outcome(1, None).is_ok());
    let elsewhere = Some("another host does");
    for (generation, not_here, message) in [
        (3, None, "Events cannot be recorded in describe or before it"),
        // A guest that is described is in no term, which is not why.
        (3, elsewhere, "Events cannot be recorded in describe or before it"),
        (2, elsewhere, "the Event is not recorded: another host does"),
    ] {
        let refusal = outcome(generation, not_here).unwrap_err();
        assert_eq!((refusal.reason, &*refusal.message), (RefusalReason::Unavailable, message));
    }
    assert_eq!((events.counts().recorder.received, events.counts().refused), (2, 3));
}

#[tokio::test]
async fn an_event_that_stands_for_several_is_the_plugin_s_too() {
    let (_server, client) = server().await;
    let events = plugin();
    events.speak_as(1, client.clone(), 50.0);
    for number in 0..15 {
        record(&events, GuestEvent { note: format!("note {number}"), ..event("Same") }).unwrap();
    }
    events.shutdown(Duration::from_secs(60)).await;
    let written = written(&client).await;
    let combined: Vec<_> = written
        .iter()
        .filter(|event| event.get_string("/message").is_some_and(|note| note.starts_with("(combined")))
        .collect();
    assert_eq!((written.len(), combined.len()), (10, 1));
    assert_eq!(combined[0].annotation(PLUGIN_ANNOTATION).as_deref(), Some("p"));
}

#[tokio::test]
async fn the_quota_is_full_at_first_and_a_reload_gives_none_of_it_back() {
    let events = plugin();
    let (_server, client) = server().await;
    let recorded = || (0..1000).filter(|_| record(&events, event("R")).is_ok()).count();
    events.speak_as(1, client.clone(), 100.0);
    // Twice the rate, and what comes in while they are counted.
    let first = recorded();
    assert!(first >= 200, "{first}");
    events.speak_as(2, client, 0.01);
    assert!(recorded() <= 1);
}

#[tokio::test]
async fn each_write_of_an_event_has_a_line_of_the_audit() {
    let (_server, client) = server().await;
    let (lines, _guard) = AuditLines::capture();
    let events = plugin();
    events.speak_as(4, client, 50.0);
    // Equal ones are counted on in the first.
    for reason in ["Same", "Same", "Other"] {
        record(&events, event(reason)).unwrap();
        while !events.are_written() {
            tokio::task::yield_now().await;
        }
    }
    events.shutdown(Duration::from_secs(60)).await;
    let lines = lines.get();
    let verbs: Vec<_> = lines.iter().map(|line| line["verb"].as_str().unwrap()).collect();
    assert_eq!(verbs, ["create", "patch", "create"]);
    assert_eq!(lines[0]["name"], lines[1]["name"]);
    for line in &lines {
        let shown = ["plugin", "resource", "namespace", "result"].map(|name| line[name].clone());
        assert_eq!(json!(shown), json!(["p", "events", "default", "done"]), "{line}");
    }
}
