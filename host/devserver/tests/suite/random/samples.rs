//! What random requests are made from: valid objects, and words that requests are full of.

use serde_json::{Value, json};

use crate::client::{config_map, pod};
use crate::definitions::{DEFINITIONS, boat, boats};

/// Objects that are valid at their paths; `NAME` stands for a name.
pub(super) fn valid() -> Vec<(&'static str, Value)> {
    let default = |group: &str, rest: &str| {
        format!("/apis/{group}/v1/namespaces/default/{rest}").leak() as &'static str
    };
    let core = |rest: &str| format!("/api/v1/namespaces/default/{rest}").leak() as &'static str;
    let named = |extra: Value| {
        let mut object = json!({"metadata": {
            "name": "NAME", "labels": {"app": "NAME"}, "annotations": {"a/b": "c"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u", "controller": true}],
        }});
        object.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        object
    };
    let mut full_pod = pod("NAME", "n");
    full_pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "protocol": "TCP"}]);
    full_pod["spec"]["tolerations"] = json!([{"key": "a", "operator": "Exists"}]);
    full_pod["status"] = json!({"phase": "Running", "containerStatuses": [
        {"name": "main", "ready": true, "restartCount": 1, "state": {"waiting": {"reason": "x"}}},
    ], "conditions": [{"type": "Ready", "status": "True"}]});
    let template = json!({"metadata": {"labels": {"app": "NAME"}}, "spec": full_pod["spec"]});
    let workload = json!({"spec": {"replicas": 2, "selector": {"matchLabels": {"app": "NAME"}}, "template": template},
        "status": {"replicas": 1, "readyReplicas": 1}});
    let cpu = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 5}}}]);
    let event = json!({
        "involvedObject": {"kind": "Pod", "name": "a"}, "message": "m", "reason": "r", "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z", "source": {"component": "c"}, "type": "Normal",
    });
    vec![
        (core("configmaps"), config_map("NAME")),
        (core("pods"), full_pod),
        (core("secrets"), named(json!({"stringData": {"a": "b"}, "data": {"c": "ZA=="}}))),
        (
            core("services"),
            named(json!({"spec": {"ports": [{"port": 80, "nodePort": 3}], "selector": {"a": "b"}}})),
        ),
        (core("serviceaccounts"), named(json!({"secrets": [{"name": "a"}]}))),
        (core("events"), named(event)),
        (core("replicationcontrollers"), named(workload.clone())),
        (core("persistentvolumeclaims"), named(json!({"spec": {"accessModes": ["ReadWriteOnce"]}}))),
        ("/api/v1/namespaces", json!({"metadata": {"name": "NAME"}, "spec": {"finalizers": ["kubernetes"]}})),
        (
            "/api/v1/nodes",
            named(json!({"status": {"addresses": [{"type": "InternalIP", "address": "1.2.3.4"}]}})),
        ),
        (default("apps", "deployments"), named(workload)),
        (
            default("batch", "jobs"),
            named(json!({"spec": {"completions": 1}, "status": {"startTime": "2026-01-01T00:00:00Z"}})),
        ),
        (
            default("batch", "cronjobs"),
            named(json!({"spec": {"schedule": "* * * * *"}, "status": {"active": [{}]}})),
        ),
        (
            default("policy", "poddisruptionbudgets"),
            named(json!({
                "spec": {"minAvailable": "50%", "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}},
                "status": {"disruptionsAllowed": 1},
            })),
        ),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            named(json!({"spec": {"metrics": cpu}, "status": {"currentMetrics": cpu}})),
        ),
        (default("coordination.k8s.io", "leases"), named(json!({"spec": {"holderIdentity": "a"}}))),
        (
            default("events.k8s.io", "events"),
            named(json!({"note": "n", "regarding": {"name": "a"}, "series": {"count": 2}})),
        ),
        (default("rbac.authorization.k8s.io", "roles"), named(json!({"rules": [{"verbs": ["*"]}]}))),
        (default("networking.k8s.io", "ingresses"), named(json!({"spec": {"rules": [{"host": "a"}]}}))),
        (default("yard.test", "boats"), boat("NAME")),
        (
            "/apis/yard.test/v2/namespaces/default/boats",
            named(json!({"apiVersion": "yard.test/v2", "kind": "Boat"})),
        ),
        (DEFINITIONS, boats()),
        ("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({"spec": {}})),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            json!({"spec": {"resourceAttributes": {}}}),
        ),
        (core("bindings"), json!({"metadata": {"name": "NAME"}, "target": {"name": "n"}})),
    ]
}

