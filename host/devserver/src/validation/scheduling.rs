//! Where Pods may run: selectors of nodes, affinities, tolerations, spreading.

use std::collections::{HashMap, HashSet};

use super::node::Node;
use super::selector::selector;
use crate::api::syntax;
use crate::schema::{Causes, shown};

pub(super) const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn label_key(key: &Node<'_, '_>, causes: &mut Causes) {
    key.faults(causes, syntax::qualified_name(key.text()));
}

/// `affinity` of a Pod, which may be absent.
pub(super) fn affinity(affinity: &Node<'_, '_>, causes: &mut Causes) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let node = affinity.field("nodeAffinity");
    let required = node.field(REQUIRED);
    if required.is_set() {
        node_selector(&required, causes);
    }
    for term in node.field(PREFERRED).each() {
        weight(&term.field("weight"), causes);
        node_selector_term(&term.field("preference"), false, causes);
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(name);
        pods.field(REQUIRED).each().for_each(|term| pod_term(&term, causes));
        for term in pods.field(PREFERRED).each() {
            weight(&term.field("weight"), causes);
            pod_term(&term.field("podAffinityTerm"), causes);
        }
    }
}

fn weight(weight: &Node<'_, '_>, causes: &mut Causes) {
    if !(1..=100).contains(&weight.int_or_zero()) {
        weight.invalid_number(causes, "must be in the range 1-100");
    }
}

/// Which nodes are meant: one of the terms must hold.
pub(super) fn node_selector(selector: &Node<'_, '_>, causes: &mut Causes) {
    let terms = selector.field("nodeSelectorTerms");
    if terms.is_empty() {
        terms.required(causes, "must have at least one node selector term");
    }
    terms.each().for_each(|term| node_selector_term(&term, true, causes));
}

