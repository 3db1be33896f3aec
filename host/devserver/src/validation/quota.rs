//! ResourceQuotas and LimitRanges.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::node::{Node, field};
use super::resources::{
    amount, any_resource_name, container_resource_name, is_quota, may_be_overcommitted, quantity_of,
    quota_resource_name,
};
use crate::api::{JsonMap, syntax};
use crate::quantity::Amount;
use crate::schema::Causes;

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];
const COMPUTE: &[&str] =
    &["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

/// Whether a scope can narrow the use of a resource.
fn narrows(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => COMPUTE.contains(&resource),
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

pub(super) fn resource_quota(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    let hard = spec.field("hard");
    quantities(&hard, causes);
    let scopes = spec.field("scopes");
    // Scopes may be named more than once.
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for scope in scopes.texts() {
        if !SCOPES.contains(&scope) {
            scopes.invalid(causes, "unsupported scope");
        }
        for _ in 0..*counts.entry(scope).or_insert_with(|| unsupported(scope, &hard)) {
            scopes.invalid(causes, "unsupported scope applied to resource");
        }
    }
    conflicts(scopes.texts(), &scopes, &scopes, causes);
    scope_selector(&spec, causes);
    let status = field(object, "status");
    quantities(&status.field("hard"), causes);
    quantities(&status.field("used"), causes);
}

fn quantities(list: &Node<'_, '_>, causes: &mut Causes) {
    for (name, quantity) in list.entries() {
        quota_resource_name(&quantity, name, causes);
        quantity_of(name, &quantity, causes);
    }
}

/// How many resources of a quota a scope cannot narrow.
fn unsupported(scope: &str, hard: &Node<'_, '_>) -> usize {
    hard.entries().filter(|(name, _)| is_quota(name) && !narrows(scope, name)).count()
}

fn conflicts<'v>(
    scopes: impl Iterator<Item = &'v str>,
    at: &Node<'_, '_>,
    shown: &Node<'_, '_>,
    causes: &mut Causes,
) {
    let scopes: HashSet<&str> = scopes.collect();
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            at.invalid_text(causes, &super::shown_or_null(shown.value()), "conflicting scopes");
        }
    }
}

fn scope_selector(spec: &Node<'_, '_>, causes: &mut Causes) {
    let selector = spec.field("scopeSelector");
    let list = selector.field("matchExpressions");
    let hard = spec.field("hard");
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for requirement in list.each() {
        // Causes name the list and not its element.
        let place = |name| requirement.value().get(name).unwrap_or(&Value::Null);
        let (scope, operator) = (place("scopeName"), place("operator"));
        let scope = scope.as_str().unwrap_or_default();
        let values = requirement.field("values");
        if !SCOPES.contains(&scope) {
            list.field("scopeName").invalid_as(causes, &scope.into(), "unsupported scope");
        }
        let count = *counts.entry(scope).or_insert_with(|| unsupported(scope, &hard));
        let text = if count > 0 && !causes.is_full() { selector_in_go(&selector) } else { String::new() };
        for _ in 0..count {
            list.invalid_text(causes, &text, "unsupported scope applied to resource");
        }
        let at = list.field("operator");
        let operator = operator.as_str().unwrap_or_default();
        let is_plain = matches!(
            scope,
            "BestEffort" | "NotBestEffort" | "Terminating" | "NotTerminating" | "CrossNamespacePodAffinity"
        );
        if is_plain && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                       ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                       ResourceQuotaScopeCrossNamespacePodAffinity";
            at.invalid_as(causes, &operator.into(), why);
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                list.field("values").required(causes, why);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                list.field("values").invalid_as(causes, values.value(), why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => at.invalid_as(causes, &operator.into(), "not a valid selector operator"),
        }
    }
    let scopes = list.each().map(|requirement| requirement.value()["scopeName"].as_str().unwrap_or_default());
    conflicts(scopes.collect::<Vec<_>>().into_iter(), &list, &spec.field("scopes"), causes);
}

