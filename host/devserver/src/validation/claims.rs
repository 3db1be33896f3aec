//! PersistentVolumeClaims.

use super::node::{Node, field};
use super::resources::{positive_quantity, quantity_of};
use super::selector::selector;
use crate::api::{JsonMap, syntax};
use crate::schema::{Causes, shown};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

/// A claim.
pub(super) fn claim(object: &JsonMap, causes: &mut Causes) {
    claim_spec(&field(object, "spec"), causes);
}

/// The modes of a list; causes name the list.
fn access_modes(modes: &Node<'_, '_>, causes: &mut Causes) {
    let (mut is_single, mut is_shared) = (false, false);
    for mode in modes.texts() {
        if !ACCESS_MODES.contains(&mode) {
            modes.not_supported_as(causes, &shown(&mode.into()), ACCESS_MODES);
        } else if mode == "ReadWriteOncePod" {
            is_single = true;
        } else {
            is_shared = true;
        }
    }
    if is_single && is_shared {
        modes.forbidden(causes, "may not use ReadWriteOncePod with other access modes");
    }
}

/// The spec of a claim, or of claims that are made from a template.
pub(super) fn claim_spec(spec: &Node<'_, '_>, causes: &mut Causes) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        modes.required(causes, "at least 1 access mode is required");
    }
    selector(&spec.field("selector"), causes);
    access_modes(&modes, causes);
    let resources = spec.field("resources");
    let size = resources.field("requests").key("storage").value();
    let size = Node::standing(size, &resources.key("storage"));
    if !size.is_set() {
        size.required(causes, "");
    } else if positive_quantity(&size, causes) {
        quantity_of("storage", &size, causes);
    }
    spec.field("storageClassName").if_given(causes, syntax::dns_subdomain);
    spec.field("volumeMode").one_of_if_set(causes, VOLUME_MODES);
    let (source, reference) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    for source in [&source, &reference].into_iter().filter(|source| source.is_set()) {
        data_source(source, causes);
    }
    let is_same =
        ["apiGroup", "kind", "name"].iter().all(|name| source.value()[name] == reference.value()[name]);
    if source.is_set() && reference.is_set() && !is_same {
        // What is shown is a path, of which nothing is visible.
        spec.invalid_as(causes, &serde_json::json!({}), "must match dataSourceRef");
    }
    spec.field("volumeAttributesClassName").if_given(causes, syntax::dns_subdomain);
}

fn data_source(source: &Node<'_, '_>, causes: &mut Causes) {
    source.field("name").is_given(causes);
    let (kind, group) = (source.field("kind"), source.field("apiGroup"));
    kind.is_given(causes);
    if group.text().is_empty() && kind.text() != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        source.invalid_as(causes, &kind.text().into(), why);
    }
    group.if_given(causes, syntax::dns_subdomain);
}
