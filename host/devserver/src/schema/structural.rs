//! What the schema of a definition must be like: structural, and made of what the API knows of OpenAPI.
//!
//! A schema is structural when its types stand in a skeleton of `properties`, `items` and `additionalProperties`, so
//! that every field has one type, and `allOf`, `anyOf`, `oneOf` and `not` only restrict values of fields that the
//! skeleton has. Pruning and defaulting need that.
//!
//! The walk goes no deeper than [`MAX_DEPTH`] levels, and ends when its list of causes is full.

use serde_json::Value;

use super::causes::{Causes, Path, invalid};
use super::pattern::Patterns;
use crate::api::{Cause, JsonMap};

/// How deep a schema may be. The API's own limit is that of JSON: some sixty levels, each of two.
pub(crate) const MAX_DEPTH: usize = 100;

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What breaks the rules of structural schemas.
pub(super) fn check<'a>(schema: &'a JsonMap, base: &str, patterns: &mut Patterns<'a>) -> Causes {
    let (path, causes) = (Path::new(base), Causes::default());
    let mut walk = Walk { path, causes, depth: 0, patterns, has_too_many_patterns: false };
    walk.skeleton(schema, Level::Root);
    if walk.has_too_many_patterns {
        walk.causes.add(Cause::invalid(base, "", super::TOO_MANY_PATTERNS));
    }
    // As on a real server, of the outermost rules alone.
    walk.rules_complete(schema, Some(schema), &mut Path::new(base));
    walk.causes.sorted()
}

struct Walk<'a, 'p> {
    path: Path,
    causes: Causes,
    depth: usize,
    patterns: &'p mut Patterns<'a>,
    has_too_many_patterns: bool,
}

/// The entries of a schema that are themselves schemas, with what stands for each in a path.
fn subschemas<'a>(schema: &'a JsonMap, field: &str) -> impl Iterator<Item = (&'a str, &'a JsonMap)> {
    let map = schema.get(field).and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(key, value)| Some((key.as_str(), value.as_object()?)))
}

fn alternatives<'a>(schema: &'a JsonMap, field: &str) -> impl Iterator<Item = (usize, &'a JsonMap)> {
    let list = schema.get(field).and_then(Value::as_array).into_iter().flatten();
    list.enumerate().filter_map(|(index, value)| Some((index, value.as_object()?)))
}

fn subschema<'a>(schema: &'a JsonMap, field: &str) -> Option<&'a JsonMap> {
    schema.get(field)?.as_object()
}

pub(super) fn text<'a>(schema: &'a JsonMap, field: &str) -> &'a str {
    schema.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn is_on(schema: &JsonMap, field: &str) -> bool {
    schema.get(field) == Some(&Value::Bool(true))
}

/// Whether a field is there and says something.
pub(super) fn is_set(schema: &JsonMap, field: &str) -> bool {
    match schema.get(field) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(list)) => !list.is_empty(),
        Some(_) => true,
    }
}

/// Whether these alternatives are `integer` and `string`, the usual form of an integer or a string.
fn is_int_or_string(schema: &JsonMap) -> bool {
    let types = |one: &Value, name: &str| {
        one.as_object().is_some_and(|one| one.len() == 1 && text(one, "type") == name)
    };
    matches!(schema.get("anyOf").and_then(Value::as_array).map(Vec::as_slice),
        Some([a, b]) if types(a, "integer") && types(b, "string"))
}

