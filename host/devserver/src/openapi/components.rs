//! The schemas of the built-in kinds, from two generated tables.
//!
//! `tables/schemas.json` has the types and their fields (`schema::builtin` says how it is written). It names no type
//! without fields (`Quantity`, `Time`) and no enumeration; `tables/openapi.json` has both.
//!
//! What the documents of a real server have and these do not: descriptions; the defaults `""`, `0`, `false` and `{}`, which
//! are those of fields that are left out anyway; unions; `granular` of maps, which are that unless they say otherwise.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::JsonMap;
use crate::schema::{BUILTIN_TABLE, BuiltinTable, FieldText, attribute};

pub(super) const OPENAPI_TABLE: &str = include_str!("../tables/openapi.json");
const REF: &str = "#/components/schemas/";

/// Kinds that every group has for itself.
const OF_EVERY_GROUP: [&str; 2] =
    ["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"];

/// What `tables/openapi.json` says.
#[derive(Deserialize)]
struct LeafTable<'a> {
    /// Types without fields.
    leaves: BTreeMap<String, JsonMap>,
    #[serde(borrow)]
    fields: HashMap<&'a str, HashMap<&'a str, Core>>,
}

/// What is at the core of a field: of the field itself, or of the elements of its list or map.
#[derive(Deserialize)]
#[serde(untagged)]
enum Core {
    /// A type without fields.
    Leaf(String),
    Enumeration(Vec<Value>),
}

/// The schemas of all built-in types.
pub(super) struct Components {
    table: BuiltinTable<'static>,
    leaves: LeafTable<'static>,
    /// Types whose objects an apply replaces as a whole.
    atomic: HashSet<&'static str>,
    /// The kinds of a type, `GROUP/VERSION/KIND`.
    kinds: HashMap<&'static str, Vec<&'static str>>,
}

/// A reference to a component.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REF}{name}")})
}

/// The name of the component that a reference is to.
pub(super) fn referenced(text: &str) -> Option<&str> {
    text.strip_prefix(REF)
}

/// An element of `x-kubernetes-group-version-kind`.
pub(super) fn group_version_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// A hash of all that documents of built-in kinds are made from.
pub(super) fn fingerprint() -> u64 {
    static FINGERPRINT: LazyLock<u64> = LazyLock::new(|| {
        let mut hasher = DefaultHasher::new();
        (env!("CARGO_PKG_VERSION"), BUILTIN_TABLE, OPENAPI_TABLE).hash(&mut hasher);
        hasher.finish()
    });
    *FINGERPRINT
}

