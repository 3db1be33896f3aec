use serde_json::{Value, json};

use super::{HOUR, ago, assert_cells, object};

#[test]
fn a_binding_lists_its_subjects_by_kind() {
    let binding = |subjects: Value| {
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
        object(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            "b",
            json!({"roleRef": role, "subjects": subjects}),
        )
    };
    let subjects = json!([
        {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"},
        {"kind": "ServiceAccount", "namespace": "demo", "name": "default"},
        {"kind": "User", "name": "joe", "apiGroup": "rbac.authorization.k8s.io"},
        {"kind": "Group", "name": "ops", "apiGroup": "rbac.authorization.k8s.io"},
    ]);
    let row = json!(["b", "ClusterRole/view", "10d", "jane, joe", "ops", "demo/default"]);
    assert_cells("rolebindings", &binding(subjects.clone()), row);
    assert_cells("rolebindings", &binding(json!([])), json!(["b", "ClusterRole/view", "10d", "", "", ""]));
}

#[test]
fn a_disruption_budget_shows_numbers_and_percentages() {
    let budget = |spec| {
        object(
            "policy/v1",
            "PodDisruptionBudget",
            "b",
            json!({"spec": spec, "status": {"disruptionsAllowed": 1}}),
        )
    };
    assert_cells(
        "poddisruptionbudgets",
        &budget(json!({"minAvailable": 2})),
        json!(["b", "2", "N/A", 1, "10d"]),
    );
    assert_cells(
        "poddisruptionbudgets",
        &budget(json!({"maxUnavailable": "25%"})),
        json!(["b", "N/A", "25%", 1, "10d"]),
    );
}

#[test]
fn small_kinds_show_a_field_or_two() {
    let priority = json!({"value": 1000, "globalDefault": true, "preemptionPolicy": "Never"});
    let priority = object("scheduling.k8s.io/v1", "PriorityClass", "high", priority);
    assert_cells("priorityclasses", &priority, json!(["high", 1000, true, "10d", "Never"]));
    let mut lease =
        object("coordination.k8s.io/v1", "Lease", "leader", json!({"spec": {"holderIdentity": "a_1"}}));
    assert_cells("leases", &lease, json!(["leader", "a_1", "10d"]));
    lease["spec"] = json!({});
    assert_cells("leases", &lease, json!(["leader", "", "10d"]));
    let candidate = json!({"spec": {"leaseName": "l", "binaryVersion": "1.36.0", "emulationVersion": "1.35.0", "strategy": "OldestEmulationVersion"}});
    let candidate = object("coordination.k8s.io/v1beta1", "LeaseCandidate", "c", candidate);
    assert_cells("leasecandidates", &candidate, json!(["c", "l", "1.36.0", "1.35.0", "10d"]));
    let runtime = object("node.k8s.io/v1", "RuntimeClass", "gvisor", json!({"handler": "runsc"}));
    assert_cells("runtimeclasses", &runtime, json!(["gvisor", "runsc", "10d"]));
}

fn device(kind: &str, members: Value) -> Value {
    object("resource.k8s.io/v1", kind, "d", members)
}

#[test]
fn devices_and_claims_show_their_state() {
    assert_cells("deviceclasses", &device("DeviceClass", json!({})), json!(["d", "10d"]));
    assert_cells("resourceclaimtemplates", &device("ResourceClaimTemplate", json!({})), json!(["d", "10d"]));
    let slice = json!({"spec": {"nodeName": "n", "driver": "gpu.example.org", "pool": {"name": "p", "resourceSliceCount": 1}}});
    assert_cells(
        "resourceslices",
        &device("ResourceSlice", slice),
        json!(["d", "n", "gpu.example.org", "p", "10d"]),
    );

    let deleted = json!({"deletionTimestamp": ago(0)});
    let allocated = json!({"allocation": {}});
    let reserved = json!({"allocation": {}, "reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]});
    for (metadata, status, state) in [
        (json!({}), json!({}), "pending"),
        (json!({}), allocated.clone(), "allocated"),
        (json!({}), reserved.clone(), "allocated,reserved"),
        (deleted.clone(), json!({}), "deleted"),
        (deleted, reserved, "deleted,allocated,reserved"),
    ] {
        let claim = device("ResourceClaim", json!({"metadata": metadata, "status": status}));
        assert_cells("resourceclaims", &claim, json!(["d", state, "10d"]));
    }
    let taint = json!({"spec": {"taint": {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": ago(5 * HOUR)}}});
    let mut rule = object("resource.k8s.io/v1beta2", "DeviceTaintRule", "r", taint);
    assert_cells("devicetaintrules", &rule, json!(["r", "k", "v", "NoExecute", "5h", "10d"]));
    rule["spec"]["taint"]["timeAdded"] = json!(null);
    assert_cells("devicetaintrules", &rule, json!(["r", "k", "v", "NoExecute", "", "10d"]));
}

#[test]
fn a_request_for_pool_states_sums_what_was_found() {
    let request = |status| {
        let members = json!({"spec": {"driver": "gpu.example.org"}, "status": status});
        object("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest", "r", members)
    };
    let head = |rest: Value| {
        [json!("r"), json!("gpu.example.org")].into_iter().chain(rest.as_array().unwrap().clone()).collect()
    };
    let pending = json!(["-", "-", "-", "-", "-", 0, "Pending", "<none>"]);
    assert_cells("resourcepoolstatusrequests", &request(json!(null)), head(pending));
    let condition = |kind| json!([{"type": kind, "status": "True", "lastTransitionTime": ago(5 * HOUR)}]);
    let pool = json!({"driver": "gpu.example.org", "poolName": "p", "generation": 1, "totalDevices": 4, "availableDevices": 1, "allocatedDevices": 2, "unavailableDevices": 1});
    let broken = json!({"driver": "gpu.example.org", "poolName": "q", "generation": 1, "validationError": "odd", "totalDevices": 3});
    let status =
        |count, kind| json!({"poolCount": count, "pools": [pool, broken], "conditions": condition(kind)});
    let sums = |status, count| json!(["7", "1", "2", "1", "1", count, status, "5h"]);
    assert_cells("resourcepoolstatusrequests", &request(status(2, "Complete")), head(sums("Complete", 2)));
    assert_cells(
        "resourcepoolstatusrequests",
        &request(status(5, "Complete")),
        head(sums("Complete (2/5 pools)", 5)),
    );
    let failed = json!(["-", "-", "-", "-", "-", 2, "Failed", "<none>"]);
    assert_cells("resourcepoolstatusrequests", &request(status(2, "Failed")), head(failed));
}
