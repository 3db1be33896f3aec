//! What claims, classes and slices of devices share, and DeviceClasses and DeviceTaintRules. Expressions are not compiled; only
//! their lengths are checked.

use std::collections::HashSet;

use super::node::{Node, field};
use super::{resources, sources};
use crate::api::{JsonMap, syntax};
use crate::schema::{Causes, shown};

/// Selectors, constraints and configurations in one list.
pub(super) const MAX_ITEMS: usize = 32;
/// Bytes of an expression.
const MAX_EXPRESSION: usize = 10 << 10;
/// Bytes of what a configuration hands on to a driver.
const MAX_PARAMETERS: usize = 10 << 10;
/// Bytes of the name of a pool.
const MAX_POOL_NAME: usize = 253;
/// Bytes of the name in the domain of a driver.
const MAX_IDENTIFIER: usize = 32;
/// Bytes that the path of a cause shows of a name with a domain.
const MAX_SHOWN_NAME: usize = 63 + 1 + MAX_IDENTIFIER;
/// Conditions that a binding waits for.
const MAX_BINDING_CONDITIONS: usize = 4;

/// Pools that a request for their status asks for.
const MAX_POOLS: i64 = 1000;

const TAINT_EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

/// A DeviceClass; `old` is the state that it replaces.
pub(super) fn class(object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    let spec = field(object, "spec");
    selectors(&spec.field("selectors"), causes);
    let configurations = spec.field("config");
    let is_as_before =
        old.is_some_and(|old| field(old, "spec").field("config").value() == configurations.value());
    if has_at_most(&configurations, MAX_ITEMS, causes) {
        configurations.each().for_each(|one| configuration(&one, is_as_before, causes));
    }
    let name = spec.field("extendedResourceName");
    if name.is_set() && !resources::is_extended(name.text()) {
        name.invalid(causes, "must be a valid extended resource name");
    }
}

/// A DeviceTaintRule; `old` is the state that it replaces.
pub(super) fn taint_rule(object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    let spec = field(object, "spec");
    let devices = spec.field("deviceSelector");
    let (driver, pool, device) = (devices.field("driver"), devices.field("pool"), devices.field("device"));
    if driver.is_set() {
        sources::csi_driver(&driver, causes);
    }
    if pool.is_set() {
        pool_name(&pool, causes);
    }
    device.if_set(causes, syntax::dns_label);
    let old_effect = old.map(|old| field(old, "spec").field("taint").field("effect").text());
    taint(&spec.field("taint"), old_effect, causes);
}

/// A ResourcePoolStatusRequest. Its spec stays as it was made.
pub(super) fn pool_status_request(object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    let spec = field(object, "spec");
    if let Some(old) = old {
        if field(old, "spec").value() != spec.value() {
            spec.invalid_text(causes, "null", "field is immutable");
        }
        return;
    }
    let (driver, pool, limit) = (spec.field("driver"), spec.field("poolName"), spec.field("limit"));
    driver.given_as(causes, syntax::dns_subdomain_of_any_case);
    if pool.is_set() {
        if pool.text().len() > MAX_POOL_NAME {
            pool.too_long(causes, MAX_POOL_NAME);
        }
        for (index, part) in pool.text().split('/').enumerate() {
            if part.is_empty() {
                pool.invalid(causes, &format!("segment {index}: must not be empty"));
                continue;
            }
            for fault in syntax::in_bytes(syntax::dns_subdomain(part)) {
                pool.invalid_as(causes, &part.into(), &format!("segment {index}: {fault}"));
            }
        }
    }
    match limit.int() {
        None => limit.required(causes, ""),
        Some(..=0) => limit.invalid(causes, "must be greater than or equal to 1"),
        Some(1..=MAX_POOLS) => {}
        Some(_) => limit.invalid(causes, &format!("must be less than or equal to {MAX_POOLS}")),
    }
}

/// Whether a list is no longer than it may be; if it is, nothing else is said of it.
pub(super) fn has_at_most(list: &Node<'_, '_>, max: usize, causes: &mut Causes) -> bool {
    let fits = list.len() <= max;
    if !fits {
        list.too_many(causes, max);
    }
    fits
}

/// Each element occurs once.
pub(super) fn unique(list: &Node<'_, '_>, causes: &mut Causes) {
    unique_by(list, None, causes);
}

/// Each element occurs once; a field tells them apart.
pub(super) fn unique_by(list: &Node<'_, '_>, name: Option<&str>, causes: &mut Causes) {
    let mut seen = HashSet::new();
    for one in list.each() {
        let text = name.map_or_else(|| one.text(), |name| one.field(name).text());
        if !seen.insert(text) {
            one.duplicate_as(causes, &shown(&text.into()), "");
        }
    }
}

/// Expressions that select devices.
pub(super) fn selectors(list: &Node<'_, '_>, causes: &mut Causes) {
    if !has_at_most(list, MAX_ITEMS, causes) {
        return;
    }
    for selector in list.each() {
        let cel = selector.field("cel");
        let expression = cel.field("expression");
        if !cel.is_set() {
            cel.required(causes, "");
        } else if expression.text().len() > MAX_EXPRESSION {
            expression.too_long(causes, MAX_EXPRESSION);
        }
    }
}