/// Bodies that go to parts of objects, and options.
pub(super) fn part_bodies() -> Vec<Value> {
    vec![
        json!({"metadata": {"name": "NAME"}, "spec": {"replicas": 3}}),
        json!({"metadata": {"name": "NAME"}, "target": {"kind": "Node", "name": "n"}}),
        json!({"metadata": {"name": "NAME"}, "deleteOptions": {"gracePeriodSeconds": 1, "dryRun": ["All"]}}),
        json!({"spec": {"audiences": ["a"], "expirationSeconds": 600}}),
        json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "u", "resourceVersion": "1"}, "propagationPolicy": "Orphan"}),
        json!({"metadata": {"name": "NAME"}, "spec": {"finalizers": []}, "status": {"phase": "Running", "replicas": 1}}),
    ]
}

pub(super) const METHODS: [&str; 9] =
    ["GET", "POST", "POST", "PUT", "PUT", "PATCH", "PATCH", "PATCH", "DELETE"];
pub(super) const PARTS: [&str; 10] = [
    "/status",
    "/status",
    "/scale",
    "/finalize",
    "/log",
    "/proxy/x",
    "/ephemeralcontainers",
    "/resize",
    "/approval",
    "/nothing",
];
/// Parts that things are posted to.
pub(super) const DEEDS: [&str; 4] = ["/eviction", "/binding", "/token", "/nothing"];
pub(super) const OPERATIONS: [&str; 8] = ["add", "add", "replace", "remove", "move", "copy", "test", "x"];
pub(super) const PATCHES: [&str; 8] = [
    "application/merge-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "application/yaml",
];
pub(super) const ACCEPTS: [&str; 8] = [
    "",
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
    "application/yaml;q=NaN,*/*;q=-1",
    ";;=,,/",
];
pub(super) const KEYS: [&str; 18] = [
    "watch",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "labelSelector",
    "fieldSelector",
    "dryRun",
    "timeoutSeconds",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "gracePeriodSeconds",
    "includeObject",
    "propagationPolicy",
    "fieldManager",
    "fieldValidation",
    "force",
    "pretty",
];
pub(super) const VALUES: [&str; 26] = [
    "",
    "1",
    "0",
    "true",
    "false",
    "-1",
    "5",
    "99999",
    "18446744073709551615",
    "18446744073709551616",
    "All",
    "Exact",
    "NotOlderThan",
    "Object",
    "None",
    "app%3Da",
    "a+in+(b,c),!d",
    "metadata.name%3Da",
    "status.phase!%3DRunning",
    "%ff",
    "%00",
    "eyJydiI6NSwiYWZ0ZXIiOiJhIn0",
    "eyJydiI6LTEsImFmdGVyIjoiIn0",
    "=&==",
    "Strict",
    "Foreground",
];
pub(super) const SEGMENTS: [&str; 30] = [
    "api",
    "apis",
    "v1",
    "v2",
    "apps",
    "yard.test",
    "namespaces",
    "default",
    "yard",
    "pods",
    "boats",
    "events",
    "deployments",
    "watch",
    "a",
    "b",
    "status",
    "scale",
    "log",
    "proxy",
    "version",
    "openapi",
    "healthz",
    "..",
    "%2F",
    "%00",
    "%C3%A9",
    "%ff",
    "",
    "_nothing",
];
