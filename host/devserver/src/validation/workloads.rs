//! Deployments, ReplicaSets, DaemonSets, StatefulSets, ReplicationControllers and what else makes Pods for good.

use serde_json::{Map, Value, json};

use super::claims::claim_spec;
use super::int_or_percent;
use super::node::{Node, field};
use super::pods::{template, template_with};
use super::selector::{is_empty, matches, selector};
use crate::api::{JsonMap, syntax};
use crate::schema::Causes;

const MISMATCH: &str = "`selector` does not match template `labels`";

/// The labels of a template as messages show them.
fn template_labels<'v>(template: &Node<'_, 'v>) -> &'v Value {
    &template.value()["metadata"]["labels"]
}

fn mismatch(template: &Node<'_, '_>, causes: &mut Causes) {
    let metadata = template.field("metadata");
    metadata.field("labels").invalid(causes, MISMATCH);
}

/// Pods that go on for good: they are started again, without a deadline.
fn lasting(template: &Node<'_, '_>, kind: &str, causes: &mut Causes) {
    let spec = template.field("spec");
    let policy = spec.field("restartPolicy");
    if policy.text() != "Always" {
        policy.not_supported(causes, &["Always"]);
    }
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.is_set() {
        deadline.forbidden(causes, &format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

/// A selector that must be there; `kind` is what messages call the object.
fn required_selector(of: &Node<'_, '_>, kind: &str, causes: &mut Causes) {
    if !of.is_set() {
        return of.required(causes, "");
    }
    selector(of, causes);
    if is_empty(of) {
        let why = format!("empty selector is invalid for {kind}");
        of.invalid(causes, &why);
    }
}

fn deployment_template(spec: &Node<'_, '_>, causes: &mut Causes) {
    let (selector, pods) = (spec.field("selector"), spec.field("template"));
    match matches(&selector, template_labels(&pods)) {
        None => return selector.invalid(causes, "invalid label selector"),
        Some(false) => mismatch(&pods, causes),
        Some(true) => {}
    }
    template(&pods, causes);
    lasting(&pods, "ReplicaSet", causes);
}

pub(super) fn deployment(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    spec.field("replicas").non_negative(causes);
    required_selector(&spec.field("selector"), "deployment", causes);
    deployment_template(&spec, causes);
    let strategy = spec.field("strategy");
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "Recreate" if rolling.is_set() => {
            rolling.forbidden(causes, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" if !rolling.is_set() => {
            rolling.required(causes, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => rolling_deployment(&rolling, causes),
        _ => strategy.not_supported(causes, &["Recreate", "RollingUpdate"]),
    }
    let ready = spec.field("minReadySeconds");
    ready.non_negative(causes);
    spec.field("revisionHistoryLimit").non_negative(causes);
    let deadline = spec.field("progressDeadlineSeconds");
    if deadline.is_set() {
        deadline.non_negative(causes);
        if deadline.int_or_zero() <= ready.int_or_zero() {
            deadline.invalid(causes, "must be greater than minReadySeconds");
        }
    }
}

/// How many Pods may be too few or too many.
fn rolling_deployment(rolling: &Node<'_, '_>, causes: &mut Causes) {
    let (fewer, more) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    int_or_percent::non_negative(&fewer, causes);
    int_or_percent::non_negative(&more, causes);
    if int_or_percent::value(&fewer) == 0 && int_or_percent::value(&more) == 0 {
        fewer.invalid(causes, "may not be 0 when `maxSurge` is 0");
    }
    int_or_percent::at_most_all(&fewer, causes);
}

pub(super) fn replica_set(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    spec.field("replicas").non_negative(causes);
    spec.field("minReadySeconds").non_negative(causes);
    required_selector(&spec.field("selector"), "deployment", causes);
    deployment_template(&spec, causes);
}

pub(super) fn daemon_set(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    let (labels, pods) = (spec.field("selector"), spec.field("template"));
    selector(&labels, causes);
    let fits = matches(&labels, template_labels(&pods));
    if fits == Some(false) {
        mismatch(&pods, causes);
    }
    if labels.is_set() && is_empty(&labels) {
        labels.invalid(causes, "empty selector is invalid for daemonset");
    }
    template(&pods, causes);
    lasting(&pods, "DaemonSet", causes);
    spec.field("minReadySeconds").non_negative(causes);
    let strategy = spec.field("updateStrategy");
    match strategy.field("type").text() {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = strategy.field("rollingUpdate");
            if rolling.is_set() {
                rolling_daemon_set(&rolling, causes);
            } else {
                rolling.required(causes, "");
            }
        }
        _ => strategy.not_supported(causes, &["RollingUpdate", "OnDelete"]),
    }
    spec.field("revisionHistoryLimit").non_negative(causes);
}

fn rolling_daemon_set(rolling: &Node<'_, '_>, causes: &mut Causes) {
    let (fewer, more) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    int_or_percent::non_negative(&fewer, causes);
    int_or_percent::non_negative(&more, causes);
    int_or_percent::at_most_all(&fewer, causes);
    int_or_percent::at_most_all(&more, causes);
    let (has_fewer, has_more) = (int_or_percent::value(&fewer) != 0, int_or_percent::value(&more) != 0);
    if has_fewer && has_more {
        more.invalid(causes, "may not be set when maxUnavailable is non-zero");
    } else if !has_fewer && !has_more {
        fewer.required(causes, "cannot be 0 when maxSurge is 0");
    }
}

pub(super) fn stateful_set(object: &JsonMap, is_new: bool, causes: &mut Causes) {
    let spec = field(object, "spec");
    let management = spec.field("podManagementPolicy");
    match management.text() {
        "" => management.required(causes, ""),
        "OrderedReady" | "Parallel" => {}
        _ => management.invalid(causes, "must be 'OrderedReady' or 'Parallel'"),
    }
    let strategy = spec.field("updateStrategy");
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "" => strategy.required(causes, ""),
        "OnDelete" if rolling.is_set() => {
            rolling.invalid(causes, "only allowed for updateStrategy 'RollingUpdate'");
        }
        "OnDelete" => {}
        "RollingUpdate" => rolling.field("partition").non_negative(causes),
        _ => strategy.invalid(causes, "must be 'RollingUpdate' or 'OnDelete'"),
    }
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    if retention.is_set() {
        for name in ["whenDeleted", "whenScaled"] {
            retention.field(name).one_of(causes, &["Retain", "Delete"]);
        }
    }
    // They cannot change.
    for claim in spec.field("volumeClaimTemplates").each().filter(|_| is_new) {
        claim_spec(&claim.field("spec"), causes);
    }
    spec.field("replicas").non_negative(causes);
    spec.field("minReadySeconds").non_negative(causes);
    spec.field("ordinals").field("start").non_negative(causes);
    if is_new {
        spec.field("serviceName").if_given(causes, syntax::dns_label);
    }
    let labels = spec.field("selector");
    required_selector(&labels, "statefulset", causes);
    let pods = spec.field("template");
    match matches(&labels, template_labels(&pods)) {
        None => labels.invalid(causes, ""),
        fits => {
            if fits == Some(false) {
                mismatch(&pods, causes);
            }
            stateful_template(&spec, &pods, causes);
        }
    }
    lasting(&pods, "StatefulSet", causes);
}

/// The template as its Pods will be: with the volumes that are made for each, and names of their own.
fn stateful_template(spec: &Node<'_, '_>, pods: &Node<'_, '_>, causes: &mut Causes) {
    let claims = spec.field("volumeClaimTemplates");
    let own = pods.field("spec");
    let is_named = ["hostname", "subdomain"].iter().any(|name| !own.field(name).text().is_empty());
    if claims.is_empty() && !is_named {
        return template(pods, causes);
    }
    let mut changed = own.value().as_object().cloned().unwrap_or_default();
    changed.remove("hostname");
    changed.remove("subdomain");
    if !claims.is_empty() {
        let mut volumes: Map<String, Value> = claims
            .each()
            .map(|claim| {
                let name = claim.value()["metadata"]["name"].as_str().unwrap_or_default();
                (name.to_owned(), json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
            })
            .collect();
        let others: Vec<Value> = own
            .field("volumes")
            .each()
            .filter(|volume| !volumes.contains_key(volume.field("name").text()))
            .map(|volume| volume.value().clone())
            .collect();
        let list: Vec<Value> =
            std::mem::take(&mut volumes).into_iter().map(|(_, volume)| volume).chain(others).collect();
        changed.insert("volumes".to_owned(), list.into());
    }
    let changed = Value::Object(changed);
    template_with(pods, &Node::standing(&changed, &own), causes);
}

pub(super) fn replication_controller(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    spec.field("minReadySeconds").non_negative(causes);
    let wanted = spec.field("selector");
    if wanted.is_empty() {
        wanted.required(causes, "");
    }
    let replicas = spec.field("replicas");
    if replicas.is_set() {
        replicas.non_negative(causes);
    } else {
        replicas.required(causes, "");
    }
    let pods = spec.field("template");
    if !pods.is_set() {
        return pods.required(causes, "");
    }
    let labels = template_labels(&pods);
    if !wanted.entries().all(|(key, value)| labels[key] == *value.value()) {
        mismatch(&pods, causes);
    }
    template(&pods, causes);
    lasting(&pods, "ReplicationController", causes);
}

pub(super) fn pod_template(object: &JsonMap, causes: &mut Causes) {
    template(&field(object, "template"), causes);
}

pub(super) fn controller_revision(object: &JsonMap, is_new: bool, causes: &mut Causes) {
    field(object, "revision").non_negative(causes);
    if !is_new {
        // What it holds cannot change.
        return;
    }
    let data = field(object, "data");
    if !data.is_set() {
        data.required(causes, "data is mandatory");
    } else if !data.value().is_object() {
        data.required(causes, "data must be a valid JSON object");
    }
}
