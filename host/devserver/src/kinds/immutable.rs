//! What of an object no update may change, and what a server says of it.
//!
//! Compared are the states before and after strategies and defaults; nothing, an empty map and an empty list are the same. A
//! real server adds to some of these messages the difference between two structures of Go, which is left out here.

use serde_json::{Value, json};

use crate::api::{Cause, JsonMap};
use crate::quantity::Amount;
use crate::validation;

/// A field that stays as it was made: its path, and how messages name it.
pub(crate) struct Fixed {
    path: &'static str,
    told: &'static str,
    /// Whether it is an empty text if it is not there.
    is_text: bool,
}

impl std::fmt::Debug for Fixed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.path)
    }
}

/// A field that messages name by its path.
pub(super) const fn fixed(path: &'static str) -> Fixed {
    Fixed { path, told: path, is_text: false }
}

/// As [`fixed`], of a text.
pub(super) const fn fixed_text(path: &'static str) -> Fixed {
    Fixed { path, told: path, is_text: true }
}

/// A field that messages name otherwise.
pub(super) const fn fixed_as(path: &'static str, told: &'static str) -> Fixed {
    Fixed { path, told, is_text: false }
}

const IS_IMMUTABLE: &str = "field is immutable";

/// What has changed of the fields that stay.
pub(super) fn changed(fields: &[Fixed], old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    // Unlike a map, a struct that is empty is not the same as none.
    let appears = |before: &Value, after: &Value| {
        before.is_null() != after.is_null() && (before.is_object() || after.is_object())
    };
    let changed = fields.iter().filter(|field| {
        let (before, after) = (at(old, field.path), at(new, field.path));
        appears(before, after) || !is_same(before, after)
    });
    let empty = json!("");
    let shown = |field: &Fixed| match at(new, field.path) {
        Value::Null if field.is_text => invalid(field.told, &empty, IS_IMMUTABLE),
        value => invalid(field.told, value, IS_IMMUTABLE),
    };
    changed.map(shown).collect()
}

/// A value as the API's messages show it.
pub(super) fn invalid(field: &str, value: &Value, why: &str) -> Cause {
    Cause { message: format!("Invalid value: {value}: {why}"), ..Cause::invalid(field, "", "") }
}

/// The value at a path with dots; null where there is none.
pub(super) fn at<'a>(object: &'a JsonMap, path: &str) -> &'a Value {
    let mut parts = path.split('.');
    let first = parts.next().and_then(|name| object.get(name)).unwrap_or(&Value::Null);
    parts.fold(first, |value, name| value.get(name).unwrap_or(&Value::Null))
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.values().all(is_nothing),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    }
}

/// Whether two values are the same to the API.
pub(super) fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let has = |other: &JsonMap, name: &str, value: &Value| {
                other.get(name).map_or_else(|| is_nothing(value), |other| is_same(value, other))
            };
            a.iter().all(|(name, value)| has(b, name, value))
                && b.iter().all(|(name, value)| a.contains_key(name) || is_nothing(value))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        _ => a == b || is_nothing(a) && is_nothing(b),
    }
}

/// The spec without some of its fields.
pub(super) fn spec_without(object: &JsonMap, fields: &[&str]) -> Value {
    let mut spec = at(object, "spec").clone();
    if let Value::Object(members) = &mut spec {
        members.retain(|name, _| !fields.contains(&name.as_str()));
    }
    spec
}

pub(super) fn stateful_set(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    const FREE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    if is_same(&spec_without(old, &FREE), &spec_without(new, &FREE)) {
        return Vec::new();
    }
    let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
               'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    vec![Cause::forbidden("spec", why)]
}

/// The template of a suspended job without pods may change in what concerns scheduling, and in resources.
pub(super) fn job(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    let mut causes = Vec::new();
    let completions = at(new, "spec.completions");
    if !is_same(at(old, "spec.completions"), completions) {
        if at(new, "spec.completionMode") != "Indexed" {
            causes.push(invalid("spec.completions", completions, IS_IMMUTABLE));
        } else if !completions.is_null() && completions != at(new, "spec.parallelism") {
            let why = "can only be modified in tandem with spec.parallelism";
            causes.push(invalid("spec.completions", completions, why));
        }
    }
    causes.extend(changed(&[fixed("spec.selector")], old, new));
    let is_suspended = at(old, "status.conditions").as_array().is_some_and(|conditions| {
        conditions.iter().any(|condition| condition["type"] == "Suspended" && condition["status"] == "True")
    });
    let is_free = at(old, "spec.suspend") == true
        && (at(old, "status.startTime").is_null() || is_suspended)
        && at(old, "status.active").as_i64().unwrap_or(0) == 0;
    if !is_free {
        if !is_same(at(old, "spec.template"), at(new, "spec.template")) {
            causes.push(invalid("spec.template", at(new, "spec.template"), IS_IMMUTABLE));
        }
        return causes;
    }
    let kept = |object: &JsonMap| {
        let mut spec = at(object, "spec.template.spec").clone();
        if let Value::Object(spec) = &mut spec {
            spec.retain(|name, _| {
                !matches!(name.as_str(), "nodeSelector" | "tolerations" | "schedulingGates")
            });
            if let Some(Value::Object(affinity)) = spec.get_mut("affinity") {
                affinity.remove("nodeAffinity");
            }
            for list in ["containers", "initContainers"] {
                for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                    if let Value::Object(container) = container {
                        container.remove("resources");
                    }
                }
            }
        }
        spec
    };
    if !is_same(&kept(old), &kept(new)) {
        causes.push(invalid("spec.template.spec", at(new, "spec.template.spec"), IS_IMMUTABLE));
    }
    causes
}

