//! Queries, options and events that are put together: their number, what they hold, and how they are used.

use super::*;
use api::client::HostOptions;
use api::events::{EventType, HostEvent};

fn about(call: &mut ImportCall<'_>, object: &Resource<Object>) -> Resource<crate::imports::NewEvent> {
    call.about(lent(object), EventType::Warning, "R".to_owned(), "n".to_owned()).unwrap()
}

#[test]
fn builders_are_bounded_together_and_freed_when_dropped() {
    let (_, mut state) = state(Recording { objects: vec![object("a/x")], ..Recording::default() });
    let kind = kind(&mut state);
    let mut call = import_call(&mut state);
    let options: Vec<_> = (0..63).map(|_| HostOptions::new(&mut call).unwrap()).collect();
    let about = |call: &mut ImportCall<'_>| {
        let key = wit::types::ObjectKey { namespace: "a".to_owned(), name: "x".to_owned() };
        call.about_key(lent(&kind), key, String::new(), EventType::Normal, "R".to_owned(), String::new())
    };
    about(&mut call).unwrap();
    for over in [refusal(about(&mut call)), refusal(HostOptions::new(&mut call))] {
        assert!(over.0 == RefusalReason::OverLimit && over.1.contains("64 queries"), "{over:?}");
    }
    HostOptions::drop(&mut call, lent(&options[0])).unwrap();
    about(&mut call).unwrap();
    drop(call);
    state.end();
    assert!(state.handles.is_empty());
    HostOptions::new(&mut import_call(&mut state)).unwrap();
}

#[test]
fn an_event_is_recorded_once_with_its_options() {
    let (host, mut state) = state(Recording::default());
    let object = state.handles.push_cached(object("a/x")).unwrap();
    let mut call = import_call(&mut state);
    let event = about(&mut call, &object);
    HostEvent::annotation(&mut call, lent(&event), "a".to_owned(), "b".to_owned()).unwrap();
    HostEvent::field_path(&mut call, lent(&event), "data".to_owned()).unwrap();
    HostEvent::record(&mut call, lent(&event)).unwrap();
    assert!(refusal(HostEvent::record(&mut call, event)).1.contains("recorded already"));
    let recorded = host.events.lock().pop().unwrap();
    let annotations = [("a".to_owned(), "b".to_owned())].into();
    let options = EventOptions { annotations, field_path: "data".to_owned(), timestamp: None };
    assert_eq!((recorded.is_warning, recorded.reason.as_str(), recorded.options), (true, "R", options));
    assert!(host.events.lock().is_empty());
}

#[test]
fn an_event_that_was_refused_can_be_recorded_later() {
    let (host, mut state) = state(Recording::default());
    let object = state.handles.push_cached(object("a/x")).unwrap();
    let mut call = import_call(&mut state);
    let event = about(&mut call, &object);
    HostEvent::annotation(&mut call, lent(&event), "a".to_owned(), "b".to_owned()).unwrap();
    HostEvent::related(&mut call, lent(&event), lent(&object)).unwrap();
    host.is_quota_used.store(true, Relaxed);
    for _ in 0..2 {
        assert_eq!(refusal(HostEvent::record(&mut call, lent(&event))).0, RefusalReason::OverLimit);
    }
    host.is_quota_used.store(false, Relaxed);
    HostEvent::record(&mut call, event).unwrap();
    let recorded = host.events.lock().pop().unwrap();
    assert_eq!((&*recorded.reason, &*recorded.note), ("R", "n"));
    assert!(recorded.related.is_some() && recorded.options.annotations.len() == 1);
}

#[test]
fn an_event_is_cut_where_it_may_be_and_refused_where_not() {
    let (host, mut state) = state(Recording::default());
    let object = state.handles.push_cached(object("a/x")).unwrap();
    let mut call = import_call(&mut state);
    let long = || "é".repeat(100 << 10);
    let event = call.about(lent(&object), EventType::Normal, long(), long()).unwrap();
    HostEvent::action(&mut call, lent(&event), long()).unwrap();
    HostEvent::record(&mut call, event).unwrap();
    let recorded = host.events.lock().pop().unwrap();
    for text in [recorded.reason, recorded.action, recorded.note] {
        assert!((1024..=4096).contains(&text.len()), "{}", text.len());
    }
    // A name that comes again is replaced.
    let event = about(&mut call, &object);
    let annotate = |call: &mut ImportCall<'_>, event: &Resource<_>, name: u32, bytes: usize| {
        HostEvent::annotation(call, lent(event), name.to_string(), "x".repeat(bytes)).unwrap();
    };
    for name in (0..32).chain(0..32) {
        annotate(&mut call, &event, name, 250);
    }
    HostEvent::record(&mut call, event).unwrap();
    let many = about(&mut call, &object);
    (0..33).for_each(|name| annotate(&mut call, &many, name, 0));
    let large = about(&mut call, &object);
    annotate(&mut call, &large, 0, 8 << 10);
    for event in [many, large] {
        let (reason, message) = refusal(HostEvent::record(&mut call, event));
        assert!(reason == RefusalReason::Invalid && message.contains("32 with 8192 bytes"), "{message}");
    }
    assert_eq!(host.events.lock().len(), 1);
}

#[tokio::test]
async fn what_is_put_together_is_charged_and_holds_nothing_when_it_is_refused() {
    let mut state = state_with_room(100, Recording::default());
    let kind = kind(&mut state);
    let mut call = import_call(&mut state);
    let free = call.handles.free_bytes();
    let options = HostOptions::new(&mut call).unwrap();
    HostOptions::label_selector(&mut call, lent(&options), "x".repeat(60 << 10)).unwrap();
    HostOptions::label_selector(&mut call, lent(&options), "x".repeat(50 << 10)).unwrap();
    assert_eq!(call.handles.free_bytes(), free - (51 << 10));
    HostOptions::field_selector(&mut call, lent(&options), "x".repeat(60 << 10)).unwrap();
    assert_eq!(call.handles.free_bytes(), free - (1 << 10));
    HostOptions::field_selector(&mut call, lent(&options), "x".to_owned()).unwrap();
    let list = api::client::Host::list(&mut call, lent(&kind), Some(lent(&options))).await;
    let (reason, message) = call_refusal(list);
    assert!(reason == RefusalReason::OverLimit && message.contains("limits.handleBytes"), "{message}");
    HostOptions::drop(&mut call, options).unwrap();
    assert_eq!(call.handles.free_bytes(), free);
}

#[test]
fn an_event_keeps_no_body_of_a_live_object() {
    let (host, mut state) = state(Recording::default());
    let large = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "data": {"large": "x".repeat(1 << 20)},
        "metadata": {"namespace": "a", "name": "x", "uid": "u", "resourceVersion": "7"},
    });
    let large = Object::decode(large.to_string().as_bytes()).unwrap();
    let free = state.handles.free_bytes();
    let object = state.handles.push_live(large, 0).unwrap();
    let mut call = import_call(&mut state);
    let event = about(&mut call, &object);
    HostEvent::related(&mut call, lent(&event), lent(&object)).unwrap();
    call.handles.delete(&object);
    assert!(call.handles.free_bytes() > free - (2 << 10));
    HostEvent::record(&mut call, event).unwrap();
    let recorded = host.events.lock().pop().unwrap();
    let wanted = EventTarget {
        kind: Gvk::new("", "v1", "Secret"),
        key: "a/x".parse().unwrap(),
        uid: "u".to_owned(),
        resource_version: "7".to_owned(),
    };
    assert_eq!((recorded.regarding, recorded.related), (wanted.clone(), Some(wanted)));
}
