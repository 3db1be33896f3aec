//! The schemas of custom resources: that of the definition with what every object has.
//!
//! As on a real server, `metadata` is the metadata of all kinds whatever the definition says of it, embedded resources get
//! the fields of one, and what is an integer or a string says so in words that every reader of OpenAPI knows.

use serde_json::{Value, json};

use super::components::{group_version_kind, reference};
use crate::api::JsonMap;
use crate::resources::Resource;
use crate::schema::{MAX_DEPTH, fingerprint};
use crate::store::Store;

pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// The schema of a custom resource.
pub(super) struct CustomSchema {
    pub(super) schema: Value,
    /// It is the one by which the resource is served; if not, the definition has just been written.
    pub(super) is_served: bool,
}

/// The name of the component of a kind: `com.example.stable.v1.CronTab`.
pub(super) fn component(resource: &Resource, kind: &str) -> String {
    let group: Vec<&str> = resource.group.rsplit('.').collect();
    format!("{}.{}.{kind}", group.join("."), resource.version)
}

/// The schema of the objects of a custom resource.
pub(super) fn schema(resource: &Resource, store: &Store) -> CustomSchema {
    let defined = defined_schema(resource, store);
    let is_served = defined.as_ref().map(fingerprint) == resource.schema_fingerprint();
    let mut schema = defined.unwrap_or_else(open_schema_map);
    extend(&mut schema, 0);
    add_fields_of_resource(&mut schema);
    CustomSchema { schema: with_kind(schema, resource, &resource.kind), is_served }
}

/// The schema of a custom resource whose own one would make the document too large: any fields.
pub(super) fn open_schema(resource: &Resource) -> Value {
    let mut schema = open_schema_map();
    add_fields_of_resource(&mut schema);
    with_kind(schema, resource, &resource.kind)
}

/// The schema of the lists of a custom resource.
pub(super) fn list_schema(resource: &Resource) -> Value {
    let mut schema = JsonMap::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("required".to_owned(), json!(["items"]));
    let items = reference(&component(resource, &resource.kind));
    let fields = json!({
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": reference(LIST_META),
        "items": {"type": "array", "items": items},
    });
    schema.insert("properties".to_owned(), fields);
    with_kind(schema, resource, &resource.list_kind)
}

fn with_kind(mut schema: JsonMap, resource: &Resource, kind: &str) -> Value {
    let kinds = vec![group_version_kind(&resource.group, &resource.version, kind)];
    schema.insert("x-kubernetes-group-version-kind".to_owned(), kinds.into());
    schema.into()
}

fn open_schema_map() -> JsonMap {
    let mut schema = JsonMap::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
    schema
}

/// The schema as the definition has it.
fn defined_schema(resource: &Resource, store: &Store) -> Option<JsonMap> {
    let stored = store.get(DEFINITIONS, &format!("{}.{}", resource.name, resource.group))?;
    let mut definition = Value::Object(stored.value());
    let versions = definition.pointer_mut("/spec/versions")?.as_array_mut()?;
    let version = versions.iter_mut().find(|version| version["name"] == resource.version.as_str())?;
    match version.pointer_mut("/schema/openAPIV3Schema")?.take() {
        Value::Object(schema) => Some(schema),
        _ => None,
    }
}

/// Extends a schema and those in it.
fn extend(schema: &mut JsonMap, depth: usize) {
    // Deeper ones are not accepted when a definition is written.
    if depth > MAX_DEPTH {
        return;
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            extend(property, depth + 1);
        }
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = schema.get_mut(inner) {
            extend(inner, depth + 1);
        }
    }
    let is_on = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    let (is_resource, is_int_or_string) =
        (is_on("x-kubernetes-embedded-resource"), is_on("x-kubernetes-int-or-string"));
    if is_resource {
        add_fields_of_resource(schema);
        let required = schema.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(required) = required {
            for field in ["kind", "apiVersion"].map(Value::from) {
                if !required.contains(&field) {
                    required.push(field);
                }
            }
        }
    }
    if is_int_or_string && !schema.contains_key("anyOf") && !schema.contains_key("allOf") {
        schema.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
}

/// `apiVersion`, `kind` and `metadata`, in place of what the definition says of them.
fn add_fields_of_resource(schema: &mut JsonMap) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        for field in ["apiVersion", "kind"] {
            properties.insert(field.to_owned(), json!({"type": "string"}));
        }
        properties.insert("metadata".to_owned(), reference(OBJECT_META));
    }
}
