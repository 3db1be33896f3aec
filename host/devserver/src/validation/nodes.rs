//! Nodes.

use super::addresses::{cidr, range};
use super::node::field;
use super::resources::quantity_of;
use super::scheduling::taints;
use crate::api::JsonMap;
use crate::schema::Causes;

pub(super) fn node(object: &JsonMap, causes: &mut Causes) {
    let (metadata, spec, status) =
        (field(object, "metadata"), field(object, "spec"), field(object, "status"));
    let list = spec.field("taints");
    taints(&list.placed(&metadata.field("taints")), causes);
    for name in ["capacity", "allocatable"] {
        let list = status.field(name);
        for (resource, quantity) in list.entries() {
            // Causes name it like a field.
            quantity_of(resource, &quantity.placed(&list.field(resource)), causes);
        }
    }
    let ranges = spec.field("podCIDRs");
    ranges.each().for_each(|one| cidr(&one, causes));
    if ranges.len() > 1 {
        if let Some((index, bad)) = ranges.texts().enumerate().find(|(_, text)| range(text).is_none()) {
            let why = format!("invalid CIDR[{index}]: <nil> (invalid CIDR address: {bad})");
            let what = "invalid PodCIDRs. failed to check with dual stack with error:";
            ranges.internal(causes, &format!("{what}{why}"));
        }
        let families: Vec<bool> =
            ranges.texts().filter_map(range).map(|(address, _)| address.is_ipv4()).collect();
        let is_dual = families.contains(&true) && families.contains(&false);
        if !is_dual || ranges.len() > 2 {
            ranges.invalid(causes, "may specify no more than one CIDR for each IP family");
        }
    }
}
