//! The types of the built-in kinds, from a generated table.
//!
//! In `tables/schemas.json`, `kinds` names the type of every `apiVersion/kind`, `types` the fields of every type. A field is
//! one string: its type, then attributes, each after a `;`.
//!
//! ```text
//! [io.k8s.api.core.v1.Container;list=map;keys=name;patch=merge;mergeKey=name
//! ^ array of containers         ^ attributes: `name` or `name=value`; `default=` comes last, its JSON may hold a `;`
//! ```
//!
//! A type is `[T` (array), `{T` (map), a scalar (`string`, `integer`, `number`, `boolean`, `quantity`, `any`, each with an
//! optional `:format`) or a name in `types`; arrays and maps nest. These types prune and merge; that each value is of its type
//! is checked by [`crate::typed`], and a quantity is a string when it comes from there.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::Value;

use super::prune::{prune, prune_part};
use super::types::{Entries, Field, Kind, ListKind, PatchStrategy, Type, TypeId, Types};
use crate::api::JsonMap;

/// The metadata of every kind.
const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The table that this program was built with.
pub(crate) const BUILTIN_TABLE: &str = include_str!("../tables/schemas.json");

/// The table, read.
#[derive(Deserialize)]
pub(crate) struct BuiltinTable<'a> {
    #[serde(borrow)]
    pub(crate) kinds: HashMap<&'a str, &'a str>,
    #[serde(borrow)]
    pub(crate) types: BTreeMap<&'a str, BTreeMap<&'a str, FieldText<'a>>>,
}

/// A text of the table; one with escapes (a default that holds quotes) cannot be borrowed.
#[derive(Deserialize)]
pub(crate) struct FieldText<'a>(#[serde(borrow)] Cow<'a, str>);

impl FieldText<'_> {
    /// The type, and the attributes.
    pub(crate) fn split(&self) -> (&str, &str) {
        self.0.split_once(';').unwrap_or((&self.0, ""))
    }
}

/// Holds the types of all built-in kinds.
#[derive(Debug)]
pub(crate) struct BuiltinTypes {
    types: Types,
    kinds: HashMap<Box<str>, TypeId>,
    metadata: Option<TypeId>,
}

impl BuiltinTypes {
    /// The types of the table that this program was built with.
    pub(crate) fn get() -> &'static Self {
        static BUILTIN: LazyLock<BuiltinTypes> =
            LazyLock::new(|| BuiltinTypes::parse(BUILTIN_TABLE).expect("the generated table is well-formed"));
        &BUILTIN
    }

    pub(crate) fn parse(table: &str) -> serde_json::Result<Self> {
        let table: BuiltinTable<'_> = serde_json::from_str(table)?;
        let mut types = Types::default();
        // Names first: types may hold each other.
        let named = table.types.keys().map(|name| (*name, types.add(Type::default()))).collect();
        let mut reader = Reader { types, named, unnamed: HashMap::new() };
        for (name, texts) in &table.types {
            let mut fields = BTreeMap::new();
            for (field, text) in texts {
                fields.insert((*field).into(), reader.field(text)?);
            }
            let id = reader.named[name];
            reader.types.replace(id, Type { kind: Kind::Object, fields, ..Type::default() });
        }
        let mut kinds = HashMap::new();
        for (kind, name) in &table.kinds {
            kinds.insert((*kind).into(), reader.named(name)?);
        }
        Ok(Self { kinds, metadata: reader.named.get(METADATA).copied(), types: reader.types })
    }

    /// The type of all metadata.
    pub(crate) fn metadata(&self) -> Option<TypeId> {
        self.metadata
    }

    pub(crate) fn types(&self) -> &Types {
        &self.types
    }

    /// The type of a built-in kind.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<TypeId> {
        self.kinds.get(format!("{api_version}/{kind}").as_str()).copied()
    }

    /// As [`BuiltinTypes::of_kind`], the type itself.
    pub(crate) fn type_of_kind(&self, api_version: &str, kind: &str) -> Option<&Type> {
        self.of_kind(api_version, kind).map(|id| self.types.get(id))
    }

    /// Drops the fields that a kind does not have; gives their paths.
    pub(crate) fn prune(&self, kind: TypeId, object: &mut JsonMap) -> Vec<String> {
        let mut dropped = prune(&self.types, kind, object);
        if let Some(metadata) = object.get_mut("metadata") {
            dropped.extend(self.prune_metadata("metadata", metadata));
            dropped.sort_unstable();
        }
        dropped
    }

    /// Drops the fields that no metadata has; gives their paths.
    pub(crate) fn prune_metadata(&self, path: &str, metadata: &mut Value) -> Vec<String> {
        self.metadata.map(|id| prune_part(&self.types, id, path, metadata)).unwrap_or_default()
    }
}

