//! [`CachedDiscovery`]: discovery with a cache, in memory and on request also on disk; a [`RestMapper`](super::RestMapper) is
//! built on it.
//!
//! Documents are cached one by one: a call for one group version costs one small request, one for everything costs two.
//! Where there is a disk cache both aggregated documents are fetched, by their `ETag`, since what they say goes to disk for
//! all processes.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};

use super::live::{DiscoveryClient, RootPath};
use crate::client::Client;
use crate::documents::{
    Access, ApiGroup, DocumentCache, FailedGroup, Fetched, GroupVersion, GroupVersionResources,
    REFRESH_SPACING, ResourceListResult, Root, RootPart, RootResponse, ServerResources, may_pass, unknown,
};
#[cfg(feature = "discovery-disk")]
use crate::documents::{DiskCacheOptions, DocumentFiles};
use crate::error::Result;
use crate::params::ApiResource;

/// Requests under way at once where there is a document per group version. client-go sends all of them at once, which a
/// server with hundreds of CustomResourceDefinitions answers with 429.
const AT_ONCE: usize = 16;

/// Discovery with a cache; a cheap clone that shares it.
///
/// A failure that may pass, as a refused connection or a status of 429 or 5xx, is fetched again by the next call for that
/// document; others are cached as documents are. A document that has expired stays in use while no newer one can be had,
/// and is fetched again after ten seconds. Calls for a document that is being fetched wait for that one.
#[derive(Debug, Clone)]
pub struct CachedDiscovery {
    live: DiscoveryClient,
    cache: Arc<DocumentCache>,
}

impl CachedDiscovery {
    /// A cache of its own in memory, in which documents do not expire.
    #[must_use]
    pub fn in_memory(live: DiscoveryClient) -> Self {
        Self { live, cache: Arc::default() }
    }

    /// A cache in memory and in files that kubectl shares. A folder that cannot be read or written is no error: the
    /// server is asked then. Files older than the options' TTL are fetched again, by `ETag` where the server has one.
    #[cfg(feature = "discovery-disk")]
    #[must_use]
    pub fn on_disk(live: DiscoveryClient, options: &DiskCacheOptions) -> Self {
        let files = DocumentFiles::new(options, live.client.server());
        Self { live, cache: Arc::new(DocumentCache::with_files(files)) }
    }

    pub(super) fn shared(client: &Client) -> Self {
        let cache = Arc::clone(&client.core.discovery);
        Self { live: DiscoveryClient::new(client.as_host()), cache }
    }

    /// The client that asks the server.
    #[must_use]
    pub fn live(&self) -> &DiscoveryClient {
        &self.live
    }

