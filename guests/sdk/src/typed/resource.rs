//! [`Resource`]: a Rust type of a kind of objects.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::owners::is_controller;
use crate::json::{Fields, Json};
use crate::{Error, Key, Kind, OwnerReference, Refusal};

/// A Rust type of a kind of objects. Its kind, plural and scope are written once, and watches, permissions, reads and
/// writes take them from the type.
///
/// - `#[derive(Resource)]` implements it for a struct of your own, with the fields that you use:
///
///   ```
///   use pilothouse_sdk::prelude::*;
///
///   #[derive(Resource, Serialize, Deserialize, Default)]
///   #[resource(group = "apps", version = "v1")]
///   struct Deployment {
///       metadata: Metadata,
///       #[serde(default)]
///       spec: DeploymentSpec,
///   }
///
///   #[derive(Serialize, Deserialize, Default)]
///   #[serde(default)]
///   struct DeploymentSpec {
///       replicas: Option<i32>,
///   }
///
///   fn replicas(ctx: &Context, key: &Key) -> Result<Option<i32>, Failure> {
///       Ok(ctx.get::<Deployment>(key)?.and_then(|deployment| deployment.spec.replicas))
///   }
///   ```
///
/// - With the feature `kube`, every type that implements `kube_core::Resource` is one: those of `k8s-openapi` and of
///   `#[derive(CustomResource)]`.
/// - Kinds that have no type are read and written as [`Object`](crate::Object) and JSON, with
///   [`Context::cache`](crate::Context::cache) and [`Context::client`](crate::Context::client).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kind of objects",
    note = "add `#[derive(Resource)]` to a struct of your own",
    note = "types of k8s-openapi and of `#[derive(CustomResource)]` need the feature `kube` of pilothouse-sdk"
)]
pub trait Resource: Serialize + DeserializeOwned {
    /// The type of `metadata`.
    type Metadata: ObjectMetadata;

    /// Group, version and kind.
    fn resource_kind() -> Kind;

    /// The plural in paths of the API and in permissions, such as `deployments`.
    fn resource_plural() -> Cow<'static, str>;

    /// Whether objects have a namespace.
    fn resource_scope() -> Scope;

    /// The metadata of the object.
    fn metadata(&self) -> &Self::Metadata;

    /// The metadata of the object, to change it.
    fn metadata_mut(&mut self) -> &mut Self::Metadata;

    /// Namespace and name.
    fn key(&self) -> Key {
        Key::namespaced(self.metadata().namespace(), self.metadata().name())
    }

    /// Whether the other object is the managing controller of this one.
    fn is_controlled_by<O: Resource>(&self, owner: &O) -> bool {
        is_controller(owner.metadata().uid(), &self.metadata().owner_references())
    }
}

/// Whether objects of a kind have a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Objects have a namespace.
    Namespaced,
    /// Objects have none.
    Cluster,
}

/// Access to the metadata of a [`Resource`]: [`Metadata`](crate::Metadata), or `ObjectMeta` of `k8s-openapi`.
pub trait ObjectMetadata {
    /// Name; empty if the object has none yet.
    fn name(&self) -> &str;
    /// Namespace; empty for a cluster-scoped object.
    fn namespace(&self) -> &str;
    /// UID; empty if the object was not created yet.
    fn uid(&self) -> &str;
    /// Resource version; empty if the object was not created yet.
    fn resource_version(&self) -> &str;
    /// Generation, if the kind has it.
    fn generation(&self) -> Option<i64>;
    /// Whether deletion was requested.
    fn is_being_deleted(&self) -> bool;
    /// The value of a label.
    fn label(&self, name: &str) -> Option<&str>;
    /// The value of an annotation.
    fn annotation(&self, name: &str) -> Option<&str>;
    /// All finalizers.
    fn finalizers(&self) -> &[String];
    /// All owner references.
    fn owner_references(&self) -> Vec<OwnerReference>;
    /// Replaces the owner references.
    fn set_owner_references(&mut self, owners: Vec<OwnerReference>);
    /// Sets namespace and name.
    fn set_key(&mut self, key: &Key);
}

/// The text of an object by its type's `Serialize`.
pub(super) fn serialize<K: Resource>(object: &K) -> Result<String, Error> {
    serde_json::to_string(object)
        .map_err(|error| Refusal::invalid(format!("the object cannot be written as JSON: {error}")).into())
}

/// The fields of an object from the text of [`serialize`]: with `apiVersion` and `kind`, and without fields that are
/// `null`, which `Option` fields without `skip_serializing_if` are.
pub(super) fn fields_of<'t>(text: &'t str, kind: &Kind) -> Result<Fields<'t>, Error> {
    let mut value = Json::parse(text).unwrap_or_else(Json::null);
    value.remove_nulls();
    let Json::Object(mut fields) = value else {
        return Err(Refusal::invalid("the type is not written as a JSON object").into());
    };
    fields.set("apiVersion", Json::text(&kind.api_version()));
    fields.set("kind", Json::text(kind.kind()));
    Ok(fields)
}

/// The body of a write that sends a whole object.
pub(crate) fn body_of<K: Resource>(object: &K) -> Result<String, Error> {
    Ok(Json::Object(fields_of(&serialize(object)?, &K::resource_kind())?).to_text())
}
