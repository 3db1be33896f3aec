//! Services.

use std::collections::HashSet;

use super::addresses::{cidr_of, endpoint, ip_address, lenient};
use super::containers::PROTOCOLS;
use super::metadata::labels;
use super::node::{Node, field};
use crate::api::{JsonMap, syntax};
use crate::schema::Causes;

const LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

pub(super) fn service(object: &JsonMap, causes: &mut Causes) {
    let (metadata, spec) = (field(object, "metadata"), field(object, "spec"));
    // A server allocates before it looks at anything else.
    allocated(&spec, causes);
    if !causes.is_empty() {
        return;
    }
    let annotations = metadata.field("annotations");
    topology(&annotations, causes);
    let (kind, ports) = (spec.field("type"), spec.field("ports"));
    let is_headless = is_headless(&spec);
    if ports.is_empty() && !is_headless && kind.text() != "ExternalName" {
        ports.required(causes, "");
    }
    match kind.text() {
        "LoadBalancer" | "NodePort" if is_headless => {
            let why = format!("may not be set to 'None' for {} services", kind.text());
            spec.field("clusterIPs").index(0).invalid(causes, &why);
        }
        "ExternalName" => external_name(&spec, causes),
        _ => {}
    }
    let mut names = HashSet::new();
    for port in ports.each() {
        service_port(&port, ports.len() > 1, &mut names, causes);
    }
    labels(&spec.field("selector"), causes);
    affinity(&spec, causes);
    for address in spec.field("externalIPs").each() {
        if ip_address(&address, causes) {
            endpoint(&address, causes);
        }
    }
    kind.given_one_of(causes, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    if kind.text() == "ClusterIP" {
        for port in ports.each().filter(|port| port.field("nodePort").int_or_zero() != 0) {
            port.field("nodePort").forbidden(causes, "may not be used when `type` is 'ClusterIP'");
        }
    }
    duplicates(&ports, causes);
    source_ranges(&spec, &annotations, causes);
    load_balancer(&spec, causes);
    traffic(&spec, causes);
}

fn is_headless(spec: &Node<'_, '_>) -> bool {
    let addresses = spec.field("clusterIPs");
    addresses.len() == 1 && addresses.index(0).text() == "None"
}

fn topology(annotations: &Node<'_, '_>, causes: &mut Causes) {
    let hints = annotations.key("service.kubernetes.io/topology-aware-hints");
    let mode = annotations.key("service.kubernetes.io/topology-mode");
    if hints.is_set() && mode.is_set() && hints.text() != mode.text() {
        let why =
            "must match annotations[service.kubernetes.io/topology-aware-hints] when both are specified";
        mode.invalid(causes, why);
    }
}

fn external_name(spec: &Node<'_, '_>, causes: &mut Causes) {
    const WHY: &str = "may not be set for ExternalName services";
    for name in ["clusterIPs", "ipFamilies"] {
        if !spec.field(name).is_empty() {
            spec.field(name).forbidden(causes, WHY);
        }
    }
    if spec.field("ipFamilyPolicy").is_set() {
        spec.field("ipFamilyPolicy").forbidden(causes, WHY);
    }
    let at = spec.field("externalName");
    let name = at.text().strip_suffix('.').unwrap_or(at.text());
    if name.is_empty() {
        at.required(causes, "");
    } else {
        at.faults_of(causes, name, syntax::dns_subdomain(name));
    }
}

fn service_port<'v>(
    port: &Node<'_, 'v>,
    needs_name: bool,
    names: &mut HashSet<&'v str>,
    causes: &mut Causes,
) {
    let name = port.field("name");
    if name.text().is_empty() {
        if needs_name {
            name.required(causes, "");
        }
    } else {
        name.faults(causes, syntax::dns_label(name.text()));
        if !names.insert(name.text()) {
            name.duplicate(causes);
        }
    }
    port.field("port").port_number(causes);
    port.field("protocol").given_one_of(causes, PROTOCOLS);
    port.field("targetPort").port(causes);
    port.field("appProtocol").if_set(causes, syntax::qualified_name);
}

fn affinity(spec: &Node<'_, '_>, causes: &mut Causes) {
    const WHY: &str = "when session affinity type is ClientIP";
    let (affinity, config) = (spec.field("sessionAffinity"), spec.field("sessionAffinityConfig"));
    affinity.given_one_of(causes, &["ClientIP", "None"]);
    match affinity.text() {
        "None" if config.is_set() => {
            config.forbidden(causes, "must not be set when session affinity is None");
        }
        "ClientIP" => {
            let client = config.field("clientIP");
            let timeout = client.field("timeoutSeconds");
            if let Some(missing) = [&config, &client, &timeout].into_iter().find(|part| !part.is_set()) {
                missing.required(causes, WHY);
            } else if !(1..=86400).contains(&timeout.int_or_zero()) {
                timeout.invalid(causes, "must be greater than 0 and less than 86400");
            }
        }
        _ => {}
    }
}

/// What stands against the addresses of a Service before these are allocated.
fn allocated(spec: &Node<'_, '_>, causes: &mut Causes) {
    addresses(spec, causes);
    let is_open = spec.field("clusterIP").text() == "None" && spec.field("selector").is_empty();
    if !causes.is_empty() || is_open || spec.field("type").text() == "ExternalName" {
        return;
    }
    let policy = spec.field("ipFamilyPolicy");
    if policy.text() == "RequireDualStack" {
        policy.invalid(causes, "this cluster is not configured for dual-stack services");
    }
    let families = spec.field("ipFamilies");
    for family in families.each().filter(|family| family.text() != "IPv4") {
        family.invalid(causes, "not configured on this cluster");
    }
}

