//! The built-in table against the kinds that Kubernetes has.

use jiff::Timestamp;
use serde_json::json;

use super::{Resources, builtin};
use crate::printing::{cells, custom_cells};

/// `Status` is an answer and no resource.
const NO_RESOURCE: &str = "core v1 Status status";

#[test]
fn every_kind_of_kubernetes_is_there() {
    let resources = Resources::new(builtin::groups());
    let mut missing = Vec::new();
    let mut kinds = 0;
    for line in include_str!("../../tests/kinds-v1_36.txt").lines().filter(|line| !line.starts_with('#')) {
        let [group, version, kind, name] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let group = if group == "core" { "" } else { group };
        let resource = resources.get(group, version, name).is_some_and(|r| r.kind == kind);
        let mut parts = resources.all().flat_map(|r| &r.subresources);
        let mut part =
            || parts.any(|p| (&*p.name, &*p.group, &*p.version, &*p.kind) == (name, group, version, kind));
        kinds += 1;
        if line != NO_RESOURCE && !resource && !part() {
            missing.push(line);
        }
    }
    assert!(kinds > 70);
    assert_eq!(missing, [""; 0]);
}

#[test]
fn every_resource_has_as_many_cells_as_columns() {
    for resource in Resources::new(builtin::groups()).all().filter(|r| r.allows("get") || r.allows("list")) {
        let object = json!({});
        let cells = cells(&resource.group, &resource.name, &object, Timestamp::UNIX_EPOCH)
            .unwrap_or_else(|| custom_cells(&[], &object, Timestamp::UNIX_EPOCH));
        assert_eq!(cells.len(), resource.columns.len(), "{} {}", resource.api_version(), resource.name);
    }
}

#[test]
fn a_resource_is_found_by_path_and_by_kind_and_both_are_one() {
    let resources = Resources::new(builtin::groups());
    for resource in resources.all() {
        let by_path = resources.get(&resource.group, &resource.version, &resource.name).unwrap();
        assert_eq!((&by_path.kind, &by_path.storage), (&resource.kind, &resource.storage));
        let by_kind = resources.of_kind(&resource.api_version(), &resource.kind).unwrap();
        assert_eq!(by_kind.kind, resource.kind);
        if by_kind.name != resource.name {
            panic!("{} is the kind of {} and of {}", resource.kind, resource.name, by_kind.name);
        }
    }
}
