//! [`Event`]: one happening, in a form that both APIs can be written from.
//!
//! The part that is the same for all occurrences ([`EventBody`]) is shared, so a clone allocates nothing: an event goes to
//! several watchers, and the correlator changes only the counted part.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;

use crate::limits::{FIELD_LIMIT, truncated};
use crate::reference::ObjectReference;

/// Whether an event tells of something that should not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
}

/// A text is not the type of an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unsupported event type {0:?}: it is Normal or Warning")]
pub struct UnsupportedEventType(pub String);

impl EventType {
    /// As the API spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl FromStr for EventType {
    type Err = UnsupportedEventType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "Normal" => Ok(Self::Normal),
            "Warning" => Ok(Self::Warning),
            other => Err(UnsupportedEventType(truncated(other, FIELD_LIMIT).to_owned())),
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The source of events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct EventSource {
    /// `source.component` and the reporting controller, as `kubelet` or `example.com/operator`. events.k8s.io/v1 takes only a
    /// qualified name: 63 letters, digits, `-`, `_` and `.` at most, perhaps behind a DNS subdomain and a `/`.
    pub component: String,
    /// `source.host`; may be empty.
    pub host: String,
    /// The reporting instance, 128 bytes at most; events.k8s.io/v1 does not take an empty one.
    pub reporting_instance: String,
    /// Annotations of every event of this source, also of those that stand for several. An event's own of the same name do not count.
    pub annotations: Vec<(String, String)>,
}

impl EventSource {
    /// The source as client-go's core/v1 recorder has it: the host is the reporting instance too.
    #[must_use]
    pub fn new(component: &str, host: &str) -> Self {
        Self::with_instance(component, host, host)
    }

    /// The source as client-go's recorder for events.k8s.io/v1 has it: the instance is `<controller>-<hostname>`.
    #[must_use]
    pub fn reporting(controller: &str, hostname: &str) -> Self {
        Self::with_instance(controller, hostname, &format!("{controller}-{hostname}"))
    }

    /// A source whose reporting instance is cut at 128 bytes.
    #[must_use]
    pub fn with_instance(component: &str, host: &str, reporting_instance: &str) -> Self {
        Self {
            component: component.to_owned(),
            host: host.to_owned(),
            reporting_instance: truncated(reporting_instance, FIELD_LIMIT).to_owned(),
            annotations: Vec::new(),
        }
    }

    /// The source with one more annotation of all its events.
    #[must_use]
    pub fn with_annotation(mut self, name: &str, value: &str) -> Self {
        self.annotations.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// The part that all occurrences of an event share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBody {
    /// The object that it is about.
    pub regarding: Arc<ObjectReference>,
    /// Another object that has to do with it; only events.k8s.io/v1 clients set it.
    pub related: Option<Arc<ObjectReference>>,
    /// The source.
    pub source: Arc<EventSource>,
    /// Normal or Warning.
    pub event_type: EventType,
    /// Why it was recorded, in `UpperCamelCase`; 128 bytes at most.
    pub reason: String,
    /// The action; 128 bytes at most. Empty from core/v1 callers.
    pub action: String,
    /// Annotations of the Event itself.
    pub annotations: Vec<(String, String)>,
}

/// Further occurrences of an event in events.k8s.io/v1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventSeries {
    /// Occurrences, at least 2.
    pub count: u32,
    /// When it was last seen.
    pub last_observed_time: Timestamp,
}

/// An event; a clone allocates nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The part that all occurrences share.
    pub body: Arc<EventBody>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// For people; 1024 bytes at most.
    pub message: Arc<str>,
    /// Occurrences, as core/v1 counts them.
    pub count: u32,
    /// When it occurred first; `eventTime` in events.k8s.io/v1.
    pub first_timestamp: Timestamp,
    /// When it occurred last.
    pub last_timestamp: Timestamp,
    /// Further occurrences, as events.k8s.io/v1 counts them.
    pub series: Option<EventSeries>,
}

impl Event {
    /// The namespace that it lives in: that of the object, or `default`.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.body.regarding.event_namespace()
    }
}
