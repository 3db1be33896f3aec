//! [`Metadata`]: `metadata` of objects in structs of a plugin's own.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::ObjectMetadata;
use super::plain::Plain;
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
        Self::take(Plain::deserialize(from)?)
            .map_err(|field| D::Error::custom(format_args!("{field} has another type")))
    }
}

impl Metadata {
    /// Takes the fields out of an object; the error is the path of a value that has another type.
    fn take(value: Plain) -> Result<Self, String> {
        let mut metadata = Self::default();
        let Plain::Object(fields) = value else { return Err("metadata".to_owned()) };
        for (name, value) in fields {
            if metadata.set(&name, value).is_none() {
                return Err(format!("metadata.{name}"));
            }
        }
        Ok(metadata)
    }

    /// Sets a field; nothing if the value has another type.
    fn set(&mut self, name: &str, value: Plain) -> Option<()> {
        if matches!(value, Plain::Null) {
            return Some(());
        }
        match name {
            "name" => self.name = text_of(value)?,
            "namespace" => self.namespace = text_of(value)?,
            "uid" => self.uid = text_of(value)?,
            "resourceVersion" => self.resource_version = text_of(value)?,
            "creationTimestamp" => self.creation_timestamp = Some(text_of(value)?),
            "deletionTimestamp" => self.deletion_timestamp = Some(text_of(value)?),
            "generation" => self.generation = Some(integer_of(value)?),
            "labels" => self.labels = texts_of(value)?,
            "annotations" => self.annotations = texts_of(value)?,
            "finalizers" => {
                for value in list_of(value)? {
                    self.finalizers.push(text_of(value)?);
                }
            }
            "ownerReferences" => {
                for value in list_of(value)? {
                    self.owner_references.push(OwnerReference::take(value)?);
                }
            }
            _ => {}
        }
        Some(())
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
    fn take(value: Plain) -> Option<Self> {
        let Plain::Object(fields) = value else { return None };
        let mut owner = Self::default();
        for (name, value) in fields {
            let text = match name.as_str() {
                "apiVersion" => &mut owner.api_version,
                "kind" => &mut owner.kind,
                "name" => &mut owner.name,
                "uid" => &mut owner.uid,
                "controller" => {
                    owner.controller = matches!(value, Plain::Bool(true));
                    continue;
                }
                "blockOwnerDeletion" => {
                    owner.block_owner_deletion = matches!(value, Plain::Bool(true));
                    continue;
                }
                _ => continue,
            };
            if !matches!(value, Plain::Null) {
                *text = text_of(value)?;
            }
        }
        Some(owner)
    }
}

/// A text; nothing if the value has another type.
fn text_of(value: Plain) -> Option<String> {
    match value {
        Plain::Text(text) => Some(text),
        _ => None,
    }
}

/// An integer; nothing if the value has another type.
fn integer_of(value: Plain) -> Option<i64> {
    match value {
        Plain::Integer(number) => Some(number),
        _ => None,
    }
}

fn list_of(value: Plain) -> Option<Vec<Plain>> {
    match value {
        Plain::List(values) => Some(values),
        _ => None,
    }
}

/// An object of texts; `null` is an empty one.
fn texts_of(value: Plain) -> Option<BTreeMap<String, String>> {
    let Plain::Object(fields) = value else { return None };
    let mut texts = BTreeMap::new();
    for (name, value) in fields {
        texts.insert(name, if matches!(value, Plain::Null) { String::new() } else { text_of(value)? });
    }
    Some(texts)
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
        let error = serde_json::from_str::<Metadata>("[]").unwrap_err().to_string();
        assert_eq!(error, "metadata has another type");
    }
}
