//! [`Document`]: what an Event is in the index. Made by [`crate::export`] from the object as the host has it.
//!
//! Invariants: the id is the Event's uid and the version its resourceVersion, so that an Event which is sent twice, or late, can
//! neither become two documents nor go back to an older state; the index is the same whenever the Event is sent.

use pilothouse_sdk::prelude::json;
use pilothouse_sdk::serde_json::{self, Map, Value};

use crate::index::IndexPattern;

/// When the Event was last seen, by the first of these that it has. Which it has depends on who recorded it, and with what.
const TIMES: [&str; 4] = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", CREATED];

const CREATED: &str = "/metadata/creationTimestamp";

/// Objects whose names anybody may choose.
const FREE: [&str; 2] = ["/metadata/labels", "/metadata/annotations"];

/// An Event as two lines of a `_bulk` request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Document {
    /// Both lines, each with its line feed.
    pub(crate) lines: Vec<u8>,
}

impl Document {
    /// Makes a document of an Event's JSON. An error cannot go away until the Event changes.
    pub(crate) fn of(event: &[u8], index: &IndexPattern) -> Result<Self, String> {
        let mut event: Value =
            serde_json::from_slice(event).map_err(|error| format!("the Event is no JSON: {error}"))?;
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
        let id = text("/metadata/uid").ok_or("the Event has no uid")?;
        let version = text("/metadata/resourceVersion").unwrap_or_default();
        // As the server takes it: a positive number of 63 bits.
        let version =
            version.parse::<u64>().ok().filter(|version| i64::try_from(*version).is_ok()).ok_or_else(
                || format!("its resourceVersion {version:?} is no number, as a version in the index must be"),
            )?;
        let index = index.index(text(CREATED).unwrap_or_default())?;
        let timestamp = TIMES.iter().find_map(|pointer| text(pointer)).map(str::to_owned);
        let action = json!({
            "index": {"_index": index, "_id": id, "version": version, "version_type": "external"},
        });

        for pointer in FREE {
            if let Some(Value::Object(names)) = event.pointer_mut(pointer) {
                *names = without_dots(std::mem::take(names));
            }
        }
        if let (Some(fields), Some(timestamp)) = (event.as_object_mut(), timestamp) {
            fields.insert("@timestamp".to_owned(), timestamp.into());
        }
        Ok(Self { lines: format!("{action}\n{event}\n").into_bytes() })
    }
}

/// Replaces the dots in names by underscores. The search server reads a dot as a nested object: beside a label `app`, which is
/// text, it would refuse `app.kubernetes.io/name`. A name that exists already gets one more underscore at its end.
fn without_dots(names: Map<String, Value>) -> Map<String, Value> {
    let (dotted, mut names): (Map<_, _>, Map<_, _>) =
        names.into_iter().partition(|(name, _)| name.contains('.'));
    for (name, value) in dotted {
        let mut name = name.replace('.', "_");
        while names.contains_key(&name) {
            name.push('_');
        }
        names.insert(name, value);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(more: Value) -> Value {
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {
                "namespace": "a", "name": "b", "uid": "the-uid", "resourceVersion": "42",
                "creationTimestamp": "2026-11-02T23:59:59Z",
            },
            "message": "it\nfailed", "count": 3,
        });
        for (name, value) in more.as_object().unwrap() {
            event[name] = value.clone();
        }
        event
    }

    /// The two lines, parsed.
    fn lines(event: &Value) -> (Value, Value) {
        let document = Document::of(event.to_string().as_bytes(), &IndexPattern::default()).unwrap();
        let text = String::from_utf8(document.lines).unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        assert!(lines.len() == 3 && lines[2].is_empty(), "two lines, each ended: {text}");
        (serde_json::from_str(lines[0]).unwrap(), serde_json::from_str(lines[1]).unwrap())
    }

    #[test]
    fn the_uid_is_the_id_and_the_resource_version_the_version() {
        let (action, source) = lines(&event(json!({})));
        let wanted = json!({
            "_index": "events-2026.11.02", "_id": "the-uid", "version": 42, "version_type": "external",
        });
        assert_eq!(action, json!({"index": wanted}));
        assert_eq!(source, event(json!({"@timestamp": "2026-11-02T23:59:59Z"})));
    }

    #[test]
    fn a_later_occurrence_changes_the_timestamp_and_not_the_index() {
        let [series, last, first] =
            ["2026-11-04T00:00:00.000001Z", "2026-11-03T00:00:00Z", "2026-11-02T00:00:00.5Z"];
        for (more, timestamp) in [
            (json!({"series": {"count": 2, "lastObservedTime": series}, "eventTime": first}), series),
            (json!({"lastTimestamp": last, "eventTime": null}), last),
            (json!({"lastTimestamp": null, "eventTime": first}), first),
        ] {
            let (action, source) = lines(&event(more));
            assert_eq!(source["@timestamp"], timestamp);
            assert_eq!(action["index"]["_index"], "events-2026.11.02");
        }
    }

    #[test]
    fn labels_and_annotations_lose_their_dots() {
        let mut event = event(json!({}));
        event["metadata"]["labels"] = json!({"app": "a", "app.kubernetes.io/name": "b"});
        event["metadata"]["annotations"] = json!({"c.d": "e.f"});
        let (_, source) = lines(&event);
        assert_eq!(source["metadata"]["labels"], json!({"app": "a", "app_kubernetes_io/name": "b"}));
        assert_eq!(source["metadata"]["annotations"], json!({"c_d": "e.f"}));
    }

    #[test]
    fn names_that_differ_in_a_dot_and_an_underscore_are_both_kept() {
        let mut event = event(json!({}));
        event["metadata"]["labels"] = json!({"a.b": "dot", "a_b": "underscore"});
        let (_, source) = lines(&event);
        assert_eq!(source["metadata"]["labels"], json!({"a_b": "underscore", "a_b_": "dot"}));
    }

    #[test]
    fn what_cannot_have_a_version_or_an_index_is_an_error() {
        for (pointer, value, reason) in [
            ("resourceVersion", json!("abc"), "\"abc\" is no number"),
            ("resourceVersion", json!("9223372036854775808"), "is no number"),
            ("resourceVersion", json!(null), "is no number"),
            ("uid", json!(null), "no uid"),
            ("creationTimestamp", json!(null), "no time in UTC"),
        ] {
            let mut event = event(json!({}));
            event["metadata"][pointer] = value;
            let error = Document::of(event.to_string().as_bytes(), &IndexPattern::default()).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
