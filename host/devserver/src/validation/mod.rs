//! What a server refuses of built-in kinds: fields that are missing, values that are none of those of their field, names that
//! are none, numbers out of their range, and what does not fit together.
//!
//! ```text
//! an object, complete and in Go's form ─► metadata ─► the check of its kind ─► Causes
//! ```
//!
//! The checks follow the order in which the real server names its causes, and its words: people know them, and so do programs.
//! A check is a plain function of a [`Node`](node::Node), which knows its path. A test beside the real server
//! (`tests/tests/peers/validation`) breaks objects of all these kinds at random and compares the answers.
//!
//! Invariants: each check takes one step a value, whatever the object is; duplicates are found by hashing; the list of causes is
//! bounded; nothing is written for an object with which nothing is wrong.

mod access;
mod addresses;
mod admission;
mod admission_policies;
mod api_services;
mod autoscaling;
mod certificates;
mod claims;
mod config;
mod containers;
mod device_claims;
mod device_slices;
mod devices;
mod endpoints;
mod environment;
mod events;
mod flow;
mod int_or_percent;
mod jobs;
mod leases;
mod metadata;
mod network;
mod node;
mod nodes;
mod paths;
mod pem;
mod pod_groups;
mod pods;
mod policy;
mod probes;
mod projected;
mod quota;
mod request_policy;
mod resources;
mod schedule;
mod scheduling;
mod security;
mod selector;
mod services;
mod sources;
mod status;
mod storage;
mod volumes;
mod windows;
mod workloads;

use serde_json::Value;

use crate::api::syntax;
use crate::api::{Cause, JsonMap};
use crate::resources::Resource;
use crate::schema::{Causes, shown};
use node::Node;

pub(crate) use addresses::canonical_fault;
pub(crate) use metadata::{MetadataOf, check_metadata};
pub(crate) use scheduling::{node_term_in_go, node_terms_in_go};

/// What a server has against an object of a built-in kind, apart from its metadata; `old` is the state that it replaces.
pub(crate) fn validate(resource: &Resource, object: &JsonMap, old: Option<&JsonMap>) -> Vec<Cause> {
    let mut causes = Causes::default();
    check(resource, object, old, &mut causes);
    causes.into_vec()
}

/// What a server has against the status of an object of a built-in kind that is written through its own path.
pub(crate) fn validate_status(resource: &Resource, object: &JsonMap, old: Option<&JsonMap>) -> Vec<Cause> {
    let mut causes = Causes::default();
    status::check(resource, object, old, &mut causes);
    causes.into_vec()
}

/// What a server has against the series that an event has got.
pub(crate) fn event_series(object: &JsonMap) -> Vec<Cause> {
    let mut causes = Causes::default();
    events::series(object, &mut causes);
    causes.into_vec()
}

/// Whether a server that has something against a new object names this alone and nothing about its metadata, at which it looks later.
pub(crate) fn is_named_alone(resource: &Resource, object: &JsonMap) -> bool {
    match (resource.group.as_str(), resource.name.as_str()) {
        ("policy", "poddisruptionbudgets") | ("", "events") => true,
        ("", "services") => services::has_wrong_addresses(object),
        _ => false,
    }
}

