//! Environment variables of containers and where their values come from.

use super::node::Node;
use super::paths::no_backsteps;
use crate::api::syntax;
use crate::quantity::Amount;
use crate::schema::Causes;

const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields of Pods that can be selected anywhere, beside those above.
const OTHER_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"];
const RESOURCE_FIELDS: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const SIZES: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// `env` of a container.
pub(super) fn env(variables: &Node<'_, '_>, causes: &mut Causes) {
    for variable in variables.each() {
        variable.field("name").given_as(causes, syntax::env_name);
        let from = variable.field("valueFrom");
        if from.is_set() {
            value_from(&from, !variable.field("value").text().is_empty(), causes);
        }
    }
}

fn value_from(from: &Node<'_, '_>, has_value: bool, causes: &mut Causes) {
    let mut count = 0;
    let mut source = |name: &'static str| {
        let source = from.field(name);
        count += usize::from(source.is_set());
        source.is_set().then_some(source)
    };
    if let Some(field) = source("fieldRef") {
        selected_field(&field, ENV_FIELDS, causes);
    }
    if let Some(field) = source("resourceFieldRef") {
        resource_field(&field, false, causes);
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(key) = source(name) {
            let name = key.field("name");
            name.faults(causes, syntax::dns_subdomain(name.text()));
            key.field("key").given_as(causes, syntax::config_key);
        }
    }
    if let Some(file) = source("fileKeyRef") {
        file.field("key").given_as(causes, syntax::env_name);
        file.field("volumeName").given_as(causes, syntax::dns_label);
        let path = file.field("path");
        if path.is_given(causes) {
            no_backsteps(&path, &path, causes);
        }
    }
    let why = match count {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    from.invalid_as(causes, &"".into(), why);
}

/// A field of the Pod.
pub(super) fn selected_field(selected: &Node<'_, '_>, fields: &[&str], causes: &mut Causes) {
    let (version, path) = (selected.field("apiVersion"), selected.field("fieldPath"));
    if !version.is_given(causes) || !path.is_given(causes) {
        return;
    }
    let refuse = |causes: &mut Causes, why: String| {
        path.invalid(causes, &format!("error converting fieldPath: {why}"));
    };
    if version.text() != "v1" {
        return refuse(causes, format!("unsupported pod version: {}", version.text()));
    }
    let name = path.text();
    let subscript =
        name.strip_suffix("']").and_then(|name| name.split_once("['")).filter(|(of, _)| !of.is_empty());
    match subscript {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            selected.faults_of(causes, &key, syntax::qualified_name(&key));
        }
        Some(("metadata.labels", key)) => selected.faults_of(causes, key, syntax::qualified_name(key)),
        Some(_) => refuse(causes, format!("field label does not support subscript: {name}")),
        None => {
            let name = if name == "spec.host" { "spec.nodeName" } else { name };
            if !ENV_FIELDS.contains(&name) && !OTHER_FIELDS.contains(&name) {
                refuse(causes, format!("field label not supported: {name}"));
            } else if !fields.contains(&name) {
                path.not_supported_as(causes, &crate::schema::shown(&name.into()), fields);
            }
        }
    }
}

/// A quantity that a container asks for, in units of a divisor.
pub(super) fn resource_field(selected: &Node<'_, '_>, in_volume: bool, causes: &mut Causes) {
    let resource = selected.field("resource");
    let name = resource.text();
    let is_pages = name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-");
    if in_volume && selected.field("containerName").text().is_empty() {
        selected.field("containerName").required(causes, "");
    } else if resource.is_given(causes) && !is_pages {
        resource.one_of(causes, RESOURCE_FIELDS);
    }
    let divisor = selected.field("divisor");
    if Amount::of(divisor.text()) == Amount::ZERO {
        return;
    }
    let (units, what) = match name.split_once('.').map(|(_, what)| what) {
        Some("cpu") if !is_pages => {
            if !["1m", "1"].contains(&divisor.text()) {
                let why = "only divisor's values 1m and 1 are supported with the cpu resource";
                divisor.invalid_as(causes, &name.into(), why);
            }
            return;
        }
        Some("memory") => (SIZES, "memory"),
        Some("ephemeral-storage") => (SIZES, "local ephemeral storage"),
        Some(_) if is_pages => (SIZES, "hugepages"),
        _ => return,
    };
    if (RESOURCE_FIELDS.contains(&name) || is_pages) && !units.contains(&divisor.text()) {
        let why =
            format!("only divisor's values {} are supported with the {what} resource", units.join(", "));
        divisor.invalid_as(causes, &name.into(), &why);
    }
}

/// `envFrom` of a container.
pub(super) fn env_from(sources: &Node<'_, '_>, causes: &mut Causes) {
    for source in sources.each() {
        source.field("prefix").if_given(causes, syntax::env_name);
        let mut count = 0;
        for name in ["configMapRef", "secretRef"] {
            let reference = source.field(name);
            if reference.is_set() {
                count += 1;
                let name = reference.field("name");
                if name.is_given(causes) {
                    name.faults(causes, syntax::dns_subdomain(&syntax::without_dash(name.text())));
                }
            }
        }
        let why = match count {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        sources.invalid_as(causes, &"".into(), why);
    }
}
