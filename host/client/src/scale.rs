//! [`ScaleApi`]: how many replicas there are and should be, of any kind that has a scale.
//!
//! A kind's own type is not needed: the subresource is `autoscaling/v1` `Scale` everywhere, custom resources included.

use std::sync::Arc;

use http::Method;
pub use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus};
use pilothouse_object::ObjectKey;

use crate::client::Client;
use crate::error::Result;
use crate::params::{ApiResource, Patch, WriteParams};
use crate::verbs;

/// The scales of one kind, in one namespace or of a kind that is in none; a cheap clone.
#[derive(Debug, Clone)]
pub struct ScaleApi {
    client: Client,
    resource: Arc<ApiResource>,
    namespace: Option<Arc<str>>,
}

impl Client {
    /// The scales of a resource.
    #[must_use]
    pub fn scale(&self, resource: &ApiResource, namespace: Option<&str>) -> ScaleApi {
        let (resource, namespace) = (Arc::new(resource.clone()), namespace.map(Arc::from));
        ScaleApi { client: self.clone(), resource, namespace }
    }
}

impl ScaleApi {
    /// Reads the scale of an object.
    ///
    /// # Errors
    /// As the server answers: not found as well where the kind has no scale.
    pub async fn get(&self, name: &str) -> Result<Scale> {
        let call = self.client.get_call(&self.resource, &self.key(name)?, Some("scale"))?;
        self.client.fetch_json(&call).await
    }

    /// Replaces the scale of an object.
    ///
    /// # Errors
    /// As the server answers; a conflict when the scale's `resourceVersion` is not the newest.
    pub async fn update(&self, name: &str, scale: &Scale, params: &WriteParams) -> Result<Scale> {
        let body = verbs::json(scale)?;
        let call = self.client.write_call(
            Method::PUT,
            &self.resource,
            &self.key(name)?,
            &body,
            &on_scale(params),
        )?;
        self.client.fetch_json(&call).await
    }

    /// Patches the scale of an object; not with [`Patch::Strategic`] where the kind is a custom one.
    ///
    /// # Errors
    /// As the server answers.
    pub async fn patch(&self, name: &str, patch: Patch<'_>, params: &WriteParams) -> Result<Scale> {
        let call = self.client.patch_call(&self.resource, &self.key(name)?, patch, &on_scale(params))?;
        self.client.fetch_json(&call).await
    }

    fn key(&self, name: &str) -> Result<ObjectKey> {
        verbs::key(self.namespace.as_deref(), name)
    }
}

fn on_scale(params: &WriteParams) -> WriteParams {
    WriteParams { subresource: Some("scale".to_owned()), ..params.clone() }
}