/// What is handed on to a driver. What is stored already may be of any length.
pub(super) fn configuration(of: &Node<'_, '_>, is_stored: bool, causes: &mut Causes) {
    let opaque = of.field("opaque");
    if !opaque.is_set() {
        return opaque.required(causes, "");
    }
    sources::csi_driver(&opaque.field("driver"), causes);
    let parameters = opaque.field("parameters");
    if !parameters.is_set() {
        parameters.required(causes, "");
    } else if !is_stored && is_longer(&parameters, MAX_PARAMETERS) {
        parameters.too_long(causes, MAX_PARAMETERS);
    } else if !parameters.value().is_object() {
        parameters.invalid_as(causes, &"<value omitted>".into(), "must be a valid JSON object");
    }
}

/// Whether the text of a value is longer than it may be.
fn is_longer(value: &Node<'_, '_>, max: usize) -> bool {
    struct Room(usize);
    impl std::io::Write for Room {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::WriteZero)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(Room(max), value.value()).is_err()
}

/// Names joined by slashes.
pub(super) fn pool_name(name: &Node<'_, '_>, causes: &mut Causes) {
    if !name.is_given(causes) {
        return;
    }
    if name.text().len() > MAX_POOL_NAME {
        name.too_long(causes, MAX_POOL_NAME);
    }
    for part in name.text().split('/') {
        name.faults_of(causes, part, syntax::dns_subdomain(part));
    }
}

/// The name of an attribute or a capacity: `name` or `driver.example/name`.
pub(super) fn attribute_name(at: &Node<'_, '_>, name: &str, causes: &mut Causes) {
    let identifier = |name: &str, causes: &mut Causes| {
        if name.len() > MAX_IDENTIFIER {
            at.too_long(causes, MAX_IDENTIFIER);
        }
        at.faults_of(causes, name, syntax::c_identifier(name));
    };
    match name.split_once('/') {
        None => identifier(name, causes),
        // A real server looks at names with two slashes no closer.
        Some((_, name)) if name.contains('/') => {}
        Some((domain, name)) => {
            if domain.is_empty() {
                at.invalid_as(causes, &"".into(), "the domain must not be empty");
            } else {
                let domain = domain.into();
                sources::csi_driver(&Node::standing(&domain, at), causes);
            }
            if name.is_empty() {
                at.invalid_as(causes, &"".into(), "the name must not be empty");
            } else {
                identifier(name, causes);
            }
        }
    }
}

/// The name of an attribute with its domain.
pub(super) fn attribute_name_with_domain(name: &Node<'_, '_>, causes: &mut Causes) {
    attribute_name(name, name.text(), causes);
    if !name.text().contains('/') {
        let why = "a fully qualified name must be a domain and a name separated by a slash";
        name.invalid(causes, why);
    }
}

/// As much of the name of an attribute or a capacity as the path of a cause shows: the middle of a long one is left out.
pub(super) fn short_name(name: &str) -> String {
    if name.len() <= MAX_SHOWN_NAME {
        return name.to_owned();
    }
    let rest = MAX_SHOWN_NAME - "...".len();
    let begin = name.floor_char_boundary(rest.div_ceil(2));
    let end = name.ceil_char_boundary(name.len() - rest / 2);
    format!("{}...{}", &name[..begin], &name[end..])
}

/// A taint of a device; an effect that it has had before is not looked at again.
pub(super) fn taint(taint: &Node<'_, '_>, old_effect: Option<&str>, causes: &mut Causes) {
    let (key, value, effect) = (taint.field("key"), taint.field("value"), taint.field("effect"));
    key.faults(causes, syntax::qualified_name(key.text()));
    value.faults(causes, syntax::label_value(value.text()));
    if old_effect != Some(effect.text()) {
        effect.given_one_of(causes, TAINT_EFFECTS);
    }
}

/// Which taints of devices a request bears.
pub(super) fn tolerations(tolerations: &Node<'_, '_>, causes: &mut Causes) {
    for toleration in tolerations.each() {
        let (key, value) = (toleration.field("key"), toleration.field("value"));
        key.if_given(causes, syntax::qualified_name);
        let operator = toleration.field("operator");
        match operator.text() {
            "Exists" if !value.text().is_empty() => {
                value.invalid(causes, "must be empty for operator `Exists`");
            }
            "Exists" => {}
            "Equal" => value.faults(causes, syntax::label_value(value.text())),
            _ => operator.given_one_of(causes, &["Equal", "Exists"]),
        }
        let effect = toleration.field("effect");
        if !effect.text().is_empty() {
            effect.one_of(causes, TAINT_EFFECTS);
        }
    }
}

/// What the use of a device waits for, and what ends the wait.
pub(super) fn binding_conditions(device: &Node<'_, '_>, causes: &mut Causes) {
    let (awaited, failures) = (device.field("bindingConditions"), device.field("bindingFailureConditions"));
    for list in [awaited, failures] {
        if has_at_most(&list, MAX_BINDING_CONDITIONS, causes) {
            list.each().for_each(|one| one.faults(causes, syntax::qualified_name(one.text())));
        }
    }
    unique(&awaited, causes);
    let mut seen = HashSet::new();
    let others: HashSet<&str> = awaited.texts().collect();
    for failure in failures.each() {
        if !seen.insert(failure.text()) {
            failure.duplicate(causes);
        }
        if others.contains(failure.text()) {
            failure.invalid(causes, "bindingFailureConditions must not overlap with bindingConditions");
        }
    }
    let lacks = |list: &Node<'_, '_>, why: &str, causes: &mut Causes| {
        list.invalid_text(causes, &super::shown_or_null(list.value()), why);
    };
    if awaited.is_empty() && !failures.is_empty() {
        lacks(&awaited, "bindingConditions are required to use bindingFailureConditions", causes);
    }
    if failures.is_empty() && !awaited.is_empty() {
        lacks(&failures, "bindingFailureConditions are required to use bindingConditions", causes);
    }
}
