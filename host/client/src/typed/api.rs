//! [`Api`]: the verbs on objects of one Rust type, in one namespace or all.
//!
//! Invariant: answers that are not of the type are told as [`Error::Protocol`](crate::Error::Protocol), with what was being done.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use http::Method;
use pilothouse_object::{Object, ObjectKey};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Resource, TypedList, TypedWatch};
use crate::client::Client;
use crate::client::{Call, failure::unexpected};
use crate::error::Result;
use crate::params::{ApiResource, DeleteParams, ListParams, Patch, WatchParams, WriteParams};
use crate::verbs::{self, Deleted};

/// The verbs on objects of type `K`; a cheap clone.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use pilothouse_client::{Api, Client, ClientOptions, ListParams};
///
/// # async fn example() -> pilothouse_client::Result<()> {
/// let client = Client::new(ClientOptions::default()).await?;
/// let pods: Api<Pod> = Api::namespaced(&client, "kube-system");
/// for pod in pods.list_all(&ListParams::default()).await?.items {
///     println!("{:?}", pod.metadata.name);
/// }
/// # Ok(()) }
/// ```
pub struct Api<K> {
    client: Client,
    resource: Arc<ApiResource>,
    namespace: Option<Arc<str>>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            resource: Arc::clone(&self.resource),
            namespace: self.namespace.clone(),
            kind: PhantomData,
        }
    }
}

impl<K> fmt::Debug for Api<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("resource", &self.resource.gvr())
            .field("namespace", &self.namespace)
            .field("client", &self.client)
            .finish()
    }
}

impl<K: Resource> Api<K> {
    /// Of the whole cluster: all namespaces, or a kind that is in none.
    #[must_use]
    pub fn all(client: &Client) -> Self {
        Self::new(client, None)
    }

    /// Of one namespace.
    #[must_use]
    pub fn namespaced(client: &Client, namespace: &str) -> Self {
        Self::new(client, Some(Arc::from(namespace)))
    }

    /// Of the namespace that the configuration names.
    #[must_use]
    pub fn default_namespaced(client: &Client) -> Self {
        Self::namespaced(client, client.default_namespace())
    }

    fn new(client: &Client, namespace: Option<Arc<str>>) -> Self {
        Self { client: client.clone(), resource: Arc::new(K::api_resource()), namespace, kind: PhantomData }
    }

    /// Reads an object.
    ///
    /// # Errors
    /// As the server answers; so for all verbs.
    pub async fn get(&self, name: &str) -> Result<K> {
        self.send(&self.client.get_call(&self.resource, &self.key(name)?, None)?).await
    }

