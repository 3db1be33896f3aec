//! Who may do what, and what runs where: RBAC, disruption budgets, priorities, leases, runtimes and devices.

use serde_json::Value;

use super::Row;
use super::duration::age;
use super::read::{NONE, condition, count, exists, flag, int, is_deleted, list, text};

pub(super) fn cells(resource: &str, row: Row<'_>) -> Option<Vec<Value>> {
    let object = row.object;
    let of = |pointer| -> Value { text(object, pointer).into() };
    Some(match resource {
        "roles" | "clusterroles" => row.name_and_creation(),
        "rolebindings" | "clusterrolebindings" => role_binding(row),
        "poddisruptionbudgets" => pod_disruption_budget(row),
        "priorityclasses" => vec![
            row.name(),
            int(object, "/value").into(),
            flag(object, "/globalDefault").into(),
            row.age(),
            of("/preemptionPolicy"),
        ],
        "leases" => vec![row.name(), of("/spec/holderIdentity"), row.age()],
        "leasecandidates" => {
            let versions = [of("/spec/binaryVersion"), of("/spec/emulationVersion")];
            [row.name(), of("/spec/leaseName")].into_iter().chain(versions).chain([row.age()]).collect()
        }
        "runtimeclasses" => vec![row.name(), of("/handler"), row.age()],
        "deviceclasses" | "resourceclaimtemplates" => row.name_and_age(),
        "resourceclaims" => vec![row.name(), claim_state(object).into(), row.age()],
        "resourceslices" => {
            vec![row.name(), of("/spec/nodeName"), of("/spec/driver"), of("/spec/pool/name"), row.age()]
        }
        "devicetaintrules" => device_taint_rule(row),
        "resourcepoolstatusrequests" => pool_status(row),
        "podgroups" => pod_group(row),
        "workloads" => row.name_and_age(),
        _ => return None,
    })
}

fn pod_group(row: Row<'_>) -> Vec<Value> {
    let gang = exists(row.object, "/spec/schedulingPolicy/gang");
    let basic = exists(row.object, "/spec/schedulingPolicy/basic");
    let policy = if gang {
        "Gang"
    } else if basic {
        "Basic"
    } else {
        NONE
    };
    let scheduled = condition(row.object, "/status/conditions", "PodGroupScheduled");
    let scheduled = if scheduled.is_some_and(|c| c["status"] == "True") { "Scheduled" } else { "Pending" };
    let workload = text(row.object, "/spec/podGroupTemplateRef/workload/workloadName");
    vec![row.name(), policy.into(), workload.into(), scheduled.into(), row.age()]
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

fn claim_state(claim: &Value) -> String {
    let (deleted, allocated) = (is_deleted(claim), exists(claim, "/status/allocation"));
    let states = [
        ("deleted", deleted),
        ("pending", !deleted && !allocated),
        ("allocated", allocated),
        ("reserved", allocated && count(claim, "/status/reservedFor") > 0),
    ];
    states.iter().filter(|(_, is)| *is).map(|(state, _)| *state).collect::<Vec<_>>().join(",")
}

fn device_taint_rule(row: Row<'_>) -> Vec<Value> {
    let added = if exists(row.object, "/spec/taint/timeAdded") {
        row.since("/spec/taint/timeAdded")
    } else {
        String::new()
    };
    let of = |pointer| -> Value { text(row.object, pointer).into() };
    vec![
        row.name(),
        of("/spec/taint/key"),
        of("/spec/taint/value"),
        of("/spec/taint/effect"),
        added.into(),
        row.age(),
    ]
}

/// What a request for the state of device pools found: sums over the pools, once there is an answer that is no
/// failure.
fn pool_status(row: Row<'_>) -> Vec<Value> {
    let request = row.object;
    let found = list(request, "/status/pools");
    let is =
        |wanted| condition(request, "/status/conditions", wanted).filter(|c| text(c, "/status") == "True");
    let pools = int(request, "/status/poolCount");
    let complete = is("Complete");
    let failed = complete.is_none() && is("Failed").is_some();
    let status = match complete {
        Some(_) if pools > found.len() as i64 => format!("Complete ({}/{pools} pools)", found.len()),
        Some(_) => "Complete".to_owned(),
        None if failed => "Failed".to_owned(),
        None => "Pending".to_owned(),
    };
    let sums =
        |sum: i64| if exists(request, "/status") && !failed { sum.to_string() } else { "-".to_owned() };
    let total = |field| found.iter().fold(0, |sum: i64, pool| sum.saturating_add(int(pool, field)));
    let devices = |field| sums(total(field)).into();
    let errors = found.iter().filter(|pool| exists(pool, "/validationError")).count();
    let completed =
        complete.map_or_else(|| NONE.to_owned(), |c| age(Some(text(c, "/lastTransitionTime")), row.now));
    vec![
        row.name(),
        text(request, "/spec/driver").into(),
        devices("/totalDevices"),
        devices("/availableDevices"),
        devices("/allocatedDevices"),
        devices("/unavailableDevices"),
        sums(errors as i64).into(),
        pools.into(),
        status.into(),
        completed.into(),
    ]
}
