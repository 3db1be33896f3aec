//! What a server allocates for Services: addresses of the cluster and ports of nodes. Nothing listens there.
//!
//! What an earlier state of a Service has been given stays while its type needs it, as on a real server.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::api::JsonMap;

/// Where free numbers come from.
pub(crate) trait Numbers {
    /// An address that no Service has; `None` if all are taken.
    fn address(&mut self) -> Option<String>;
    /// A port that no Service has.
    fn node_port(&mut self) -> Option<u16>;
}

/// Puts in what a Service lacks; `old` is the state that it follows.
pub(crate) fn complete_service(service: &mut JsonMap, old: Option<&JsonMap>, numbers: &mut impl Numbers) {
    let nothing = JsonMap::new();
    let old = old.and_then(|old| old.get("spec")).and_then(Value::as_object).unwrap_or(&nothing);
    let is_balanced = service.get("spec").is_some_and(|spec| spec["type"] == "LoadBalancer");
    if !is_balanced && let Some(Value::Object(status)) = service.get_mut("status") {
        status.insert("loadBalancer".to_owned(), json!({}));
    }
    let Some(Value::Object(spec)) = service.get_mut("spec") else { return };
    if text(spec, "type") == "ExternalName" {
        let address = text(spec, "clusterIP").to_owned();
        let is_other = !old.is_empty() && address != text(old, "clusterIP");
        if is_other && !address.is_empty() && spec.get("clusterIPs") == old.get("clusterIPs") {
            // It is refused.
            spec.insert("clusterIPs".to_owned(), json!([address]));
        }
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if spec.get(field) == old.get(field) {
                spec.remove(field);
            }
        }
        spec.remove("internalTrafficPolicy");
        release_policies(spec, old);
        release_ports(spec, old);
        return;
    }
    addresses(spec, old, numbers);
    if has_node_ports(spec) {
        let is_balanced = text(spec, "type") == "LoadBalancer";
        if !is_balanced || spec.get("allocateLoadBalancerNodePorts") != Some(&false.into()) {
            keep_ports(spec, old);
            give_ports(spec, numbers);
        }
    } else {
        release_ports(spec, old);
    }
    release_policies(spec, old);
    let checks_health =
        text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local";
    if checks_health && is_none(spec, "healthCheckNodePort") {
        let kept = old.get("healthCheckNodePort").cloned();
        if let Some(port) = kept.or_else(|| numbers.node_port().map(Value::from)) {
            spec.insert("healthCheckNodePort".to_owned(), port);
        }
    }
}

/// Takes away what the earlier type of the Service had and this one has no use for, unless the client asks for other values.
fn release_policies(spec: &mut JsonMap, old: &JsonMap) {
    let is_balanced = text(spec, "type") == "LoadBalancer";
    let is_external = is_balanced
        || text(spec, "type") == "NodePort"
        || text(spec, "type") != "ExternalName" && !is_none(spec, "externalIPs");
    let checks_health = is_balanced && text(spec, "externalTrafficPolicy") == "Local";
    for (field, is_used) in [
        ("externalTrafficPolicy", is_external),
        ("allocateLoadBalancerNodePorts", is_balanced),
        ("loadBalancerClass", is_balanced),
        ("healthCheckNodePort", checks_health),
    ] {
        if !is_used && old.get(field).is_some() && old.get(field) == spec.get(field) {
            spec.remove(field);
        }
    }
}

fn addresses(spec: &mut JsonMap, old: &JsonMap, numbers: &mut impl Numbers) {
    if text(spec, "clusterIP").is_empty() {
        let kept = Some(text(old, "clusterIP")).filter(|kept| !kept.is_empty());
        if kept.is_none() && !is_none(spec, "clusterIPs") {
            // It is refused.
            return;
        }
        let Some(address) = kept.map(str::to_owned).or_else(|| numbers.address()) else { return };
        spec.insert("clusterIP".to_owned(), address.into());
    }
    let address = text(spec, "clusterIP").to_owned();
    let had = text(old, "clusterIP");
    if !had.is_empty() && had != address && spec.get("clusterIPs") == old.get("clusterIPs") {
        // Who knows only the older field says what the other is to be.
        spec.insert("clusterIPs".to_owned(), json!([address]));
    }
    if spec.get("clusterIPs").and_then(|all| all.get(0)).is_some_and(|first| *first != address.as_str()) {
        // It is refused, before it gets families.
        return;
    }
    let is_same = address == text(old, "clusterIP");
    let defaults = match address.as_str() {
        // Its endpoints are made by somebody else, and may be of both families.
        "None" if is_none(spec, "selector") => (json!(["IPv4", "IPv6"]), "RequireDualStack"),
        ipv6 if ipv6.contains(':') => (json!(["IPv6"]), "SingleStack"),
        _ => (json!(["IPv4"]), "SingleStack"),
    };
    let fields =
        [("clusterIPs", json!([address])), ("ipFamilies", defaults.0), ("ipFamilyPolicy", defaults.1.into())];
    for (field, default) in fields {
        // An empty policy is refused.
        let is_absent = if field == "ipFamilyPolicy" {
            spec.get(field).is_none_or(Value::is_null)
        } else {
            is_none(spec, field)
        };
        if is_absent {
            let kept = old.get(field).filter(|_| is_same);
            spec.insert(field.to_owned(), kept.cloned().unwrap_or(default));
        }
    }
}

/// Whether Services of this type have ports of nodes.
fn has_node_ports(spec: &JsonMap) -> bool {
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer")
}

fn is_given(port: &Value) -> bool {
    port["nodePort"].as_i64().is_some_and(|number| number != 0)
}

