//! What a [`DocumentCache`](super::documents::DocumentCache) keeps of each document, and whether it may be used.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::live::Answered;
use super::types::{ApiGroup, GroupVersion};
use super::wire::ResourceList;
use crate::error::{Error, Result};
use crate::params::ApiResource;

/// How long a document is trusted about what it does not hold, and for how long a failure is not asked for again where
/// something can be said without it.
pub(super) const REFRESH_SPACING: Duration = Duration::from_secs(10);

/// What whoever asks is content with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    /// A document that the server confirmed longer ago is asked for again.
    pub(super) max_age: Option<Duration>,
    pub(super) retry: Retry,
    /// Whether what has expired will do.
    pub(super) expired: bool,
}

/// Whether a failure that may pass is asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    Never,
    /// Once, and then after [`REFRESH_SPACING`].
    Spaced,
    Always,
}

impl Access {
    /// Whatever is kept, but no failure that may have passed.
    pub(super) const PLAIN: Self = Self { max_age: None, retry: Retry::Always, expired: false };
    /// Whatever is kept.
    pub(super) const KEPT: Self = Self { retry: Retry::Never, ..Self::PLAIN };
    /// Whatever is kept, but no failure that was not asked for again of late.
    pub(super) const SPACED: Self = Self { retry: Retry::Spaced, ..Self::PLAIN };

    /// Whatever is kept and no older than this.
    pub(super) fn newer_than(max_age: Duration) -> Self {
        Self { max_age: Some(max_age), ..Self::KEPT }
    }
}

/// Where a document came from and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    /// When the server last confirmed it.
    pub(super) checked: Instant,
    pub(super) expires: Option<Instant>,
    /// Number of the fetch, counted by their beginnings: a later one knows more.
    pub(super) began: u64,
    /// How often the cache had been invalidated by then.
    pub(super) generation: u64,
}

/// A document or why there is none.
#[derive(Debug, Clone)]
pub(super) struct Kept<T> {
    pub(super) value: Result<T>,
    pub(super) origin: Origin,
    /// Whether this failure came when another was asked for again.
    repeated: bool,
    /// The last attempt to get a newer one, where it failed and this good one stayed.
    failed: Option<Failed>,
}

/// An attempt to get a newer document.
#[derive(Debug, Clone)]
struct Failed {
    error: Error,
    at: Instant,
    began: u64,
}

impl<T: Clone> Kept<T> {
    pub(super) fn new(value: Result<T>, origin: Origin) -> Self {
        Self { value, origin, repeated: false, failed: None }
    }

    /// Number of the last fetch that this knows of.
    pub(super) fn latest(&self) -> u64 {
        self.failed.as_ref().map_or(self.origin.began, |failed| failed.began)
    }

    /// What this is to who asks so; nothing when it must be asked for again.
    pub(super) fn usable(&self, generation: u64, access: Access) -> Option<Result<T>> {
        let origin = &self.origin;
        if origin.generation != generation {
            return None;
        }
        let expired = origin.expires.is_some_and(|expires| expires <= Instant::now());
        let old = access.max_age.is_some_and(|age| origin.checked.elapsed() >= age);
        if old || (expired && !access.expired) {
            return self.failed_of_late().then(|| self.after_failure(access)).flatten();
        }
        let again = match access.retry {
            Retry::Never => false,
            Retry::Spaced => !self.repeated || origin.checked.elapsed() >= REFRESH_SPACING,
            Retry::Always => true,
        };
        (!(again && self.value.as_ref().is_err_and(may_pass))).then(|| self.value.clone())
    }

    /// What came after the fetch of this number; nothing when nothing did.
    pub(super) fn arrived(&self, generation: u64, before: u64, access: Access) -> Option<Result<T>> {
        if self.origin.generation != generation {
            return None;
        }
        if self.origin.began > before {
            return Some(self.value.clone());
        }
        if self.latest() > before { self.after_failure(access) } else { None }
    }

    /// What there is where no newer one could be had: this one, unless it is too old for who asks.
    fn after_failure(&self, access: Access) -> Option<Result<T>> {
        let failed = self.failed.as_ref()?;
        Some(if access.max_age.is_none() { self.value.clone() } else { Err(failed.error.clone()) })
    }

    /// Whether it was tried a moment ago to get a newer one, to no avail.
    pub(super) fn failed_of_late(&self) -> bool {
        self.failed.as_ref().is_some_and(|failed| failed.at.elapsed() < REFRESH_SPACING)
    }

