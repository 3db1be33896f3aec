//! What strategies do to objects of their kinds before these are stored.

use serde_json::{Map, Value, json};

use super::pods;
use crate::api::{ApiError, Cause, JsonMap, Metadata, Timestamp};
use crate::resources::{Definition, definition_status};

/// Puts in the entries of `defaults` that `object[field]` has not.
fn set_defaults(object: &mut JsonMap, field: &str, defaults: Value) {
    let part = object.entry(field).or_insert_with(|| Map::new().into());
    if let (Value::Object(part), Value::Object(defaults)) = (part, defaults) {
        for (name, value) in defaults {
            part.entry(name).or_insert(value);
        }
    }
}

/// A pod, a volume or a claim begins in the phase `Pending`.
pub(super) fn pending(object: &mut JsonMap) -> Result<(), ApiError> {
    set_defaults(object, "status", json!({"phase": "Pending"}));
    Ok(())
}

/// What a claim is filled with: the older field has a claim or a snapshot only, and each of both fields is what the other says.
pub(super) fn claim(object: &mut JsonMap, _now: Timestamp) -> Vec<Cause> {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return Vec::new() };
    let of = |spec: &JsonMap, field: &str| spec.get(field).filter(|source| source.is_object()).cloned();
    let is_plain = |source: &Value| {
        let group = source["apiGroup"].as_str().unwrap_or_default();
        matches!(
            (group, source["kind"].as_str()),
            ("", Some("PersistentVolumeClaim")) | ("snapshot.storage.k8s.io", Some("VolumeSnapshot"))
        )
    };
    match (of(spec, "dataSource"), of(spec, "dataSourceRef")) {
        (Some(source), None) if is_plain(&source) => {
            spec.insert("dataSourceRef".to_owned(), source);
        }
        (Some(_), None) => {
            spec.remove("dataSource");
        }
        (None, Some(reference)) if reference["namespace"].as_str().is_none_or(str::is_empty) => {
            let mut source = reference;
            source.as_object_mut().into_iter().for_each(|source| drop(source.remove("namespace")));
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
    Vec::new()
}

/// A new pod; its class of service follows from its resources.
pub(super) fn new_pod(object: &mut JsonMap) -> Result<(), ApiError> {
    let class = pods::qos_class(object);
    set_defaults(object, "status", json!({"phase": "Pending", "qosClass": class}));
    Ok(())
}

/// What admission adds to a pod.
pub(super) fn pod(object: &mut JsonMap, _now: Timestamp) -> Vec<Cause> {
    pods::admit(object);
    Vec::new()
}

/// For how many seconds a pod stays when its deletion names no time: not at all if it is on no node or has ended.
pub(super) fn grace(object: &JsonMap) -> i64 {
    let part = |name: &str| object.get(name).unwrap_or(&Value::Null);
    let node = part("spec")["nodeName"].as_str().unwrap_or_default();
    let ended = matches!(part("status")["phase"].as_str(), Some("Succeeded" | "Failed"));
    if node.is_empty() || ended {
        return 0;
    }
    part("spec")["terminationGracePeriodSeconds"].as_i64().unwrap_or(30)
}

/// A job's pods are told apart from those of all others by labels that the server makes, unless the job says otherwise.
pub(super) fn new_job(object: &mut JsonMap) -> Result<(), ApiError> {
    let metadata = Metadata::of(object)?;
    let (uid, name) = (metadata.text("uid").to_owned(), metadata.text("name").to_owned());
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return Ok(()) };
    if spec.get("manualSelector").is_some_and(|manual| *manual == true) {
        return Ok(());
    }
    if let Some(Value::Object(template)) = spec.get_mut("template") {
        let mut metadata = Metadata::of(template)?;
        for (label, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", &uid),
            ("job-name", &name),
        ] {
            // What the client says is checked later.
            if metadata.get("labels").and_then(|labels| labels.get(label)).is_none() {
                metadata.set_label(label, value);
            }
        }
    }
    let selector = spec.entry("selector").or_insert_with(|| json!({}));
    if let Value::Object(selector) = selector
        && let Value::Object(labels) = selector.entry("matchLabels").or_insert_with(|| json!({}))
    {
        labels.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| uid.into());
    }
    Ok(())
}

pub(super) fn namespace(object: &mut JsonMap) -> Result<(), ApiError> {
    set_defaults(object, "spec", json!({"finalizers": []}));
    if let Some(Value::Array(finalizers)) = object.get_mut("spec").and_then(|spec| spec.get_mut("finalizers"))
        && !finalizers.iter().any(|name| name == "kubernetes")
    {
        finalizers.push("kubernetes".into());
    }
    object.insert("status".to_owned(), json!({"phase": "Active"}));
    let mut metadata = Metadata::of(object)?;
    let name = metadata.text("name").to_owned();
    metadata.set_label("kubernetes.io/metadata.name", &name);
    Ok(())
}

pub(super) fn definition(object: &mut JsonMap, now: Timestamp) -> Vec<Cause> {
    let whole = Value::Object(object.clone());
    match Definition::read(&whole) {
        Ok(_) => {
            object.insert("status".to_owned(), definition_status(&whole, &now));
            Vec::new()
        }
        Err(causes) => causes,
    }
}
