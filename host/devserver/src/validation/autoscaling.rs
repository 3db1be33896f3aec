//! HorizontalPodAutoscalers, in the form of `autoscaling/v2`.

use super::node::{Node, field};
use super::resources::{amount, container_resource_name, non_negative_quantity};
use crate::api::{JsonMap, syntax};
use crate::quantity::Amount;
use crate::schema::Causes;

pub(super) fn autoscaler(object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    let spec = field(object, "spec");
    let old = old.map(|old| field(old, "spec"));
    let (min, max) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    let had_none = old.as_ref().is_some_and(|old| old.field("minReplicas").int() == Some(0));
    let least = i64::from(!had_none);
    if min.int().is_some_and(|min| min < least) {
        min.invalid(causes, &format!("must be greater than or equal to {least}"));
    }
    match max.int_or_zero() {
        0 => max.required(causes, "must be set and greater than 0"),
        ..0 => max.invalid(causes, "must be greater than or equal to 1"),
        _ => {}
    }
    if min.int().is_some_and(|min| max.int_or_zero() < min) {
        max.invalid_number(causes, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.field("scaleTargetRef");
    let is_same = |old: &Node<'_, '_>| {
        let old = old.field("scaleTargetRef");
        ["apiVersion", "kind"].iter().all(|name| old.field(name).value() == target.field(name).value())
    };
    let version = if old.as_ref().is_some_and(is_same) {
        Version::Any
    } else if target.field("kind").text() == "ReplicationController" {
        Version::Read
    } else {
        Version::WithGroup
    };
    reference(&target, version, causes);
    metrics(&spec, &min, causes);
    let behavior = spec.field("behavior");
    for name in ["scaleUp", "scaleDown"] {
        if behavior.field(name).is_set() {
            scaling_rules(&behavior.field(name), causes);
        }
    }
}

/// What is asked of the version of a reference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Any,
    Read,
    WithGroup,
}

fn reference(reference: &Node<'_, '_>, version: Version, causes: &mut Causes) {
    for name in ["kind", "name"] {
        reference.field(name).given_as(causes, syntax::path_segment);
    }
    let at = reference.field("apiVersion");
    let text = at.text();
    if version == Version::Any {
        return;
    }
    if text.matches('/').count() > 1 {
        at.invalid(causes, &format!("unexpected GroupVersion string: {text}"));
    } else if version == Version::WithGroup && text.split_once('/').is_none_or(|(group, _)| group.is_empty())
    {
        at.invalid(causes, "apiVersion must specify API group");
    }
}

/// Sources of metrics, as fields of a metric and as types of one.
const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];
const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

fn metrics(spec: &Node<'_, '_>, min: &Node<'_, '_>, causes: &mut Causes) {
    let metrics = spec.field("metrics");
    let mut is_outside = false;
    for metric in metrics.each() {
        one_metric(&metric, causes);
        is_outside |= matches!(metric.field("type").text(), "Object" | "External");
    }
    if min.int() == Some(0) && !is_outside {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        metrics.forbidden(causes, why);
    }
}

fn one_metric(metric: &Node<'_, '_>, causes: &mut Causes) {
    let kind = metric.field("type");
    if kind.text().is_empty() {
        kind.required(causes, "must specify a metric source type");
    }
    kind.one_of(causes, TYPES);
    let present: Vec<&str> =
        SOURCES.iter().map(|(name, _)| *name).filter(|name| metric.field(name).is_set()).collect();
    if let Some(first) = present.first() {
        metric_source(first, &metric.field(first), causes);
    }
    let expected = SOURCES.iter().find(|(_, of)| *of == kind.text()).map(|(name, _)| *name);
    match expected {
        None => kind.not_supported(causes, TYPES),
        Some(name) if !metric.field(name).is_set() => {
            metric.field(name).required(causes, "must populate information for the given metric source");
        }
        Some(_) => {}
    }
    if present.len() != 1 {
        for name in present.into_iter().filter(|name| Some(*name) != expected) {
            metric.field(name).forbidden(causes, "must populate the given metric source only");
        }
    }
}

