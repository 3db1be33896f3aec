use serde_json::{Value, json};

use super::{DAY, HOUR, MINUTE, ago, assert_cells, merge, now, object};
use crate::printing::cells;

fn workload(kind: &str, members: Value) -> Value {
    let mut workload = object(
        if matches!(kind, "Job" | "CronJob") { "batch/v1" } else { "apps/v1" },
        kind,
        "web",
        json!({"spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": [{"name": "app", "image": "app:1"}, {"name": "log", "image": "log:2"}]}},
        }}),
    );
    merge(&mut workload, members);
    workload
}

#[test]
fn a_deployment_counts_ready_updated_and_available_pods() {
    let deployment = workload(
        "Deployment",
        json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 1, "updatedReplicas": 3, "availableReplicas": 2}}),
    );
    assert_cells(
        "deployments",
        &deployment,
        json!(["web", "1/3", 3, 2, "10d", "app,log", "app:1,log:2", "app=web"]),
    );
}

#[test]
fn a_selector_is_written_in_the_order_of_its_keys() {
    let expressions = json!([
        {"key": "tier", "operator": "NotIn", "values": ["z", "a"]},
        {"key": "zone", "operator": "Exists"},
        {"key": "alpha", "operator": "DoesNotExist"},
        {"key": "env", "operator": "In", "values": ["prod"]},
    ]);
    let selected = "!alpha,app=web,env in (prod),tier notin (a,z),zone";
    let replicas = json!({"spec": {"replicas": 2, "selector": {"matchExpressions": expressions}}, "status": {"replicas": 2}});
    let row = |selector| json!(["web", 2, 2, 0, "10d", "app,log", "app:1,log:2", selector]);
    let mut set = workload("ReplicaSet", replicas);
    assert_cells("replicasets", &set, row(selected));
    set["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Around"}]});
    assert_cells("replicasets", &set, row("<error>"));
    set["spec"]["selector"] = json!({});
    assert_cells("replicasets", &set, row("<none>"));
}

#[test]
fn a_deployment_has_other_words_for_a_selector_that_is_empty_or_invalid() {
    let row = |selector| json!(["web", "0/1", 0, 0, "10d", "app,log", "app:1,log:2", selector]);
    let mut deployment = workload("Deployment", json!({"spec": {"replicas": 1}}));
    deployment["spec"]["selector"] = json!({});
    assert_cells("deployments", &deployment, row(""));
    deployment["spec"]["selector"] =
        json!({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]});
    assert_cells("deployments", &deployment, row("<invalid>"));
}

#[test]
fn the_other_sets_count_their_pods() {
    let stateful = workload("StatefulSet", json!({"spec": {"replicas": 2}, "status": {"readyReplicas": 2}}));
    assert_cells("statefulsets", &stateful, json!(["web", "2/2", "10d", "app,log", "app:1,log:2"]));

    let daemon = workload(
        "DaemonSet",
        json!({
            "spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd", "arch": "arm64"}}}},
            "status": {
                "desiredNumberScheduled": 5,
                "currentNumberScheduled": 4,
                "numberReady": 3,
                "updatedNumberScheduled": 2,
                "numberAvailable": 1,
            },
        }),
    );
    let expected =
        json!(["web", 5, 4, 3, 2, 1, "arch=arm64,disk=ssd", "10d", "app,log", "app:1,log:2", "app=web"]);
    assert_cells("daemonsets", &daemon, expected);

    let controller = object(
        "v1",
        "ReplicationController",
        "old",
        json!({
            "spec": {
                "replicas": 2,
                "selector": {"app": "old"},
                "template": {"spec": {"containers": [{"name": "app", "image": "app:1"}]}},
            },
            "status": {"replicas": 2, "readyReplicas": 1},
        }),
    );
    assert_cells(
        "replicationcontrollers",
        &controller,
        json!(["old", 2, 2, 1, "10d", "app", "app:1", "app=old"]),
    );

    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
    let template = object("v1", "PodTemplate", "t", json!({"template": template}));
    assert_cells("podtemplates", &template, json!(["t", "a", "b", "app=web"]));
}

