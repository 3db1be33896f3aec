//! What the API takes of OpenAPI in the schema of a definition, beside the rules of structural schemas.

use std::collections::HashSet;

use serde_json::Value;

use super::SchemaNotes;
use super::causes::{Causes, Path, clipped, invalid, not_supported};
use super::compile::kind;
use super::formats::is_recognized;
use super::structural::{MAX_DEPTH, is_on, is_set, text};
use crate::api::{Cause, JsonMap};

/// How many formats without effect are named.
const MAX_FORMATS: usize = 100;

/// What came of checking a schema.
pub(super) struct Checked {
    pub(super) causes: Causes,
    pub(super) notes: SchemaNotes,
}

/// Checks a schema and all below it. What the real server cannot read at all, such as a text in the place of a schema,
/// is a cause too.
pub(super) fn check(schema: &JsonMap, base: &str) -> Checked {
    let mut walk = Walk {
        path: Path::new(base),
        causes: Causes::default(),
        depth: 0,
        names_schema: false,
        notes: SchemaNotes::default(),
    };
    if is_on(schema, "nullable") {
        walk.forbidden("nullable", "nullable cannot be true at the root");
    }
    walk.schema(schema, &Surroundings { is_root: true, ..Surroundings::default() });
    if walk.names_schema && walk.causes.is_empty() {
        // A real server finds it later than the rest.
        walk.causes.add(Cause::invalid(base, "", "OpenAPIV3Schema 'schema' is not supported"));
    }
    Checked { causes: walk.causes, notes: walk.notes }
}

/// What a schema stands in.
#[derive(Clone, Default)]
struct Surroundings {
    is_root: bool,
    /// It describes `metadata`, `kind` or `apiVersion`, or what is in them.
    in_metadata: bool,
    /// Why it may have no default.
    no_default: Option<String>,
}

struct Walk {
    path: Path,
    causes: Causes,
    depth: usize,
    /// Some schema has a `$schema`.
    names_schema: bool,
    notes: SchemaNotes,
}

impl Walk {
    fn required(&mut self, field: &str, detail: &str) {
        self.causes.add(Cause::required(&self.path.of(field), detail));
    }

    fn forbidden(&mut self, field: &str, detail: &str) {
        self.causes.add(Cause::forbidden(&self.path.of(field), detail));
    }

    fn invalid(&mut self, field: &str, value: &Value, detail: &str) {
        if !self.causes.is_full() {
            self.causes.add(invalid(self.path.of(field), value, detail));
        }
    }

    /// The schema in a field of another, at the path of that field.
    fn below(&mut self, value: &Value, around: &Surroundings) {
        match value {
            Value::Object(schema) if self.depth < MAX_DEPTH && !self.causes.is_full() => {
                self.depth += 1;
                self.schema(schema, around);
                self.depth -= 1;
            }
            Value::Object(_) | Value::Null => {}
            other => {
                let cause = invalid(self.path.as_str(), other, "must be a schema");
                self.causes.add(cause);
            }
        }
    }

