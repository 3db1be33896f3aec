//! [`Metadata`]: `metadata` of objects in structs of a plugin's own.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

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

/// Absent fields, and those that are `null`, have their default, and an error has the name of the field. A derive would need
/// attributes for both on each field.
impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(MetadataVisitor)
    }
}

struct MetadataVisitor;

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = Metadata;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Metadata, A::Error> {
        let mut metadata = Metadata::default();
        while let Some(name) = from.next_key::<String>()? {
            let from = &mut from;
            match name.as_str() {
                "name" => metadata.name = field(from, &name)?,
                "namespace" => metadata.namespace = field(from, &name)?,
                "uid" => metadata.uid = field(from, &name)?,
                "resourceVersion" => metadata.resource_version = field(from, &name)?,
                "generation" => metadata.generation = field(from, &name)?,
                "creationTimestamp" => metadata.creation_timestamp = field(from, &name)?,
                "deletionTimestamp" => metadata.deletion_timestamp = field(from, &name)?,
                "labels" => metadata.labels = field(from, &name)?,
                "annotations" => metadata.annotations = field(from, &name)?,
                "finalizers" => metadata.finalizers = field(from, &name)?,
                "ownerReferences" => metadata.owner_references = field(from, &name)?,
                _ => drop(from.next_value::<IgnoredAny>()?),
            }
        }
        Ok(metadata)
    }
}

/// The value of a field. The error has the name of the field.
#[inline(never)]
fn field<'de, T, A>(from: &mut A, name: &str) -> Result<T, A::Error>
where
    T: Deserialize<'de> + Default,
    A: MapAccess<'de>,
{
    let value = from.next_value::<Option<T>>();
    value
        .map(Option::unwrap_or_default)
        .map_err(|error| A::Error::custom(format_args!("metadata.{name}: {error}")))
}

impl Metadata {
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
        for (field, value, wanted) in [
            ("name", "1", "integer `1`, expected a string"),
            ("labels", r#"{"a": true}"#, "boolean `true`, expected a string"),
            ("finalizers", "[1]", "integer `1`, expected a string"),
            ("generation", "\"x\"", "string \"x\", expected i64"),
            ("ownerReferences", r#"[{"uid": 7}]"#, "integer `7`, expected a string"),
            ("deletionTimestamp", "[]", "sequence, expected a string"),
        ] {
            let text = format!(r#"{{"{field}": {value}}}"#);
            let error = serde_json::from_str::<Metadata>(&text).unwrap_err().to_string();
            let wanted = format!("metadata.{field}: invalid type: {wanted} at line 1 column ");
            assert!(
                error.strip_prefix(&wanted).is_some_and(|column| column.parse::<u32>().is_ok()),
                "{error}"
            );
        }
        let error = serde_json::from_str::<Metadata>("[]").unwrap_err().to_string();
        assert_eq!(error, "invalid type: sequence, expected metadata at line 1 column 0");
    }
}
