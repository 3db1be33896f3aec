//! The verbs on single objects: get, create, update, patch, delete.

use http::Method;
use pilothouse_object::{Object, ObjectKey};
use serde::{Deserialize, Serialize};

use crate::call::{Call, OBJECT_LIMIT, protocol};
use crate::client::Client;
use crate::error::{Error, Result, Status};
use crate::params::{ApiResource, DeleteParams, Patch, Propagation, WriteParams};
use crate::rest::PatchKind;
use crate::url::Target;

/// What a server answers to a delete.
#[derive(Debug, Clone)]
pub enum Deleted {
    /// The object in its last state, or waiting for its finalizers, its grace period or its dependents.
    Object(Object),
    /// Done, or done by somebody else later; without the object.
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
        self.object(&Call::read(Target::object(resource, key, subresource)?), resource).await
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
        if let Some(subresource) = &params.subresource {
            let message = format!("{subresource} is created on an object: send it with `request_raw`");
            return Err(Error::Request(message));
        }
        if resource.namespaced && namespace.is_none_or(str::is_empty) {
            return Err(Error::Request(format!("creating one of {} needs a namespace", resource.plural)));
        }
        let mut target = Target::collection(resource, namespace)?;
        target.write(params, self.field_manager()?);
        self.object(&Call::new(Method::POST, target).body("application/json", body), resource).await
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
        let mut target = Target::object(resource, key, params.subresource.as_deref())?;
        target.write(params, self.field_manager()?);
        self.object(&Call::new(Method::PUT, target).body("application/json", body), resource).await
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
        self.object(&Call::new(Method::PATCH, target).body(kind.content_type(), body), resource).await
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
        let options = serde_json::to_vec(&DeleteOptions::from(params))
            .map_err(|e| Error::Request(format!("delete options: {e}")))?;
        let target = Target::object(resource, key, None)?;
        let call = Call::new(Method::DELETE, target).body("application/json", &options);
        let body = self.fetch_ok(&call, OBJECT_LIMIT).await?;

        #[derive(Deserialize)]
        struct Kind<'a> {
            #[serde(borrow)]
            kind: Option<std::borrow::Cow<'a, str>>,
        }
        let unexpected = |e: &dyn std::fmt::Display| protocol(self.doing(&call), &e.to_string());
        let kind: Kind<'_> = serde_json::from_slice(&body).map_err(|e| unexpected(&e))?;
        if kind.kind.as_deref() == Some("Status") {
            return Ok(Deleted::Status(serde_json::from_slice(&body).map_err(|e| unexpected(&e))?));
        }
        Ok(Deleted::Object(Object::decode_as(&body, &resource.gvk).map_err(|e| unexpected(&e))?))
    }

    fn field_manager(&self) -> Result<&str> {
        self.caller.as_ref().map(|caller| caller.field_manager.as_str()).map_err(Error::clone)
    }

    async fn object(&self, call: &Call, resource: &ApiResource) -> Result<Object> {
        let body = self.fetch_ok(call, OBJECT_LIMIT).await?;
        Object::decode_as(&body, &resource.gvk).map_err(|e| protocol(self.doing(call), &e.to_string()))
    }
}

/// `DeleteOptions` of the API.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions<'a> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    preconditions: Option<PreconditionsBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<[&'static str; 1]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PreconditionsBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
}

impl<'a> From<&'a DeleteParams> for DeleteOptions<'a> {
    fn from(params: &'a DeleteParams) -> Self {
        let uid = params.preconditions.uid.as_deref();
        let resource_version = params.preconditions.resource_version.as_deref();
        Self {
            api_version: "v1",
            kind: "DeleteOptions",
            preconditions: (uid.is_some() || resource_version.is_some())
                .then_some(PreconditionsBody { uid, resource_version }),
            propagation_policy: params.propagation.map(|propagation| match propagation {
                Propagation::Orphan => "Orphan",
                Propagation::Background => "Background",
                Propagation::Foreground => "Foreground",
            }),
            grace_period_seconds: params.grace_period_seconds,
            dry_run: params.dry_run.then_some(["All"]),
        }
    }
}
