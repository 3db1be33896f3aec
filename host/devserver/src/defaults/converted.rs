//! Fields that a server fills in as it converts an object to its own form and back: two names for one thing, one of them
//! deprecated; values that its own form cannot leave out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Rule, each, give, lacks, made, part, set, text};
use crate::api::JsonMap;
use crate::kinds::daemon_sets;

pub(super) const RULES: &[Rule] = &[
    Rule { on: "io.k8s.api.core.v1.PodSpec", gives: &[], apply: service_account },
    Rule { on: "io.k8s.api.core.v1.Pod", gives: &[], apply: pod },
    Rule {
        on: "io.k8s.api.core.v1.NodeSpec",
        gives: &[],
        apply: |spec| first_of(spec, "podCIDR", "podCIDRs", None),
    },
    Rule { on: "io.k8s.api.core.v1.Secret", gives: &[], apply: secret },
    Rule {
        on: "io.k8s.api.apps.v1.StatefulSetSpec",
        gives: &[],
        apply: |spec| {
            for claim in each(spec, "volumeClaimTemplates") {
                set(claim, "apiVersion", "v1");
                set(claim, "kind", "PersistentVolumeClaim");
            }
        },
    },
    Rule {
        on: "io.k8s.api.apps.v1.StatefulSetUpdateStrategy",
        gives: &[],
        apply: |strategy| zeros(strategy, &["partition"]),
    },
    Rule {
        on: "io.k8s.api.apps.v1.DeploymentStrategy",
        gives: &[],
        apply: |strategy| zeros(strategy, &["maxUnavailable", "maxSurge"]),
    },
    Rule { on: "io.k8s.api.apps.v1.DaemonSet", gives: &[], apply: daemon_sets::read },
    Rule {
        on: "io.k8s.api.apps.v1.DaemonSetUpdateStrategy",
        gives: &[],
        apply: |strategy| zeros(strategy, &["maxUnavailable", "maxSurge"]),
    },
    Rule {
        on: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceConversion",
        gives: &[],
        apply: |conversion| {
            let is_empty = part(conversion, "webhook").is_some_and(|webhook| {
                lacks(webhook, "conversionReviewVersions") && !webhook.contains_key("clientConfig")
            });
            if is_empty {
                conversion.remove("webhook");
            }
        },
    },
];

fn service_account(spec: &mut JsonMap) {
    if text(spec, "serviceAccountName").is_empty() && !text(spec, "serviceAccount").is_empty() {
        let name = text(spec, "serviceAccount").to_owned();
        set(spec, "serviceAccountName", name);
    }
    let name = text(spec, "serviceAccountName").to_owned();
    if !name.is_empty() {
        set(spec, "serviceAccount", name);
    }
}

fn pod(pod: &mut JsonMap) {
    if let Some(spec) = part(pod, "spec")
        && spec
            .get("terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
            .is_some_and(|seconds| seconds < 0)
    {
        set(spec, "terminationGracePeriodSeconds", 1);
    }
    if let Some(status) = part(pod, "status") {
        first_of(status, "podIP", "podIPs", Some("ip"));
    }
}

/// A field that is the first of a list: if both are there, it counts. In the list it is the `member` of an object.
fn first_of(object: &mut JsonMap, field: &str, list: &str, member: Option<&str>) {
    let own = text(object, field).to_owned();
    let first = object.get(list).and_then(|list| list.get(0));
    let first = first.map(|first| member.map_or(first, |member| &first[member]).as_str().unwrap_or_default());
    match first.map(str::to_owned) {
        Some(first) if own.is_empty() => set(object, field, first),
        Some(first) if first == own => {}
        _ if own.is_empty() => {}
        _ => {
            let one = member.map_or_else(|| json!(own), |member| json!({ member: own }));
            set(object, list, vec![one]);
        }
    }
}

/// What a client writes as text is kept as bytes.
fn secret(secret: &mut JsonMap) {
    let Some(Value::Object(texts)) = secret.remove("stringData") else { return };
    if texts.is_empty() {
        return;
    }
    if let Some(data) = made(secret, "data") {
        for (name, text) in texts {
            data.insert(name, STANDARD.encode(text.as_str().unwrap_or_default()).into());
        }
    }
}

/// Settings of a rolling update that are there whatever the strategy is.
fn zeros(strategy: &mut JsonMap, settings: &[&str]) {
    if let Some(update) = part(strategy, "rollingUpdate") {
        settings.iter().for_each(|setting| give(update, setting, 0));
    }
}
