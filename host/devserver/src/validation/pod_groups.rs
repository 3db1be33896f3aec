//! Workloads and PodGroups: Pods that are scheduled together. After the creation nothing of them changes but metadata.

use serde_json::Value;

use super::devices::has_at_most;
use super::node::{Node, field};
use crate::api::{JsonMap, syntax};
use crate::schema::{Causes, shown};

const MAX_TEMPLATES: usize = 8;
const MAX_CLAIMS: usize = 4;
/// Levels of topology that a group is kept to.
const MAX_TOPOLOGY: usize = 1;
const MAX_PRIORITY: i64 = 1_000_000_000;

/// A Workload; `old` is the state that it replaces.
pub(super) fn workload(object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    let spec = field(object, "spec");
    if let Some(old) = old {
        fixed(&spec, old, &["controllerRef", "podGroupTemplates"], causes);
        let templates = spec.field("podGroupTemplates");
        if templates.is_empty() {
            templates.required(causes, "");
        }
        // A list that is too long has been changed.
        has_at_most(&templates, MAX_TEMPLATES, causes);
        return;
    }
    let controller = spec.field("controllerRef");
    if controller.is_set() {
        controller.field("apiGroup").if_given(causes, subdomain);
        controller.field("kind").given_as(causes, syntax::path_segment);
        controller.field("name").given_as(causes, syntax::path_segment);
    }
    let templates = spec.field("podGroupTemplates");
    if templates.is_empty() {
        return templates.required(causes, "");
    }
    if has_at_most(&templates, MAX_TEMPLATES, causes) {
        unique(&templates, template_text, causes);
        for template in templates.each() {
            template.field("name").given_as(causes, label);
            group(&template, causes);
        }
    }
}

/// A PodGroup; `old` is the state that it replaces.
pub(super) fn pod_group(object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    const FIXED: [&str; 7] = [
        "podGroupTemplateRef",
        "schedulingPolicy",
        "schedulingConstraints",
        "resourceClaims",
        "disruptionMode",
        "priorityClassName",
        "priority",
    ];
    let spec = field(object, "spec");
    if let Some(old) = old {
        fixed(&spec, old, &FIXED, causes);
        has_at_most(&spec.field("resourceClaims"), MAX_CLAIMS, causes);
        return;
    }
    let reference = spec.field("podGroupTemplateRef");
    if reference.is_set() {
        one_of(&reference, &["workload"], causes);
        let workload = reference.field("workload");
        if workload.is_set() {
            workload.field("workloadName").given_as(causes, subdomain);
            workload.field("podGroupTemplateName").given_as(causes, label);
        }
    }
    group(&spec, causes);
}

fn fixed(spec: &Node<'_, '_>, old: &JsonMap, fields: &[&str], causes: &mut Causes) {
    let before = field(old, "spec");
    for name in fields {
        let (before, after) = (before.field(name), spec.field(name));
        if before.value() != after.value() {
            after.invalid_text(causes, "null", "field is immutable");
        }
    }
}

/// What a group and a template of one have in common.
fn group(group: &Node<'_, '_>, causes: &mut Causes) {
    let policy = group.field("schedulingPolicy");
    one_of(&policy, &["basic", "gang"], causes);
    let gang = policy.field("gang");
    let count = gang.field("minCount");
    if gang.is_set() {
        match count.int_or_zero() {
            0 => count.required(causes, ""),
            number if number < 0 => {
                count.invalid_number(causes, "must be greater than or equal to 1");
            }
            _ => {}
        }
    }
    let constraints = group.field("schedulingConstraints");
    let topology = constraints.field("topology");
    if has_at_most(&topology, MAX_TOPOLOGY, causes) {
        topology.each().for_each(|one| one.field("key").given_as(causes, syntax::qualified_name));
    }
    let claims = group.field("resourceClaims");
    if has_at_most(&claims, MAX_CLAIMS, causes) {
        unique(&claims, |claim| shown(claim.value()), causes);
        for claim in claims.each() {
            one_of(&claim, &["resourceClaimName", "resourceClaimTemplateName"], causes);
            claim.field("name").given_as(causes, label);
            claim.field("resourceClaimName").if_set(causes, subdomain);
            claim.field("resourceClaimTemplateName").if_set(causes, subdomain);
        }
    }
    group.field("disruptionMode").one_of_if_set(causes, &["Pod", "PodGroup"]);
    group.field("priorityClassName").if_given(causes, subdomain);
    let priority = group.field("priority");
    if priority.int_or_zero() > MAX_PRIORITY {
        priority.invalid(causes, &format!("must be less than or equal to {MAX_PRIORITY}"));
    }
}

fn label(text: &str) -> syntax::Faults {
    syntax::in_bytes(syntax::dns_label(text))
}

fn subdomain(text: &str) -> syntax::Faults {
    syntax::in_bytes(syntax::dns_subdomain(text))
}

/// Exactly one field of a union is there.
fn one_of(union: &Node<'_, '_>, fields: &[&str], causes: &mut Causes) {
    let names = fields.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let set: Vec<&str> = fields.iter().copied().filter(|name| union.field(name).is_set()).collect();
    match set.as_slice() {
        [] => union.invalid_as(causes, &"".into(), &format!("must specify one of: {names}")),
        [_] => {}
        several => {
            let value = format!("{{{}}}", several.join(", "));
            union.invalid_as(causes, &value.into(), &format!("must specify exactly one of: {names}"));
        }
    }
}

/// Names are different; messages show the whole element.
fn unique(list: &Node<'_, '_>, text: fn(&Node<'_, '_>) -> String, causes: &mut Causes) {
    let mut seen = std::collections::HashSet::new();
    for one in list.each() {
        if !seen.insert(one.field("name").text()) {
            one.duplicate_as(causes, &text(&one), "");
        }
    }
}

/// A template in the order of its struct in Go.
fn template_text(template: &Node<'_, '_>) -> String {
    const FIELDS: [(&str, bool); 7] = [
        ("name", true),
        ("schedulingPolicy", true),
        ("schedulingConstraints", true),
        ("resourceClaims", false),
        ("disruptionMode", false),
        ("priorityClassName", false),
        ("priority", false),
    ];
    let part = |(name, is_always_there): (&str, bool)| {
        let value = template.field(name);
        let text = match (name, value.value()) {
            ("name", Value::Null) => "\"\"".to_owned(),
            ("schedulingPolicy", Value::Null) => "{}".to_owned(),
            (_, value) => super::shown_or_null(value),
        };
        (is_always_there || value.is_set()).then(|| format!("\"{name}\":{text}"))
    };
    format!("{{{}}}", FIELDS.into_iter().filter_map(part).collect::<Vec<_>>().join(","))
}