fn node_selector_term(term: &Node<'_, '_>, checks_values: bool, causes: &mut Causes) {
    const NO_OPERATOR: &str = "not a valid selector operator";
    for requirement in term.field("matchExpressions").each() {
        let (operator, values) = (requirement.field("operator"), requirement.field("values"));
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                values.required(causes, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                values
                    .forbidden(causes, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "Gt" | "Lt" if values.len() != 1 => {
                values.required(causes, "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => operator.invalid(causes, NO_OPERATOR),
        }
        label_key(&requirement.field("key"), causes);
        for value in values.each().filter(|_| checks_values) {
            value.faults(causes, syntax::label_value(value.text()));
        }
    }
    for requirement in term.field("matchFields").each() {
        let (operator, key) = (requirement.field("operator"), requirement.field("key"));
        let values = requirement.field("values");
        match operator.text() {
            "In" | "NotIn" if values.len() != 1 => {
                let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                values.required(causes, why);
            }
            "In" | "NotIn" => {}
            _ => operator.invalid(causes, NO_OPERATOR),
        }
        if key.text() == "metadata.name" {
            values.each().for_each(|value| value.faults(causes, syntax::dns_subdomain(value.text())));
        } else {
            key.invalid(causes, "not a valid field selector key");
        }
    }
}

fn pod_term(term: &Node<'_, '_>, causes: &mut Causes) {
    selector(&term.field("labelSelector"), causes);
    selector(&term.field("namespaceSelector"), causes);
    for name in term.field("namespaces").texts() {
        term.field("namespace").faults_of(causes, name, syntax::dns_label(name));
    }
    label_keys(term, causes);
    let key = term.field("topologyKey");
    if key.text().is_empty() {
        key.required(causes, "can not be empty");
    }
    label_key(&key, causes);
}

/// Keys of labels whose values are those of the new Pod: what a server has merged into the selector by then counts too.
fn label_keys(term: &Node<'_, '_>, causes: &mut Causes) {
    let selector = term.field("labelSelector");
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = term.field(name);
        if keys.is_empty() {
            continue;
        }
        if selector.is_set() {
            keys.each().for_each(|key| label_key(&key, causes));
        } else {
            keys.forbidden(causes, "must not be specified when labelSelector is not set");
        }
    }
    let matched = term.field("matchLabelKeys");
    let places: HashMap<&str, usize> = matched.texts().enumerate().map(|(index, key)| (key, index)).collect();
    let mut seen: HashSet<&str> = selector.field("matchLabels").entries().map(|(key, _)| key).collect();
    for expression in selector.field("matchExpressions").each() {
        let key = expression.field("key").text();
        if let Some(index) = places.get(key)
            && seen.contains(key)
        {
            let why = "exists in both matchLabelKeys and labelSelector";
            term.index(*index).invalid_as(causes, &key.into(), why);
        }
        seen.insert(key);
    }
    let mismatched: HashSet<&str> = term.field("mismatchLabelKeys").texts().collect();
    for key in matched.each().filter(|key| mismatched.contains(key.text())) {
        key.invalid(causes, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// `tolerations` of a Pod.
pub(super) fn tolerations(tolerations: &Node<'_, '_>, causes: &mut Causes) {
    for toleration in tolerations.each() {
        let (key, operator) = (toleration.field("key"), toleration.field("operator"));
        let (effect, value) = (toleration.field("effect"), toleration.field("value"));
        key.if_given(causes, syntax::qualified_name);
        if key.text().is_empty() && operator.text() != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            operator.invalid(causes, why);
        }
        if toleration.field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            effect.invalid(causes, "effect must be 'NoExecute' when `tolerationSeconds` is set");
        }
        match operator.text() {
            "" | "Equal" => {
                let faults = syntax::label_value(value.text());
                if !faults.is_empty() {
                    operator.invalid_as(causes, &value.text().into(), &faults.join(";"));
                }
            }
            "Exists" => {
                if !value.text().is_empty() {
                    let why = "value must be empty when `operator` is 'Exists'";
                    operator.invalid_as(causes, value.value(), why);
                }
            }
            "Lt" | "Gt" => operator.not_supported(causes, &["Equal", "Exists", "Lt", "Gt"]),
            _ => operator.not_supported(causes, &["Equal", "Exists"]),
        }
        if !effect.text().is_empty() {
            effect.one_of(causes, EFFECTS);
        }
    }
}

/// `topologySpreadConstraints` of a Pod.
pub(super) fn spread_constraints(constraints: &Node<'_, '_>, causes: &mut Causes) {
    // How many constraints with this key and action are still to come.
    let mut left: HashMap<(&str, &str), usize> = HashMap::new();
    let identity = |constraint: &Node<'_, '_>| -> (String, String) {
        let text = |name| constraint.field(name).text().to_owned();
        (text("topologyKey"), text("whenUnsatisfiable"))
    };
    let identities: Vec<(String, String)> =
        constraints.each().map(|constraint| identity(&constraint)).collect();
    for (key, action) in &identities {
        *left.entry((key, action)).or_default() += 1;
    }
    for (constraint, (key, action)) in constraints.each().zip(&identities) {
        let skew = constraint.field("maxSkew");
        if skew.int_or_zero() <= 0 {
            skew.invalid_number(causes, "must be greater than zero");
        }
        if key.is_empty() {
            constraint.field("topologyKey").required(causes, "can not be empty");
        }
        constraint.field("whenUnsatisfiable").one_of(causes, &["DoNotSchedule", "ScheduleAnyway"]);
        let more = left.entry((key, action)).or_default();
        *more = more.saturating_sub(1);
        if *more > 0 {
            let text = format!("{{{key}, {action}}}");
            let at = constraint.field("{topologyKey, whenUnsatisfiable}");
            at.duplicate_as(causes, &shown(&text.into()), "");
        }
        let domains = constraint.field("minDomains");
        if domains.is_set() {
            if domains.int_or_zero() <= 0 {
                domains.invalid_number(causes, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                domains.invalid(causes, &why);
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            constraint.field(name).one_of_if_set(causes, &["Honor", "Ignore"]);
        }
        label_keys(&constraint, causes);
        selector(&constraint.field("labelSelector"), causes);
    }
}
