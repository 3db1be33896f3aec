//! Skeletons of the kinds of `resource.k8s.io`.

use serde_json::{Value, json};

use super::{Skeleton, in_group, of};

/// What a claim asks for: both kinds of requests, both kinds of constraints.
fn claim() -> Value {
    let selectors = json!([{"cel": {"expression": "device.driver == 'gpu.example'"}}]);
    let tolerations = json!([
        {"key": "example.com/a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
        {"key": "c", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
    ]);
    json!({"devices": {
        "requests": [
            {"name": "one", "exactly": {
                "deviceClassName": "gpu", "selectors": selectors, "allocationMode": "ExactCount", "count": 2,
                "tolerations": tolerations, "capacity": {"requests": {"gpu.example/memory": "1Gi"}},
            }},
            {"name": "all", "exactly": {"deviceClassName": "nic", "allocationMode": "All", "adminAccess": false}},
            {"name": "any", "firstAvailable": [
                {"name": "big", "deviceClassName": "gpu", "selectors": selectors, "allocationMode": "ExactCount", "count": 1,
                 "tolerations": tolerations},
                {"name": "small", "deviceClassName": "gpu.small", "allocationMode": "All"},
            ]},
        ],
        "constraints": [
            {"requests": ["one", "any/big"], "matchAttribute": "gpu.example/numa"},
            {"requests": ["all"], "distinctAttribute": "gpu.example/index"},
        ],
        "config": [
            {"requests": ["any", "any/small"], "opaque": {"driver": "gpu.example", "parameters": {"mode": "fast", "a": [1]}}},
            {"opaque": {"driver": "nic.example", "parameters": {"b": {}}}},
        ],
    }})
}

/// The spec of a slice on one node.
fn slice(devices: &Value) -> Value {
    json!({
        "driver": "gpu.example", "pool": {"name": "a/b.c", "generation": 1, "resourceSliceCount": 1}, "nodeName": "a-node",
        "devices": devices,
    })
}

fn slices() -> Vec<Skeleton> {
    let path = in_group!("resource.k8s.io/v1", "resourceslices");
    let make = |name: &str, spec: &Value| {
        of(path, "resource.k8s.io/v1", "ResourceSlice", name, &json!({"spec": spec}))
    };
    let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]);
    let capacity = json!({
        "memory": {"value": "8Gi", "requestPolicy": {
            "default": "2Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"},
        }},
        "gpu.example/cores": {"value": "8", "requestPolicy": {"default": "2", "validValues": ["1", "2", "4"]}},
        "slots": {"value": "10", "requestPolicy": {"default": "5", "validRange": {"min": "1", "max": "9", "step": "2"}}},
        "plain": {"value": "3"},
    });
    let rich = json!([
        {
            "name": "gpu-0",
            "attributes": {
                "model": {"string": "A100"}, "gpu.example/index": {"int": 3}, "shared": {"bool": true},
                "driver": {"version": "1.2.3-rc.1+build.5"},
            },
            "capacity": capacity, "allowMultipleAllocations": true,
            "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}, {"key": "example.com/c", "effect": "None"}],
            "bindingConditions": ["example.com/ready", "set"], "bindingFailureConditions": ["failed"],
            "bindsToNode": true,
        },
        {"name": "gpu-1", "capacity": {"memory": {"value": "1Gi"}}},
    ]);
    let counted = json!([
        {"name": "a", "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "1Gi"}, "cores": {"value": "2"}}}]},
        {"name": "b", "consumesCounters": [{"counterSet": "other", "counters": {"memory": {"value": "1"}}}]},
    ]);
    let mut shared = slice(&Value::Null);
    shared["sharedCounters"] = json!([
        {"name": "set", "counters": {"memory": {"value": "1Gi"}, "cores": {"value": "4"}}},
        {"name": "other", "counters": {"memory": {"value": "1"}}},
    ]);
    let mut everywhere = slice(&json!([{"name": "a"}]));
    everywhere["allNodes"] = true.into();
    let mut selected = slice(&json!([{"name": "a", "attributes": {"a": {"bool": false}}}]));
    selected["nodeSelector"] = json!({"nodeSelectorTerms": terms});
    let mut by_device = slice(&json!([
        {"name": "a", "nodeName": "a-node"}, {"name": "b", "allNodes": true},
        {"name": "c", "nodeSelector": {"nodeSelectorTerms": terms}},
    ]));
    by_device["perDeviceNodeSelection"] = true.into();
    for spec in [&mut everywhere, &mut selected, &mut by_device] {
        spec["nodeName"] = Value::Null;
    }
    vec![
        make("rich", &slice(&rich)),
        make("counted", &slice(&counted)),
        make("shared", &shared),
        make("everywhere", &everywhere),
        make("selected", &selected),
        make("by-device", &by_device),
    ]
}

pub(super) fn devices() -> Vec<Skeleton> {
    let mut all = vec![
        of(
            in_group!("resource.k8s.io/v1", "deviceclasses"),
            "resource.k8s.io/v1",
            "DeviceClass",
            "gpu",
            &json!({"spec": {
                "selectors": [
                    {"cel": {"expression": "device.driver == 'gpu.example'"}},
                    {"cel": {"expression": "device.attributes['gpu.example'].index > 1"}},
                ],
                "config": [{"opaque": {"driver": "gpu.example", "parameters": {"mode": "fast"}}}],
                "extendedResourceName": "example.com/gpu",
            }}),
        ),
        of(
            in_group!("resource.k8s.io/v1/namespaces", "default/resourceclaims"),
            "resource.k8s.io/v1",
            "ResourceClaim",
            "claim",
            &json!({"spec": claim()}),
        ),
        of(
            in_group!("resource.k8s.io/v1/namespaces", "default/resourceclaimtemplates"),
            "resource.k8s.io/v1",
            "ResourceClaimTemplate",
            "template",
            &json!({"spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": claim()}}),
        ),
    ];
    all.extend(slices());
    all
}
