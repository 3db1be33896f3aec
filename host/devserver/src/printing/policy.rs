//! Who may do what: RBAC, disruption budgets, leases.

use serde_json::Value;

use super::Row;
use super::read::{int, list, text};

pub(super) fn cells(resource: &str, row: Row<'_>) -> Option<Vec<Value>> {
    let object = row.object;
    let of = |pointer| -> Value { text(object, pointer).into() };
    Some(match resource {
        "roles" | "clusterroles" => row.name_and_creation(),
        "rolebindings" | "clusterrolebindings" => role_binding(row),
        "poddisruptionbudgets" => pod_disruption_budget(row),
        "leases" => vec![row.name(), of("/spec/holderIdentity"), row.age()],
        _ => return None,
    })
}

fn role_binding(row: Row<'_>) -> Vec<Value> {
    let binding = row.object;
    let subjects =
        |kind| list(binding, "/subjects").iter().filter(move |subject| text(subject, "/kind") == kind);
    let names = |kind| subjects(kind).map(|subject| text(subject, "/name")).collect::<Vec<_>>().join(", ");
    let accounts =
        subjects("ServiceAccount").map(|s| format!("{}/{}", text(s, "/namespace"), text(s, "/name")));
    vec![
        row.name(),
        format!("{}/{}", text(binding, "/roleRef/kind"), text(binding, "/roleRef/name")).into(),
        row.age(),
        names("User").into(),
        names("Group").into(),
        accounts.collect::<Vec<_>>().join(", ").into(),
    ]
}

fn pod_disruption_budget(row: Row<'_>) -> Vec<Value> {
    let budget = row.object;
    let limit = |pointer| match budget.pointer(pointer) {
        None | Some(Value::Null) => "N/A".to_owned(),
        Some(Value::String(percentage)) => percentage.clone(),
        Some(number) => number.to_string(),
    };
    vec![
        row.name(),
        limit("/spec/minAvailable").into(),
        limit("/spec/maxUnavailable").into(),
        int(budget, "/status/disruptionsAllowed").into(),
        row.age(),
    ]
}
