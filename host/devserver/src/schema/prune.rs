//! Pruning: fields that the schema does not name are dropped.
//!
//! They stay where a type preserves them, and a resource keeps `apiVersion`, `kind` and `metadata`. What a scalar's type
//! finds in the place of a scalar is emptied; validation then says what is wrong with it. Pruning twice changes nothing more.
//!
//! The recursion is as deep as the object, whose depth its decoder has limited.

use serde_json::Value;

use super::builtin::BuiltinTypes;
use super::causes::Path;
use super::types::{Entries, Type, TypeId, Types};
use crate::api::JsonMap;

/// How many unknown fields are named.
const MAX_NAMED: usize = 100;

/// Drops unknown fields of a resource, also of its metadata; gives their paths, a hundred at most: those of its metadata,
/// then the others in order, then those of the metadata of resources in it.
pub(super) fn prune(types: &Types, root: TypeId, object: &mut JsonMap) -> Vec<String> {
    let metadata = object.get_mut("metadata");
    let of_metadata = metadata.map(|metadata| BuiltinTypes::get().prune_metadata("metadata", metadata));
    let mut pruning = Pruning { types, path: Path::default(), dropped: Vec::new(), of_embedded: Vec::new() };
    let root = types.get(root);
    pruning.object(root, Keeps { resource: Some(Place::Root), unknown: root.preserves_unknown }, object);
    let mut dropped = of_metadata.unwrap_or_default();
    dropped.extend(pruning.finish());
    dropped.truncate(MAX_NAMED);
    dropped
}

/// Drops unknown fields of a part of an object that stands at `path`.
pub(super) fn prune_part(types: &Types, root: TypeId, path: &str, value: &mut Value) -> Vec<String> {
    let mut pruning = Pruning { types, path: Path::new(path), dropped: Vec::new(), of_embedded: Vec::new() };
    pruning.value(Some(types.get(root)), false, value);
    pruning.finish()
}

/// What an object keeps beside the fields of its type.
#[derive(Clone, Copy)]
struct Keeps {
    /// `apiVersion`, `kind` and `metadata`, if it is a resource.
    resource: Option<Place>,
    unknown: bool,
}

/// Where a resource stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Embedded,
}

struct Pruning<'a> {
    types: &'a Types,
    path: Path,
    dropped: Vec<String>,
    of_embedded: Vec<String>,
}

impl<'a> Pruning<'a> {
    fn finish(mut self) -> Vec<String> {
        self.dropped.sort_unstable();
        self.of_embedded.sort_unstable();
        self.dropped.append(&mut self.of_embedded);
        self.dropped
    }

