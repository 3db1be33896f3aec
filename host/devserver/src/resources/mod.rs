//! Which resources the server knows: the built-in ones and those that definitions add.
//!
//! A [`Resource`] is one resource in one version. Versions of one resource share their objects: [`Resource::storage`]
//! names where they are kept. The [`Registry`] changes only when a definition does.

mod builtin;
mod custom;
mod definition_checks;
mod deprecations;
mod scale;
mod schemas;
mod sizes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::api::ApiError;
use crate::kinds::Strategy;
use crate::printing::CustomColumn;
use crate::schema::Schema;

pub(crate) use custom::{Definition, definition_status};
pub(crate) use scale::ScalePaths;
#[cfg(feature = "testing")]
pub use schemas::read_builtin;
pub(crate) use schemas::{Review, VersionSchemas, WrittenPart};
pub(crate) use sizes::check_stored;

/// The table of namespaces.
pub(crate) const NAMESPACES: &str = "/namespaces";
/// The table of definitions of custom resources.
pub(crate) const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

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
        /// What every request in this version is told, if it is deprecated.
        deprecation: Option<String>,
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
    pub(crate) strategy: &'static Strategy,
    /// All versions in which its objects are served, as `apiVersion` has them.
    pub(crate) served: Arc<[String]>,
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

    /// What every request in this version is told in a warning, if it is deprecated.
    pub(crate) fn deprecation(&self) -> Option<String> {
        match &self.origin {
            Origin::Custom { deprecation, .. } => deprecation.clone(),
            Origin::Builtin => deprecations::of(&self.group, &self.version, &self.kind),
        }
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.origin, Origin::Custom { .. })
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

/// By what the objects of a custom resource are stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredBy {
    schema: Arc<Schema>,
    /// Some may have been stored by another schema.
    has_changed: bool,
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

    /// The answer to a path below a group where nothing is served: a group that is not there has no pages.
    pub(crate) fn nothing_in(&self, group: &str) -> ApiError {
        match self.groups.iter().any(|known| known.name == group) {
            true => ApiError::no_path(),
            false => ApiError::no_page(),
        }
    }

    /// The resource of a kind, as a manifest names it.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let served = self.by_path.get(&(group.to_owned(), version.to_owned()))?;
        served.values().find(|r| r.kind == kind)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.iter().flat_map(|g| &g.versions).flat_map(|v| &v.resources)
    }
}

/// The resources that are served now.
#[derive(Debug)]
pub(crate) struct Registry {
    now: RwLock<Arc<Resources>>,
    /// What is defined, by the names of the definitions.
    defined: Mutex<BTreeMap<String, Defined>>,
}

/// What a definition defines, at one revision of it.
#[derive(Debug, Default)]
struct Defined {
    revision: u64,
    /// Of the definition's spec.
    fingerprint: u64,
    resources: Vec<Arc<Resource>>,
    /// Also if it serves no version.
    stored_by: Option<StoredBy>,
}

impl Defined {
    /// Where the objects are stored; `None` if no version is served.
    fn table(&self) -> Option<Arc<str>> {
        self.resources.first().map(|resource| resource.storage.clone())
    }
}

impl Registry {
    pub(crate) fn new() -> Self {
        let now = RwLock::new(Arc::new(Resources::new(builtin::groups())));
        Self { now, defined: Mutex::default() }
    }

    pub(crate) fn now(&self) -> Arc<Resources> {
        self.now.read().clone()
    }

    /// Serves what all definitions define, beside the built-in resources. `list` gives them by name and revision; those
    /// whose revision has changed are read. Who lists last has seen all: nobody else does meanwhile. The answer are the
    /// tables of custom resources that were served before and are defined otherwise now, or no more.
    pub(crate) fn define<T>(
        &self,
        list: impl FnOnce() -> Vec<(String, u64, T)>,
        read: impl Fn(&T) -> Option<Definition>,
    ) -> Vec<Arc<str>> {
        let mut defined = self.defined.lock();
        let definitions = list();
        let names: BTreeSet<&str> = definitions.iter().map(|(name, ..)| name.as_str()).collect();
        let mut redefined = Vec::new();
        defined.retain(|name, known| {
            let stays = names.contains(name.as_str());
            if !stays {
                redefined.extend(known.table());
            }
            stays
        });
        for (name, revision, definition) in &definitions {
            let known = defined.entry(name.clone()).or_default();
            // There may be hundreds, of 100 KB each.
            if known.revision != *revision {
                let read = read(definition);
                let fingerprint = read.as_ref().map_or(0, Definition::fingerprint);
                let (resources, stored_by) =
                    read.map(|d| d.resources(&known.resources, known.stored_by.as_ref())).unwrap_or_default();
                if known.fingerprint != fingerprint {
                    redefined.extend(known.table());
                }
                *known = Defined { revision: *revision, fingerprint, resources, stored_by };
            }
        }
        let served = merged(defined.values().flat_map(|defined| &defined.resources));
        *self.now.write() = Arc::new(Resources::new(served));
        redefined
    }
}

/// The built-in groups with custom resources in their places.
fn merged<'a>(custom: impl Iterator<Item = &'a Arc<Resource>>) -> Vec<Group> {
    let mut groups = builtin::groups();
    let mut group_at: HashMap<String, usize> =
        groups.iter().enumerate().map(|(at, group)| (group.name.clone(), at)).collect();
    // Where the versions of the groups stand: definitions have as many as they like.
    let mut version_at: HashMap<(usize, String), usize> = HashMap::new();
    for (at, group) in groups.iter().enumerate() {
        let versions = group.versions.iter().enumerate();
        version_at.extend(versions.map(|(index, version)| ((at, version.name.clone()), index)));
    }
    for resource in custom {
        let at = *group_at.entry(resource.group.clone()).or_insert_with(|| {
            groups.push(Group { name: resource.group.clone(), versions: Vec::new() });
            groups.len() - 1
        });
        let versions = &mut groups[at].versions;
        let index = *version_at.entry((at, resource.version.clone())).or_insert_with(|| {
            versions.push(Version { name: resource.version.clone(), resources: Vec::new() });
            versions.len() - 1
        });
        versions[index].resources.push(resource.clone());
    }
    for group in groups.iter_mut().filter(|group| !builtin::is_group(&group.name)) {
        group.versions.sort_by(|a, b| custom::by_preference(&a.name, &b.name));
    }
    groups.retain(|g| !g.versions.is_empty());
    groups
}

#[cfg(test)]
mod tests;
