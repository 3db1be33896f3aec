//! [`DocumentCache`]: the documents of discovery, each kept until it expires, is invalidated, or is known better.
//!
//! Invariants: a document is replaced only by one whose fetch began later; nothing that began before an invalidation is
//! used after it, except that the server may say by `ETag` that it is still so; of a document there is one fetch at a time, and
//! who waited for it takes what came, failure or not; a group version's flight may wait for the root's, never the other
//! way round.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::disk::{DiskStore, Saved};
use super::flights::Flights;
use super::kept::{Access, Kept, List, Origin, Part, REFRESH_SPACING, Retry, Root, may_pass};
use super::live::{self, DiscoveryClient};
use super::state::{Look, State, keep, unknown};
use super::types::{ApiGroup, FailedGroup, GroupVersion, GroupVersionResources, ServerResources};
use super::wire::ResourceList;
use crate::error::{Error, Result};
use crate::params::ApiResource;

/// Requests under way at once where there is a document per group version. client-go sends all of them at once, which a
/// server with hundreds of CustomResourceDefinitions answers with 429.
pub(super) const AT_ONCE: usize = 16;
/// How long documents of the shared cache count: as long as kubectl's files do.
const SHARED_TTL: Duration = Duration::from_secs(10 * 60);

/// The documents fetched so far. It knows no client, so that the clients that share it can own it.
#[derive(Default)]
pub(crate) struct DocumentCache {
    state: Mutex<State>,
    root_flight: tokio::sync::Mutex<()>,
    flights: Flights,
    ttl: Option<Duration>,
    disk: Option<Arc<DiskStore>>,
}

impl DocumentCache {
    /// The cache that the clients of all identities share: its documents expire, since a kind that was made anew with
    /// another scope or plural name causes no miss that would show it.
    pub(crate) fn shared() -> Self {
        Self { ttl: Some(SHARED_TTL), ..Self::default() }
    }

