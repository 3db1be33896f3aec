//! EndpointSlices.

use std::collections::HashSet;

use super::addresses::{canonical_fault, endpoint, ip_address, lenient};
use super::containers::PROTOCOLS;
use super::metadata::labels;
use super::node::{Node, field};
use crate::api::{JsonMap, syntax};
use crate::schema::{Causes, shown};

pub(super) fn slice(object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    let kind = field(object, "addressType");
    kind.given_one_of(causes, &["FQDN", "IPv4", "IPv6"]);
    let ports = field(object, "ports");
    if ports.len() > 20_000 {
        ports.too_many(causes, 20_000);
    } else {
        slice_ports(&ports, causes);
    }
    let endpoints = field(object, "endpoints");
    if old.is_some_and(|old| field(old, "endpoints").value() == endpoints.value()) {
        // They were taken once.
        return;
    }
    if endpoints.len() > 1000 {
        return endpoints.too_many(causes, 1000);
    }
    for endpoint in endpoints.each() {
        let addresses = endpoint.field("addresses");
        if addresses.is_empty() {
            addresses.required(causes, "must contain at least 1 address");
        } else if addresses.len() > 100 {
            addresses.too_many(causes, 100);
        }
        addresses.each().for_each(|address| slice_address(&addresses, &address, kind.text(), causes));
        endpoint.field("nodeName").if_set(causes, syntax::dns_subdomain);
        let topology = endpoint.field("deprecatedTopology");
        if topology.len() > 16 {
            topology.too_many(causes, 16);
        }
        labels(&topology, causes);
        endpoint.field("hostname").if_set(causes, syntax::dns_label);
        hints(&endpoint.field("hints"), causes);
    }
}

fn slice_ports(ports: &Node<'_, '_>, causes: &mut Causes) {
    let mut names = HashSet::new();
    for port in ports.each() {
        let name = port.field("name");
        name.if_given(causes, syntax::dns_label);
        if !names.insert(name.text()) {
            name.duplicate(causes);
        }
        let protocol = port.field("protocol");
        if protocol.is_set() {
            protocol.one_of(causes, PROTOCOLS);
        } else {
            protocol.required(causes, "");
        }
        port.field("appProtocol").if_set(causes, syntax::qualified_name);
    }
}

fn slice_address(list: &Node<'_, '_>, address: &Node<'_, '_>, kind: &str, causes: &mut Causes) {
    let is_v6 = lenient(address.text()).is_some_and(|address| address.is_ipv6());
    match kind {
        "IPv4" if ip_address(address, causes) => {
            if is_v6 {
                list.invalid_as(causes, address.value(), "must be an IPv4 address");
            }
            endpoint(address, causes);
        }
        "IPv6" => match canonical_fault(address.text()) {
            Some(fault) => address.invalid(causes, &fault),
            None => {
                if !is_v6 {
                    list.invalid_as(causes, address.value(), "must be an IPv6 address");
                }
                endpoint(address, causes);
            }
        },
        "FQDN" => full_name(address, causes),
        _ => {}
    }
}

/// A name of DNS of at least two parts.
fn full_name(address: &Node<'_, '_>, causes: &mut Causes) {
    if !address.is_given(causes) {
        return;
    }
    let name = address.text().strip_suffix('.').unwrap_or(address.text());
    let faults = syntax::dns_subdomain(name);
    if !faults.is_empty() {
        return address.invalid_as(causes, &name.into(), &faults.join(","));
    }
    if !name.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        return address.invalid_as(causes, &name.into(), why);
    }
    for label in name.split('.') {
        let faults = syntax::dns_label(label);
        if !faults.is_empty() {
            return address.invalid_as(causes, &label.into(), &faults.join(","));
        }
    }
}

fn hints(hints: &Node<'_, '_>, causes: &mut Causes) {
    for (list, check) in
        [("forZones", syntax::label_value as fn(&str) -> syntax::Faults), ("forNodes", syntax::dns_subdomain)]
    {
        let hints = hints.field(list);
        if hints.len() > 8 {
            return hints.too_many(causes, 8);
        }
        let mut names = HashSet::new();
        for hint in hints.each() {
            let name = hint.field("name");
            if !names.insert(name.text()) {
                name.duplicate_as(causes, &shown(&name.text().into()), "");
            }
            name.faults(causes, check(name.text()));
        }
    }
}
