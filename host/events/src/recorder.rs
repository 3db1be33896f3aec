//! [`EventRecorder`]: makes events and puts them into the broadcaster's queue. Never waits: an event that finds no room is dropped and counted.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::broadcaster::EventQueue;
use crate::event::{Event, EventBody, EventSource, EventType};
use crate::limits::{FIELD_LIMIT, MESSAGE_LIMIT, bounded, event_name, truncated};
use crate::reference::{ObjectReference, Regarding};

/// Records events of one source; a cheap clone.
///
/// Texts that are too long for the API are cut between two characters: messages at 1024 bytes, reasons and actions at 128.
#[derive(Debug, Clone)]
pub struct EventRecorder {
    pub(crate) queue: Arc<EventQueue>,
    pub(crate) source: Arc<EventSource>,
}

/// Further fields of an event; those that most callers do not set are empty.
#[derive(Debug, Clone, Default)]
pub struct EventDetails {
    /// Another object that has to do with it.
    pub related: Option<Arc<ObjectReference>>,
    /// The action.
    pub action: String,
    /// Annotations of the Event itself.
    pub annotations: Vec<(String, String)>,
    /// When it happened; now unless said.
    pub timestamp: Option<Timestamp>,
}

impl EventRecorder {
    /// Records an event about an object, which lives in the object's namespace, or in `default` for one that has none.
    ///
    /// `reason` is short, and says in `UpperCamelCase` to programs what `message` says to people.
    pub fn event(&self, regarding: impl Regarding, event_type: EventType, reason: &str, message: &str) {
        let details = EventDetails::default();
        self.record(regarding, event_type, reason, format_args!("{message}"), details);
    }

    /// As [`event`](Self::event), with a message that is put together here: `format_args!("pulled {image}")`.
    pub fn eventf(
        &self,
        regarding: impl Regarding,
        event_type: EventType,
        reason: &str,
        message: fmt::Arguments<'_>,
    ) {
        self.record(regarding, event_type, reason, message, EventDetails::default());
    }

    /// As [`eventf`](Self::eventf), of something that happened at another time.
    pub fn past_eventf(
        &self,
        regarding: impl Regarding,
        timestamp: Timestamp,
        event_type: EventType,
        reason: &str,
        message: fmt::Arguments<'_>,
    ) {
        let details = EventDetails { timestamp: Some(timestamp), ..EventDetails::default() };
        self.record(regarding, event_type, reason, message, details);
    }

    /// As [`eventf`](Self::eventf), with annotations of the Event.
    pub fn annotated_eventf(
        &self,
        regarding: impl Regarding,
        annotations: &[(&str, &str)],
        event_type: EventType,
        reason: &str,
        message: fmt::Arguments<'_>,
    ) {
        let annotations = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let details = EventDetails { annotations: annotations.collect(), ..EventDetails::default() };
        self.record(regarding, event_type, reason, message, details);
    }

    /// Records an event with all that can be said of one; events.k8s.io/v1 has the related object and the action.
    pub fn record(
        &self,
        regarding: impl Regarding,
        event_type: EventType,
        reason: &str,
        message: fmt::Arguments<'_>,
        details: EventDetails,
    ) {
        let regarding = regarding.reference();
        let (now, nanoseconds) = self.queue.unique_now();
        let timestamp = details.timestamp.unwrap_or(now);
        let event = Event {
            name: event_name(&regarding.name, nanoseconds).into(),
            message: bounded(message, MESSAGE_LIMIT).into(),
            count: 1,
            first_timestamp: timestamp,
            last_timestamp: timestamp,
            series: None,
            body: Arc::new(EventBody {
                regarding,
                related: details.related,
                source: Arc::clone(&self.source),
                event_type,
                reason: truncated(reason, FIELD_LIMIT).to_owned(),
                action: truncated(&details.action, FIELD_LIMIT).to_owned(),
                annotations: details.annotations,
            }),
        };
        self.queue.offer(event);
    }
}
