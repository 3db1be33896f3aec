//! The kinds whose versions differ in more than `apiVersion`: Events (of two groups), HorizontalPodAutoscalers, and custom
//! resources whose versions have different schemas.
//!
//! Stored are core/v1 Events, autoscaling/v2 autoscalers, and custom objects in their storage version.

use serde_json::{Value, json};

use crate::api::JsonMap;

use crate::resources::Resource;
use crate::schema::DefaultsLimit;

/// Whether objects of this resource are not stored as they are served.
pub(crate) fn needs_conversion(resource: &Resource) -> bool {
    matches!(
        (resource.group.as_str(), resource.version.as_str(), resource.name.as_str()),
        ("events.k8s.io", _, "events") | ("autoscaling", "v1", "horizontalpodautoscalers")
    ) || resource.is_converted_by_schema()
}

/// From the form in which objects come in to the stored one.
pub(crate) fn to_stored(resource: &Resource, object: &mut JsonMap) {
    match resource.group.as_str() {
        // Their schemas bring them to it when they are complete.
        _ if resource.is_custom() => {}
        "events.k8s.io" => rename(object, |(served, stored)| (served, stored)),
        _ => autoscaler_to_v2(object),
    }
}

/// From the stored form to that in which objects are served.
pub(crate) fn from_stored(resource: &Resource, object: &mut JsonMap) {
    from_stored_within(resource, object, &mut DefaultsLimit::default());
}

/// As [`from_stored`], of one of the objects of an answer.
pub(crate) fn from_stored_within(resource: &Resource, object: &mut JsonMap, limit: &mut DefaultsLimit) {
    match resource.group.as_str() {
        _ if resource.is_custom() => resource.convert_by_schema(object, limit),
        "events.k8s.io" => {
            rename(object, |(served, stored)| (stored, served));
            // What core/v1 always has, this version leaves out if it is empty.
            object.retain(|field, value| {
                !(matches!(field.as_str(), "reportingController" | "reportingInstance") && value == "")
            });
        }
        _ => autoscaler_to_v1(object),
    }
}

/// Keeps what the version of a write cannot say: an autoscaler that is written in v1 keeps what v2 knows of it.
pub(crate) fn carry_over(resource: &Resource, old: &JsonMap, new: &mut JsonMap) {
    if resource.group != "autoscaling" || !needs_conversion(resource) {
        return;
    }
    let of_cpu = |metric: &&Value| metric["resource"]["name"] == "cpu";
    for (part, list, others) in [("spec", "metrics", "behavior"), ("status", "currentMetrics", "conditions")]
    {
        let (Some(Value::Object(old)), Some(Value::Object(new))) = (old.get(part), new.get_mut(part)) else {
            continue;
        };
        let metrics = |from: &JsonMap| from.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
        let mut kept: Vec<Value> = metrics(new);
        kept.extend(metrics(old).iter().filter(|m| !of_cpu(m)).cloned());
        if !kept.is_empty() {
            new.insert(list.to_owned(), kept.into());
        }
        if let Some(value) = old.get(others) {
            new.insert(others.to_owned(), value.clone());
        }
    }
}

/// Names of fields in events.k8s.io/v1 and in core/v1.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn rename(
    object: &mut JsonMap,
    order: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    for names in EVENT_FIELDS {
        let (from, to) = order(names);
        if let Some(value) = object.remove(from) {
            object.insert(to.to_owned(), value);
        }
    }
}

fn autoscaler_to_v2(object: &mut JsonMap) {
    if let Some(Value::Object(spec)) = object.get_mut("spec")
        && let Some(percent) = spec.remove("targetCPUUtilizationPercentage")
    {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        spec.insert(
            "metrics".to_owned(),
            json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]),
        );
    }
    if let Some(Value::Object(status)) = object.get_mut("status")
        && let Some(percent) = status.remove("currentCPUUtilizationPercentage")
    {
        let current = json!({"averageUtilization": percent});
        let metrics = json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}]);
        status.insert("currentMetrics".to_owned(), metrics);
    }
}

fn autoscaler_to_v1(object: &mut JsonMap) {
    if let Value::Object(status) = object.entry("status").or_insert_with(|| json!({})) {
        for field in ["currentReplicas", "desiredReplicas"] {
            status.entry(field).or_insert_with(|| 0.into());
        }
    }
    let cpu = |metrics: Option<Value>, part: &str| {
        let metrics = metrics?;
        let cpu = metrics.as_array()?.iter().find(|m| m["resource"]["name"] == "cpu")?;
        cpu["resource"][part].get("averageUtilization").cloned()
    };
    if let Some(Value::Object(spec)) = object.get_mut("spec") {
        spec.remove("behavior");
        if let Some(percent) = cpu(spec.remove("metrics"), "target") {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), percent);
        }
    }
    if let Some(Value::Object(status)) = object.get_mut("status") {
        status.remove("conditions");
        if let Some(percent) = cpu(status.remove("currentMetrics"), "current") {
            status.insert("currentCPUUtilizationPercentage".to_owned(), percent);
        }
    }
}
