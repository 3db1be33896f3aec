//! ResourceSlices: the devices of a driver, on one node or on several, and the counters that they share.

use super::devices::{
    attribute_name, binding_conditions, has_at_most, pool_name, short_name, taint, unique_by,
};
use super::node::{Node, field};
use super::scheduling::{node_selector, node_terms_in_go};
use super::{request_policy, resources, sources};
use crate::api::{JsonMap, syntax};
use crate::quantity::Amount;
use crate::schema::Causes;

const MAX_DEVICES: usize = 128;
/// Devices in a slice if one of them has taints, uses counters, or has lists of values.
const MAX_RICH_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;
/// Counters in a set, and counters of a set that a device uses.
const MAX_COUNTERS: usize = 32;
/// Sets of counters that a device uses.
const MAX_USED_SETS: usize = 2;
/// Attributes and capacities of a device together.
const MAX_ATTRIBUTES: usize = 32;
/// Values of all attributes of a device.
const MAX_VALUES: usize = 48;
/// Bytes of a text or a version in an attribute.
const MAX_VALUE: usize = 64;
const MAX_TAINTS: usize = 16;
/// Fields of an attribute that are lists of values.
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];

/// A ResourceSlice; `old` is the state that it replaces.
pub(super) fn slice(object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    let spec = field(object, "spec");
    let (driver, pool) = (spec.field("driver"), spec.field("pool"));
    sources::csi_driver(&driver, causes);
    pool_name(&pool.field("name"), causes);
    let count = pool.field("resourceSliceCount");
    if count.int_or_zero() <= 0 {
        count.invalid_number(causes, "must be greater than zero");
    }
    let generation = pool.field("generation");
    if generation.int_or_zero() < 0 {
        generation.invalid_number(causes, "must be greater than or equal to zero");
    }
    let old = old.map(|old| field(old, "spec"));
    if let Some(old) = &old {
        let fixed = [
            (old.field("pool").field("name").value(), pool.field("name")),
            (old.field("driver").value(), driver),
            (old.field("nodeName").value(), spec.field("nodeName")),
        ];
        for (before, after) in fixed {
            if before != after.value() {
                let text = super::shown_or_null(after.value());
                after.invalid_text(causes, &text, "field is immutable");
            }
        }
    }
    let is_by_device = nodes_of_slice(&spec, causes);
    let (counters, devices) = (spec.field("sharedCounters"), spec.field("devices"));
    if counters.is_set() && devices.is_set() {
        spec.invalid_as(causes, &"".into(), "only one of `sharedCounters` or `devices` is allowed");
    }
    let old_devices = old.as_ref().map(|old| old.field("devices"));
    let max = if devices.each().any(|one| is_rich(&parts(&one))) { MAX_RICH_DEVICES } else { MAX_DEVICES };
    if has_at_most(&devices, max, causes) {
        for one in devices.each() {
            let name = one.field("name").text();
            let before = old_devices.as_ref().and_then(|old| taints_of(old, name));
            device(&one, before, is_by_device, causes);
        }
        unique_by(&devices, Some("name"), causes);
    }
    if has_at_most(&counters, MAX_COUNTER_SETS, causes) {
        for set in counters.each() {
            set.field("name").given_as(causes, syntax::dns_label);
            counters_of(&set.field("counters"), causes);
        }
        unique_by(&counters, Some("name"), causes);
    }
}

/// The nodes of the devices: one, several, or those that each device names.
fn nodes_of_slice(spec: &Node<'_, '_>, causes: &mut Causes) -> bool {
    const ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut set = Vec::new();
    let name = spec.field("nodeName");
    if name.is_set() {
        if name.text().is_empty() {
            name.invalid(causes, "must be either unset or set to a non-empty string");
        } else {
            set.push("`nodeName`");
            name.faults(causes, syntax::dns_subdomain(name.text()));
        }
    }
    let selector = spec.field("nodeSelector");
    if selector.is_set() {
        set.push("`nodeSelector`");
        node_selector(&selector, causes);
        let terms = selector.field("nodeSelectorTerms");
        if terms.len() != 1 {
            let text = super::shown_or_null(&node_terms_in_go(terms.value()));
            terms.invalid_text(causes, &text, "must have exactly one node selector term");
        }
    }
    for (name, told) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        set.extend(only_true(&spec.field(name), causes).then_some(told));
    }
    match set.as_slice() {
        [] => spec.required(causes, ONE),
        [_] => {}
        several => {
            let value = format!("{{{}}}", several.join(", "));
            spec.invalid_as(causes, &value.into(), &format!("{ONE}, but multiple fields are set"));
        }
    }
    spec.field("perDeviceNodeSelection").flag()
}