impl Components {
    /// The components of the tables that this program was built with.
    pub(super) fn get() -> &'static Self {
        static COMPONENTS: LazyLock<Components> = LazyLock::new(|| {
            Components::parse(BUILTIN_TABLE, OPENAPI_TABLE).expect("the generated tables are well-formed")
        });
        &COMPONENTS
    }

    fn parse(types: &'static str, leaves: &'static str) -> serde_json::Result<Self> {
        let table: BuiltinTable<'static> = serde_json::from_str(types)?;
        let leaves = serde_json::from_str(leaves)?;
        let mut kinds: HashMap<_, Vec<_>> = HashMap::new();
        for (kind, name) in &table.kinds {
            kinds.entry(*name).or_default().push(*kind);
        }
        let mut atomic = HashSet::new();
        for text in table.types.values().flat_map(BTreeMap::values) {
            let (type_text, attributes) = text.split();
            let core = type_text.trim_start_matches(['[', '{']);
            if attribute(attributes, "map") == Some("atomic")
                && let Some((name, _)) = table.types.get_key_value(core)
            {
                atomic.insert(*name);
            }
        }
        Ok(Self { table, leaves, atomic, kinds })
    }

    /// The name of a kind's component.
    pub(super) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&'static str> {
        self.table.kinds.get(format!("{api_version}/{kind}").as_str()).copied()
    }

    /// A component as the document of `group` and `version` has it.
    pub(super) fn schema(&self, name: &str, group: &str, version: &str) -> Option<Value> {
        if let Some(leaf) = self.leaves.leaves.get(name) {
            return Some(leaf.clone().into());
        }
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for (field, text) in self.table.types.get(name)? {
            let core = self.leaves.fields.get(name).and_then(|fields| fields.get(field));
            properties.insert((*field).to_owned(), self.field(text, core));
            if attribute(text.split().1, "required").is_some() {
                required.push(Value::from(*field));
            }
        }
        if !required.is_empty() {
            schema.insert("required".to_owned(), required.into());
        }
        schema.insert("properties".to_owned(), properties.into());
        if self.atomic.contains(name) {
            schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
        let mut kinds: Vec<Value> =
            self.kinds.get(name).into_iter().flatten().filter_map(|kind| read_kind(kind)).collect();
        if let [one] = &kinds[..]
            && OF_EVERY_GROUP.contains(&name)
            && !group.is_empty()
        {
            let kind = one["kind"].as_str().unwrap_or_default();
            kinds.push(group_version_kind(group, version, kind));
        }
        if !kinds.is_empty() {
            schema.insert("x-kubernetes-group-version-kind".to_owned(), kinds.into());
        }
        Some(schema.into())
    }

    fn field(&self, text: &FieldText<'_>, core: Option<&Core>) -> Value {
        let (type_text, attributes) = text.split();
        let value_type = self.value_type(type_text, core);
        let mut extensions = Map::new();
        for (wanted, name) in [
            ("list", "x-kubernetes-list-type"),
            ("patch", "x-kubernetes-patch-strategy"),
            ("mergeKey", "x-kubernetes-patch-merge-key"),
        ] {
            if let Some(given) = attribute(attributes, wanted) {
                extensions.insert(name.to_owned(), given.into());
            }
        }
        if let Some(keys) = attribute(attributes, "keys") {
            extensions.insert("x-kubernetes-list-map-keys".to_owned(), keys.split(',').collect());
        }
        let named = type_text.trim_start_matches(['[', '{']);
        let map_type = match (attribute(attributes, "map"), self.atomic.contains(named)) {
            // The type says so itself.
            (Some(_), true) | (None, false) => None,
            (given, false) => given,
            (None, true) => Some("granular"),
        };
        if let Some(map_type) = map_type {
            extensions.insert("x-kubernetes-map-type".to_owned(), map_type.into());
        }
        if let Some(Ok(default)) = attribute(attributes, "default").map(serde_json::from_str) {
            extensions.insert("default".to_owned(), default);
        }
        if extensions.is_empty() {
            return value_type;
        }
        match value_type {
            // Nothing may stand beside a reference.
            Value::Object(schema) if schema.contains_key("$ref") => {
                extensions.insert("allOf".to_owned(), json!([schema]));
            }
            Value::Object(schema) => extensions.extend(schema),
            _ => {}
        }
        extensions.into()
    }

    fn value_type(&self, text: &str, core: Option<&Core>) -> Value {
        if let Some(items) = text.strip_prefix('[') {
            return json!({"type": "array", "items": self.value_type(items, core)});
        }
        if let Some(entries) = text.strip_prefix('{') {
            return json!({"type": "object", "additionalProperties": self.value_type(entries, core)});
        }
        if let Some(Core::Leaf(leaf)) = core {
            return reference(leaf);
        }
        if self.table.types.contains_key(text) {
            return reference(text);
        }
        let (scalar, format) = text.split_once(':').unwrap_or((text, ""));
        let mut schema = match scalar {
            "any" => json!({}),
            scalar => json!({"type": scalar}),
        };
        if !format.is_empty() {
            schema["format"] = format.into();
        }
        if let Some(Core::Enumeration(values)) = core {
            schema["enum"] = values.clone().into();
        }
        schema
    }
}

/// Reads `GROUP/VERSION/KIND` or, of the core group, `VERSION/KIND`.
fn read_kind(text: &str) -> Option<Value> {
    let (api_version, kind) = text.rsplit_once('/')?;
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    Some(group_version_kind(group, version, kind))
}
