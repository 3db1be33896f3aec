//! Which fields a field selector may name, and their values.

use std::borrow::Cow;

use pilothouse_object::{FieldSelector, Object};

use crate::api::ApiError;
use crate::resources::Resource;

/// A field selector that names only what its resource supports.
pub(crate) struct FieldFilter(FieldSelector);

/// Reads a field selector.
///
/// # Errors
/// 400 when it is malformed or names a field that the resource has not.
pub(crate) fn fields(resource: &Resource, text: &str) -> Result<FieldFilter, ApiError> {
    let selector: FieldSelector = text.parse().map_err(|e| ApiError::bad_request(format!("{e}")))?;
    let own = supported(resource);
    for (field, _, _) in selector.requirements() {
        if !matches!(field, "metadata.name" | "metadata.namespace") && !own.contains(&field) {
            return Err(ApiError::bad_request(format!("field label not supported: {field}")));
        }
    }
    Ok(FieldFilter(selector))
}

impl FieldFilter {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.0.requirements().all(|(field, equal, value)| (read(object, field) == value) == equal)
    }
}

fn supported(resource: &Resource) -> &'static [&'static str] {
    match (resource.group.as_str(), resource.name.as_str()) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("" | "events.k8s.io", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingComponent",
            "reportingController",
            "source",
            "type",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "secrets") => &["type"],
        ("", "namespaces") => &["status.phase", "name"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") | ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("certificates.k8s.io", "certificatesigningrequests") => &["spec.signerName"],
        _ => &[],
    }
}

/// The value of a field of an object as it is stored.
fn read<'a>(object: &'a Object, field: &str) -> Cow<'a, str> {
    let at = |pointer: &str| object.get_string(pointer).unwrap_or_default();
    let raw = |pointer: &str, absent: &'static str| Cow::Borrowed(object.get(pointer).unwrap_or(absent));
    match field {
        "metadata.name" | "name" => Cow::Borrowed(object.name()),
        "metadata.namespace" => Cow::Borrowed(object.namespace().unwrap_or_default()),
        "spec.unschedulable" => raw("/spec/unschedulable", "false"),
        "spec.hostNetwork" => raw("/spec/hostNetwork", "false"),
        "status.replicas" => raw("/status/replicas", "0"),
        "status.successful" => raw("/status/succeeded", "0"),
        "status.podIPs" => at("/status/podIP"),
        "reportingController" => at("/reportingComponent"),
        "source" => match at("/source/component") {
            none if none.is_empty() => at("/reportingComponent"),
            component => component,
        },
        _ => {
            // Events are stored in the form of the core group.
            let pointer =
                format!("/{}", field.replacen("regarding.", "involvedObject.", 1).replace('.', "/"));
            at(&pointer)
        }
    }
}
