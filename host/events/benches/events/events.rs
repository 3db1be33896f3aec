//! The events that all contenders are given; as in tests/peers/clientgo/events.go, like all sizes.

use std::sync::Arc;

use jiff::Timestamp;
use pilothouse_events::{Event, EventBody, EventSource, EventType, ObjectReference};

/// Objects that events are about in turn: five times what the caches keep, so each has been forgotten when it comes again.
pub(crate) const OBJECTS: usize = 20_480;
/// Reasons, which the objects have in turn.
const REASONS: [&str; 5] = ["Pulled", "Created", "Started", "Killing", "BackOff"];

/// Who records.
pub(crate) fn source() -> EventSource {
    EventSource::new("kubelet", "node-1")
}

/// A container of the pod with this number.
pub(crate) fn reference(number: usize) -> ObjectReference {
    ObjectReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: format!("namespace-{}", number % 100),
        name: format!("object-{number}"),
        uid: format!("7d3f7a52-91c0-4e52-8a5c-{number:012}"),
        resource_version: format!("{}", 1_000_000 + number),
        field_path: "spec.containers{main}".to_owned(),
    }
}

/// What its events say.
pub(crate) fn message(number: usize) -> String {
    format!("Successfully pulled image \"registry.example.com/team/app:{number}\" in 1.2s")
}

/// Why.
pub(crate) fn reason(number: usize) -> &'static str {
    REASONS[number % REASONS.len()]
}

/// The event number `text` about this object, as a recorder makes it.
pub(crate) fn event(source: &Arc<EventSource>, object: usize, text: usize) -> Event {
    let (regarding, now) = (reference(object), Timestamp::now());
    Event {
        name: format!("{}.{:x}", regarding.name, now.as_nanosecond()).into(),
        message: message(text).into(),
        count: 1,
        first_timestamp: now,
        last_timestamp: now,
        series: None,
        body: Arc::new(EventBody {
            regarding: Arc::new(regarding),
            related: None,
            source: Arc::clone(source),
            event_type: EventType::Normal,
            reason: reason(object).to_owned(),
            action: String::new(),
            annotations: Vec::new(),
        }),
    }
}
