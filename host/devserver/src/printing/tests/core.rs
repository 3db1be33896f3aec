use serde_json::json;

use super::{DAY, HOUR, MINUTE, ago, assert_cells, object};

#[test]
fn config_maps_and_secrets_count_their_keys() {
    let map =
        object("v1", "ConfigMap", "c", json!({"data": {"a": "1", "b": "2"}, "binaryData": {"c": "eA=="}}));
    assert_cells("configmaps", &map, json!(["c", 3, "10d"]));
    assert_cells("configmaps", &object("v1", "ConfigMap", "empty", json!({})), json!(["empty", 0, "10d"]));
    let secret = object("v1", "Secret", "s", json!({"type": "Opaque", "data": {"password": "eA=="}}));
    assert_cells("secrets", &secret, json!(["s", "Opaque", 1, "10d"]));
}

#[test]
fn namespaces_show_their_phase_and_service_accounts_only_their_age() {
    let namespace = object("v1", "Namespace", "demo", json!({"status": {"phase": "Terminating"}}));
    assert_cells("namespaces", &namespace, json!(["demo", "Terminating", "10d"]));
    assert_cells(
        "serviceaccounts",
        &object("v1", "ServiceAccount", "default", json!({})),
        json!(["default", "10d"]),
    );
}

#[test]
fn a_node_shows_whether_it_is_ready_its_roles_and_its_system() {
    let node = object(
        "v1",
        "Node",
        "node-1",
        json!({
            "metadata": {"labels": {
                "node-role.kubernetes.io/worker": "",
                "node-role.kubernetes.io/control-plane": "",
                "node-role.kubernetes.io/": "ignored",
                "kubernetes.io/role": "edge",
            }},
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
                "addresses": [
                    {"type": "Hostname", "address": "node-1"},
                    {"type": "InternalIP", "address": "192.0.2.7"},
                    {"type": "InternalIP", "address": "192.0.2.8"},
                ],
                "nodeInfo": {
                    "kubeletVersion": "v1.36.3",
                    "osImage": "Debian 13",
                    "kernelVersion": "6.12.0",
                    "architecture": "arm64",
                    "containerRuntimeVersion": "containerd://2.1.0",
                },
            },
        }),
    );
    assert_cells(
        "nodes",
        &node,
        json!([
            "node-1",
            "Ready,SchedulingDisabled",
            "control-plane,edge,worker",
            "10d",
            "v1.36.3",
            "192.0.2.7",
            "<none>",
            "Debian 13",
            "6.12.0 (arm64)",
            "containerd://2.1.0",
        ]),
    );
}

#[test]
fn a_node_that_says_nothing_is_unknown_and_one_that_is_not_ready_says_so() {
    let unknown = ["<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"];
    let row = |status| {
        let [internal, external, os, kernel, runtime] = unknown;
        json!(["n", status, "<none>", "10d", "", internal, external, os, kernel, runtime])
    };
    assert_cells("nodes", &object("v1", "Node", "n", json!({})), row("Unknown"));
    for status in ["False", "Unknown"] {
        let conditions = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        assert_cells("nodes", &object("v1", "Node", "n", conditions), row("NotReady"));
    }
}

#[test]
fn a_quota_keeps_limits_apart_from_requests() {
    let quota = object(
        "v1",
        "ResourceQuota",
        "q",
        json!({"status": {
            "hard": {"requests.cpu": "2000m", "limits.memory": "4096Mi", "pods": "10", "limits.cpu": "4"},
            "used": {"requests.cpu": "500m", "pods": "3", "limits.memory": "1Gi"},
        }}),
    );
    let requests = "pods: 3/10, requests.cpu: 500m/2";
    assert_cells(
        "resourcequotas",
        &quota,
        json!(["q", requests, "limits.cpu: 0/4, limits.memory: 1Gi/4Gi", "10d"]),
    );
    assert_cells(
        "resourcequotas",
        &object("v1", "ResourceQuota", "q", json!({})),
        json!(["q", "", "", "10d"]),
    );
}

#[test]
fn an_event_shows_what_happened_to_what_and_since_when() {
    let event = object(
        "v1",
        "Event",
        "web.1",
        json!({
            "type": "Warning",
            "reason": "BackOff",
            "message": " restarting failed container\n",
            "involvedObject": {"kind": "Pod", "name": "web-0", "fieldPath": "spec.containers{app}"},
            "source": {"component": "kubelet", "host": "node-1"},
            "firstTimestamp": ago(5 * HOUR),
            "lastTimestamp": ago(15 * MINUTE),
            "count": 12,
        }),
    );
    assert_cells(
        "events",
        &event,
        json!([
            "15m",
            "Warning",
            "BackOff",
            "pod/web-0",
            "spec.containers{app}",
            "kubelet, node-1",
            "restarting failed container",
            "5h",
            12,
            "web.1",
        ]),
    );
}

#[test]
fn an_event_of_the_newer_group_reads_the_same() {
    let mut event = object(
        "events.k8s.io/v1",
        "Event",
        "web.2",
        json!({
            "type": "Normal",
            "reason": "Scaled",
            "action": "Scaling",
            "note": "scaled up",
            "regarding": {"kind": "ReplicaSet"},
            "eventTime": ago(3 * DAY).replace('Z', ".000000Z"),
            "reportingController": "example.org/scaler",
            "reportingInstance": "scaler-1",
        }),
    );
    let row = |last, count| {
        let source = "example.org/scaler, scaler-1";
        json!([last, "Normal", "Scaled", "replicaset", "", source, "scaled up", "3d", count, "web.2"])
    };
    assert_cells("events", &event, row("3d", 1));
    event["series"] = json!({"count": 40, "lastObservedTime": ago(20 * MINUTE).replace('Z', ".000000Z")});
    assert_cells("events", &event, row("20m", 40));
    event["series"] = json!(null);
    event["reportingController"] = json!("");
    event["reportingInstance"] = json!("");
    event["deprecatedSource"] = json!({"component": "example.org/scaler", "host": "scaler-1"});
    event["deprecatedFirstTimestamp"] = json!(ago(3 * DAY));
    event["deprecatedLastTimestamp"] = json!(ago(40 * MINUTE));
    event["deprecatedCount"] = json!(5);
    assert_cells("events", &event, row("40m", 5));
}

#[test]
fn kinds_without_columns_of_their_own_show_when_they_were_created() {
    let created = ago(10 * DAY);
    assert_cells("limitranges", &object("v1", "LimitRange", "l", json!({})), json!(["l", created]));
    let role = object("rbac.authorization.k8s.io/v1", "Role", "r", json!({}));
    assert_cells("roles", &role, json!(["r", created]));
    assert_cells("clusterroles", &role, json!(["r", created]));
    let crd = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.org", json!({}));
    assert_cells("customresourcedefinitions", &crd, json!(["widgets.example.org", created]));
}