/// Whether a flag is set, which may not be set to `false`.
fn only_true(flag: &Node<'_, '_>, causes: &mut Causes) -> bool {
    if flag.is_set() && !flag.flag() {
        flag.invalid(causes, "must be either unset or set to true");
    }
    flag.flag()
}

/// The fields of a device: version v1beta1 has them in `basic`, which paths omit.
fn parts<'p, 'v>(device: &Node<'p, 'v>) -> Node<'p, 'v> {
    match device.value().get("basic") {
        Some(basic) => Node::standing(basic, device),
        None => *device,
    }
}

fn is_rich(device: &Node<'_, '_>) -> bool {
    let has_lists = |attribute: &Node<'_, '_>| LISTS.iter().any(|name| attribute.field(name).is_set());
    !device.field("taints").is_empty()
        || !device.field("consumesCounters").is_empty()
        || device.field("attributes").entries().any(|(_, attribute)| has_lists(&attribute))
}

/// The taints of the device with a name.
fn taints_of<'v>(devices: &Node<'_, 'v>, name: &str) -> Option<&'v serde_json::Value> {
    let found = devices.each().find(|device| device.field("name").text() == name)?;
    Some(parts(&found).field("taints").value())
}

/// A device; taints that are as before are not looked at again.
fn device(
    device: &Node<'_, '_>,
    old_taints: Option<&serde_json::Value>,
    is_by_device: bool,
    causes: &mut Causes,
) {
    let name = device.field("name");
    name.faults(causes, syntax::dns_label(name.text()));
    let device = parts(device);
    let (attributes, capacity) = (device.field("attributes"), device.field("capacity"));
    let count = attributes.len() + capacity.len();
    if count > MAX_ATTRIBUTES {
        let why = format!("the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}");
        device.invalid_as(causes, &count.into(), &why);
    }
    let values = |attribute: &Node<'_, '_>| -> usize {
        LISTS.iter().map(|name| attribute.field(name).len()).sum::<usize>().max(1)
    };
    let count: usize = attributes.entries().map(|(_, one)| values(&one)).sum();
    if count > MAX_VALUES {
        let why = format!("the total number of attribute values must not exceed {MAX_VALUES}");
        device.invalid_as(causes, &count.into(), &why);
    }
    for (key, value) in attributes.entries() {
        attribute_name(&attributes, key, causes);
        let shown = short_name(key);
        attribute(&value.placed(&attributes.key(&shown)), causes);
    }
    let is_shared = device.field("allowMultipleAllocations").flag();
    for (key, value) in capacity.entries() {
        attribute_name(&capacity, key, causes);
        let shown = short_name(key);
        let value = value.placed(&capacity.key(&shown));
        let policy = value.field("requestPolicy");
        if !policy.is_set() {
            continue;
        }
        if is_shared {
            request_policy::check(&policy, value.field("value").text(), causes);
        } else {
            policy.forbidden(causes, "allowMultipleAllocations must be true");
        }
    }
    let taints = device.field("taints");
    if old_taints != Some(taints.value()) && has_at_most(&taints, MAX_TAINTS, causes) {
        taints.each().for_each(|one| taint(&one, None, causes));
    }
    used_counters(&device.field("consumesCounters"), causes);
    nodes_of_device(&device, is_by_device, causes);
    binding_conditions(&device, causes);
    node_resources(&device, causes);
}

fn used_counters(used: &Node<'_, '_>, causes: &mut Causes) {
    if !has_at_most(used, MAX_USED_SETS, causes) {
        return;
    }
    for set in used.each() {
        set.field("counterSet").given_as(causes, syntax::dns_label);
        counters_of(&set.field("counters"), causes);
    }
    unique_by(used, Some("counterSet"), causes);
}

fn counters_of(counters: &Node<'_, '_>, causes: &mut Causes) {
    if counters.is_empty() {
        counters.required(causes, "");
    } else if has_at_most(counters, MAX_COUNTERS, causes) {
        for (key, _) in counters.entries() {
            counters.faults_of(causes, key, syntax::dns_label(key));
        }
    }
}

