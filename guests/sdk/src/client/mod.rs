//! Live calls to the API server. The host checks each call against the plugin's permissions before it sends it. Use
//! them for writes, and for reads that must not be stale; use the [`cache`](crate::cache) for other reads.
//!
//! A body is any type with `Serialize`, such as `json!`. A body for [`create`](Client::create),
//! [`update`](Client::update) or [`apply`](Client::apply) needs `apiVersion`, `kind` and `metadata.name`, like a
//! Kubernetes manifest. Typed objects have [`Api`](crate::Api).
//!
//! # Errors
//! Every call is an [`Error`] when the manifest does not grant the call, the call is malformed, the API server responds
//! with an error, or no response arrives in time.

mod list;
mod options;
mod subresources;

use serde::Serialize;

use crate::sys::{CallOptions, PatchKind};
use crate::{Context, Error, Key, Kind, Object, Refusal};

pub use list::{List, Page, Pages};
pub use options::{
    ApplyOptions, DeleteOptions, FieldValidation, ListOptions, LogOptions, Preconditions, Propagation,
    VersionMatch, WriteOptions,
};

/// Live calls to the API server; see the [module](self).
#[derive(Clone, Copy)]
pub struct Client<'call> {
    ctx: &'call Context,
}

impl<'call> Client<'call> {
    pub(crate) fn new(ctx: &'call Context) -> Self {
        Self { ctx }
    }

    /// Reads one object. A missing object is an error ([`Error::is_not_found`]).
    ///
    /// # Errors
    /// See the [module](self).
    pub fn get(&self, kind: &Kind, key: &Key) -> Result<Object<'call>, Error> {
        let options = CallOptions::default();
        Ok(Object::new(self.ctx.host().client_get(self.ctx.cluster(), kind, key, &options)?))
    }

    /// Reads one object; `None` if it does not exist.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn get_opt(&self, kind: &Kind, key: &Key) -> Result<Option<Object<'call>>, Error> {
        match self.get(kind, key) {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists objects, fetched page by page during the iteration; see [`List`].
    pub fn list(&self, kind: &Kind, options: &ListOptions) -> List<'call> {
        List::new(self.ctx, kind, options)
    }

    /// Creates an object. The body contains its namespace and name.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn create(
        &self,
        kind: &Kind,
        body: &impl Serialize,
        options: &WriteOptions,
    ) -> Result<Object<'call>, Error> {
        self.create_json(kind, &json(body)?, options)
    }

    pub(crate) fn create_json(
        &self,
        kind: &Kind,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Object<'call>, Error> {
        Ok(Object::new(self.ctx.host().client_create(self.ctx.cluster(), kind, body, &options.raw())?))
    }

    /// Replaces an object. If the body has a `metadata.resourceVersion`, it must be the current one; otherwise the call
    /// fails with a conflict.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn update(
        &self,
        kind: &Kind,
        body: &impl Serialize,
        options: &WriteOptions,
    ) -> Result<Object<'call>, Error> {
        self.update_json(kind, &json(body)?, options)
    }

    pub(crate) fn update_json(
        &self,
        kind: &Kind,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Object<'call>, Error> {
        Ok(Object::new(self.ctx.host().client_update(self.ctx.cluster(), kind, body, &options.raw())?))
    }

    /// Replaces the status of an object. The API server ignores the rest of the body.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn update_status(&self, kind: &Kind, body: &impl Serialize) -> Result<Object<'call>, Error> {
        self.update(kind, body, &WriteOptions::status())
    }

    /// Patches an object with an RFC 7396 merge patch.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn patch_merge(
        &self,
        kind: &Kind,
        key: &Key,
        patch: &impl Serialize,
        options: &WriteOptions,
    ) -> Result<Object<'call>, Error> {
        self.patch(kind, key, PatchKind::Merge, &json(patch)?, &options.raw())
    }

    /// Patches an object with an RFC 6902 JSON patch: a list of operations.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn patch_json(
        &self,
        kind: &Kind,
        key: &Key,
        patch: &impl Serialize,
        options: &WriteOptions,
    ) -> Result<Object<'call>, Error> {
        self.patch(kind, key, PatchKind::Json, &json(patch)?, &options.raw())
    }

    /// Patches an object with a strategic merge patch. Only kinds that are built into Kubernetes support it.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn patch_strategic(
        &self,
        kind: &Kind,
        key: &Key,
        patch: &impl Serialize,
        options: &WriteOptions,
    ) -> Result<Object<'call>, Error> {
        self.patch(kind, key, PatchKind::Strategic, &json(patch)?, &options.raw())
    }

    /// Applies an object (server-side apply). Sets the fields of `body`, and removes fields that this field manager
    /// applied before and `body` lacks. Creates a missing object. If another manager owns a field that `body` sets to
    /// another value, the call fails with a conflict ([`Error::is_conflict`]) that names the field, unless
    /// [`ApplyOptions::force`].
    ///
    /// # Errors
    /// See the [module](self).
    pub fn apply(
        &self,
        kind: &Kind,
        key: &Key,
        body: &impl Serialize,
        options: &ApplyOptions,
    ) -> Result<Object<'call>, Error> {
        self.apply_json(kind, key, &json(body)?, options)
    }

    pub(crate) fn apply_json(
        &self,
        kind: &Kind,
        key: &Key,
        body: &[u8],
        options: &ApplyOptions,
    ) -> Result<Object<'call>, Error> {
        self.patch(kind, key, PatchKind::Apply, body, &options.raw())
    }

    /// Deletes an object. A missing object is an error ([`Error::is_not_found`]). Returns the object if the server keeps
    /// it, for finalizers or a grace period.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn delete(
        &self,
        kind: &Kind,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Option<Object<'call>>, Error> {
        let kept = self.ctx.host().client_delete(self.ctx.cluster(), kind, key, &options.raw())?;
        Ok(kept.map(Object::new))
    }

    /// Deletes all objects that the list options select: `namespace`, `label_selector` and `field_selector`.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn delete_collection(
        &self,
        kind: &Kind,
        which: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(), Error> {
        let options = CallOptions {
            namespace: which.namespace.as_deref(),
            label_selector: which.label_selector.as_deref(),
            field_selector: which.field_selector.as_deref(),
            ..options.raw()
        };
        Ok(self.ctx.host().client_delete_collection(self.ctx.cluster(), kind, &options)?)
    }

    pub(crate) fn patch(
        &self,
        kind: &Kind,
        key: &Key,
        patch: PatchKind,
        body: &[u8],
        options: &CallOptions<'_>,
    ) -> Result<Object<'call>, Error> {
        Ok(Object::new(self.ctx.host().client_patch(self.ctx.cluster(), kind, key, patch, body, options)?))
    }
}

fn json(body: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(body)
        .map_err(|error| Refusal::invalid(format!("the body cannot be written as JSON: {error}")))
}
