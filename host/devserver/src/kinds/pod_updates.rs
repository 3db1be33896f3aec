//! What an update of a Pod may change.

use std::collections::HashSet;

use serde_json::Value;

use super::immutable::{at, invalid, is_same, spec_without};
use crate::api::{Cause, JsonMap};

/// Annotation of a Pod that a kubelet has from elsewhere.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Prefix of the annotations that have been replaced by a field of the security context.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// A pod keeps all of its spec but images, a shorter deadline, new tolerations and gates that are lifted; as long as it has
/// gates, it may be kept to fewer nodes.
pub(super) fn pod(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    let mut causes = annotations(old, new);
    let list = |object: &JsonMap, name: &str| at(object, name).as_array().cloned().unwrap_or_default();
    for field in ["spec.containers", "spec.initContainers"] {
        if list(old, field).len() != list(new, field).len() {
            causes.push(Cause::forbidden(field, "pod updates may not add or remove containers"));
            return causes;
        }
    }
    const DEADLINE: &str = "spec.activeDeadlineSeconds";
    match (at(old, DEADLINE).as_i64(), at(new, DEADLINE)) {
        (Some(_), Value::Null) => {
            causes.push(invalid(
                DEADLINE,
                &Value::Null,
                "must not update from a positive integer to nil value",
            ));
        }
        (_, after) if after.as_i64().is_some_and(|after| !(0..=i64::from(i32::MAX)).contains(&after)) => {
            causes.push(invalid(DEADLINE, after, "must be between 0 and 2147483647, inclusive"));
            return causes;
        }
        (Some(before), after) if after.as_i64().is_some_and(|after| before < after) => {
            causes.push(invalid(DEADLINE, after, "must be less than or equal to previous value"));
            return causes;
        }
        _ => {}
    }
    // Sets: an object may have tens of thousands.
    let tolerates: HashSet<Value> = list(new, "spec.tolerations").into_iter().map(without_seconds).collect();
    let lacks = |toleration: Value| !tolerates.contains(&without_seconds(toleration));
    if list(old, "spec.tolerations").into_iter().any(lacks) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(Cause::forbidden("spec.tolerations", why));
    }
    let (had, gates) = (list(old, "spec.schedulingGates"), list(new, "spec.schedulingGates"));
    let known: HashSet<&Value> = had.iter().collect();
    for (index, gate) in gates.iter().enumerate().filter(|(_, gate)| !known.contains(gate)) {
        let name = gate["name"].as_str().unwrap_or_default();
        let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
        causes.push(Cause::forbidden(&format!("spec.schedulingGates[{index}].name"), &why));
    }
    let is_gated = !had.is_empty();
    if is_gated {
        causes.extend(node_selector(old, new));
        causes.extend(node_affinity(old, new));
    }
    let rest = |object: &JsonMap| {
        let mut spec = spec_without(object, &["activeDeadlineSeconds", "tolerations", "schedulingGates"]);
        if let (Value::Object(spec), true) = (&mut spec, is_gated) {
            spec.remove("nodeSelector");
            if let Some(Value::Object(affinity)) = spec.get_mut("affinity") {
                affinity.remove("nodeAffinity");
            }
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
    if !is_same(&rest(old), &rest(new)) {
        let why = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
                   `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
                   `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        causes.push(Cause::forbidden("spec", why));
    }
    causes
}

fn without_seconds(mut toleration: Value) -> Value {
    toleration
        .as_object_mut()
        .into_iter()
        .for_each(|toleration| drop(toleration.remove("tolerationSeconds")));
    toleration
}

/// Annotations that say what runs stay as they are.
fn annotations(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    let (before, after) = (at(old, "metadata.annotations"), at(new, "metadata.annotations"));
    let mut causes = Vec::new();
    let mut forbid = |key: &str, what: &str| {
        let of = match key {
            MIRROR => "mirror pod annotation",
            key if key.starts_with(APP_ARMOR) => "AppArmor annotations",
            _ => return,
        };
        causes
            .push(Cause::forbidden(&format!("metadata.annotations[{key}]"), &format!("may not {what} {of}")));
    };
    for (key, value) in before.as_object().into_iter().flatten() {
        if after.get(key) != Some(value) {
            forbid(key, "remove or update");
        }
    }
    for (key, _) in after.as_object().into_iter().flatten().filter(|(key, _)| before.get(key).is_none()) {
        forbid(key, "add");
    }
    causes
}

/// The labels of nodes that a Pod with gates asks for: it may ask for more.
fn node_selector(old: &JsonMap, new: &JsonMap) -> Option<Cause> {
    const FIELD: &str = "spec.nodeSelector";
    let after = at(new, FIELD);
    let is_kept = |(key, value): (&String, &Value)| after.get(key) == Some(value);
    let all_kept = at(old, FIELD).as_object().is_none_or(|before| before.iter().all(is_kept));
    let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
    (!all_kept).then(|| invalid(FIELD, after, why))
}

/// The terms of which one must hold for a node of a Pod with gates: each may ask for more.
fn node_affinity(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    const FIELD: &str =
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let terms = |object| at(object, FIELD).as_array().map(Vec::as_slice).unwrap_or_default();
    let (before, after) = (terms(old), terms(new));
    if before.is_empty() {
        return Vec::new();
    }
    if before.len() != after.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return vec![invalid(FIELD, at(new, FIELD), why)];
    }
    let narrowed = |before: &Value, after: &Value| {
        let list = |term: &Value, name: &str| term[name].as_array().cloned().unwrap_or_default();
        let names = ["matchExpressions", "matchFields"];
        let is_empty = |term: &Value| names.iter().all(|name| list(term, name).is_empty());
        // A term that asks for nothing matches no node, and stays so.
        (!is_empty(before) || is_empty(after))
            && names.iter().all(|name| {
                let (before, after) = (list(before, name), list(after, name));
                let count = before.len();
                after.len() >= count && is_same(&before.into(), &after[..count].to_vec().into())
            })
    };
    let pairs = before.iter().zip(after).enumerate();
    pairs
        .filter(|(_, (before, after))| !narrowed(before, after))
        .map(|(index, (_, after))| {
            let why = "only additions are allowed (no mutations or deletions)";
            invalid(&format!("{FIELD}[{index}]"), after, why)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> JsonMap {
        match value {
            Value::Object(object) => object,
            other => panic!("{other}"),
        }
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

    /// The fields that a real server names.
    fn places(old: &Value, new: &Value) -> Vec<String> {
        let causes = pod(&object(old.clone()), &object(new.clone()));
        causes.into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn a_pod_with_gates_may_be_kept_to_fewer_nodes() {
        let with = |gates: Value, selector: Value, terms: Value| {
            json!({"spec": {"schedulingGates": gates, "nodeSelector": selector, "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}})
        };
        let one = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
        let more = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]});
        let gates = json!([{"name": "g"}]);
        let old = with(gates.clone(), json!({"x": "y"}), json!([one]));
        let wider = with(gates.clone(), json!({"x": "y", "z": ""}), json!([more]));
        assert_eq!(places(&old, &wider), [""; 0]);
        const TERMS: &str =
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
        assert_eq!(places(&wider, &old), ["spec.nodeSelector".to_owned(), format!("{TERMS}[0]")]);
        assert_eq!(places(&old, &with(gates, json!({"x": "y"}), json!([]))), [TERMS]);
        let free = with(json!([]), json!({"x": "y"}), json!([one]));
        assert_eq!(places(&free, &with(json!([]), json!({"x": "y", "z": ""}), json!([one]))), ["spec"]);
    }

    #[test]
    fn annotations_that_say_what_runs_stay() {
        let with = |annotations: Value| json!({"metadata": {"annotations": annotations}, "spec": {}});
        let armor = format!("{APP_ARMOR}main");
        let old = with(json!({MIRROR: "a", "free": "b"}));
        assert_eq!(places(&old, &with(json!({MIRROR: "a", "other": "c"}))), [""; 0]);
        let new = with(json!({MIRROR: "b", armor.as_str(): "unconfined"}));
        let expected = [MIRROR, &armor].map(|key| format!("metadata.annotations[{key}]"));
        assert_eq!(places(&old, &new), expected);
    }
}