    /// The groups, the core group first.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn groups(&self) -> Result<Vec<ApiGroup>> {
        Ok(self.root(Access::PLAIN).await?.groups().cloned().collect())
    }

    /// The resources of one group version.
    ///
    /// # Errors
    /// A `NotFound` when there is no such group version; otherwise why it could not be asked.
    pub async fn resources(&self, group: &str, version: &str) -> Result<Arc<[ApiResource]>> {
        self.list(&GroupVersion::new(group, version), Access::PLAIN).await
    }

    /// All groups and the resources of all their versions.
    ///
    /// # Errors
    /// When the groups could not be read. Failures of single groups are in the result.
    pub async fn groups_and_resources(&self) -> Result<ServerResources> {
        self.all(Access::PLAIN).await
    }

    /// The resources of a group version as they are cached.
    pub(super) fn cached_resources(&self, group: &str, version: &str) -> Option<Arc<[ApiResource]>> {
        self.cache.cached_list(&GroupVersion::new(group, version), Access::PLAIN)?.ok()
    }

    /// Reads the groups again when they are older than [`REFRESH_SPACING`]. A server that hides them is no error.
    pub(super) async fn refresh_groups(&self) -> Result<()> {
        match self.root(Access::newer_than(REFRESH_SPACING)).await {
            Err(error) if may_pass(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Lets nothing be used that is cached now, here or in the files. What the server confirms by `ETag` may be.
    pub fn invalidate(&self) {
        self.cache.invalidate();
    }

    /// Whether all that was given out since the beginning, or since [`CachedDiscovery::invalidate`], was asked of the
    /// server by this process. If not, invalidating could show more.
    #[must_use]
    pub fn fresh(&self) -> bool {
        self.cache.fresh()
    }

    async fn root(&self, access: Access) -> Result<Root> {
        let cache = &*self.cache;
        let fetch = |began| async move {
            #[cfg(feature = "discovery-disk")]
            if let Some(files) = &cache.files
                && let Some(fetched) = files.root(access).await
            {
                if let Ok(root) = &fetched.value {
                    cache.adopt(root, began, fetched.checked);
                }
                return fetched;
            }
            self.fetch_root(began).await
        };
        cache.root.get(&cache.clock, access, fetch).await
    }

    async fn fetch_root(&self, began: u64) -> Fetched<Root> {
        let value = self.ask_for_root().await;
        let fetched = Fetched::now(value);
        if let Ok(root) = &fetched.value {
            self.cache.adopt(root, began, fetched.checked);
        }
        fetched
    }

    async fn ask_for_root(&self) -> Result<Root> {
        let old = self.cache.root.last_good().filter(|root| root.live);
        #[cfg(feature = "discovery-disk")]
        let old = match (old, &self.cache.files) {
            (None, Some(files)) => files.load().await,
            (old, _) => old,
        };
        let etag = |part: fn(&Root) -> &Arc<RootPart>| part(old.as_ref()?).etag.as_deref();
        let (core, named) = futures_util::try_join!(
            self.live.part(RootPath::Core, etag(|root| &root.core)),
            self.live.part(RootPath::Named, etag(|root| &root.named))
        )?;
        #[cfg(feature = "discovery-disk")]
        let (core, named) = match &self.cache.files {
            Some(files) => files.save(old.as_ref(), core, named).await?,
            None => (core, named),
        };
        let part = |new: Option<RootResponse>, of: fn(&Root) -> &Arc<RootPart>| match (new, &old) {
            (Some(response), _) => Arc::new(response.into()),
            (None, Some(old)) => Arc::clone(of(old)),
            // Without an ETag there is always a response.
            (None, None) => Arc::default(),
        };
        Ok(Root { core: part(core, |root| &root.core), named: part(named, |root| &root.named), live: true })
    }

    pub(super) async fn list(&self, place: &GroupVersion, access: Access) -> ResourceListResult {
        let cache = &*self.cache;
        if let Some(list) = cache.cached_list(place, access) {
            return list;
        }
        let fetch = |_| async move {
            #[cfg(feature = "discovery-disk")]
            if let Some(fetched) = self.list_by_disk(place, access).await {
                return fetched;
            }
            Fetched::now(self.ask_for_list(place).await)
        };
        cache.list(place).get(&cache.clock, access, fetch).await
    }

    async fn ask_for_list(&self, place: &GroupVersion) -> ResourceListResult {
        let list = self.live.list(place).await?;
        #[cfg(feature = "discovery-disk")]
        let list = match &self.cache.files {
            Some(files) => files.write_list(place, list).await?,
            None => list,
        };
        Ok(list.fold(place).into())
    }

    /// The list of a group version by its file, or by the groups that the server has now; nothing where it must be fetched
    /// singly.
    #[cfg(feature = "discovery-disk")]
    async fn list_by_disk(
        &self,
        place: &GroupVersion,
        access: Access,
    ) -> Option<Fetched<Arc<[ApiResource]>>> {
        let cache = &*self.cache;
        if let Some(fetched) = cache.files.as_ref()?.list(place, access).await {
            return Some(fetched);
        }
        if cache.cached_root(access).is_some_and(|root| root.live) {
            return None;
        }
        // Not that of a file, however young.
        let now = Access::newer_than(std::time::Duration::ZERO);
        match cache.root.get(&cache.clock, now, |began| self.fetch_root(began)).await {
            Ok(_) => Some(Fetched::now(cache.cached_list(place, access)?)),
            Err(error) if crate::documents::may_pass(&error) => Some(Fetched::now(Err(error))),
            // Its groups are hidden, which need not hold of one of them.
            Err(_) => None,
        }
    }

    /// Versions of a group, those that the server cannot serve now last.
    pub(super) async fn versions(&self, group: &str, access: Access) -> Result<Vec<String>> {
        let cache = &*self.cache;
        if let Some(versions) = cache.newer_versions(group, access) {
            return Ok(versions);
        }
        if cache.has_files() || cache.cached_root(access).is_some() {
            match self.root(access).await?.versions(group) {
                None => return Err(unknown(&GroupVersion::new(group, ""))),
                Some(versions) if !versions.is_empty() => return Ok(versions),
                Some(_) => {}
            }
        }
        if group.is_empty() {
            // The core group has no document of its own, and never had another version.
            return Ok(vec!["v1".to_owned()]);
        }
        let fetch = |_| async move { Fetched::now(self.live.group(group).await) };
        Ok(cache.group(group).get(&cache.clock, access, fetch).await?.versions)
    }

    pub(super) async fn all(&self, access: Access) -> Result<ServerResources> {
        let cache = &*self.cache;
        let before = cache.clock.last();
        // Without groups there is nothing to list.
        let root = self.root(Access { retry: true, ..access }).await?;
        // A server that could not be asked for them is not asked for each list either.
        let access = Access { expired: access.expired || cache.root.failed_of_late(), ..access };
        // Versions that this very call found to be down are not asked once more.
        let failed_access = Access { retry: access.retry && cache.root.began() <= before, ..access };
        let mut result =
            ServerResources { groups: root.groups().cloned().collect(), ..ServerResources::default() };
        let failed = root.failed();
        let mut places = Vec::new();
        for ApiGroup { name, versions } in root.groups() {
            let place = |version: &str| GroupVersion::new(name, version);
            places.extend(versions.iter().map(|version| (place(version), access)));
            match failed.get(name.as_str()) {
                Some(versions) => {
                    places.extend(versions.iter().map(|version| (place(version), failed_access)));
                }
                None if versions.is_empty() => match self.versions(name, access).await {
                    Ok(versions) => places.extend(versions.iter().map(|version| (place(version), access))),
                    Err(error) => result.failed.push(FailedGroup { group_version: place(""), error }),
                },
                None => {}
            }
        }
        let ask = |(place, access)| async move { (self.list(&place, access).await, place) };
        let mut asked = stream::iter(places.into_iter().map(ask)).buffered(AT_ONCE);
        while let Some((list, group_version)) = asked.next().await {
            match list {
                Ok(resources) => result.resources.push(GroupVersionResources { group_version, resources }),
                Err(error) => result.failed.push(FailedGroup { group_version, error }),
            }
        }
        Ok(result)
    }
}
