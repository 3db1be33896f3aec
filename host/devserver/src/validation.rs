//! Values of built-in kinds that a server refuses: those of fields that have a list of values, and selectors that do not match
//! the labels of their own template. The lists and their order are those of the real server's messages.
//!
//! What must be there and is not, is not looked for.

use serde_json::Value;

use crate::api::Cause;
use crate::resources::Resource;

type Values = &'static [&'static str];

const PROTOCOLS: Values = &["SCTP", "TCP", "UDP"];

/// Fields of a Pod's spec.
const POD: &[(&str, Values)] = &[
    ("restartPolicy", &["Always", "OnFailure", "Never"]),
    ("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
    ("containers[].imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
    ("containers[].terminationMessagePolicy", &["File", "FallbackToLogsOnError"]),
    ("containers[].ports[].protocol", PROTOCOLS),
];

/// Fields of other kinds.
fn fields(resource: &Resource) -> &'static [(&'static str, Values)] {
    match (resource.group.as_str(), resource.name.as_str()) {
        ("apps", "deployments" | "replicasets" | "daemonsets" | "statefulsets") => {
            &[("spec.template.spec.restartPolicy", &["Always"])]
        }
        ("batch", "jobs") => &[("spec.completionMode", &["NonIndexed", "Indexed"])],
        ("batch", "cronjobs") => &[("spec.concurrencyPolicy", &["Allow", "Forbid", "Replace"])],
        ("", "services") => &[
            ("spec.ports[].protocol", PROTOCOLS),
            ("spec.sessionAffinity", &["ClientIP", "None"]),
            ("spec.type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]),
        ],
        ("networking.k8s.io", "ingresses") => {
            &[("spec.rules[].http.paths[].pathType", &["Exact", "ImplementationSpecific", "Prefix"])]
        }
        ("rbac.authorization.k8s.io", "rolebindings") => &[
            ("roleRef.kind", &["Role", "ClusterRole"]),
            ("subjects[].kind", &["ServiceAccount", "User", "Group"]),
        ],
        ("", "persistentvolumeclaims") => {
            &[("spec.accessModes", &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"])]
        }
        _ => &[],
    }
}

/// Where the spec of a kind's Pods is.
fn pod_spec(resource: &Resource) -> Option<&'static str> {
    match (resource.group.as_str(), resource.name.as_str()) {
        ("", "pods") => Some("spec"),
        ("apps", "deployments" | "replicasets" | "daemonsets" | "statefulsets") | ("batch", "jobs") => {
            Some("spec.template.spec")
        }
        ("", "replicationcontrollers") => Some("spec.template.spec"),
        ("batch", "cronjobs") => Some("spec.jobTemplate.spec.template.spec"),
        _ => None,
    }
}

/// What a server has against the values of an object.
pub(crate) fn validate(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(spec) = pod_spec(resource) {
        for (field, values) in POD {
            let is_said_below = fields(resource).iter().any(|(path, _)| *path == format!("{spec}.{field}"));
            if !is_said_below {
                look(object, &format!("{spec}.{field}"), String::new(), values, &mut causes);
            }
        }
    }
    for (field, values) in fields(resource) {
        look(object, field, String::new(), values, &mut causes);
    }
    causes.extend(selector(resource, object));
    causes
}

/// How many causes are named.
const MAX_CAUSES: usize = 100;

/// Follows the rest of a path, `path` being what led here.
fn look(value: &Value, rest: &str, path: String, values: Values, causes: &mut Vec<Cause>) {
    let (name, rest) = rest.split_once('.').unwrap_or((rest, ""));
    let (name, is_list) = name.strip_suffix("[]").map_or((name, false), |name| (name, true));
    let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (&value[name], is_list) {
        (Value::Array(list), true) => {
            for (index, element) in list.iter().enumerate() {
                look(element, rest, format!("{path}[{index}]"), values, causes);
            }
        }
        (Value::Array(list), false) if rest.is_empty() => {
            list.iter().for_each(|one| check(one, &path, values, causes));
        }
        (value, false) if rest.is_empty() => check(value, &path, values, causes),
        (value, false) => look(value, rest, path, values, causes),
        _ => {}
    }
}

fn check(value: &Value, path: &str, values: Values, causes: &mut Vec<Cause>) {
    let text = value.as_str().unwrap_or_default();
    if !text.is_empty() && !values.contains(&text) && causes.len() < MAX_CAUSES {
        causes.push(Cause::not_supported(path, text, values));
    }
}

/// A workload whose selector does not match the labels that it gives its Pods.
fn selector(resource: &Resource, object: &Value) -> Option<Cause> {
    if resource.group != "apps" {
        return None;
    }
    let wanted = object["spec"]["selector"]["matchLabels"].as_object()?;
    let labels = object["spec"]["template"]["metadata"]["labels"].as_object()?;
    let matches = wanted.iter().all(|(name, value)| labels.get(name) == Some(value));
    (!matches).then(|| Cause {
        reason: "FieldValueInvalid",
        message: format!(
            "Invalid value: {}: `selector` does not match template `labels`",
            Value::Object(labels.clone())
        ),
        field: "spec.template.metadata.labels".to_owned(),
    })
}
