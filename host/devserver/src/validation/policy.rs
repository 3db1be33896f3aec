//! PodDisruptionBudgets.

use super::int_or_percent;
use super::node::field;
use super::selector::selector;
use crate::api::JsonMap;
use crate::schema::Causes;

pub(super) fn disruption_budget(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    let (min, max) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    if min.is_set() && max.is_set() {
        spec.invalid(causes, "minAvailable and maxUnavailable cannot be both set");
    }
    for number in [&min, &max].into_iter().filter(|number| number.is_set()) {
        int_or_percent::non_negative(number, causes);
        int_or_percent::at_most_all(number, causes);
    }
    selector(&spec.field("selector"), causes);
    spec.field("unhealthyPodEvictionPolicy").one_of_if_set(causes, &["AlwaysAllow", "IfHealthyBudget"]);
}
