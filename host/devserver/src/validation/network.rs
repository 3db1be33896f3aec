//! Ingresses and NetworkPolicies.

use serde_json::Value;

use super::addresses::{cidr, holds, lenient, range};
use super::containers::PROTOCOLS;
use super::node::{Node, field};
use super::selector::selector;
use crate::api::{JsonMap, syntax};
use crate::schema::Causes;

pub(super) fn ingress(object: &JsonMap, is_new: bool, causes: &mut Causes) {
    let spec = field(object, "spec");
    let (rules, default) = (spec.field("rules"), spec.field("defaultBackend"));
    if rules.is_empty() && !default.is_set() {
        spec.invalid(causes, "either `defaultBackend` or `rules` must be specified");
    }
    if default.is_set() {
        backend(&default, causes);
    }
    for rule in rules.each() {
        let host = rule.field("host");
        if !host.text().is_empty() {
            if lenient(host.text()).is_some() {
                host.invalid(causes, "must be a DNS name, not an IP address");
            }
            host.faults(causes, host_faults(host.text()));
        }
        let http = rule.field("http");
        let paths = http.field("paths");
        if http.is_set() && paths.is_empty() {
            paths.required(causes, "");
        }
        paths.each().for_each(|path| ingress_path(&path, causes));
    }
    for tls in spec.field("tls").each() {
        for host in tls.field("hosts").each() {
            host.faults(causes, host_faults(host.text()));
        }
        tls.field("secretName").if_given(causes, syntax::dns_subdomain);
    }
    let class = spec.field("ingressClassName");
    class.if_set(causes, syntax::dns_subdomain);
    let annotation =
        object.get("metadata").map(|metadata| &metadata["annotations"]["kubernetes.io/ingress.class"]);
    if let Some(annotation @ Value::String(text)) = annotation
        && is_new
        && class.is_set()
        && text != class.text()
    {
        let annotations = field(object, "annotations");
        let at = annotations.field("kubernetes.io/ingress.class");
        at.invalid_as(causes, annotation, "must match `ingressClassName` when both are specified");
    }
}

fn host_faults(host: &str) -> syntax::Faults {
    if host.contains('*') { syntax::wildcard_subdomain(host) } else { syntax::dns_subdomain(host) }
}

fn ingress_path(path: &Node<'_, '_>, causes: &mut Causes) {
    const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
    let (kind, text) = (path.field("pathType"), path.field("path"));
    if !kind.is_set() {
        return kind.required(causes, "pathType must be specified");
    }
    let is_absolute = text.text().starts_with('/');
    match kind.text() {
        "Exact" | "Prefix" => {
            if !is_absolute {
                text.invalid(causes, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.text().contains(part) {
                    text.invalid(causes, &format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if text.text().ends_with(end) {
                    text.invalid(causes, &format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !text.text().is_empty() && !is_absolute {
                text.invalid(causes, "must be an absolute path");
            }
        }
        _ => kind.not_supported(causes, PATH_TYPES),
    }
    backend(&path.field("backend"), causes);
}

fn backend(backend: &Node<'_, '_>, causes: &mut Causes) {
    let (resource, service) = (backend.field("resource"), backend.field("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => {
            backend.invalid_as(causes, &"".into(), "cannot set both resource and service backends");
        }
        (false, false) => {
            backend.invalid_as(causes, &"".into(), "resource or service backend is required");
        }
        (true, false) => reference(&resource, causes),
        (false, true) => {
            service.field("name").given_as(causes, syntax::dns_label);
            let port = service.field("port");
            let (name, number) = (port.field("name"), port.field("number"));
            match (name.text().is_empty(), number.int_or_zero() == 0) {
                (false, false) => {
                    backend.invalid_as(causes, &"".into(), "cannot set both port name & port number");
                }
                (false, true) => name.faults(causes, syntax::port_name(name.text())),
                (true, false) => number.port_number(causes),
                (true, true) => backend.required(causes, "port name or number is required"),
            }
        }
    }
}

/// An object of any kind: its group, kind and name.
fn reference(reference: &Node<'_, '_>, causes: &mut Causes) {
    reference.field("apiGroup").if_set(causes, syntax::dns_subdomain);
    for name in ["kind", "name"] {
        reference.field(name).given_as(causes, syntax::path_segment);
    }
}

pub(super) fn network_policy(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    selector(&spec.field("podSelector"), causes);
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(rules).each() {
            rule.field("ports").each().for_each(|port| policy_port(&port, causes));
            rule.field(peers).each().for_each(|peer| policy_peer(&peer, causes));
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > 2 {
        return types.invalid(causes, "may not specify more than two policyTypes");
    }
    types.each().for_each(|one| one.one_of(causes, &["Ingress", "Egress"]));
}

fn policy_port(port: &Node<'_, '_>, causes: &mut Causes) {
    let protocol = port.field("protocol");
    if protocol.is_set() && !PROTOCOLS.contains(&protocol.text()) {
        protocol.not_supported(causes, &["TCP", "UDP", "SCTP"]);
    }
    let (first, last) = (port.field("port"), port.field("endPort"));
    match first.value() {
        Value::Null => {
            if last.is_set() {
                last.invalid(causes, "may not be specified when `port` is not specified");
            }
        }
        Value::String(name) => {
            if last.is_set() {
                last.invalid(causes, "may not be specified when `port` is non-numeric");
            }
            first.faults(causes, syntax::port_name(name));
        }
        _ => {
            first.port_number(causes);
            if last.is_set() {
                if last.int_or_zero() < first.int_or_zero() {
                    last.invalid_as(causes, first.value(), "must be greater than or equal to `port`");
                }
                last.port_number(causes);
            }
        }
    }
}

fn policy_peer(peer: &Node<'_, '_>, causes: &mut Causes) {
    let mut has_selector = false;
    for name in ["podSelector", "namespaceSelector"] {
        has_selector |= peer.field(name).is_set();
        selector(&peer.field(name), causes);
    }
    let block = peer.field("ipBlock");
    if block.is_set() {
        ip_block(&block, causes);
        if has_selector {
            peer.forbidden(causes, "may not specify both ipBlock and another peer");
        }
    } else if !has_selector {
        peer.required(causes, "must specify a peer");
    }
}

fn ip_block(block: &Node<'_, '_>, causes: &mut Causes) {
    let whole = block.field("cidr");
    if !whole.is_given(causes) {
        return;
    }
    cidr(&whole, causes);
    let Some(network) = range(whole.text()) else { return };
    for except in block.field("except").each() {
        cidr(&except, causes);
        if let Some((address, length)) = range(except.text())
            && !(holds(network, address) && network.1 < length)
        {
            except.invalid(causes, "must be a strict subset of `cidr`");
        }
    }
}