    fn schema(&mut self, schema: &JsonMap, around: &Surroundings) {
        let format = text(schema, "format");
        if !format.is_empty()
            && self.notes.unrecognized_formats.len() < MAX_FORMATS
            && !is_recognized(kind(schema), format)
            && !self.notes.unrecognized_formats.iter().any(|known| known == format)
        {
            self.notes.unrecognized_formats.push(clipped(format).to_owned());
        }
        self.names_schema |= is_set(schema, "$schema");
        self.standard(schema, around);
        if is_on(schema, "uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbidden("uniqueItems", detail);
        }
        self.entries(schema, around);
        self.properties(schema, around);
        let inner = Surroundings { is_root: false, ..around.clone() };
        if let Some(not) = schema.get("not") {
            let mark = self.path.field("not");
            self.below(not, &inner);
            self.path.back(&mark);
        }
        for field in ["allOf", "oneOf", "anyOf"] {
            for (index, one) in schema.get(field).and_then(Value::as_array).into_iter().flatten().enumerate()
            {
                let mark = self.path.field(field);
                self.path.index(index);
                self.below(one, &inner);
                self.path.back(&mark);
            }
        }
        if let Some(items @ Value::Object(_)) = schema.get("items") {
            let mark = self.path.field("items");
            self.below(items, &inner);
            self.path.back(&mark);
        }
        if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            self.invalid(
                "x-kubernetes-preserve-unknown-fields",
                &Value::Bool(false),
                "must be true or undefined",
            );
        }
        self.map_type(schema);
        self.list_type(schema);
        self.expressions(schema);
    }

    fn entries(&mut self, schema: &JsonMap, around: &Surroundings) {
        let Some(entries) = schema.get("additionalProperties").filter(|v| !v.is_null()) else { return };
        if is_set(schema, "properties")
            && schema["properties"] != serde_json::json!({})
            && *entries != Value::Bool(true)
        {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.forbidden("additionalProperties", detail);
        }
        if entries.is_boolean() {
            return;
        }
        let mut inner = Surroundings { is_root: false, ..around.clone() };
        if around.in_metadata {
            inner.no_default = Some("inside additionalProperties applying to object metadata".to_owned());
        }
        let mark = self.path.field("additionalProperties");
        self.below(entries, &inner);
        self.path.back(&mark);
    }

    fn properties(&mut self, schema: &JsonMap, around: &Surroundings) {
        match schema.get("properties") {
            None | Some(Value::Null) => {}
            Some(Value::Object(properties)) => {
                let of_resource = around.is_root || is_on(schema, "x-kubernetes-embedded-resource");
                for (name, property) in properties {
                    let mut inner = Surroundings { is_root: false, ..around.clone() };
                    if of_resource && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
                        inner.in_metadata = true;
                        if around.is_root {
                            inner.no_default = Some(format!("in top-level {name}"));
                        }
                    }
                    let mark = self.path.entry("properties", name);
                    self.below(property, &inner);
                    self.path.back(&mark);
                }
            }
            Some(other) => self.invalid("properties", other, "must be a map of schemas"),
        }
    }

    /// The fields that OpenAPI has and the API takes not, or not so.
    fn standard(&mut self, schema: &JsonMap, around: &Surroundings) {
        const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
        match schema.get("type") {
            None | Some(Value::Null) => {}
            Some(Value::String(given)) if given.is_empty() || TYPES.contains(&given.as_str()) => {}
            Some(other) => {
                let cause = not_supported(&self.path.of("type"), other, &TYPES.map(Value::from));
                self.causes.add(cause);
            }
        }
        if schema.get("default").is_some_and(|v| !v.is_null())
            && let Some(reason) = &around.no_default
        {
            self.forbidden("default", &format!("must not be set {reason}"));
        }
        for (field, detail) in [
            ("id", "id is not supported"),
            ("additionalItems", "additionalItems is not supported"),
            ("patternProperties", "patternProperties is not supported"),
            ("definitions", "definitions is not supported"),
            ("dependencies", "dependencies is not supported"),
            ("$ref", "$ref is not supported"),
        ] {
            let is_there = match schema.get(field) {
                // An empty map says nothing, but `false` of additional items does.
                Some(Value::Object(map)) => !map.is_empty() || field == "additionalItems",
                Some(Value::Bool(_)) => field == "additionalItems",
                _ => is_set(schema, field),
            };
            if is_there {
                self.forbidden(field, detail);
            }
        }
        if text(schema, "type") == "null" {
            self.forbidden("type", "type cannot be set to null, use nullable as an alternative");
        }
        match schema.get("items") {
            Some(Value::Array(list)) if !list.is_empty() => {
                self.forbidden("items", "items must be a schema object and not an array");
            }
            None | Some(Value::Null | Value::Array(_) | Value::Object(_)) => {}
            Some(other) => self.invalid("items", other, "must be a schema"),
        }
        if around.in_metadata && is_on(schema, "x-kubernetes-embedded-resource") {
            self.forbidden("x-kubernetes-embedded-resource", "must not be used inside of resource meta");
        }
    }

    /// An extension that is for one type alone.
    fn only_for(&mut self, schema: &JsonMap, extension: &str, wanted: &str) -> bool {
        let detail = format!("must be {wanted} if {extension} is specified");
        match text(schema, "type") {
            given if given == wanted => return true,
            "" => self.required("type", &detail),
            other => self.invalid("type", &other.into(), &detail),
        }
        false
    }

    fn map_type(&mut self, schema: &JsonMap) {
        const FIELD: &str = "x-kubernetes-map-type";
        let Some(given) = schema.get(FIELD).filter(|v| !v.is_null()) else { return };
        self.only_for(schema, FIELD, "object");
        if !matches!(given.as_str(), Some("atomic" | "granular")) {
            let cause = not_supported(&self.path.of(FIELD), given, &["atomic", "granular"].map(Value::from));
            self.causes.add(cause);
        }
    }

    fn list_type(&mut self, schema: &JsonMap) {
        const FIELD: &str = "x-kubernetes-list-type";
        const KEYS: &str = "x-kubernetes-list-map-keys";
        let keys: Vec<&str> = schema
            .get(KEYS)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let given = schema.get(FIELD).filter(|v| !v.is_null());
        if !keys.is_empty() && given.is_none_or(|v| v != "map") {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            match given {
                None => self.required(FIELD, detail),
                Some(other) => self.invalid(FIELD, other, detail),
            }
        }
        let Some(given) = given else { return };
        let items = schema.get("items").and_then(Value::as_object);
        if self.only_for(schema, FIELD, "array") && given == "set" {
            self.atomic_elements(items);
        }
        if !matches!(given.as_str(), Some("atomic" | "set" | "map")) {
            let cause =
                not_supported(&self.path.of(FIELD), given, &["atomic", "set", "map"].map(Value::from));
            self.causes.add(cause);
        }
        if given == "map" {
            self.list_map(schema, items, &keys);
        }
        if matches!(given.as_str(), Some("set" | "map")) && items.is_some_and(|i| is_on(i, "nullable")) {
            let kind = given.as_str().unwrap_or_default();
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
            self.forbidden("items.nullable", &detail);
        }
        if given == "map" {
            self.list_map_keys(items, &keys);
        }
    }

    /// The elements of a set are compared as wholes.
    fn atomic_elements(&mut self, items: Option<&JsonMap>) {
        let Some(items) = items else { return };
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let (list, map) = (items.get("x-kubernetes-list-type"), items.get("x-kubernetes-map-type"));
        match text(items, "type") {
            "array" if list.is_some_and(|v| !v.is_null() && v != "atomic") => {
                self.invalid("items.x-kubernetes-list-type", list.unwrap_or(&Value::Null), detail);
            }
            "object" if map.is_none_or(|v| v != "atomic") => {
                self.invalid("items.x-kubernetes-map-type", list.unwrap_or(&Value::Null), detail);
            }
            _ => {}
        }
    }

    fn list_map(&mut self, schema: &JsonMap, items: Option<&JsonMap>, keys: &[&str]) {
        const KEYS: &str = "x-kubernetes-list-map-keys";
        if keys.is_empty() {
            self.required(KEYS, "must not be empty if x-kubernetes-list-type is map");
        }
        if schema.get("items").is_none_or(Value::is_null) {
            self.required("items", "must have a schema if x-kubernetes-list-type is map");
        }
        let Some(items) = items else { return };
        let given = text(items, "type");
        if given != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            self.invalid("items.type", &given.into(), detail);
            return;
        }
        let mut seen = HashSet::new();
        let properties = items.get("properties").and_then(Value::as_object);
        let all_keys: Value = keys.iter().copied().collect();
        for key in keys {
            match properties.and_then(|p| p.get(*key)).and_then(Value::as_object) {
                Some(property) if matches!(text(property, "type"), "array" | "object") => {
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.invalid(&format!("items.properties[{key}].type"), &given.into(), detail);
                }
                Some(_) => {}
                None => self.invalid(KEYS, &all_keys, "entries must all be names of item properties"),
            }
            if !seen.insert(*key) {
                self.invalid(KEYS, &all_keys, "must not contain duplicate entries");
            }
        }
    }

    /// Every element of such a list has a value for each key.
    fn list_map_keys(&mut self, items: Option<&JsonMap>, keys: &[&str]) {
        let Some(items) = items else { return };
        let properties = items.get("properties").and_then(Value::as_object);
        let required: HashSet<&str> = items
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for key in keys {
            let Some(property) = properties.and_then(|p| p.get(*key)).and_then(Value::as_object) else {
                continue;
            };
            if !required.contains(key) && property.get("default").is_none_or(Value::is_null) {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.required(&format!("items.properties[{key}].default"), detail);
            }
            if is_on(property, "nullable") {
                let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.forbidden(&format!("items.properties[{key}].nullable"), detail);
            }
        }
    }

    /// Rules in CEL are not run, nor compiled: what can be said of them without is.
    fn expressions(&mut self, schema: &JsonMap) {
        const FIELD: &str = "x-kubernetes-validations";
        const REASONS: [&str; 4] =
            ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        let rules = schema.get(FIELD).and_then(Value::as_array).into_iter().flatten();
        for (index, rule) in rules.enumerate() {
            self.notes.has_rules = true;
            let at = |part: &str| format!("{FIELD}[{index}].{part}");
            let (expression, message) =
                (rule["rule"].as_str().unwrap_or_default().trim(), rule["message"].as_str());
            let has_lines = |text: &str| text.contains(['\n', '\r']);
            if expression.is_empty() {
                self.required(&at("rule"), "rule is not specified");
            } else if message.is_some_and(|m| !m.is_empty() && m.trim().is_empty()) {
                self.invalid(&at("message"), &rule["message"], "must be non-empty if specified");
            } else if message.is_some_and(|m| has_lines(m.trim())) {
                self.invalid(&at("message"), &rule["message"], "must not contain line breaks");
            } else if has_lines(expression) && message.is_none_or(|m| m.trim().is_empty()) {
                self.required(&at("message"), "message must be specified if rule contains line breaks");
            }
            let is_blank =
                |field: &str| rule[field].as_str().is_some_and(|t| !t.is_empty() && t.trim().is_empty());
            if is_blank("messageExpression") {
                self.required(&at("messageExpression"), "messageExpression must be non-empty if specified");
            }
            if let Some(reason) = rule.get("reason").filter(|reason| !reason.is_null())
                && !reason.as_str().is_some_and(|reason| REASONS.contains(&reason))
            {
                let cause = not_supported(&self.path.of(&at("reason")), reason, &REASONS.map(Value::from));
                self.causes.add(cause);
            }
            if is_blank("fieldPath") {
                self.invalid(&at("fieldPath"), &rule["fieldPath"], "must be non-empty if specified");
            }
            if rule["fieldPath"].as_str().is_some_and(has_lines) {
                self.invalid(&at("fieldPath"), &rule["fieldPath"], "must not contain line breaks");
            }
            if self.causes.is_full() {
                return;
            }
        }
    }
}
