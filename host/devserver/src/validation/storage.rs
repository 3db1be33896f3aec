//! Classes of storage, drivers, and what nodes have of them.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::node::{Node, field};
use super::resources::non_negative_quantity;
use super::selector::selector;
use super::sources::csi_driver;
use crate::api::{JsonMap, syntax};
use crate::schema::Causes;

/// How many parameters a class may have, and how long they may be together.
const PARAMETERS: usize = 512;
const PARAMETERS_SIZE: usize = 256 << 10;

fn provisioner(at: &Node<'_, '_>, causes: &mut Causes) {
    if at.is_given(causes) {
        let name = at.text().to_lowercase();
        at.faults_of(causes, &name, syntax::qualified_name(&name));
    }
}

fn parameters(parameters: &Node<'_, '_>, needs_some: bool, causes: &mut Causes) {
    if parameters.len() > PARAMETERS {
        return parameters.too_long(causes, PARAMETERS);
    }
    let mut size = 0;
    for (key, value) in parameters.entries() {
        if key.is_empty() {
            parameters.invalid_as(causes, &"".into(), "field can not be empty.");
        }
        size += key.len() + value.text().len();
    }
    if size > PARAMETERS_SIZE {
        parameters.too_long(causes, PARAMETERS_SIZE);
    }
    if needs_some && parameters.is_empty() {
        parameters.required(causes, "must contain at least one key/value pair");
    }
}

pub(super) fn storage_class(object: &JsonMap, causes: &mut Causes) {
    provisioner(&field(object, "provisioner"), causes);
    parameters(&field(object, "parameters"), false, causes);
    let policy = field(object, "reclaimPolicy");
    if !policy.text().is_empty() {
        policy.one_of(causes, &["Delete", "Retain"]);
    }
    let mode = field(object, "volumeBindingMode");
    if mode.is_set() {
        mode.one_of(causes, &["Immediate", "WaitForFirstConsumer"]);
    } else {
        mode.required(causes, "");
    }
    topologies(&field(object, "allowedTopologies"), causes);
}

fn topologies(terms: &Node<'_, '_>, causes: &mut Causes) {
    let mut seen: HashSet<BTreeMap<&str, Vec<&str>>> = HashSet::new();
    for term in terms.each() {
        let expressions = term.field("matchLabelExpressions");
        // Of several values of a key the last ones count.
        let mut whole = BTreeMap::new();
        for expression in expressions.each() {
            let (key, values) = (expression.field("key"), expression.field("values"));
            if values.is_empty() {
                values.required(causes, "");
            }
            let mut known = HashSet::new();
            for value in values.each() {
                if !known.insert(value.text()) {
                    value.duplicate(causes);
                }
            }
            key.faults(causes, syntax::qualified_name(key.text()));
            let mut values: Vec<&str> = known.into_iter().collect();
            values.sort_unstable();
            if whole.insert(key.text(), values).is_some() {
                key.duplicate(causes);
            }
        }
        // A term of nothing counts as seen.
        if whole.is_empty() || !seen.insert(whole) {
            expressions.duplicate_as(causes, "\"\"", "");
        }
    }
}

pub(super) fn volume_attributes_class(object: &JsonMap, causes: &mut Causes) {
    provisioner(&field(object, "driverName"), causes);
    parameters(&field(object, "parameters"), true, causes);
}

pub(super) fn driver(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    for (name, named) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if !spec.field(name).is_set() {
            spec.field(named).required(causes, "");
        }
    }
    spec.field("fsGroupPolicy").one_of_if_set(causes, &["File", "None", "ReadWriteOnceWithFSType"]);
    let requests = spec.field("tokenRequests");
    let mut audiences = HashSet::new();
    for request in requests.each() {
        let (audience, lifetime) = (request.field("audience"), request.field("expirationSeconds"));
        if !audiences.insert(audience.text()) {
            audience.duplicate(causes);
        } else if lifetime.is_set() {
            super::projected::token_lifetime(&lifetime, causes);
        }
    }
    let modes = spec.field("volumeLifecycleModes");
    for mode in modes.each() {
        mode.placed(&modes).one_of(causes, &["Persistent", "Ephemeral"]);
    }
    if !spec.field("seLinuxMount").is_set() {
        spec.field("seLinuxMount").required(causes, "");
    }
    let period = spec.field("nodeAllocatableUpdatePeriodSeconds");
    if period.int().is_some_and(|seconds| seconds < 10) {
        period.invalid(causes, "must be greater than or equal to 10 seconds");
    }
    let in_secrets = spec.field("serviceAccountTokenInSecrets");
    if in_secrets.is_set() && requests.is_empty() {
        let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        in_secrets.invalid(causes, why);
    }
}

pub(super) fn drivers_of_node(object: &JsonMap, causes: &mut Causes) {
    let mut names = HashSet::new();
    for driver in field(object, "spec").field("drivers").each() {
        let (name, id) = (driver.field("name"), driver.field("nodeID"));
        csi_driver(&name, causes);
        id.is_given(causes);
        if id.text().len() > 256 {
            id.invalid(causes, "must be 256 characters or less");
        }
        driver.field("allocatable").field("count").non_negative(causes);
        if !names.insert(name.text()) {
            name.duplicate(causes);
        }
        let mut keys = HashSet::new();
        // Causes name the driver.
        for key in driver.field("topologyKeys").texts() {
            if key.is_empty() {
                driver.required(causes, "");
            }
            if !keys.insert(key) {
                driver.duplicate_as(causes, &Value::from(key).to_string(), "");
            }
            driver.faults_of(causes, key, syntax::qualified_name(key));
        }
    }
}

pub(super) fn storage_capacity(object: &JsonMap, causes: &mut Causes) {
    selector(&field(object, "nodeTopology"), causes);
    let class = field(object, "storageClassName");
    class.faults(causes, syntax::dns_subdomain(class.text()));
    let capacity = field(object, "capacity");
    if capacity.is_set() {
        non_negative_quantity(&capacity, causes);
    }
}

pub(super) fn attachment(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    csi_driver(&spec.field("attacher"), causes);
    let source = spec.field("source");
    let (inline, name) = (source.field("inlineVolumeSpec"), source.field("persistentVolumeName"));
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (inline.is_set(), name.is_set()) {
        (false, false) => source.required(causes, ONE),
        (true, true) => source.forbidden(causes, ONE),
        (false, true) if name.text().is_empty() => {
            name.required(causes, "must specify non empty persistentVolumeName");
        }
        _ => {}
    }
    let node = spec.field("nodeName");
    node.faults(causes, syntax::dns_subdomain(node.text()));
    if name.is_set() {
        name.faults(causes, syntax::dns_subdomain(name.text()));
    }
}
