use serde_json::{Value, json};

use super::{assert_cells, merge, object};

fn service(members: Value) -> Value {
    let mut service = object(
        "v1",
        "Service",
        "web",
        json!({"spec": {
            "type": "ClusterIP",
            "clusterIP": "10.96.0.10",
            "clusterIPs": ["10.96.0.10"],
            "selector": {"tier": "front", "app": "web"},
            "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
        }}),
    );
    merge(&mut service, members);
    service
}

#[track_caller]
fn assert_service(members: Value, kind: &str, external: &str) {
    let row = json!(["web", kind, "10.96.0.10", external, "80/TCP,53/UDP", "10d", "app=web,tier=front"]);
    assert_cells("services", &service(members), row);
}

#[test]
fn a_service_is_reached_from_outside_according_to_its_type() {
    assert_service(json!({}), "ClusterIP", "<none>");
    assert_service(
        json!({"spec": {"externalIPs": ["192.0.2.1", "192.0.2.2"]}}),
        "ClusterIP",
        "192.0.2.1,192.0.2.2",
    );
    assert_service(json!({"spec": {"type": "LoadBalancer"}}), "LoadBalancer", "<pending>");
    let ingress = json!([{"ip": "198.51.100.7"}, {"hostname": "lb.example.org"}, {"ip": "198.51.100.3"}]);
    let balanced =
        json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": ingress}}});
    assert_service(balanced.clone(), "LoadBalancer", "198.51.100.3,198.51.100.7,lb.example.org");
    let mut both = balanced;
    both["spec"]["externalIPs"] = json!(["192.0.2.1"]);
    assert_service(both, "LoadBalancer", "198.51.100.3,198.51.100.7,lb.example.org,192.0.2.1");
    let named = json!({"spec": {"type": "ExternalName", "externalName": "db.example.org"}});
    assert_service(named, "ExternalName", "db.example.org");
}

#[test]
fn a_service_shows_node_ports_and_what_it_lacks() {
    let node_port = service(json!({"spec": {
        "type": "NodePort",
        "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}],
    }}));
    let row = json!(["web", "NodePort", "10.96.0.10", "<none>", "80:30080/TCP", "10d", "app=web,tier=front"]);
    assert_cells("services", &node_port, row);
    let mut single = service(json!({"spec": {"ports": []}}));
    single["spec"]["clusterIPs"] = json!(null);
    let row = json!(["web", "ClusterIP", "10.96.0.10", "<none>", "<none>", "10d", "app=web,tier=front"]);
    assert_cells("services", &single, row);
    let bare = object("v1", "Service", "bare", json!({"spec": {"type": "ClusterIP"}}));
    assert_cells(
        "services",
        &bare,
        json!(["bare", "ClusterIP", "<none>", "<none>", "<none>", "10d", "<none>"]),
    );
}

#[test]
fn endpoints_show_three_addresses_and_how_many_more() {
    let endpoints = |subsets: Value| object("v1", "Endpoints", "web", json!({"subsets": subsets}));
    let row = |shown| json!(["web", shown, "10d"]);
    assert_cells("endpoints", &endpoints(json!([])), row("<none>"));
    let few = json!([
        {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}]},
        {"addresses": [{"ip": "10.0.0.9"}]},
    ]);
    assert_cells("endpoints", &endpoints(few), row("10.0.0.1:80,[fd00::1]:80,10.0.0.9"));
    let many = json!([{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"port": 80}, {"port": 81}, {"port": 82}]}]);
    assert_cells("endpoints", &endpoints(many), row("10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 3 more..."));
    assert_cells("endpoints", &endpoints(json!([{"notReadyAddresses": [{"ip": "10.0.0.1"}]}])), row(""));
}

#[test]
fn an_endpoint_slice_shows_ports_and_addresses() {
    let slice = |ports: Value, endpoints: Value| {
        let members = json!({"addressType": "IPv4", "ports": ports, "endpoints": endpoints});
        object("discovery.k8s.io/v1", "EndpointSlice", "web-1", members)
    };
    let row = |ports, addresses| json!(["web-1", "IPv4", ports, addresses, "10d"]);
    assert_cells("endpointslices", &slice(json!([]), json!([])), row("<unset>", "<unset>"));
    let ports = json!([{"port": 80, "name": "http"}, {"name": "any"}, {}, {"port": 443}]);
    let endpoints = json!([{"addresses": ["10.0.0.1", "10.0.0.2"]}, {"addresses": ["10.0.0.3"]}, {"addresses": ["10.0.0.4"]}]);
    let addresses = "10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...";
    assert_cells("endpointslices", &slice(ports, endpoints), row("80,any,* + 1 more...", addresses));
}

fn ingress(spec: Value) -> Value {
    object("networking.k8s.io/v1", "Ingress", "web", json!({"spec": spec}))
}

#[test]
fn an_ingress_shows_hosts_address_and_ports() {
    let row = |class, hosts, address, ports| json!(["web", class, hosts, address, ports, "10d"]);
    assert_cells("ingresses", &ingress(json!({})), row("<none>", "*", "", "80"));
    let mut full = ingress(json!({
        "ingressClassName": "nginx",
        "tls": [{"hosts": ["a.example.org"]}],
        "rules": [{"host": "a.example.org"}, {}, {"host": "b.example.org"}],
    }));
    full["status"] = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}]}});
    assert_cells("ingresses", &full, row("nginx", "a.example.org,b.example.org", "198.51.100.7", "80, 443"));
    let rules: Vec<_> = ["a", "b", "c", "d", ""].iter().map(|host| json!({"host": host})).collect();
    assert_cells(
        "ingresses",
        &ingress(json!({"rules": rules})),
        row("<none>", "a,b,c + 2 more...", "", "80"),
    );
    assert_cells("ingresses", &ingress(json!({"rules": rules[..3]})), row("<none>", "a,b,c", "", "80"));
}

#[test]
fn a_policy_shows_whom_it_is_about() {
    let policy =
        object("networking.k8s.io/v1", "NetworkPolicy", "deny", json!({"spec": {"podSelector": {}}}));
    assert_cells("networkpolicies", &policy, json!(["deny", "<none>", "10d"]));
    let selector = json!({"spec": {"podSelector": {"matchLabels": {"app": "web"}}}});
    let policy = object("networking.k8s.io/v1", "NetworkPolicy", "web", selector);
    assert_cells("networkpolicies", &policy, json!(["web", "app=web", "10d"]));
}
