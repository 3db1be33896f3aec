//! What a server's admission adds to Pods, and their class of service.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::api::{Cause, JsonMap};

/// Seconds that a Pod stays on a node that has failed.
const STAYS: i64 = 300;

/// Gives a Pod its priority, and the time that it stays on a node that has failed.
pub(super) fn admit(pod: &mut JsonMap) {
    let Some(Value::Object(spec)) = pod.get_mut("spec") else { return };
    tolerate(spec);
    let class = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default();
    let priority = match class {
        "" => 0,
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        // The classes of users are not looked up.
        _ => return,
    };
    spec.entry("priority").or_insert_with(|| priority.into());
    spec.entry("preemptionPolicy").or_insert_with(|| "PreemptLowerPriority".into());
}

fn tolerate(spec: &mut Map<String, Value>) {
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Value::Array(tolerations) = tolerations else { return };
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let is_tolerated = tolerations.iter().any(|toleration| {
            let has = |field: &str, value: &str| {
                toleration[field].as_str().is_none_or(|own| own.is_empty() || own == value)
            };
            has("key", taint) && has("effect", "NoExecute")
        });
        if !is_tolerated {
            tolerations.push(
                json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": STAYS}),
            );
        }
    }
}

/// Gives the containers of a Pod's spec the resources that those of their names have in another.
pub(crate) fn resize(to: &mut Map<String, Value>, from: &Map<String, Value>) {
    for list in ["containers", "initContainers"] {
        let asked = from.get(list).and_then(Value::as_array);
        for container in to.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Value::Object(container) = container else { continue };
            let wanted = asked.into_iter().flatten().find(|other| other.get("name") == container.get("name"));
            let Some(wanted) = wanted else { continue };
            for field in ["resources", "resizePolicy"] {
                match wanted.get(field) {
                    Some(value) => _ = container.insert(field.to_owned(), value.clone()),
                    None => _ = container.remove(field),
                }
            }
        }
    }
}

/// What is wrong with other resources of a pod.
pub(crate) fn check_resize(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    let status = |object: &JsonMap| object.get("status").cloned().unwrap_or_default();
    let mut causes = Vec::new();
    let known = status(old)["qosClass"].as_str().map(str::to_owned);
    let class = known.unwrap_or_else(|| qos_class(old).to_owned());
    if class != qos_class(new) {
        let why = "Pod QOS Class may not change as a result of resizing";
        causes.push(Cause::invalid("spec", &class, why));
    }
    let containers = status(old)["containerStatuses"].as_array().cloned().unwrap_or_default();
    let running = containers.iter().find(|container| container["state"]["running"].is_object());
    if running.is_some_and(|container| container["resources"].is_null()) {
        causes.push(Cause::forbidden("spec", "Pod running on node without support for resize"));
    }
    let list = |pod: &JsonMap, name: &str| {
        pod.get("spec").and_then(|spec| spec[name].as_array()).cloned().unwrap_or_default()
    };
    for name in ["initContainers", "containers"] {
        for (index, (old, new)) in list(old, name).iter().zip(&list(new, name)).enumerate() {
            for kind in ["requests", "limits"] {
                let (old, new) = (&old["resources"][kind], &new["resources"][kind]);
                let lost = old.as_object().is_some_and(|old| old.keys().any(|key| new.get(key).is_none()));
                if lost {
                    let field = format!("spec.{name}[{index}].resources.{kind}");
                    causes.push(Cause::forbidden(&field, &format!("resource {kind} cannot be removed")));
                }
            }
        }
    }
    causes
}

/// What is wrong with other ephemeral containers of a pod: those that it has stay as they are.
pub(crate) fn check_ephemeral(old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
    let list = |pod: &JsonMap| {
        let list = pod.get("spec").and_then(|spec| spec["ephemeralContainers"].as_array());
        list.cloned().unwrap_or_default()
    };
    let asked: HashMap<String, Value> = list(new)
        .into_iter()
        .map(|container| (container["name"].as_str().unwrap_or_default().to_owned(), container))
        .collect();
    let mut causes = Vec::new();
    for container in list(old) {
        let name = container["name"].as_str().unwrap_or_default();
        let what = match asked.get(name) {
            None => "removed\n",
            // A real server shows the difference behind it.
            Some(other) if *other != container => "changed",
            Some(_) => continue,
        };
        let why = format!("existing ephemeral containers {name:?} may not be {what}");
        causes.push(Cause::forbidden("spec.ephemeralContainers", &why));
    }
    causes
}

/// The class of service that follows from what the containers request of CPU and memory.
pub(super) fn qos_class(pod: &JsonMap) -> &'static str {
    let lists =
        ["containers", "initContainers"].map(|list| pod.get("spec").and_then(|spec| spec[list].as_array()));
    let containers: Vec<&Value> = lists.into_iter().flatten().flatten().collect();
    let amount = |container: &Value, kind: &str, resource: &str| {
        container["resources"][kind][resource].as_str().filter(|amount| *amount != "0").map(str::to_owned)
    };
    let asks_nothing = containers.iter().all(|container| {
        ["requests", "limits"]
            .iter()
            .all(|kind| ["cpu", "memory"].iter().all(|resource| amount(container, kind, resource).is_none()))
    });
    if asks_nothing {
        return "BestEffort";
    }
    let is_guaranteed = containers.iter().all(|container| {
        ["cpu", "memory"].iter().all(|resource| {
            let limit = amount(container, "limits", resource);
            limit.is_some() && limit == amount(container, "requests", resource)
        })
    });
    if is_guaranteed { "Guaranteed" } else { "Burstable" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_service_follows_from_requests_and_limits() {
        let pod = |resources: Value| {
            let Value::Object(pod) = json!({"spec": {"containers": [{"resources": resources}]}}) else {
                panic!("an object")
            };
            qos_class(&pod)
        };
        assert_eq!(pod(json!({})), "BestEffort");
        assert_eq!(pod(json!({"requests": {"example.org/gpu": "1"}})), "BestEffort");
        assert_eq!(pod(json!({"requests": {"cpu": "1"}})), "Burstable");
        let same = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(pod(json!({"requests": same, "limits": same})), "Guaranteed");
        assert_eq!(pod(json!({"requests": {"cpu": "1", "memory": "2Gi"}, "limits": same})), "Burstable");
    }

    #[test]
    fn a_toleration_of_the_client_stands_for_the_servers() {
        let Value::Object(mut pod) = json!({"spec": {"tolerations": [{"operator": "Exists"}]}}) else {
            panic!("an object")
        };
        admit(&mut pod);
        assert_eq!(pod["spec"]["tolerations"], json!([{"operator": "Exists"}]));
        assert_eq!(
            (&pod["spec"]["priority"], &pod["spec"]["preemptionPolicy"]),
            (&json!(0), &json!("PreemptLowerPriority"))
        );
        let Value::Object(mut pod) = json!({"spec": {}}) else { panic!("an object") };
        admit(&mut pod);
        assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
    }
}
