//! Events, which are stored in the form of the core group.

use super::node::field;
use crate::api::{JsonMap, syntax};
use crate::schema::Causes;

/// An event that came in the core group, or in `events.k8s.io`.
pub(super) fn event(object: &JsonMap, is_core: bool, is_new: bool, causes: &mut Causes) {
    let (metadata, about) = (field(object, "metadata"), field(object, "involvedObject"));
    let (own, namespace) = (metadata.field("namespace").text(), about.field("namespace"));
    const OTHER: &str = "does not match event.namespace";
    let has_time = field(object, "eventTime").is_set();
    let controller = field(object, "reportingComponent");
    let controller = if is_core { controller } else { controller.named("reportingController") };
    if has_time {
        if namespace.text().is_empty() && !matches!(own, "default" | "kube-system") {
            namespace.invalid_as(causes, &"".into(), OTHER);
        }
        controller.is_given(causes);
        controller.faults(causes, syntax::qualified_name(controller.text()));
        for (name, limit, is_required) in [
            ("reportingInstance", 128, true),
            ("action", 128, true),
            ("reason", 128, true),
            ("message", 1024, false),
        ] {
            let text = field(object, name);
            if is_required {
                text.is_given(causes);
            }
            if text.text().len() > limit {
                text.invalid_as(causes, &"".into(), &format!("can have at most {limit} characters"));
            }
        }
    } else {
        let fits = match namespace.text() {
            "" => matches!(own, "" | "default"),
            namespace => namespace == own,
        };
        if !fits {
            namespace.invalid(causes, OTHER);
        }
    }
    let at = field(object, "namespace");
    at.faults_of(causes, own, syntax::dns_subdomain(own));
    if is_core || !is_new {
        return;
    }
    series(object, causes);
    if !has_time {
        field(object, "eventTime").required(causes, "");
    }
    let kind = field(object, "type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        kind.invalid_as(causes, &"".into(), &format!("has invalid value: {}", kind.text()));
    }
    let source = field(object, "source");
    for (field, is_set) in [
        (field(object, "firstTimestamp"), field(object, "firstTimestamp").is_set()),
        (field(object, "lastTimestamp"), field(object, "lastTimestamp").is_set()),
        (field(object, "count"), field(object, "count").int_or_zero() != 0),
        (source, !source.is_empty()),
    ] {
        if is_set {
            field.invalid_as(causes, &"".into(), "needs to be unset");
        }
    }
}

/// A series of an event that came in `events.k8s.io`.
pub(super) fn series(object: &JsonMap, causes: &mut Causes) {
    let series = field(object, "series");
    if !series.is_set() {
        return;
    }
    if series.field("count").int_or_zero() < 2 {
        series.field("count").invalid_as(causes, &"".into(), "should be at least 2");
    }
    if !series.field("lastObservedTime").is_set() {
        series.field("lastObservedTime").required(causes, "");
    }
}
