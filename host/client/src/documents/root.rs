//! [`Root`]: the two documents that all else is reached from, `/api` and `/apis`, with all that aggregated ones hold.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::types::{ApiGroup, GroupVersion};
use super::wire::ResourceList;
use crate::error::{Error, Result, Status};
use crate::params::ApiResource;

/// The resources of a group version, or why there are none.
pub(crate) type ResourceListResult = Result<Arc<[ApiResource]>>;

/// One of the two documents as a server answered it.
pub(crate) struct RootResponse {
    pub(crate) groups: Vec<ApiGroup>,
    /// Of an aggregated document: all lists of resources, and an error for each that the server could not get.
    pub(crate) lists: Option<Vec<(GroupVersion, Result<ResourceList>)>>,
    pub(crate) etag: Option<String>,
}

/// One of the two documents.
#[derive(Debug, Default)]
pub(crate) struct RootPart {
    pub(crate) groups: Vec<ApiGroup>,
    /// Of an aggregated document.
    pub(crate) lists: Option<Vec<(GroupVersion, ResourceListResult)>>,
    /// By which it can be fetched again; of an aggregated document only.
    pub(crate) etag: Option<String>,
    by_name: HashMap<String, usize>,
    /// Group versions that it names, those without an answer included.
    places: HashSet<GroupVersion>,
}

impl RootPart {
    pub(crate) fn new(
        groups: Vec<ApiGroup>,
        lists: Option<Vec<(GroupVersion, ResourceListResult)>>,
        etag: Option<String>,
    ) -> Self {
        let by_name = groups.iter().enumerate().map(|(index, group)| (group.name.clone(), index)).collect();
        let of_group = |group: &ApiGroup| {
            let place = |version: &String| GroupVersion::new(&group.name, version);
            group.versions.iter().map(place).collect::<Vec<_>>()
        };
        let places = groups.iter().flat_map(of_group);
        let places = places.chain(lists.iter().flatten().map(|(place, _)| place.clone())).collect();
        Self { groups, lists, etag, by_name, places }
    }

    /// Group versions that did not answer, of an aggregated document.
    pub(crate) fn failed(&self) -> impl Iterator<Item = &GroupVersion> {
        self.lists.iter().flatten().filter(|(_, list)| list.is_err()).map(|(place, _)| place)
    }
}

impl From<RootResponse> for RootPart {
    fn from(response: RootResponse) -> Self {
        let fold = |(place, list): (GroupVersion, Result<ResourceList>)| {
            let list = list.map(|list| list.fold(&place).into());
            (place, list)
        };
        let lists = response.lists.map(|lists| lists.into_iter().map(fold).collect());
        Self::new(response.groups, lists, response.etag)
    }
}

/// Both documents.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    pub(crate) core: Arc<RootPart>,
    pub(crate) named: Arc<RootPart>,
    /// Whether the server gave or confirmed them, rather than a file.
    pub(crate) live: bool,
}

impl Root {
    fn part(&self, group: &str) -> &RootPart {
        if group.is_empty() { &self.core } else { &self.named }
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &ApiGroup> {
        self.core.groups.iter().chain(&self.named.groups)
    }

    /// Whether these documents say that there is no such group version. kubectl's files name groups whose server did not
    /// answer without their versions.
    pub(crate) fn denies(&self, place: &GroupVersion) -> bool {
        let part = self.part(&place.group);
        !part.places.contains(place) && (self.live || !part.by_name.contains_key(&place.group))
    }

    /// What aggregated documents say of their group versions.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &(GroupVersion, ResourceListResult)> {
        self.core.lists.iter().chain(&self.named.lists).flatten()
    }

    /// Versions by group that did not answer.
    pub(crate) fn failed(&self) -> HashMap<&str, Vec<&str>> {
        let mut failed: HashMap<&str, Vec<&str>> = HashMap::new();
        for place in self.core.failed().chain(self.named.failed()) {
            failed.entry(&place.group).or_default().push(&place.version);
        }
        failed
    }

    /// Versions of a group; those that did not answer, as far as they are known, behind the others.
    pub(crate) fn versions(&self, group: &str) -> Option<Vec<String>> {
        let part = self.part(group);
        let mut versions = part.groups[*part.by_name.get(group)?].versions.clone();
        let failed = part.failed().filter(|place| place.group == group);
        versions.extend(failed.map(|place| place.version.clone()));
        Some(versions)
    }
}

/// What an aggregated document says of a group version whose server does not answer.
pub(crate) fn stale(place: &GroupVersion) -> Error {
    Error::Api(Box::new(Status {
        code: 503,
        reason: "ServiceUnavailable".to_owned(),
        message: format!(
            "the API server has no current list of the resources of {place}; look at the APIService {}.{}",
            place.version, place.group
        ),
        ..Status::default()
    }))
}
