//! Rules of other kinds: namespaces, nodes, volumes, limits, roles, devices, definitions.

use serde_json::Value;

use super::{Rule, each, give, has_none, made, part, set, text};
use crate::api::{JsonMap, Timestamp};

const ROLES: &str = "rbac.authorization.k8s.io";

pub(super) const RULES: &[Rule] = &[
    Rule {
        on: "io.k8s.api.core.v1.Namespace",
        gives: &["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta.labels"],
        apply: namespace,
    },
    Rule {
        on: "io.k8s.api.core.v1.NodeStatus",
        gives: &["core.v1.NodeStatus.allocatable"],
        apply: |status| {
            if let Some(capacity) = status.get("capacity").filter(|c| !c.is_null()).cloned() {
                give(status, "allocatable", capacity);
            }
        },
    },
    Rule {
        on: "io.k8s.api.core.v1.PersistentVolume",
        gives: &[
            "core.v1.PersistentVolumeSpec.persistentVolumeReclaimPolicy",
            "core.v1.PersistentVolumeSpec.volumeMode",
        ],
        apply: |volume| {
            if let Some(spec) = part(volume, "spec") {
                if text(spec, "persistentVolumeReclaimPolicy").is_empty() {
                    set(spec, "persistentVolumeReclaimPolicy", "Retain");
                }
                give(spec, "volumeMode", "Filesystem");
            }
        },
    },
    Rule {
        on: "io.k8s.api.core.v1.LimitRangeItem",
        gives: &["core.v1.LimitRangeItem.default", "core.v1.LimitRangeItem.defaultRequest"],
        apply: limits,
    },
    Rule {
        on: "io.k8s.api.rbac.v1.Subject",
        gives: &["rbac.v1.Subject.apiGroup"],
        apply: |subject| {
            if text(subject, "apiGroup").is_empty() && matches!(text(subject, "kind"), "User" | "Group") {
                set(subject, "apiGroup", ROLES);
            }
        },
    },
    Rule {
        on: "io.k8s.api.resource.v1.ExactDeviceRequest",
        gives: &["resource.v1.ExactDeviceRequest.count"],
        apply: device_count,
    },
    Rule {
        on: "io.k8s.api.resource.v1.DeviceSubRequest",
        gives: &["resource.v1.DeviceSubRequest.count"],
        apply: device_count,
    },
    Rule {
        on: "io.k8s.api.resource.v1.DeviceTaint",
        gives: &["resource.v1.DeviceTaint.timeAdded"],
        apply: |taint| give(taint, "timeAdded", Timestamp::now().seconds()),
    },
    Rule {
        on: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        gives: &[
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionNames.listKind",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionNames.singular",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus.storedVersions",
        ],
        apply: definition,
    },
];

fn namespace(namespace: &mut JsonMap) {
    let Some(metadata) = part(namespace, "metadata") else { return };
    let name = text(metadata, "name").to_owned();
    if !name.is_empty()
        && let Some(labels) = made(metadata, "labels")
    {
        set(labels, "kubernetes.io/metadata.name", name);
    }
}

/// Limits of containers: the largest is the default, and the default is what is requested.
fn limits(item: &mut JsonMap) {
    if text(item, "type") != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let given = item.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(limits) = made(item, to) {
            for (name, quantity) in given {
                limits.entry(name).or_insert(quantity);
            }
        }
    }
}

fn device_count(request: &mut JsonMap) {
    let has_count = request.get("count").and_then(Value::as_i64).is_some_and(|count| count != 0);
    if matches!(text(request, "allocationMode"), "" | "ExactCount") && !has_count {
        set(request, "count", 1);
    }
}

fn definition(definition: &mut JsonMap) {
    let Some(spec) = part(definition, "spec") else { return };
    if let Some(names) = part(spec, "names") {
        let kind = text(names, "kind").to_owned();
        if text(names, "singular").is_empty() {
            set(names, "singular", kind.to_lowercase());
        }
        if text(names, "listKind").is_empty() && !kind.is_empty() {
            set(names, "listKind", format!("{kind}List"));
        }
    }
    let stored = each(spec, "versions").find(|version| version.get("storage") == Some(&true.into()));
    let stored = stored.map(|version| text(version, "name").to_owned());
    if let (Some(stored), Some(status)) = (stored, part(definition, "status"))
        && has_none(status, "storedVersions")
    {
        set(status, "storedVersions", vec![stored]);
    }
}
