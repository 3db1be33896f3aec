//! HorizontalPodAutoscalers in their two versions: v1 keeps in annotations what it has no fields for.
//!
//! An annotation holds JSON as Go writes it, with the fields of a struct in their order. One that cannot be read counts for
//! nothing, as on a real server. A server drops these annotations when it has read an object, in whatever version it came:
//! in v2 they say nothing.

use serde_json::{Value, json};

use crate::api::{JsonMap, go_json};
use crate::defaults;
use crate::quantity::Amount;
use crate::typed::{self, Empties, Structs};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// All annotations that come of a conversion, or came of one in earlier releases.
const ANNOTATIONS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// The use of CPUs, in percent, that is aimed at if there is no metric.
const DEFAULT_UTILIZATION: u8 = 80;

/// Names of sources of metrics that have a struct of their own.
const SOURCES: [&str; 5] = ["object", "pods", "resource", "containerResource", "external"];

/// Fields of the structs in annotations, in an order that is that of each of these structs.
const ORDER: [&str; 39] = [
    "type",
    "status",
    "lastTransitionTime",
    "reason",
    "message",
    "object",
    "pods",
    "resource",
    "containerResource",
    "external",
    "target",
    "kind",
    "name",
    "apiVersion",
    "metricName",
    "metricSelector",
    "targetValue",
    "currentValue",
    "targetAverageUtilization",
    "currentAverageUtilization",
    "targetAverageValue",
    "currentAverageValue",
    "container",
    "selector",
    "averageValue",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    // Behavior is written with the names of Go.
    "ScaleUp",
    "ScaleDown",
    "StabilizationWindowSeconds",
    "SelectPolicy",
    "Policies",
    "Tolerance",
    "Type",
    "Value",
    "PeriodSeconds",
];

/// Whether a metric is the one that v1 has a field for.
fn is_cpu(metric: &Value, part: &str) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && metric["resource"][part]["averageUtilization"].is_number()
}

/// Takes the annotations of a conversion out of an object.
pub(super) fn take_annotations(object: &mut JsonMap) -> JsonMap {
    let mut taken = JsonMap::new();
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return taken };
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return taken };
    taken.extend(ANNOTATIONS.iter().filter_map(|name| annotations.remove_entry(*name)));
    if annotations.is_empty() && !taken.is_empty() {
        metadata.remove("annotations");
    }
    taken
}

fn elements(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

/// From v2 to v1.
pub(super) fn to_v1(object: &mut JsonMap) {
    take_annotations(object);
    let mut annotations = Vec::new();
    let mut annotate = |name: &str, value: Value| {
        let mut text = Vec::new();
        write_ordered(&mut text, &value, true);
        annotations.push((name.to_owned(), String::from_utf8_lossy(&text).into_owned()));
    };
    if let Value::Object(spec) = object.entry("spec").or_insert_with(|| json!({})) {
        let metrics = elements(spec.remove("metrics"));
        let of_cpu = |metric: &&Value| is_cpu(metric, "target");
        if let Some(metric) = metrics.iter().find(of_cpu) {
            let percent = metric["resource"]["target"]["averageUtilization"].clone();
            spec.insert("targetCPUUtilizationPercentage".to_owned(), percent);
        }
        let others: Vec<Value> = metrics.iter().filter(|metric| !of_cpu(metric)).map(metric_to_v1).collect();
        if !others.is_empty() {
            annotate(METRICS, others.into());
        }
        if let Some(behavior) = spec.remove("behavior").filter(Value::is_object) {
            annotate(BEHAVIOR, behavior_to_go(&behavior));
        }
    }
    if let Value::Object(status) = object.entry("status").or_insert_with(|| json!({})) {
        for field in ["currentReplicas", "desiredReplicas"] {
            status.entry(field).or_insert_with(|| 0.into());
        }
        let metrics = elements(status.remove("currentMetrics"));
        if let Some(metric) = metrics.iter().rfind(|metric| is_cpu(metric, "current")) {
            let percent = metric["resource"]["current"]["averageUtilization"].clone();
            status.insert("currentCPUUtilizationPercentage".to_owned(), percent);
        }
        if !metrics.is_empty() {
            annotate(CURRENT_METRICS, metrics.iter().map(current_to_v1).collect());
        }
        let conditions = elements(status.remove("conditions"));
        if !conditions.is_empty() {
            annotate(CONDITIONS, conditions.into());
        }
    }
    if annotations.is_empty() {
        return;
    }
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if let Value::Object(metadata) = metadata
        && let Value::Object(known) = metadata.entry("annotations").or_insert_with(|| json!({}))
    {
        known.extend(annotations.into_iter().map(|(name, text)| (name, text.into())));
    }
}

/// From v1 to v2.
pub(super) fn to_v2(object: &mut JsonMap) {
    let annotations = take_annotations(object);
    let written = |name: &str| {
        let text = annotations.get(name).and_then(Value::as_str)?;
        serde_json::from_str::<Value>(text).ok()
    };
    let list = |name: &str, convert: fn(&Value) -> Value| match written(name)? {
        Value::Array(list) => Some(list.iter().map(convert).collect::<Value>()),
        Value::Null => Some(json!([])),
        _ => None,
    };
    if let Value::Object(spec) = object.entry("spec").or_insert_with(|| json!({})) {
        let percent = spec.remove("targetCPUUtilizationPercentage").filter(|percent| !percent.is_null());
        let others = list(METRICS, metric_to_v2).and_then(|list| readable("spec", "metrics", list));
        let mut metrics = elements(others);
        metrics.extend(percent.map(|percent| cpu(&percent)));
        if metrics.is_empty() {
            metrics.push(cpu(&DEFAULT_UTILIZATION.into()));
        }
        spec.insert("metrics".to_owned(), metrics.into());
        let behavior = written(BEHAVIOR).map(|behavior| behavior_of_go(&behavior));
        if let Some(behavior) = behavior.and_then(|behavior| readable("spec", "behavior", behavior))
            && behavior.as_object().is_some_and(|rules| !rules.is_empty())
        {
            spec.insert("behavior".to_owned(), behavior);
        }
    }
    if let Value::Object(status) = object.entry("status").or_insert_with(|| json!({})) {
        let percent = status.remove("currentCPUUtilizationPercentage").filter(|percent| !percent.is_null());
        let current = list(CURRENT_METRICS, current_to_v2);
        let current = current.and_then(|list| readable("status", "currentMetrics", list)).or_else(|| {
            let current = json!({"averageUtilization": percent?});
            Some(json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}]))
        });
        let conditions = list(CONDITIONS, Value::clone);
        let conditions = conditions.and_then(|list| readable("status", "conditions", list));
        for (field, value) in [("currentMetrics", current), ("conditions", conditions)] {
            status.extend(value.map(|value| (field.to_owned(), value)));
        }
    }
}

