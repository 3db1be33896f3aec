//! Discovery documents as servers send them and as kubectl's cache holds them: both forms, the old one of a document
//! per group version and the aggregated one. The aggregated form is turned into the old one, which is also what goes to
//! disk; [`ResourceList::fold`] makes of it what callers see.
//!
//! Invariant: a list that Go has as nil (`null`) reads as an empty one.

#[cfg(feature = "discovery-disk")]
mod files;

use std::collections::HashMap;

use pilothouse_object::Gvk;
use serde::{Deserialize, Deserializer, Serialize};

use super::types::{ApiGroup, GroupVersion};
use crate::params::ApiResource;

#[cfg(feature = "discovery-disk")]
pub(crate) use files::GroupList;

fn or_empty<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// What `/api` and `/apis` answer, whichever form it is.
#[derive(Deserialize)]
pub(crate) struct RootDocument {
    pub(crate) kind: String,
    /// `APIGroupDiscoveryList`.
    #[serde(default, deserialize_with = "or_empty")]
    pub(crate) items: Vec<GroupDiscovery>,
    /// `APIGroupList`.
    #[serde(default, deserialize_with = "or_empty")]
    pub(crate) groups: Vec<Group>,
    /// `APIVersions`.
    #[serde(default, deserialize_with = "or_empty")]
    pub(crate) versions: Vec<String>,
}

/// `APIGroup`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Group {
    #[serde(default)]
    name: String,
    #[serde(default, deserialize_with = "or_empty")]
    versions: Vec<Version>,
    #[serde(default)]
    preferred_version: Version,
}

/// `GroupVersionForDiscovery`.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Version {
    group_version: String,
    version: String,
}

impl Group {
    pub(crate) fn into_api(self) -> ApiGroup {
        let mut versions: Vec<String> = self.versions.into_iter().map(|v| v.version).collect();
        // The server lists them by preference already, but only this field promises it.
        versions.sort_by_key(|version| *version != self.preferred_version.version);
        ApiGroup { name: self.name, versions }
    }
}

/// `APIResourceList`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResourceList {
    kind: String,
    api_version: String,
    group_version: String,
    #[serde(deserialize_with = "or_empty")]
    resources: Vec<Resource>,
}

impl Default for ResourceList {
    fn default() -> Self {
        Self {
            kind: Self::KIND.to_owned(),
            api_version: "v1".to_owned(),
            group_version: String::new(),
            resources: Vec::new(),
        }
    }
}

/// `APIResource`: a resource, or a subresource of one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    /// `deployments`, `deployments/status`.
    name: String,
    #[serde(default)]
    singular_name: String,
    namespaced: bool,
    /// Where its objects are not of the document's group version, as those of `deployments/scale`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    version: String,
    kind: String,
    #[serde(default, deserialize_with = "or_empty")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    storage_version_hash: String,
}

impl ResourceList {
    const KIND: &'static str = "APIResourceList";

    /// Whether it says that it is the list of this group version's resources: a file or a proxy may hold anything.
    pub(crate) fn is_of(&self, group_version: &GroupVersion) -> bool {
        self.kind == Self::KIND && self.group_version == group_version.to_string()
    }

    /// The same list as of this group version, which not all servers repeat.
    pub(crate) fn named(mut self, group_version: &GroupVersion) -> Self {
        self.group_version = group_version.to_string();
        self
    }

    /// Resources with their subresources folded in.
    pub(crate) fn fold(self, place: &GroupVersion) -> Vec<ApiResource> {
        let (below, resources): (Vec<_>, Vec<_>) =
            self.resources.into_iter().partition(|resource| resource.name.contains('/'));
        let mut subresources: HashMap<String, Vec<String>> = HashMap::new();
        for entry in below {
            if let Some((plural, subresource)) = entry.name.split_once('/') {
                subresources.entry(plural.to_owned()).or_default().push(subresource.to_owned());
            }
        }
        let resource = |entry: Resource| ApiResource {
            gvk: Gvk::new(&place.group, &place.version, &entry.kind),
            namespaced: entry.namespaced,
            verbs: entry.verbs,
            subresources: subresources.remove(&entry.name).unwrap_or_default(),
            plural: entry.name,
            // Servers of before 1.27 do not say; the API's guess is the kind in small letters.
            singular: match entry.singular_name {
                none if none.is_empty() => entry.kind.to_lowercase(),
                singular => singular,
            },
            short_names: entry.short_names,
            categories: entry.categories,
            storage_version_hash: entry.storage_version_hash,
        };
        resources.into_iter().map(resource).collect()
    }
}

/// `APIGroupDiscovery`, the same in `v2` and `v2beta1`.
#[derive(Deserialize)]
pub(crate) struct GroupDiscovery {
    #[serde(default, deserialize_with = "or_empty")]
    metadata: Metadata,
    #[serde(default, deserialize_with = "or_empty")]
    versions: Vec<VersionDiscovery>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct VersionDiscovery {
    version: String,
    #[serde(default, deserialize_with = "or_empty")]
    resources: Vec<ResourceDiscovery>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery {
    resource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default, deserialize_with = "or_empty")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "or_empty")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "or_empty")]
    categories: Vec<String>,
    #[serde(default, deserialize_with = "or_empty")]
    subresources: Vec<SubresourceDiscovery>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubresourceDiscovery {
    subresource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default, deserialize_with = "or_empty")]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
}

/// One group of an aggregated document: its current versions by preference, and of each version its list, or nothing
/// where the server itself could not get a current one.
pub(crate) struct SplitGroup {
    pub(crate) group: ApiGroup,
    pub(crate) lists: Vec<(GroupVersion, Option<ResourceList>)>,
}

impl GroupDiscovery {
    pub(crate) fn split(self) -> SplitGroup {
        let mut group = ApiGroup { name: self.metadata.name, versions: Vec::new() };
        let mut lists = Vec::new();
        for version in self.versions {
            let place = GroupVersion::new(&group.name, &version.version);
            if version.freshness == "Stale" {
                lists.push((place, None));
                continue;
            }
            group.versions.push(version.version);
            let resources = version.resources.into_iter().flat_map(ResourceDiscovery::entries).collect();
            let list = ResourceList { resources, ..ResourceList::default() }.named(&place);
            lists.push((place, Some(list)));
        }
        SplitGroup { group, lists }
    }
}

impl ResourceDiscovery {
    /// The resource and its subresources. One without a kind exists for its subresources only.
    fn entries(self) -> Vec<Resource> {
        let namespaced = self.scope == "Namespaced";
        let below = self.subresources.into_iter().filter_map(|part| {
            let kind = part.response_kind.filter(|kind| !kind.kind.is_empty())?;
            Some(Resource {
                name: format!("{}/{}", self.resource, part.subresource),
                singular_name: self.singular_resource.clone(),
                namespaced,
                group: kind.group,
                version: kind.version,
                kind: kind.kind,
                verbs: part.verbs,
                ..Resource::default()
            })
        });
        let below: Vec<Resource> = below.collect();
        let kind = self.response_kind.filter(|kind| !kind.kind.is_empty());
        let own = kind.map(|kind| Resource {
            name: self.resource,
            singular_name: self.singular_resource,
            namespaced,
            group: kind.group,
            version: kind.version,
            kind: kind.kind,
            verbs: self.verbs,
            short_names: self.short_names,
            categories: self.categories,
            storage_version_hash: String::new(),
        });
        own.into_iter().chain(below).collect()
    }
}
