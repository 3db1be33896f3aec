//! Schemas of definitions whose keywords are of another JSON type than in the API: a real server cannot even read these.

use serde_json::Value;

use super::causes::clipped;
use crate::api::JsonMap;

/// What a keyword holds, by Go's name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Int64,
    Float64,
    Bool,
    String,
    Strings,
    /// A schema.
    Schema,
    /// A list of schemas.
    Schemas,
    /// A map of schemas.
    SchemaMap,
    /// A schema, or something that is no schema.
    SchemaOr,
}

const KEYWORDS: [(&str, Held); 38] = [
    ("maxLength", Held::Int64),
    ("minLength", Held::Int64),
    ("maxItems", Held::Int64),
    ("minItems", Held::Int64),
    ("maxProperties", Held::Int64),
    ("minProperties", Held::Int64),
    ("maximum", Held::Float64),
    ("minimum", Held::Float64),
    ("multipleOf", Held::Float64),
    ("exclusiveMaximum", Held::Bool),
    ("exclusiveMinimum", Held::Bool),
    ("uniqueItems", Held::Bool),
    ("nullable", Held::Bool),
    ("x-kubernetes-preserve-unknown-fields", Held::Bool),
    ("x-kubernetes-embedded-resource", Held::Bool),
    ("x-kubernetes-int-or-string", Held::Bool),
    ("id", Held::String),
    ("$schema", Held::String),
    ("$ref", Held::String),
    ("type", Held::String),
    ("format", Held::String),
    ("title", Held::String),
    ("description", Held::String),
    ("pattern", Held::String),
    ("x-kubernetes-list-type", Held::String),
    ("x-kubernetes-map-type", Held::String),
    ("required", Held::Strings),
    ("x-kubernetes-list-map-keys", Held::Strings),
    ("not", Held::Schema),
    ("allOf", Held::Schemas),
    ("anyOf", Held::Schemas),
    ("oneOf", Held::Schemas),
    ("properties", Held::SchemaMap),
    ("patternProperties", Held::SchemaMap),
    ("definitions", Held::SchemaMap),
    ("items", Held::SchemaOr),
    ("additionalProperties", Held::SchemaOr),
    ("additionalItems", Held::SchemaOr),
];

/// What a server says of the first keyword in the schemas of a definition that it cannot read.
pub(crate) fn unreadable_keyword(definition: &JsonMap) -> Option<String> {
    let versions = definition.get("spec")?.get("versions")?.as_array()?;
    versions.iter().find_map(|version| {
        let schema = version.get("schema")?.get("openAPIV3Schema")?.as_object()?;
        in_schema(schema, "spec.versions.schema.openAPIV3Schema")
    })
}

/// The depth is that of the definition, which its decoder has limited.
fn in_schema(schema: &JsonMap, path: &str) -> Option<String> {
    schema.iter().find_map(|(name, value)| {
        let (_, held) = KEYWORDS.iter().find(|(keyword, _)| keyword == name)?;
        in_keyword(*held, value, &format!("{path}.{name}"))
    })
}

fn in_keyword(held: Held, value: &Value, path: &str) -> Option<String> {
    let fault = |value: &Value, expected: &str| {
        let given = match value {
            Value::Null => return None,
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(number) if expected == "int64" => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let field = clipped(path);
        Some(format!(
            "json: cannot unmarshal {given} into Go struct field JSONSchemaProps.{field} of type {expected}"
        ))
    };
    match (held, value) {
        (Held::Int64, value) if !value.is_i64() => fault(value, "int64"),
        (Held::Float64, value) if !value.is_number() => fault(value, "float64"),
        (Held::Bool, value) if !value.is_boolean() => fault(value, "bool"),
        (Held::String, value) if !value.is_string() => fault(value, "string"),
        (Held::Strings, Value::Array(list)) => {
            list.iter().filter(|one| !one.is_string()).find_map(|one| fault(one, "string"))
        }
        (Held::Strings, value) => fault(value, "[]string"),
        (Held::Schema, Value::Object(schema)) => in_schema(schema, path),
        (Held::Schema, value) => fault(value, "v1.JSONSchemaProps"),
        (Held::Schemas, Value::Array(list)) => {
            list.iter().find_map(|one| in_keyword(Held::Schema, one, path))
        }
        (Held::Schemas, value) => fault(value, "[]v1.JSONSchemaProps"),
        (Held::SchemaMap, Value::Object(map)) => {
            map.values().find_map(|one| in_keyword(Held::Schema, one, path))
        }
        (Held::SchemaMap, value) => fault(value, "map[string]v1.JSONSchemaProps"),
        (Held::SchemaOr, Value::Object(schema)) => in_schema(schema, path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keywords_of_another_type_are_named() {
        let of = |schema: Value| {
            let definition = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
            unreadable_keyword(definition.as_object().unwrap()).unwrap_or_default()
        };
        let start = "json: cannot unmarshal";
        let at = "into Go struct field JSONSchemaProps";
        let root = "spec.versions.schema.openAPIV3Schema";
        for (schema, expected) in [
            (
                json!({"type": "object", "maxLength": null, "default": "any", "properties": {"type": {"maxLength": 3}}}),
                String::new(),
            ),
            (
                json!({"properties": {"a": {"maxLength": "63"}}}),
                format!("{start} string {at}.{root}.properties.maxLength of type int64"),
            ),
            (
                json!({"items": {"maxItems": 1.5}}),
                format!("{start} number 1.5 {at}.{root}.items.maxItems of type int64"),
            ),
            (json!({"required": "a"}), format!("{start} string {at}.{root}.required of type []string")),
            (
                json!({"anyOf": [{"nullable": "true"}]}),
                format!("{start} string {at}.{root}.anyOf.nullable of type bool"),
            ),
        ] {
            assert_eq!(of(schema.clone()), expected, "{schema}");
        }
    }
}
