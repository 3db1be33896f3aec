//! What the server says of itself: groups, versions, resources, in the old form and in the aggregated one.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};

use crate::api::{ApiError, Path, clauses};
use crate::resources::{Group, Resource, Resources, Subresource, Version, api_version};

const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The version of the API server whose resources these are.
const MINOR: &str = "36";
const GIT_VERSION: &str = concat!("v1.36.3+pilothouse-dev.", env!("CARGO_PKG_VERSION"));

/// A page of discovery.
pub(crate) struct Page {
    pub(crate) body: Bytes,
    pub(crate) content_type: &'static str,
    pub(crate) etag: String,
}

/// The page at a path.
pub(crate) fn page(resources: &Resources, path: &Path, headers: &HeaderMap) -> Result<Page, ApiError> {
    let aggregated = is_aggregated(headers)?;
    let core = |group: &&Group| group.name.is_empty();
    let (value, content_type) = match path {
        Path::CoreVersions if aggregated => (aggregate(resources.groups.iter().filter(core)), AGGREGATED),
        Path::Groups if aggregated => (aggregate(resources.groups.iter().filter(|g| !core(g))), AGGREGATED),
        Path::CoreVersions => (core_versions(), JSON),
        Path::Groups => {
            let groups: Vec<Value> =
                resources.groups.iter().filter(|g| !core(g)).map(|g| group(g, false)).collect();
            (json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}), JSON)
        }
        Path::Group(name) => {
            let found = resources.groups.iter().find(|g| !name.is_empty() && g.name == *name);
            (found.map(|g| group(g, true)).ok_or_else(ApiError::no_page)?, JSON)
        }
        Path::Resources { group, version } => {
            let groups = resources.groups.iter().filter(|g| g.name == *group);
            let found = groups.flat_map(|g| &g.versions).find(|v| v.name == *version);
            (found.map(|v| resource_list(group, v)).ok_or_else(|| resources.nothing_in(group))?, JSON)
        }
        Path::Other(_) | Path::Target(_) => return Err(ApiError::no_page()),
    };
    let body = value.to_string();
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    Ok(Page { etag: format!("\"{:016X}\"", hasher.finish()), body: body.into(), content_type })
}

/// Whether the aggregated form is wanted before the old one.
fn is_aggregated(headers: &HeaderMap) -> Result<bool, ApiError> {
    let clauses = clauses(headers);
    for clause in &clauses {
        let json = matches!(clause.media, "application/json" | "application/*" | "*/*");
        match clause.parameter("as") {
            None if json => return Ok(false),
            Some("APIGroupDiscoveryList") if json && clause.parameter("v") == Some("v2") => return Ok(true),
            _ => {}
        }
    }
    if clauses.is_empty() { Ok(false) } else { Err(ApiError::not_acceptable(JSON)) }
}

fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

fn group(group: &Group, alone: bool) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|v| json!({"groupVersion": api_version(&group.name, &v.name), "version": v.name}))
        .collect();
    let mut value = json!({"name": group.name, "preferredVersion": versions[0], "versions": versions});
    if alone {
        value["kind"] = "APIGroup".into();
        value["apiVersion"] = "v1".into();
    }
    value
}

fn resource_list(group: &str, version: &Version) -> Value {
    let mut entries = Vec::new();
    for resource in &version.resources {
        entries.push(resource_entry(resource));
        entries.extend(resource.subresources.iter().map(|s| subresource_entry(resource, s)));
    }
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(group, &version.name),
        "resources": entries,
    })
}

fn resource_entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": resource.name, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    entry
}

fn subresource_entry(resource: &Resource, part: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", resource.name, part.name), "singularName": "",
        "namespaced": resource.namespaced, "kind": part.kind, "verbs": part.verbs,
    });
    if (&part.group, &part.version) != (&resource.group, &resource.version) {
        entry["group"] = part.group.as_str().into();
        entry["version"] = part.version.as_str().into();
    }
    entry
}

fn aggregate<'a>(groups: impl Iterator<Item = &'a Group>) -> Value {
    let items: Vec<Value> = groups
        .map(|group| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> =
                        version.resources.iter().map(|r| aggregated_entry(r)).collect();
                    json!({"version": version.name, "resources": resources, "freshness": "Current"})
                })
                .collect();
            json!({"metadata": {"name": group.name, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_entry(resource: &Resource) -> Value {
    let parts: Vec<Value> = resource
        .subresources
        .iter()
        .map(|s| {
            json!({
                "subresource": s.name, "verbs": s.verbs,
                "responseKind": {"group": s.group, "version": s.version, "kind": s.kind},
            })
        })
        .collect();
    let mut entry = json!({
        "resource": resource.name, "singularResource": resource.singular, "verbs": resource.verbs,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    if !parts.is_empty() {
        entry["subresources"] = parts.into();
    }
    entry
}

/// `/version`
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": MINOR, "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// `/`
pub(crate) fn paths(resources: &Resources) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for group in resources.groups.iter().filter(|g| !g.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|v| format!("/apis/{}/{}", group.name, v.name)));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    json!({"paths": paths})
}
