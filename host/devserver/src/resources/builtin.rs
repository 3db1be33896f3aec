//! The resources of Kubernetes itself, from `tables/resources.json`, which `controlplane tables` takes from a real API server.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::custom::table_column;
use super::{Group, Origin, Resource, Subresource, TableColumn, Version, api_version};
use crate::kinds::Strategy;
use crate::printing::cells;

#[derive(Deserialize)]
struct File {
    groups: Vec<GroupEntry>,
}

#[derive(Deserialize)]
struct GroupEntry {
    #[serde(default)]
    name: String,
    versions: Vec<VersionEntry>,
}

#[derive(Deserialize)]
struct VersionEntry {
    version: String,
    resources: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    kind: String,
    #[serde(default)]
    singular: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    subresources: Vec<SubEntry>,
    #[serde(default)]
    columns: Vec<ColumnEntry>,
}

#[derive(Deserialize)]
struct SubEntry {
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ColumnEntry {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    format: String,
    #[serde(default)]
    priority: i64,
}

static GROUPS: LazyLock<Vec<Group>> = LazyLock::new(|| {
    // The table is part of the program and every test reads it.
    let file: File = serde_json::from_str(include_str!("../tables/resources.json"))
        .expect("tables/resources.json is well formed");
    file.groups.into_iter().map(group).collect()
});

/// The built-in groups.
pub(super) fn groups() -> Vec<Group> {
    GROUPS.clone()
}

/// Whether the group is one of Kubernetes' own.
pub(super) fn is_group(name: &str) -> bool {
    GROUPS.iter().any(|g| g.name == name)
}

/// Whether the resource is one of Kubernetes' own.
pub(super) fn is_resource(group: &str, name: &str) -> bool {
    let of_group = GROUPS.iter().filter(|g| g.name == group);
    of_group.flat_map(|g| &g.versions).flat_map(|v| &v.resources).any(|r| r.name == name)
}

/// The versions of a group in which a resource is served.
fn served(group: &GroupEntry, name: &str) -> Arc<[String]> {
    let has = |version: &&VersionEntry| version.resources.iter().any(|r| r.name == name);
    group.versions.iter().filter(has).map(|v| api_version(&group.name, &v.version)).collect()
}

fn group(entry: GroupEntry) -> Group {
    let served: HashMap<String, Arc<[String]>> = (entry.versions.iter())
        .flat_map(|version| &version.resources)
        .map(|resource| (resource.name.clone(), served(&entry, &resource.name)))
        .collect();
    let versions = entry
        .versions
        .into_iter()
        .map(|version| Version {
            resources: version
                .resources
                .into_iter()
                .map(|r| {
                    let served = served.get(&r.name).cloned().unwrap_or_default();
                    Arc::new(resource(&entry.name, &version.version, r, served))
                })
                .collect(),
            name: version.version,
        })
        .collect();
    Group { name: entry.name, versions }
}

fn resource(group: &str, version: &str, entry: Entry, served: Arc<[String]>) -> Resource {
    // Events of both groups are the same objects.
    let storage = match (group, entry.name.as_str()) {
        ("events.k8s.io", "events") => "/events".to_owned(),
        (_, name) => format!("{group}/{name}"),
    };
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        list_kind: format!("{}List", entry.kind),
        kind: entry.kind,
        singular: entry.singular,
        namespaced: entry.namespaced,
        short_names: entry.short_names,
        categories: entry.categories,
        verbs: entry.verbs,
        subresources: entry.subresources.into_iter().map(subresource).collect(),
        columns: match cells(group, &entry.name, &Value::Null, Timestamp::UNIX_EPOCH) {
            Some(_) => entry.columns.into_iter().map(column).collect(),
            None => vec![table_column("Name", "string", "name", 0), table_column("Age", "string", "", 0)],
        },
        storage: storage.into(),
        strategy: Strategy::builtin(group, &entry.name),
        served,
        name: entry.name,
        origin: Origin::Builtin,
    }
}

fn subresource(entry: SubEntry) -> Subresource {
    Subresource {
        name: entry.name,
        kind: entry.kind,
        group: entry.group,
        version: entry.version,
        verbs: entry.verbs,
    }
}

fn column(entry: ColumnEntry) -> TableColumn {
    TableColumn { name: entry.name, kind: entry.kind, format: entry.format, priority: entry.priority }
}
