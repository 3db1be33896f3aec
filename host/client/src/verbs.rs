//! The verbs on single objects: get, create, update, patch, delete, evict; and to delete all of a collection.
//!
//! The typed client sends the same calls, and decodes the responses into its types.

use http::Method;
use pilothouse_object::{Gvk, Object, ObjectKey};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::client::failure::{undecodable, unexpected};
use crate::client::{Call, Client, OBJECT_LIMIT};
use crate::error::{Error, Result, Status};
use crate::params::{
    ApiResource, DeleteParams, ListParams, Patch, PatchKind, Preconditions, Propagation, WriteParams,
};
use crate::url::Target;

/// The response to a delete.
#[derive(Debug, Clone)]
pub enum Deleted {
    /// The object in its last state, or waiting for its finalizers, its grace period or its dependents.
    Object(Object),
    /// Deleted, or marked for deletion; without the object.
    Status(Box<Status>),
}

impl Client {
    /// Reads one object, or a subresource of it.
    ///
    /// # Errors
    /// As the server answers; [`Error::Request`] when the key does not fit the resource.
    pub async fn get(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
        subresource: Option<&str>,
    ) -> Result<Object> {
        self.object(&self.get_call(resource, key, subresource)?, resource).await
    }

    /// Reads one object, or a subresource of it, from whatever the server has that is not older than a version; `"0"` is any.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn get_not_older(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
        subresource: Option<&str>,
        version: &str,
    ) -> Result<Object> {
        let mut target = Target::object(resource, key, subresource)?;
        target.query("resourceVersion", version);
        self.object(&Call::read(target), resource).await
    }

    /// Creates an object from its JSON and gives it as the server keeps it. The object's name is in the body.
    ///
    /// # Errors
    /// As the server answers; [`Error::Request`] when a subresource is asked for, or a namespace is missing.
    pub async fn create(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        body: &[u8],
        params: &WriteParams,
    ) -> Result<Object> {
        self.object(&self.create_call(resource, namespace, body, params)?, resource).await
    }

    pub(crate) fn get_call(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
        subresource: Option<&str>,
    ) -> Result<Call> {
        Ok(Call::read(Target::object(resource, key, subresource)?))
    }

    pub(crate) fn create_call(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        body: &[u8],
        params: &WriteParams,
    ) -> Result<Call> {
        if let Some(subresource) = &params.subresource {
            let message = format!("{subresource} is created on an object: send it with `request_raw`");
            return Err(Error::Request(message));
        }
        if resource.namespaced && namespace.is_none_or(str::is_empty) {
            return Err(Error::Request(format!("creating one of {} needs a namespace", resource.plural)));
        }
        let mut target = Target::collection(resource, namespace)?;
        target.write(params, self.field_manager()?);
        Ok(Call::new(Method::POST, target).body("application/json", body))
    }

    /// Replaces an object, or its subresource, by its JSON and gives it as the server keeps it.
    ///
    /// # Errors
    /// As the server answers; a conflict when the body's `resourceVersion` is not the newest.
    pub async fn update(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
        body: &[u8],
        params: &WriteParams,
    ) -> Result<Object> {
        self.object(&self.write_call(Method::PUT, resource, key, body, params)?, resource).await
    }

    /// The call that writes an object, or a subresource of it.
    pub(crate) fn write_call(
        &self,
        method: Method,
        resource: &ApiResource,
        key: &ObjectKey,
        body: &[u8],
        params: &WriteParams,
    ) -> Result<Call> {
        let mut target = Target::object(resource, key, params.subresource.as_deref())?;
        target.write(params, self.field_manager()?);
        Ok(Call::new(method, target).body("application/json", body))
    }

    /// Patches an object, or its subresource, and gives it as the server keeps it.
    ///
    /// # Errors
    /// As the server answers.
    pub async fn patch(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
        patch: Patch<'_>,
        params: &WriteParams,
    ) -> Result<Object> {
        self.object(&self.patch_call(resource, key, patch, params)?, resource).await
    }

    pub(crate) fn patch_call(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
        patch: Patch<'_>,
        params: &WriteParams,
    ) -> Result<Call> {
        let mut target = Target::object(resource, key, params.subresource.as_deref())?;
        target.write(params, self.field_manager()?);
        let (kind, body) = match patch {
            Patch::Json(body) => (PatchKind::Json, body),
            Patch::Merge(body) => (PatchKind::Merge, body),
            Patch::Strategic(body) => (PatchKind::Strategic, body),
            Patch::Apply { body, force } => {
                target.query("force", if force { "true" } else { "false" });
                (PatchKind::Apply, body)
            }
        };
        Ok(Call::new(Method::PATCH, target).body(kind.content_type(), body))
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// As the server answers; a conflict when a precondition does not hold.
    pub async fn delete(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
        params: &DeleteParams,
    ) -> Result<Deleted> {
        let target = Target::object(resource, key, None)?;
        let call =
            Call::new(Method::DELETE, target).body("application/json", &json(&delete_options(params))?);
        let body = self.fetch_ok(&call, OBJECT_LIMIT).await?;

        #[derive(Deserialize)]
        struct Kind<'a> {
            #[serde(borrow)]
            kind: Option<std::borrow::Cow<'a, str>>,
        }
        let unexpected = |e: &serde_json::Error| unexpected(self.doing(&call), e);
        let kind: Kind<'_> = serde_json::from_slice(&body).map_err(|e| unexpected(&e))?;
        if kind.kind.as_deref() == Some("Status") {
            return Ok(Deleted::Status(serde_json::from_slice(&body).map_err(|e| unexpected(&e))?));
        }
        Ok(Deleted::Object(
            Object::decode_as(&body, &resource.gvk).map_err(|e| undecodable(self.doing(&call), &e))?,
        ))
    }

    /// Deletes all objects that a list with these parameters would show, one after the other and not as one change.
    ///
    /// # Errors
    /// As the server answers; some may be gone by then. [`Error::Request`] for a namespaced resource without a namespace: the
    /// server would not do it.
    pub async fn delete_collection(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        params: &DeleteParams,
        of: &ListParams,
    ) -> Result<()> {
        if resource.namespaced && namespace.is_none_or(str::is_empty) {
            return Err(Error::Request(format!("deleting all {} needs a namespace", resource.plural)));
        }
        let mut target = Target::collection(resource, namespace)?;
        target.list(of);
        let call =
            Call::new(Method::DELETE, target).body("application/json", &json(&delete_options(params))?);
        // The response lists all deleted objects.
        self.fetch_pieces(&call, &mut |_| Ok(())).await
    }

    /// Asks for a pod to be evicted, which a disruption budget may refuse.
    ///
    /// # Errors
    /// As the server answers: too many requests ([`Error::is_too_many_requests`]) when a budget does not allow it now.
    pub async fn evict(&self, pod: &ObjectKey, params: &DeleteParams) -> Result<()> {
        let resource = ApiResource::new(Gvk::new("", "v1", "Pod"), "pods", true);
        let body = json(&json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name(), "namespace": pod.namespace()},
            "deleteOptions": delete_options(params),
        }))?;
        let params = WriteParams { subresource: Some("eviction".to_owned()), ..WriteParams::default() };
        let call = self.write_call(Method::POST, &resource, pod, &body, &params)?;
        self.fetch_ok(&call, OBJECT_LIMIT).await.map(drop)
    }

    fn field_manager(&self) -> Result<&str> {
        self.identity.as_ref().map(|identity| identity.field_manager.as_str()).map_err(Error::clone)
    }

    /// Sends a call and reads its answer as JSON.
    #[cfg(feature = "typed")]
    pub(crate) async fn fetch_json<T: serde::de::DeserializeOwned>(&self, call: &Call) -> Result<T> {
        let body = self.fetch_ok(call, OBJECT_LIMIT).await?;
        serde_json::from_slice(&body).map_err(|e| unexpected(self.doing(call), &e))
    }

    pub(crate) async fn object(&self, call: &Call, resource: &ApiResource) -> Result<Object> {
        let body = self.fetch_ok(call, OBJECT_LIMIT).await?;
        Object::decode_as(&body, &resource.gvk).map_err(|e| undecodable(self.doing(call), &e))
    }
}

/// The key of an object from its parts.
#[cfg(any(feature = "dynamic", feature = "typed"))]
pub(crate) fn key(namespace: Option<&str>, name: &str) -> Result<ObjectKey> {
    ObjectKey::new(namespace, name).map_err(|e| Error::Request(e.to_string()))
}

/// A body as JSON.
pub(crate) fn json(body: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(body).map_err(|e| Error::Request(format!("the body cannot be written as JSON: {e}")))
}

/// `DeleteOptions` of the API.
fn delete_options(params: &DeleteParams) -> Value {
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    let Preconditions { uid, resource_version } = &params.preconditions;
    let preconditions = [("uid", uid), ("resourceVersion", resource_version)];
    for (name, value) in preconditions.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        options["preconditions"][name] = value.as_str().into();
    }
    if let Some(propagation) = params.propagation {
        options["propagationPolicy"] = match propagation {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        }
        .into();
    }
    if let Some(seconds) = params.grace_period_seconds {
        options["gracePeriodSeconds"] = seconds.into();
    }
    if params.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    options
}
