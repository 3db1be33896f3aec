//! The types of the built-in kinds, as far as merging and validating objects needs them.
//!
//! The table `tables/schemas.json` is generated. `kinds` names the type of every `apiVersion/kind`, `types` the
//! fields of every type. A field is one string: its type, then attributes, each after a `;`.
//!
//! ```text
//! [io.k8s.api.core.v1.Container;list=map;keys=name;patch=merge;mergeKey=name
//! ^ array of containers         ^ attributes: `name` or `name=value`; `default=` comes last, its JSON may hold a `;`
//! ```
//!
//! A type is `[T` (array), `{T` (map), a scalar (`string`, `integer`, `number`, `boolean`, `any`, each with an
//! optional `:format`) or a name in `types`; arrays and maps nest. Texts are borrowed from the table, so reading it
//! is cheap and happens once. Used by the strategic merge patch.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// Holds the types of all built-in kinds.
#[derive(Deserialize)]
pub(crate) struct Schemas {
    #[serde(borrow)]
    kinds: HashMap<&'static str, &'static str>,
    #[serde(borrow)]
    types: HashMap<&'static str, HashMap<&'static str, Text>>,
}

/// A text of the table; one with escapes (a default that holds quotes) cannot be borrowed.
#[derive(Deserialize)]
struct Text(#[serde(borrow)] Cow<'static, str>);

/// A type: of a kind, of a field, or of an array's elements.
#[derive(Clone, Copy)]
pub(crate) struct TypeRef<'a> {
    schemas: &'a Schemas,
    text: &'a str,
}

/// A field of a type.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    schemas: &'a Schemas,
    text: &'a str,
}

impl Schemas {
    /// The table this program was built with.
    pub(crate) fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Schemas> = LazyLock::new(|| {
            Schemas::parse(include_str!("tables/schemas.json")).expect("the generated table is well-formed")
        });
        &BUILTIN
    }

    fn parse(table: &'static str) -> serde_json::Result<Self> {
        serde_json::from_str(table)
    }

    /// The type of a built-in kind.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<TypeRef<'_>> {
        let text = self.kinds.get(format!("{api_version}/{kind}").as_str())?;
        Some(TypeRef { schemas: self, text })
    }
}

impl<'a> TypeRef<'a> {
    /// The field of this name; `None` too if this type has no fields of its own (a scalar, an array, a map).
    pub(crate) fn field(self, name: &str) -> Option<Field<'a>> {
        let text = self.schemas.types.get(self.text)?.get(name)?;
        Some(Field { schemas: self.schemas, text: &text.0 })
    }

    /// The type of an array's elements.
    pub(crate) fn items(self) -> Option<Self> {
        Some(Self { text: self.text.strip_prefix('[')?, ..self })
    }
}