    /// Reads an object, if it is there.
    ///
    /// # Errors
    /// As [`get`](Self::get), but for one that is not.
    pub async fn get_opt(&self, name: &str) -> Result<Option<K>> {
        match self.get(name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads one page of a list; a limit of 0 asks for all in one.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn list(&self, params: &ListParams) -> Result<TypedList<K>> {
        let mut items = Vec::new();
        let mut keep = |object: Object| items.push(self.typed(&object));
        let meta =
            self.client.list_page(&self.resource, self.namespace.as_deref(), params, &mut keep).await?;
        Ok(TypedList { meta, items: items.into_iter().collect::<Result<_>>()? })
    }

    /// Reads a list in pages of `params.limit`, 500 if that is 0, as one list. See [`Client::list_all`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn list_all(&self, params: &ListParams) -> Result<TypedList<K>> {
        let list = self.client.list_all(&self.resource, self.namespace.as_deref(), params).await?;
        let items = list.items.iter().map(|object| self.typed(object)).collect::<Result<_>>()?;
        Ok(TypedList { meta: list.meta, items })
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// As [`Client::watch`].
    pub async fn watch(&self, params: &WatchParams) -> Result<TypedWatch<K>> {
        let stream = self.client.watch(&self.resource, self.namespace.as_deref(), params).await?;
        Ok(TypedWatch::new(stream))
    }

    /// Creates an object and gives it as the server keeps it.
    ///
    /// # Errors
    /// As [`get`](Self::get); [`Error::Request`](crate::Error::Request) when a namespace is missing.
    pub async fn create(&self, object: &K, params: &WriteParams) -> Result<K> {
        let body = verbs::json(object)?;
        self.send(&self.client.create_call(&self.resource, self.namespace.as_deref(), &body, params)?).await
    }

    /// Replaces an object, or its subresource, and gives it as the server keeps it.
    ///
    /// # Errors
    /// As [`get`](Self::get); a conflict when the object's `resourceVersion` is not the newest.
    pub async fn update(&self, name: &str, object: &K, params: &WriteParams) -> Result<K> {
        let body = verbs::json(object)?;
        self.send(&self.client.write_call(Method::PUT, &self.resource, &self.key(name)?, &body, params)?)
            .await
    }

    /// Replaces the status of an object, see [`update`](Self::update).
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub async fn update_status(&self, name: &str, object: &K, params: &WriteParams) -> Result<K> {
        let params = WriteParams { subresource: Some("status".to_owned()), ..params.clone() };
        self.update(name, object, &params).await
    }

    /// Patches an object, or its subresource, and gives it as the server keeps it.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn patch(&self, name: &str, patch: Patch<'_>, params: &WriteParams) -> Result<K> {
        self.send(&self.client.patch_call(&self.resource, &self.key(name)?, patch, params)?).await
    }

    /// Applies a configuration (server-side apply): anything that is written as JSON with what it wants, and `apiVersion` and
    /// `kind`.
    ///
    /// # Errors
    /// As [`get`](Self::get); a conflict with other managers unless `force`.
    pub async fn apply(
        &self,
        name: &str,
        configuration: &impl Serialize,
        force: bool,
        params: &WriteParams,
    ) -> Result<K> {
        let body = verbs::json(configuration)?;
        self.patch(name, Patch::Apply { body: &body, force }, params).await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// As [`get`](Self::get); a conflict when a precondition does not hold.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<Deleted> {
        self.client.delete(&self.resource, &self.key(name)?, params).await
    }

    /// Deletes all that a list with these parameters would show, see [`Client::delete_collection`].
    ///
    /// # Errors
    /// As [`Client::delete_collection`].
    pub async fn delete_collection(&self, params: &DeleteParams, of: &ListParams) -> Result<()> {
        self.client.delete_collection(&self.resource, self.namespace.as_deref(), params, of).await
    }

    /// Reads a subresource of another type.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn get_subresource<T: DeserializeOwned>(&self, name: &str, subresource: &str) -> Result<T> {
        self.send(&self.client.get_call(&self.resource, &self.key(name)?, Some(subresource))?).await
    }

    /// Creates something on an object, as a token of a service account (`token`) or a binding of a pod (`binding`).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn create_subresource<T: DeserializeOwned>(
        &self,
        name: &str,
        subresource: &str,
        body: &impl Serialize,
        params: &WriteParams,
    ) -> Result<T> {
        let params = WriteParams { subresource: Some(subresource.to_owned()), ..params.clone() };
        let body = verbs::json(body)?;
        self.send(&self.client.write_call(Method::POST, &self.resource, &self.key(name)?, &body, &params)?)
            .await
    }

    fn key(&self, name: &str) -> Result<ObjectKey> {
        verbs::key(self.namespace.as_deref(), name)
    }

    async fn send<T: DeserializeOwned>(&self, call: &Call) -> Result<T> {
        self.client.fetch_json(call).await
    }

    fn typed(&self, object: &Object) -> Result<K> {
        let doing = || format!("list of {}: {}", self.resource.plural, object.key().as_str());
        serde_json::from_slice(object.bytes()).map_err(|e| unexpected(doing(), &e))
    }
}
