//! [`InformerLease`]: one user's share in an informer; the informer ends with its last lease.

use std::sync::Arc;

use pilothouse_object::Projection;

use crate::factory::{InformerId, Informers};
use crate::shared_informer::SharedInformer;
use crate::source::informer_source::Sourced;

/// One user's share in an informer. Dropping the last one ends the informer.
#[must_use = "dropping the last lease ends the informer"]
pub struct InformerLease {
    of: Sourced,
    /// Of the projection that has the fields that this user asked for.
    generation: u64,
    id: InformerId,
    informers: Arc<Informers>,
}

impl InformerLease {
    pub(crate) fn new(of: Sourced, generation: u64, id: InformerId, informers: Arc<Informers>) -> Self {
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

    /// Makes the informer list again, as [`SharedInformer::relist`] does; from the server, also where it follows a wider
    /// one.
    pub fn relist(&self) {
        self.of.source.ask_server();
        self.of.informer.relist();
    }

    /// Waits until the store has all objects with the fields asked for, and the listeners there were have been told of
    /// the first list. `false`: the informer ended before.
    pub async fn wait_synced(&self) -> bool {
        self.of.wait_complete(self.generation).await
    }
}

impl std::ops::Deref for InformerLease {
    type Target = SharedInformer;

    fn deref(&self) -> &SharedInformer {
        &self.of.informer
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
