//! What the server knows of particular kinds: their names, what it fills in and what it keeps out of clients' hands, the
//! fields that select, and the two kinds whose versions differ in form.
//!
//! Everything else about a kind is in `tables/`. Defaults are limited to what clients and controllers trip over when it is
//! missing; those of custom resources are in their schemas.

mod convert;
mod fields;
mod pods;
mod prepare;
mod services;

pub(crate) use convert::{carry_over, from_stored, needs_conversion, to_stored};
pub(crate) use fields::{FieldFilter, fields};
pub(crate) use prepare::{prepare_create, prepare_update};
pub(crate) use services::{Numbers, complete_service};

use serde_json::Value;

use crate::api::NameRule;
use crate::resources::Resource;

/// Which names the resource takes.
pub(crate) fn name_rule(resource: &Resource) -> NameRule {
    match (resource.group.as_str(), resource.name.as_str()) {
        ("", "namespaces" | "services") => NameRule::Label,
        ("rbac.authorization.k8s.io" | "certificates.k8s.io", _) | ("" | "events.k8s.io", "events") => {
            NameRule::Segment
        }
        _ => NameRule::Subdomain,
    }
}

/// Whether the resource counts changes of its spec in `metadata.generation`.
pub(crate) fn keeps_generation(resource: &Resource) -> bool {
    resource.is_custom()
        || matches!(
            (resource.group.as_str(), resource.name.as_str()),
            ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
                | ("batch", "jobs" | "cronjobs")
                | ("policy", "poddisruptionbudgets")
                | ("networking.k8s.io", "ingresses" | "networkpolicies")
                | ("", "pods" | "podtemplates" | "replicationcontrollers")
                | ("scheduling.k8s.io", "priorityclasses")
                | (
                    "apiextensions.k8s.io" | "admissionregistration.k8s.io" | "flowcontrol.apiserver.k8s.io",
                    _
                )
                | ("discovery.k8s.io", "endpointslices")
        )
}

/// Whether the answer to a deletion is the object itself, not a `Status`.
pub(crate) fn answers_deleted(resource: &Resource) -> bool {
    match resource.group.as_str() {
        "apiextensions.k8s.io" => true,
        "" => matches!(
            resource.name.as_str(),
            "pods"
                | "namespaces"
                | "replicationcontrollers"
                | "services"
                | "serviceaccounts"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "podtemplates"
                | "resourcequotas"
        ),
        "storage.k8s.io" => resource.name == "storageclasses",
        _ => false,
    }
}

/// Whether an object that is deleted waits for what is in it.
pub(crate) fn empties_itself(resource: &Resource) -> bool {
    resource.is("", "namespaces") || resource.is("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Whether a PUT must say from which version it was made.
pub(crate) fn needs_version(resource: &Resource) -> bool {
    resource.is_custom()
        || resource.is("coordination.k8s.io", "leases")
        || resource.is("policy", "poddisruptionbudgets")
}

/// Whether a PUT makes an object that is not there.
pub(crate) fn creates_on_update(resource: &Resource) -> bool {
    match resource.group.as_str() {
        "coordination.k8s.io" => resource.name == "leases",
        "rbac.authorization.k8s.io" => true,
        "events.k8s.io" => resource.name == "events",
        "" => matches!(
            resource.name.as_str(),
            "events" | "endpoints" | "services" | "limitranges" | "resourcequotas" | "podtemplates"
        ),
        _ => false,
    }
}

/// Seconds that the object stays when its deletion names none; `None` for kinds that go at once.
pub(crate) fn grace(resource: &Resource, object: &Value) -> Option<i64> {
    if !resource.is("", "pods") {
        return None;
    }
    let node = object["spec"]["nodeName"].as_str().unwrap_or_default();
    let ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if node.is_empty() || ended {
        return Some(0);
    }
    Some(object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30))
}