#[test]
fn a_revision_names_its_controller() {
    let owner = |api_version| {
        let owners = json!([
            {"apiVersion": "v1", "kind": "Node", "name": "other", "uid": "1"},
            {"apiVersion": api_version, "kind": "StatefulSet", "name": "web", "uid": "2", "controller": true},
        ]);
        let members = json!({"metadata": {"ownerReferences": owners}, "revision": 4});
        object("apps/v1", "ControllerRevision", "web-1", members)
    };
    assert_cells(
        "controllerrevisions",
        &owner("apps/v1"),
        json!(["web-1", "statefulset.apps/web", 4, "10d"]),
    );
    assert_cells("controllerrevisions", &owner("v1"), json!(["web-1", "statefulset/web", 4, "10d"]));
    let orphan = object("apps/v1", "ControllerRevision", "web-1", json!({"revision": 1}));
    assert_cells("controllerrevisions", &orphan, json!(["web-1", "<none>", 1, "10d"]));
}

#[track_caller]
fn assert_job(members: Value, status: &str, completions: &str, duration: &str) {
    let row = json!(["web", status, completions, duration, "10d", "app,log", "app:1,log:2", "app=web"]);
    assert_cells("jobs", &workload("Job", members), row);
}

#[test]
fn a_job_shows_how_far_it_is_and_how_long_it_took() {
    let condition = |kind| json!([{"type": kind, "status": "True"}, {"type": "Other", "status": "True"}]);
    assert_job(json!({"spec": {"completions": 3}}), "Running", "0/3", "");
    assert_job(json!({"spec": {"parallelism": 1}}), "Running", "0/1", "");
    assert_job(json!({"spec": {"parallelism": 4}, "status": {"succeeded": 2}}), "Running", "2/1 of 4", "");
    assert_job(
        json!({"spec": {"completions": 1}, "status": {"startTime": ago(20 * MINUTE)}}),
        "Running",
        "0/1",
        "20m",
    );
    let complete = json!({
        "succeeded": 1,
        "startTime": ago(DAY),
        "completionTime": ago(DAY - 90),
        "conditions": condition("Complete"),
    });
    assert_job(json!({"spec": {"completions": 1}, "status": complete}), "Complete", "1/1", "90s");
    for kind in ["Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"] {
        assert_job(
            json!({"spec": {"completions": 1}, "status": {"conditions": condition(kind)}}),
            kind,
            "0/1",
            "",
        );
    }
    let mut deleted = json!({"metadata": {"deletionTimestamp": ago(0)}, "spec": {"completions": 1}});
    assert_job(deleted.clone(), "Terminating", "0/1", "");
    deleted["status"] = json!({"conditions": condition("Suspended")});
    assert_job(deleted.clone(), "Terminating", "0/1", "");
    deleted["status"] = json!({"conditions": condition("Failed")});
    assert_job(deleted, "Failed", "0/1", "");
}

#[test]
fn a_cron_job_shows_its_schedule() {
    let template =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:1"}]}}}});
    let mut cron_job = object(
        "batch/v1",
        "CronJob",
        "nightly",
        json!({"spec": {"schedule": "0 3 * * *", "jobTemplate": template}}),
    );
    cron_job["spec"]["suspend"] = json!(false);
    let row = |zone, suspend, active, last| {
        json!(["nightly", "0 3 * * *", zone, suspend, active, last, "10d", "app", "app:1", "<none>"])
    };
    assert_cells("cronjobs", &cron_job, row("<none>", "False", 0, "<none>"));
    cron_job["spec"]["suspend"] = json!(true);
    cron_job["spec"]["timeZone"] = json!("Etc/UTC");
    cron_job["status"] = json!({"active": [{"name": "nightly-1"}], "lastScheduleTime": ago(9 * HOUR)});
    assert_cells("cronjobs", &cron_job, row("Etc/UTC", "True", 1, "9h"));
    cron_job["spec"]["jobTemplate"]["spec"]["selector"] = json!({"matchLabels": {"app": "nightly"}});
    let cells = cells("batch", "cronjobs", &cron_job, now()).unwrap();
    assert_eq!(cells.last(), Some(&json!("app=nightly")));
}

