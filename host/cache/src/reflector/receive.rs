//! What becomes of an object between the decoder and the queue: transformed, once, and then the one that is held when it
//! is the same version.
//!
//! Invariant: an object that cannot be transformed changes nothing under its key; it is logged and counted.

use std::sync::Arc;

use pilothouse_object::{Gvr, Object, ObjectKey};

use super::options::Transform;
use super::status::{Shared, count};
use crate::indexer::Indexer;

/// Takes objects in, for lists and watches alike.
#[derive(Clone)]
pub(super) struct ObjectReceiver {
    pub(super) resource: Gvr,
    pub(super) transform: Option<Transform>,
    pub(super) indexer: Arc<Indexer>,
    pub(super) shared: Arc<Shared>,
}

impl ObjectReceiver {
    /// An object of a list: what is to be kept of it. When it cannot be transformed, that is what is held under its key,
    /// if anything.
    pub(super) fn listed(&self, object: Object) -> Option<Object> {
        self.transformed_or_held(object).map(|object| self.indexer.canonical(object))
    }

    /// An object of a list; the one held under its key, if any, when it cannot be transformed.
    pub(super) fn transformed_or_held(&self, object: Object) -> Option<Object> {
        self.transformed(object).map_or_else(|key| self.indexer.get(&key), Some)
    }

    /// An object that a watch shows; its key when it cannot be transformed. It is not packed yet: it has just changed.
    pub(super) fn watched(&self, object: Object) -> Result<Object, ObjectKey> {
        self.transformed(object).map(|object| self.indexer.held_or(object))
    }

    fn transformed(&self, object: Object) -> Result<Object, ObjectKey> {
        let Some(transform) = &self.transform else { return Ok(object) };
        let key = object.key().clone();
        transform(object).map_err(|error| {
            count(&self.shared.transform_errors);
            tracing::warn!(event = "transform_failed", cluster = self.shared.cluster(), resource = %self.resource,
                %key, %error,
                "an object cannot be transformed; it is passed over");
            key
        })
    }
}
