//! FlowSchemas and PriorityLevelConfigurations.

use super::node::{Node, field};
use crate::api::{JsonMap, syntax};
use crate::schema::{Causes, shown};

const MOST_PRECEDENCE: i64 = 10_000;
const MOST_QUEUES: i64 = 10_000_000;
/// How many bits of a request's hash choose its queues.
const HASH_BITS: f64 = 60.0;
const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

pub(super) fn flow_schema(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    let precedence = spec.field("matchingPrecedence");
    match precedence.int_or_zero() {
        number if number <= 0 => precedence.invalid_number(causes, "must be a positive value"),
        number if number > MOST_PRECEDENCE => {
            precedence.invalid(causes, &format!("must not be greater than {MOST_PRECEDENCE}"));
        }
        1 if field(object, "metadata").field("name").text() != "exempt" => {
            precedence.invalid(causes, "only the schema named 'exempt' may have matchingPrecedence 1");
        }
        _ => {}
    }
    let method = spec.field("distinguisherMethod");
    let kind = method.field("type");
    if method.is_set() && !matches!(kind.text(), "ByNamespace" | "ByUser") {
        let value = format!("{{\"Type\":{}}}", shown(&kind.text().into()));
        kind.not_supported_as(causes, &value, &["ByNamespace", "ByUser"]);
    }
    let level = spec.field("priorityLevelConfiguration");
    let name = level.field("name");
    match name.text() {
        "" => name.required(causes, "must reference a priority level"),
        text => name.faults(causes, syntax::dns_subdomain(text)),
    }
    spec.field("rules").each().for_each(|each| rule(&each, causes));
}

