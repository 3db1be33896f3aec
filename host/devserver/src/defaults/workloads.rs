//! Rules of the workloads: Deployments, DaemonSets, StatefulSets, Jobs, ReplicationControllers, autoscalers.

use serde_json::{Value, json};

use super::{Rule, give, has_none, lacks, made, part, set, text};
use crate::api::JsonMap;

pub(super) const RULES: &[Rule] = &[
    Rule {
        on: "io.k8s.api.apps.v1.DeploymentStrategy",
        gives: &[
            "apps.v1.DeploymentStrategy.rollingUpdate",
            "apps.v1.RollingUpdateDeployment.maxSurge",
            "apps.v1.RollingUpdateDeployment.maxUnavailable",
        ],
        apply: |strategy| {
            rolling_update(strategy, &[("maxUnavailable", "25%".into()), ("maxSurge", "25%".into())]);
        },
    },
    Rule {
        on: "io.k8s.api.apps.v1.DaemonSetUpdateStrategy",
        gives: &[
            "apps.v1.DaemonSetUpdateStrategy.rollingUpdate",
            "apps.v1.RollingUpdateDaemonSet.maxSurge",
            "apps.v1.RollingUpdateDaemonSet.maxUnavailable",
        ],
        apply: |strategy| rolling_update(strategy, &[("maxUnavailable", 1.into()), ("maxSurge", 0.into())]),
    },
    Rule {
        on: "io.k8s.api.apps.v1.StatefulSetUpdateStrategy",
        gives: &[
            "apps.v1.StatefulSetUpdateStrategy.rollingUpdate",
            "apps.v1.RollingUpdateStatefulSetStrategy.partition",
        ],
        apply: stateful_set_strategy,
    },
    Rule {
        on: "io.k8s.api.batch.v1.Job",
        gives: &[
            "batch.v1.JobSpec.backoffLimit",
            "batch.v1.JobSpec.completionMode",
            "batch.v1.JobSpec.completions",
            "batch.v1.JobSpec.manualSelector",
            "batch.v1.JobSpec.parallelism",
            "batch.v1.JobSpec.podReplacementPolicy",
            "batch.v1.JobSpec.suspend",
        ],
        apply: job,
    },
    Rule {
        on: "io.k8s.api.core.v1.ReplicationController",
        gives: &["core.v1.ReplicationControllerSpec.selector"],
        apply: replication_controller,
    },
    Rule {
        on: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior",
        gives: &[
            "autoscaling.v2.HPAScalingRules.policies",
            "autoscaling.v2.HPAScalingRules.stabilizationWindowSeconds",
        ],
        apply: scaling_behavior,
    },
];

fn rolling_update(strategy: &mut JsonMap, defaults: &[(&str, Value)]) {
    if matches!(text(strategy, "type"), "" | "RollingUpdate")
        && let Some(update) = made(strategy, "rollingUpdate")
    {
        for (field, value) in defaults {
            give(update, field, value.clone());
        }
    }
}

/// A StatefulSet that names the strategy gets no settings for it.
fn stateful_set_strategy(strategy: &mut JsonMap) {
    if text(strategy, "type").is_empty() {
        made(strategy, "rollingUpdate");
    } else if text(strategy, "type") != "RollingUpdate" {
        return;
    }
    if let Some(update) = part(strategy, "rollingUpdate") {
        give(update, "partition", 0);
    }
}

fn job(job: &mut JsonMap) {
    labels_of_template(job);
    let Some(spec) = part(job, "spec") else { return };
    // A work queue has a parallelism, and completions that are not known.
    if lacks(spec, "completions") && lacks(spec, "parallelism") {
        set(spec, "completions", 1);
    }
    give(spec, "parallelism", 1);
    let limit = if lacks(spec, "backoffLimitPerIndex") { 6 } else { i32::MAX };
    give(spec, "backoffLimit", limit);
    give(spec, "completionMode", "NonIndexed");
    give(spec, "suspend", false);
    let replacement = if lacks(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    give(spec, "podReplacementPolicy", replacement);
    give(spec, "manualSelector", false);
}

fn replication_controller(controller: &mut JsonMap) {
    if let Some(labels) = labels_of_template(controller)
        && let Some(spec) = part(controller, "spec")
        && has_none(spec, "selector")
    {
        set(spec, "selector", labels);
    }
}

/// Labels an object that has no labels as the pods of its template; gives the template's labels.
fn labels_of_template(object: &mut JsonMap) -> Option<Value> {
    let labels = object.get("spec")?.pointer("/template/metadata/labels")?.clone();
    if let Some(metadata) = part(object, "metadata")
        && has_none(metadata, "labels")
    {
        set(metadata, "labels", labels.clone());
    }
    Some(labels)
}

fn scaling_behavior(behavior: &mut JsonMap) {
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    if let Some(rules) = part(behavior, "scaleUp") {
        give(rules, "stabilizationWindowSeconds", 0);
        give(rules, "policies", vec![pods, percent.clone()]);
    }
    if let Some(rules) = part(behavior, "scaleDown") {
        give(rules, "policies", vec![percent]);
    }
}
