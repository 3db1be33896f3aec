//! Services and what is behind and in front of them: core, `discovery.k8s.io` and `networking.k8s.io`.

use serde_json::Value;

use super::Row;
use super::read::{
    NONE, UNSET, at_most, count, int, joined, labels, list, load_balancer, optional_text, selector_or_none,
    text, text_or, texts,
};

pub(super) fn cells(resource: &str, row: Row<'_>) -> Option<Vec<Value>> {
    let object = row.object;
    Some(match resource {
        "endpointslices" => endpoint_slice(row),
        "ingresses" => ingress(row),
        "networkpolicies" => {
            vec![row.name(), selector_or_none(object, "/spec/podSelector").into(), row.age()]
        }
        _ => return None,
    })
}

pub(super) fn service(row: Row<'_>) -> Vec<Value> {
    let service = row.object;
    let first_ip = text_or(service, "/spec/clusterIPs/0", text_or(service, "/spec/clusterIP", NONE));
    let ports: Vec<_> = list(service, "/spec/ports").iter().map(port).collect();
    let ports = if ports.is_empty() { NONE.to_owned() } else { ports.join(",") };
    vec![
        row.name(),
        text(service, "/spec/type").into(),
        first_ip.into(),
        external_ip(service).into(),
        ports.into(),
        row.age(),
        labels(service, "/spec/selector").into(),
    ]
}

fn port(port: &Value) -> String {
    let protocol = text(port, "/protocol");
    match (int(port, "/port"), int(port, "/nodePort")) {
        (number, node @ 1..) => format!("{number}:{node}/{protocol}"),
        (number, _) => format!("{number}/{protocol}"),
    }
}

fn external_ip(service: &Value) -> String {
    let given = texts(service, "/spec/externalIPs");
    match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" => joined(&given, NONE),
        "LoadBalancer" => {
            let balancer = load_balancer(service);
            let balancer = Some(balancer.as_str()).filter(|addresses| !addresses.is_empty());
            joined(&balancer.into_iter().chain(given).collect::<Vec<_>>(), "<pending>")
        }
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

pub(super) fn endpoints(row: Row<'_>) -> Vec<Value> {
    const SHOWN: usize = 3;
    let subsets = list(row.object, "/subsets");
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = list(subset, "/addresses");
        for port in list(subset, "/ports") {
            all.extend(
                addresses.iter().map(|address| host_and_port(text(address, "/ip"), int(port, "/port"))),
            );
        }
        if list(subset, "/ports").is_empty() {
            all.extend(addresses.iter().map(|address| text(address, "/ip").to_owned()));
        }
    }
    let shown = if subsets.is_empty() { NONE.to_owned() } else { at_most(SHOWN, &all) };
    vec![row.name(), shown.into(), row.age()]
}

fn host_and_port(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn endpoint_slice(row: Row<'_>) -> Vec<Value> {
    const SHOWN: usize = 3;
    let shown = |all: &[String]| match at_most(SHOWN, all) {
        text if text.is_empty() => UNSET.to_owned(),
        text => text,
    };
    let ports =
        list(row.object, "/ports").iter().map(|port| match port.get("port").and_then(Value::as_i64) {
            Some(number) => number.to_string(),
            None => optional_text(port, "/name").unwrap_or("*").to_owned(),
        });
    let endpoints = list(row.object, "/endpoints").iter();
    let addresses = endpoints.flat_map(|endpoint| texts(endpoint, "/addresses")).map(str::to_owned);
    vec![
        row.name(),
        text(row.object, "/addressType").into(),
        shown(&ports.collect::<Vec<_>>()).into(),
        shown(&addresses.collect::<Vec<_>>()).into(),
        row.age(),
    ]
}

fn ingress(row: Row<'_>) -> Vec<Value> {
    let ingress = row.object;
    vec![
        row.name(),
        optional_text(ingress, "/spec/ingressClassName").unwrap_or(NONE).into(),
        hosts(list(ingress, "/spec/rules")).into(),
        load_balancer(ingress).into(),
        if count(ingress, "/spec/tls") == 0 { "80" } else { "80, 443" }.into(),
        row.age(),
    ]
}

/// The hosts of the rules; what is counted as "more" are rules, also those without a host.
fn hosts(rules: &[Value]) -> String {
    const SHOWN: usize = 3;
    let (mut hosts, mut more) = (Vec::new(), false);
    for rule in rules {
        more |= hosts.len() == SHOWN;
        let host = text(rule, "/host");
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    let shown = joined(&hosts, "*");
    if more { format!("{shown} + {} more...", rules.len() - SHOWN) } else { shown }
}