/// Configuration that says of itself that it stays.
pub(super) fn configuration(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    let mut causes = Vec::new();
    if at(old, "immutable") != true {
        return causes;
    }
    let why = "field is immutable when `immutable` is set";
    if at(new, "immutable") != true {
        causes.push(Cause::forbidden("immutable", why));
    }
    for field in ["data", "binaryData"] {
        if !is_same(at(old, field), at(new, field)) {
            causes.push(Cause::forbidden(field, why));
        }
    }
    causes
}

pub(super) fn role_binding(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    let role = at(new, "roleRef");
    if is_same(at(old, "roleRef"), role) {
        return Vec::new();
    }
    vec![invalid("roleRef", role, "cannot change roleRef")]
}

pub(super) fn claim(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
    let mut causes = Vec::new();
    let (mut before, mut after) = (spec_without(old, &[]), spec_without(new, &[]));
    if let (Value::Object(before), Value::Object(after)) = (&mut before, &mut after) {
        let copy = |from: &JsonMap, to: &mut JsonMap, field: &str| {
            to.insert(field.to_owned(), from.get(field).cloned().unwrap_or_default());
        };
        // A claim is bound by an update of its spec, once.
        if before.get("volumeName").and_then(Value::as_str).is_none_or(str::is_empty) {
            copy(after, before, "volumeName");
        }
        // So is a class given to it, unless an annotation names another.
        let named = &at(old, "metadata.annotations")[CLASS];
        let class = |spec: &JsonMap| spec.get("storageClassName").cloned().unwrap_or_default();
        if class(before).is_null() && (named.is_null() || *named == class(after)) {
            copy(after, before, "storageClassName");
        }
        if at(new, "status.phase") == "Bound" {
            copy(before, after, "volumeAttributesClassName");
            if let Some(Value::Object(requests)) =
                after.get_mut("resources").and_then(|resources| resources.get_mut("requests"))
            {
                let size = at(old, "spec.resources.requests.storage").clone();
                requests.insert("storage".to_owned(), size);
            }
        }
    }
    if !is_same(&before, &after) {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        causes.push(Cause::forbidden("spec", why));
    }
    let size = |object: &JsonMap, path: &str| Amount::of(at(object, path).as_str().unwrap_or("0"));
    const SIZE: &str = "spec.resources.requests.storage";
    let (size_before, size_after) = (size(old, SIZE), size(new, SIZE));
    if size_after < size_before && size_after <= size(old, "status.capacity.storage") {
        causes.push(Cause::forbidden(SIZE, "field can not be less than status.capacity"));
    }
    causes
}

/// A Service keeps its addresses as long as its type has any.
pub(super) fn service(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    let addresses = |object: &JsonMap| at(object, "spec.clusterIPs").as_array().cloned().unwrap_or_default();
    let (before, after) = (addresses(old), addresses(new));
    let is_headless = |addresses: &[Value]| matches!(addresses, [one] if one == "None");
    let is_outside = |object: &JsonMap| at(object, "spec.type") == "ExternalName";
    if is_outside(old) || is_outside(new) || is_headless(&before) && is_headless(&after) {
        return Vec::new();
    }
    let compared = if before.len() == after.len() { before.len() } else { 1 };
    let pairs = before.iter().zip(&after).take(compared).enumerate();
    pairs
        .filter(|(_, (before, after))| before != after)
        .map(|(index, _)| {
            let field = format!("spec.clusterIPs[{index}]");
            invalid(&field, at(new, "spec.clusterIPs"), "may not change once set")
        })
        .collect()
}

/// An event of `events.k8s.io` says what it said; only its series goes on.
pub(super) fn event(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    const KEPT: [&str; 13] = [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ];
    let mut causes = Vec::new();
    if !is_same(at(old, "series"), at(new, "series")) {
        causes.extend(validation::event_series(new));
    }
    for field in KEPT {
        let value = at(new, field);
        let is_empty = |value: &Value| is_nothing(value) || value == "" || value == 0;
        if is_same(at(old, field), value) || is_empty(at(old, field)) && is_empty(value) {
            continue;
        }
        let told = if field == "reportingComponent" { "reportingController" } else { field };
        let shown = match (field, value) {
            ("count", Value::Null) => &json!(0),
            ("firstTimestamp" | "lastTimestamp" | "eventTime", value) => value,
            (_, Value::Null) => &json!(""),
            (_, value) => value,
        };
        causes.push(invalid(told, shown, IS_IMMUTABLE));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> JsonMap {
        match value {
            Value::Object(object) => object,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn nothing_and_empty_are_the_same() {
        let old = object(json!({"spec": {"selector": {"matchLabels": {"a": "b"}, "matchExpressions": []}}}));
        let new = object(json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}));
        assert_eq!(changed(&[fixed("spec.selector"), fixed("data")], &old, &new), []);
        let other = object(json!({"spec": {"selector": {"matchLabels": {"a": "c"}}}}));
        let causes = changed(&[fixed("spec.selector")], &old, &other);
        assert_eq!(causes[0].message, r#"Invalid value: {"matchLabels":{"a":"c"}}: field is immutable"#);
    }
}
