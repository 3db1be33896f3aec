//! Lenient reading of objects, and the texts that several kinds share.
//!
//! Paths are JSON pointers. What is absent or of another type is empty, zero or false, as it is after the real server
//! has decoded an object.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// What stands for something that is not there.
pub(super) const NONE: &str = "<none>";
/// What stands for an optional value that was not given.
pub(super) const UNSET: &str = "<unset>";

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    optional_text(object, pointer).unwrap_or_default()
}

pub(super) fn optional_text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer)?.as_str()
}

/// The text, or what stands for its absence.
pub(super) fn text_or<'a>(object: &'a Value, pointer: &str, absent: &'a str) -> &'a str {
    optional_text(object, pointer).filter(|text| !text.is_empty()).unwrap_or(absent)
}

pub(super) fn int(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

pub(super) fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

/// Whether there is a value that is not null.
pub(super) fn exists(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).is_some_and(|value| !value.is_null())
}

pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn map<'a>(object: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    object.pointer(pointer)?.as_object()
}

/// How many elements or members there are.
pub(super) fn count(object: &Value, pointer: &str) -> usize {
    object.pointer(pointer).map_or(0, |value| match value {
        Value::Array(elements) => elements.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    })
}

pub(super) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    map(object, "/metadata/annotations")?.get(name)?.as_str()
}

pub(super) fn is_deleted(object: &Value) -> bool {
    exists(object, "/metadata/deletionTimestamp")
}

/// The condition of this type.
pub(super) fn condition<'a>(object: &'a Value, pointer: &str, wanted: &str) -> Option<&'a Value> {
    list(object, pointer).iter().find(|condition| text(condition, "/type") == wanted)
}

/// The texts of a list.
pub(super) fn texts<'a>(object: &'a Value, pointer: &str) -> Vec<&'a str> {
    list(object, pointer).iter().filter_map(Value::as_str).collect()
}

/// The texts, or what stands for none, with commas.
pub(super) fn joined(texts: &[&str], absent: &str) -> String {
    if texts.is_empty() { absent.to_owned() } else { texts.join(",") }
}

/// The first `shown` texts; how many more there are if there are.
pub(super) fn at_most(shown: usize, texts: &[String]) -> String {
    match texts.len().checked_sub(shown) {
        Some(more @ 1..) => format!("{} + {more} more...", texts[..shown].join(",")),
        _ => texts.join(","),
    }
}

/// The addresses of a load balancer, each once, sorted.
pub(super) fn load_balancer(object: &Value) -> String {
    let ingress = list(object, "/status/loadBalancer/ingress").iter();
    let addresses: BTreeSet<_> = ingress.map(|i| text_or(i, "/ip", text(i, "/hostname"))).collect();
    addresses.into_iter().filter(|address| !address.is_empty()).collect::<Vec<_>>().join(",")
}

/// Names and images of containers.
pub(super) fn containers(object: &Value, pointer: &str) -> [Value; 2] {
    let all = |member| {
        let containers = list(object, pointer).iter();
        containers.map(|container| text(container, member)).collect::<Vec<_>>().join(",")
    };
    [all("/name").into(), all("/image").into()]
}

/// A map of labels as a selector.
pub(super) fn labels(object: &Value, pointer: &str) -> String {
    let labels = map(object, pointer).into_iter().flatten();
    let labels: Vec<_> =
        labels.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
    if labels.is_empty() { NONE.to_owned() } else { labels.join(",") }
}

/// A label selector as text, empty if there is none; `None` if it is invalid.
pub(crate) fn selector(object: &Value, pointer: &str) -> Option<String> {
    let mut requirements = Vec::new();
    for (label, value) in map(object, &format!("{pointer}/matchLabels")).into_iter().flatten() {
        requirements.push((label.as_str(), format!("{label}={}", value.as_str().unwrap_or_default())));
    }
    for expression in list(object, &format!("{pointer}/matchExpressions")) {
        let key = text(expression, "/key");
        let mut values = texts(expression, "/values");
        values.sort_unstable();
        let requirement = match (text(expression, "/operator"), values.is_empty()) {
            ("In", false) => format!("{key} in ({})", values.join(",")),
            ("NotIn", false) => format!("{key} notin ({})", values.join(",")),
            ("Exists", true) => key.to_owned(),
            ("DoesNotExist", true) => format!("!{key}"),
            _ => return None,
        };
        requirements.push((key, requirement));
    }
    requirements.sort_by_key(|(key, _)| *key);
    Some(requirements.into_iter().map(|(_, requirement)| requirement).collect::<Vec<_>>().join(","))
}

/// A label selector as most kinds show it.
pub(super) fn selector_or_none(object: &Value, pointer: &str) -> String {
    match selector(object, pointer) {
        Some(text) if text.is_empty() => NONE.to_owned(),
        Some(text) => text,
        None => "<error>".to_owned(),
    }
}
