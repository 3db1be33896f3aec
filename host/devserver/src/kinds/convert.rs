//! The kinds whose versions differ in more than `apiVersion`: Events (of two groups), and custom resources whose versions have
//! different schemas.
//!
//! Stored are core/v1 Events, and custom objects in their storage version.

use crate::api::JsonMap;
use crate::resources::Resource;
use crate::schema::DefaultsLimit;

/// Whether objects of this resource are not stored as they are served.
pub(crate) fn needs_conversion(resource: &Resource) -> bool {
    is_newer_event(resource) || resource.is_converted_by_schema()
}

fn is_newer_event(resource: &Resource) -> bool {
    (resource.group.as_str(), resource.name.as_str()) == ("events.k8s.io", "events")
}

/// From the form in which objects come in to the stored one. The schemas of custom objects bring them to it when they are
/// complete.
pub(crate) fn to_stored(resource: &Resource, object: &mut JsonMap) {
    if is_newer_event(resource) {
        rename(object, |(served, stored)| (served, stored));
    }
}

/// From the stored form to that in which objects are served.
pub(crate) fn from_stored(resource: &Resource, object: &mut JsonMap) {
    from_stored_within(resource, object, &mut DefaultsLimit::default());
}

/// As [`from_stored`], of one of the objects of an answer.
pub(crate) fn from_stored_within(resource: &Resource, object: &mut JsonMap, limit: &mut DefaultsLimit) {
    if !is_newer_event(resource) {
        return resource.convert_by_schema(object, limit);
    }
    rename(object, |(served, stored)| (stored, served));
    // What core/v1 always has, this version leaves out if it is empty.
    object.retain(|field, value| {
        !(matches!(field.as_str(), "reportingController" | "reportingInstance") && value == "")
    });
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
