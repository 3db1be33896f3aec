//! APIServices, and StorageVersionMigrations.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::node::field;
use crate::api::{JsonMap, syntax};
use crate::schema::Causes;

/// An APIService.
pub(super) fn api_service(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    let (group, version) = (spec.field("group"), spec.field("version"));
    let name = format!("{}.{}", version.text(), group.text());
    let metadata = field(object, "metadata");
    let own_name = metadata.field("name");
    if own_name.text() != name && syntax::path_segment(own_name.text()).is_empty() {
        own_name.invalid(causes, &format!("must be `spec.version+\".\"+spec.group`: {name:?}"));
    }
    if group.text().is_empty() && version.text() != "v1" {
        group.required(causes, "only v1 may have an empty group and it better be legacy kube");
    }
    group.if_given(causes, syntax::dns_subdomain);
    version.faults(causes, syntax::dns_1035_label(version.text()));
    for (name, max) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let priority = spec.field(name);
        if !(1..=max).contains(&priority.int_or_zero()) {
            priority.invalid_number(causes, &format!("must be positive and less than {max}"));
        }
    }
    let (service, bundle) = (spec.field("service"), spec.field("caBundle"));
    let insecure = spec.field("insecureSkipTLSVerify");
    let size = STANDARD.decode(bundle.text()).map_or(0, |bytes| bytes.len());
    if !service.is_set() {
        if size > 0 {
            let value = format!("{size} bytes");
            bundle.invalid_as(causes, &value.into(), "local APIServices may not have a caBundle");
        }
        if insecure.flag() {
            insecure.invalid(causes, "local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    }
    service.field("namespace").is_given(causes);
    service.field("name").is_given(causes);
    let port = service.field("port");
    for fault in syntax::port_number(port.int_or_zero()) {
        port.invalid_number(causes, &format!("port is not valid: {fault}"));
    }
    if insecure.flag() && size > 0 {
        insecure.invalid(causes, "may not be true if caBundle is present");
    }
}

/// A StorageVersionMigration.
pub(super) fn migration(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    let of = spec.field("resource");
    let (resource, group) = (of.field("resource"), of.field("group"));
    let faults = syntax::dns_1035_label(resource.text());
    if resource.text().is_empty() {
        resource.required(causes, "resource is required to be set");
    } else if !faults.is_empty() {
        resource.invalid(causes, &faults.join(","));
    }
    let faults = syntax::dns_subdomain(group.text());
    if !group.text().is_empty() && !faults.is_empty() {
        group.invalid(causes, &faults.join(","));
    }
}
