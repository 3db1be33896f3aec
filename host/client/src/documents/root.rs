//! [`Root`]: the two documents that all else is reached from, `/api` and `/apis`, with all that aggregated ones hold.

use std::collections::HashMap;
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
    /// Of an aggregated document; empty for others.
    pub(crate) lists: Vec<(GroupVersion, ResourceListResult)>,
    /// By which it can be fetched again; of an aggregated document only.
    pub(crate) etag: Option<String>,
    by_name: HashMap<String, usize>,
}

impl RootPart {
    pub(crate) fn new(
        groups: Vec<ApiGroup>,
        lists: Vec<(GroupVersion, ResourceListResult)>,
        etag: Option<String>,
    ) -> Self {
        let by_name = groups.iter().enumerate().map(|(index, group)| (group.name.clone(), index)).collect();
        Self { groups, lists, etag, by_name }
    }

    fn group(&self, name: &str) -> Option<&ApiGroup> {
        Some(&self.groups[*self.by_name.get(name)?])
    }

    /// Group versions that did not answer, of an aggregated document.
    fn failed(&self) -> impl Iterator<Item = &GroupVersion> {
        self.lists.iter().filter(|(_, list)| list.is_err()).map(|(place, _)| place)
    }
}

impl From<RootResponse> for RootPart {
    fn from(response: RootResponse) -> Self {
        let fold = |(place, list): (GroupVersion, Result<ResourceList>)| {
            let list = list.map(|list| list.fold(&place).into());
            (place, list)
        };
        let lists = response.lists.into_iter().flatten().map(fold).collect();
        Self::new(response.groups, lists, response.etag)
    }
}

/// Both documents.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    pub(crate) core: Arc<RootPart>,
    pub(crate) named: Arc<RootPart>,
    /// Whether the server gave or confirmed them, rather than a file. kubectl's files name groups without those of their
    /// versions that did not answer.
    pub(crate) live: bool,
}

impl Root {
    pub(crate) fn groups(&self) -> impl Iterator<Item = &ApiGroup> {
        self.core.groups.iter().chain(&self.named.groups)
    }

    /// Whether these documents say that there is no such group version.
    pub(crate) fn denies(&self, place: &GroupVersion) -> bool {
        let part = if place.group.is_empty() { &self.core } else { &self.named };
        match part.group(&place.group) {
            None => true,
            Some(group) => {
                self.live && !group.versions.contains(&place.version) && part.failed().all(|p| p != place)
            }
        }
    }

    /// What aggregated documents say of their group versions.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &(GroupVersion, ResourceListResult)> {
        self.core.lists.iter().chain(&self.named.lists)
    }

    /// The group versions of some groups; in each group, those that did not answer are behind the others.
    pub(crate) fn group_versions(&self, wanted: impl Fn(&&ApiGroup) -> bool) -> Vec<GroupVersion> {
        let mut failed: HashMap<&str, Vec<&GroupVersion>> = HashMap::new();
        for place in self.core.failed().chain(self.named.failed()) {
            failed.entry(&place.group).or_default().push(place);
        }
        let mut places = Vec::new();
        for group in self.groups().filter(wanted) {
            places.extend(group.versions.iter().map(|version| GroupVersion::new(&group.name, version)));
            places.extend(failed.remove(group.name.as_str()).into_iter().flatten().cloned());
        }
        places
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