fn check(resource: &Resource, object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    let is_new = old.is_none();
    match (resource.group.as_str(), resource.name.as_str()) {
        ("", "pods") => pods::pod(object, is_new, causes),
        ("", "podtemplates") => workloads::pod_template(object, causes),
        ("", "replicationcontrollers") => workloads::replication_controller(object, causes),
        ("apps", "deployments") => workloads::deployment(object, causes),
        ("apps", "replicasets") => workloads::replica_set(object, causes),
        ("apps", "daemonsets") => workloads::daemon_set(object, causes),
        ("apps", "statefulsets") => workloads::stateful_set(object, is_new, causes),
        ("apps", "controllerrevisions") => workloads::controller_revision(object, is_new, causes),
        ("batch", "jobs") => jobs::job(object, old, causes),
        ("batch", "cronjobs") => jobs::cron_job(object, old, causes),
        ("", "services") => services::service(object, causes),
        ("", "configmaps") => config::config_map(object, causes),
        ("", "secrets") => config::secret(object, causes),
        ("", "namespaces") => config::namespace(object, causes),
        ("", "nodes") => nodes::node(object, causes),
        ("", "persistentvolumeclaims") => claims::claim(object, causes),
        ("", "persistentvolumes") => claims::volume(object, causes),
        ("", "resourcequotas") => quota::resource_quota(object, causes),
        ("", "limitranges") => quota::limit_range(object, causes),
        ("", "endpoints") => endpoints::endpoints(object, causes),
        ("", "events") => events::event(object, true, is_new, causes),
        ("events.k8s.io", "events") => events::event(object, false, is_new, causes),
        ("discovery.k8s.io", "endpointslices") => endpoints::slice(object, old, causes),
        ("networking.k8s.io", "ingresses") => network::ingress(object, is_new, causes),
        ("networking.k8s.io", "ingressclasses") => network::ingress_class(object, causes),
        ("networking.k8s.io", "networkpolicies") => network::network_policy(object, causes),
        ("networking.k8s.io", "ipaddresses") => network::ip_address(object, causes),
        ("networking.k8s.io", "servicecidrs") => network::service_cidr(object, causes),
        ("rbac.authorization.k8s.io", "roles") => access::role(object, causes),
        ("rbac.authorization.k8s.io", "clusterroles") => access::cluster_role(object, causes),
        ("rbac.authorization.k8s.io", "rolebindings") => access::role_binding(object, causes),
        ("rbac.authorization.k8s.io", "clusterrolebindings") => access::cluster_role_binding(object, causes),
        ("autoscaling", "horizontalpodautoscalers") => autoscaling::autoscaler(object, old, causes),
        ("policy", "poddisruptionbudgets") => policy::disruption_budget(object, causes),
        ("scheduling.k8s.io", "priorityclasses") => policy::priority_class(object, causes),
        ("node.k8s.io", "runtimeclasses") => policy::runtime_class(object, causes),
        ("coordination.k8s.io", "leases") => leases::lease(object, causes),
        ("coordination.k8s.io", "leasecandidates") => leases::candidate(object, causes),
        ("storage.k8s.io", "storageclasses") => storage::storage_class(object, causes),
        ("storage.k8s.io", "volumeattributesclasses") => storage::volume_attributes_class(object, causes),
        ("storage.k8s.io", "csidrivers") => storage::driver(object, causes),
        ("storage.k8s.io", "csinodes") => storage::drivers_of_node(object, causes),
        ("storage.k8s.io", "csistoragecapacities") => storage::storage_capacity(object, causes),
        ("storage.k8s.io", "volumeattachments") => storage::attachment(object, causes),
        ("certificates.k8s.io", "certificatesigningrequests") => {
            certificates::signing_request(object, causes);
        }
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => flow::flow_schema(object, causes),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => {
            flow::priority_level(object, causes);
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => {
            admission_policies::validating_policy(object, old, causes);
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => {
            admission_policies::validating_binding(object, causes);
        }
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies") => {
            admission_policies::mutating_policy(object, old, causes);
        }
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings") => {
            admission_policies::mutating_binding(object, causes);
        }
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations" | "mutatingwebhookconfigurations",
        ) => admission::webhooks(object, causes),
        ("certificates.k8s.io", "clustertrustbundles") => certificates::trust_bundle(object, old, causes),
        ("certificates.k8s.io", "podcertificaterequests") => {
            certificates::pod_request(object, is_new, causes);
        }
        ("apiregistration.k8s.io", "apiservices") => api_services::api_service(object, causes),
        ("storagemigration.k8s.io", "storageversionmigrations") => api_services::migration(object, causes),
        ("scheduling.k8s.io", "workloads") => pod_groups::workload(object, old, causes),
        ("scheduling.k8s.io", "podgroups") => pod_groups::pod_group(object, old, causes),
        ("resource.k8s.io", "resourcepoolstatusrequests") => {
            devices::pool_status_request(object, old, causes);
        }
        ("resource.k8s.io", "deviceclasses") => devices::class(object, old, causes),
        ("resource.k8s.io", "devicetaintrules") => devices::taint_rule(object, old, causes),
        ("resource.k8s.io", "resourceclaims") => device_claims::claim(object, is_new, causes),
        ("resource.k8s.io", "resourceclaimtemplates") => device_claims::template(object, causes),
        ("resource.k8s.io", "resourceslices") => device_slices::slice(object, old, causes),
        _ => {}
    }
}

/// A value in the form of some messages: with the names that its fields have in Go, in the order of the struct. `fields` has the
/// name of each field and the text of its empty value.
fn in_go(value: &Value, fields: &[(&str, &str)]) -> String {
    in_go_with(value, fields, &[])
}

/// As [`in_go`], where some fields are structs too and have been written already.
fn in_go_with(value: &Value, fields: &[(&str, &str)], written: &[(&str, String)]) -> String {
    let parts: Vec<String> = fields
        .iter()
        .map(|(name, absent)| {
            let mut field = (*name).to_owned();
            let capitals = if name.starts_with("SELinux") { 2 } else { 1 };
            field[..capitals].make_ascii_lowercase();
            let known = written.iter().find(|(known, _)| known == name).map(|(_, text)| text.clone());
            let own = || value.get(&field).filter(|value| !value.is_null()).map(shown);
            format!("\"{name}\":{}", known.or_else(own).unwrap_or_else(|| (*absent).to_owned()))
        })
        .collect();
    format!("{{{}}}", parts.join(","))
}

/// A list or a map as messages show it: `null` if there is none.
fn shown_or_null(value: &Value) -> String {
    if value.is_null() { "null".to_owned() } else { shown(value) }
}

/// `example.com/any/path`.
fn domain_prefixed_path(at: &Node<'_, '_>, causes: &mut Causes) {
    if !at.is_given(causes) {
        return;
    }
    let parts = at.text().split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty());
    let Some((host, path)) = parts else {
        return at.invalid(causes, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    at.faults_of(causes, host, syntax::dns_subdomain(host));
    let is_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !path.bytes().all(is_path) {
        let why = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        at.invalid_as(causes, &path.into(), why);
    }
}

#[cfg(test)]
mod tests;