    /// Whether the last attempt to get a newer one failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Takes what a later fetch has brought. A failure leaves what is good and was not invalidated, if it is one of those
    /// that `leave`.
    pub(super) fn renew(&mut self, new: Self, leave: impl Fn(&Error) -> bool) {
        if self.latest() > new.origin.began {
            return;
        }
        let same = self.origin.generation == new.origin.generation;
        match &new.value {
            Err(error) if same && self.value.is_ok() && leave(error) => {
                let (error, at, began) = (error.clone(), new.origin.checked, new.origin.began);
                self.failed = Some(Failed { error, at, began });
            }
            value => {
                let repeated = same && self.value.is_err() && value.is_err();
                *self = Self { repeated, ..new };
            }
        }
    }
}

/// Whether asking again could help: nothing answered, something else than an API server did, or the server is busy.
/// Local faults are no answer either, and cost no request.
pub(super) fn may_pass(error: &Error) -> bool {
    match error {
        Error::Api(status) => status.code >= 500 || matches!(status.code, 408 | 429),
        _ => true,
    }
}

/// What is kept of a list: the resources, or why there are none.
pub(super) type List = Result<Arc<[ApiResource]>>;

/// One of the two documents that all else is reached from, `/api` or `/apis`, with what an aggregated one holds.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) groups: Vec<ApiGroup>,
    /// Of an aggregated document.
    pub(super) lists: Option<Vec<(GroupVersion, List)>>,
    /// By which it can be asked for again; of an aggregated document only.
    pub(super) etag: Option<String>,
    by_name: HashMap<String, usize>,
    /// Group versions that it names, those without an answer included.
    places: HashSet<GroupVersion>,
}

impl Part {
    pub(super) fn new(
        groups: Vec<ApiGroup>,
        lists: Option<Vec<(GroupVersion, List)>>,
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

    pub(super) fn of(answered: Answered) -> Self {
        let fold = |(place, list): (GroupVersion, Result<ResourceList>)| {
            let list = list.map(|list| list.fold(&place).into());
            (place, list)
        };
        let lists = answered.lists.map(|lists| lists.into_iter().map(fold).collect());
        Self::new(answered.groups, lists, answered.etag)
    }

    /// Group versions that did not answer, of an aggregated document.
    pub(super) fn failed(&self) -> impl Iterator<Item = &GroupVersion> {
        self.lists.iter().flatten().filter(|(_, list)| list.is_err()).map(|(place, _)| place)
    }
}

/// Both documents.
#[derive(Debug, Clone)]
pub(super) struct Root {
    pub(super) core: Arc<Part>,
    pub(super) named: Arc<Part>,
    /// Whether the server gave or confirmed them, rather than a file.
    pub(super) live: bool,
}

impl Root {
    fn part(&self, group: &str) -> &Part {
        if group.is_empty() { &self.core } else { &self.named }
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &ApiGroup> {
        self.core.groups.iter().chain(&self.named.groups)
    }

    /// Whether these documents say that there is no such group version. kubectl's files name groups whose server did not
    /// answer without their versions.
    pub(super) fn denies(&self, place: &GroupVersion) -> bool {
        let part = self.part(&place.group);
        !part.places.contains(place) && (self.live || !part.by_name.contains_key(&place.group))
    }

    /// What aggregated documents say of their group versions.
    pub(super) fn lists(&self) -> impl Iterator<Item = &(GroupVersion, List)> {
        self.core.lists.iter().chain(&self.named.lists).flatten()
    }

    /// Versions by group that did not answer.
    pub(super) fn failed(&self) -> HashMap<&str, Vec<&str>> {
        let mut failed: HashMap<&str, Vec<&str>> = HashMap::new();
        for place in self.core.failed().chain(self.named.failed()) {
            failed.entry(&place.group).or_default().push(&place.version);
        }
        failed
    }

    /// Versions of a group; those that did not answer, as far as they are known, behind the others.
    pub(super) fn versions(&self, group: &str) -> Option<Vec<String>> {
        let part = self.part(group);
        let mut versions = part.groups[*part.by_name.get(group)?].versions.clone();
        let failed = part.failed().filter(|place| place.group == group);
        versions.extend(failed.map(|place| place.version.clone()));
        Some(versions)
    }
}
