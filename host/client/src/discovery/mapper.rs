//! [`RestMapper`]: from kinds to resources and from what people type to either.
//!
//! Where the group is known only that group's documents are asked for; otherwise all of them. What is found first wins,
//! in the server's order: the core group, then groups by priority, in each the preferred version first; a plural name before a
//! singular one before a short one.
//!
//! Invariants: a document that has the name is not fetched again until it expires; a miss fetches documents again that are
//! older than [`REFRESH_SPACING`], and once more only after that time; a group that cannot be asked keeps nothing from being
//! found elsewhere, and is named where the name could be in it.

use pilothouse_object::{Gvk, Gvr};

use super::cached::CachedDiscovery;
use super::mapping_error::MappingError;
use super::partial::PartialResource;
use crate::documents::{Access, FailedGroup, GroupVersion, REFRESH_SPACING, may_pass};
use crate::error::Error;
use crate::params::ApiResource;

type Result<T> = std::result::Result<T, MappingError>;

/// Maps kinds and resources to each other; a cheap clone, for any number of tasks at once.
#[derive(Debug, Clone)]
pub struct RestMapper {
    discovery: CachedDiscovery,
}

/// Where to look.
#[derive(Clone, Copy)]
struct SearchScope<'a> {
    group: GroupScope<'a>,
    version: Option<&'a str>,
}

#[derive(Clone, Copy)]
enum GroupScope<'a> {
    Named(&'a str),
    /// Any group if this is empty.
    BeginsWith(&'a str),
}

/// How well a resource fits; smaller is better.
type Fit = Option<u8>;

/// What was looked through.
#[derive(Default)]
struct SearchResult {
    found: Vec<(u8, ApiResource)>,
    failed: Vec<FailedGroup>,
}

impl SearchResult {
    fn take<'a>(
        &mut self,
        resources: impl IntoIterator<Item = &'a ApiResource>,
        fit: impl Fn(&ApiResource) -> Fit,
    ) {
        let fitting = resources.into_iter().filter_map(|resource| Some((fit(resource)?, resource.clone())));
        self.found.extend(fitting);
    }

    /// What fits best, in the order in which it was found.
    fn best(self) -> Vec<ApiResource> {
        let best = self.found.iter().map(|(fit, _)| *fit).min();
        self.found.into_iter().filter(|(fit, _)| Some(*fit) == best).map(|(_, resource)| resource).collect()
    }
}

impl RestMapper {
    /// A mapper of what this discovery knows.
    #[must_use]
    pub fn new(discovery: CachedDiscovery) -> Self {
        Self { discovery }
    }

    /// Where it looks.
    #[must_use]
    pub fn discovery(&self) -> &CachedDiscovery {
        &self.discovery
    }

    /// Forgets what is known: what was deleted is noticed with the next call.
    pub fn reset(&self) {
        self.discovery.invalidate();
    }

    /// The resource of a kind, in the first of these versions that has it; without versions in the one that the group
    /// prefers.
    ///
    /// # Errors
    /// See [`MappingError`].
    pub async fn mapping(&self, group: &str, kind: &str, versions: &[&str]) -> Result<ApiResource> {
        let fit = |resource: &ApiResource| (resource.gvk.kind == kind).then_some(0);
        let mut last = None;
        let versions = versions.iter().map(|version| Some(*version));
        let preferred = (versions.len() == 0).then_some(None);
        for version in versions.chain(preferred) {
            let wanted = wanted("kind", kind, Some(group), version);
            let place = SearchScope { group: GroupScope::Named(group), version };
            match self.find(&wanted, place, true, fit).await.and_then(|found| single(wanted, found)) {
                Err(error) if error.is_no_match() => last = Some(error),
                other => return other,
            }
        }
        Err(last.unwrap_or_else(|| no_match(wanted("kind", kind, Some(group), None), Vec::new())))
    }

    /// The resources of a kind in all versions of its group, the preferred version first.
    ///
    /// # Errors
    /// See [`MappingError`].
    pub async fn mappings(&self, group: &str, kind: &str) -> Result<Vec<ApiResource>> {
        let fit = |resource: &ApiResource| (resource.gvk.kind == kind).then_some(0);
        let place = SearchScope { group: GroupScope::Named(group), version: None };
        self.find(&wanted("kind", kind, Some(group), None), place, false, fit).await
    }

    /// The resource that a plural, singular or short name stands for.
    ///
    /// # Errors
    /// See [`MappingError`].
    pub async fn resource_for(&self, resource: &PartialResource) -> Result<ApiResource> {
        let found = self.find_resources(resource, true).await?;
        single(wanted_resource(resource), found)
    }

    /// All resources that a plural, singular or short name could stand for, the likeliest first.
    ///
    /// # Errors
    /// See [`MappingError`].
    pub async fn resources_for(&self, resource: &PartialResource) -> Result<Vec<ApiResource>> {
        self.find_resources(resource, false).await
    }

