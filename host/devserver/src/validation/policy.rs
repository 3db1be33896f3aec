//! PodDisruptionBudgets, PriorityClasses, RuntimeClasses, Leases.

use std::collections::HashSet;

use super::metadata::labels;
use super::node::field;
use super::resources::overhead;
use super::scheduling::tolerations;
use super::selector::{in_order, selector};
use super::{in_go, in_go_with, int_or_percent};
use crate::api::{JsonMap, syntax};
use crate::schema::Causes;

pub(super) fn disruption_budget(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    let (min, max) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    if min.is_set() && max.is_set() {
        let fields = [
            ("MinAvailable", "null"),
            ("Selector", "null"),
            ("MaxUnavailable", "null"),
            ("UnhealthyPodEvictionPolicy", "null"),
        ];
        let wanted = spec.field("selector");
        let written = wanted.is_set().then(|| ("Selector", in_order(&wanted)));
        let text = in_go_with(spec.value(), &fields, written.as_slice());
        spec.invalid_text(causes, &text, "minAvailable and maxUnavailable cannot be both set");
    }
    for number in [&min, &max].into_iter().filter(|number| number.is_set()) {
        int_or_percent::non_negative(number, causes);
        int_or_percent::at_most_all(number, causes);
    }
    selector(&spec.field("selector"), causes);
    spec.field("unhealthyPodEvictionPolicy").one_of_if_set(causes, &["AlwaysAllow", "IfHealthyBudget"]);
}

/// The classes of the system itself, with their values.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(super) fn priority_class(object: &JsonMap, causes: &mut Causes) {
    let (metadata, value) = (field(object, "metadata"), field(object, "value"));
    let name = metadata.field("name");
    if name.text().starts_with("system-") {
        let known = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name.text());
        let why = match known {
            None => Some(format!("{} is not a known system priority class", name.text())),
            Some((known, expected)) if value.int_or_zero() != *expected => {
                Some(format!("value of {known} PriorityClass must be {expected}"))
            }
            Some((known, _)) if field(object, "globalDefault").flag() => {
                Some(format!("globalDefault of {known} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            let why = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            );
            name.forbidden(causes, &why);
        }
    } else if value.int_or_zero() > 1_000_000_000 {
        value.forbidden(causes, "maximum allowed value of a user defined priority is 1000000000");
    }
    let preemption = field(object, "preemptionPolicy");
    if preemption.is_set() {
        preemption.given_one_of(causes, &["PreemptLowerPriority", "Never"]);
    }
}

pub(super) fn runtime_class(object: &JsonMap, causes: &mut Causes) {
    field(object, "handler").given_as(causes, syntax::dns_label);
    let costs = field(object, "overhead");
    if costs.is_set() {
        overhead(&costs, &costs.field("podFixed").placed(&costs.field("limits")), causes);
    }
    let scheduling = field(object, "scheduling");
    labels(&scheduling.field("nodeSelector"), causes);
    let list = scheduling.field("tolerations");
    tolerations(&list, causes);
    let mut seen = HashSet::new();
    for toleration in list.each() {
        let key = ["key", "operator", "value", "effect"].map(|name| toleration.field(name).text());
        if !seen.insert(key) {
            let fields = [
                ("Key", "\"\""),
                ("Operator", "\"\""),
                ("Value", "\"\""),
                ("Effect", "\"\""),
                ("TolerationSeconds", "null"),
            ];
            toleration.duplicate_as(causes, &in_go(toleration.value(), &fields), "");
        }
    }
}
