use serde_json::{Value, json};

use super::{assert_cells, object};

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
fn a_lease_shows_its_holder() {
    let mut lease =
        object("coordination.k8s.io/v1", "Lease", "leader", json!({"spec": {"holderIdentity": "a_1"}}));
    assert_cells("leases", &lease, json!(["leader", "a_1", "10d"]));
    lease["spec"] = json!({});
    assert_cells("leases", &lease, json!(["leader", "", "10d"]));
}
