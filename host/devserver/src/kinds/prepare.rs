//! What strategies do to objects of their kinds before these are stored.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

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

pub(super) fn pod(object: &mut JsonMap, _now: Timestamp) -> Vec<Cause> {
    let spec = json!({
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler", "securityContext": {}, "enableServiceLinks": true,
    });
    set_defaults(object, "spec", spec);
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

pub(super) fn service(object: &mut JsonMap, _now: Timestamp) -> Vec<Cause> {
    let spec = json!({"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"});
    set_defaults(object, "spec", spec);
    Vec::new()
}

pub(super) fn replicas(object: &mut JsonMap, _now: Timestamp) -> Vec<Cause> {
    set_defaults(object, "spec", json!({"replicas": 1}));
    Vec::new()
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
    Ok(())
}

pub(super) fn job(object: &mut JsonMap, _now: Timestamp) -> Vec<Cause> {
    set_defaults(object, "spec", json!({"parallelism": 1, "completions": 1}));
    Vec::new()
}

pub(super) fn cron_job(object: &mut JsonMap, _now: Timestamp) -> Vec<Cause> {
    set_defaults(object, "spec", json!({"concurrencyPolicy": "Allow", "suspend": false}));
    Vec::new()
}

pub(super) fn namespace(object: &mut JsonMap) -> Result<(), ApiError> {
    set_defaults(object, "spec", json!({"finalizers": ["kubernetes"]}));
    object.insert("status".to_owned(), json!({"phase": "Active"}));
    let mut metadata = Metadata::of(object)?;
    let name = metadata.text("name").to_owned();
    metadata.set_label("kubernetes.io/metadata.name", &name);
    Ok(())
}

pub(super) fn secret(object: &mut JsonMap, _now: Timestamp) -> Vec<Cause> {
    object.entry("type").or_insert_with(|| "Opaque".into());
    let Some(Value::Object(texts)) = object.remove("stringData") else { return Vec::new() };
    let data = object.entry("data").or_insert_with(|| Map::new().into());
    if let Value::Object(data) = data {
        for (name, text) in texts {
            data.insert(name, STANDARD.encode(text.as_str().unwrap_or_default()).into());
        }
    }
    Vec::new()
}

pub(super) fn definition(object: &mut JsonMap, now: Timestamp) -> Vec<Cause> {
    if let Some(Value::Object(spec)) = object.get_mut("spec") {
        spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
        if let Some(service) = spec["conversion"].pointer_mut("/webhook/clientConfig/service")
            && let Value::Object(service) = service
        {
            service.entry("port").or_insert_with(|| 443.into());
        }
        if let Some(Value::Object(names)) = spec.get_mut("names") {
            let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            for (name, default) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
                if !kind.is_empty() && names.get(name).and_then(Value::as_str).unwrap_or_default().is_empty()
                {
                    names.insert(name.to_owned(), default.into());
                }
            }
        }
    }
    let whole = Value::Object(object.clone());
    match Definition::read(&whole) {
        Ok(_) => {
            object.insert("status".to_owned(), definition_status(&whole, &now));
            Vec::new()
        }
        Err(causes) => causes,
    }
}
