//! Which resources the server knows: the built-in ones and those that definitions add.
//!
//! A [`Resource`] is one resource in one version. Versions of one resource share their objects: [`Resource::storage`]
//! names where they are kept. The [`Registry`] changes only when a definition does.

mod builtin;
mod custom;
mod schemas;
mod sizes;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::printing::CustomColumn;

pub(crate) use custom::{Definition, ScalePaths, definition_status};
pub use schemas::read_builtin;
pub(crate) use schemas::{Review, VersionSchemas, WrittenPart};

/// What a resource's subresource is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) verbs: Vec<String>,
}

/// A column of the tables that `kubectl get` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableColumn {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) priority: i64,
}

/// Whether a resource came with the server.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    Builtin,
    /// Served because of a definition; the version's own printer columns, paths and schemas.
    Custom {
        columns: Vec<CustomColumn>,
        scale: Option<ScalePaths>,
        schemas: VersionSchemas,
    },
}

/// One resource in one version.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    /// The plural, as in paths.
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) singular: String,
    pub(crate) namespaced: bool,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) verbs: Vec<String>,
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) columns: Vec<TableColumn>,
    /// Under which name its objects are kept.
    pub(crate) storage: Arc<str>,
    pub(crate) origin: Origin,
}

impl Resource {
    /// `apps/v1`, or `v1` in the core group.
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// Whether `status` can only be changed through its own path.
    pub(crate) fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.origin, Origin::Custom { .. })
    }

    /// Whether this is the resource of that group, in whatever version.
    pub(crate) fn is(&self, group: &str, name: &str) -> bool {
        self.group == group && self.name == name
    }
}

/// `apps/v1`, or `v1` in the core group.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// A group with its versions in the order of preference.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) versions: Vec<Version>,
}

/// The resources of a group's version.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) resources: Vec<Arc<Resource>>,
}

/// All resources at one time.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    pub(crate) groups: Vec<Group>,
    by_path: HashMap<(String, String), HashMap<String, Arc<Resource>>>,
}

impl Resources {
    fn new(groups: Vec<Group>) -> Self {
        let mut by_path: HashMap<_, HashMap<_, _>> = HashMap::new();
        for group in &groups {
            for version in &group.versions {
                let served = by_path.entry((group.name.clone(), version.name.clone())).or_default();
                served.extend(version.resources.iter().map(|r| (r.name.clone(), r.clone())));
            }
        }
        Self { groups, by_path }
    }

    pub(crate) fn get(&self, group: &str, version: &str, name: &str) -> Option<&Arc<Resource>> {
        self.by_path.get(&(group.to_owned(), version.to_owned()))?.get(name)
    }

    /// The resource of a kind, as a manifest names it.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let served = self.by_path.get(&(group.to_owned(), version.to_owned()))?;
        served.values().find(|r| r.kind == kind)
    }

    /// The schemas by which objects of a custom resource are stored.
    fn schemas_of(&self, storage: &str) -> impl Iterator<Item = &VersionSchemas> {
        self.all().filter(move |r| *r.storage == *storage).filter_map(|r| match &r.origin {
            Origin::Custom { schemas, .. } => Some(schemas),
            Origin::Builtin => None,
        })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.iter().flat_map(|g| &g.versions).flat_map(|v| &v.resources)
    }
}

/// The resources that are served now.
#[derive(Debug)]
pub(crate) struct Registry(RwLock<Arc<Resources>>);

impl Registry {
    pub(crate) fn new() -> Self {
        Self(RwLock::new(Arc::new(Resources::new(builtin::groups()))))
    }

    pub(crate) fn now(&self) -> Arc<Resources> {
        self.0.read().clone()
    }

    /// Serves what these definitions define, in place of what earlier ones did.
    pub(crate) fn define(&self, definitions: &[Definition]) {
        let earlier = self.now();
        let mut groups = builtin::groups();
        for definition in definitions {
            let at = groups.iter().position(|g| g.name == definition.group).unwrap_or_else(|| {
                groups.push(Group { name: definition.group.clone(), versions: Vec::new() });
                groups.len() - 1
            });
            let group = &mut groups[at];
            for resource in definition.resources(&earlier) {
                let resource = Arc::new(resource);
                match group.versions.iter_mut().find(|v| v.name == resource.version) {
                    Some(version) => version.resources.push(resource),
                    None => group
                        .versions
                        .push(Version { name: resource.version.clone(), resources: vec![resource] }),
                }
            }
            if !builtin::is_group(&group.name) {
                group.versions.sort_by(|a, b| custom::by_preference(&a.name, &b.name));
            }
        }
        groups.retain(|g| !g.versions.is_empty());
        *self.0.write() = Arc::new(Resources::new(groups));
    }
}

#[cfg(test)]
mod tests;