fn nodes_of_device(device: &Node<'_, '_>, is_by_device: bool, causes: &mut Causes) {
    let (name, selector, all) =
        (device.field("nodeName"), device.field("nodeSelector"), device.field("allNodes"));
    if !is_by_device {
        if name.is_set() || selector.is_set() || all.is_set() {
            let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in \
                       the ResourceSlice spec";
            device.invalid_text(causes, "null", why);
        }
        return;
    }
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set \
                       to true in the ResourceSlice spec";
    let mut set = Vec::new();
    if name.is_set() {
        if name.text().is_empty() {
            name.invalid(causes, "must not be empty");
        } else {
            set.push("`nodeName`");
            name.faults(causes, syntax::dns_subdomain(name.text()));
        }
    }
    if selector.is_set() {
        set.push("`nodeSelector`");
        node_selector(&selector, causes);
    }
    set.extend(only_true(&all, causes).then_some("`allNodes`"));
    match set.as_slice() {
        [] => device.required(causes, ONE),
        [_] => {}
        several => device.invalid_as(causes, &format!("{{{}}}", several.join(", ")).into(), ONE),
    }
}

/// Which resources of a node a device uses up.
fn node_resources(device: &Node<'_, '_>, causes: &mut Causes) {
    let capacity = device.field("capacity");
    for (name, mapping) in device.field("nodeAllocatableResourceMappings").entries() {
        if !resources::is_native(name) {
            mapping.invalid_as(causes, &name.into(), "must be a node allocatable resource name");
        }
        let (factor, key) = (mapping.field("allocationMultiplier"), mapping.field("capacityKey"));
        if !factor.is_set() && !key.is_set() {
            let why = "at least one of allocationMultiplier or capacityKey must be set";
            mapping.invalid_as(causes, &"".into(), why);
        }
        if factor.is_set() && Amount::of(factor.text()) <= Amount::ZERO {
            factor.invalid(causes, "must be positive");
        }
        if !key.is_set() {
            continue;
        }
        if key.text().is_empty() {
            key.invalid(causes, "capacityKey must not be an empty string");
        } else if !capacity.key(key.text()).is_set() {
            key.not_found(causes);
        }
    }
}

/// A value of an attribute: one of several types, or a list of one type.
fn attribute(attribute: &Node<'_, '_>, causes: &mut Causes) {
    const ONE: &str = "exactly one value must be specified";
    text_value(&attribute.field("string"), causes);
    version_value(&attribute.field("version"), causes);
    for name in LISTS {
        let list = attribute.field(name);
        if list.is_set() && list.is_empty() {
            list.invalid_text(causes, "[]", "must not be empty if specified");
        }
    }
    attribute.field("strings").each().for_each(|one| text_value(&one, causes));
    attribute.field("versions").each().for_each(|one| version_value(&one, causes));
    let names = ["int", "bool", "string", "version", "ints", "bools", "strings", "versions"];
    match names.iter().filter(|name| attribute.field(name).is_set()).count() {
        0 => attribute.invalid_as(causes, &"".into(), ONE),
        1 => {}
        _ => {
            let fields = [
                ("IntValue", "int"),
                ("BoolValue", "bool"),
                ("StringValue", "string"),
                ("VersionValue", "version"),
                ("IntValues", "ints"),
                ("BoolValues", "bools"),
                ("StringValues", "strings"),
                ("VersionValues", "versions"),
            ];
            let part = |(told, name): &(&str, &str)| {
                format!("\"{told}\":{}", super::shown_or_null(attribute.field(name).value()))
            };
            let text = format!("{{{}}}", fields.iter().map(part).collect::<Vec<_>>().join(","));
            attribute.invalid_text(causes, &text, ONE);
        }
    }
}

fn text_value(text: &Node<'_, '_>, causes: &mut Causes) {
    if text.text().len() > MAX_VALUE {
        text.too_long(causes, MAX_VALUE);
    }
}

fn version_value(version: &Node<'_, '_>, causes: &mut Causes) {
    if version.is_set() && !syntax::is_semantic_version(version.text()) {
        version.invalid(causes, "must be a string compatible with semver.org spec 2.0.0");
    }
    text_value(version, causes);
}
