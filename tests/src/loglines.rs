//! [`Line`]: a line of the host's log with `--log-format json`, parsed for assertions.
//!
//! Lines of the host itself have their fields at the top level; lines of a guest have the guest's own fields in
//! [`Line::fields`]. Lines that are not JSON, such as the host's standard output, are skipped.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use crate::Host;

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Line {
    /// The time of the line.
    pub timestamp: Timestamp,
    /// `INFO`, `WARN`, `ERROR`.
    pub level: String,
    /// The stable name of the event, on lines of the host at `INFO` and above. Messages may be reworded, names not.
    #[serde(default)]
    pub event: String,
    /// The message.
    #[serde(default)]
    pub message: String,
    /// The part of the host that wrote the line; `guest` for guests.
    #[serde(default)]
    pub target: String,
    /// The plugin that the line is about.
    #[serde(default)]
    pub plugin: String,
    /// The plugin's generation.
    #[serde(default)]
    pub generation: Option<u64>,
    /// The key of the call.
    #[serde(default)]
    pub key: String,
    /// The number of the call.
    #[serde(default)]
    pub call: Option<u64>,
    /// The kind of a fault.
    #[serde(default)]
    pub fault: String,
    /// A guest's own fields.
    #[serde(default, deserialize_with = "inner")]
    pub fields: BTreeMap<String, String>,
    /// All other fields.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

impl Line {
    /// A guest's own field; empty when it does not exist.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// Seconds from an earlier line to this one.
    pub fn seconds_since(&self, earlier: &Line) -> f64 {
        self.timestamp.duration_since(earlier.timestamp).as_secs_f64()
    }

    /// Seconds that a call took, on the host's line about it; else not a number.
    pub fn took(&self) -> f64 {
        let took = self.more.get("took").and_then(Value::as_str).unwrap_or_default();
        took.parse::<SignedDuration>().map_or(f64::NAN, |took| took.as_secs_f64())
    }
}

/// Parses a guest's fields, which are a JSON object in a string.
fn inner<'de, D: serde::Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let text = String::deserialize(from)?;
    serde_json::from_str(&text).map_err(serde::de::Error::custom)
}

/// The lines of the log so far that contain `needle`. The others are not parsed.
fn lines(host: &Host, needle: &str) -> Vec<Line> {
    let lines = host.log().matching(needle);
    lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// All lines of the host about an event.
pub fn events(host: &Host, event: &str) -> Vec<Line> {
    let mut lines = lines(host, &format!("\"event\":\"{event}\""));
    // The fields of a guest are one string in the line; the field `event` at the top level is the host's.
    lines.retain(|line| line.event == event && line.target != "guest");
    lines
}

/// All lines of the host about an event of a plugin.
pub fn plugin_events(host: &Host, plugin: &str, event: &str) -> Vec<Line> {
    let mut lines = events(host, event);
    lines.retain(|line| line.plugin == plugin);
    lines
}

/// All lines about a plugin, including lines of its guest.
pub fn of_plugin(host: &Host, plugin: &str) -> Vec<Line> {
    lines(host, &format!("\"plugin\":\"{plugin}\""))
}

/// The lines of a plugin's guest with this message. The probe logs `begin` and `end` of a call.
pub fn said(host: &Host, plugin: &str, message: &str) -> Vec<Line> {
    let mut lines = of_plugin(host, plugin);
    lines.retain(|line| line.target == "guest" && line.message == message);
    lines
}

/// The faults of a plugin's calls that are blamed on the plugin.
pub fn faults(host: &Host, plugin: &str) -> Vec<Line> {
    let mut lines = of_plugin(host, plugin);
    lines.retain(|line| line.event == "plugin_fault");
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_fields_are_taken_out_of_their_string() {
        let text = r#"{"timestamp":"2026-01-02T03:04:05.000006Z","level":"INFO","message":"begin","target":"guest",
            "plugin":"a","generation":2,"key":"ns/b","call":7,"fields":"{\"attempt\":\"3\"}","extra":true}"#;
        let line: Line = serde_json::from_str(text).unwrap();
        assert_eq!((line.field("attempt"), line.field("none")), ("3", ""));
        assert!(line.took().is_nan());
        assert_eq!((line.generation, line.call, line.key.as_str()), (Some(2), Some(7), "ns/b"));
        assert_eq!(line.more["extra"], true);
    }

    #[test]
    fn a_line_of_the_host_has_none() {
        let text = r#"{"timestamp":"2026-01-02T03:04:05Z","level":"ERROR","message":"guest fault","fault":"cpu","took":"200.5ms"}"#;
        let line: Line = serde_json::from_str(text).unwrap();
        assert_eq!(line.took(), 0.2005);
        assert_eq!((line.fault.as_str(), line.fields.len(), line.plugin.as_str()), ("cpu", 0, ""));
    }
}