    /// `keeps_unknown`: it is an element of a list that preserves unknown fields.
    fn value(&mut self, value_type: Option<&'a Type>, keeps_unknown: bool, value: &mut Value) {
        match (value, value_type) {
            (Value::Object(object), Some(value_type)) => {
                let unknown = keeps_unknown || value_type.preserves_unknown;
                self.object(
                    value_type,
                    Keeps { resource: value_type.embedded.then_some(Place::Embedded), unknown },
                    object,
                );
            }
            (Value::Object(object), None) if !keeps_unknown => {
                std::mem::take(object).keys().for_each(|name| self.drop(name));
            }
            (Value::Array(list), value_type) => {
                let types = self.types;
                let items = value_type.and_then(|t| t.items).map(|items| types.get(items));
                let keeps_unknown = keeps_unknown || value_type.is_some_and(|t| t.preserves_unknown);
                for (index, element) in list.iter_mut().enumerate() {
                    let mark = self.path.index(index);
                    self.value(items, keeps_unknown, element);
                    self.path.back(&mark);
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, object_type: &'a Type, keeps: Keeps, object: &mut JsonMap) {
        let types = self.types;
        object.retain(|name, value| {
            if keeps.resource.is_some() && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                if keeps.resource == Some(Place::Embedded) && name == "metadata" {
                    self.metadata(value);
                }
                return true;
            }
            let known = match (object_type.fields.get(name.as_str()), object_type.entries) {
                (Some(field), _) => Some(types.get(field.value_type)),
                (None, Entries::Of(entry)) => Some(types.get(entry)),
                (None, Entries::Any | Entries::Forbidden) => None,
                (None, Entries::None) => {
                    if !keeps.unknown {
                        self.drop(name);
                    }
                    return keeps.unknown;
                }
            };
            let mark = self.path.field(name);
            self.value(known, false, value);
            self.path.back(&mark);
            true
        });
    }

    /// The metadata of a resource in the object.
    fn metadata(&mut self, metadata: &mut Value) {
        let path = self.path.of("metadata");
        let left = MAX_NAMED.saturating_sub(self.of_embedded.len());
        let dropped = BuiltinTypes::get().prune_metadata(&path, metadata);
        self.of_embedded.extend(dropped.into_iter().take(left));
    }

    fn drop(&mut self, name: &str) {
        if self.dropped.len() < MAX_NAMED {
            self.dropped.push(self.path.of(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::compiled;
    use super::*;

    fn pruned(schema: Value, object: Value) -> (Value, Vec<String>) {
        let (types, root) = compiled(&schema);
        let Value::Object(mut object) = object else { panic!("an object") };
        let dropped = prune(&types, root, &mut object);
        (object.into(), dropped)
    }

    #[test]
    fn fields_that_the_schema_does_not_name_are_dropped() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "openList": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object"}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "closed": {"type": "object", "properties": {"a": {"type": "string"}}},
            }},
        }}}});
        let object = json!({"apiVersion": "v", "kind": "K", "metadata": {"name": "x"}, "other": 1, "spec": {
            "size": {"unit": "m"}, "extra": 1, "list": [{"name": "a", "nmae": "b"}, 3],
            "labels": {"a": "b", "c": {"d": 1}}, "open": {"x": {"y": 1}, "closed": {"a": "b", "c": 1}},
            "openList": [{"x": {"y": 1}}],
        }});
        let (pruned, dropped) = pruned(schema, object);
        let expected = json!({"apiVersion": "v", "kind": "K", "metadata": {"name": "x"}, "spec": {
            "size": {}, "list": [{"name": "a"}, 3],
            "labels": {"a": "b", "c": {}}, "open": {"x": {"y": 1}, "closed": {"a": "b"}},
            "openList": [{"x": {"y": 1}}],
        }});
        assert_eq!(pruned, expected);
        let paths = [
            "other",
            "spec.extra",
            "spec.labels.c.d",
            "spec.list[0].nmae",
            "spec.open.closed.c",
            "spec.size.unit",
        ];
        assert_eq!(dropped, paths);
    }

    #[test]
    fn an_embedded_resource_keeps_what_every_resource_has() {
        let schema = json!({"type": "object", "properties": {"template": {
            "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"data": {"type": "string"}},
        }}});
        let object = json!({"template": {"apiVersion": "v1", "kind": "A", "metadata": {"name": "n", "x": 1}, "data": "d", "y": 2}});
        let (pruned, dropped) = pruned(schema, object);
        assert_eq!(
            pruned["template"],
            json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "n"}, "data": "d"})
        );
        assert_eq!(dropped, ["template.y", "template.metadata.x"]);
    }

    #[test]
    fn entries_of_any_kind_keep_scalars_alone() {
        let schema =
            json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": true}}});
        let (pruned, dropped) = pruned(schema, json!({"m": {"a": 1, "b": {"c": 2}, "d": [{"e": 3}]}}));
        assert_eq!(pruned, json!({"m": {"a": 1, "b": {}, "d": [{}]}}));
        assert_eq!(dropped, ["m.b.c", "m.d[0].e"]);
    }

    #[test]
    fn a_hundred_unknown_fields_are_named_and_all_are_dropped() {
        let object: JsonMap = (0..1000).map(|i| (format!("f{i:04}"), Value::Null)).collect();
        let (pruned, dropped) = pruned(json!({"type": "object"}), object.into());
        assert_eq!((pruned, dropped.len()), (json!({}), MAX_NAMED));
    }
}
