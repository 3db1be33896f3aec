//! Configurations of webhooks, and the rules that admission policies have too. Expressions are not read.

use std::collections::HashSet;

use super::node::{Node, field};
use super::selector::selector;
use crate::api::{JsonMap, syntax};
use crate::schema::Causes;

/// `webhooks` of a configuration; those that change objects can be called again.
pub(super) fn webhooks(object: &JsonMap, causes: &mut Causes) {
    let mut names = HashSet::new();
    for hook in field(object, "webhooks").each() {
        webhook(&hook, causes);
        review_versions(&hook.field("admissionReviewVersions"), causes);
        let name = hook.field("name");
        if !name.text().is_empty() && !names.insert(name.text()) {
            name.duplicate(causes);
        }
    }
}

fn webhook(hook: &Node<'_, '_>, causes: &mut Causes) {
    full_name(&hook.field("name"), causes);
    hook.field("rules").each().for_each(|rule| rule_with_operations(&rule, causes));
    hook.field("failurePolicy").one_of_if_set(causes, &["Fail", "Ignore"]);
    hook.field("matchPolicy").one_of_if_set(causes, &["Equivalent", "Exact"]);
    let effects = hook.field("sideEffects");
    if effects.is_set() {
        effects.one_of(causes, &["None", "NoneOnDryRun"]);
    } else {
        effects.required(causes, "must specify one of None, NoneOnDryRun");
    }
    let timeout = hook.field("timeoutSeconds");
    if timeout.int().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        timeout.invalid(causes, "the timeout value must be between 1 and 30 seconds");
    }
    selector(&hook.field("namespaceSelector"), causes);
    selector(&hook.field("objectSelector"), causes);
    hook.field("reinvocationPolicy").one_of_if_set(causes, &["IfNeeded", "Never"]);
    client(&hook.field("clientConfig"), causes);
    match_conditions(&hook.field("matchConditions"), causes);
}

/// A name of DNS of at least three parts.
fn full_name(name: &Node<'_, '_>, causes: &mut Causes) {
    if !name.is_given(causes) {
        return;
    }
    let faults = syntax::dns_subdomain(name.text());
    if !faults.is_empty() {
        name.invalid(causes, &faults.join(","));
    } else if name.text().split('.').count() < 3 {
        name.invalid(causes, "should be a domain with at least three segments separated by dots");
    }
}

/// Which requests are meant.
pub(super) fn rule_with_operations(rule: &Node<'_, '_>, causes: &mut Causes) {
    let operations = rule.field("operations");
    if operations.is_empty() {
        operations.required(causes, "");
    }
    if operations.len() > 1 && operations.texts().any(|one| one == "*") {
        operations.invalid(causes, "if '*' is present, must not specify other operations");
    }
    for operation in operations.each() {
        operation.one_of(causes, &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]);
    }
    rule_of(rule, causes);
}

fn rule_of(rule: &Node<'_, '_>, causes: &mut Causes) {
    for (name, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let list = rule.field(name);
        if list.is_empty() {
            list.required(causes, "");
        }
        if list.len() > 1 && list.texts().any(|one| one == "*") {
            list.invalid(causes, &format!("if '*' is present, must not specify other {what}"));
        }
        if name == "apiVersions" {
            for version in list.each() {
                version.is_given(causes);
            }
        }
    }
    resources(&rule.field("resources"), causes);
    rule.field("scope").one_of_if_set(causes, &["*", "Cluster", "Namespaced"]);
}

fn resources(resources: &Node<'_, '_>, causes: &mut Causes) {
    if resources.is_empty() {
        resources.required(causes, "");
    }
    let (mut all_subresources, mut all_resources) = (HashSet::new(), HashSet::new());
    let (mut has_all, mut has_star, mut has_plain) = (false, false, false);
    for resource in resources.each() {
        if !resource.is_given(causes) {
            continue;
        }
        let text = resource.text();
        has_all |= text == "*/*";
        has_star |= text == "*";
        let Some((name, subresource)) = text.split_once('/') else {
            has_plain = text != "*";
            continue;
        };
        if all_subresources.contains(name) {
            resource.invalid(causes, &format!("if '{name}/*' is present, must not specify {text}"));
        }
        if all_resources.contains(subresource) {
            resource.invalid(causes, &format!("if '*/{subresource}' is present, must not specify {text}"));
        }
        if subresource == "*" {
            all_subresources.insert(name);
        }
        if name == "*" {
            all_resources.insert(subresource);
        }
    }
    if resources.len() > 1 && has_all {
        resources.invalid(causes, "if '*/*' is present, must not specify other resources");
    }
    if has_star && has_plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        resources.invalid(causes, why);
    }
}

