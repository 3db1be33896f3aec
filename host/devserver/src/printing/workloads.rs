//! What runs pods: the groups `apps`, `batch` and `autoscaling`, and replication controllers.

use pilothouse_object::human_duration;
use serde_json::{Value, json};

use super::Row;
use super::duration::{seconds_between, time};
use super::read::{
    NONE, UNSET, condition, containers, count, exists, int, is_deleted, labels, list, optional_text,
    selector, selector_or_none, text,
};
use crate::quantity::canonical;

pub(super) fn cells(resource: &str, row: Row<'_>) -> Option<Vec<Value>> {
    Some(match resource {
        "deployments" => deployment(row),
        "replicasets" => replica_set(row),
        "statefulsets" => stateful_set(row),
        "daemonsets" => daemon_set(row),
        "controllerrevisions" => controller_revision(row),
        "jobs" => job(row),
        "cronjobs" => cron_job(row),
        "horizontalpodautoscalers" => horizontal_pod_autoscaler(row),
        _ => return None,
    })
}

const TEMPLATE: &str = "/spec/template/spec/containers";

fn ready_of_desired(object: &Value) -> Value {
    format!("{}/{}", int(object, "/status/readyReplicas"), int(object, "/spec/replicas")).into()
}

fn replicas(row: Row<'_>, selector: String) -> Vec<Value> {
    let object = row.object;
    let [names, images] = containers(object, TEMPLATE);
    vec![
        row.name(),
        int(object, "/spec/replicas").into(),
        int(object, "/status/replicas").into(),
        int(object, "/status/readyReplicas").into(),
        row.age(),
        names,
        images,
        selector.into(),
    ]
}

pub(super) fn replication_controller(row: Row<'_>) -> Vec<Value> {
    replicas(row, labels(row.object, "/spec/selector"))
}

pub(super) fn pod_template(row: Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row.object, "/template/spec/containers");
    vec![row.name(), names, images, labels(row.object, "/template/metadata/labels").into()]
}

fn replica_set(row: Row<'_>) -> Vec<Value> {
    replicas(row, selector_or_none(row.object, "/spec/selector"))
}

fn deployment(row: Row<'_>) -> Vec<Value> {
    let object = row.object;
    let [names, images] = containers(object, TEMPLATE);
    vec![
        row.name(),
        ready_of_desired(object),
        int(object, "/status/updatedReplicas").into(),
        int(object, "/status/availableReplicas").into(),
        row.age(),
        names,
        images,
        selector(object, "/spec/selector").unwrap_or_else(|| "<invalid>".to_owned()).into(),
    ]
}

fn stateful_set(row: Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row.object, TEMPLATE);
    vec![row.name(), ready_of_desired(row.object), row.age(), names, images]
}

fn daemon_set(row: Row<'_>) -> Vec<Value> {
    let object = row.object;
    let [names, images] = containers(object, TEMPLATE);
    vec![
        row.name(),
        int(object, "/status/desiredNumberScheduled").into(),
        int(object, "/status/currentNumberScheduled").into(),
        int(object, "/status/numberReady").into(),
        int(object, "/status/updatedNumberScheduled").into(),
        int(object, "/status/numberAvailable").into(),
        labels(object, "/spec/template/spec/nodeSelector").into(),
        row.age(),
        names,
        images,
        selector_or_none(object, "/spec/selector").into(),
    ]
}

fn controller_revision(row: Row<'_>) -> Vec<Value> {
    let owners = list(row.object, "/metadata/ownerReferences").iter();
    let mut controllers = owners.filter(|owner| owner["controller"] == true);
    let controller = controllers.next().map_or_else(
        || NONE.to_owned(),
        |owner| {
            let kind = text(owner, "/kind").to_lowercase();
            let group = text(owner, "/apiVersion").split_once('/').map(|(group, _)| format!(".{group}"));
            format!("{kind}{}/{}", group.unwrap_or_default(), text(owner, "/name"))
        },
    );
    vec![row.name(), controller.into(), int(row.object, "/revision").into(), row.age()]
}

