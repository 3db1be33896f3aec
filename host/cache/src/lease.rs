//! [`InformerLease`]: one user's share in an informer; the informer ends with its last lease.

use std::sync::Arc;

use crate::factory::{InformerId, Informers};
use crate::shared_informer::SharedInformer;

/// One user's share in an informer. Dropping the last one ends the informer.
#[must_use = "dropping the last lease ends the informer"]
pub struct InformerLease {
    informer: SharedInformer,
    id: InformerId,
    informers: Arc<Informers>,
}

impl InformerLease {
    pub(crate) fn new(informer: SharedInformer, id: InformerId, informers: Arc<Informers>) -> Self {
        Self { informer, id, informers }
    }

    /// The informer; its clones do not keep it running.
    #[must_use]
    pub fn informer(&self) -> &SharedInformer {
        &self.informer
    }

    /// What it watches, and where.
    #[must_use]
    pub fn id(&self) -> &InformerId {
        &self.id
    }
}

impl std::ops::Deref for InformerLease {
    type Target = SharedInformer;

    fn deref(&self) -> &SharedInformer {
        &self.informer
    }
}

impl Clone for InformerLease {
    fn clone(&self) -> Self {
        self.informers.share(&self.id);
        Self { informer: self.informer.clone(), id: self.id.clone(), informers: self.informers.clone() }
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