    pub(super) fn with_disk(disk: DiskStore, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), disk: Some(Arc::new(disk)), ..Self::default() }
    }

    pub(super) fn invalidate(&self) {
        let state = &mut *self.state.lock();
        state.generation += 1;
        state.invalidated = Some(SystemTime::now());
        state.used_files = false;
    }

    pub(super) fn fresh(&self) -> bool {
        !self.state.lock().used_files
    }

    /// The groups.
    pub(super) async fn root(&self, live: &DiscoveryClient, access: Access) -> Result<Root> {
        self.root_and_number(live, access).await.map(|(root, _)| root)
    }

    /// The groups, and the number of their fetch.
    async fn root_and_number(&self, live: &DiscoveryClient, access: Access) -> Result<(Root, u64)> {
        let number = |state: &State| state.root.as_ref().map_or(0, |kept| kept.origin.began);
        let before = {
            let state = &mut *self.state.lock();
            match state.look(state.root.clone(), access) {
                Look::Use(root) => return root.map(|root| (root, number(state))),
                Look::Ask(before) => before,
            }
        };
        let _flight = self.root_flight.lock().await;
        {
            let state = &mut *self.state.lock();
            if let Some(root) = state.arrived(state.root.as_ref(), before, access) {
                return root.map(|root| (root, number(state)));
            }
        }
        if let Some(root) = self.root_of_disk(access).await {
            return Ok(root);
        }
        let error = match self.fetch_root(live).await {
            Err(error) => error,
            fetched => return fetched,
        };
        let state = &mut *self.state.lock();
        let old = state.instead(state.root.as_ref(), error, access)?;
        Ok((old, number(state)))
    }

    /// The groups as the server has them now, unless another asked while this one waited.
    async fn refresh_root(&self, live: &DiscoveryClient) -> Result<()> {
        let before = self.state.lock().root.as_ref().map_or(0, Kept::latest);
        let _flight = self.root_flight.lock().await;
        let arrived = {
            let state = &mut *self.state.lock();
            // A file is what must be refreshed.
            let asked =
                |kept: &&Kept<Root>| kept.has_failed() || kept.value.as_ref().map_or(true, |r| r.live);
            let root = state.root.as_ref().filter(asked);
            state.arrived(root, before, Access::newer_than(REFRESH_SPACING))
        };
        match arrived {
            Some(root) => root.map(drop),
            None => self.fetch_root(live).await.map(drop),
        }
    }

    /// Fetches the groups, in the root's flight.
    async fn fetch_root(&self, live: &DiscoveryClient) -> Result<(Root, u64)> {
        let origin = self.begin();
        let mut old = self.state.lock().confirmable.clone();
        if let (None, Some(disk)) = (&old, &self.disk) {
            old = on_disk(disk, DiskStore::load).await;
        }
        let etag = |part: fn(&Root) -> &Arc<Part>| part(old.as_ref()?).etag.as_deref();
        let (core_etag, named_etag) = (etag(|root| &root.core), etag(|root| &root.named));
        let asked = futures_util::try_join!(
            live.part(live::Part::Core, core_etag),
            live.part(live::Part::Named, named_etag)
        );
        let origin = self.now(origin);
        let (core, named) = match asked {
            Ok(answers) => answers,
            Err(error) => {
                self.state.lock().keep_root_failure(error.clone(), origin);
                return Err(error);
            }
        };
        let (core, named) = match &self.disk {
            Some(disk) => {
                let old = old.clone();
                let saved = on_disk(disk, move |disk| Some(disk.save(old.as_ref(), core, named))).await;
                let Some(Saved { core, named }) = saved else { return Err(stopped()) };
                (core, named)
            }
            None => (core, named),
        };
        let part = |new: Option<live::Answered>, of: fn(&Root) -> &Arc<Part>| match (new, &old) {
            (Some(answered), _) => Arc::new(Part::of(answered)),
            (None, Some(old)) => Arc::clone(of(old)),
            // Without a tag there is always an answer.
            (None, None) => Arc::default(),
        };
        let (core, named) = (part(core, |root| &root.core), part(named, |root| &root.named));
        let root = Root { core, named, live: true };
        self.state.lock().keep_root(root.clone(), origin);
        Ok((root, origin.began))
    }

    /// The groups of a file, if it may be used.
    async fn root_of_disk(&self, access: Access) -> Option<(Root, u64)> {
        let origin = self.begin();
        let stored = on_disk(self.disk.as_ref()?, DiskStore::read_groups).await?;
        let origin = self.of_file(origin, stored.modified, access)?;
        let (core, named) = stored.value.into_iter().partition(|group| group.name.is_empty());
        let part = |groups| Arc::new(Part::new(groups, None, None));
        let root = Root { core: part(core), named: part(named), live: false };
        let state = &mut *self.state.lock();
        state.keep_root(root.clone(), origin);
        state.used_files = true;
        Some((root, origin.began))
    }

    /// The resources of a group version.
    pub(super) async fn list(&self, live: &DiscoveryClient, place: &GroupVersion, access: Access) -> List {
        let before = match self.state.lock().look_list(place, access) {
            Look::Use(list) => return list,
            Look::Ask(before) => before,
        };
        self.flights
            .alone(place, async {
                {
                    let state = &mut *self.state.lock();
                    if let Some(list) = state.arrived(state.lists.get(place), before, access) {
                        return list;
                    }
                    if let Look::Use(list) = state.look_list(place, access) {
                        return list;
                    }
                }
                if self.disk.is_some() {
                    if let Some(list) = self.list_of_disk(place, access).await {
                        return Ok(list);
                    }
                    if !self.kept_root(access).is_some_and(|root| root.live) {
                        match self.refresh_root(live).await {
                            Err(error) if may_pass(&error) => {
                                let origin = self.now(self.begin());
                                let state = &mut *self.state.lock();
                                state.keep_list(place, Err(error.clone()), origin);
                                return state.instead(state.lists.get(place), error, access);
                            }
                            // Its groups are hidden, which need not hold of one of them.
                            Err(_) => {}
                            Ok(()) => {
                                if let Look::Use(list) = self.state.lock().look_list(place, access) {
                                    return list;
                                }
                            }
                        }
                    }
                }
                match self.fetch_list(live, place).await {
                    Err(error) => {
                        let state = &mut *self.state.lock();
                        state.instead(state.lists.get(place), error, access)
                    }
                    list => list,
                }
            })
            .await
    }

    async fn fetch_list(&self, live: &DiscoveryClient, place: &GroupVersion) -> List {
        let origin = self.begin();
        let list = live.list(place).await;
        let list: List = match (list, &self.disk) {
            (Ok(list), Some(disk)) => {
                let place = place.clone();
                on_disk(disk, move |disk| {
                    disk.write_list(&place, &list);
                    Some(list.fold(&place).into())
                })
                .await
                .ok_or_else(stopped)
            }
            (list, _) => list.map(|list: ResourceList| list.fold(place).into()),
        };
        let origin = self.now(origin);
        self.state.lock().keep_list(place, list.clone(), origin);
        list
    }

    async fn list_of_disk(&self, place: &GroupVersion, access: Access) -> Option<Arc<[ApiResource]>> {
        let origin = self.begin();
        let name = place.clone();
        let stored = on_disk(self.disk.as_ref()?, move |disk| disk.read_list(&name)).await?;
        let origin = self.of_file(origin, stored.modified, access)?;
        let list: Arc<[ApiResource]> = stored.value.fold(place).into();
        let state = &mut *self.state.lock();
        state.keep_list(place, Ok(Arc::clone(&list)), origin);
        state.used_files = true;
        Some(list)
    }

    /// Versions of a group, those that the server cannot serve now last.
    pub(super) async fn versions(
        &self,
        live: &DiscoveryClient,
        group: &str,
        access: Access,
    ) -> Result<Vec<String>> {
        if let Some(versions) = self.newer_versions(group, access) {
            return Ok(versions);
        }
        if self.disk.is_some() || self.kept_root(access).is_some() {
            match self.root(live, access).await?.versions(group) {
                None => return Err(unknown(&GroupVersion::new(group, ""))),
                Some(versions) if !versions.is_empty() => return Ok(versions),
                Some(_) => {}
            }
        }
        if group.is_empty() {
            // The core group has no document of its own, and never had another version.
            return Ok(vec!["v1".to_owned()]);
        }
        let look = |state: &State| state.look(state.groups.get(group).cloned(), access);
        let before = match look(&self.state.lock()) {
            Look::Use(found) => return found.map(|group| group.versions),
            Look::Ask(before) => before,
        };
        self.flights
            .alone(&GroupVersion::new(group, ""), async {
                {
                    let state = &mut *self.state.lock();
                    if let Some(found) = state.arrived(state.groups.get(group), before, access) {
                        return found.map(|group| group.versions);
                    }
                }
                let origin = self.begin();
                let value = live.group(group).await;
                let origin = self.now(origin);
                let state = &mut *self.state.lock();
                keep(&mut state.groups, group.to_owned(), Kept::new(value.clone(), origin));
                let value = value.or_else(|error| state.instead(state.groups.get(group), error, access));
                value.map(|group| group.versions)
            })
            .await
    }

    /// Versions of a group that was asked for singly after all groups were: it may have come since.
    fn newer_versions(&self, group: &str, access: Access) -> Option<Vec<String>> {
        let state = &mut *self.state.lock();
        let root = state.root.as_ref().map_or(0, |kept| kept.origin.began);
        let kept = state.groups.get(group).filter(|kept| kept.origin.began > root).cloned();
        match state.look(kept, access) {
            Look::Use(found) => found.ok().map(|group| group.versions),
            Look::Ask(_) => None,
        }
    }

    /// Everything.
    pub(super) async fn all(&self, live: &DiscoveryClient, access: Access) -> Result<ServerResources> {
        let before = self.state.lock().fetches;
        // Without groups there is nothing to be content with.
        let (root, number) = self.root_and_number(live, Access { retry: Retry::Always, ..access }).await?;
        // A server that could not be asked for them is not asked for each list either.
        let down = self.state.lock().root.as_ref().is_some_and(Kept::failed_of_late);
        let access = Access { expired: access.expired || down, ..access };
        // What this very call was told is down is not asked once more.
        let retry = if number <= before { access.retry } else { Retry::Never };
        let failed_access = Access { retry, ..access };
        let mut result =
            ServerResources { groups: root.groups().cloned().collect(), ..ServerResources::default() };
        let failed = root.failed();
        let mut places = Vec::new();
        for ApiGroup { name, versions } in root.groups() {
            places.extend(versions.iter().map(|version| (GroupVersion::new(name, version), access)));
            if let Some(versions) = failed.get(name.as_str()) {
                places
                    .extend(versions.iter().map(|version| (GroupVersion::new(name, version), failed_access)));
            } else if versions.is_empty() {
                match self.versions(live, name, access).await {
                    Ok(versions) => {
                        places.extend(
                            versions.iter().map(|version| (GroupVersion::new(name, version), access)),
                        );
                    }
                    Err(error) => {
                        let group_version = GroupVersion::new(name, "");
                        result.failed.push(FailedGroup { group_version, error });
                    }
                }
            }
        }
        // Most are known, and then this is one pass.
        let known: Vec<_> = {
            let state = self.state.lock();
            let look = |(place, access)| match state.look_list(&place, access) {
                Look::Use(list) => (place, access, Some(list)),
                Look::Ask(_) => (place, access, None),
            };
            places.into_iter().map(look).collect()
        };
        let ask = |(place, access, known)| async move {
            let list = match known {
                Some(list) => list,
                None => self.list(live, &place, access).await,
            };
            (list, place)
        };
        let mut asked = stream::iter(known.into_iter().map(ask)).buffered(AT_ONCE);
        while let Some((list, group_version)) = asked.next().await {
            match list {
                Ok(resources) => result.resources.push(GroupVersionResources { group_version, resources }),
                Err(error) => result.failed.push(FailedGroup { group_version, error }),
            }
        }
        Ok(result)
    }

    fn kept_root(&self, access: Access) -> Option<Root> {
        let state = &mut *self.state.lock();
        match state.look(state.root.clone(), access) {
            Look::Use(root) => root.ok(),
            Look::Ask(_) => None,
        }
    }

    /// A fetch begins.
    fn begin(&self) -> Origin {
        let state = &mut *self.state.lock();
        state.fetches += 1;
        let (began, generation) = (state.fetches, state.generation);
        Origin { checked: Instant::now(), expires: None, began, generation }
    }

    /// The server has answered.
    fn now(&self, origin: Origin) -> Origin {
        let checked = Instant::now();
        Origin { checked, expires: self.ttl.and_then(|ttl| checked.checked_add(ttl)), ..origin }
    }

    /// A file was read; nothing when it may not be used. One of the future tells nothing of its age.
    fn of_file(&self, origin: Origin, modified: SystemTime, access: Access) -> Option<Origin> {
        let age = modified.elapsed().ok()?;
        let ttl = self.ttl?;
        let old = age >= ttl || access.max_age.is_some_and(|max_age| age >= max_age);
        let before = self.state.lock().invalidated.is_some_and(|invalidated| modified < invalidated);
        if old || before {
            return None;
        }
        let now = Instant::now();
        let checked = now.checked_sub(age)?;
        Some(Origin { checked, expires: now.checked_add(ttl - age), ..origin })
    }
}

/// Reads or writes files, where that may block.
async fn on_disk<T: Send + 'static>(
    disk: &Arc<DiskStore>,
    work: impl FnOnce(&DiskStore) -> Option<T> + Send + 'static,
) -> Option<T> {
    let disk = Arc::clone(disk);
    tokio::task::spawn_blocking(move || work(&disk)).await.ok().flatten()
}

/// The runtime ends while files are being written.
fn stopped() -> Error {
    Error::Request("discovery was stopped while it wrote its cache".to_owned())
}

impl fmt::Debug for DocumentCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentCache")
            .field("disk", &self.disk)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}