/// Puts in what a server gives to an object in v2 that was stored without it: parts of a behavior.
pub(super) fn default_v2(object: &mut JsonMap) {
    if let Some(kind) = Structs::get().of_kind("autoscaling/v2", "HorizontalPodAutoscaler") {
        defaults::default(kind, object);
    }
}

/// A part of the spec or of the status in Go's form, if it is of its type.
fn readable(part: &str, field: &str, value: Value) -> Option<Value> {
    let kind = Structs::get().of_kind("autoscaling/v2", "HorizontalPodAutoscaler")?;
    let Value::Object(mut object) = json!({part: {field: value}}) else { return None };
    typed::read(kind, &mut object, Empties::Dropped).ok()?;
    // An empty list is left out.
    Some(object[part].as_object_mut()?.remove(field).unwrap_or(Value::Null))
}

fn cpu(percent: &Value) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

/// An object of those members that are there.
fn object<const N: usize>(members: [(&str, &Value); N]) -> Value {
    let members = members.into_iter().filter(|(_, value)| !value.is_null());
    members.map(|(name, value)| (name.to_owned(), value.clone())).collect::<JsonMap>().into()
}

/// A quantity that Go never leaves out.
fn amount(value: &Value) -> Value {
    if value.is_null() { "0".into() } else { value.clone() }
}

/// A metric with its type, and its sources converted.
fn sources(metric: &Value, convert: impl Fn(&str, &Value) -> Value) -> Value {
    if !metric.is_object() {
        return metric.clone();
    }
    let mut converted = object([("type", &metric["type"])]);
    for source in SOURCES {
        match &metric[source] {
            Value::Null => {}
            known @ Value::Object(_) => converted[source] = convert(source, known),
            // It has a type of its own to be refused by.
            other => converted[source] = other.clone(),
        }
    }
    converted
}

fn metric_to_v1(metric: &Value) -> Value {
    sources(metric, |source, from| {
        let (target, metric) = (&from["target"], &from["metric"]);
        match source {
            "object" => object([
                ("target", &from["describedObject"]),
                ("metricName", &metric["name"]),
                ("targetValue", &amount(&target["value"])),
                ("selector", &metric["selector"]),
                ("averageValue", &target["averageValue"]),
            ]),
            "pods" => object([
                ("metricName", &metric["name"]),
                ("targetAverageValue", &amount(&target["averageValue"])),
                ("selector", &metric["selector"]),
            ]),
            "external" => object([
                ("metricName", &metric["name"]),
                ("metricSelector", &metric["selector"]),
                ("targetValue", &target["value"]),
                ("targetAverageValue", &target["averageValue"]),
            ]),
            _ => object([
                ("name", &from["name"]),
                ("targetAverageUtilization", &target["averageUtilization"]),
                ("targetAverageValue", &target["averageValue"]),
                ("container", &from["container"]),
            ]),
        }
    })
}