fn rule(rule: &Node<'_, '_>, causes: &mut Causes) {
    let subjects = rule.field("subjects");
    if subjects.is_empty() {
        subjects.required(causes, "subjects must contain at least one value");
    }
    subjects.each().for_each(|each| subject(&each, causes));
    let (resources, others) = (rule.field("resourceRules"), rule.field("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        rule.required(causes, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for each in resources.each() {
        resource_rule(&each, causes);
    }
    for each in others.each() {
        verbs(&each.field("verbs"), causes);
        let urls = each.field("nonResourceURLs");
        if urls.is_empty() {
            urls.required(causes, "nonResourceURLs must contain at least one value");
        } else {
            alone(&urls, "non-resource URLs", causes);
        }
    }
}

fn resource_rule(rule: &Node<'_, '_>, causes: &mut Causes) {
    verbs(&rule.field("verbs"), causes);
    for (list, what, others) in
        [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        let list = rule.field(list);
        if list.is_empty() {
            list.required(causes, &format!("resource rules must supply at least one {what}"));
        }
        alone(&list, others, causes);
    }
    let namespaces = rule.field("namespaces");
    if namespaces.is_empty() && !rule.field("clusterScope").flag() {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        namespaces.required(causes, why);
    } else if has_star(&namespaces) {
        alone(&namespaces, "namespaces", causes);
    } else {
        for namespace in namespaces.each() {
            for fault in syntax::dns_label(namespace.text()) {
                let why = format!("each member of this list must be '*' or a DNS-1123 label; {fault}");
                namespace.invalid(causes, &why);
            }
        }
    }
}

fn has_star(list: &Node<'_, '_>) -> bool {
    list.texts().any(|text| text == "*")
}

/// A star stands alone.
fn alone(list: &Node<'_, '_>, others: &str, causes: &mut Causes) {
    if list.len() > 1 && has_star(list) {
        list.invalid(causes, &format!("if '*' is present, must not specify other {others}"));
    }
}

fn verbs(verbs: &Node<'_, '_>, causes: &mut Causes) {
    if verbs.is_empty() {
        verbs.required(causes, "verbs must contain at least one value");
    } else if has_star(verbs) {
        alone(verbs, "verbs", causes);
    } else if !verbs.texts().all(|verb| VERBS.contains(&verb)) {
        verbs.not_supported_as(causes, &shown(verbs.value()), VERBS);
    }
}

fn subject(subject: &Node<'_, '_>, causes: &mut Causes) {
    const KINDS: [(&str, &str); 3] =
        [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = subject.field("kind");
    let Some((_, own)) = KINDS.iter().find(|(name, _)| *name == kind.text()) else {
        return kind.one_of(causes, &["Group", "ServiceAccount", "User"]);
    };
    let named = subject.field(own);
    if !named.is_set() {
        named.required(causes, &format!("{own} is required when subject kind is '{}'", kind.text()));
    } else if named.field("name").is_given(causes)
        && *own == "serviceAccount"
        && named.field("name").text() != "*"
    {
        named.field("name").faults(causes, syntax::dns_subdomain(named.field("name").text()));
    }
    if named.is_set() && *own == "serviceAccount" {
        let namespace = named.field("namespace");
        match namespace.text() {
            "" => namespace.required(causes, "must specify namespace for service account"),
            text => namespace.faults(causes, syntax::dns_label(text)),
        }
    }
    for (name, other) in KINDS.iter().filter(|(_, other)| other != own) {
        let other = subject.field(other);
        if other.is_set() {
            let field = &name[..1].to_lowercase();
            other.forbidden(
                causes,
                &format!("{field}{} is forbidden when subject kind is not '{name}'", &name[1..]),
            );
        }
    }
}

pub(super) fn priority_level(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    let (kind, limited, exempt) = (spec.field("type"), spec.field("limited"), spec.field("exempt"));
    let is_exempt = field(object, "metadata").field("name").text() == "exempt";
    if is_exempt != (kind.text() == "Exempt") {
        kind.invalid_as(causes, &kind.text().into(), "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    match kind.text() {
        "Exempt" => {
            if limited.is_set() {
                limited.forbidden(causes, "must be nil if the type is not Limited");
            }
            shares(&exempt, causes);
        }
        "Limited" => {
            if exempt.is_set() {
                exempt.forbidden(causes, "must be nil if the type is Limited");
            }
            if !limited.is_set() {
                return limited.required(causes, "must not be empty when type is Limited");
            }
            shares(&limited, causes);
            let borrowed = limited.field("borrowingLimitPercent");
            if borrowed.int_or_zero() < 0 {
                borrowed.invalid(causes, "if specified, must be a non-negative integer");
            }
            response(&limited.field("limitResponse"), causes);
        }
        _ => kind.given_one_of(causes, &["Exempt", "Limited"]),
    }
}

fn shares(level: &Node<'_, '_>, causes: &mut Causes) {
    let shares = level.field("nominalConcurrencyShares");
    if shares.int_or_zero() < 0 {
        shares.invalid(causes, "must be a non-negative integer");
    }
    let lent = level.field("lendablePercent");
    if !(0..=100).contains(&lent.int_or_zero()) {
        lent.invalid(causes, "must be between 0 and 100, inclusive");
    }
}

/// What becomes of requests that are too many.
fn response(response: &Node<'_, '_>, causes: &mut Causes) {
    let (kind, queuing) = (response.field("type"), response.field("queuing"));
    match kind.text() {
        "Reject" if queuing.is_set() => {
            queuing.forbidden(causes, "must be nil if limited.limitResponse.type is not Limited");
        }
        "Queue" if !queuing.is_set() => {
            queuing.required(causes, "must not be empty if limited.limitResponse.type is Limited");
        }
        "Queue" => queues(&queuing, causes),
        _ => kind.given_one_of(causes, &["Queue", "Reject"]),
    }
}

fn queues(queuing: &Node<'_, '_>, causes: &mut Causes) {
    let (length, queues, hand) =
        (queuing.field("queueLengthLimit"), queuing.field("queues"), queuing.field("handSize"));
    if length.int_or_zero() <= 0 {
        length.invalid_number(causes, "must be positive");
    }
    let count = queues.int_or_zero();
    if count <= 0 {
        queues.invalid_number(causes, "must be positive");
    } else if count > MOST_QUEUES {
        queues.invalid(causes, &format!("must not be greater than {MOST_QUEUES}"));
    }
    let size = hand.int_or_zero();
    if size <= 0 {
        hand.invalid_number(causes, "must be positive");
    } else if size > count {
        hand.invalid(causes, &format!("should not be greater than queues ({count})"));
    } else if !fits(count, size) {
        let why = format!(
            "required entropy bits of deckSize {count} and handSize {size} should not be greater than {HASH_BITS}"
        );
        hand.invalid(causes, &why);
    }
}

/// Whether a hash has bits enough for a hand of queues.
fn fits(queues: i64, hand: i64) -> bool {
    let float = |number: i64| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    (float(queues).log2() * float(hand)).ceil() <= HASH_BITS
}
