//! [`Metadata`]: `metadata` of objects in structs of a plugin's own.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::ObjectMetadata;
use crate::{Key, OwnerReference};

/// `metadata` of an object, for structs with `#[derive(Resource)]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace; empty for a cluster-scoped object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// UID; empty before the object is created.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Resource version: an opaque string; empty before the object is created.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Counts changes of the spec, if the kind has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// When the object was created, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// When deletion was requested, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Finalizers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Owner references.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
}

/// Absent fields have their default. Every component with a type of its own has this code, and what the derive makes of
/// so many fields is several times larger.
impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::take(Map::deserialize(from)?)
            .map_err(|name| D::Error::custom(format_args!("metadata.{name} has another type")))
    }
}

impl Metadata {
    /// Takes the fields out of a map; the error is the name of one that has another type.
    fn take(mut fields: Map<String, Value>) -> Result<Self, &'static str> {
        let mut metadata = Self::default();
        for (name, text) in [
            ("name", &mut metadata.name),
            ("namespace", &mut metadata.namespace),
            ("uid", &mut metadata.uid),
            ("resourceVersion", &mut metadata.resource_version),
        ] {
            *text = text_of(fields.remove(name)).ok_or(name)?.unwrap_or_default();
        }
        metadata.creation_timestamp =
            text_of(fields.remove("creationTimestamp")).ok_or("creationTimestamp")?;
        metadata.deletion_timestamp =
            text_of(fields.remove("deletionTimestamp")).ok_or("deletionTimestamp")?;
        for (name, entries) in [("labels", &mut metadata.labels), ("annotations", &mut metadata.annotations)]
        {
            for (key, value) in object_of(fields.remove(name)).ok_or(name)? {
                entries.insert(key, text_of(Some(value)).ok_or(name)?.unwrap_or_default());
            }
        }
        metadata.generation = match fields.remove("generation") {
            None | Some(Value::Null) => None,
            Some(value) => Some(value.as_i64().ok_or("generation")?),
        };
        for value in list_of(fields.remove("finalizers")).ok_or("finalizers")? {
            metadata.finalizers.push(text_of(Some(value)).flatten().ok_or("finalizers")?);
        }
        for value in list_of(fields.remove("ownerReferences")).ok_or("ownerReferences")? {
            let owner = object_of(Some(value)).ok_or("ownerReferences")?;
            metadata.owner_references.push(OwnerReference::take(owner).ok_or("ownerReferences")?);
        }
        Ok(metadata)
    }

    /// The metadata of a new object.
    pub fn new(key: &Key) -> Self {
        Self { name: key.name.clone(), namespace: key.namespace.clone(), ..Self::default() }
    }

    /// Adds a label.
    #[must_use]
    pub fn with_label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn with_annotation(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(name.into(), value.into());
        self
    }
}

impl OwnerReference {
    fn take(mut fields: Map<String, Value>) -> Option<Self> {
        let mut owner = Self::default();
        for (name, text) in [
            ("apiVersion", &mut owner.api_version),
            ("kind", &mut owner.kind),
            ("name", &mut owner.name),
            ("uid", &mut owner.uid),
        ] {
            *text = text_of(fields.remove(name))?.unwrap_or_default();
        }
        let is_set = |name: &str| fields.get(name).and_then(Value::as_bool).unwrap_or_default();
        (owner.controller, owner.block_owner_deletion) = (is_set("controller"), is_set("blockOwnerDeletion"));
        Some(owner)
    }
}

/// A text, or none if there is none; nothing if the value has another type.
fn text_of(value: Option<Value>) -> Option<Option<String>> {
    match value {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(text)) => Some(Some(text)),
        Some(_) => None,
    }
}

fn list_of(value: Option<Value>) -> Option<Vec<Value>> {
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(values)) => Some(values),
        Some(_) => None,
    }
}

fn object_of(value: Option<Value>) -> Option<Map<String, Value>> {
    match value {
        None | Some(Value::Null) => Some(Map::new()),
        Some(Value::Object(fields)) => Some(fields),
        Some(_) => None,
    }
}

impl ObjectMetadata for Metadata {
    fn name(&self) -> &str {
        &self.name
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn generation(&self) -> Option<i64> {
        self.generation
    }

    fn is_being_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name).map(String::as_str)
    }

    fn finalizers(&self) -> &[String] {
        &self.finalizers
    }

    fn owner_references(&self) -> Vec<OwnerReference> {
        self.owner_references.clone()
    }

    fn set_owner_references(&mut self, owners: Vec<OwnerReference>) {
        self.owner_references = owners;
    }

    fn set_key(&mut self, key: &Key) {
        self.name.clone_from(&key.name);
        self.namespace.clone_from(&key.namespace);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_is_read_back_and_absent_fields_have_their_default() {
        let text = json!({
            "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
            "labels": {"l": "1"}, "annotations": {"n": "2"}, "finalizers": ["f"],
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "x", "controller": true,
                "blockOwnerDeletion": false,
            }],
        });
        let metadata: Metadata = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(serde_json::to_value(&metadata).unwrap(), text);
        let empty: Metadata = serde_json::from_str(r#"{"labels": null, "generateName": "x-"}"#).unwrap();
        assert_eq!(empty, Metadata::default());
    }

    #[test]
    fn a_field_of_another_type_is_named() {
        for (field, value) in [
            ("name", json!(1)),
            ("labels", json!({"a": true})),
            ("finalizers", json!([1])),
            ("generation", json!("x")),
            ("ownerReferences", json!([{"uid": 7}])),
            ("deletionTimestamp", json!([])),
        ] {
            let error = serde_json::from_value::<Metadata>(json!({field: value})).unwrap_err().to_string();
            assert_eq!(error, format!("metadata.{field} has another type"));
        }
    }
}