fn job(row: Row<'_>) -> Vec<Value> {
    let job = row.object;
    let succeeded = int(job, "/status/succeeded");
    let completions = match (exists(job, "/spec/completions"), int(job, "/spec/parallelism")) {
        (true, _) => format!("{succeeded}/{}", int(job, "/spec/completions")),
        (false, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (false, _) => format!("{succeeded}/1"),
    };
    let duration = time(text(job, "/status/startTime")).map(|start| {
        let end = time(text(job, "/status/completionTime")).unwrap_or(row.now);
        human_duration(seconds_between(start, end))
    });
    let is = |wanted: &str| {
        let found = condition(job, "/status/conditions", wanted);
        found.is_some_and(|condition| text(condition, "/status") == "True")
    };
    let first = |known: &[&'static str]| known.iter().copied().find(|wanted| is(wanted));
    let status = first(&["Complete", "Failed"])
        .or_else(|| is_deleted(job).then_some("Terminating"))
        .or_else(|| first(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]))
        .unwrap_or("Running");
    let [names, images] = containers(job, TEMPLATE);
    vec![
        row.name(),
        status.into(),
        completions.into(),
        duration.unwrap_or_default().into(),
        row.age(),
        names,
        images,
        selector_or_none(job, "/spec/selector").into(),
    ]
}

fn cron_job(row: Row<'_>) -> Vec<Value> {
    let cron_job = row.object;
    let suspend = match cron_job.pointer("/spec/suspend").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    let scheduled = exists(cron_job, "/status/lastScheduleTime");
    let last_schedule = if scheduled { row.since("/status/lastScheduleTime") } else { NONE.to_owned() };
    let [names, images] = containers(cron_job, "/spec/jobTemplate/spec/template/spec/containers");
    vec![
        row.name(),
        text(cron_job, "/spec/schedule").into(),
        optional_text(cron_job, "/spec/timeZone").unwrap_or(NONE).into(),
        suspend.into(),
        count(cron_job, "/status/active").into(),
        last_schedule.into(),
        row.age(),
        names,
        images,
        selector_or_none(cron_job, "/spec/jobTemplate/spec/selector").into(),
    ]
}

fn horizontal_pod_autoscaler(row: Row<'_>) -> Vec<Value> {
    let hpa = row.object;
    let reference =
        format!("{}/{}", text(hpa, "/spec/scaleTargetRef/kind"), text(hpa, "/spec/scaleTargetRef/name"));
    let least = hpa.pointer("/spec/minReplicas").and_then(Value::as_i64);
    vec![
        row.name(),
        reference.into(),
        targets(hpa).into(),
        least.map_or_else(|| UNSET.to_owned(), |least| least.to_string()).into(),
        int(hpa, "/spec/maxReplicas").into(),
        int(hpa, "/status/currentReplicas").into(),
        row.age(),
    ]
}

/// The metrics of an autoscaler, `current/target` each.
fn targets(hpa: &Value) -> String {
    const SHOWN: usize = 2;
    // In v1 there is but one metric, in fields of its own.
    let of_v1 = |side: &str, field| {
        let utilization = hpa.pointer(field)?;
        Some(
            json!({"type": "Resource", "resource": {"name": "cpu", side: {"averageUtilization": utilization}}}),
        )
    };
    let v1 = [
        of_v1("target", "/spec/targetCPUUtilizationPercentage"),
        of_v1("current", "/status/currentCPUUtilizationPercentage"),
    ];
    let (specs, statuses) = match &v1 {
        [None, _] => (list(hpa, "/spec/metrics"), list(hpa, "/status/currentMetrics")),
        [spec, status] => (spec.as_slice(), status.as_slice()),
    };
    if specs.is_empty() {
        return NONE.to_owned();
    }
    let shown = specs.iter().enumerate().take(SHOWN).map(|(index, spec)| target(spec, statuses.get(index)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    if specs.len() > SHOWN { format!("{shown} + {} more...", specs.len() - SHOWN) } else { shown }
}

fn target(spec: &Value, status: Option<&Value>) -> String {
    let kind = text(spec, "/type");
    let source = match kind {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let target = |of| spec.pointer(&format!("/{source}/target/{of}")).filter(|value| !value.is_null());
    let status = status.and_then(|status| status.get(source));
    let current =
        |of: &str| status.and_then(|status| status.get("current")?.get(of)).filter(|value| !value.is_null());
    let unknown = || "<unknown>".to_owned();
    let quantity = |value: Option<&Value>| value.map_or_else(|| "<nil>".to_owned(), canonical);
    let percent = |value: &Value| format!("{value}%");

    let average = target("averageValue");
    match kind {
        "Resource" | "ContainerResource" => {
            let resource = text(spec, &format!("/{source}/name"));
            let (current, target) = if average.is_some() {
                (status.map_or_else(unknown, |_| quantity(current("averageValue"))), quantity(average))
            } else {
                let target = target("averageUtilization").map_or_else(|| "<auto>".to_owned(), percent);
                (current("averageUtilization").map_or_else(unknown, percent), target)
            };
            format!("{resource}: {current}/{target}")
        }
        "Pods" => format!(
            "{}/{}",
            status.map_or_else(unknown, |_| quantity(current("averageValue"))),
            quantity(average)
        ),
        _ if average.is_some() => {
            format!("{}/{} (avg)", current("averageValue").map_or_else(unknown, canonical), quantity(average))
        }
        _ => format!(
            "{}/{}",
            status.map_or_else(unknown, |_| quantity(current("value"))),
            quantity(target("value"))
        ),
    }
}
