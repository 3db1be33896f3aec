//! What becomes of an object between the decoder and the queue: transformed, once, and then the one that is held when it
//! is the same version.
//!
//! Invariant: an object that cannot be transformed changes nothing under its key; it is logged and counted.

use std::sync::Arc;

use pilothouse_object::{Gvr, Object};

use super::options::Transform;
use super::status::{Shared, count};
use crate::indexer::Indexer;

/// Takes objects in, for lists and watches alike.
#[derive(Clone)]
pub(super) struct Receiver {
    pub(super) resource: Gvr,
    pub(super) transform: Option<Transform>,
    pub(super) indexer: Arc<Indexer>,
    pub(super) shared: Arc<Shared>,
}

impl Receiver {
    /// An object of a list, or one that a watch shows: what is to be kept of it. When it cannot be transformed, that is
    /// what is held under its key, if anything.
    pub(super) fn receive(&self, object: Object) -> Option<Object> {
        let Some(transform) = &self.transform else { return Some(self.indexer.canonical(object)) };
        // A clone is a count: the key is needed for the log when it fails.
        match transform(object.clone()) {
            Ok(object) => Some(self.indexer.canonical(object)),
            Err(error) => {
                count(&self.shared.transform_errors);
                tracing::warn!(resource = %self.resource, key = %object.key(), %error,
                    "an object cannot be transformed; it is passed over");
                self.indexer.get(object.key())
            }
        }
    }
}
