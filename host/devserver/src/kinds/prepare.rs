//! What the server does to an object of a kind before it is kept.

use serde_json::{Map, Value, json};

use super::pods;
use crate::api::{ApiError, Cause, JsonMap, Metadata, Timestamp};
use crate::resources::{Definition, Resource, definition_status};

/// Fills in what a new object of a kind lacks and takes out what is not the client's to say.
pub(crate) fn prepare_create(
    resource: &Resource,
    object: &mut JsonMap,
    now: Timestamp,
) -> Result<Vec<Cause>, ApiError> {
    if resource.has_status() && !keeps_status(resource) {
        object.remove("status");
    }
    match (resource.group.as_str(), resource.name.as_str()) {
        ("", "namespaces") => namespace(object)?,
        ("", "pods") => {
            set_defaults(object, "status", json!({"phase": "Pending", "qosClass": pods::qos_class(object)}));
        }
        ("", "persistentvolumes" | "persistentvolumeclaims") => {
            set_defaults(object, "status", json!({"phase": "Pending"}));
        }
        _ => {}
    }
    Ok(prepare_update(resource, object, now))
}

/// As [`prepare_create`], for an object that takes the place of another.
pub(crate) fn prepare_update(resource: &Resource, object: &mut JsonMap, now: Timestamp) -> Vec<Cause> {
    if resource.is("", "pods") {
        pods::admit(object);
    }
    if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
        return definition(object, now);
    }
    Vec::new()
}

/// Kubelets register nodes together with their status.
fn keeps_status(resource: &Resource) -> bool {
    resource.is("", "nodes")
}

/// Puts in the entries of `defaults` that `object[field]` has not.
fn set_defaults(object: &mut JsonMap, field: &str, defaults: Value) {
    let part = object.entry(field).or_insert_with(|| Map::new().into());
    if let (Value::Object(part), Value::Object(defaults)) = (part, defaults) {
        for (name, value) in defaults {
            part.entry(name).or_insert(value);
        }
    }
}

fn namespace(object: &mut JsonMap) -> Result<(), ApiError> {
    set_defaults(object, "spec", json!({"finalizers": ["kubernetes"]}));
    object.insert("status".to_owned(), json!({"phase": "Active"}));
    let mut metadata = Metadata::of(object)?;
    let name = metadata.text("name").to_owned();
    metadata.set_label("kubernetes.io/metadata.name", &name);
    Ok(())
}

fn definition(object: &mut JsonMap, now: Timestamp) -> Vec<Cause> {
    let whole = Value::Object(object.clone());
    match Definition::read(&whole) {
        Ok(_) => {
            object.insert("status".to_owned(), definition_status(&whole, &now));
            Vec::new()
        }
        Err(causes) => causes,
    }
}