/// Addresses of the cluster and their families.
fn addresses(spec: &Node<'_, '_>, causes: &mut Causes) {
    if spec.field("type").text() == "ExternalName" {
        return;
    }
    let (first, all) = (spec.field("clusterIP"), spec.field("clusterIPs"));
    if first.text().is_empty() {
        if !all.is_empty() {
            all.invalid(causes, "must be empty when `clusterIP` is not specified");
        }
    } else if all.is_empty() {
        all.required(causes, "");
    } else if all.index(0).text() != first.text() {
        all.invalid(causes, "first value must match `clusterIP`");
    }
    let families = spec.field("ipFamilies");
    let mut seen = HashSet::new();
    for family in families.each() {
        family.one_of(causes, &["IPv4", "IPv6"]);
        if !seen.insert(family.text()) {
            family.duplicate(causes);
        }
    }
    spec.field("ipFamilyPolicy")
        .one_of_if_set(causes, &["PreferDualStack", "RequireDualStack", "SingleStack"]);
    let mut are_readable = true;
    for (index, address) in all.each().enumerate() {
        if index == 0 && address.text() == "None" {
            if all.len() > 1 {
                are_readable = false;
                all.invalid(causes, "'None' must be the first and only value");
            }
            continue;
        }
        are_readable &= ip_address(&address, causes);
    }
    if all.len() > 2 {
        all.invalid(causes, "may only hold up to 2 values");
    }
    if !are_readable {
        return;
    }
    let is_v6 = |text: &str| lenient(text).is_some_and(|address| address.is_ipv6());
    if all.len() > 1 {
        let count = all.texts().filter(|text| is_v6(text)).count();
        if count == 0 || count == all.len() {
            all.invalid(causes, "may specify no more than one IP for each IP family");
        }
    }
    if is_headless(spec) {
        return;
    }
    for (index, (address, family)) in all.each().zip(families.each()).enumerate() {
        let wanted = match (family.text(), is_v6(address.text())) {
            ("IPv4", true) => "IPv4",
            ("IPv6", false) => "IPv6",
            _ => continue,
        };
        address.invalid(causes, &format!("expected an {wanted} value as indicated by `ipFamilies[{index}]`"));
    }
}

fn duplicates(ports: &Node<'_, '_>, causes: &mut Causes) {
    let mut node_ports = HashSet::new();
    for port in ports.each() {
        let number = port.field("nodePort");
        let key = (port.field("protocol").text(), number.int_or_zero());
        if key.1 != 0 && !node_ports.insert(key) {
            number.duplicate(causes);
        }
    }
    let mut seen = HashSet::new();
    for port in ports.each() {
        let key = (port.field("protocol").text(), port.field("port").int_or_zero());
        if !seen.insert(key) {
            port.duplicate(causes);
        }
    }
}

fn source_ranges(spec: &Node<'_, '_>, annotations: &Node<'_, '_>, causes: &mut Causes) {
    let is_balanced = spec.field("type").text() == "LoadBalancer";
    let ranges = spec.field("loadBalancerSourceRanges").named("LoadBalancerSourceRanges");
    let annotation = annotations.key(SOURCE_RANGES);
    if !ranges.is_empty() {
        if !is_balanced {
            ranges.forbidden(causes, LOAD_BALANCER);
        }
        for range in ranges.each() {
            cidr_of(&range, range.text().trim(), causes);
        }
    } else if annotation.is_set() {
        if !is_balanced {
            annotation.forbidden(causes, LOAD_BALANCER);
        }
        let text = annotation.text().trim();
        for range in text.split(',').filter(|_| !text.is_empty()) {
            cidr_of(&annotation, range.trim(), causes);
        }
    }
}

fn load_balancer(spec: &Node<'_, '_>, causes: &mut Causes) {
    let is_balanced = spec.field("type").text() == "LoadBalancer";
    let (allocate, class) = (spec.field("allocateLoadBalancerNodePorts"), spec.field("loadBalancerClass"));
    if allocate.is_set() && !is_balanced {
        allocate.forbidden(causes, LOAD_BALANCER);
    }
    if is_balanced {
        class.if_set(causes, syntax::qualified_name);
    } else if class.is_set() {
        class.forbidden(causes, LOAD_BALANCER);
    }
}

fn traffic(spec: &Node<'_, '_>, causes: &mut Causes) {
    let kind = spec.field("type").text();
    let is_balanced = kind == "LoadBalancer";
    let is_external =
        is_balanced || kind == "NodePort" || kind == "ClusterIP" && !spec.field("externalIPs").is_empty();
    let policy = spec.field("externalTrafficPolicy");
    if is_external {
        policy.given_one_of(causes, &["Cluster", "Local"]);
    } else if !policy.text().is_empty() {
        policy.invalid(causes, "may only be set for externally-accessible services");
    }
    let health = spec.field("healthCheckNodePort");
    if is_balanced && policy.text() == "Local" {
        // The server gives one that is missing.
        if health.int_or_zero() != 0 {
            health.port_number(causes);
        }
    } else if health.int_or_zero() != 0 {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        health.invalid(causes, why);
    }
    let internal = spec.field("internalTrafficPolicy");
    if internal.is_set() {
        internal.one_of(causes, &["Cluster", "Local"]);
    } else if matches!(kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
        internal.required(causes, "");
    }
    spec.field("trafficDistribution")
        .one_of_if_set(causes, &["PreferClose", "PreferSameZone", "PreferSameNode"]);
}
