//! The files of a [`DocumentCache`], where it has any: read before the server is asked, written with what it answers. Called by
//! `documents`, in the flight of the document.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::super::disk::{DiskStore, Saved};
use super::super::kept::{Access, Kept, List, Origin, Part, REFRESH_SPACING, Root, may_pass};
use super::super::live::{Answered, DiscoveryClient};
use super::super::state::Look;
use super::super::types::GroupVersion;
use super::super::wire::ResourceList;
use super::DocumentCache;
use crate::error::{Error, Result};
use crate::params::ApiResource;

impl DocumentCache {
    pub(in crate::discovery) fn with_disk(disk: DiskStore, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), disk: Some(Arc::new(disk)), ..Self::default() }
    }

    /// What the files hold, to be asked for by `ETag`.
    pub(super) async fn load(&self) -> Option<Root> {
        on_disk(self.disk.as_ref()?, DiskStore::load).await
    }

    /// Writes both documents, and gives them back.
    pub(super) async fn save(
        &self,
        old: Option<&Root>,
        core: Option<Answered>,
        named: Option<Answered>,
    ) -> Result<(Option<Answered>, Option<Answered>)> {
        let Some(disk) = &self.disk else { return Ok((core, named)) };
        let old = old.cloned();
        let saved = on_disk(disk, move |disk| Some(disk.save(old.as_ref(), core, named))).await;
        saved.map(|Saved { core, named }| (core, named)).ok_or_else(stopped)
    }

    /// Writes the list of a group version, and gives it back.
    pub(super) async fn write_list(
        &self,
        place: &GroupVersion,
        list: Result<ResourceList>,
    ) -> Result<ResourceList> {
        let (disk, list) = match (&self.disk, list) {
            (Some(disk), Ok(list)) => (disk, list),
            (_, list) => return list,
        };
        let place = place.clone();
        let write = move |disk: &DiskStore| {
            disk.write_list(&place, &list);
            Some(list)
        };
        on_disk(disk, write).await.ok_or_else(stopped)
    }

    /// The list of a group version by its file, or by the groups that the server has now; nothing where it must be asked for
    /// singly.
    pub(super) async fn list_by_disk(
        &self,
        live: &DiscoveryClient,
        place: &GroupVersion,
        access: Access,
    ) -> Option<List> {
        self.disk.as_ref()?;
        if let Some(list) = self.list_of_disk(place, access).await {
            return Some(Ok(list));
        }
        if self.kept_root(access).is_some_and(|root| root.live) {
            return None;
        }
        match self.refresh_root(live).await {
            Err(error) if may_pass(&error) => {
                let origin = self.now(self.begin());
                let state = &mut *self.state.lock();
                state.keep_list(place, Err(error.clone()), origin);
                Some(state.instead(state.lists.get(place), error, access))
            }
            // Its groups are hidden, which need not hold of one of them.
            Err(_) => None,
            Ok(()) => match self.state.lock().look_list(place, access) {
                Look::Use(list) => Some(list),
                Look::Ask(_) => None,
            },
        }
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

    /// The groups of a file, if it may be used.
    pub(super) async fn root_of_disk(&self, access: Access) -> Option<(Root, u64)> {
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
