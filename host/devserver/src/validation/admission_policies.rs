//! Admission policies and their bindings. Expressions are not compiled; only their presence and their lengths are checked.

use std::collections::HashSet;

use super::admission::{match_conditions, rule_with_operations};
use super::node::{Node, field};
use super::selector::selector;
use crate::api::{JsonMap, syntax};
use crate::schema::{Causes, shown};

/// Annotations of the audit log that a policy may have.
const MAX_AUDIT_ANNOTATIONS: usize = 20;
/// Bytes of the expression that gives the value of such an annotation.
const MAX_AUDIT_EXPRESSION: usize = 5 << 10;

/// Words that are no names in expressions.
const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A ValidatingAdmissionPolicy; `old` is the state that it replaces.
pub(super) fn validating_policy(object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    let spec = field(object, "spec");
    policy(&spec, old, false, causes);
    spec.field("variables").each().for_each(|variable| check_variable(&variable, causes));
    let (validations, annotations) = (spec.field("validations"), spec.field("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        for list in [validations, annotations] {
            list.required(causes, "validations or auditAnnotations must contain at least one item");
        }
        return;
    }
    validations.each().for_each(|one| validation(&one, causes));
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        let fields = [("Key", "\"\""), ("ValueExpression", "\"\"")];
        let all: Vec<String> = annotations.each().map(|one| super::in_go(one.value(), &fields)).collect();
        let why = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        annotations.invalid_text(causes, &format!("[{}]", all.join(",")), &why);
    }
    let name = field(object, "metadata").field("name").text();
    let mut keys = HashSet::new();
    for annotation in annotations.each() {
        let key = annotation.field("key");
        audit_annotation(&annotation, name, causes);
        if !keys.insert(key.text()) {
            key.duplicate_as(causes, &shown(&key.text().into()), "");
        }
    }
}

/// A MutatingAdmissionPolicy; `old` is the state that it replaces.
pub(super) fn mutating_policy(object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    let spec = field(object, "spec");
    policy(&spec, old, true, causes);
    spec.field("variables").each().for_each(|variable| check_variable(&variable, causes));
    let mutations = spec.field("mutations");
    if mutations.is_empty() {
        mutations.required(causes, "mutations must contain at least one item");
    }
    mutations.each().for_each(|one| mutation(&one, causes));
    spec.field("reinvocationPolicy").given_one_of(causes, &["IfNeeded", "Never"]);
}

/// A ValidatingAdmissionPolicyBinding.
pub(super) fn validating_binding(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    binding(&spec, causes);
    let actions = spec.field("validationActions");
    let mut seen = HashSet::new();
    for action in actions.each() {
        action.one_of(causes, &["Audit", "Deny", "Warn"]);
        if !seen.insert(action.text()) {
            action.duplicate(causes);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response \
                   and headers serves no purpose)";
        actions.invalid(causes, why);
    }
    if seen.is_empty() {
        actions.required(causes, "at least one validation action is required");
    }
}

/// A MutatingAdmissionPolicyBinding.
pub(super) fn mutating_binding(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    binding(&spec, causes);
    changing_operations(&spec.field("matchResources"), causes);
}

/// What both kinds of policies have before their variables.
fn policy(spec: &Node<'_, '_>, old: Option<&JsonMap>, is_mutating: bool, causes: &mut Causes) {
    spec.field("failurePolicy").one_of_if_set(causes, &["Fail", "Ignore"]);
    let kind = spec.field("paramKind");
    if kind.is_set() {
        parameter_kind(&kind, causes);
    }
    let constraints = spec.field("matchConstraints");
    if constraints.is_set() {
        matched(&constraints, causes);
        let rules = constraints.field("resourceRules");
        if rules.is_empty() {
            rules.required(causes, "");
        }
        if is_mutating {
            changing_operations(&constraints, causes);
        }
    } else {
        constraints.required(causes, "");
    }
    let conditions = spec.field("matchConditions");
    let is_as_before = |old: &JsonMap| {
        let old = field(old, "spec");
        old.field("paramKind").value() == kind.value()
            && old.field("matchConditions").value() == conditions.value()
    };
    if !old.is_some_and(is_as_before) {
        match_conditions(&conditions, causes);
    }
}

/// Policies that change objects see only requests that write some.
fn changing_operations(matched: &Node<'_, '_>, causes: &mut Causes) {
    let rules = matched.field("resourceRules");
    let at = rules.field("operations");
    for rule in rules.each() {
        for operation in rule.field("operations").each() {
            operation.placed(&at).one_of(causes, &["*", "CONNECT", "CREATE", "UPDATE"]);
        }
    }
}

/// The kind of the parameters of a policy.
fn parameter_kind(of: &Node<'_, '_>, causes: &mut Causes) {
    let (version, kind) = (of.field("apiVersion"), of.field("kind"));
    let text = version.text();
    if text.matches('/').count() > 1 {
        version.invalid(causes, &format!("unexpected GroupVersion string: {text}"));
    } else if version.is_given(causes) {
        let (group, name) = text.split_once('/').unwrap_or(("", text));
        let faults = syntax::dns_subdomain(group);
        if !group.is_empty() && !faults.is_empty() {
            version.invalid_as(causes, &group.into(), &faults.join(","));
        }
        let faults = syntax::dns_1035_label(name);
        if name.is_empty() {
            version.invalid(causes, "version must be specified");
        } else if !faults.is_empty() {
            version.invalid_as(causes, &name.into(), &faults.join(","));
        }
    }
    if kind.is_given(causes) {
        let faults = syntax::dns_1035_label(&kind.text().to_lowercase());
        if !faults.is_empty() {
            let why = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
            kind.invalid(causes, &why);
        }
    }
}

