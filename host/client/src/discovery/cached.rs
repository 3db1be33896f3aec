//! [`CachedDiscovery`]: discovery that is kept, in memory and on request also on disk; what a [`RestMapper`] stands on.
//!
//! Documents are kept one by one, so that who asks for one group version causes one small request, and who asks for all
//! causes two. Where there is a disk cache both aggregated documents are asked for, by their `ETag`, since what they say goes
//! to disk for everybody. See [`DocumentCache`] for the rules.
//!
//! [`RestMapper`]: super::RestMapper

use std::sync::Arc;

#[cfg(feature = "discovery-disk")]
use super::disk::{DiskCacheOptions, DiskStore};
use super::documents::DocumentCache;
use super::kept::Access;
use super::live::DiscoveryClient;
use super::types::{ApiGroup, GroupVersion, ServerResources};
use crate::client::Client;
use crate::error::Result;
use crate::params::ApiResource;

/// Discovery with a cache; a cheap clone that shares it.
///
/// A failure that may pass, as a refused connection or a status of 429 or 5xx, is asked for again by the next who wants
/// that document; others are kept as documents are. Where a document has expired and no newer one can be had it goes on to
/// count, and is asked for again after ten seconds. Whoever asks while a document is being fetched waits for that one.
#[derive(Debug, Clone)]
pub struct CachedDiscovery {
    live: DiscoveryClient,
    pub(super) cache: Arc<DocumentCache>,
}

impl CachedDiscovery {
    /// A cache of its own in memory, in which documents do not expire.
    #[must_use]
    pub fn in_memory(live: DiscoveryClient) -> Self {
        Self { live, cache: Arc::default() }
    }

    /// A cache in memory and in files that kubectl shares. A folder that cannot be read or written is no error: the
    /// server is asked then. Files older than the options' TTL are asked for again, by `ETag` where the server has one.
    #[cfg(feature = "discovery-disk")]
    #[must_use]
    pub fn on_disk(live: DiscoveryClient, options: &DiskCacheOptions) -> Self {
        let disk = DiskStore::new(options.folder(live.client.server()));
        let cache = DocumentCache::with_disk(disk, options.ttl);
        Self { live, cache: Arc::new(cache) }
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
        Ok(self.cache.root(&self.live, Access::PLAIN).await?.groups().cloned().collect())
    }

    /// The resources of one group version.
    ///
    /// # Errors
    /// A `NotFound` when there is no such group version; otherwise why it could not be asked.
    pub async fn resources(&self, group: &str, version: &str) -> Result<Arc<[ApiResource]>> {
        self.resources_by(&GroupVersion::new(group, version), Access::PLAIN).await
    }

    /// All groups and the resources of all their versions.
    ///
    /// # Errors
    /// When the groups could not be read. Failures of single groups are in the result.
    pub async fn groups_and_resources(&self) -> Result<ServerResources> {
        self.all_by(Access::PLAIN).await
    }

    /// Lets nothing be used that is known now, whether here or in the files. What the server says is unchanged may be.
    pub fn invalidate(&self) {
        self.cache.invalidate();
    }

    /// Whether all that was given out since the beginning, or since [`CachedDiscovery::invalidate`], was asked of the
    /// server by this process. If not, invalidating could show more.
    #[must_use]
    pub fn fresh(&self) -> bool {
        self.cache.fresh()
    }

    pub(super) async fn resources_by(
        &self,
        place: &GroupVersion,
        access: Access,
    ) -> Result<Arc<[ApiResource]>> {
        self.cache.list(&self.live, place, access).await
    }

    pub(super) async fn versions_by(&self, group: &str, access: Access) -> Result<Vec<String>> {
        self.cache.versions(&self.live, group, access).await
    }

    pub(super) async fn all_by(&self, access: Access) -> Result<ServerResources> {
        self.cache.all(&self.live, access).await
    }
}
