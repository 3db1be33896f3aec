//! The typed client: [`Api`] over Rust types, be they Kubernetes' own (`k8s-openapi`) or a user's.
//!
//! Invariant: what is sent is what the verbs on raw objects send; only answers are read otherwise. For programs that use this
//! crate: the host itself never knows the types of objects.

mod api;
mod watch;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use pilothouse_object::{Gvk, ListMeta};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::params::ApiResource;

pub use api::Api;
pub use watch::TypedWatch;

/// A kind of object as a Rust type.
///
/// All types of `k8s-openapi` that have an address of their own are resources. Others, as those of custom resources, say what they
/// are; they hold `apiVersion`, `kind` and `metadata` like any object:
///
/// ```
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, Clone, Serialize, Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Greeting {
///     api_version: String,
///     kind: String,
///     metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
///     spec: GreetingSpec,
/// }
///
/// #[derive(Debug, Clone, Serialize, Deserialize)]
/// struct GreetingSpec {
///     text: String,
/// }
///
/// impl pilothouse_client::Resource for Greeting {
///     const GROUP: &'static str = "example.com";
///     const VERSION: &'static str = "v1";
///     const KIND: &'static str = "Greeting";
///     const PLURAL: &'static str = "greetings";
///     const NAMESPACED: bool = true;
///
///     fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
///         &self.metadata
///     }
///
///     fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
///         &mut self.metadata
///     }
/// }
/// ```
pub trait Resource: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its group; empty for the core group.
    const GROUP: &'static str;
    /// Its version.
    const VERSION: &'static str;
    /// Its kind.
    const KIND: &'static str;
    /// Its plural name, as it stands in addresses.
    const PLURAL: &'static str;
    /// Whether its objects live in namespaces.
    const NAMESPACED: bool;

    /// Its metadata: name, namespace, UID, version, labels.
    fn meta(&self) -> &ObjectMeta;

    /// Its metadata, to change it.
    fn meta_mut(&mut self) -> &mut ObjectMeta;

    /// How to reach it.
    #[must_use]
    fn api_resource() -> ApiResource {
        ApiResource::new(Gvk::new(Self::GROUP, Self::VERSION, Self::KIND), Self::PLURAL, Self::NAMESPACED)
    }
}

impl<K> Resource for K
where
    K: k8s_openapi::Resource<Scope: Scope>
        + k8s_openapi::Metadata<Ty = ObjectMeta>
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    const GROUP: &'static str = <K as k8s_openapi::Resource>::GROUP;
    const VERSION: &'static str = <K as k8s_openapi::Resource>::VERSION;
    const KIND: &'static str = <K as k8s_openapi::Resource>::KIND;
    const PLURAL: &'static str = <K as k8s_openapi::Resource>::URL_PATH_SEGMENT;
    const NAMESPACED: bool = <K::Scope as Scope>::NAMESPACED;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.metadata_mut()
    }
}

/// Where a type of `k8s-openapi` lives; not for those that are subresources.
#[doc(hidden)]
pub trait Scope: sealed::Sealed {
    /// Whether that is in namespaces.
    const NAMESPACED: bool;
}

impl Scope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl Scope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::NamespaceResourceScope {}
    impl Sealed for super::ClusterResourceScope {}
}

/// A list of typed objects.
#[derive(Debug, Clone)]
pub struct TypedList<K> {
    /// Its metadata: the version to watch from, and the token of the next page.
    pub meta: ListMeta,
    /// The objects in the server's order.
    pub items: Vec<K>,
}
