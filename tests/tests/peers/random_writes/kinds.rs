//! [`Kind`]: what is written: where a kind is served, valid objects of it, and valid values of its fields. Read from the
//! files in `kinds`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The namespace in which objects are written.
pub(super) const NAMESPACE: &str = "rnd";

/// Where the objects of [`definitions`] are served, in the same order.
pub(super) const GADGETS: &str = "/apis/rnd.example/v1/namespaces/rnd/gadgets";
pub(super) const BLOBS: &str = "/apis/rnd.example/v1/blobs";

/// Values by the pointers of fields; null takes a field away.
type Edits = BTreeMap<String, Vec<Value>>;

/// A kind, and what is written of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kind {
    /// The collections in which an object is served: one for each version of its kind.
    pub(super) paths: Vec<String>,
    pub(super) kind: String,
    /// Valid objects, without `apiVersion`, `kind` and name.
    pub(super) objects: Vec<Value>,
    edits: Edits,
    /// Edits that a kind has besides those it shares with others.
    #[serde(default)]
    more: Edits,
    /// Edits of its subresources.
    #[serde(default)]
    parts: BTreeMap<String, Edits>,
}

impl Kind {
    /// All kinds: those that are built in, and the two that [`definitions`] define.
    pub(super) fn all() -> Result<Vec<Kind>> {
        let files = [
            include_str!("kinds/core.yaml"),
            include_str!("kinds/workloads.yaml"),
            include_str!("kinds/others.yaml"),
            include_str!("kinds/custom.yaml"),
        ];
        let mut kinds = Vec::new();
        for text in files {
            kinds.extend(serde_saphyr::from_str::<Vec<Kind>>(text).context("a file of kinds")?);
        }
        Ok(kinds)
    }

    /// `apiVersion` of the objects of a collection.
    pub(super) fn api_version(path: &str) -> String {
        let parts: Vec<&str> = path.split('/').collect();
        if parts[1] == "api" { parts[2].to_owned() } else { format!("{}/{}", parts[2], parts[3]) }
    }

    /// A valid object with a name.
    pub(super) fn object(&self, path: &str, number: usize, name: &str) -> Value {
        let mut object = self.objects[number % self.objects.len()].clone();
        object["apiVersion"] = Self::api_version(path).into();
        object["kind"] = self.kind.as_str().into();
        object["metadata"]["name"] = name.into();
        object
    }

    /// The fields of an object, or of a subresource, and their values.
    pub(super) fn edits(&self, part: &str) -> Vec<(&str, &[Value])> {
        match self.parts.get(part) {
            Some(edits) => pairs(edits).collect(),
            None if part.is_empty() => pairs(&self.edits).chain(pairs(&self.more)).collect(),
            None => Vec::new(),
        }
    }

    /// The names of its subresources.
    pub(super) fn parts(&self) -> Vec<&str> {
        self.parts.keys().map(String::as_str).collect()
    }
}

fn pairs(edits: &Edits) -> impl Iterator<Item = (&str, &[Value])> {
    edits.iter().map(|(pointer, values)| (pointer.as_str(), values.as_slice()))
}

/// The definitions of the custom resources.
pub(super) fn definitions() -> Result<Vec<Value>> {
    let mut definitions: Vec<Value> =
        serde_saphyr::from_str(include_str!("kinds/definitions.yaml")).context("the definitions")?;
    for definition in &mut definitions {
        definition["apiVersion"] = "apiextensions.k8s.io/v1".into();
        definition["kind"] = "CustomResourceDefinition".into();
    }
    Ok(definitions)
}

/// Values that any object may have at these pointers.
pub(super) fn metadata() -> Map<String, Value> {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-1"});
    let edits = json!({
        "/metadata/labels": [{"app": "a"}, {"app": "b", "x": "y"}, null],
        "/metadata/labels/extra": ["1", "2", "", null],
        "/metadata/annotations": [{"note": "n"}, null],
        "/metadata/annotations/more": ["1", "", null],
        "/metadata/finalizers": [["example.org/a"], ["example.org/b", "example.org/a"], [], null],
        "/metadata/ownerReferences": [[owner], [], null],
    });
    match edits {
        Value::Object(edits) => edits,
        _ => Map::new(),
    }
}
