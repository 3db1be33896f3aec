//! What a server refuses of built-in kinds: fields that are missing, values that are none of those of their field, names that
//! are none, numbers out of their range, and what does not fit together.
//!
//! ```text
//! an object, complete and in Go's form ─► metadata ─► the check of its kind ─► Causes
//! ```
//!
//! Checked are the kinds that controllers write. All others are stored as they come, if their fields have the right types. An
//! object is taken or refused as by a real server, with the same reason and field of each cause; words and order are free.
//! A check is a plain function of a [`Node`](node::Node), which knows its path. A test beside the real server
//! (`tests/tests/peers/validation`) breaks objects of all these kinds at random and compares the answers.
//!
//! Invariants: each check takes one step a value, whatever the object is; duplicates are found by hashing; the list of causes is
//! bounded; nothing is written for an object with which nothing is wrong.

mod access;
mod addresses;
mod autoscaling;
mod claims;
mod config;
mod containers;
mod endpoints;
mod environment;
mod events;
mod int_or_percent;
mod jobs;
mod leases;
mod metadata;
mod network;
mod node;
mod paths;
mod pods;
mod policy;
mod probes;
mod projected;
mod resources;
mod schedule;
mod scheduling;
mod security;
mod selector;
mod services;
mod sources;
mod status;
mod volumes;
mod workloads;

use crate::api::syntax;
use crate::api::{Cause, JsonMap};
use crate::resources::Resource;
use crate::schema::Causes;
use node::Node;

pub(crate) use addresses::canonical_fault;
pub(crate) use metadata::{MetadataOf, check_metadata};

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
        ("", "persistentvolumeclaims") => claims::claim(object, causes),
        ("", "events") => events::event(object, true, is_new, causes),
        ("events.k8s.io", "events") => events::event(object, false, is_new, causes),
        ("discovery.k8s.io", "endpointslices") => endpoints::slice(object, old, causes),
        ("networking.k8s.io", "ingresses") => network::ingress(object, is_new, causes),
        ("networking.k8s.io", "networkpolicies") => network::network_policy(object, causes),
        ("rbac.authorization.k8s.io", "roles") => access::role(object, causes),
        ("rbac.authorization.k8s.io", "clusterroles") => access::cluster_role(object, causes),
        ("rbac.authorization.k8s.io", "rolebindings") => access::role_binding(object, causes),
        ("rbac.authorization.k8s.io", "clusterrolebindings") => access::cluster_role_binding(object, causes),
        ("autoscaling", "horizontalpodautoscalers") => autoscaling::autoscaler(object, old, causes),
        ("policy", "poddisruptionbudgets") => policy::disruption_budget(object, causes),
        ("coordination.k8s.io", "leases") => leases::lease(object, causes),
        _ => {}
    }
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