struct Reader<'a> {
    types: Types,
    named: HashMap<&'a str, TypeId>,
    /// Scalars, lists and maps by their text; lists with an order of their own are not among them.
    unnamed: HashMap<String, TypeId>,
}

impl Reader<'_> {
    fn named(&self, name: &str) -> serde_json::Result<TypeId> {
        self.named.get(name).copied().ok_or_else(|| serde_json::Error::custom(format!("no type {name:?}")))
    }

    fn field(&mut self, text: &FieldText<'_>) -> serde_json::Result<Field> {
        let (type_text, attributes) = text.split();
        let attribute = |wanted| attribute(attributes, wanted);
        let strategies: Vec<&str> = attribute("patch").into_iter().flat_map(|s| s.split(',')).collect();
        let list = match attribute("list") {
            Some("set") => ListKind::Set,
            Some("map") => ListKind::Map(
                attribute("keys").into_iter().flat_map(|k| k.split(',')).map(Into::into).collect(),
            ),
            _ => ListKind::Atomic,
        };
        Ok(Field {
            value_type: match type_text.strip_prefix('[') {
                Some(items) if list != ListKind::Atomic => {
                    let items = Some(self.value_type(items)?);
                    self.types.add(Type { kind: Kind::List, items, list, ..Type::default() })
                }
                _ => self.value_type(type_text)?,
            },
            patch: PatchStrategy {
                merge: strategies.contains(&"merge"),
                replace: strategies.contains(&"replace"),
            },
            merge_key: attribute("mergeKey").map(Into::into),
            atomic: attribute("map") == Some("atomic"),
            key_default: default(attributes)?.or_else(|| {
                // The table leaves out that the default of these is the empty text.
                let is_required = attributes.split(';').any(|one| one == "required");
                (type_text == "string" && is_required).then(|| "".into())
            }),
        })
    }

    fn value_type(&mut self, text: &str) -> serde_json::Result<TypeId> {
        if let Some(known) = self.unnamed.get(text) {
            return Ok(*known);
        }
        let read = if let Some(items) = text.strip_prefix('[') {
            Type { kind: Kind::List, items: Some(self.value_type(items)?), ..Type::default() }
        } else if let Some(entries) = text.strip_prefix('{') {
            Type { kind: Kind::Object, entries: Entries::Of(self.value_type(entries)?), ..Type::default() }
        } else {
            let (scalar, format) = text.split_once(':').unwrap_or((text, ""));
            let kind = match (scalar, format) {
                ("string", "int-or-string") => Kind::IntOrString,
                ("string" | "quantity", _) => Kind::String,
                ("integer", _) => Kind::Integer,
                ("number", _) => Kind::Number,
                ("boolean", _) => Kind::Boolean,
                ("any", _) => Kind::Any,
                _ => return self.named(text),
            };
            let any_scalar = scalar == "quantity" || !matches!(format, "" | "byte");
            Type { kind, preserves_unknown: kind == Kind::Any, any_scalar, ..Type::default() }
        };
        let id = self.types.add(read);
        self.unnamed.insert(text.to_owned(), id);
        Ok(id)
    }
}

/// The default, which comes last.
fn default(attributes: &str) -> serde_json::Result<Option<Value>> {
    let text = attributes.strip_prefix("default=");
    let text = text.or_else(|| attributes.split_once(";default=").map(|(_, text)| text));
    text.map(serde_json::from_str).transpose()
}

