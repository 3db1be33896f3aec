//! The descriptor of the plugin under test, read from the document that the plugin gives to the host.

use serde::Deserialize;
use serde_json::Value;

use super::grants::Rule;
use super::maps::{self, MapSpec};
use super::predicates::{Judged, PredicateSpec, all_pass};
use super::selector::{self, Selector};
use crate::Kind;
use crate::sys::select;

/// What the world takes from a descriptor.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Described {
    pub(super) name: String,
    #[serde(default)]
    pub(super) watches: Vec<WatchSpec>,
    #[serde(default)]
    indexes: Vec<IndexSpec>,
    #[serde(default)]
    projections: Vec<ProjectionSpec>,
    #[serde(default)]
    pub(super) permissions: Vec<Rule>,
    #[serde(default)]
    pub(super) outgoing_hosts: Vec<String>,
    pub(super) max_batch: Option<usize>,
}

#[derive(Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
pub(super) struct WatchSpec {
    #[serde(default)]
    name: String,
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default)]
    label_selector: String,
    #[serde(default)]
    field_selector: String,
    #[serde(default)]
    predicates: Vec<PredicateSpec>,
    /// Empty for the default of the world.
    #[serde(default, rename = "map", deserialize_with = "maps::one_or_many")]
    pub(super) maps: Vec<MapSpec>,
}

#[derive(Deserialize)]
struct IndexSpec {
    #[serde(default)]
    group: String,
    kind: String,
    name: String,
    path: Option<String>,
    label: Option<String>,
    annotation: Option<String>,
    #[serde(rename = "where")]
    only_where: Option<String>,
    split: Option<String>,
}

#[derive(Deserialize)]
struct ProjectionSpec {
    #[serde(default)]
    group: String,
    kind: String,
    fields: Vec<String>,
}

impl Described {
    pub(super) fn parse(json: &[u8]) -> Result<Self, String> {
        let described: Self = serde_json::from_slice(json)
            .map_err(|error| format!("the descriptor cannot be read: {error}"))?;
        for watch in &described.watches {
            Selector::parse(&watch.label_selector)?;
            selector::check_fields(&watch.field_selector)?;
            watch.predicates.iter().try_for_each(PredicateSpec::check)?;
            maps::check(&watch.maps, &described.watches)?;
        }
        Ok(described)
    }

    pub(super) fn watches_of<'a>(&'a self, kind: &'a Kind) -> impl Iterator<Item = &'a WatchSpec> {
        self.watches.iter().filter(|watch| watch.is_of(kind))
    }

    /// The fields that the host's store keeps of a kind; none if it keeps whole objects.
    pub(super) fn projected(&self, kind: &Kind, object: &Value) -> Option<Value> {
        let spec =
            self.projections.iter().find(|spec| spec.group == kind.group() && spec.kind == kind.kind())?;
        let watches = self.watches.iter().filter(|watch| watch.is_of_group(kind));
        let indexes =
            self.indexes.iter().filter(|index| index.group == spec.group && index.kind == spec.kind);
        let mut kept: Vec<&str> = vec!["/apiVersion", "/kind", "/metadata"];
        kept.extend(spec.fields.iter().map(String::as_str));
        kept.extend(watches.flat_map(WatchSpec::used_fields));
        kept.extend(indexes.flat_map(|index| [&index.path, &index.only_where]).flatten().map(String::as_str));
        let mut projected = Value::Null;
        for pointer in kept {
            let segments: Vec<String> =
                pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~")).collect();
            copy(object, &mut projected, &segments);
        }
        projected["metadata"]["annotations"]["pilothouse.dev/partial"] = "true".into();
        Some(projected)
    }

    pub(super) fn has_index(&self, kind: &Kind, name: &str) -> bool {
        self.index(kind, name).is_some()
    }

    fn index(&self, kind: &Kind, name: &str) -> Option<&IndexSpec> {
        self.indexes
            .iter()
            .find(|index| index.name == name && index.group == kind.group() && index.kind == kind.kind())
    }

