//! The metadata of an object, and of what it makes others from.

use std::collections::HashSet;

use serde_json::Value;

use super::node::{Node, field};
use crate::api::syntax;
use crate::api::{Cause, JsonMap, NameRule, check_base, check_name};
use crate::schema::Causes;

/// Bytes that keys and values of annotations may have together.
const ANNOTATIONS_LIMIT: usize = 256 << 10;
/// Finalizers whose names belong to nobody's domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Whose metadata it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetadataOf {
    Builtin,
    Custom,
}

/// What is wrong with the metadata of an object.
pub(crate) fn check_metadata(object: &JsonMap, rule: NameRule, of: MetadataOf) -> Vec<Cause> {
    let mut causes = Causes::default();
    let metadata = field(object, "metadata");
    let (base, name) = (metadata.field("generateName"), metadata.field("name"));
    if !base.text().is_empty() {
        check_base(base.text(), rule).iter().for_each(|fault| base.invalid(&mut causes, fault));
    }
    if name.text().is_empty() {
        name.required(&mut causes, "name or generateName is required");
    } else {
        check_name(name.text(), rule).iter().for_each(|fault| name.invalid(&mut causes, fault));
    }
    labels(&metadata.field("labels"), &mut causes);
    annotations(&metadata.field("annotations"), &mut causes);
    owners(&metadata.field("ownerReferences"), &mut causes);
    let finalizers = metadata.field("finalizers");
    for finalizer in finalizers.texts() {
        finalizers.faults_of(&mut causes, finalizer, syntax::qualified_name(finalizer));
    }
    let has = |name: &str| finalizers.texts().any(|one| one == name);
    if has("orphan") && has("foregroundDeletion") {
        finalizers.invalid(&mut causes, "finalizer orphan and foregroundDeletion cannot be both set");
    }
    if of == MetadataOf::Builtin {
        finalizers.each().for_each(|one| standard_finalizer(&one, &mut causes));
    }
    causes.into_vec()
}

/// A finalizer of a built-in kind has a domain, or is one of the server's own.
pub(super) fn standard_finalizer(finalizer: &Node<'_, '_>, causes: &mut Causes) {
    let name = finalizer.text();
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        finalizer.invalid(causes, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

/// Labels, also those that select.
pub(super) fn labels(labels: &Node<'_, '_>, causes: &mut Causes) {
    for (key, value) in labels.entries() {
        labels.faults_of(causes, key, syntax::qualified_name(key));
        labels.faults_of(causes, value.text(), syntax::label_value(value.text()));
    }
}

pub(super) fn annotations(annotations: &Node<'_, '_>, causes: &mut Causes) {
    let mut size = 0;
    for (key, value) in annotations.entries() {
        size += key.len() + value.text().len();
        annotations.faults_of(causes, key, syntax::qualified_name(&key.to_lowercase()));
    }
    if size > ANNOTATIONS_LIMIT {
        annotations.too_long(causes, ANNOTATIONS_LIMIT);
    }
}

fn owners(owners: &Node<'_, '_>, causes: &mut Causes) {
    let mut controller: Option<String> = None;
    for owner in owners.each() {
        // Causes name the list and not the element.
        let place = |name| (owners.field(name), owner.field(name));
        let (at, version) = place("apiVersion");
        if version.text().rsplit('/').next().unwrap_or_default().is_empty()
            || version.text().split('/').count() > 2
        {
            at.invalid_as(causes, &version.text().into(), "version must not be empty");
        }
        for name in ["kind", "name", "uid"] {
            let (at, value) = place(name);
            if value.text().is_empty() {
                at.invalid_as(causes, &"".into(), "must not be empty");
            }
        }
        if (version.text(), owner.field("kind").text()) == ("v1", "Event") {
            owners.invalid_as(causes, owner.value(), "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner.field("controller").flag() {
            let name = format!("{}/{}", owner.field("kind").text(), owner.field("name").text());
            match &controller {
                Some(first) => {
                    let why = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                    );
                    owners.invalid(causes, &why);
                }
                None => controller = Some(name),
            }
        }
    }
}

/// The metadata that a claim is made with: labels and annotations alone.
pub(super) fn claim_template(metadata: &Node<'_, '_>, causes: &mut Causes) {
    annotations(&metadata.field("annotations"), causes);
    labels(&metadata.field("labels"), causes);
    let free = HashSet::from(["annotations", "labels", "creationTimestamp"]);
    for (name, value) in metadata.value().as_object().into_iter().flatten() {
        if !free.contains(name.as_str()) && *value != Value::Null {
            metadata.field(name).forbidden(causes, "cannot be set");
        }
    }
}