/// The value of an attribute; of one without, as `required`, the empty text.
pub(crate) fn attribute<'a>(attributes: &'a str, wanted: &str) -> Option<&'a str> {
    // A default comes last and may look like further attributes.
    let end = if attributes.starts_with("default=") {
        0
    } else {
        attributes.find(";default=").unwrap_or(attributes.len())
    };
    if wanted == "default" {
        return attributes[end..].trim_start_matches(';').strip_prefix("default=");
    }
    attributes[..end]
        .split(';')
        .map(|one| one.split_once('=').unwrap_or((one, "")))
        .find(|(name, _)| *name == wanted)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_of_built_in_kinds_are_dropped() {
        let types = BuiltinTypes::get();
        let pod = types.of_kind("v1", "Pod").unwrap();
        let Value::Object(mut object) = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "nmae": "b"}, "sepc": {}, "spec": {
                "containers": [{"name": "a", "iamge": "b"}], "nodeSelector": {"a": "b"},
                "tolerations": [{"key": "a", "extra": {"b": 1}}],
            },
        }) else {
            panic!("an object")
        };
        let dropped = types.prune(pod, &mut object);
        assert_eq!(
            dropped,
            ["metadata.nmae", "sepc", "spec.containers[0].iamge", "spec.tolerations[0].extra"]
        );
        assert_eq!(object["spec"]["nodeSelector"], json!({"a": "b"}));
    }

    #[test]
    fn free_fields_of_built_in_kinds_are_kept() {
        let types = BuiltinTypes::get();
        for (api_version, kind, object) in [
            ("apps/v1", "ControllerRevision", json!({"data": {"any": [{"thing": 1}]}})),
            ("v1", "ConfigMap", json!({"data": {"a": "b"}})),
            (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": {"default": {"b": {}}}}}}}]}}),
            ),
        ] {
            let id = types.of_kind(api_version, kind).unwrap();
            let Value::Object(mut pruned) = object.clone() else { panic!("an object") };
            assert!(types.prune(id, &mut pruned).is_empty(), "{kind}");
            assert_eq!(Value::Object(pruned), object);
        }
    }

    #[test]
    fn fields_that_no_metadata_has_are_dropped() {
        let mut metadata = json!({"name": "a", "labels": {"b": "c"}, "ownerReferences": [{"name": "d", "nmae": "e"}], "nmae": "f"});
        let dropped = BuiltinTypes::get().prune_metadata("metadata", &mut metadata);
        assert_eq!(dropped, ["metadata.nmae", "metadata.ownerReferences[0].nmae"]);
        assert_eq!(metadata, json!({"name": "a", "labels": {"b": "c"}, "ownerReferences": [{"name": "d"}]}));
    }

    /// A table whose types have all strategies of patches.
    const TABLE: &str = r#"{
        "kinds": {"v1/Pod": "Pod"},
        "types": {
            "Pod": {
                "containers": "[Container;list=map;keys=name;patch=merge;mergeKey=name;required",
                "volumes": "[Container;patch=merge,retainKeys;mergeKey=name",
                "labels": "{string",
                "matrix": "[[string",
                "selector": "Container;patch=replace;map=atomic",
                "strategy": "Container;patch=retainKeys",
                "odd": "Container;default={\"a\":\"b;patch=merge;mergeKey=x\"}",
                "started": "string:date-time"
            },
            "Container": {"name": "string;required"}
        }
    }"#;

    #[test]
    fn the_strategies_of_patches_are_read() {
        let table = BuiltinTypes::parse(TABLE).unwrap();
        let types = table.types();
        let pod = types.get(table.of_kind("v1", "Pod").unwrap());
        for (name, merges, replaces) in [
            ("containers", true, false),
            ("volumes", true, false),
            ("selector", false, true),
            ("strategy", false, false),
            ("labels", false, false),
            // What looks like an attribute inside a default is none.
            ("odd", false, false),
        ] {
            let strategy = &pod.fields[name].patch;
            assert_eq!((strategy.merge, strategy.replace), (merges, replaces), "{name}");
        }
        let type_of = |name: &str| types.get(pod.fields[name].value_type);
        assert_eq!(pod.fields["containers"].merge_key.as_deref(), Some("name"));
        assert!(pod.fields["odd"].merge_key.is_none() && type_of("odd").fields.contains_key("name"));
        assert!(type_of("containers").fields.is_empty(), "a list has no fields");
        assert!(types.get(type_of("containers").items.unwrap()).fields.contains_key("name"));
        let inner = types.get(type_of("matrix").items.unwrap());
        assert!(types.get(inner.items.unwrap()).items.is_none());
        assert!(type_of("labels").items.is_none() && type_of("labels").fields.is_empty());
        assert!(type_of("started").items.is_none());
    }

    #[test]
    fn a_table_that_names_a_type_it_has_not_is_refused() {
        for table in
            [r#"{"kinds": {"v1/A": "A"}, "types": {}}"#, r#"{"kinds": {}, "types": {"A": {"b": "[B"}}}"#]
        {
            assert!(BuiltinTypes::parse(table).is_err(), "{table}");
        }
    }

    #[test]
    fn the_table_knows_how_lists_of_a_pod_merge() {
        let builtin = BuiltinTypes::get();
        assert!(builtin.of_kind("example.org/v1", "Widget").is_none());
        let pod = builtin.types().get(builtin.of_kind("v1", "Pod").unwrap());
        let spec = builtin.types().get(pod.fields["spec"].value_type);
        assert_eq!(spec.fields["containers"].merge_key.as_deref(), Some("name"));
        assert!(spec.fields["volumes"].patch.merge && !spec.fields["tolerations"].patch.merge);
    }
}
