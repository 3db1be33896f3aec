//! Pods: one status out of a phase, conditions and the states of all containers.

use std::collections::HashSet;

use jiff::Timestamp;
use pilothouse_object::human_duration;
use serde_json::Value;

use super::Row;
use super::duration::{seconds_between, time};
use super::read::{NONE, condition, exists, flag, int, is_deleted, list, text, text_or};

/// What is counted over the containers.
#[derive(Default)]
struct Restarts {
    count: i64,
    /// When the container that ended last did so.
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count = self.count.saturating_add(int(status, "/restartCount"));
        self.last = self.last.max(time(text(status, "/lastState/terminated/finishedAt")));
    }

    fn text(&self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count != 0 => {
                format!("{} ({} ago)", self.count, human_duration(seconds_between(last, now)))
            }
            _ => self.count.to_string(),
        }
    }
}

/// What the init containers say.
#[derive(Default)]
struct Initialization {
    /// Why it is not over yet.
    pending: Option<String>,
    /// Sidecars that are ready.
    ready: usize,
    restarts: Restarts,
    sidecar_restarts: Restarts,
}

/// What the main containers say.
struct Running {
    /// What takes the place of the reason found so far.
    reason: Option<String>,
    ready: usize,
}

pub(super) fn pod(row: Row<'_>) -> Vec<Value> {
    let pod = row.object;
    let sidecars = sidecars(pod);
    let init = initialization(pod, &sidecars);
    let containers = list(pod, "/spec/containers").len() + sidecars.len();

    let mut reason = text_or(pod, "/status/reason", text(pod, "/status/phase")).to_owned();
    let gated = |condition: &Value| {
        text(condition, "/type") == "PodScheduled" && text(condition, "/reason") == "SchedulingGated"
    };
    if list(pod, "/status/conditions").iter().any(gated) {
        "SchedulingGated".clone_into(&mut reason);
    }
    let mut ready = init.ready;
    let mut restarts = init.restarts;
    let initialized = init.pending.is_none() || is_true(pod, "Initialized");
    if let Some(pending) = init.pending {
        reason = pending;
    }
    if initialized {
        restarts = init.sidecar_restarts;
        let running = running(pod, &reason, &mut restarts);
        ready += running.ready;
        reason = running.reason.unwrap_or(reason);
    }
    if is_deleted(pod) {
        if text(pod, "/status/reason") == "NodeLost" {
            "Unknown".clone_into(&mut reason);
        } else if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut reason);
        }
    }

    let first_ip = text_or(pod, "/status/podIPs/0/ip", NONE);
    vec![
        row.name(),
        format!("{ready}/{containers}").into(),
        reason.into(),
        restarts.text(row.now).into(),
        row.age(),
        text_or(pod, "/status/podIP", first_ip).into(),
        text_or(pod, "/spec/nodeName", NONE).into(),
        text_or(pod, "/status/nominatedNodeName", NONE).into(),
        readiness_gates(pod).into(),
    ]
}

/// The names of the init containers that keep running.
fn sidecars(pod: &Value) -> HashSet<&str> {
    let containers = list(pod, "/spec/initContainers").iter();
    containers
        .filter(|c| text(c, "/restartPolicy") == "Always")
        .map(|container| text(container, "/name"))
        .collect()
}

fn initialization(pod: &Value, sidecars: &HashSet<&str>) -> Initialization {
    let mut init = Initialization::default();
    for (index, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
        let sidecar = sidecars.contains(text(status, "/name"));
        init.restarts.add(status);
        if sidecar {
            init.sidecar_restarts.add(status);
        }
        let ended = exists(status, "/state/terminated");
        if ended && int(status, "/state/terminated/exitCode") == 0 {
            continue;
        }
        if sidecar && flag(status, "/started") {
            init.ready += usize::from(flag(status, "/ready"));
            continue;
        }
        let waiting = text(status, "/state/waiting/reason");
        init.pending = Some(if ended {
            format!("Init:{}", end_of(status))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", list(pod, "/spec/initContainers").len())
        });
        break;
    }
    init
}

fn running(pod: &Value, so_far: &str, restarts: &mut Restarts) -> Running {
    let (mut reason, mut error, mut ready) = (None, None, 0);
    for status in list(pod, "/status/containerStatuses").iter().rev() {
        restarts.add(status);
        let waiting = text(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            reason = Some(waiting.to_owned());
        } else if exists(status, "/state/terminated") {
            reason = Some(end_of(status));
            if int(status, "/state/terminated/exitCode") != 0 {
                error.clone_from(&reason);
            }
        } else if flag(status, "/ready") && exists(status, "/state/running") {
            ready += 1;
        }
    }
    // A pod is not over while a container runs, and not well if one failed.
    if reason.as_deref().unwrap_or(so_far) == "Completed" {
        if ready > 0 && is_true(pod, "Ready") {
            reason = Some("Running".to_owned());
        } else if error.is_some() {
            reason = error;
        } else if ready > 0 {
            reason = Some("NotReady".to_owned());
        }
    }
    Running { reason, ready }
}

/// Why a container ended.
fn end_of(status: &Value) -> String {
    let reason = text(status, "/state/terminated/reason");
    match (reason, int(status, "/state/terminated/signal")) {
        ("", 0) => format!("ExitCode:{}", int(status, "/state/terminated/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn is_true(pod: &Value, wanted: &str) -> bool {
    condition(pod, "/status/conditions", wanted).is_some_and(|condition| text(condition, "/status") == "True")
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = gates.iter().filter(|gate| is_true(pod, text(gate, "/conditionType"))).count();
    format!("{open}/{}", gates.len())
}