impl<'a> Walk<'a, '_> {
    /// Goes one level down, if there is reason to.
    fn enter(&mut self, down: impl FnOnce(&mut Self)) {
        if self.depth >= MAX_DEPTH {
            let cause = Cause::forbidden(
                self.path.as_str(),
                &format!("must not be nested deeper than {MAX_DEPTH} levels"),
            );
            self.causes.add(cause);
        } else if !self.causes.is_full() {
            self.depth += 1;
            down(self);
            self.depth -= 1;
        }
    }

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

    /// A schema of the skeleton.
    fn skeleton(&mut self, schema: &'a JsonMap, level: Level) {
        if text(schema, "type") == "array" && !is_set(schema, "items") {
            self.required("items", "must be specified");
        }
        if let Some(items) = subschema(schema, "items") {
            let mark = self.path.field("items");
            self.enter(|walk| walk.skeleton(items, Level::Item));
            self.path.back(&mark);
        }
        for (name, property) in subschemas(schema, "properties") {
            let mark = self.path.entry("properties", name);
            self.enter(|walk| walk.skeleton(property, Level::Field));
            self.path.back(&mark);
        }
        if schema.get("additionalProperties").is_some_and(|v| !v.is_null()) {
            if level == Level::Root {
                self.forbidden("additionalProperties", "must not be used at the root");
            }
            if let Some(entries) = subschema(schema, "additionalProperties") {
                let mark = self.path.field("additionalProperties");
                self.enter(|walk| walk.skeleton(entries, Level::Field));
                self.path.back(&mark);
            }
        }
        self.extensions(schema);
        self.rules(schema, is_int_or_string(schema), starts_with_int_or_string(schema));
        self.type_of(schema, level);
        self.metadata(schema, level);
    }

    fn extensions(&mut self, schema: &JsonMap) {
        if is_on(schema, "x-kubernetes-int-or-string") {
            for field in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
                if is_on(schema, field) {
                    self.invalid(
                        field,
                        &Value::Bool(true),
                        "must be false if x-kubernetes-int-or-string is true",
                    );
                }
            }
        }
    }

    fn type_of(&mut self, schema: &JsonMap, level: Level) {
        let given = text(schema, "type");
        if is_on(schema, "x-kubernetes-embedded-resource") {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            match given {
                "object" => {}
                "" => self.required("type", detail),
                other => self.invalid("type", &other.into(), detail),
            }
            if schema.get("additionalProperties").is_some_and(|v| !v.is_null()) {
                let detail = "must not be used if x-kubernetes-embedded-resource is set";
                self.forbidden("additionalProperties", detail);
            }
            let has_fields = subschemas(schema, "properties").next().is_some();
            if !has_fields && !is_on(schema, "x-kubernetes-preserve-unknown-fields") {
                let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                              x-kubernetes-preserve-unknown-fields";
                self.required("properties", detail);
            }
        } else if given.is_empty()
            && !is_on(schema, "x-kubernetes-int-or-string")
            && !is_on(schema, "x-kubernetes-preserve-unknown-fields")
        {
            self.required(
                "type",
                match level {
                    Level::Root => "must not be empty at the root",
                    Level::Item => "must not be empty for specified array items",
                    Level::Field => "must not be empty for specified object fields",
                },
            );
        }
        if level == Level::Root && !matches!(given, "" | "object") {
            self.invalid("type", &given.into(), "must be object at the root");
        }
    }

    /// What a schema says of `kind`, `apiVersion` and `metadata` of a resource.
    fn metadata(&mut self, schema: &JsonMap, level: Level) {
        let of_resource = level == Level::Root || is_on(schema, "x-kubernetes-embedded-resource");
        let Some(properties) = subschema(schema, "properties").filter(|_| of_resource) else { return };
        for (name, wanted, detail) in [
            ("kind", "string", "must be string"),
            ("apiVersion", "string", "must be string"),
            ("metadata", "object", "must be object"),
        ] {
            let Some(property) = subschema(properties, name) else { continue };
            let given = text(property, "type");
            if given != wanted {
                self.invalid(&format!("properties[{name}].type"), &given.into(), detail);
            }
        }
        let Some(metadata) = subschema(properties, "metadata").filter(|_| level == Level::Root) else {
            return;
        };
        let says_more = metadata.iter().any(|(field, value)| match field.as_str() {
            "type" | "default" => false,
            "properties" => value
                .as_object()
                .is_some_and(|p| p.keys().any(|k| !matches!(k.as_str(), "name" | "generateName"))),
            field => is_set(metadata, field),
        });
        if says_more {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.forbidden("properties[metadata]", detail);
        }
    }

    /// What a schema demands of values; `skip` and `skip_first` mark the forms of an integer or a string.
    fn rules(&mut self, schema: &'a JsonMap, skip: bool, skip_first: bool) {
        for (index, one) in alternatives(schema, "anyOf").filter(|_| !skip) {
            self.nested_at("anyOf", index, one, false);
        }
        for (index, one) in alternatives(schema, "allOf") {
            self.nested_at("allOf", index, one, skip_first && index == 0);
        }
        for (index, one) in alternatives(schema, "oneOf") {
            self.nested_at("oneOf", index, one, false);
        }
        if let Some(not) = subschema(schema, "not") {
            let mark = self.path.field("not");
            self.enter(|walk| walk.nested(not, false));
            self.path.back(&mark);
        }
        let pattern = text(schema, "pattern");
        if pattern.is_empty() {
            return;
        }
        match self.patterns.get(pattern) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                let detail = format!("must be a valid regular expression, but isn't: {error}");
                self.invalid("pattern", &pattern.into(), &detail);
            }
            Err(_) => self.has_too_many_patterns = true,
        }
    }

    fn nested_at(&mut self, field: &str, index: usize, schema: &'a JsonMap, skip: bool) {
        let mark = self.path.field(field);
        self.path.index(index);
        self.enter(|walk| walk.nested(schema, skip));
        self.path.back(&mark);
    }

    /// A schema under `allOf`, `anyOf`, `oneOf` or `not`: it may demand, not define.
    fn nested(&mut self, schema: &'a JsonMap, skip: bool) {
        self.rules(schema, skip, false);
        if let Some(items) = subschema(schema, "items") {
            let mark = self.path.field("items");
            self.enter(|walk| walk.nested(items, false));
            self.path.back(&mark);
        }
        for (name, property) in subschemas(schema, "properties") {
            let mark = self.path.entry("properties", name);
            self.enter(|walk| walk.nested(property, false));
            self.path.back(&mark);
        }
        const NOT_HERE: [(&str, &str); 13] = [
            ("type", "must be empty to be structural"),
            ("additionalProperties", "must be undefined to be structural"),
            ("default", "must be undefined to be structural"),
            ("title", "must be empty to be structural"),
            ("description", "must be empty to be structural"),
            ("nullable", "must be false to be structural"),
            ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
            ("x-kubernetes-embedded-resource", "must be false to be structural"),
            ("x-kubernetes-int-or-string", "must be false to be structural"),
            ("x-kubernetes-list-map-keys", "must be empty to be structural"),
            ("x-kubernetes-list-type", "must be undefined to be structural"),
            ("x-kubernetes-map-type", "must be undefined to be structural"),
            ("x-kubernetes-validations", "must be empty to be structural"),
        ];
        for (field, detail) in NOT_HERE {
            // `false` is a default too; as `additionalProperties` it only restricts.
            let defines = field == "default";
            if is_set(schema, field) || defines && schema.get(field).is_some_and(|v| !v.is_null()) {
                self.forbidden(field, detail);
            }
        }
        if subschema(schema, "properties").is_some_and(|p| p.contains_key("metadata")) {
            self.forbidden("properties[metadata]", "must not be specified in a nested context");
        }
    }

    fn rules_complete(&mut self, rules: &JsonMap, skeleton: Option<&JsonMap>, at: &mut Path) {
        for field in ["allOf", "anyOf", "oneOf"] {
            for (index, one) in alternatives(rules, field) {
                let mark = at.field(field);
                at.index(index);
                self.enter(|walk| walk.nested_complete(one, skeleton, at));
                at.back(&mark);
            }
        }
        if let Some(not) = subschema(rules, "not") {
            let mark = at.field("not");
            self.enter(|walk| walk.nested_complete(not, skeleton, at));
            at.back(&mark);
        }
    }

    /// `self.path` is the place in the skeleton, `at` that of the rule.
    fn nested_complete(&mut self, rules: &JsonMap, skeleton: Option<&JsonMap>, at: &mut Path) {
        let Some(found) = skeleton else {
            let detail = format!("because it is defined in {}", at.as_str());
            self.causes.add(Cause::required(self.path.as_str(), &detail));
            return;
        };
        self.rules_complete(rules, skeleton, at);
        if let Some(items) = subschema(rules, "items") {
            let (mark, rule_mark) = (self.path.field("items"), at.field("items"));
            self.enter(|walk| walk.nested_complete(items, subschema(found, "items"), at));
            at.back(&rule_mark);
            self.path.back(&mark);
        }
        for (name, property) in subschemas(rules, "properties") {
            let (mark, rule_mark) = (self.path.entry("properties", name), at.entry("properties", name));
            let there = subschema(found, "properties").and_then(|p| subschema(p, name));
            self.enter(|walk| walk.nested_complete(property, there, at));
            at.back(&rule_mark);
            self.path.back(&mark);
        }
    }
}

/// Whether the first of `allOf` is the form of an integer or a string.
fn starts_with_int_or_string(schema: &JsonMap) -> bool {
    alternatives(schema, "allOf").next().is_some_and(|(index, one)| index == 0 && is_int_or_string(one))
}
