//! What a server warns of when an object of a built-in kind is written: deprecated fields, and values that mean less than
//! they seem to. The object is valid, and stored all the same.

use serde_json::Value;

use super::pod_warnings;
use crate::api::JsonMap;
use crate::api::syntax::dns_label;
use crate::resources::Resource;

/// What warnings look at, of an object or of a template.
#[derive(Clone, Copy, PartialEq)]
struct Parts<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

impl<'a> Parts<'a> {
    fn of(object: &'a JsonMap) -> Self {
        let part = |name: &str| object.get(name).unwrap_or(&Value::Null);
        Self { metadata: part("metadata"), spec: part("spec") }
    }

    /// Of what is at a path of names.
    fn at(object: &'a JsonMap, path: &[&str]) -> Self {
        let Some((first, rest)) = path.split_first() else { return Self::of(object) };
        let start = object.get(*first).unwrap_or(&Value::Null);
        let found = rest.iter().fold(start, |value, name| &value[*name]);
        Self { metadata: &found["metadata"], spec: &found["spec"] }
    }
}

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
    let template: &[&str] = match (resource.group.as_str(), resource.name.as_str()) {
        ("", "pods") => &[],
        ("", "podtemplates") => &["template"],
        ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("", "replicationcontrollers")
        | ("batch", "jobs") => &["spec", "template"],
        ("batch", "cronjobs") => &["spec", "jobTemplate", "spec", "template"],
        _ => return of_other(resource, Parts::of(object), old.map(Parts::of)),
    };
    let mut warnings = Vec::new();
    let at = |object| Parts::at(object, template);
    let is_looked_at = match resource.name.as_str() {
        // People rarely change pods themselves.
        "pods" => old.is_none(),
        "daemonsets" => old.is_none_or(|old| at(old) != at(object)),
        _ => old.is_none() || counts,
    };
    let pod = at(object);
    let object = Parts::of(object);
    if old.is_none() {
        warnings.extend(name(resource, object));
    }
    if is_looked_at {
        warnings.extend(pod_warnings::of(&template.join("."), pod.metadata, pod.spec));
    }
    match resource.name.as_str() {
        "statefulsets" if object.spec["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) => {
            let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(format!("spec.revisionHistoryLimit: {why}"));
        }
        "cronjobs" if object.spec["schedule"].as_str().is_some_and(|schedule| schedule.contains("TZ")) => {
            warnings.push(
                "cannot use TZ or CRON_TZ in spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
        _ => {}
    }
    warnings
}

/// Names that are good for an object and bad for the pods that get them.
fn name(resource: &Resource, object: Parts<'_>) -> Option<String> {
    let used_in = match resource.name.as_str() {
        "pods" => "the Pod's hostname",
        "deployments" | "replicasets" | "replicationcontrollers" | "jobs" | "cronjobs" => {
            "Pod names and hostnames"
        }
        _ => return None,
    };
    let faults = dns_label(object.metadata["name"].as_str().unwrap_or_default());
    (!faults.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: \
             [{}]",
            faults.join(" ")
        )
    })
}

fn of_other(resource: &Resource, object: Parts<'_>, old: Option<Parts<'_>>) -> Vec<String> {
    let annotations = &object.metadata["annotations"];
    let annotated =
        |name: &str, why: &str| annotations.get(name).map(|_| format!("metadata.annotations[{name}]: {why}"));
    let mut warnings = Vec::new();
    match (resource.group.as_str(), resource.name.as_str()) {
        ("", "services") => service(object, &mut warnings),
        ("", "persistentvolumes") => {
            warnings.extend(annotated(
                "volume.beta.kubernetes.io/storage-class",
                "deprecated since v1.8; use \"storageClassName\" attribute instead",
            ));
            warnings.extend(annotated(
                "volume.beta.kubernetes.io/mount-options",
                "deprecated since v1.31; use \"mountOptions\" attribute instead",
            ));
            if object.spec["persistentVolumeReclaimPolicy"] == "Recycle" {
                warnings.push(
                    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
                     approach is to use dynamic provisioning."
                        .to_owned(),
                );
            }
            let terms = &object.spec["nodeAffinity"]["required"]["nodeSelectorTerms"];
            pod_warnings::node_terms("spec.nodeAffinity.required.nodeSelectorTerms", terms, &mut warnings);
            pod_warnings::old_volume("spec", object.spec, &mut warnings);
        }
        ("", "persistentvolumeclaims") => {
            warnings.extend(annotated(
                "volume.beta.kubernetes.io/storage-class",
                "deprecated since v1.8; use \"storageClassName\" attribute instead",
            ));
            for list in ["requests", "limits"] {
                let path = format!("spec.resources.{list}");
                pod_warnings::fraction(
                    &path,
                    "storage",
                    &object.spec["resources"][list]["storage"],
                    &mut warnings,
                );
            }
        }
        ("storage.k8s.io", "csidrivers") => {
            let spec = object.spec;
            let requests = &spec["tokenRequests"];
            let is_new = old.is_none_or(|old| old.spec["tokenRequests"] != *requests);
            let asks = requests.as_array().is_some_and(|list| !list.is_empty());
            if asks && is_new && spec["serviceAccountTokenInSecrets"].is_null() {
                warnings.push(
                    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
                     possible logging of tokens in volume attributes"
                        .to_owned(),
                );
            }
        }
        ("networking.k8s.io", "ingresses") => {
            let class = "kubernetes.io/ingress.class";
            if annotations.get(class).is_some() && object.spec["ingressClassName"].is_null() && old.is_none()
            {
                warnings.push(format!(
                    "annotation {class:?} is deprecated, please use 'spec.ingressClassName' instead"
                ));
            }
        }
        _ => {}
    }
    warnings
}

fn service(service: Parts<'_>, warnings: &mut Vec<String>) {
    let spec = service.spec;
    let has = |field: &str| match &spec[field] {
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    };
    if service.metadata["annotations"].get("service.kubernetes.io/topology-aware-hints").is_some() {
        warnings.push(
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
             service.kubernetes.io/topology-mode instead"
                .to_owned(),
        );
    }
    let is_headless = spec["type"] == "ClusterIP" && spec["clusterIP"] == "None";
    if is_headless {
        for field in ["loadBalancerIP", "externalIPs"] {
            if has(field) {
                warnings.push(format!("spec.{field} is ignored for headless services"));
            }
        }
        if spec["sessionAffinity"] != "None" {
            warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    let is_name = spec["type"] == "ExternalName";
    if has("externalIPs") && !is_headless && !is_name {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    if has("externalIPs") && is_name {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if has("externalName") && !is_name {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec["trafficDistribution"] == "PreferClose" {
        warnings.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
}
