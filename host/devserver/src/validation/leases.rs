//! Leases.

use super::node::field;
use crate::api::JsonMap;
use crate::schema::Causes;

pub(super) fn lease(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    let duration = spec.field("leaseDurationSeconds");
    if duration.int().is_some_and(|seconds| seconds <= 0) {
        duration.invalid(causes, "must be greater than 0");
    }
    spec.field("leaseTransitions").non_negative(causes);
}
