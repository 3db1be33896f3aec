//! From the `openAPIV3Schema` of a definition, as [`super::structural`] and [`super::openapi`] have let it pass, to [`Types`].

use serde_json::Value;

use super::formats::Format;
use super::pattern::{Pattern, Patterns, TooManyPatterns};
use super::structural::{MAX_DEPTH, is_on, text};
use super::types::{Bound, Entries, Field, Kind, ListKind, PatchStrategy, Range, Rules, Type, TypeId, Types};
use crate::api::JsonMap;

/// Why a schema cannot be compiled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TooLarge {
    Patterns,
    Depth,
}

/// The types of a schema, and the type of the object.
pub(super) fn compile<'a>(
    schema: &'a JsonMap,
    patterns: &mut Patterns<'a>,
) -> Result<(Types, TypeId), TooLarge> {
    let mut compiler = Compiler { types: Types::default(), patterns };
    let root = compiler.schema(schema, 0)?;
    Ok((compiler.types, root))
}

struct Compiler<'a, 'p> {
    types: Types,
    patterns: &'p mut Patterns<'a>,
}

impl<'a> Compiler<'a, '_> {
    fn schema(&mut self, schema: &'a JsonMap, depth: usize) -> Result<TypeId, TooLarge> {
        if depth > MAX_DEPTH {
            return Err(TooLarge::Depth);
        }
        let mut fields = std::collections::BTreeMap::<Box<str>, Field>::new();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let Value::Object(property) = property else { continue };
            let value_type = self.schema(property, depth + 1)?;
            let key_default = self.types.get(value_type).default.clone();
            let patch = PatchStrategy::default();
            let field = Field { value_type, patch, merge_key: None, atomic: false, key_default };
            fields.insert(name.as_str().into(), field);
        }
        let entries = match schema.get("additionalProperties") {
            Some(Value::Object(entries)) => Entries::Of(self.schema(entries, depth + 1)?),
            Some(Value::Bool(true)) => Entries::Any,
            Some(Value::Bool(false)) => Entries::Forbidden,
            _ => Entries::None,
        };
        let items = match schema.get("items") {
            Some(Value::Object(items)) => Some(self.schema(items, depth + 1)?),
            _ => None,
        };
        let rules = self.rules(schema, depth)?;
        let has_default = |field: &Field| self.types.get(field.value_type).default.is_some();
        let defaulted =
            fields.iter().filter(|(_, field)| has_default(field)).map(|(name, _)| name.clone()).collect();
        let compiled = Type {
            kind: kind(schema),
            nullable: is_on(schema, "nullable"),
            fields,
            defaulted,
            entries,
            items,
            list: list_kind(schema),
            preserves_unknown: is_on(schema, "x-kubernetes-preserve-unknown-fields"),
            atomic: text(schema, "x-kubernetes-map-type") == "atomic",
            any_scalar: kind(schema) == Kind::String && !matches!(text(schema, "format"), "" | "byte"),
            embedded: is_on(schema, "x-kubernetes-embedded-resource"),
            default: schema.get("default").filter(|v| !v.is_null()).cloned(),
            rules: (!rules.is_empty()).then(|| Box::new(rules)),
        };
        Ok(self.types.add(compiled))
    }

    fn rules(&mut self, schema: &'a JsonMap, depth: usize) -> Result<Rules, TooLarge> {
        let number = |field: &str| schema.get(field).and_then(Value::as_f64);
        let bound = |field: &str, exclusive: &str| {
            number(field).map(|value| Bound { value, exclusive: is_on(schema, exclusive) })
        };
        let range = |min: &str, max: &str| Range {
            min: schema.get(min).and_then(Value::as_i64),
            max: schema.get(max).and_then(Value::as_i64),
        };
        let list = |field: &str| schema.get(field).and_then(Value::as_array);
        Ok(Rules {
            required: list("required")
                .into_iter()
                .flatten()
                .filter_map(|v| Some(v.as_str()?.into()))
                .collect(),
            allowed: list("enum").filter(|values| !values.is_empty()).cloned(),
            format: Format::of(kind(schema), text(schema, "format")),
            pattern: self.pattern(text(schema, "pattern"))?,
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            length: range("minLength", "maxLength"),
            items: range("minItems", "maxItems"),
            properties: range("minProperties", "maxProperties"),
            all_of: self.alternatives(schema, "allOf", depth)?,
            any_of: self.alternatives(schema, "anyOf", depth)?,
            one_of: self.alternatives(schema, "oneOf", depth)?,
            not: match schema.get("not") {
                Some(Value::Object(not)) => Some(self.schema(not, depth + 1)?),
                _ => None,
            },
        })
    }

    fn alternatives(
        &mut self,
        schema: &'a JsonMap,
        field: &str,
        depth: usize,
    ) -> Result<Vec<TypeId>, TooLarge> {
        let list = schema.get(field).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_object).map(|one| self.schema(one, depth + 1)).collect()
    }

    fn pattern(&mut self, text: &'a str) -> Result<Option<Pattern>, TooLarge> {
        if text.is_empty() {
            return Ok(None);
        }
        // The check of the schema has named those that are malformed.
        self.patterns
            .get(text)
            .map(|found| found.as_ref().ok().cloned())
            .map_err(|TooManyPatterns| TooLarge::Patterns)
    }
}

/// The kind of the values that a schema describes.
pub(super) fn kind(schema: &JsonMap) -> Kind {
    if is_on(schema, "x-kubernetes-int-or-string") {
        return Kind::IntOrString;
    }
    match text(schema, "type") {
        "object" => Kind::Object,
        "array" => Kind::List,
        "string" => Kind::String,
        "integer" => Kind::Integer,
        "number" => Kind::Number,
        "boolean" => Kind::Boolean,
        _ => Kind::Any,
    }
}

fn list_kind(schema: &JsonMap) -> ListKind {
    match text(schema, "x-kubernetes-list-type") {
        "set" => ListKind::Set,
        "map" => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            ListKind::Map(keys.into_iter().flatten().filter_map(|key| Some(key.as_str()?.into())).collect())
        }
        _ => ListKind::Atomic,
    }
}
