//! What discovery tells its callers: groups, the resources of all of them, and which could not be asked.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::error::Error;
use crate::params::ApiResource;

/// Group and version: `apps/v1`, and `v1` of the core group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// API group; empty for the core group.
    pub group: String,
    /// API version, as `v1`.
    pub version: String,
}

impl GroupVersion {
    /// A group version of its parts.
    #[must_use]
    pub fn new(group: &str, version: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned() }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.group.as_str(), self.version.as_str()) {
            ("", version) => f.write_str(version),
            (group, "") => f.write_str(group),
            (group, version) => write!(f, "{group}/{version}"),
        }
    }
}

/// An API group that the server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiGroup {
    /// Name; empty for the core group.
    pub name: String,
    /// Versions that the server can serve now, the preferred one first. Empty when the server behind the group does not
    /// answer.
    pub versions: Vec<String>,
}

impl ApiGroup {
    /// The version that the server prefers.
    #[must_use]
    pub fn preferred_version(&self) -> Option<&str> {
        self.versions.first().map(String::as_str)
    }
}

/// The resources of one group version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupVersionResources {
    /// Where they are.
    pub group_version: GroupVersion,
    /// The resources, in the server's order, subresources within them.
    pub resources: Arc<[ApiResource]>,
}

/// A group version whose resources are not known.
#[derive(Debug, Clone)]
pub struct FailedGroup {
    /// Which; without a version when not even its versions are known.
    pub group_version: GroupVersion,
    /// Why.
    pub error: Error,
}

impl fmt::Display for FailedGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.group_version, self.error)
    }
}

/// All groups and their resources, as far as they are known: a server that is one of several behind the API server may
/// be down, and then its group versions are in `failed` while all others are here.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ServerResources {
    /// The groups in the server's order of priority, the core group first.
    pub groups: Vec<ApiGroup>,
    /// Resources by group version: groups in that order, preferred versions first.
    pub resources: Vec<GroupVersionResources>,
    /// What is missing.
    pub failed: Vec<FailedGroup>,
}

impl ServerResources {
    /// All resources, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = &ApiResource> {
        self.resources.iter().flat_map(|version| version.resources.iter())
    }

    /// Each resource in one version only: the one that its group prefers, or the next that has the resource.
    pub fn preferred(self) -> Self {
        let mut seen: HashSet<(String, String)> = HashSet::new();
        self.retain(|resource| seen.insert((resource.gvk.group.clone(), resource.plural.clone())))
    }

    /// Only the resources whose objects live in namespaces.
    pub fn namespaced(self) -> Self {
        self.retain(|resource| resource.namespaced)
    }

    fn retain(mut self, mut keep: impl FnMut(&ApiResource) -> bool) -> Self {
        for version in &mut self.resources {
            version.resources = version.resources.iter().filter(|r| keep(r)).cloned().collect();
        }
        self
    }
}
