//! The status of objects, when it is written through its own path: counts that fit together, and what a status cannot lose.

use std::collections::HashSet;

use super::node::{Node, field};
use crate::api::{JsonMap, syntax};
use crate::resources::Resource;
use crate::schema::Causes;

pub(super) fn check(resource: &Resource, object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    let status = field(object, "status");
    let nothing = JsonMap::new();
    let old = old.unwrap_or(&nothing);
    let earlier = field(old, "status");
    match (resource.group.as_str(), resource.name.as_str()) {
        ("", "replicationcontrollers") | ("apps", "replicasets") => {
            counts(
                &status,
                &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
                causes,
            );
            status.field("observedGeneration").non_negative(causes);
            status.field("terminatingReplicas").non_negative(causes);
            available(&status, "cannot be greater than readyReplicas", causes);
        }
        ("apps", "deployments") => {
            counts(&status, &["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"], causes);
            for name in ["observedGeneration", "unavailableReplicas", "terminatingReplicas"] {
                status.field(name).non_negative(causes);
            }
            available(&status, "cannot be greater than readyReplicas", causes);
            collisions(&status, &earlier, causes);
        }
        ("apps", "statefulsets") => {
            const COUNTS: &[&str] =
                &["replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
            counts(&status, COUNTS, causes);
            status.field("observedGeneration").non_negative(causes);
            available(&status, "cannot be greater than status.readyReplicas", causes);
            collisions(&status, &earlier, causes);
        }
        ("apps", "daemonsets") => {
            for name in [
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
            ] {
                status.field(name).non_negative(causes);
            }
            collisions(&status, &earlier, causes);
        }
        ("batch", "jobs") => job(object, &status, &earlier, causes),
        ("", "services") => balancer(object, &status, causes),
        ("", "namespaces") => namespace(object, &status, causes),
        ("", "pods") => {
            let class = status.field("qosClass");
            if class.value() != earlier.field("qosClass").value() {
                class.invalid(causes, "field is immutable");
            }
        }
        ("policy", "poddisruptionbudgets") => {
            conditions(&status, causes);
            for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
                status.field(name).non_negative(causes);
            }
        }
        _ => {}
    }
}

/// Numbers of replicas, of which the first is the largest.
fn counts(status: &Node<'_, '_>, names: &[&str], causes: &mut Causes) {
    let all = names.first().map_or(0, |name| status.field(name).int_or_zero());
    for name in names {
        let count = status.field(name);
        count.non_negative(causes);
        if count.int_or_zero() > all {
            count.invalid(causes, "cannot be greater than status.replicas");
        }
    }
}

fn available(status: &Node<'_, '_>, why: &str, causes: &mut Causes) {
    let available = status.field("availableReplicas");
    if available.int_or_zero() > status.field("readyReplicas").int_or_zero() {
        available.invalid(causes, why);
    }
}

fn collisions(status: &Node<'_, '_>, earlier: &Node<'_, '_>, causes: &mut Causes) {
    let count = status.field("collisionCount");
    count.non_negative(causes);
    let had = earlier.field("collisionCount").int();
    if had.is_some_and(|had| count.int().is_none_or(|count| count < had)) {
        count.invalid_number(causes, "cannot be decremented");
    }
}

fn job(object: &JsonMap, status: &Node<'_, '_>, earlier: &Node<'_, '_>, causes: &mut Causes) {
    for name in ["active", "succeeded", "failed", "ready", "terminating"] {
        status.field(name).non_negative(causes);
    }
    let changed = ["ready", "active"]
        .iter()
        .any(|name| status.field(name).int_or_zero() != earlier.field(name).int_or_zero());
    let ready = status.field("ready");
    if changed && ready.int_or_zero() > status.field("active").int_or_zero() {
        ready.invalid(causes, "cannot set more ready pods than active");
    }
    let spec = field(object, "spec");
    // Such a job may be made smaller.
    let is_elastic = spec.field("completionMode").text() == "Indexed"
        && spec.field("completions").value() == spec.field("parallelism").value();
    for (name, may_fall) in [("failed", false), ("succeeded", is_elastic)] {
        let count = status.field(name);
        if count.int_or_zero() < earlier.field(name).int_or_zero() && !may_fall {
            count.invalid_number(causes, &format!("cannot decrease the {name} counter"));
        }
    }
}

/// The addresses of a load balancer.
fn balancer(object: &JsonMap, status: &Node<'_, '_>, causes: &mut Causes) {
    let balancer = status.field("loadBalancer");
    let ingress = balancer.field("ingress");
    let (spec, kind) = (field(object, "spec"), "LoadBalancer");
    if spec.field("type").text() != kind && !ingress.is_empty() {
        return ingress.forbidden(causes, "may only be used when `spec.type` is 'LoadBalancer'");
    }
    for one in ingress.each() {
        let (address, mode, host) = (one.field("ip"), one.field("ipMode"), one.field("hostname"));
        let has_address = !address.text().is_empty();
        match (has_address, mode.is_set()) {
            (true, false) => mode.required(causes, "must be specified when `ip` is set"),
            (false, true) => mode.forbidden(causes, "may not be specified when `ip` is not set"),
            (true, true) => mode.one_of(causes, &["Proxy", "VIP"]),
            (false, false) => {}
        }
        if !host.text().is_empty() {
            host.faults(causes, syntax::dns_subdomain(host.text()));
        }
    }
}

fn namespace(object: &JsonMap, status: &Node<'_, '_>, causes: &mut Causes) {
    let is_ending = field(object, "metadata").field("deletionTimestamp").is_set();
    let (phase, why) = match is_ending {
        true => ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
        false => ("Active", "may only be 'Active' if `deletionTimestamp` is empty"),
    };
    let found = status.field("phase");
    if found.text() != phase {
        found.named("Phase").invalid_as(causes, &found.text().into(), why);
    }
}

/// Conditions as most kinds have them.
fn conditions(status: &Node<'_, '_>, causes: &mut Causes) {
    let mut seen = HashSet::new();
    for condition in status.field("conditions").each() {
        let (kind, reason) = (condition.field("type"), condition.field("reason"));
        if !seen.insert(kind.text()) {
            kind.duplicate(causes);
        }
        kind.faults(causes, syntax::qualified_name(kind.text()));
        condition.field("status").one_of(causes, &["False", "True", "Unknown"]);
        if condition.field("observedGeneration").int_or_zero() < 0 {
            condition
                .field("observedGeneration")
                .invalid_number(causes, "must be greater than or equal to zero");
        }
        if !condition.field("lastTransitionTime").is_set() {
            condition.field("lastTransitionTime").required(causes, "");
        }
        if reason.is_given(causes) {
            reason.faults(causes, syntax::condition_reason(reason.text()));
        }
        for (text, limit) in [(reason, 1 << 10), (condition.field("message"), 32 << 10)] {
            if text.text().len() > limit {
                text.too_long(causes, limit);
            }
        }
    }
}
