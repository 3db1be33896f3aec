//! Forms of the discovery documents that only kubectl's cache files have. Called by `disk`.

use serde::{Deserialize, Serialize};

use super::super::types::{ApiGroup, GroupVersion};
use super::{Group, ResourceList, Version, or_empty};

/// `APIGroupList`, as kubectl's cache holds it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupList {
    kind: String,
    api_version: String,
    #[serde(default, deserialize_with = "or_empty")]
    groups: Vec<Group>,
}

impl GroupList {
    const KIND: &'static str = "APIGroupList";

    pub(crate) fn of(groups: &[ApiGroup]) -> Self {
        let groups = groups.iter().map(Group::of).collect();
        Self { kind: Self::KIND.to_owned(), api_version: "v1".to_owned(), groups }
    }

    /// The groups; nothing when this is another kind of object.
    pub(crate) fn groups(self) -> Option<Vec<ApiGroup>> {
        (self.kind == Self::KIND).then(|| self.groups.into_iter().map(Group::into_api).collect())
    }
}

impl Group {
    fn of(group: &ApiGroup) -> Self {
        let version = |version: &String| Version {
            group_version: GroupVersion::new(&group.name, version).to_string(),
            version: version.clone(),
        };
        let versions: Vec<Version> = group.versions.iter().map(version).collect();
        let preferred_version = versions.first().cloned().unwrap_or_default();
        Self { name: group.name.clone(), versions, preferred_version }
    }
}

impl ResourceList {
    pub(crate) fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }
}
