//! [`DocumentFiles`]: the files of a [`DocumentCache`](super::DocumentCache), read before the server is asked, and written
//! with what it answers. Reads and writes run where they may block.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::disk::{DiskCacheOptions, DiskStore};
use super::document::{Access, Fetched};
use super::root::{Root, RootPart, RootResponse};
use super::types::GroupVersion;
use super::wire::ResourceList;
use crate::error::{Error, Result};
use crate::params::ApiResource;

/// The files of one server, as they are used between two invalidations.
pub(crate) struct DocumentFiles {
    store: Arc<DiskStore>,
    pub(super) ttl: Duration,
    /// Files that were written before do not count.
    not_before: Option<SystemTime>,
    /// Whether a file was used.
    used: AtomicBool,
}

impl DocumentFiles {
    pub(crate) fn new(options: &DiskCacheOptions, server: &str) -> Self {
        let store = Arc::new(DiskStore::new(options.folder(server)));
        Self { store, ttl: options.ttl, not_before: None, used: AtomicBool::new(false) }
    }

    /// The same files, of which those that are there now do not count.
    pub(super) fn invalidated(&self) -> Self {
        let store = Arc::clone(&self.store);
        Self { store, ttl: self.ttl, not_before: Some(SystemTime::now()), used: AtomicBool::new(false) }
    }

    pub(crate) fn unused(&self) -> bool {
        !self.used.load(Ordering::SeqCst)
    }

    /// The groups of a file, if it may be used. A group without versions did not answer who wrote it: the server is asked
    /// which it has.
    pub(crate) async fn root(&self, access: Access) -> Option<Fetched<Root>> {
        let stored = self.blocking(DiskStore::read_groups).await.ok()??;
        if stored.value.iter().any(|group| group.versions.is_empty()) {
            return None;
        }
        let checked = self.accept(stored.modified, access)?;
        let (core, named) = stored.value.into_iter().partition(|group| group.name.is_empty());
        let part = |groups| Arc::new(RootPart::new(groups, Vec::new(), None));
        Some(Fetched { value: Ok(Root { core: part(core), named: part(named), live: false }), checked })
    }

    /// The list of a file, if it may be used.
    pub(crate) async fn list(
        &self,
        place: &GroupVersion,
        access: Access,
    ) -> Option<Fetched<Arc<[ApiResource]>>> {
        let name = place.clone();
        let stored = self.blocking(move |disk| disk.read_list(&name)).await.ok()??;
        let checked = self.accept(stored.modified, access)?;
        Some(Fetched { value: Ok(stored.value.fold(place).into()), checked })
    }

    /// Writes both documents, and gives them back.
    pub(crate) async fn save(
        &self,
        core: RootResponse,
        named: RootResponse,
    ) -> Result<(RootResponse, RootResponse)> {
        let save = move |disk: &DiskStore| {
            disk.save(&core, &named);
            (core, named)
        };
        self.blocking(save).await
    }

    /// Writes the list of a group version, and gives it back.
    pub(crate) async fn write_list(&self, place: &GroupVersion, list: ResourceList) -> Result<ResourceList> {
        let place = place.clone();
        let write = move |disk: &DiskStore| {
            disk.write_list(&place, &list);
            list
        };
        self.blocking(write).await
    }

    /// When the server confirmed a file, if that may be used. One of the future does not tell its age.
    fn accept(&self, modified: SystemTime, access: Access) -> Option<Instant> {
        let age = modified.elapsed().ok()?;
        let old = age >= self.ttl || access.max_age.is_some_and(|max_age| age >= max_age);
        if old || self.not_before.is_some_and(|not_before| modified < not_before) {
            return None;
        }
        let checked = Instant::now().checked_sub(age)?;
        self.used.store(true, Ordering::SeqCst);
        Some(checked)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&DiskStore) -> T + Send + 'static,
    ) -> Result<T> {
        let store = Arc::clone(&self.store);
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        done.map_err(|_| Error::Request("discovery was stopped while it used its cache files".to_owned()))
    }
}