fn metric_to_v2(metric: &Value) -> Value {
    sources(metric, |source, from| {
        let average = &from["targetAverageValue"];
        let named = |selector: &str| object([("name", &from["metricName"]), ("selector", &from[selector])]);
        let target = |kind: &str, value: &Value, average: &Value, utilization: &Value| {
            object([
                ("type", &kind.into()),
                ("value", value),
                ("averageValue", average),
                ("averageUtilization", utilization),
            ])
        };
        let none = &Value::Null;
        match source {
            "object" => {
                let (value, average) = (amount(&from["targetValue"]), &from["averageValue"]);
                // A zero is there because v1 cannot leave the value out.
                let is_zero = Amount::of(value.as_str().unwrap_or("1")) == Amount::ZERO;
                let target = match average.is_null() {
                    true => target("Value", &value, none, none),
                    false => target("AverageValue", if is_zero { none } else { &value }, average, none),
                };
                json!({"describedObject": from["target"], "metric": named("selector"), "target": target})
            }
            "pods" => {
                let target = target("AverageValue", none, &amount(average), none);
                json!({"metric": named("selector"), "target": target})
            }
            "external" => {
                let value = &from["targetValue"];
                let kind = if value.is_null() { "AverageValue" } else { "Value" };
                json!({"metric": named("metricSelector"), "target": target(kind, value, average, none)})
            }
            _ => {
                let utilization = &from["targetAverageUtilization"];
                let kind = if utilization.is_null() { "AverageValue" } else { "Utilization" };
                object([
                    ("name", &from["name"]),
                    ("container", &from["container"]),
                    ("target", &target(kind, none, average, utilization)),
                ])
            }
        }
    })
}

fn current_to_v1(metric: &Value) -> Value {
    sources(metric, |source, from| {
        let (current, metric) = (&from["current"], &from["metric"]);
        match source {
            "object" => object([
                ("target", &from["describedObject"]),
                ("metricName", &metric["name"]),
                ("currentValue", &amount(&current["value"])),
                ("selector", &metric["selector"]),
                ("averageValue", &current["averageValue"]),
            ]),
            "pods" => object([
                ("metricName", &metric["name"]),
                ("currentAverageValue", &amount(&current["averageValue"])),
                ("selector", &metric["selector"]),
            ]),
            "external" => object([
                ("metricName", &metric["name"]),
                ("metricSelector", &metric["selector"]),
                ("currentValue", &amount(&current["value"])),
                ("currentAverageValue", &current["averageValue"]),
            ]),
            _ => object([
                ("name", &from["name"]),
                ("currentAverageUtilization", &current["averageUtilization"]),
                ("currentAverageValue", &amount(&current["averageValue"])),
                ("container", &from["container"]),
            ]),
        }
    })
}

fn current_to_v2(metric: &Value) -> Value {
    sources(metric, |source, from| {
        let average = &from["currentAverageValue"];
        let named = |selector: &str| object([("name", &from["metricName"]), ("selector", &from[selector])]);
        match source {
            "object" => {
                let value = amount(&from["currentValue"]);
                let current = object([("value", &value), ("averageValue", &from["averageValue"])]);
                json!({"describedObject": from["target"], "metric": named("selector"), "current": current})
            }
            "pods" => json!({"metric": named("selector"), "current": {"averageValue": amount(average)}}),
            "external" => {
                let value = amount(&from["currentValue"]);
                let current = object([("value", &value), ("averageValue", average)]);
                json!({"metric": named("metricSelector"), "current": current})
            }
            _ => {
                let current = object([
                    ("averageValue", &amount(average)),
                    ("averageUtilization", &from["currentAverageUtilization"]),
                ]);
                object([("name", &from["name"]), ("container", &from["container"]), ("current", &current)])
            }
        }
    })
}

/// The rules of a behavior, and the fields of each, as v2 and as Go name them.
const RULES: [(&str, &str); 2] = [("scaleUp", "ScaleUp"), ("scaleDown", "ScaleDown")];
const OF_RULES: [(&str, &str); 4] = [
    ("stabilizationWindowSeconds", "StabilizationWindowSeconds"),
    ("selectPolicy", "SelectPolicy"),
    ("policies", "Policies"),
    ("tolerance", "Tolerance"),
];
const OF_POLICY: [(&str, &str); 3] =
    [("type", "Type"), ("value", "Value"), ("periodSeconds", "PeriodSeconds")];

/// An object with other names of its fields; those that are not there are null.
fn renamed(from: &Value, names: &[(&str, &str)]) -> Value {
    if !from.is_object() {
        return from.clone();
    }
    names.iter().map(|(old, new)| ((*new).to_owned(), from[*old].clone())).collect::<JsonMap>().into()
}

