//! [`CacheList`]: the informers of a host and what their caches have, as `/caches` shows them.

use std::sync::Arc;

use pilothouse_cache::{InformerId, InformerStatus};
use serde::Serialize;

use crate::manager::{Cluster, Manager};

/// The answer of `/caches`.
#[derive(Debug, Serialize)]
pub(crate) struct CacheList {
    /// All informers that a plugin needs, by cluster and resource, the home cluster first.
    caches: Vec<CacheView>,
}

/// An informer, and its cache. Plugins that watch the same objects share it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CacheView {
    /// None for the home cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    group: String,
    version: String,
    resource: String,
    /// None for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// None for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Objects in the cache.
    objects: usize,
    /// Watches of plugins that it feeds.
    listeners: usize,
    /// Changes that wait for the cache.
    queued: usize,
    /// Whether the first list is in the cache.
    synced: bool,
    /// Why its last list or watch failed; none since one went well.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl CacheView {
    fn new(cluster: Option<&str>, (id, status): (InformerId, InformerStatus)) -> Self {
        let InformerId { resource, namespace, name } = id;
        Self {
            cluster: cluster.map(str::to_owned),
            group: resource.group,
            version: resource.version,
            resource: resource.resource,
            namespace,
            name,
            objects: status.objects,
            listeners: status.listeners,
            queued: status.queued_deltas,
            synced: status.reflector.synced,
            error: status.reflector.last_error.map(|error| error.to_string()),
        }
    }
}

impl Manager {
    /// The informers as `/caches` shows them.
    pub(crate) fn caches(&self) -> CacheList {
        let of_cluster = |cluster: &Arc<Cluster>| {
            let (name, informers) = (cluster.name().map(str::to_owned), cluster.loader.factory.informers());
            informers.into_iter().map(move |informer| CacheView::new(name.as_deref(), informer))
        };
        CacheList { caches: self.clusters().flat_map(of_cluster).collect() }
    }
}