fn autoscaler(metrics: Value, current: Value) -> Value {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    object(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "web",
        json!({
            "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 9, "metrics": metrics},
            "status": {"currentReplicas": 3, "desiredReplicas": 4, "currentMetrics": current},
        }),
    )
}

#[track_caller]
fn assert_targets(metrics: Value, current: Value, expected: &str) {
    let row = json!(["web", "Deployment/web", expected, "2", 9, 3, "10d"]);
    assert_cells("horizontalpodautoscalers", &autoscaler(metrics, current), row);
}

#[test]
fn an_autoscaler_shows_current_and_wanted_values() {
    let resource = |target| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    let now = |current| json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}]);
    let utilization = json!({"type": "Utilization", "averageUtilization": 80});
    assert_targets(json!([]), json!([]), "<none>");
    assert_targets(json!([resource(utilization.clone())]), json!([]), "cpu: <unknown>/80%");
    let current = json!({"averageUtilization": 45, "averageValue": "90m"});
    assert_targets(json!([resource(utilization.clone())]), now(current.clone()), "cpu: 45%/80%");
    let value = json!({"type": "AverageValue", "averageValue": "0.5"});
    assert_targets(json!([resource(value.clone())]), now(current), "cpu: 90m/500m");
    assert_targets(json!([resource(value)]), json!([]), "cpu: <unknown>/500m");

    let metric = json!({"name": "requests"});
    let pods = json!({"type": "Pods", "pods": {"metric": metric, "target": {"type": "AverageValue", "averageValue": "1000"}}});
    let pods_now =
        json!([{"type": "Pods", "pods": {"metric": metric, "current": {"averageValue": "1500m"}}}]);
    assert_targets(json!([pods]), pods_now, "1500m/1k");
    let external = |target| json!({"type": "External", "external": {"metric": metric, "target": target}});
    let external_now =
        |current| json!([{"type": "External", "external": {"metric": metric, "current": current}}]);
    let average = json!({"type": "AverageValue", "averageValue": "10"});
    assert_targets(
        json!([external(average.clone())]),
        external_now(json!({"averageValue": "7"})),
        "7/10 (avg)",
    );
    assert_targets(json!([external(average)]), json!([]), "<unknown>/10 (avg)");
    assert_targets(
        json!([external(json!({"type": "Value", "value": "30"}))]),
        external_now(json!({"value": "7"})),
        "7/30",
    );

    let two = json!([resource(utilization.clone()), pods]);
    assert_targets(two, json!([]), "cpu: <unknown>/80%, <unknown>/1k");
    let many = json!([resource(utilization.clone()), pods, resource(utilization)]);
    assert_targets(many, json!([]), "cpu: <unknown>/80%, <unknown>/1k + 1 more...");
    assert_targets(json!([{"type": "Odd"}]), json!([]), "<unknown type>");
}

#[test]
fn the_first_version_of_an_autoscaler_has_one_metric() {
    let mut hpa = autoscaler(json!(null), json!(null));
    hpa["apiVersion"] = json!("autoscaling/v1");
    hpa["spec"]["targetCPUUtilizationPercentage"] = json!(70);
    let row = |targets, least| json!(["web", "Deployment/web", targets, least, 9, 3, "10d"]);
    assert_cells("horizontalpodautoscalers", &hpa, row("cpu: <unknown>/70%", "2"));
    hpa["status"]["currentCPUUtilizationPercentage"] = json!(33);
    assert_cells("horizontalpodautoscalers", &hpa, row("cpu: 33%/70%", "2"));
}
