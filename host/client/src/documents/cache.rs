//! [`DocumentCache`]: the documents of one server. It knows no client, so that the clients that share it can own it.
//!
//! Invariants: a call works on the [`Documents`] of its beginning, and an invalidation replaces all of them, so that no fetch
//! that began before an invalidation is used after it; the fetch of a list may wait for that of the root, never the other
//! way round.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::document::{Access, Document, Fetched};
#[cfg(feature = "discovery-disk")]
use super::files::DocumentFiles;
use super::root::{ResourceListResult, Root};
use super::types::GroupVersion;
use crate::error::{Error, Status};
use crate::params::ApiResource;

/// How long documents of the shared cache count: as long as kubectl's files do.
const SHARED_TTL: Duration = Duration::from_secs(10 * 60);
/// Lists at which failed ones are dropped: calls for names that do not exist must not fill the memory.
const MANY: usize = 4096;

/// The documents fetched since the last invalidation.
pub(crate) struct DocumentCache(Mutex<Arc<Documents>>);

type ResourceListDocument = Document<Arc<[ApiResource]>>;

/// Documents that were fetched between two invalidations.
pub(crate) struct Documents {
    pub(crate) ttl: Duration,
    pub(crate) root: Document<Root>,
    lists: Mutex<HashMap<GroupVersion, Arc<ResourceListDocument>>>,
    /// From before the invalidation: what the server confirms of it by `ETag` is used again.
    before: Option<Root>,
    #[cfg(feature = "discovery-disk")]
    pub(crate) files: Option<DocumentFiles>,
}

impl Documents {
    fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            root: Document::default(),
            lists: Mutex::default(),
            before: None,
            #[cfg(feature = "discovery-disk")]
            files: None,
        }
    }

    /// The last good root.
    pub(crate) fn last_root(&self) -> Option<Root> {
        self.root.last().and_then(Result::ok).or_else(|| self.before.clone())
    }

    /// The root as it is cached, if it is a good one.
    pub(crate) fn cached_root(&self, access: Access) -> Option<Root> {
        self.root.cached(self.ttl, access)?.ok()
    }

    /// The list of a group version as it is cached; also that there is none, by the root.
    pub(crate) fn cached_list(&self, place: &GroupVersion, access: Access) -> Option<ResourceListResult> {
        match self.lists.lock().get(place).filter(|list| list.last().is_some()) {
            Some(list) => list.cached(self.ttl, access),
            None => self.cached_root(access).filter(|root| root.denies(place)).map(|_| Err(unknown(place))),
        }
    }

    /// The list of this group version, which need not have been fetched.
    pub(crate) fn list(&self, place: &GroupVersion) -> Arc<ResourceListDocument> {
        let mut lists = self.lists.lock();
        if let Some(list) = lists.get(place) {
            return Arc::clone(list);
        }
        if lists.len() >= MANY {
            // One that is being fetched is held by the call that fetches it.
            lists.retain(|_, list| Arc::strong_count(list) > 1 || matches!(list.last(), Some(Ok(_))));
        }
        Arc::clone(lists.entry(place.clone()).or_default())
    }

    /// Takes over what a root says of lists: those that it holds, and that others do not exist. Lists that were fetched
    /// after the fetch of the root had begun stay.
    pub(crate) fn adopt(&self, root: &Root, began: Instant, checked: Instant) {
        let mut lists = self.lists.lock();
        lists.retain(|place, list| !list.is_older(began) || !root.denies(place));
        for (place, value) in root.lists() {
            let list = lists.entry(place.clone()).or_default();
            if list.is_older(began) {
                *list = Arc::new(list.renewed(Fetched { value: value.clone(), checked }));
            }
        }
    }
}

impl DocumentCache {
    /// A cache in which documents do not expire.
    pub(crate) fn in_memory() -> Self {
        Documents::new(Duration::MAX).into()
    }

    /// The cache that the clients of all identities share: its documents expire, since a kind that was created again with
    /// another scope or plural name causes no miss that would show it.
    pub(crate) fn shared() -> Self {
        Documents::new(SHARED_TTL).into()
    }

    #[cfg(feature = "discovery-disk")]
    pub(crate) fn with_files(files: DocumentFiles) -> Self {
        let empty = Documents::new(files.ttl);
        Documents { files: Some(files), ..empty }.into()
    }

    /// The documents that are used now.
    pub(crate) fn documents(&self) -> Arc<Documents> {
        Arc::clone(&self.0.lock())
    }

    pub(crate) fn invalidate(&self) {
        let documents = &mut *self.0.lock();
        let new = Documents {
            before: documents.last_root(),
            #[cfg(feature = "discovery-disk")]
            files: documents.files.as_ref().map(DocumentFiles::invalidated),
            ..Documents::new(documents.ttl)
        };
        *documents = Arc::new(new);
    }
}

impl From<Documents> for DocumentCache {
    fn from(documents: Documents) -> Self {
        Self(Mutex::new(Arc::new(documents)))
    }
}

impl fmt::Debug for DocumentCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentCache").field("ttl", &self.documents().ttl).finish_non_exhaustive()
    }
}

/// The server has no such group version.
fn unknown(place: &GroupVersion) -> Error {
    Error::Api(Box::new(Status {
        code: 404,
        reason: "NotFound".to_owned(),
        message: format!("the server has no {place}"),
        ..Status::default()
    }))
}