    /// The values of an object in an index.
    pub(super) fn index_values(&self, kind: &Kind, name: &str, object: &Value) -> Vec<String> {
        let Some(index) = self.index(kind, name) else { return Vec::new() };
        if let Some(path) = &index.only_where
            && select(object, path).is_none_or(|value| value.is_null())
        {
            return Vec::new();
        }
        let found = match (&index.path, &index.label, &index.annotation) {
            (Some(path), ..) => select(object, path).map(texts).unwrap_or_default(),
            (None, Some(label), _) => texts(object["metadata"]["labels"][label].clone()),
            (None, None, Some(name)) => texts(object["metadata"]["annotations"][name].clone()),
            (None, None, None) => {
                texts(select(object, "/metadata/ownerReferences/[*]/uid").unwrap_or_default())
            }
        };
        let mut values: Vec<String> = match &index.split {
            Some(separator) => found
                .iter()
                .flat_map(|text| text.split(separator.as_str()))
                .map(|text| text.trim().to_owned())
                .filter(|text| !text.is_empty())
                .collect(),
            None => found,
        };
        values.sort_unstable();
        values.dedup();
        values
    }
}

/// The texts of a value: a string, a number, a boolean, or a list of them.
pub(super) fn texts(value: Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text],
        Value::Number(number) => vec![number.to_string()],
        Value::Bool(flag) => vec![flag.to_string()],
        Value::Array(values) => values.into_iter().flat_map(texts).collect(),
        Value::Null | Value::Object(_) => Vec::new(),
    }
}

impl WatchSpec {
    /// The name, or the kind if it has none.
    pub(super) fn name(&self) -> &str {
        if self.name.is_empty() { &self.kind } else { &self.name }
    }

    pub(super) fn kind(&self) -> Kind {
        Kind::from_parts(self.group.clone(), self.version.clone(), self.kind.clone())
    }

    pub(super) fn is_of(&self, kind: &Kind) -> bool {
        self.group == kind.group() && self.kind == kind.kind() && self.version == kind.version()
    }

    /// Whether keys of this kind are those of its objects.
    pub(super) fn has_keys_of(&self, kind: &Kind) -> bool {
        self.is_of(kind) && (self.maps.is_empty() || self.maps.contains(&MapSpec::Itself))
    }

    /// Whether it is of this group and kind, in any version.
    pub(super) fn is_of_group(&self, kind: &Kind) -> bool {
        self.group == kind.group() && self.kind == kind.kind()
    }

    pub(super) fn covers_namespace(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|own| own == "*" || own == namespace)
    }

    /// Whether an object is among those that the watch selects.
    pub(super) fn selects(&self, object: &Value) -> bool {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        self.covers_namespace(namespace)
            && Selector::parse(&self.label_selector).is_ok_and(|selector| selector.matches(object))
            && selector::fields_match(&self.field_selector, object)
    }

    /// The fields that predicates and maps use.
    fn used_fields(&self) -> impl Iterator<Item = &str> {
        let mapped = self.maps.iter().filter_map(|map| match map {
            MapSpec::Field { path, .. } => Some(path.as_str()),
            _ => None,
        });
        self.predicates.iter().flat_map(PredicateSpec::paths).chain(mapped)
    }

    /// Whether an event passes the predicates.
    pub(super) fn passes(&self, event: Judged<'_>) -> bool {
        all_pass(&self.predicates, event)
    }
}

/// Copies the value at a path, with the elements of lists at their places.
fn copy(from: &Value, to: &mut Value, path: &[String]) {
    let Some((name, rest)) = path.split_first() else {
        *to = from.clone();
        return;
    };
    match from {
        Value::Array(elements) if name == "[*]" => {
            if !to.is_array() {
                *to = Value::Array(vec![Value::Null; elements.len()]);
            }
            for (place, element) in elements.iter().enumerate() {
                copy(element, &mut to[place], rest);
            }
        }
        Value::Object(fields) => {
            if let Some(value) = fields.get(name) {
                copy(value, &mut to[name], rest);
            }
        }
        _ => {}
    }
}
