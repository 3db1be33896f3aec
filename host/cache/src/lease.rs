//! [`InformerLease`]: one user's share in an informer; the informer ends with its last lease.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_client::ApiResource;
use pilothouse_object::Projection;

use crate::error::CacheError;
use crate::factory::{InformerId, Informers};
use crate::factory_informer::FactoryInformer;
use crate::indexer::Indexer;
use crate::listener::Listener;
use crate::lister::Lister;
use crate::registration::Registration;
use crate::shared_informer::{InformerStatus, SharedInformer};

/// One user's share in an informer. Dropping the last one ends the informer.
#[must_use = "dropping the last lease ends the informer"]
pub struct InformerLease {
    of: FactoryInformer,
    /// Of the projection that has the fields that this user asked for.
    generation: u64,
    id: InformerId,
    informers: Arc<Informers>,
}

impl InformerLease {
    pub(crate) fn new(
        of: FactoryInformer,
        generation: u64,
        id: InformerId,
        informers: Arc<Informers>,
    ) -> Self {
        Self { of, generation, id, informers }
    }

    /// The informer; its clones do not keep it running.
    #[must_use]
    pub fn informer(&self) -> &SharedInformer {
        &self.of.informer
    }

    /// What it watches, and where.
    #[must_use]
    pub fn id(&self) -> &InformerId {
        &self.id
    }

    /// The fields that the informer keeps: those that this user asked for, and those of the others.
    #[must_use]
    pub fn projection(&self) -> Projection {
        self.of.source.projection()
    }

    /// Whether the store has all objects with the fields asked for.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.of.is_complete(self.generation)
    }

    /// Makes the informer list again from the server; the wide informer, where it follows one.
    pub fn relist(&self) {
        self.of.relist();
    }

    /// The resource that it watches.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        self.of.informer.resource()
    }

    /// The store of the informer.
    #[must_use]
    pub fn indexer(&self) -> &Arc<Indexer> {
        self.of.informer.indexer()
    }

    /// A lister over the store.
    #[must_use]
    pub fn lister(&self) -> Lister {
        self.of.informer.lister()
    }

    /// The state of the informer.
    #[must_use]
    pub fn status(&self) -> InformerStatus {
        self.of.informer.status()
    }

    /// Adds a listener, as [`SharedInformer::add_listener`] does.
    ///
    /// # Errors
    /// When the informer has stopped, or from inside a listener's call.
    pub fn add_listener(
        &self,
        listener: Arc<dyn Listener>,
        resync: Option<Duration>,
    ) -> Result<Registration, CacheError> {
        self.of.informer.add_listener(listener, resync)
    }

    /// Waits until the store has all objects with the fields asked for, and the listeners there were have been told of
    /// the first list. `false`: the informer ended before.
    pub async fn wait_synced(&self) -> bool {
        self.of.wait_complete(self.generation).await
    }
}

impl Clone for InformerLease {
    fn clone(&self) -> Self {
        self.informers.share(&self.id);
        Self {
            of: self.of.clone(),
            generation: self.generation,
            id: self.id.clone(),
            informers: self.informers.clone(),
        }
    }
}

impl Drop for InformerLease {
    fn drop(&mut self) {
        self.informers.release(&self.id);
    }
}

impl std::fmt::Debug for InformerLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InformerLease").field("id", &self.id).finish_non_exhaustive()
    }
}