fn selector_in_go(selector: &Node<'_, '_>) -> String {
    const REQUIREMENT: &[(&str, &str)] = &[("ScopeName", "\"\""), ("Operator", "\"\""), ("Values", "null")];
    let list = selector.field("matchExpressions");
    let list: Vec<String> = list.each().map(|one| super::in_go(one.value(), REQUIREMENT)).collect();
    format!("{{\"MatchExpressions\":[{}]}}", list.join(","))
}

pub(super) fn limit_range(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    let mut kinds = HashSet::new();
    for limit in spec.field("limits").each() {
        let kind = limit.field("type");
        let faults = syntax::qualified_name(kind.text());
        let is_known = matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim");
        if faults.is_empty() && !kind.text().contains('/') && !is_known {
            kind.invalid(causes, "must be a standard limit type or fully qualified");
        }
        kind.faults(causes, faults);
        if !kinds.insert(kind.text()) {
            kind.duplicate(causes);
        }
        one_limit(&limit, kind.text(), causes);
    }
}

fn one_limit(limit: &Node<'_, '_>, kind: &str, causes: &mut Causes) {
    let is_pod = kind == "Pod";
    let check_name =
        if matches!(kind, "Pod" | "Container") { container_resource_name } else { any_resource_name };
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let quantities = limit.field(list);
        if is_pod && list.starts_with("default") {
            if !quantities.is_empty() {
                quantities.forbidden(causes, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        if list == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" {
            let has = |list| limit.field(list).key("storage").is_set();
            if !has("min") && !has("max") {
                let why = "either minimum or maximum storage value is required, but neither was provided";
                limit.field("limits").required(causes, why);
            }
        }
        for (name, quantity) in quantities.entries() {
            check_name(&quantity, name, causes);
            names.insert(name);
        }
    }
    let nothing = limit.field("");
    for name in names {
        let list = |list: &'static str| {
            if is_pod && list.starts_with("default") { nothing } else { limit.field(list) }
        };
        bounds(
            name,
            [list("min"), list("max"), list("default"), list("defaultRequest"), list("maxLimitRequestRatio")],
            causes,
        );
    }
}

/// The bounds of one resource: the least, the most, what is the limit and the request by default, and their ratio.
fn bounds(name: &str, lists: [Node<'_, '_>; 5], causes: &mut Causes) {
    let [min, max, default, request, ratio] = &lists;
    let [min, max, default, request, ratio] = [min, max, default, request, ratio].map(|list| list.key(name));
    let text = |of: &Node<'_, '_>| of.text().to_owned();
    let is_above = |a: &Node<'_, '_>, b: &Node<'_, '_>| a.is_set() && b.is_set() && amount(a) > amount(b);
    for (low, what_low, high, what_high, at, shown) in [
        (&min, "min", &max, "max", &min, &min),
        (&min, "min", &request, "default request", &request, &request),
        (&request, "default request", &max, "max", &request, &request),
        (&request, "default request", &default, "default limit", &request, &request),
        (&min, "min", &default, "default", &default, &min),
        (&default, "default", &max, "max", &default, &max),
    ] {
        if is_above(low, high) {
            let why =
                format!("{what_low} value {} is greater than {what_high} value {}", text(low), text(high));
            at.invalid_as(causes, shown.value(), &why);
        }
    }
    if ratio.is_set() {
        if amount(&ratio) < Amount::ONE {
            ratio.invalid(causes, &format!("ratio {} is less than 1", text(&ratio)));
        }
        if min.is_set() && max.is_set() {
            let most = amount(&max).ratio(amount(&min));
            if amount(&ratio).ratio(Amount::ONE) > most {
                let why = format!("ratio {} is greater than max/min = {most:.6}", text(&ratio));
                ratio.invalid(causes, &why);
            }
        }
    }
    let differ = default.is_set() && request.is_set() && amount(&default) != amount(&request);
    if differ && !may_be_overcommitted(name) {
        let why = format!(
            "default value {} must equal to defaultRequest value {} in {name}",
            text(&default),
            text(&request)
        );
        request.invalid(causes, &why);
    }
}
