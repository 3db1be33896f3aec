//! [`Resource`]: a Rust type of a kind of objects.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::merge::retain;
use super::owners::is_controller;
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

/// The text of an object, or of another part of a write, by its type's `Serialize`.
///
/// Values are made of such texts: with `serde_json::to_value` each type would have a second serializer, which makes a
/// component much larger.
pub(super) fn serialize(what: &str, object: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(object).map_err(|error| not_json(what, &error))
}

/// The value of a text of [`serialize`]. A fraction with some 17 digits may be one unit in the last place off: with
/// serde_json's feature `float_roundtrip`, which reads it exactly, every component is 22 KB larger.
pub(super) fn value_of(what: &str, text: &str) -> Result<Value, Error> {
    // The same code as that of `Object::parse`; `from_str` has other.
    serde_json::from_slice(text.as_bytes()).map_err(|error| not_json(what, &error))
}

/// The error of a type that serde_json cannot write, or that is nested too deeply.
fn not_json(what: &str, error: &serde_json::Error) -> Error {
    Refusal::invalid(format!("the {what} cannot be written as JSON: {error}")).into()
}

/// The fields of an object from the text of [`serialize`]: with `apiVersion` and `kind`, and without fields that are
/// `null`, which `Option` fields without `skip_serializing_if` are.
pub(super) fn fields_of(text: &str, kind: &Kind) -> Result<Map<String, Value>, Error> {
    let mut value = value_of("object", text)?;
    remove_nulls(&mut value);
    let Value::Object(mut fields) = value else {
        return Err(Refusal::invalid("the type is not written as a JSON object").into());
    };
    fields.insert("apiVersion".to_owned(), kind.api_version().into());
    fields.insert("kind".to_owned(), kind.kind().into());
    Ok(fields)
}

/// Removes the fields of all objects that are `null`.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(remove_nulls),
        Value::Object(fields) => {
            retain(fields, &|_, value| !value.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        _ => {}
    }
}

/// The body of a write that sends a whole object.
pub(crate) fn body_of<K: Resource>(object: &K) -> Result<String, Error> {
    text_of(fields_of(&serialize("object", object)?, &K::resource_kind())?)
}

/// The text of an object with these fields.
pub(super) fn text_of(fields: Map<String, Value>) -> Result<String, Error> {
    serialize("object", &Value::Object(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind::core("v1", "ConfigMap");

    #[test]
    fn fields_that_are_null_are_not_written_and_names_may_have_escapes() {
        let text = r#"{"kind":"X","b\n\"":[{"c":null,"d":"\n"}],"a":null,"\u0061\u00e9":{"e":null}}"#;
        let written = text_of(fields_of(text, &KIND).unwrap()).unwrap();
        let wanted = r#"{"apiVersion":"v1","aé":{},"b\n\"":[{"d":"\n"}],"kind":"ConfigMap"}"#;
        assert_eq!(written, wanted);
    }

    #[test]
    fn what_is_no_object_or_is_nested_too_deeply_is_an_error() {
        let nested = |depth: usize| format!(r#"{{"a":{}1{}}}"#, "[".repeat(depth), "]".repeat(depth));
        assert!(fields_of(&nested(126), &KIND).is_ok());
        for (text, wanted) in [
            (nested(127).as_str(), "the object cannot be written as JSON: recursion limit exceeded"),
            ("[]", "the type is not written as a JSON object"),
        ] {
            let error = fields_of(text, &KIND).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
