//! Rules of Pods and of what is in their specs.

use serde_json::Value;

use super::images::pull_policy;
use super::{Rule, each, give, made, part, set, text};
use crate::api::JsonMap;
use crate::quantity::round_up_to_milli;

pub(super) const RULES: &[Rule] = &[
    Rule {
        on: "io.k8s.api.core.v1.Pod",
        gives: &[
            "core.v1.PodSpec.enableServiceLinks",
            "core.v1.ContainerPort.hostPort",
            "core.v1.ResourceRequirements.requests",
        ],
        apply: pod,
    },
    Rule {
        on: "io.k8s.api.core.v1.Container",
        gives: &["core.v1.Container.imagePullPolicy"],
        apply: |container| image(container, "image", "imagePullPolicy"),
    },
    Rule {
        on: "io.k8s.api.core.v1.EphemeralContainerCommon",
        gives: &["core.v1.EphemeralContainerCommon.imagePullPolicy"],
        apply: |container| image(container, "image", "imagePullPolicy"),
    },
    Rule {
        on: "io.k8s.api.core.v1.ImageVolumeSource",
        gives: &["core.v1.ImageVolumeSource.pullPolicy"],
        apply: |source| image(source, "reference", "pullPolicy"),
    },
    Rule {
        on: "io.k8s.api.core.v1.Volume",
        gives: &["core.v1.VolumeSource.emptyDir"],
        apply: |volume| {
            if volume.iter().all(|(field, value)| field == "name" || value.is_null()) {
                made(volume, "emptyDir");
            }
        },
    },
    Rule {
        on: "io.k8s.api.core.v1.ResourceRequirements",
        gives: &["core.v1.ResourceRequirements.limits", "core.v1.ResourceRequirements.requests"],
        apply: |resources| round(resources, &["limits", "requests"]),
    },
    Rule {
        on: "io.k8s.api.core.v1.VolumeResourceRequirements",
        gives: &["core.v1.VolumeResourceRequirements.limits", "core.v1.VolumeResourceRequirements.requests"],
        apply: |resources| round(resources, &["limits", "requests"]),
    },
    Rule {
        on: "io.k8s.api.core.v1.PodSpec",
        gives: &["core.v1.PodSpec.overhead"],
        apply: |spec| round(spec, &["overhead"]),
    },
    Rule {
        on: "io.k8s.api.core.v1.PodStatus",
        gives: &["core.v1.PodStatus.allocatedResources"],
        apply: |status| round(status, &["allocatedResources"]),
    },
    Rule {
        on: "io.k8s.api.core.v1.ContainerStatus",
        gives: &["core.v1.ContainerStatus.allocatedResources"],
        apply: |status| round(status, &["allocatedResources"]),
    },
    Rule {
        on: "io.k8s.api.core.v1.NodeStatus",
        gives: &["core.v1.NodeStatus.capacity", "core.v1.NodeStatus.allocatable"],
        apply: |status| round(status, &["capacity", "allocatable"]),
    },
    Rule {
        on: "io.k8s.api.core.v1.PersistentVolumeSpec",
        gives: &["core.v1.PersistentVolumeSpec.capacity"],
        apply: |spec| round(spec, &["capacity"]),
    },
    Rule {
        on: "io.k8s.api.core.v1.PersistentVolumeClaimStatus",
        gives: &[
            "core.v1.PersistentVolumeClaimStatus.allocatedResources",
            "core.v1.PersistentVolumeClaimStatus.capacity",
        ],
        apply: |status| round(status, &["allocatedResources", "capacity"]),
    },
    Rule {
        on: "io.k8s.api.core.v1.LimitRangeItem",
        gives: &[
            "core.v1.LimitRangeItem.default",
            "core.v1.LimitRangeItem.defaultRequest",
            "core.v1.LimitRangeItem.max",
            "core.v1.LimitRangeItem.maxLimitRequestRatio",
            "core.v1.LimitRangeItem.min",
        ],
        apply: |item| round(item, &["default", "defaultRequest", "max", "maxLimitRequestRatio", "min"]),
    },
    Rule {
        on: "io.k8s.api.core.v1.ResourceQuotaSpec",
        gives: &["core.v1.ResourceQuotaSpec.hard"],
        apply: |spec| round(spec, &["hard"]),
    },
    Rule {
        on: "io.k8s.api.core.v1.ResourceQuotaStatus",
        gives: &["core.v1.ResourceQuotaStatus.hard", "core.v1.ResourceQuotaStatus.used"],
        apply: |status| round(status, &["hard", "used"]),
    },
];

fn image(of: &mut JsonMap, image: &str, policy: &str) {
    if text(of, policy).is_empty() {
        let default = pull_policy(text(of, image));
        set(of, policy, default);
    }
}

/// Rounds the quantities in lists of resources.
fn round(of: &mut JsonMap, lists: &[&str]) {
    for list in lists {
        for quantity in part(of, list).into_iter().flat_map(JsonMap::values_mut) {
            if let Value::String(text) = quantity {
                *text = round_up_to_milli(text);
            }
        }
    }
}

/// What only a Pod gets, and no template of one.
fn pod(pod: &mut JsonMap) {
    let Some(spec) = part(pod, "spec") else { return };
    give(spec, "enableServiceLinks", true);
    let on_host = spec.get("hostNetwork") == Some(&true.into());
    for list in ["containers", "initContainers"] {
        for container in each(spec, list) {
            if let Some(resources) = part(container, "resources") {
                request_limits(resources);
            }
            for port in each(container, "ports").filter(|_| on_host) {
                let has_port = port.get("hostPort").and_then(Value::as_i64).is_some_and(|port| port != 0);
                if !has_port && let Some(own) = port.get("containerPort").cloned() {
                    set(port, "hostPort", own);
                }
            }
        }
    }
}

/// A resource with a limit and no request is requested up to its limit.
fn request_limits(resources: &mut JsonMap) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    if let Some(requests) = made(resources, "requests") {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}