fn check_variable(variable: &Node<'_, '_>, causes: &mut Causes) {
    let (name, expression) = (variable.field("name"), variable.field("expression"));
    if name.text().trim().is_empty() {
        name.required(causes, "name is not specified");
    } else if !syntax::c_identifier(name.text()).is_empty() || RESERVED.contains(&name.text()) {
        name.invalid(causes, "must be a valid CEL identifier");
    }
    if expression.text().trim().is_empty() {
        expression.required(causes, "expression is not specified");
    }
}

fn validation(validation: &Node<'_, '_>, causes: &mut Causes) {
    const BLANK: &str = "must be non-empty if specified";
    let is_blank = |of: &Node<'_, '_>| !of.text().is_empty() && of.text().trim().is_empty();
    let expression = validation.field("expression");
    if expression.text().trim().is_empty() {
        expression.required(causes, "expression is not specified");
    }
    let of_message = validation.field("messageExpression");
    if is_blank(&of_message) {
        of_message.invalid(causes, BLANK);
    }
    let message = validation.field("message");
    if is_blank(&message) {
        message.invalid(causes, BLANK);
    } else if message.text().trim().contains(['\n', '\r']) {
        message.invalid(causes, "must not contain line breaks");
    }
    validation.field("reason").one_of_if_set(causes, &["Forbidden", "Invalid", "RequestEntityTooLarge"]);
}

/// An annotation of the audit log; its name begins with that of the policy.
fn audit_annotation(annotation: &Node<'_, '_>, policy: &str, causes: &mut Causes) {
    let (key, value) = (annotation.field("key"), annotation.field("valueExpression"));
    let name = format!("{policy}/{}", key.text());
    key.faults_of(causes, &name, syntax::qualified_name(&name));
    let expression = value.text().trim();
    if expression.is_empty() {
        value.required(causes, "valueExpression is not specified");
    } else if expression.len() > MAX_AUDIT_EXPRESSION {
        value.required(causes, &format!("must not exceed {MAX_AUDIT_EXPRESSION} bytes in length"));
    }
}

fn mutation(mutation: &Node<'_, '_>, causes: &mut Causes) {
    let patch_type = mutation.field("patchType");
    if !patch_type.is_given(causes) {
        return;
    }
    let parts = [("JSONPatch", "jsonPatch"), ("ApplyConfiguration", "applyConfiguration")];
    let (used, unused) = match patch_type.text() {
        "JSONPatch" => (parts[0], parts[1]),
        "ApplyConfiguration" => (parts[1], parts[0]),
        _ => return patch_type.not_supported(causes, &["ApplyConfiguration", "JSONPatch"]),
    };
    let (patch, other) = (mutation.field(used.1), mutation.field(unused.1));
    let expression = patch.field("expression");
    if !patch.is_set() {
        patch.required(causes, &format!("must be specified when patchType is {}", used.0));
    } else if expression.text().trim().is_empty() {
        expression.required(causes, "");
    }
    if other.is_set() {
        let why = format!("must not be specified when patchType is {}", used.0);
        other.invalid_as(causes, &format!("{{{}}}", unused.1).into(), &why);
    }
}

/// What both kinds of bindings have.
fn binding(spec: &Node<'_, '_>, causes: &mut Causes) {
    spec.field("policyName").given_as(causes, syntax::dns_subdomain);
    parameters(&spec.field("paramRef"), causes);
    matched(&spec.field("matchResources"), causes);
}

/// What a binding takes its parameters from.
fn parameters(parameters: &Node<'_, '_>, causes: &mut Causes) {
    if !parameters.is_set() {
        return;
    }
    let (name, labels) = (parameters.field("name"), parameters.field("selector"));
    let is_named = !name.text().is_empty();
    if is_named {
        name.faults(causes, syntax::path_segment(name.text()));
    }
    match (is_named, labels.is_set()) {
        (true, true) => {
            name.forbidden(causes, "name and selector are mutually exclusive");
            selector(&labels, causes);
            labels.forbidden(causes, "name and selector are mutually exclusive");
        }
        (false, false) => parameters.required(causes, "one of name or selector must be specified"),
        _ => selector(&labels, causes),
    }
    parameters.field("parameterNotFoundAction").given_one_of(causes, &["Deny", "Allow"]);
}

/// What a policy, or a binding of it, is for.
fn matched(matched: &Node<'_, '_>, causes: &mut Causes) {
    if !matched.is_set() {
        return;
    }
    matched.field("matchPolicy").one_of_if_set(causes, &["Equivalent", "Exact"]);
    selector(&matched.field("namespaceSelector"), causes);
    selector(&matched.field("objectSelector"), causes);
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in matched.field(list).each() {
            let mut seen = HashSet::new();
            for name in rule.field("resourceNames").each() {
                name.faults(causes, syntax::path_segment(name.text()));
                if !seen.insert(name.text()) {
                    name.duplicate(causes);
                }
            }
            rule_with_operations(&rule, causes);
        }
    }
}
