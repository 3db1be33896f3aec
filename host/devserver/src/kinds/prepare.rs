//! What strategies do to objects of their kinds before these are stored.

use serde_json::{Map, Value, json};

use super::pods;
use crate::api::{ApiError, Cause, JsonMap, Metadata, Timestamp};
use crate::quantity::Amount;
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

/// A volume begins in the phase `Pending`, and stays as long as it is in use.
pub(super) fn new_volume(object: &mut JsonMap) -> Result<(), ApiError> {
    let now = Timestamp::now().seconds();
    set_defaults(object, "status", json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
    Metadata::of(object)?.add_finalizer("kubernetes.io/pv-protection");
    Ok(())
}

/// A change of a volume's phase has a time, unless the client gives one; without a change it keeps the one it has.
pub(super) fn volume_status(old: &JsonMap, new: &mut JsonMap) -> Result<(), ApiError> {
    const TIME: &str = "lastPhaseTransitionTime";
    let status = |object: &JsonMap, field: &str| {
        object.get("status").map(|status| status[field].clone()).unwrap_or_default()
    };
    let (before, given) = (status(old, TIME), status(new, TIME));
    let time = match status(old, "phase") == status(new, "phase") {
        true if given.is_null() => before,
        false if given.is_null() || given == before => Timestamp::now().seconds().into(),
        _ => Value::Null,
    };
    if !time.is_null() {
        let status = new.entry("status").or_insert_with(|| json!({}));
        if let Value::Object(status) = status {
            status.insert(TIME.to_owned(), time);
        }
    }
    Ok(())
}

/// A claim begins in the phase `Pending`, and stays as long as it is in use.
pub(super) fn new_claim(object: &mut JsonMap) -> Result<(), ApiError> {
    set_defaults(object, "status", json!({"phase": "Pending"}));
    Metadata::of(object)?.add_finalizer("kubernetes.io/pvc-protection");
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
    // A class is all that a client can say of the status.
    let status = object.remove("status").unwrap_or_default();
    let given = status["qosClass"].as_str().filter(|class| !class.is_empty());
    let class = given.unwrap_or_else(|| pods::qos_class(object));
    set_defaults(object, "status", json!({"phase": "Pending", "qosClass": class}));
    let is_gated = object
        .get("spec")
        .is_some_and(|spec| spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()));
    if is_gated {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": Timestamp::now().seconds(), "lastProbeTime": null,
        });
        set_defaults(object, "status", json!({"conditions": [condition]}));
    }
    Ok(())
}

/// A pod keeps its class of service when a client does not repeat it.
pub(super) fn pod_status(old: &JsonMap, new: &mut JsonMap) -> Result<(), ApiError> {
    let class = old.get("status").and_then(|status| status.get("qosClass"));
    if let (Some(class), Some(Value::Object(status))) = (class, new.get_mut("status"))
        && status.get("qosClass").and_then(Value::as_str).is_none_or(str::is_empty)
    {
        status.insert("qosClass".to_owned(), class.clone());
    }
    Ok(())
}

/// Of a claim that asks for more than before the storage class, if it has one and the same; `None` of any other claim.
pub(crate) fn class_of_growing(old: &JsonMap, new: &JsonMap) -> Option<Option<String>> {
    let size = |claim: &JsonMap| {
        let size = claim.get("spec").and_then(|spec| spec.pointer("/resources/requests/storage"));
        Amount::of(size.and_then(Value::as_str).unwrap_or("0"))
    };
    let class = |claim: &JsonMap| {
        const OLDER: &str = "volume.beta.kubernetes.io/storage-class";
        let older = claim.get("metadata").and_then(|metadata| metadata["annotations"][OLDER].as_str());
        let named = claim.get("spec").and_then(|spec| spec["storageClassName"].as_str());
        older.or(named).unwrap_or_default().to_owned()
    };
    (size(new) > size(old)).then(|| Some(class(new)).filter(|name| !name.is_empty() && *name == class(old)))
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
    // A job that comes without labels shares those of its template, and so gets the ones that are added there.
    let labels = metadata.get("labels").cloned();
    let template_labels =
        object.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    if labels.is_some() && labels == template_labels {
        Metadata::of(object)?.remove("labels");
    }
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
    // As defaults have it, which a real server puts in again when it reads what it has stored.
    let labels = spec.get("template").map(|template| template["metadata"]["labels"].clone());
    if let (Some(labels), Some(Value::Object(metadata))) = (labels, object.get_mut("metadata"))
        && metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        metadata.insert("labels".to_owned(), labels);
    }
    Ok(())
}

/// A job without labels has those of its template.
pub(super) fn job(object: &mut JsonMap, _now: Timestamp) -> Vec<Cause> {
    let labels = object.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    if let (Some(labels), Ok(mut metadata)) = (labels, Metadata::of(object))
        && metadata.get("labels").is_none()
    {
        metadata.set("labels", labels);
    }
    Vec::new()
}

pub(super) fn namespace(object: &mut JsonMap) -> Result<(), ApiError> {
    set_defaults(object, "spec", json!({"finalizers": []}));
    let finalizers = object.get_mut("spec").and_then(|spec| spec.get_mut("finalizers"));
    if let Some(Value::Array(finalizers)) = finalizers
        && !finalizers.contains(&"kubernetes".into())
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
