//! What of an object no update may change, and what a server says of it.
//!
//! Compared are the states before and after strategies and defaults; nothing, an empty map and an empty list are the same. A
//! real server adds to some of these messages the difference between two structures of Go, which is left out here.

use serde_json::{Value, json};

use crate::api::{Cause, JsonMap};

/// A field that stays as it was made: its path, and how messages name it.
pub(crate) struct Fixed {
    path: &'static str,
    told: &'static str,
}

impl std::fmt::Debug for Fixed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.path)
    }
}

/// A field that messages name by its path.
pub(super) const fn fixed(path: &'static str) -> Fixed {
    Fixed { path, told: path }
}

/// A field that messages name otherwise.
pub(super) const fn fixed_as(path: &'static str, told: &'static str) -> Fixed {
    Fixed { path, told }
}

const IS_IMMUTABLE: &str = "field is immutable";

/// What has changed of the fields that stay.
pub(super) fn changed(fields: &[Fixed], old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    let changed = fields.iter().filter(|field| !is_same(at(old, field.path), at(new, field.path)));
    changed.map(|field| invalid(field.told, at(new, field.path), IS_IMMUTABLE)).collect()
}

/// A value as the API's messages show it.
fn invalid(field: &str, value: &Value, why: &str) -> Cause {
    Cause { message: format!("Invalid value: {value}: {why}"), ..Cause::invalid(field, "", "") }
}

/// The value at a path with dots; null where there is none.
fn at<'a>(object: &'a JsonMap, path: &str) -> &'a Value {
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
fn is_same(a: &Value, b: &Value) -> bool {
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
fn spec_without(object: &JsonMap, fields: &[&str]) -> Value {
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

/// The template of a suspended job that has not started may change in what concerns scheduling.
pub(super) fn job(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    let mut causes = Vec::new();
    let completions = at(new, "spec.completions");
    if !is_same(at(old, "spec.completions"), completions) {
        let elastic = at(new, "spec.completionMode") == "Indexed"
            && completions == at(new, "spec.parallelism")
            && at(old, "spec.completions") == at(old, "spec.parallelism");
        if !elastic {
            causes.push(invalid("spec.completions", completions, IS_IMMUTABLE));
        }
    }
    let is_waiting = at(old, "spec.suspend") == true && at(old, "status.startTime").is_null();
    let template = |object: &JsonMap| {
        let mut template = at(object, "spec.template").clone();
        if is_waiting {
            for (part, fields) in [
                ("metadata", &["labels", "annotations"][..]),
                ("spec", &["affinity", "nodeSelector", "tolerations", "schedulingGates"][..]),
            ] {
                if let Some(Value::Object(part)) = template.get_mut(part) {
                    part.retain(|name, _| !fields.contains(&name.as_str()));
                }
            }
        }
        template
    };
    if !is_same(&template(old), &template(new)) {
        causes.push(invalid("spec.template", at(new, "spec.template"), IS_IMMUTABLE));
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
    // The real server shows a structure of Go.
    let shown = json!({"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]});
    vec![invalid("roleRef", &shown, "cannot change roleRef")]
}

pub(super) fn priority_class(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    if is_same(at(old, "value"), at(new, "value")) {
        return Vec::new();
    }
    vec![Cause::forbidden("value", "may not be changed in an update.")]
}

pub(super) fn claim(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    const FREE: [&str; 2] = ["resources", "volumeAttributesClassName"];
    let rest = |object: &JsonMap| {
        let mut spec = spec_without(object, &FREE);
        let limits = at(object, "spec.resources.limits");
        if let (Value::Object(spec), false) = (&mut spec, limits.is_null()) {
            spec.insert("limits".to_owned(), limits.clone());
        }
        spec
    };
    let (mut before, after) = (rest(old), rest(new));
    // A claim is bound by an update of its spec, once.
    if at(old, "spec.volumeName").as_str().is_none_or(str::is_empty)
        && let (Value::Object(before), Some(name)) = (&mut before, after.get("volumeName"))
    {
        before.insert("volumeName".to_owned(), name.clone());
    }
    if is_same(&before, &after) {
        return Vec::new();
    }
    let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    vec![Cause::forbidden("spec", why)]
}

pub(super) fn volume(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    const FREE: [&str; 10] = [
        "accessModes",
        "capacity",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
        "csi",
    ];
    if is_same(&spec_without(old, &FREE), &spec_without(new, &FREE)) {
        return Vec::new();
    }
    let why = "spec.persistentvolumesource is immutable after creation";
    vec![Cause::forbidden("spec.persistentvolumesource", why)]
}

/// A pod keeps all of its spec but images, a shorter deadline, new tolerations and gates that are lifted.
pub(super) fn pod(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    let is_gated = !is_nothing(at(old, "spec.schedulingGates"));
    let rest = |object: &JsonMap| {
        let mut spec = spec_without(object, &["activeDeadlineSeconds", "tolerations", "schedulingGates"]);
        if let (Value::Object(spec), true) = (&mut spec, is_gated) {
            spec.remove("nodeSelector");
            spec.remove("affinity");
        }
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                if let Value::Object(container) = container {
                    container.remove("image");
                }
            }
        }
        if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
            spec["terminationGracePeriodSeconds"] = 1.into();
        }
        spec
    };
    let list = |object: &JsonMap, name: &str| at(object, name).as_array().cloned().unwrap_or_default();
    let (gates, tolerations) = ("spec.schedulingGates", "spec.tolerations");
    let had = list(old, gates);
    let lifted = list(new, gates).iter().all(|gate| had.contains(gate));
    let tolerates = list(new, tolerations);
    let added = list(old, tolerations).iter().all(|toleration| tolerates.contains(toleration));
    if is_same(&rest(old), &rest(new)) && lifted && added {
        return Vec::new();
    }
    let why = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
               `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
               `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    vec![Cause::forbidden("spec", why)]
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

    #[test]
    fn a_pod_takes_images_deadlines_tolerations_and_fewer_gates() {
        let spec = json!({
            "containers": [{"name": "a", "image": "one"}], "tolerations": [{"key": "a"}],
            "schedulingGates": [{"name": "g"}],
        });
        let old = object(json!({"spec": spec}));
        let with = |path: &str, value: Value| {
            let mut new = Value::Object(old.clone());
            *new.pointer_mut("/spec").unwrap().pointer_mut(path).unwrap() = value;
            object(new)
        };
        for (path, value, free) in [
            ("/containers/0/image", json!("two"), true),
            ("/containers/0/name", json!("b"), false),
            ("/tolerations", json!([{"key": "b"}, {"key": "a"}]), true),
            ("/tolerations", json!([{"key": "b"}]), false),
            ("/schedulingGates", json!([]), true),
            ("/schedulingGates", json!([{"name": "h"}]), false),
        ] {
            assert_eq!(pod(&old, &with(path, value)).is_empty(), free, "{path}");
        }
    }
}