impl<'a> Field<'a> {
    /// The type of the field's value.
    pub(crate) fn value_type(self) -> TypeRef<'a> {
        let text = self.text.split_once(';').map_or(self.text, |(text, _)| text);
        TypeRef { schemas: self.schemas, text }
    }

    /// Whether a strategic merge patch merges the elements of this list.
    pub(crate) fn merges_elements(self) -> bool {
        self.has_patch_strategy("merge")
    }

    /// Whether a strategic merge patch replaces this map as a whole.
    pub(crate) fn replaces(self) -> bool {
        self.has_patch_strategy("replace")
    }

    /// The member that identifies an element when a strategic merge patch merges this list.
    pub(crate) fn merge_key(self) -> Option<&'a str> {
        self.attribute("mergeKey")
    }

    fn has_patch_strategy(self, wanted: &str) -> bool {
        self.attribute("patch").is_some_and(|strategies| strategies.split(',').any(|s| s == wanted))
    }

    fn attribute(self, wanted: &str) -> Option<&'a str> {
        let (_, mut rest) = self.text.split_once(';')?;
        loop {
            if let Some(default) = rest.strip_prefix("default=") {
                return (wanted == "default").then_some(default);
            }
            let (attribute, others) = rest.split_once(';').unwrap_or((rest, ""));
            if let Some((name, value)) = attribute.split_once('=')
                && name == wanted
            {
                return Some(value);
            }
            if others.is_empty() {
                return None;
            }
            rest = others;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn pod() -> TypeRef<'static> {
        static SCHEMAS: LazyLock<Schemas> = LazyLock::new(|| Schemas::parse(TABLE).unwrap());
        SCHEMAS.of_kind("v1", "Pod").unwrap()
    }

    #[test]
    fn a_list_of_maps_knows_its_key_and_the_fields_of_its_elements() {
        for (name, merges) in
            [("containers", true), ("volumes", true), ("selector", false), ("strategy", false)]
        {
            assert_eq!(pod().field(name).unwrap().merges_elements(), merges, "{name}");
        }
        let containers = pod().field("containers").unwrap();
        assert_eq!(containers.merge_key(), Some("name"));
        assert!(containers.value_type().field("name").is_none(), "a list has no fields");
        assert!(containers.value_type().items().unwrap().field("name").is_some());
    }

    #[test]
    fn only_the_strategy_replace_replaces() {
        assert!(pod().field("selector").unwrap().replaces());
        assert!(!pod().field("strategy").unwrap().replaces());
        assert!(!pod().field("labels").unwrap().replaces());
    }

    #[test]
    fn arrays_nest_and_maps_have_no_fields() {
        let matrix = pod().field("matrix").unwrap().value_type();
        assert!(matrix.items().unwrap().items().is_some());
        assert!(matrix.items().unwrap().items().unwrap().items().is_none());
        let labels = pod().field("labels").unwrap().value_type();
        assert!(labels.items().is_none() && labels.field("app").is_none());
        assert!(pod().field("started").unwrap().value_type().items().is_none());
    }

    #[test]
    fn what_looks_like_an_attribute_inside_a_default_is_none() {
        let odd = pod().field("odd").unwrap();
        assert!(!odd.merges_elements() && odd.merge_key().is_none());
        assert!(odd.value_type().field("name").is_some());
    }

    #[test]
    fn unknown_kinds_and_fields_have_no_type() {
        assert!(Schemas::builtin().of_kind("example.org/v1", "Widget").is_none());
        assert!(pod().field("bogus").is_none());
    }

    #[test]
    fn every_type_that_the_built_in_table_names_is_in_it() {
        let schemas = Schemas::builtin();
        let scalars = ["string", "integer", "number", "boolean", "any"];
        let known = |text: &str| {
            let name = text.trim_start_matches(['[', '{']);
            schemas.types.contains_key(name) || scalars.contains(&name.split(':').next().unwrap())
        };
        assert!(schemas.kinds.values().all(|name| schemas.types.contains_key(name)));
        for (name, fields) in &schemas.types {
            for text in fields.values() {
                let field = Field { schemas, text: &text.0 };
                let value_type = field.value_type();
                assert!(known(value_type.text), "{name}: {}", text.0);
                if let Some(key) = field.merge_key() {
                    assert!(value_type.items().unwrap().field(key).is_some(), "{name}: {}", text.0);
                }
            }
        }
    }

    #[test]
    fn the_built_in_table_knows_how_lists_of_a_pod_merge() {
        let pod = Schemas::builtin().of_kind("v1", "Pod").unwrap();
        let spec = pod.field("spec").unwrap().value_type();
        assert_eq!(spec.field("containers").unwrap().merge_key(), Some("name"));
        assert!(spec.field("volumes").unwrap().merges_elements());
        assert!(!spec.field("tolerations").unwrap().merges_elements());
        let deployment = Schemas::builtin().of_kind("apps/v1", "Deployment").unwrap();
        assert!(deployment.field("spec").unwrap().value_type().field("strategy").is_some());
    }
}
