//! [`DocumentCache`]: the documents of one server. It knows no client, so that the clients that share it can own it.
//!
//! Invariant: the fetch of a list may wait for that of the root, never the other way round.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::document::{Access, Document, FetchClock, may_pass};
#[cfg(feature = "discovery-disk")]
use super::files::DocumentFiles;
use super::root::{ResourceListResult, Root};
use super::types::{ApiGroup, GroupVersion};
use crate::error::{Error, Status};
use crate::params::ApiResource;

/// How long documents of the shared cache count: as long as kubectl's files do.
const SHARED_TTL: Duration = Duration::from_secs(10 * 60);
/// Documents before old failures are dropped: calls for names that do not exist must not fill the memory.
const MANY: usize = 4096;
/// How long a failure stays in any case.
const FAILURES_STAY: Duration = Duration::from_secs(60);

/// The documents fetched so far.
pub(crate) struct DocumentCache {
    pub(crate) clock: FetchClock,
    pub(crate) root: Document<Root>,
    /// Groups that were fetched singly.
    groups: Documents<String, ApiGroup>,
    lists: Documents<GroupVersion, Arc<[ApiResource]>>,
    #[cfg(feature = "discovery-disk")]
    pub(crate) files: Option<DocumentFiles>,
}

impl Default for DocumentCache {
    /// A cache in which documents do not expire.
    fn default() -> Self {
        Self {
            clock: FetchClock::default(),
            // Without a root nothing is found at all, so that a good one stays whatever the reason.
            root: Document::new(|_| true),
            groups: Documents::default(),
            lists: Documents::default(),
            #[cfg(feature = "discovery-disk")]
            files: None,
        }
    }
}

impl DocumentCache {
    /// The cache that the clients of all identities share: its documents expire, since a kind that was created again with
    /// another scope or plural name causes no miss that would show it.
    pub(crate) fn shared() -> Self {
        Self { clock: FetchClock::with_ttl(SHARED_TTL), ..Self::default() }
    }

    #[cfg(feature = "discovery-disk")]
    pub(crate) fn with_files(files: DocumentFiles) -> Self {
        Self { clock: FetchClock::with_ttl(files.ttl), files: Some(files), ..Self::default() }
    }

    pub(crate) fn invalidate(&self) {
        self.clock.invalidate();
        #[cfg(feature = "discovery-disk")]
        if let Some(files) = &self.files {
            files.invalidate();
        }
    }

    /// Whether no file was used since the last invalidation.
    pub(crate) fn fresh(&self) -> bool {
        #[cfg(feature = "discovery-disk")]
        return self.files.as_ref().is_none_or(DocumentFiles::unused);
        #[cfg(not(feature = "discovery-disk"))]
        true
    }

    /// Whether documents are also cached in files, where all groups are fetched at once.
    pub(crate) fn has_files(&self) -> bool {
        #[cfg(feature = "discovery-disk")]
        return self.files.is_some();
        #[cfg(not(feature = "discovery-disk"))]
        false
    }

    /// The root as it is cached, if it is a good one.
    pub(crate) fn cached_root(&self, access: Access) -> Option<Root> {
        self.root.cached(&self.clock, access)?.ok()
    }

    /// The list of a group version as it is cached; also that there is none, by the root.
    pub(crate) fn cached_list(&self, place: &GroupVersion, access: Access) -> Option<ResourceListResult> {
        match self.lists.find(place).filter(|list| !list.is_empty()) {
            Some(list) => list.cached(&self.clock, access),
            None => self.cached_root(access).filter(|root| root.denies(place)).map(|_| Err(unknown(place))),
        }
    }

    pub(crate) fn list(&self, place: &GroupVersion) -> Arc<Document<Arc<[ApiResource]>>> {
        self.lists.get(place)
    }

    pub(crate) fn group(&self, name: &str) -> Arc<Document<ApiGroup>> {
        self.groups.get(name)
    }

    /// The versions of a group that was fetched singly after the root: it may have been created since.
    pub(crate) fn newer_versions(&self, group: &str, access: Access) -> Option<Vec<String>> {
        let document = self.groups.find(group)?;
        let newer = document.began() > self.root.began();
        Some(document.cached(&self.clock, access).filter(|_| newer)?.ok()?.versions)
    }

    /// Takes over what a new root says of lists: those that it holds, and that others do not exist.
    pub(crate) fn adopt(&self, root: &Root, began: u64, checked: Instant) {
        self.lists.retain(|place, list| list.began() > began || !root.denies(place));
        for (place, list) in root.lists() {
            self.lists.get(place).put(&self.clock, list.clone(), began, checked);
        }
    }
}

impl fmt::Debug for DocumentCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentCache").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// Documents by name.
struct Documents<K, T>(Mutex<DocumentTable<K, T>>);

struct DocumentTable<K, T> {
    all: HashMap<K, Arc<Document<T>>>,
    /// Documents at which old failures are dropped next.
    prune_at: usize,
}

impl<K, T> Default for Documents<K, T> {
    fn default() -> Self {
        Self(Mutex::new(DocumentTable { all: HashMap::new(), prune_at: MANY }))
    }
}

impl<K: Eq + Hash, T: Clone> Documents<K, T> {
    fn find<Q: Eq + Hash + ?Sized>(&self, name: &Q) -> Option<Arc<Document<T>>>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.0.lock().all.get(name).cloned()
    }

    /// The document of this name, which need not have been fetched.
    fn get<Q: Eq + Hash + ToOwned<Owned = K> + ?Sized>(&self, name: &Q) -> Arc<Document<T>>
    where
        K: std::borrow::Borrow<Q>,
    {
        let table = &mut *self.0.lock();
        if let Some(document) = table.all.get(name) {
            return Arc::clone(document);
        }
        if table.all.len() >= table.prune_at {
            // One that is being fetched is held by the call that fetches it.
            table.all.retain(|_, document| {
                Arc::strong_count(document) > 1 || !document.is_old_failure(FAILURES_STAY)
            });
            table.prune_at = MANY.max(2 * table.all.len());
        }
        let document = Arc::new(Document::new(may_pass));
        table.all.insert(name.to_owned(), Arc::clone(&document));
        document
    }

    fn retain(&self, keep: impl Fn(&K, &Document<T>) -> bool) {
        self.0.lock().all.retain(|name, document| keep(name, document));
    }
}

/// The server has no such group version.
pub(crate) fn unknown(place: &GroupVersion) -> Error {
    Error::Api(Box::new(Status {
        code: 404,
        reason: "NotFound".to_owned(),
        message: format!("the server has no {place}"),
        ..Status::default()
    }))
}
