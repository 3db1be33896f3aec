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

#[cfg(feature = "discovery-disk")]
use super::disk::DiskStore;
use super::flights::Flights;
use super::kept::{Access, Kept, List, Origin, Part, Retry, Root};
use super::live::{self, DiscoveryClient};
use super::state::{Look, State, keep, unknown};
use super::types::{ApiGroup, FailedGroup, GroupVersion, GroupVersionResources, ServerResources};
use super::wire::ResourceList;
use crate::error::Result;

#[cfg(feature = "discovery-disk")]
mod files;

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
    #[cfg(feature = "discovery-disk")]
    disk: Option<Arc<DiskStore>>,
}

impl DocumentCache {
    /// The cache that the clients of all identities share: its documents expire, since a kind that was made anew with
    /// another scope or plural name causes no miss that would show it.
    pub(crate) fn shared() -> Self {
        Self { ttl: Some(SHARED_TTL), ..Self::default() }
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
        #[cfg(feature = "discovery-disk")]
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

    /// Fetches the groups, in the root's flight.
    async fn fetch_root(&self, live: &DiscoveryClient) -> Result<(Root, u64)> {
        let origin = self.begin();
        let old = self.state.lock().confirmable.clone();
        #[cfg(feature = "discovery-disk")]
        let old = match old {
            None => self.load().await,
            old => old,
        };
        let etag = |part: fn(&Root) -> &Arc<Part>| part(old.as_ref()?).etag.as_deref();
        let (core_etag, named_etag) = (etag(|root| &root.core), etag(|root| &root.named));
        let asked = futures_util::try_join!(
            live.part(live::RootPath::Core, core_etag),
            live.part(live::RootPath::Named, named_etag)
        );
        let origin = self.now(origin);
        let (core, named) = match asked {
            Ok(answers) => answers,
            Err(error) => {
                self.state.lock().keep_root_failure(error.clone(), origin);
                return Err(error);
            }
        };
        #[cfg(feature = "discovery-disk")]
        let (core, named) = self.save(old.as_ref(), core, named).await?;
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
                #[cfg(feature = "discovery-disk")]
                if let Some(list) = self.list_by_disk(live, place, access).await {
                    return list;
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
        #[cfg(feature = "discovery-disk")]
        let list = self.write_list(place, list).await;
        let list: List = list.map(|list: ResourceList| list.fold(place).into());
        let origin = self.now(origin);
        self.state.lock().keep_list(place, list.clone(), origin);
        list
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
        if self.has_files() || self.kept_root(access).is_some() {
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

    /// Whether documents are also kept in files, where all groups are asked for at once.
    fn has_files(&self) -> bool {
        #[cfg(feature = "discovery-disk")]
        return self.disk.is_some();
        #[cfg(not(feature = "discovery-disk"))]
        false
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
}

impl fmt::Debug for DocumentCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("DocumentCache");
        #[cfg(feature = "discovery-disk")]
        out.field("disk", &self.disk);
        out.field("ttl", &self.ttl).finish_non_exhaustive()
    }
}