    /// The kind of the objects of a resource.
    ///
    /// # Errors
    /// See [`MappingError`].
    pub async fn kind_for(&self, resource: &PartialResource) -> Result<Gvk> {
        Ok(self.resource_for(resource).await?.gvk)
    }

    /// The kinds that a resource could have, the likeliest first.
    ///
    /// # Errors
    /// See [`MappingError`].
    pub async fn kinds_for(&self, resource: &PartialResource) -> Result<Vec<Gvk>> {
        Ok(self.resources_for(resource).await?.into_iter().map(|resource| resource.gvk).collect())
    }

    /// The resource of exactly this group, version and plural name.
    ///
    /// # Errors
    /// See [`MappingError`].
    pub async fn resource(&self, resource: &Gvr) -> Result<ApiResource> {
        self.by_plural(&resource.group, Some(&resource.version), &resource.resource).await
    }

    /// The resource of this plural name in whichever version of the group the server prefers.
    ///
    /// # Errors
    /// See [`MappingError`].
    pub async fn group_resource(&self, group: &str, plural: &str) -> Result<ApiResource> {
        self.by_plural(group, None, plural).await
    }

    async fn by_plural(&self, group: &str, version: Option<&str>, plural: &str) -> Result<ApiResource> {
        let wanted = wanted("resource", plural, Some(group), version);
        let place = SearchScope { group: GroupScope::Named(group), version };
        let found = self.find(&wanted, place, true, |r| (r.plural == plural).then_some(0)).await?;
        single(wanted, found)
    }

    /// The resource that a text names as kubectl reads it: `deployments`, `deploy`, `Deployment`, `deployments.apps`,
    /// `deployments.v1.apps`, `Deployment.v1.apps`.
    ///
    /// # Errors
    /// See [`MappingError`].
    pub async fn resolve(&self, text: &str) -> Result<ApiResource> {
        let mut first = None;
        for reading in PartialResource::readings(text) {
            match self.resource_for(&reading).await {
                Ok(found) => return Ok(found),
                Err(error @ MappingError::Client(_)) => return Err(error),
                // That a group is down says more than that another does not exist.
                Err(error) if first.as_ref().is_none_or(MappingError::is_no_match) => {
                    first.get_or_insert(error);
                }
                Err(_) => {}
            }
        }
        Err(first.unwrap_or_else(|| no_match(format!("{text:?}"), Vec::new())))
    }

    /// The resources of a category, as `all`, each in the version that its group prefers.
    ///
    /// # Errors
    /// See [`MappingError`]; a category that nothing is in is a [`MappingError::NoMatch`].
    pub async fn expand_category(&self, category: &str) -> Result<Vec<ApiResource>> {
        let fit = |resource: &ApiResource| resource.categories.iter().any(|c| c == category).then_some(0);
        let place = SearchScope { group: GroupScope::BeginsWith(""), version: None };
        let mut found = self.find(&format!("category {category:?}"), place, false, fit).await?;
        let mut seen = std::collections::HashSet::new();
        found.retain(|resource| seen.insert((resource.gvk.group.clone(), resource.plural.clone())));
        Ok(found)
    }

    async fn find_resources(&self, resource: &PartialResource, first: bool) -> Result<Vec<ApiResource>> {
        let name = resource.resource.to_lowercase();
        let fit = |candidate: &ApiResource| {
            let short = || candidate.short_names.contains(&name);
            match () {
                () if candidate.plural == name => Some(0),
                () if candidate.singular == name || candidate.gvk.kind.to_lowercase() == name => Some(1),
                () => short().then_some(2),
            }
        };
        let wanted = wanted_resource(resource);
        let version = resource.version.as_deref();
        let Some(group) = resource.group.as_deref() else {
            let place = SearchScope { group: GroupScope::BeginsWith(""), version };
            return self.find(&wanted, place, first, fit).await;
        };
        let place = SearchScope { group: GroupScope::Named(group), version };
        match self.find(&wanted, place, first, fit).await {
            Err(error) if error.is_no_match() && !group.is_empty() => {
                // As kubectl: the beginning of a group is enough.
                let place = SearchScope { group: GroupScope::BeginsWith(group), version };
                self.find(&wanted, place, first, fit).await
            }
            exact => exact,
        }
    }