/// A port that the client names without one of the nodes has the one that it had, unless another has it now.
fn keep_ports(spec: &mut JsonMap, old: &JsonMap) {
    if !has_node_ports(old) {
        return;
    }
    let earlier = old.get("ports").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut used: HashSet<Value> =
        ports(spec).filter(|port| is_given(port)).map(|port| port["nodePort"].clone()).collect();
    for port in ports(spec).filter(|port| !is_given(port)) {
        let same = earlier.iter().find(|old| old["name"] == port["name"] && is_given(old));
        if let (Some(same), Value::Object(port)) = (same, port)
            && used.insert(same["nodePort"].clone())
        {
            port.insert("nodePort".to_owned(), same["nodePort"].clone());
        }
    }
}

/// The same port in two protocols has one port of the nodes.
fn give_ports(spec: &mut JsonMap, numbers: &mut impl Numbers) {
    let mut given: HashMap<i64, Value> = HashMap::new();
    for port in ports(spec).filter(|port| is_given(port)) {
        given.entry(port["port"].as_i64().unwrap_or_default()).or_insert_with(|| port["nodePort"].clone());
    }
    for port in ports(spec).filter(|port| !is_given(port)) {
        let own = port["port"].as_i64().unwrap_or_default();
        let shared = given.get(&own).cloned();
        let Some(number) = shared.or_else(|| numbers.node_port().map(Value::from)) else { return };
        if let Value::Object(port) = port {
            given.entry(own).or_insert_with(|| number.clone());
            port.insert("nodePort".to_owned(), number);
        }
    }
}

/// Takes away the ports of nodes of a Service whose type had them and has none now, unless the client asks for one that it
/// did not have, whatever else of its ports has changed.
fn release_ports(spec: &mut JsonMap, old: &JsonMap) {
    if !has_node_ports(old) {
        return;
    }
    let earlier = old.get("ports").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_new = |port: &Value| !earlier.iter().any(|old| old["nodePort"] == port["nodePort"]);
    if ports(spec).any(|port| is_given(port) && is_new(port)) {
        return;
    }
    for port in ports(spec) {
        if let Value::Object(port) = port {
            port.remove("nodePort");
        }
    }
}

fn ports(spec: &mut JsonMap) -> impl Iterator<Item = &mut Value> {
    spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten()
}

fn text<'a>(object: &'a JsonMap, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn is_none(object: &JsonMap, field: &str) -> bool {
    match object.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::Object(object)) => object.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(u16);

    impl Numbers for Counting {
        fn address(&mut self) -> Option<String> {
            self.0 += 1;
            Some(format!("10.96.0.{}", self.0))
        }

        fn node_port(&mut self) -> Option<u16> {
            self.0 += 1;
            Some(30_000 + self.0)
        }
    }

    fn completed(spec: Value, old: Option<&Value>) -> Value {
        let mut service = JsonMap::from_iter([("spec".to_owned(), spec)]);
        let old = old.map(|old| JsonMap::from_iter([("spec".to_owned(), old.clone())]));
        complete_service(&mut service, old.as_ref(), &mut Counting(0));
        service["spec"].take()
    }

    #[test]
    fn a_service_keeps_what_it_was_given() {
        let port = json!({"port": 80, "protocol": "TCP"});
        let made = completed(json!({"type": "NodePort", "ports": [port]}), None);
        assert_eq!(
            made,
            json!({
                "type": "NodePort", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30002}],
            })
        );
        assert_eq!(completed(json!({"type": "NodePort", "ports": [port]}), Some(&made)), made);
        let inner = completed(json!({"type": "ClusterIP", "ports": made["ports"]}), Some(&made));
        assert_eq!((&inner["clusterIP"], &inner["ports"]), (&made["clusterIP"], &json!([port])));
        let outer = completed(
            json!({"type": "ExternalName", "clusterIP": "10.96.0.1", "ports": made["ports"]}),
            Some(&made),
        );
        assert_eq!(outer, json!({"type": "ExternalName", "ports": [port]}));
    }

    #[test]
    fn ports_of_nodes_go_with_their_type_unless_there_is_a_new_one() {
        let port =
            |port: u16, node_port: u16| json!({"port": port, "protocol": "TCP", "nodePort": node_port});
        let old = json!({"type": "LoadBalancer", "ports": [port(80, 30001), port(81, 30002)]});
        let left = |ports: Value| {
            completed(json!({"type": "ClusterIP", "ports": ports}), Some(&old))["ports"].take()
        };
        // The other numbers of a port do not count, nor which port has which.
        let other = json!([{"port": 443, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}]);
        assert_eq!(left(json!([port(443, 30001), port(80, 30002)])), other);
        assert_eq!(left(json!([port(443, 30002), {"port": 80, "protocol": "TCP"}])), other);
        let refused = json!([port(80, 30001), port(81, 30003)]);
        assert_eq!(left(refused.clone()), refused);
        // One that had no use for them does not lose them.
        let inner = json!({"type": "ClusterIP", "ports": [port(80, 30001)]});
        assert_eq!(completed(inner.clone(), Some(&inner))["ports"], inner["ports"]);
    }

    #[test]
    fn a_service_without_an_address_gets_none() {
        let spec = completed(json!({"type": "ClusterIP", "clusterIP": "None", "selector": {"a": "b"}}), None);
        assert_eq!((&spec["clusterIPs"], &spec["ipFamilyPolicy"]), (&json!(["None"]), &json!("SingleStack")));
        let spec = completed(json!({"type": "ClusterIP", "clusterIP": "None"}), None);
        assert_eq!(spec["ipFamilies"], json!(["IPv4", "IPv6"]));
        // It is refused for this alone.
        let refused = json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["::1"]});
        assert_eq!(completed(refused.clone(), None), refused);
    }
}
