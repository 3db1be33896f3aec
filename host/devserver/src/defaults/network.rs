//! Rules of Services and NetworkPolicies.

use serde_json::{Value, json};

use super::{Rule, each, give, has_none, lacks, part, set, text};
use crate::api::JsonMap;

/// Three hours.
const AFFINITY_SECONDS: i64 = 10_800;

pub(super) const RULES: &[Rule] = &[
    Rule {
        on: "io.k8s.api.core.v1.Service",
        gives: &[
            "core.v1.ServiceSpec.allocateLoadBalancerNodePorts",
            "core.v1.ServiceSpec.externalTrafficPolicy",
            "core.v1.ServiceSpec.internalTrafficPolicy",
            "core.v1.ServiceSpec.sessionAffinityConfig",
            "core.v1.SessionAffinityConfig.clientIP",
            "core.v1.ClientIPConfig.timeoutSeconds",
            "core.v1.LoadBalancerIngress.ipMode",
        ],
        apply: service,
    },
    Rule {
        on: "io.k8s.api.core.v1.ServicePort",
        gives: &["core.v1.ServicePort.targetPort"],
        apply: |port| {
            let target = port.get("targetPort");
            if target.is_none_or(|target| target.is_null() || *target == 0 || *target == "") {
                let own = port.get("port").cloned().unwrap_or_default();
                set(port, "targetPort", own);
            }
        },
    },
    Rule {
        on: "io.k8s.api.networking.v1.NetworkPolicySpec",
        gives: &["networking.v1.NetworkPolicySpec.policyTypes"],
        apply: |spec| {
            if has_none(spec, "policyTypes") {
                let types =
                    if has_none(spec, "egress") { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
                set(spec, "policyTypes", types);
            }
        },
    },
];

fn service(service: &mut JsonMap) {
    let Some(spec) = part(service, "spec") else { return };
    match text(spec, "sessionAffinity") {
        "" | "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let given = spec.get("sessionAffinityConfig").and_then(|c| c.pointer("/clientIP/timeoutSeconds"));
            if given.is_none_or(Value::is_null) {
                set(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}}));
            }
        }
        _ => {}
    }
    let service_type = match text(spec, "type") {
        "" => "ClusterIP".to_owned(),
        named => named.to_owned(),
    };
    let is_external = matches!(&*service_type, "LoadBalancer" | "NodePort")
        || service_type == "ClusterIP" && !has_none(spec, "externalIPs");
    if is_external && text(spec, "externalTrafficPolicy").is_empty() {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if lacks(spec, "internalTrafficPolicy")
        && matches!(&*service_type, "NodePort" | "LoadBalancer" | "ClusterIP")
    {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    if service_type == "LoadBalancer" {
        give(spec, "allocateLoadBalancerNodePorts", true);
        if let Some(status) = part(service, "status")
            && let Some(balancer) = part(status, "loadBalancer")
        {
            for ingress in each(balancer, "ingress").filter(|ingress| !text(ingress, "ip").is_empty()) {
                give(ingress, "ipMode", "VIP");
            }
        }
    }
}
