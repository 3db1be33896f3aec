//! [`CachedDiscovery`]: discovery with a cache, in memory and on request also on disk; a [`RestMapper`](super::RestMapper) is
//! built on it.
//!
//! Documents are cached one by one: a call for one group version costs one small request, one for everything costs two.
//! Where there is a disk cache both aggregated documents are fetched, since what they say goes to disk for all processes.

use std::sync::Arc;
#[cfg(feature = "discovery-disk")]
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::Instant;

use super::live::{DiscoveryClient, RootPath};
use crate::client::Client;
use crate::documents::{
    Access, ApiGroup, DocumentCache, Documents, FailedGroup, Fetched, GroupVersion, GroupVersionResources,
    REFRESH_SPACING, ResourceListResult, Root, RootPart, RootResponse, ServerResources, may_pass,
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

/// Which group versions a search looks through.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchScope<'a> {
    pub(super) group: GroupScope<'a>,
    pub(super) version: Option<&'a str>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum GroupScope<'a> {
    Named(&'a str),
    /// Any group if this is empty.
    BeginsWith(&'a str),
}

impl SearchScope<'_> {
    pub(super) const EVERYTHING: Self = Self { group: GroupScope::BeginsWith(""), version: None };

    fn has_group(&self, name: &str) -> bool {
        match self.group {
            GroupScope::Named(group) => name == group,
            GroupScope::BeginsWith(start) => name.starts_with(start),
        }
    }
}

impl CachedDiscovery {
    /// A cache of its own in memory, in which documents do not expire.
    #[must_use]
    pub fn in_memory(live: DiscoveryClient) -> Self {
        Self { live, cache: Arc::new(DocumentCache::in_memory()) }
    }

    /// A cache in memory and in files that kubectl shares. A folder that cannot be read or written is no error: the
    /// server is asked then. Files older than the options' TTL are fetched again.
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

    /// The groups, the core group first.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn groups(&self) -> Result<Vec<ApiGroup>> {
        let root = self.root(&self.cache.documents(), Access::plain()).await?;
        Ok(root.groups().cloned().collect())
    }

    /// The resources of one group version.
    ///
    /// # Errors
    /// A `NotFound` when there is no such group version; otherwise why it could not be asked.
    pub async fn resources(&self, group: &str, version: &str) -> Result<Arc<[ApiResource]>> {
        self.list(&self.cache.documents(), &GroupVersion::new(group, version), Access::plain()).await
    }

    /// All groups and the resources of all their versions.
    ///
    /// # Errors
    /// When the groups could not be read. Failures of single groups are in the result.
    pub async fn groups_and_resources(&self) -> Result<ServerResources> {
        self.search(SearchScope::EVERYTHING, Access::plain()).await
    }

    /// The resources of a group version as they are cached.
    pub(super) fn cached_resources(&self, group: &str, version: &str) -> Option<Arc<[ApiResource]>> {
        let place = GroupVersion::new(group, version);
        self.cache.documents().cached_list(&place, Access::plain())?.ok()
    }

    /// Reads the groups again when they are older than [`REFRESH_SPACING`]. A server that hides them is no error.
    pub(super) async fn refresh_groups(&self) -> Result<()> {
        let access = Access::plain().newer_than(REFRESH_SPACING);
        match self.root(&self.cache.documents(), access).await {
            Err(error) if may_pass(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Lets nothing be used that is cached now, here or in the files. In memory, what the server confirms by `ETag` may be.
    pub fn invalidate(&self) {
        self.cache.invalidate();
    }

    /// Whether all that was given out since the beginning, or since [`CachedDiscovery::invalidate`], was asked of the
    /// server by this process. If not, invalidating could show more.
    #[must_use]
    pub fn fresh(&self) -> bool {
        #[cfg(feature = "discovery-disk")]
        return self.cache.documents().files.as_ref().is_none_or(DocumentFiles::unused);
        #[cfg(not(feature = "discovery-disk"))]
        true
    }

    /// The groups and resources of some group versions. Where group and version are named, nothing else is fetched.
    pub(super) async fn search(&self, scope: SearchScope<'_>, access: Access) -> Result<ServerResources> {
        let documents = &*self.cache.documents();
        let mut result = ServerResources::default();
        let (places, offline) = match scope {
            SearchScope { group: GroupScope::Named(group), version: Some(version) } => {
                (vec![GroupVersion::new(group, version)], false)
            }
            _ => {
                let root = self.root(documents, access.required()).await?;
                let wanted = |group: &&ApiGroup| scope.has_group(&group.name);
                result.groups = root.groups().filter(wanted).cloned().collect();
                let mut places = root.group_versions(wanted);
                places.retain(|place| scope.version.is_none_or(|version| place.version == version));
                // A server that could not be asked for its groups is not asked for each list either.
                (places, documents.root.failed_of_late())
            }
        };
        let ask = |place: GroupVersion| async move {
            let last = if offline { documents.list(&place).last() } else { None };
            let list = match last {
                Some(list) => list,
                None => self.list(documents, &place, access).await,
            };
            (list, place)
        };
        let mut asked = stream::iter(places.into_iter().map(ask)).buffered(AT_ONCE);
        while let Some((list, group_version)) = asked.next().await {
            match list {
                Ok(resources) => result.resources.push(GroupVersionResources { group_version, resources }),
                Err(error) => result.failed.push(FailedGroup { group_version, error }),
            }
        }
        Ok(result)
    }

    async fn root(&self, documents: &Documents, access: Access) -> Result<Root> {
        let fetch = async {
            #[cfg(feature = "discovery-disk")]
            if let Some(files) = &documents.files
                && let Some(fetched) = files.root(access).await
            {
                return fetched;
            }
            let began = Instant::now();
            let fetched = Fetched::now(self.ask_for_root(documents).await);
            if let Ok(root) = &fetched.value {
                documents.adopt(root, began, fetched.checked);
            }
            fetched
        };
        documents.root.get(documents.ttl, access, fetch).await
    }

    async fn ask_for_root(&self, documents: &Documents) -> Result<Root> {
        let old = documents.last_root();
        // In full where what they say goes to files.
        #[cfg(feature = "discovery-disk")]
        let old = old.filter(|_| documents.files.is_none());
        let etag = |part: fn(&Root) -> &Arc<RootPart>| part(old.as_ref()?).etag.as_deref();
        let (core, named) = futures_util::join!(
            self.live.part(RootPath::Core, etag(|root| &root.core)),
            self.live.part(RootPath::Named, etag(|root| &root.named))
        );
        let (core, named) = (core?, named?);
        #[cfg(feature = "discovery-disk")]
        let (core, named) = match (&documents.files, core, named) {
            (Some(files), Some(core), Some(named)) => {
                let (core, named) = files.save(core, named).await?;
                (Some(core), Some(named))
            }
            (_, core, named) => (core, named),
        };
        let part = |new: Option<RootResponse>, of: fn(&Root) -> &Arc<RootPart>| match (new, &old) {
            (Some(response), _) => Arc::new(response.into()),
            (None, Some(old)) => Arc::clone(of(old)),
            // Without an ETag there is always a response.
            (None, None) => Arc::default(),
        };
        Ok(Root { core: part(core, |root| &root.core), named: part(named, |root| &root.named), live: true })
    }

    async fn list(&self, documents: &Documents, place: &GroupVersion, access: Access) -> ResourceListResult {
        if let Some(list) = documents.cached_list(place, access) {
            return list;
        }
        let fetch = async {
            #[cfg(feature = "discovery-disk")]
            if let Some(fetched) = self.list_by_files(documents, place, access).await {
                return fetched;
            }
            let list = self.live.list(place).await;
            #[cfg(feature = "discovery-disk")]
            let list = match (&documents.files, list) {
                (Some(files), Ok(list)) => files.write_list(place, list).await,
                (_, list) => list,
            };
            Fetched::now(list.map(|list| list.fold(place).into()))
        };
        documents.list(place).get(documents.ttl, access, fetch).await
    }

    /// The list of a group version by its file, or by the groups that the server has now; nothing where it must be fetched
    /// singly.
    #[cfg(feature = "discovery-disk")]
    async fn list_by_files(
        &self,
        documents: &Documents,
        place: &GroupVersion,
        access: Access,
    ) -> Option<Fetched<Arc<[ApiResource]>>> {
        if let Some(fetched) = documents.files.as_ref()?.list(place, access).await {
            return Some(fetched);
        }
        if documents.cached_root(access).is_some_and(|root| root.live) {
            return None;
        }
        // Not the root of a file, however young.
        match self.root(documents, access.newer_than(Duration::ZERO)).await {
            Ok(_) => Some(Fetched::now(documents.cached_list(place, access)?)),
            Err(error) if may_pass(&error) => Some(Fetched::now(Err(error))),
            // Its groups are hidden, which need not hold of one of them.
            Err(_) => None,
        }
    }
}
