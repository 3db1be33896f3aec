use serde_json::{Value, json};

use super::{DAY, HOUR, MINUTE, ago, assert_cells, merge, now, object};
use crate::printing::cells;

/// A pod with one running container, and the members given.
fn pod(members: Value) -> Value {
    let mut pod = object(
        "v1",
        "Pod",
        "web-0",
        json!({
            "spec": {"nodeName": "node-1", "containers": [{"name": "app", "image": "app:1"}]},
            "status": {
                "phase": "Running",
                "podIP": "10.1.2.3",
                "podIPs": [{"ip": "10.1.2.3"}, {"ip": "fd00::3"}],
                "conditions": [
                    {"type": "Initialized", "status": "True"},
                    {"type": "Ready", "status": "True"},
                    {"type": "PodScheduled", "status": "True"},
                ],
                "containerStatuses": [running()],
            },
        }),
    );
    merge(&mut pod, members);
    pod
}

fn running() -> Value {
    json!({"name": "app", "ready": true, "started": true, "restartCount": 0, "state": {"running": {"startedAt": ago(DAY)}}})
}

fn waiting(reason: &str) -> Value {
    json!({"name": "app", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": reason}}})
}

fn terminated(exit_code: i64, signal: i64, reason: &str) -> Value {
    let terminated =
        json!({"exitCode": exit_code, "signal": signal, "reason": reason, "finishedAt": ago(HOUR)});
    json!({"name": "app", "ready": false, "restartCount": 0, "state": {"terminated": terminated}})
}

/// The cells of a pod that is ready or not, has a status and has been restarted.
#[track_caller]
fn assert_pod(members: Value, ready: &str, status: &str, restarts: &str) {
    let pod = pod(members);
    assert_cells(
        "pods",
        &pod,
        json!(["web-0", ready, status, restarts, "10d", "10.1.2.3", "node-1", "<none>", "<none>"]),
    );
}

#[track_caller]
fn assert_containers(statuses: Value, ready: &str, status: &str) {
    assert_pod(json!({"status": {"containerStatuses": statuses}}), ready, status, "0");
}

#[test]
fn a_running_pod_shows_its_phase() {
    assert_pod(json!({}), "1/1", "Running", "0");
}

#[test]
fn a_pod_that_nobody_has_looked_at_is_pending_and_nowhere() {
    let pod = object(
        "v1",
        "Pod",
        "new",
        json!({"spec": {"containers": [{"name": "app"}]}, "status": {"phase": "Pending"}}),
    );
    assert_cells(
        "pods",
        &pod,
        json!(["new", "0/1", "Pending", "0", "10d", "<none>", "<none>", "<none>", "<none>"]),
    );
}

#[test]
fn the_first_of_the_addresses_counts_if_there_is_no_main_one() {
    let moved = pod(json!({"status": {"podIP": "10.9.9.9"}}));
    assert_eq!(cells("", "pods", &moved, now()).unwrap()[5], "10.9.9.9");
    let pod = pod(json!({"status": {"podIP": null}}));
    assert_eq!(cells("", "pods", &pod, now()).unwrap()[5], "10.1.2.3");
}

#[test]
fn the_reason_of_the_pod_goes_before_its_phase() {
    assert_pod(
        json!({"status": {"phase": "Failed", "reason": "Evicted", "containerStatuses": []}}),
        "0/1",
        "Evicted",
        "0",
    );
}

#[test]
fn a_pod_with_scheduling_gates_is_gated() {
    let conditions = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
    assert_pod(
        json!({"status": {"phase": "Pending", "conditions": conditions, "containerStatuses": []}}),
        "0/1",
        "SchedulingGated",
        "0",
    );
}

#[test]
fn a_waiting_or_ended_container_gives_the_reason() {
    assert_containers(json!([waiting("CrashLoopBackOff")]), "0/1", "CrashLoopBackOff");
    assert_containers(json!([waiting("ImagePullBackOff")]), "0/1", "ImagePullBackOff");
    assert_containers(json!([waiting("")]), "0/1", "Running");
    assert_containers(json!([terminated(1, 0, "Error")]), "0/1", "Error");
    assert_containers(json!([terminated(137, 9, "")]), "0/1", "Signal:9");
    assert_containers(json!([terminated(3, 0, "")]), "0/1", "ExitCode:3");
}

#[test]
fn the_first_container_that_is_not_running_counts() {
    assert_containers(json!([waiting("First"), terminated(1, 0, "Second"), running()]), "1/1", "First");
}

#[test]
fn a_container_that_completed_hides_neither_errors_nor_what_still_runs() {
    let completed = terminated(0, 0, "Completed");
    assert_containers(json!([completed]), "0/1", "Completed");
    assert_containers(json!([completed, running()]), "1/1", "Running");
    assert_containers(json!([completed, terminated(2, 0, "Error")]), "0/1", "Error");
    let not_ready = json!([{"type": "Ready", "status": "False"}]);
    assert_pod(
        json!({"status": {"conditions": not_ready, "containerStatuses": [completed, running()]}}),
        "1/1",
        "NotReady",
        "0",
    );
}

#[test]
fn a_running_container_that_is_not_ready_is_not_counted() {
    let mut status = running();
    status["ready"] = json!(false);
    assert_containers(json!([status]), "0/1", "Running");
}

#[test]
fn restarts_say_when_the_last_one_was() {
    let restarted = |count, finished: Option<i64>| {
        let mut status = running();
        status["restartCount"] = json!(count);
        if let Some(seconds) = finished {
            status["lastState"] = json!({"terminated": {"exitCode": 1, "finishedAt": ago(seconds)}});
        }
        status
    };
    let restarts = |statuses: Value, expected| {
        assert_pod(json!({"status": {"containerStatuses": statuses}}), "1/1", "Running", expected);
    };
    restarts(json!([restarted(3, Some(25 * MINUTE))]), "3 (25m ago)");
    restarts(json!([restarted(3, None)]), "3");
    restarts(json!([restarted(0, Some(25 * MINUTE))]), "0");
    let mut other = restarted(2, Some(3 * DAY));
    other["ready"] = json!(false);
    restarts(json!([other, restarted(1, Some(5 * HOUR))]), "3 (5h ago)");
}

#[test]
fn a_pod_that_is_deleted_is_terminating_unless_it_has_ended_or_its_node_is_lost() {
    let deleted = |status: Value| json!({"metadata": {"deletionTimestamp": ago(MINUTE)}, "status": status});
    assert_pod(deleted(json!({})), "1/1", "Terminating", "0");
    assert_pod(deleted(json!({"reason": "NodeLost"})), "1/1", "Unknown", "0");
    let ended = json!({"phase": "Succeeded", "containerStatuses": [terminated(0, 0, "Completed")]});
    assert_pod(deleted(ended), "0/1", "Completed", "0");
}

/// A pod with two init containers.
#[track_caller]
fn assert_init(statuses: Value, main: Value, ready: &str, status: &str, restarts: &str) {
    assert_pod(
        json!({
            "spec": {"initContainers": [{"name": "one"}, {"name": "two"}]},
            "status": {
                "phase": "Pending",
                "conditions": [{"type": "Initialized", "status": "False"}],
                "initContainerStatuses": statuses,
                "containerStatuses": [main],
            },
        }),
        ready,
        status,
        restarts,
    );
}

#[test]
fn a_pod_that_initializes_says_how_far_it_is() {
    let pending = waiting("PodInitializing");
    let done = terminated(0, 0, "Completed");
    let mut restarted = running();
    restarted["restartCount"] = json!(2);
    restarted["lastState"] = json!({"terminated": {"exitCode": 1, "finishedAt": ago(20 * MINUTE)}});

    assert_init(json!([running(), pending]), pending.clone(), "0/1", "Init:0/2", "0");
    assert_init(json!([done, running()]), pending.clone(), "0/1", "Init:1/2", "0");
    assert_init(json!([done, pending]), pending.clone(), "0/1", "Init:1/2", "0");
    assert_init(json!([restarted]), pending.clone(), "0/1", "Init:0/2", "2 (20m ago)");
    assert_init(json!([waiting("CrashLoopBackOff")]), pending.clone(), "0/1", "Init:CrashLoopBackOff", "0");
    assert_init(json!([terminated(1, 0, "Error")]), pending.clone(), "0/1", "Init:Error", "0");
    assert_init(json!([terminated(1, 9, "")]), pending.clone(), "0/1", "Init:Signal:9", "0");
    assert_init(json!([terminated(7, 0, "")]), pending.clone(), "0/1", "Init:ExitCode:7", "0");
    assert_init(json!([done, done]), waiting("PodInitializing"), "0/1", "PodInitializing", "0");
}

#[test]
fn a_sidecar_counts_as_a_container_and_its_restarts_stay() {
    let mut sidecar = running();
    sidecar["name"] = json!("proxy");
    sidecar["restartCount"] = json!(4);
    sidecar["lastState"] = json!({"terminated": {"exitCode": 1, "finishedAt": ago(30 * MINUTE)}});
    let mut once = terminated(0, 0, "Completed");
    once["name"] = json!("setup");
    once["restartCount"] = json!(7);
    let members = |sidecar: &Value| {
        json!({
            "spec": {"initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}]},
            "status": {"initContainerStatuses": [once, sidecar]},
        })
    };
    assert_pod(members(&sidecar), "2/2", "Running", "4 (30m ago)");
    sidecar["ready"] = json!(false);
    assert_pod(members(&sidecar), "1/2", "Running", "4 (30m ago)");
    sidecar["started"] = json!(false);
    merge(&mut sidecar, json!({"state": {"running": null}}));
    let mut starting = members(&sidecar);
    starting["status"]["conditions"] = json!([{"type": "Initialized", "status": "False"}]);
    assert_pod(starting, "0/2", "Init:1/2", "11 (30m ago)");
}

#[test]
fn readiness_gates_are_counted_by_their_conditions() {
    let pod = pod(json!({
        "spec": {"readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}]},
        "status": {
            "nominatedNodeName": "node-2",
            "conditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}],
        },
    }));
    let cells = cells("", "pods", &pod, now()).unwrap();
    assert_eq!(&cells[7..], [json!("node-2"), json!("1/3")]);
}
