//! [`Metadata`]: `metadata` of objects in structs of a plugin's own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ObjectMetadata;
use crate::{Key, OwnerReference};

/// `metadata` of an object, for structs with `#[derive(Resource)]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
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
