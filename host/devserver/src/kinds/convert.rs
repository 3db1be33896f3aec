//! The kinds whose versions differ in more than `apiVersion`: Events (of two groups), HorizontalPodAutoscalers, and custom
//! resources whose versions have different schemas.
//!
//! The versions of resource.k8s.io differ too, and are not converted: objects are stored as they were written.
//!
//! Stored are core/v1 Events, autoscaling/v2 autoscalers, and custom objects in their storage version.

use serde_json::{Value, json};

use super::autoscalers;
use crate::api::JsonMap;
use crate::apply::VersionsOf;
use crate::resources::Resource;
use crate::schema::{BuiltinTypes, DefaultsLimit, TypeId};
use crate::typed::{self, Empties, StructId, Structs};

/// Whether objects of this resource are not stored as they are served.
pub(crate) fn needs_conversion(resource: &Resource) -> bool {
    matches!(
        (resource.group.as_str(), resource.version.as_str(), resource.name.as_str()),
        ("events.k8s.io", _, "events") | ("autoscaling", "v1", "horizontalpodautoscalers")
    ) || resource.is_converted_by_schema()
}

fn is_autoscaler(resource: &Resource) -> bool {
    resource.group == "autoscaling" && resource.name == "horizontalpodautoscalers"
}

/// Whether objects of this resource are brought to another form when they have been read.
pub(crate) fn is_rewritten(resource: &Resource) -> bool {
    needs_conversion(resource) || is_autoscaler(resource)
}

/// Puts in the defaults that only the stored version of an object has, which came in another.
pub(crate) fn complete_stored(resource: &Resource, object: &mut JsonMap) {
    if is_autoscaler(resource) && needs_conversion(resource) {
        autoscalers::default_v2(object);
    }
}

/// A field of an object, or of an object in it, that is empty: how it was sent.
pub(crate) type Empty = (&'static str, Value);

/// Fields of which a server sees whether they are empty or absent when it looks for what is wrong, although it stores the same.
fn with_empties(resource: &Resource) -> &'static [&'static str] {
    match (resource.group.as_str(), resource.name.as_str()) {
        ("", "configmaps") => &["/binaryData"],
        ("", "secrets") => &["/data"],
        ("", "resourcequotas") => &["/spec/scopes"],
        ("networking.k8s.io", "ingresses") => &["/spec/rules"],
        _ => &[],
    }
}

/// The object that holds a field.
fn parent<'a>(object: &'a mut JsonMap, pointer: &'static str) -> Option<(&'a mut JsonMap, &'static str)> {
    match pointer.trim_start_matches('/').split_once('/') {
        Some((outer, field)) => Some((object.get_mut(outer)?.as_object_mut()?, field)),
        None => Some((object, &pointer[1..])),
    }
}

/// Takes out empty fields that count: everything else takes them for absent.
pub(crate) fn take_empties(resource: &Resource, object: &mut JsonMap) -> Vec<Empty> {
    let mut taken = Vec::new();
    for pointer in with_empties(resource) {
        let Some((parent, field)) = parent(object, pointer) else { continue };
        let is_list = matches!(*pointer, "/spec/rules" | "/spec/scopes");
        let empty = if is_list { json!([]) } else { json!({}) };
        let is_empty = |value: &Value| *value == empty;
        if parent.get(field).is_some_and(is_empty) {
            taken.extend(parent.remove(field).map(|value| (*pointer, value)));
        }
    }
    taken
}

/// Puts such fields back.
pub(crate) fn put_empties(object: &mut JsonMap, empties: Vec<Empty>) {
    for (pointer, value) in empties {
        if let Some((parent, field)) = parent(object, pointer) {
            parent.entry(field).or_insert(value);
        }
    }
}

/// From the form in which objects come in to the stored one; of a resource that [`is_rewritten`].
pub(crate) fn to_stored(resource: &Resource, object: &mut JsonMap) {
    match resource.group.as_str() {
        // Their schemas bring them to it when they are complete.
        _ if resource.is_custom() => {}
        "events.k8s.io" => rename(object, |(served, stored)| (served, stored)),
        _ if needs_conversion(resource) => autoscalers::to_v2(object),
        _ => drop(autoscalers::take_annotations(object)),
    }
}

/// From the stored form to that in which objects are served.
pub(crate) fn from_stored(resource: &Resource, object: &mut JsonMap) {
    from_stored_within(resource, object, &mut DefaultsLimit::default());
}

/// As [`from_stored`], of one of the objects of an answer.
pub(crate) fn from_stored_within(resource: &Resource, object: &mut JsonMap, limit: &mut DefaultsLimit) {
    match resource.group.as_str() {
        _ if resource.is_custom() => resource.convert_by_schema(object, limit),
        "events.k8s.io" => {
            rename(object, |(served, stored)| (stored, served));
            // What core/v1 always has, this version leaves out if it is empty.
            object.retain(|field, value| {
                !(matches!(field.as_str(), "reportingController" | "reportingInstance") && value == "")
            });
        }
        _ => autoscalers::to_v1(object),
    }
}

/// Names of fields in events.k8s.io/v1 and in core/v1.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn rename(
    object: &mut JsonMap,
    order: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    for names in EVENT_FIELDS {
        let (from, to) = order(names);
        if let Some(value) = object.remove(from) {
            object.insert(to.to_owned(), value);
        }
    }
}

/// How objects of a kind are converted for managed fields, if it is built in and has several versions.
pub(crate) fn versions(resource: &Resource) -> Option<Box<dyn VersionsOf>> {
    if resource.is_custom() || resource.served.len() < 2 {
        return None;
    }
    if is_autoscaler(resource) {
        return Some(Box::new(Autoscalers));
    }
    let kind = Structs::get().of_kind(&resource.api_version(), &resource.kind)?;
    Some(Box::new(Renamed(kind)))
}

/// Versions that differ in nothing but their names: what becomes of an object is that its empty fields are left out, as it
/// passes through Go's structs.
#[derive(Debug)]
struct Renamed(StructId);

impl VersionsOf for Renamed {
    fn type_in(&self, _: &str) -> Option<TypeId> {
        None
    }

    fn convert(&self, object: &Value, version: &str) -> Value {
        let mut converted = object.clone();
        if let Value::Object(object) = &mut converted {
            let _ = typed::read(self.0, object, Empties::Dropped);
            object.insert("apiVersion".to_owned(), version.into());
        }
        converted
    }
}

#[derive(Debug)]
struct Autoscalers;

impl Autoscalers {
    /// Brings an object to Go's form, as far as it is of its type.
    fn read(version: &str, object: &mut JsonMap) {
        if let Some(id) = Structs::get().of_kind(version, "HorizontalPodAutoscaler") {
            let _ = typed::read(id, object, Empties::Dropped);
        }
    }
}

impl VersionsOf for Autoscalers {
    fn type_in(&self, version: &str) -> Option<TypeId> {
        BuiltinTypes::get().of_kind(version, "HorizontalPodAutoscaler")
    }

    fn convert(&self, object: &Value, version: &str) -> Value {
        let mut converted = object.clone();
        if let Value::Object(object) = &mut converted {
            let (other, convert): (_, fn(&mut JsonMap)) = match version {
                "autoscaling/v1" => ("autoscaling/v2", autoscalers::to_v1),
                _ => ("autoscaling/v1", autoscalers::to_v2),
            };
            Self::read(other, object);
            convert(object);
            Self::read(version, object);
            object.insert("apiVersion".to_owned(), version.into());
        }
        converted
    }
}
