//! What a server warns of when an object of a built-in kind is written, as far as people meet it often. The object is valid,
//! and stored all the same. Of unknown fields and deprecated versions others warn.

use std::collections::HashSet;

use serde_json::Value;

use crate::api::JsonMap;
use crate::api::syntax::dns_label;
use crate::resources::Resource;

/// The warnings of an object that is made, or that follows `old`. `counts` says whether its generation has gone up: templates
/// are looked at only then.
pub(crate) fn warnings(
    resource: &Resource,
    object: &JsonMap,
    old: Option<&JsonMap>,
    counts: bool,
) -> Vec<String> {
    if resource.is_custom() {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    let part = |name: &str| object.get(name).unwrap_or(&Value::Null);
    let template: &[&str] = match (resource.group.as_str(), resource.name.as_str()) {
        ("", "pods") => &["spec"],
        ("", "podtemplates") => &["template", "spec"],
        ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("", "replicationcontrollers")
        | ("batch", "jobs") => &["spec", "template", "spec"],
        ("batch", "cronjobs") => &["spec", "jobTemplate", "spec", "template", "spec"],
        ("networking.k8s.io", "ingresses") => {
            let class = "kubernetes.io/ingress.class";
            let is_named = part("metadata")["annotations"].get(class).is_some();
            if is_named && part("spec")["ingressClassName"].is_null() && old.is_none() {
                warnings.push(format!(
                    "annotation {class:?} is deprecated, please use 'spec.ingressClassName' instead"
                ));
            }
            return warnings;
        }
        _ => return warnings,
    };
    if old.is_none() {
        warnings.extend(name(resource, part("metadata")));
    }
    // People rarely change pods themselves.
    if old.is_none() || counts && resource.name != "pods" {
        let spec = template[1..].iter().fold(part(template[0]), |value, name| &value[*name]);
        for list in ["initContainers", "containers"] {
            for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
                environment(&format!("{}.{list}[{index}]", template.join(".")), container, &mut warnings);
            }
        }
    }
    if resource.name == "cronjobs"
        && part("spec")["schedule"].as_str().is_some_and(|text| text.contains("TZ"))
    {
        warnings.push(
            "cannot use TZ or CRON_TZ in spec.schedule, use timeZone instead, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                .to_owned(),
        );
    }
    warnings
}

/// Names that are good for an object and bad for the pods that get them.
fn name(resource: &Resource, metadata: &Value) -> Option<String> {
    let used_in = match resource.name.as_str() {
        "pods" => "the Pod's hostname",
        "deployments" | "replicasets" | "replicationcontrollers" | "jobs" | "cronjobs" => {
            "Pod names and hostnames"
        }
        _ => return None,
    };
    let faults = dns_label(metadata["name"].as_str().unwrap_or_default());
    (!faults.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: \
             [{}]",
            faults.join(" ")
        )
    })
}

/// Variables that hide an earlier one of their name and do not refer to it.
fn environment(path: &str, container: &Value, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for (index, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
        let name = variable["name"].as_str().unwrap_or_default();
        if seen.insert(name) {
            continue;
        }
        let (reference, value) = (format!("$({name})"), variable["value"].as_str().unwrap_or_default());
        if !variable["valueFrom"].is_null() || value == reference || !value.contains(&reference) {
            warnings.push(format!(
                "{path}.env[{index}]: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}