fn metric_source(name: &str, source: &Node<'_, '_>, causes: &mut Causes) {
    if name == "object" {
        reference(&source.field("describedObject"), Version::Read, causes);
    }
    let resource = source.field("name");
    match name {
        "resource" | "containerResource" => {
            if resource.text().is_empty() {
                resource.required(causes, "must specify a resource name");
            } else if name == "containerResource" {
                container_resource_name(&resource, resource.text(), causes);
            }
        }
        _ => {
            let metric = source.field("metric");
            let name = metric.field("name");
            if name.text().is_empty() {
                name.required(causes, "must specify a metric name");
            } else {
                name.faults(causes, syntax::path_segment(name.text()));
            }
        }
    }
    if name == "containerResource" {
        let container = source.field("container");
        if container.text().is_empty() {
            container.required(causes, "must specify a container");
        } else {
            container.faults(causes, syntax::dns_label(container.text()));
        }
    }
    let target = source.field("target");
    metric_target(&target, causes);
    let (value, average) = (target.field("value"), target.field("averageValue"));
    let utilization = target.field("averageUtilization");
    match name {
        "object" if !value.is_set() && !average.is_set() => {
            average.required(causes, "must set either a target value or averageValue");
        }
        "external" => match (value.is_set(), average.is_set()) {
            (false, false) => {
                average.required(causes, "must set either a target value for metric or a per-pod target");
            }
            (true, true) => {
                value.forbidden(causes, "may not set both a target value for metric and a per-pod target");
            }
            _ => {}
        },
        "pods" if !average.is_set() => {
            average.required(causes, "must specify a positive target averageValue");
        }
        "resource" | "containerResource" => match (utilization.is_set(), average.is_set()) {
            (false, false) => {
                utilization.required(causes, "must set either a target raw value or a target utilization");
            }
            (true, true) => {
                average.forbidden(causes, "may not set both a target raw value and a target utilization");
            }
            _ => {}
        },
        _ => {}
    }
}

fn metric_target(target: &Node<'_, '_>, causes: &mut Causes) {
    let kind = target.field("type");
    if kind.text().is_empty() {
        kind.required(causes, "must specify a metric target type");
    }
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        kind.invalid(causes, "must be either Utilization, Value, or AverageValue");
    }
    for name in ["value", "averageValue"] {
        let quantity = target.field(name);
        if quantity.is_set() && amount(&quantity) <= Amount::ZERO {
            quantity.invalid(causes, "must be positive");
        }
    }
    let utilization = target.field("averageUtilization");
    if utilization.int().is_some_and(|percent| percent < 1) {
        utilization.invalid(causes, "must be greater than 0");
    }
}

fn scaling_rules(rules: &Node<'_, '_>, causes: &mut Causes) {
    let window = rules.field("stabilizationWindowSeconds");
    if window.int().is_some_and(|seconds| seconds < 0) {
        window.invalid(causes, "must be greater than or equal to zero");
    }
    if window.int().is_some_and(|seconds| seconds > 3600) {
        window.invalid(causes, "must be less than or equal to 3600");
    }
    rules.field("selectPolicy").one_of_if_set(causes, &["Disabled", "Max", "Min"]);
    let policies = rules.field("policies");
    if policies.is_empty() {
        policies.required(causes, "must specify at least one Policy");
    }
    for policy in policies.each() {
        policy.field("type").one_of(causes, &["Percent", "Pods"]);
        let (value, period) = (policy.field("value"), policy.field("periodSeconds"));
        for number in [&value, &period] {
            if number.int_or_zero() <= 0 {
                number.invalid_number(causes, "must be greater than zero");
            }
        }
        if period.int_or_zero() > 1800 {
            period.invalid_number(causes, "must be less than or equal to 1800");
        }
    }
    if rules.field("tolerance").is_set() {
        non_negative_quantity(&rules.field("tolerance"), causes);
    }
}