    /// What fits best, looked for first in what is known and then in what is new; `first` is content with the first
    /// group version that has the best fit there is.
    async fn find(
        &self,
        wanted: &str,
        place: SearchScope<'_>,
        first: bool,
        fit: impl Fn(&ApiResource) -> Fit,
    ) -> Result<Vec<ApiResource>> {
        let named = matches!(place.group, GroupScope::Named(_));
        // Where nothing but this group will do, it is asked again in case it answers by now.
        let known = if named { Access::PLAIN } else { Access::CACHED };
        let mut failed = Vec::new();
        for access in [known, Access::newer_than(REFRESH_SPACING)] {
            let looked = match place.group {
                GroupScope::Named(group) => {
                    self.look_in_group(group, place.version, first, access, &fit).await
                }
                GroupScope::BeginsWith(start) => {
                    self.look_everywhere(start, place.version, access, &fit).await
                }
            };
            let looked = match looked {
                // Nobody has asked for a while, and it may be otherwise by now.
                Err(MappingError::Client(error)) if access.max_age.is_none() && !may_pass(&error) => continue,
                looked => looked?,
            };
            if !looked.found.is_empty() {
                return Ok(looked.best());
            }
            failed = looked.failed;
            // What was just asked once more says the same; other failures are trusted for a while only.
            let final_word = access.max_age.is_some() || failed.iter().all(|f| may_pass(&f.error));
            if named
                && final_word
                && let Some(failed) = failed.pop()
            {
                let (wanted, failed) = (wanted.to_owned(), Box::new(failed));
                return Err(MappingError::Unavailable { wanted, failed });
            }
        }
        Err(no_match(wanted.to_owned(), failed))
    }

    async fn look_in_group(
        &self,
        group: &str,
        version: Option<&str>,
        first: bool,
        access: Access,
        fit: &impl Fn(&ApiResource) -> Fit,
    ) -> Result<SearchResult> {
        let mut looked = SearchResult::default();
        let versions = match version {
            Some(version) => vec![version.to_owned()],
            None => match self.discovery.versions(group, access).await {
                Ok(versions) => versions,
                Err(error) => {
                    looked.failed.extend(failure(GroupVersion::new(group, ""), error)?);
                    return Ok(looked);
                }
            },
        };
        for version in versions {
            let place = GroupVersion { group: group.to_owned(), version };
            match self.discovery.list(&place, access).await {
                Ok(resources) => looked.take(resources.iter(), fit),
                Err(error) => looked.failed.extend(failure(place, error)?),
            }
            if first && looked.found.iter().any(|(fit, _)| *fit == 0) {
                break;
            }
        }
        Ok(looked)
    }

    async fn look_everywhere(
        &self,
        start: &str,
        version: Option<&str>,
        access: Access,
        fit: &impl Fn(&ApiResource) -> Fit,
    ) -> Result<SearchResult> {
        let all = self.discovery.all(access).await?;
        let here = |listed: &GroupVersion| {
            let fits = |version: &str| listed.version == version || listed.version.is_empty();
            listed.group.starts_with(start) && version.is_none_or(fits)
        };
        let mut looked = SearchResult::default();
        for listed in all.resources.iter().filter(|listed| here(&listed.group_version)) {
            looked.take(listed.resources.iter(), fit);
        }
        looked.failed = all.failed.into_iter().filter(|failed| here(&failed.group_version)).collect();
        Ok(looked)
    }
}

/// What a failure to ask for a document says of its group: nothing when there is no such document, and when nothing
/// could be asked at all it is no matter of the group.
fn failure(group_version: GroupVersion, error: Error) -> Result<Option<FailedGroup>> {
    match error {
        error if error.is_not_found() => Ok(None),
        error @ (Error::Api(_) | Error::Protocol { .. }) => Ok(Some(FailedGroup { group_version, error })),
        error => Err(error.into()),
    }
}

/// The one that was found, of those in the first group version.
fn single(wanted: String, found: Vec<ApiResource>) -> Result<ApiResource> {
    let mut candidates = found.into_iter();
    let Some(first) = candidates.next() else { return Err(no_match(wanted, Vec::new())) };
    let same =
        |other: &ApiResource| other.gvk.group == first.gvk.group && other.gvk.version == first.gvk.version;
    let others: Vec<Gvr> = candidates.filter(same).map(|other| other.gvr()).collect();
    if others.is_empty() {
        return Ok(first);
    }
    let candidates = std::iter::once(first.gvr()).chain(others).collect();
    Err(MappingError::Ambiguous { wanted, candidates })
}

fn no_match(wanted: String, failed: Vec<FailedGroup>) -> MappingError {
    MappingError::NoMatch { wanted, failed }
}

fn wanted(what: &str, name: &str, group: Option<&str>, version: Option<&str>) -> String {
    let Some(group) = group else { return format!("{what} {name:?}") };
    let version = match (group, version) {
        ("", None) => "v1",
        (_, version) => version.unwrap_or_default(),
    };
    format!("{what} {name:?} in {}", GroupVersion::new(group, version))
}

fn wanted_resource(resource: &PartialResource) -> String {
    wanted("resource", &resource.resource, resource.group.as_deref(), resource.version.as_deref())
}