fn review_versions(versions: &Node<'_, '_>, causes: &mut Causes) {
    if versions.is_empty() {
        return versions.required(causes, "must specify one of v1, v1beta1");
    }
    let mut seen = HashSet::new();
    for version in versions.each() {
        if seen.insert(version.text()) {
            version.faults(causes, syntax::dns_1035_label(version.text()));
        } else {
            version.invalid(causes, "duplicate version");
        }
    }
    if !seen.contains("v1") && !seen.contains("v1beta1") {
        versions.invalid(causes, "must include at least one of v1, v1beta1");
    }
}

/// How a webhook is reached.
fn client(config: &Node<'_, '_>, causes: &mut Causes) {
    let (url, service) = (config.field("url"), config.field("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => url_of(&url, causes),
        (false, true) => {
            // The server takes the one for the other.
            if service.field("namespace").text().is_empty() {
                service.field("name").required(causes, "");
            }
            if service.field("name").text().is_empty() {
                service.field("namespace").required(causes, "");
            }
            let port = service.field("port");
            for fault in syntax::port_number(port.int_or_zero()) {
                port.invalid_number(causes, &format!("port is not valid: {fault}"));
            }
            url_path(&service.field("path"), causes);
        }
        _ => config.required(causes, "exactly one of url or service is required"),
    }
}

/// The parts of an address that messages show.
fn url_of(at: &Node<'_, '_>, causes: &mut Causes) {
    const FORM: &str = "; desired format: https://host[/path]";
    let text = at.text();
    if text.starts_with(':') {
        let shown = text.split('#').next().unwrap_or_default();
        let why = format!("url must be a valid URL: parse {shown:?}: missing protocol scheme{FORM}");
        return at.required(causes, &why);
    }
    if let Some(escape) = wrong_escape(text) {
        let why = format!("url must be a valid URL: parse {text:?}: invalid URL escape {escape:?}{FORM}");
        return at.required(causes, &why);
    }
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (text, query) = text.split_once('?').unwrap_or((text, ""));
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) if !scheme.is_empty() && !scheme.contains('/') => (scheme.to_lowercase(), rest),
        _ => (String::new(), text),
    };
    let authority = rest.strip_prefix("//").map_or("", |rest| rest.split('/').next().unwrap_or_default());
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{FORM}");
        at.invalid_as(causes, &scheme.into(), &why);
    }
    if host.is_empty() {
        at.invalid_as(causes, &"".into(), &format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        at.invalid_as(causes, &user.into(), "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        at.invalid_as(causes, &fragment.into(), "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        at.invalid_as(causes, &query.into(), "query parameters are not permitted in the URL");
    }
}

/// A percent sign that no two hexadecimal digits follow, with what stands there instead.
fn wrong_escape(text: &str) -> Option<&str> {
    let rest = |at: usize| &text[at..text.floor_char_boundary(at + 3)];
    let is_wrong =
        |escape: &&str| escape.len() < 3 || !escape[1..].bytes().all(|byte| byte.is_ascii_hexdigit());
    text.match_indices('%').map(|(at, _)| rest(at)).find(is_wrong)
}

fn url_path(path: &Node<'_, '_>, causes: &mut Causes) {
    let text = path.text();
    if matches!(text, "" | "/") {
        return;
    }
    if text == "//" {
        return path.invalid(causes, "segment[0] may not be empty");
    }
    if !text.starts_with('/') {
        path.invalid(causes, "must start with a '/'");
    }
    // The first letter is taken for the slash.
    let rest = text.char_indices().nth(1).map_or("", |(at, _)| &text[at..]);
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (index, step) in rest.split('/').enumerate() {
        if step.is_empty() {
            path.invalid(causes, &format!("segment[{index}] may not be empty"));
        } else {
            for fault in syntax::dns_subdomain(step) {
                path.invalid(causes, &format!("segment[{index}]: {fault}"));
            }
        }
    }
}

/// Conditions that a request must meet too.
pub(super) fn match_conditions(conditions: &Node<'_, '_>, causes: &mut Causes) {
    if conditions.len() > 64 {
        conditions.too_many(causes, 64);
    }
    let mut names = HashSet::new();
    for condition in conditions.each() {
        let (name, expression) = (condition.field("name"), condition.field("expression"));
        if expression.text().trim().is_empty() {
            expression.required(causes, "");
        }
        name.given_as(causes, syntax::qualified_name);
        if !name.text().is_empty() && !names.insert(name.text()) {
            name.duplicate(causes);
        }
    }
}
