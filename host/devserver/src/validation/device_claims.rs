//! ResourceClaims and ResourceClaimTemplates: which devices are asked for.

use std::collections::{HashMap, HashSet};

use super::devices::{
    MAX_ITEMS, attribute_name_with_domain, configuration, has_at_most, selectors, tolerations, unique,
    unique_by,
};
use super::metadata::claim_template;
use super::node::{Node, field};
use crate::api::{JsonMap, syntax};
use crate::schema::Causes;

/// Requests of which the first that fits is taken.
const MAX_ALTERNATIVES: usize = 8;
/// What version v1beta1 has in a request itself, and the others in `exactly`.
const EXACT_FIELDS: [&str; 7] =
    ["deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"];

/// The requests of a claim, each with those of its alternatives.
type RequestNames<'v> = HashMap<&'v str, HashSet<&'v str>>;

/// A ResourceClaim. Its spec stays as it was made, so that nothing else is said of it later.
pub(super) fn claim(object: &JsonMap, is_new: bool, causes: &mut Causes) {
    if is_new {
        claim_spec(&field(object, "spec"), causes);
    }
}

/// A ResourceClaimTemplate.
pub(super) fn template(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    claim_template(&spec.field("metadata"), causes);
    claim_spec(&spec.field("spec"), causes);
}

fn claim_spec(spec: &Node<'_, '_>, causes: &mut Causes) {
    let devices = spec.field("devices");
    let requests = devices.field("requests");
    let names = request_names(&requests);
    if has_at_most(&requests, MAX_ITEMS, causes) {
        requests.each().for_each(|one| request(&one, causes));
        unique_by(&requests, Some("name"), causes);
    }
    let constraints = devices.field("constraints");
    if has_at_most(&constraints, MAX_ITEMS, causes) {
        constraints.each().for_each(|one| constraint(&one, &names, causes));
    }
    let configurations = devices.field("config");
    if has_at_most(&configurations, MAX_ITEMS, causes) {
        for one in configurations.each() {
            references(&one.field("requests"), &names, causes);
            configuration(&one, false, causes);
        }
    }
}

fn request_names<'v>(requests: &Node<'_, 'v>) -> RequestNames<'v> {
    let mut names = RequestNames::new();
    for request in requests.each() {
        let alternatives = request.field("firstAvailable");
        let inner = alternatives.each().map(|one| one.field("name").text()).collect();
        names.insert(request.field("name").text(), inner);
    }
    names
}

fn request(request: &Node<'_, '_>, causes: &mut Causes) {
    const ONE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    let name = request.field("name");
    name.faults(causes, syntax::dns_label(name.text()));
    let (alternatives, exactly) = (request.field("firstAvailable"), request.field("exactly"));
    let is_set = |name: &str| match request.field(name).value() {
        serde_json::Value::String(text) => !text.is_empty(),
        serde_json::Value::Number(number) => number.as_i64() != Some(0),
        value => !value.is_null(),
    };
    let exact = match exactly.is_set() {
        true => Some(exactly),
        false => EXACT_FIELDS.iter().any(|name| is_set(name)).then(|| request.placed(&exactly)),
    };
    match (alternatives.is_empty(), exact) {
        (true, None) => request.required(causes, ONE),
        (true, Some(exact)) => requested(&exact, causes),
        (false, None) => {
            if has_at_most(&alternatives, MAX_ALTERNATIVES, causes) {
                for one in alternatives.each() {
                    let name = one.field("name");
                    name.faults(causes, syntax::dns_label(name.text()));
                    requested(&one, causes);
                }
                unique_by(&alternatives, Some("name"), causes);
            }
        }
        (false, Some(_)) => {
            let why = format!("{ONE}, but multiple fields are set");
            request.invalid_text(causes, "null", &why);
        }
    }
}

/// Which devices are asked for, and how many.
fn requested(request: &Node<'_, '_>, causes: &mut Causes) {
    request.field("deviceClassName").given_as(causes, syntax::dns_subdomain);
    selectors(&request.field("selectors"), causes);
    let (mode, count) = (request.field("allocationMode"), request.field("count"));
    match mode.text() {
        "All" if count.int_or_zero() != 0 => {
            count.invalid(causes, "must not be specified when allocationMode is 'All'");
        }
        "All" => {}
        "ExactCount" if count.int_or_zero() <= 0 => {
            count.invalid_number(causes, "must be greater than zero");
        }
        "ExactCount" => {}
        _ => mode.not_supported(causes, &["All", "ExactCount"]),
    }
    tolerations(&request.field("tolerations"), causes);
}

/// What the devices of some requests must have in common.
fn constraint(constraint: &Node<'_, '_>, names: &RequestNames<'_>, causes: &mut Causes) {
    references(&constraint.field("requests"), names, causes);
    let (same, distinct) = (constraint.field("matchAttribute"), constraint.field("distinctAttribute"));
    if same.is_set() {
        attribute_name_with_domain(&same, causes);
    } else if distinct.is_set() {
        attribute_name_with_domain(&distinct, causes);
    } else {
        let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
        constraint.required(causes, why);
    }
}

/// Names of requests of the same claim, or of an alternative: `request/alternative`.
fn references(list: &Node<'_, '_>, names: &RequestNames<'_>, causes: &mut Causes) {
    const UNKNOWN: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    if !has_at_most(list, MAX_ITEMS, causes) {
        return;
    }
    for reference in list.each() {
        let name = reference.text();
        let (request, alternative) = match name.split_once('/') {
            Some((request, alternative)) => (request, Some(alternative)),
            None => (name, None),
        };
        if alternative.is_some_and(|alternative| alternative.contains('/')) {
            reference.invalid(causes, UNKNOWN);
            continue;
        }
        for part in std::iter::once(request).chain(alternative) {
            reference.faults_of(causes, part, syntax::dns_label(part));
        }
        let alternatives = names.get(request);
        let is_known = alternatives
            .is_some_and(|known| alternative.is_none_or(|alternative| known.contains(alternative)));
        if !is_known {
            reference.invalid(causes, UNKNOWN);
        }
    }
    unique(list, causes);
}
