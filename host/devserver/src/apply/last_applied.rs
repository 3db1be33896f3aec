//! Client-side apply of kubectl: the annotation in which it keeps what it applied last.
//!
//! When `kubectl apply --server-side` takes an object over from client-side apply, conflicts on fields that still have the
//! values of the annotation are none; afterwards the annotation follows what is applied.

use serde_json::{Map, Value};

use super::check::{Duplicates, check};
use super::compare::compare;
use super::fields;
use super::set::Set;
use super::types::TypeRef;
use crate::api::go_json::write_value;

/// The manager whose requests do all this.
pub(super) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Bytes that keys and values of annotations may have together.
const ANNOTATIONS_LIMIT: usize = 256 << 10;

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.get("annotations")?.as_object()
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}

fn annotation(object: &Value) -> Option<&str> {
    annotations(object)?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// The fields that the annotation names and that still have its values.
pub(super) fn unchanged_fields(root: TypeRef<'_>, live: &Value, api_version: &str) -> Option<Set> {
    let applied: Value = serde_json::from_str(annotation(live)?).ok()?;
    if applied.get("apiVersion")?.as_str()? != api_version || applied.get("kind") != live.get("kind") {
        return None;
    }
    for object in [live, &applied] {
        check(root, object, Duplicates::Refused).ok()?;
    }
    let changes = compare(root, &applied, live);
    let fields = fields::of(root, &applied);
    Some(fields.difference(&changes.written()).difference(&changes.removed))
}

/// Annotations as texts: a null is an empty one.
fn without_nulls(annotations: &mut Map<String, Value>) {
    annotations.values_mut().filter(|value| value.is_null()).for_each(|value| *value = "".into());
}

/// Writes a configuration into the annotation of the object, if it has one; gives whether it changed.
pub(super) fn follow(object: &mut Value, config: &Value) -> bool {
    if annotation(object).is_none() {
        return false;
    }
    let mut config = config.clone();
    if let Some(annotations) = annotations_mut(&mut config) {
        annotations.remove(ANNOTATION);
        without_nulls(annotations);
    } else if let Some(metadata) = config.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("annotations");
    }
    let mut text = Vec::new();
    write_value(&mut text, &config);
    text.push(b'\n');
    let text = String::from_utf8_lossy(&text).into_owned();
    let Some(annotations) = annotations_mut(object) else { return false };
    without_nulls(annotations);
    let before = annotations.insert(ANNOTATION.to_owned(), text.into());
    let size = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    if annotations.iter().map(size).sum::<usize>() > ANNOTATIONS_LIMIT {
        annotations.remove(ANNOTATION);
    }
    annotations.get(ANNOTATION) != before.as_ref()
}
