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
            metadata.set_label(label, value);
        }
    }
    let selector = spec.entry("selector").or_insert_with(|| json!({}));
    if let Value::Object(selector) = selector {
        let labels = selector.entry("matchLabels").or_insert_with(|| json!({}));
        labels["batch.kubernetes.io/controller-uid"] = uid.into();
    }
    // As defaults have it, which a real server puts in again when it reads what it has stored.
    let labels = spec.get("template").map(|template| template["metadata"]["labels"].clone());
    if let (Some(labels), Some(Value::Object(metadata))) = (labels, object.get_mut("metadata"))
        && metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        metadata.insert("labels".to_owned(), labels);
    }
    Ok(())
}

pub(super) fn namespace(object: &mut JsonMap) -> Result<(), ApiError> {
    set_defaults(object, "spec", json!({"finalizers": ["kubernetes"]}));
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
