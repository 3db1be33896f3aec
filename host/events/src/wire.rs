//! Events as JSON: as core/v1 and as events.k8s.io/v1 have them, and the patches that count.
//!
//! Fields that the one API wants unset are not written for it: `count`, `source` and the two timestamps in events.k8s.io/v1.

use std::fmt;

use jiff::{Timestamp, Unit};
use serde::{Serialize, Serializer};

use crate::event::{Event, EventBody, EventSeries, EventSource};
use crate::reference::ObjectReference;

/// The body of a create in core/v1.
pub(crate) fn core_v1(event: &Event) -> Result<Vec<u8>, serde_json::Error> {
    let body = &*event.body;
    serde_json::to_vec(&CoreEvent {
        api_version: "v1",
        kind: "Event",
        metadata: Metadata::of(event),
        involved_object: &body.regarding,
        reason: &body.reason,
        message: &event.message,
        source: Source::of(&body.source),
        first_timestamp: Seconds(event.first_timestamp),
        last_timestamp: Seconds(event.last_timestamp),
        count: event.count,
        event_type: body.event_type.as_str(),
        action: &body.action,
        related: body.related.as_deref(),
        reporting_component: &body.source.component,
        reporting_instance: &body.source.reporting_instance,
    })
}

/// The body of a create in events.k8s.io/v1, which requires an action: the reason if none is given.
pub(crate) fn events_v1(event: &Event) -> Result<Vec<u8>, serde_json::Error> {
    let body = &*event.body;
    serde_json::to_vec(&EventsEvent {
        api_version: "events.k8s.io/v1",
        kind: "Event",
        metadata: Metadata::of(event),
        event_time: Micros(event.first_timestamp),
        series: event.series.map(Series::from),
        reporting_controller: &body.source.component,
        reporting_instance: &body.source.reporting_instance,
        action: if body.action.is_empty() { &body.reason } else { &body.action },
        reason: &body.reason,
        regarding: &body.regarding,
        related: body.related.as_deref(),
        note: &event.message,
        event_type: body.event_type.as_str(),
    })
}

/// The patch for a further occurrence in core/v1.
pub(crate) fn count_patch(event: &Event) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Patch<'a> {
        count: u32,
        last_timestamp: Seconds,
        message: &'a str,
    }
    serde_json::to_vec(&Patch {
        count: event.count,
        last_timestamp: Seconds(event.last_timestamp),
        message: &event.message,
    })
}

/// The patch for a further occurrence in events.k8s.io/v1.
pub(crate) fn series_patch(event: &Event) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Patch {
        series: Option<Series>,
    }
    serde_json::to_vec(&Patch { series: event.series.map(Series::from) })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CoreEvent<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    involved_object: &'a ObjectReference,
    reason: &'a str,
    message: &'a str,
    source: Source<'a>,
    first_timestamp: Seconds,
    last_timestamp: Seconds,
    count: u32,
    #[serde(rename = "type")]
    event_type: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    action: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    related: Option<&'a ObjectReference>,
    reporting_component: &'a str,
    reporting_instance: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventsEvent<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    event_time: Micros,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Series>,
    reporting_controller: &'a str,
    reporting_instance: &'a str,
    action: &'a str,
    reason: &'a str,
    regarding: &'a ObjectReference,
    #[serde(skip_serializing_if = "Option::is_none")]
    related: Option<&'a ObjectReference>,
    note: &'a str,
    #[serde(rename = "type")]
    event_type: &'static str,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    annotations: Annotations<'a>,
}

impl<'a> Metadata<'a> {
    fn of(event: &'a Event) -> Self {
        let EventBody { annotations: own, source, .. } = &*event.body;
        let annotations = Annotations { of_source: &source.annotations, own };
        Self { name: &event.name, namespace: event.namespace(), annotations }
    }
}

struct Annotations<'a> {
    of_source: &'a [(String, String)],
    own: &'a [(String, String)],
}

impl Annotations<'_> {
    fn is_empty(&self) -> bool {
        self.of_source.is_empty() && self.own.is_empty()
    }
}

impl Serialize for Annotations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own = self.own.iter().filter(|(name, _)| self.of_source.iter().all(|(other, _)| other != name));
        serializer.collect_map(self.of_source.iter().chain(own).map(|(name, value)| (name, value)))
    }
}

#[derive(Serialize)]
struct Source<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    component: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    host: &'a str,
}

impl<'a> Source<'a> {
    fn of(source: &'a EventSource) -> Self {
        Self { component: &source.component, host: &source.host }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    count: u32,
    last_observed_time: Micros,
}

impl From<EventSeries> for Series {
    fn from(series: EventSeries) -> Self {
        Self { count: series.count, last_observed_time: Micros(series.last_observed_time) }
    }
}

/// `Time` of the API: whole seconds, the rest cut off.
struct Seconds(Timestamp);

/// `MicroTime` of the API: always six decimals.
struct Micros(Timestamp);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", cut(self.0, Unit::Second))
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", cut(self.0, Unit::Microsecond))
    }
}

/// Rounds down to the unit.
fn cut(time: Timestamp, unit: Unit) -> Timestamp {
    let round = jiff::TimestampRound::new().smallest(unit).mode(jiff::RoundMode::Floor);
    // A day has a whole number of either unit, so this cannot fail.
    time.round(round).unwrap_or(time)
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Micros {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
