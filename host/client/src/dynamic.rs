//! [`DynamicClient`] and [`MetadataClient`]: the verbs on objects whose kind is known at run time only.
//!
//! As client-go's `dynamic` and `metadata`: a resource, perhaps a namespace, and then the verbs. Objects are raw
//! ([`Object`]). Both stand on the verbs of [`Client`], which take the same with each call; for programs that use this crate.

use std::sync::Arc;

use http::Method;
use pilothouse_object::{Object, ObjectKey};
use serde::Serialize;

use crate::client::Call;
use crate::client::Client;
use crate::error::Result;
use crate::list::ObjectList;
use crate::params::{ApiResource, DeleteParams, ListParams, Patch, WatchParams, WriteParams};
use crate::verbs::{self, Deleted};
use crate::watch::WatchStream;

/// Leads to the objects of any resource.
///
/// ```no_run
/// use pilothouse_client::{Client, ClientOptions, ListParams, PartialResource};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::new(ClientOptions::default()).await?;
/// let deployments = client.rest_mapper().resource_for(&PartialResource::any("deploy")).await?;
/// let all = client.dynamic().resource(&deployments).list_all(&ListParams::default()).await?;
/// println!("{} of them", all.items.len());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct DynamicClient(Client);

/// Leads to the metadata of the objects of any resource.
#[derive(Debug, Clone)]
pub struct MetadataClient(Client);

impl Client {
    /// The client for objects of any resource.
    #[must_use]
    pub fn dynamic(&self) -> DynamicClient {
        DynamicClient(self.clone())
    }

    /// The client for metadata of any resource.
    #[must_use]
    pub fn metadata(&self) -> MetadataClient {
        MetadataClient(self.clone())
    }
}

impl DynamicClient {
    /// The objects of a resource, in all namespaces or in none.
    #[must_use]
    pub fn resource(&self, resource: &ApiResource) -> DynamicResource {
        let (client, resource) = (self.0.clone(), Arc::new(resource.clone()));
        DynamicResource { client, resource, namespace: None, metadata_only: false }
    }
}

impl MetadataClient {
    /// The objects of a resource, in all namespaces or in none, of which all that is read is the metadata, as
    /// `PartialObjectMetadata`.
    #[must_use]
    pub fn resource(&self, resource: &ApiResource) -> DynamicResource {
        DynamicResource { metadata_only: true, ..self.0.dynamic().resource(resource) }
    }
}

/// The objects of one resource; a cheap clone.
#[derive(Debug, Clone)]
pub struct DynamicResource {
    client: Client,
    resource: Arc<ApiResource>,
    namespace: Option<Arc<str>>,
    metadata_only: bool,
}

impl DynamicResource {
    /// Those of one namespace.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        Self { namespace: Some(Arc::from(namespace)), ..self }
    }

    /// Reads an object, or a subresource of it.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn get(&self, name: &str, subresource: Option<&str>) -> Result<Object> {
        self.object(self.client.get_call(&self.resource, &self.key(name)?, subresource)?).await
    }

    /// Reads a list in pages of `params.limit`, 500 if that is 0. For pages one by one, and objects as they are decoded, there
    /// is [`Client::list_page`].
    ///
    /// # Errors
    /// As [`Client::list_all`].
    pub async fn list_all(&self, params: &ListParams) -> Result<ObjectList> {
        let params =
            ListParams { metadata_only: self.metadata_only || params.metadata_only, ..params.clone() };
        self.client.list_all(&self.resource, self.namespace.as_deref(), &params).await
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// As [`Client::watch`].
    pub async fn watch(&self, params: &WatchParams) -> Result<WatchStream> {
        let params =
            WatchParams { metadata_only: self.metadata_only || params.metadata_only, ..params.clone() };
        self.client.watch(&self.resource, self.namespace.as_deref(), &params).await
    }

    /// Creates an object from anything that is written as its JSON.
    ///
    /// # Errors
    /// As [`Client::create`].
    pub async fn create(&self, object: &impl Serialize, params: &WriteParams) -> Result<Object> {
        let body = verbs::json(object)?;
        self.object(self.client.create_call(&self.resource, self.namespace.as_deref(), &body, params)?).await
    }

    /// Replaces an object, or its subresource.
    ///
    /// # Errors
    /// As [`Client::update`].
    pub async fn update(&self, name: &str, object: &impl Serialize, params: &WriteParams) -> Result<Object> {
        let body = verbs::json(object)?;
        self.object(self.client.write_call(Method::PUT, &self.resource, &self.key(name)?, &body, params)?)
            .await
    }

    /// Patches an object, or its subresource.
    ///
    /// # Errors
    /// As [`Client::patch`].
    pub async fn patch(&self, name: &str, patch: Patch<'_>, params: &WriteParams) -> Result<Object> {
        self.object(self.client.patch_call(&self.resource, &self.key(name)?, patch, params)?).await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// As [`Client::delete`].
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<Deleted> {
        self.client.delete(&self.resource, &self.key(name)?, params).await
    }

    /// Deletes all that a list with these parameters would show.
    ///
    /// # Errors
    /// As [`Client::delete_collection`].
    pub async fn delete_collection(&self, params: &DeleteParams, of: &ListParams) -> Result<()> {
        self.client.delete_collection(&self.resource, self.namespace.as_deref(), params, of).await
    }

    fn key(&self, name: &str) -> Result<ObjectKey> {
        verbs::key(self.namespace.as_deref(), name)
    }

    async fn object(&self, call: Call) -> Result<Object> {
        let call = if self.metadata_only { call.metadata_only() } else { call };
        self.client.object(&call, &self.resource).await
    }
}
