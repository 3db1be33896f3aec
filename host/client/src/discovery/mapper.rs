//! [`RestMapper`]: from kinds to resources and from what people type to either.
//!
//! Where the group is known only that group's documents are asked for; otherwise all of them. What is found first wins,
//! in the server's order: the core group, then groups by priority, in each the preferred version first; a plural name before a
//! singular one before a short one.
//!
//! Invariants: a document that has the name is not fetched again until it expires; a miss fetches documents again that are
//! older than [`REFRESH_SPACING`], and once more only after that time; a group that cannot be asked keeps nothing from being
//! found elsewhere, and is named where the name could be in it.

use pilothouse_object::Gvr;

use super::cached::{CachedDiscovery, GroupScope, SearchScope};
use super::mapping_error::MappingError;
use super::partial::PartialResource;
use crate::documents::{Access, FailedGroup, GroupVersion, REFRESH_SPACING, ServerResources};
use crate::error::Error;
use crate::params::ApiResource;

type Result<T> = std::result::Result<T, MappingError>;

/// Maps kinds and resources to each other; a cheap clone, for any number of tasks at once.
#[derive(Debug, Clone)]
pub struct RestMapper {
    discovery: CachedDiscovery,
}

/// How well a resource fits; smaller is better.
type Fit = Option<u8>;

impl RestMapper {
    /// A mapper of what this discovery knows.
    #[must_use]
    pub fn new(discovery: CachedDiscovery) -> Self {
        Self { discovery }
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
            match self.find(&wanted, place, fit).await.and_then(|found| single(wanted, found)) {
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
        self.find(&wanted("kind", kind, Some(group), None), place, fit).await
    }

    /// The resource that a plural, singular or short name stands for.
    ///
    /// # Errors
    /// See [`MappingError`].
    pub async fn resource_for(&self, resource: &PartialResource) -> Result<ApiResource> {
        single(wanted_resource(resource), self.resources_for(resource).await?)
    }

    /// All resources that a plural, singular or short name could stand for, the likeliest first.
    ///
    /// # Errors
    /// See [`MappingError`].
    pub async fn resources_for(&self, resource: &PartialResource) -> Result<Vec<ApiResource>> {
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
            return self.find(&wanted, place, fit).await;
        };
        let place = SearchScope { group: GroupScope::Named(group), version };
        match self.find(&wanted, place, fit).await {
            Err(error) if error.is_no_match() && !group.is_empty() => {
                // As kubectl: the beginning of a group is enough.
                let place = SearchScope { group: GroupScope::BeginsWith(group), version };
                self.find(&wanted, place, fit).await
            }
            exact => exact,
        }
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
        let wanted = format!("category {category:?}");
        let mut found = self.find(&wanted, SearchScope::EVERYTHING, fit).await?;
        let mut seen = std::collections::HashSet::new();
        found.retain(|resource| seen.insert((resource.gvk.group.clone(), resource.plural.clone())));
        Ok(found)
    }

    /// What fits best, in the order of the server. It is looked for first in what is known and then in what is new.
    async fn find(
        &self,
        wanted: &str,
        scope: SearchScope<'_>,
        fit: impl Fn(&ApiResource) -> Fit,
    ) -> Result<Vec<ApiResource>> {
        let named = matches!(scope.group, GroupScope::Named(_));
        // Where nothing but this group will do, it is asked again in case it answers by now.
        let known = if named { Access::plain() } else { Access::cached() };
        let mut last = no_match(wanted.to_owned(), Vec::new());
        for access in [known, known.newer_than(REFRESH_SPACING)] {
            last = match self.discovery.search(scope, access).await {
                Ok(all) => {
                    let found = best(&all, &fit);
                    if !found.is_empty() {
                        return Ok(found);
                    }
                    not_found(wanted.to_owned(), named, all.failed)
                }
                Err(error) => error.into(),
            };
        }
        Err(last)
    }
}

/// What fits best, in the order in which it was found.
fn best(all: &ServerResources, fit: impl Fn(&ApiResource) -> Fit) -> Vec<ApiResource> {
    let fitting: Vec<_> = all.iter().filter_map(|resource| Some((fit(resource)?, resource))).collect();
    let best = fitting.iter().map(|(fit, _)| *fit).min();
    fitting.into_iter().filter(|(fit, _)| Some(*fit) == best).map(|(_, resource)| resource.clone()).collect()
}

/// Why nothing was found, by the group versions that failed. One that does not exist is no failure.
fn not_found(wanted: String, named: bool, mut failed: Vec<FailedGroup>) -> MappingError {
    failed.retain(|failed| !failed.error.is_not_found());
    match if named { failed.pop() } else { None } {
        // The group answered, or a server in front of it did.
        Some(failed) if matches!(failed.error, Error::Api(_) | Error::Protocol { .. }) => {
            MappingError::Unavailable { wanted, failed: Box::new(failed) }
        }
        Some(failed) => failed.error.into(),
        None => no_match(wanted, failed),
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
