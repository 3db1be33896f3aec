//! Roles and who has them.

use super::node::{Node, field};
use super::selector::selector;
use crate::api::{JsonMap, syntax};
use crate::schema::Causes;

const GROUP: &str = "rbac.authorization.k8s.io";

fn rules(object: &JsonMap, is_namespaced: bool, causes: &mut Causes) {
    for rule in field(object, "rules").each() {
        if rule.field("verbs").is_empty() {
            rule.field("verbs").required(causes, "verbs must contain at least one value");
        }
        let urls = rule.field("nonResourceURLs");
        let has = |name| !rule.field(name).is_empty();
        if !urls.is_empty() {
            if is_namespaced {
                urls.invalid(causes, "namespaced rules cannot apply to non-resource URLs");
            }
            if has("apiGroups") || has("resources") || has("resourceNames") {
                urls.invalid(causes, "rules cannot apply to both regular resources and non-resource URLs");
            }
            continue;
        }
        if !has("apiGroups") {
            rule.field("apiGroups").required(causes, "resource rules must supply at least one api group");
        }
        if !has("resources") {
            rule.field("resources").required(causes, "resource rules must supply at least one resource");
        }
    }
}

pub(super) fn role(object: &JsonMap, causes: &mut Causes) {
    rules(object, true, causes);
}

pub(super) fn cluster_role(object: &JsonMap, causes: &mut Causes) {
    rules(object, false, causes);
    let aggregation = field(object, "aggregationRule");
    if !aggregation.is_set() {
        return;
    }
    let selectors = aggregation.field("clusterRoleSelectors");
    if selectors.is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        selectors.required(causes, why);
    }
    for one in selectors.each() {
        selector(&one, causes);
        if super::selector::matches(&one, one.value()).is_none() {
            one.invalid(causes, "invalid label selector.");
        }
    }
}

pub(super) fn role_binding(object: &JsonMap, causes: &mut Causes) {
    binding(object, &["Role", "ClusterRole"], true, causes);
}

pub(super) fn cluster_role_binding(object: &JsonMap, causes: &mut Causes) {
    binding(object, &["ClusterRole"], false, causes);
}

fn binding(object: &JsonMap, kinds: &[&str], is_namespaced: bool, causes: &mut Causes) {
    let role = field(object, "roleRef");
    role.field("apiGroup").one_of(causes, &[GROUP]);
    role.field("kind").one_of(causes, kinds);
    role.field("name").given_as(causes, syntax::path_segment);
    for subject in field(object, "subjects").each() {
        let (name, group) = (subject.field("name"), subject.field("apiGroup"));
        name.is_given(causes);
        match subject.field("kind").text() {
            "ServiceAccount" => {
                name.if_given(causes, syntax::dns_subdomain);
                if !group.text().is_empty() {
                    group.not_supported(causes, &[""]);
                }
                let namespace: Node<'_, '_> = subject.field("namespace");
                if !is_namespaced {
                    namespace.is_given(causes);
                }
            }
            "User" | "Group" => group.one_of(causes, &[GROUP]),
            _ => subject.field("kind").not_supported(causes, &["ServiceAccount", "User", "Group"]),
        }
    }
}