fn behavior_to_go(behavior: &Value) -> Value {
    let mut go = renamed(behavior, &RULES);
    for (_, rule) in RULES {
        go[rule] = renamed(&go[rule], &OF_RULES);
        for policy in go[rule].get_mut("Policies").and_then(Value::as_array_mut).into_iter().flatten() {
            *policy = renamed(policy, &OF_POLICY);
        }
    }
    go
}

/// The names of v2 differ from those of Go in their first letter, which Go's decoder takes for the same.
fn behavior_of_go(behavior: &Value) -> Value {
    match behavior {
        Value::Object(members) => {
            let named = members.iter().map(|(name, value)| {
                let mut letters = name.chars();
                let first = letters.next().map(|letter| letter.to_ascii_lowercase());
                (first.into_iter().chain(letters).collect::<String>(), behavior_of_go(value))
            });
            named.collect::<JsonMap>().into()
        }
        Value::Array(list) => list.iter().map(behavior_of_go).collect(),
        scalar => scalar.clone(),
    }
}

/// Writes JSON with the fields of each struct in their order; `is_struct`: and not a map, which Go sorts.
fn write_ordered(out: &mut Vec<u8>, value: &Value, is_struct: bool) {
    match value {
        Value::Array(list) => {
            out.push(b'[');
            for (index, element) in list.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_ordered(out, element, true);
            }
            out.push(b']');
        }
        Value::Object(members) if is_struct => {
            let place = |name: &str| ORDER.iter().position(|known| *known == name);
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(name, _)| place(name));
            out.push(b'{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                go_json::write_text(out, name.as_bytes(), true);
                out.push(b':');
                write_ordered(out, value, name != "matchLabels");
            }
            out.push(b'}');
        }
        other => go_json::write_value(out, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(value: Value, convert: fn(&mut JsonMap)) -> Value {
        let mut object = value.as_object().cloned().unwrap();
        convert(&mut object);
        object.into()
    }

    #[test]
    fn what_v1_cannot_say_comes_back() {
        let selector = json!({"matchLabels": {"type": "t", "a<b": "x"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]});
        let described = json!({"kind": "Ingress", "name": "i", "apiVersion": "networking.k8s.io/v1"});
        let whole = json!({
            "metadata": {"name": "h", "annotations": {"mine": "1"}},
            "spec": {
                "maxReplicas": 3,
                "metrics": [
                    {"type": "Object", "object": {"describedObject": described, "metric": {"name": "m", "selector": selector}, "target": {"type": "Value", "value": "2k"}}},
                    {"type": "Object", "object": {"describedObject": described, "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
                    {"type": "Pods", "pods": {"metric": {"name": "p"}, "target": {"type": "AverageValue", "averageValue": "1"}}},
                    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                    {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 5}}},
                    {"type": "External", "external": {"metric": {"name": "e", "selector": selector}, "target": {"type": "AverageValue", "averageValue": "1"}}},
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                ],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 1, "selectPolicy": "Max", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 10}]}},
            },
            "status": {
                "currentReplicas": 0,
                "desiredReplicas": 0,
                "currentMetrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7, "averageValue": "70m"}}},
                    {"type": "External", "external": {"metric": {"name": "e"}, "current": {"value": "1"}}},
                ],
                "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "r"}],
            },
        });
        let old = converted(whole.clone(), to_v1);
        assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(old["status"]["currentCPUUtilizationPercentage"], 7);
        let annotations = &old["metadata"]["annotations"];
        assert_eq!(
            annotations[BEHAVIOR],
            r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":1,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":10}],"Tolerance":null}}"#
        );
        let metrics = annotations[METRICS].as_str().unwrap();
        let first = r#"[{"type":"Object","object":{"target":{"kind":"Ingress","name":"i","apiVersion":"networking.k8s.io/v1"},"metricName":"m","targetValue":"2k","selector":{"matchLabels":{"a\u003cb":"x","type":"t"},"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]}}},"#;
        assert!(metrics.starts_with(first), "{metrics}");
        assert_eq!(converted(old, to_v2), whole);
    }

    #[test]
    fn an_annotation_that_cannot_be_read_counts_for_nothing() {
        for text in
            ["5", "{", r#"[{"type":5}]"#, r#"[{"type":"Pods","pods":{"targetAverageValue":"x"}}]"#, "[5]"]
        {
            let old = json!({"metadata": {"annotations": {METRICS: text, BEHAVIOR: text}}, "spec": {"maxReplicas": 1}});
            let new = converted(old, to_v2);
            assert_eq!(new["spec"], json!({"maxReplicas": 1, "metrics": [cpu(&80.into())]}), "{text}");
            assert_eq!(new["metadata"], json!({}), "{text}");
        }
    }
}
