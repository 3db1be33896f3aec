//! Whole schemas: what is refused of them, and what they do to objects.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Compiles a schema without asking whether a server would accept it.
pub(super) fn compiled(schema: &Value) -> (Types, TypeId) {
    compile::compile(schema.as_object().unwrap(), &mut Patterns::default()).unwrap()
}

fn texts(causes: &[Cause]) -> Vec<String> {
    causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect()
}

/// What is wrong with an object.
fn validated(schema: &Schema, object: &Value, old: Option<&JsonMap>) -> Vec<Cause> {
    let mut budget = Budget::new();
    let mut causes = schema.validate(object, old, &mut budget);
    causes.extend(schema.validate_structure(object, old, &mut budget));
    causes
}

/// What is wrong with an object whose `spec` has this schema.
fn violations(spec: Value, object: Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let schema = Schema::compile(schema.as_object().unwrap()).unwrap();
    texts(&validated(&schema, &json!({"spec": object}), None))
}

/// What a server has against a schema; nothing if it accepts it.
fn refusals(schema: Value) -> Vec<String> {
    Schema::check(schema.as_object().unwrap(), "s", &mut Budget::new())
        .err()
        .map(|causes| texts(&causes))
        .unwrap_or_default()
}

#[test]
fn values_that_break_the_schema_are_named_as_by_a_real_server() {
    for (schema, value, expected) in [
        (
            json!({"type": "integer"}),
            json!("x"),
            r#"spec: Invalid value: "string": spec in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "integer"}),
            json!(1.5),
            "spec: Invalid value: \"number\": spec in body must be of type integer: \"number\"\n<nil>: Invalid value: \"\": \
             Checked value must be of type integer (default format) in spec",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(1i64 << 40),
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(1.5),
            "spec: Invalid value: \"float64\": spec in body must be of type int32: \"float64\"\n<nil>: Invalid value: \"\": \
             Checked value must be of type integer with format int32 in spec",
        ),
        (
            json!({"type": "integer"}),
            json!(1e300),
            "spec: Invalid value: \"number\": spec in body must be of type integer: \"number\"\n<nil>: Invalid value: \"\": \
             Checked value must be of type integer (default format) in spec",
        ),
        (
            json!({"type": "number", "format": "float"}),
            json!(1e39),
            "<nil>: Invalid value: \"\": Checked value must be of type number with format float in spec",
        ),
        (
            json!({"type": "string", "format": "date"}),
            json!(true),
            r#"spec: Invalid value: "": spec in body must be of type date: """#,
        ),
        (
            json!({"type": "string", "format": "date"}),
            json!(5),
            r#"spec: Invalid value: "int64": spec in body must be of type date: "int64""#,
        ),
        (
            json!({"type": "number", "format": "int32"}),
            json!("x"),
            r#"spec: Invalid value: "string": spec in body must be of type number: "string""#,
        ),
        (
            json!({"type": "number", "maximum": 2.5}),
            json!(3),
            "spec: Invalid value: 3: spec in body should be less than or equal to 2",
        ),
        (
            json!({"type": "number", "maximum": 2.5, "exclusiveMaximum": true}),
            json!(2),
            "spec: Invalid value: 2: spec in body should be less than 2",
        ),
        (
            json!({"type": "integer", "minimum": 2.5}),
            json!(2),
            "<nil>: Invalid value: \"\": Minimum boundary value must be of type integer (default format) in spec\nspec: Invalid \
             value: 2: spec in body should be greater than or equal to 2.5",
        ),
        (
            json!({"type": "number", "multipleOf": 0.5}),
            json!(2),
            "spec: Invalid value: 0: factor MultipleOf declared for spec must be positive: 0",
        ),
        (
            json!({"type": "object", "minProperties": 1, "maxProperties": 0, "required": ["a"], "additionalProperties": {"type": "string"}}),
            json!({}),
            "spec: Invalid value: 0: spec in body should have at least 1 properties\nspec.a: Required value",
        ),
        (
            json!({"type": "object"}),
            json!([]),
            r#"spec: Invalid value: "array": spec in body must be of type object: "array""#,
        ),
        (
            json!({"type": "string"}),
            json!(null),
            r#"spec: Invalid value: "null": spec in body must be of type string: "null""#,
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            r#"spec: Invalid value: "boolean": spec in body must be of type integer,string: "boolean""#,
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("x"),
            r#"spec: Unsupported value: "x": supported values: "a", "b""#,
        ),
        (
            json!({"type": "integer", "enum": [1, 2]}),
            json!(3),
            r#"spec: Unsupported value: 3: supported values: "1", "2""#,
        ),
        (json!({"type": "object", "required": ["size"]}), json!({}), "spec.size: Required value"),
        (
            json!({"type": "string", "minLength": 1}),
            json!(""),
            r#"spec: Invalid value: "": spec in body should be at least 1 chars long"#,
        ),
        (
            json!({"type": "string", "maxLength": 2}),
            json!("äöü"),
            "spec: Too long: may not be more than 2 bytes",
        ),
        (
            json!({"type": "string", "pattern": "^[a-z]+$"}),
            json!("A"),
            r#"spec: Invalid value: "A": spec in body should match '^[a-z]+$'"#,
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("x"),
            r#"spec: Invalid value: "x": spec in body must be of type date-time: "x""#,
        ),
        (
            json!({"type": "integer", "maximum": 10}),
            json!(11),
            "spec: Invalid value: 11: spec in body should be less than or equal to 10",
        ),
        (
            json!({"type": "integer", "maximum": 10, "exclusiveMaximum": true}),
            json!(10),
            "spec: Invalid value: 10: spec in body should be less than 10",
        ),
        (
            json!({"type": "number", "minimum": 0.5}),
            json!(0.25),
            "spec: Invalid value: 0.25: spec in body should be greater than or equal to 0.5",
        ),
        (
            json!({"type": "integer", "multipleOf": 5}),
            json!(7),
            "spec: Invalid value: 7: spec in body should be a multiple of 5",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            json!([]),
            "spec: Invalid value: 0: spec in body should have at least 1 items",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
            json!(["a", "b"]),
            "spec: Too many: 2: must have at most 1 items",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!(["a", 1]),
            r#"spec[1]: Invalid value: "integer": spec[1] in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}}),
            json!({"a": "", "b": ""}),
            "spec: Too many: 2: must have at most 1 items",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"a": 1}),
            r#"spec.a: Invalid value: "integer": spec.a in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            json!(["a", "b", "a", "a"]),
            r#"spec[2]: Duplicate value: "a""#,
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "items": {"type": "object", "properties": {"n": {"type": "string"}}}}),
            json!([{"n": "a"}, {"n": "a"}]),
            r#"spec[1]: Duplicate value: {"n":"a"}"#,
        ),
    ] {
        assert_eq!(violations(schema.clone(), value.clone()).join("\n"), expected, "{schema} on {value}");
    }
}

#[test]
fn values_that_fit_the_schema_pass() {
    for (schema, value) in [
        (json!({"type": "integer"}), json!(2.0)),
        (json!({"type": "number"}), json!(2)),
        (json!({"type": "string", "nullable": true}), json!(null)),
        (json!({"x-kubernetes-int-or-string": true}), json!("50%")),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!(5),
        ),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), json!([{"a": 1}])),
        (json!({"type": "number", "multipleOf": 0.1}), json!(0.3)),
        (json!({"type": "string", "format": "int-something"}), json!("x")),
        (json!({"type": "integer", "format": "date"}), json!(1i64 << 40)),
        (json!({"type": "integer", "format": "int32"}), json!(2_147_483_647)),
        (json!({"type": "integer", "format": "int32"}), json!(2.0)),
        (json!({"type": "string", "format": "date"}), json!(["a server checks no lists here"])),
        (json!({"type": "number", "minimum": 2.5}), json!(2)),
        (json!({"type": "integer", "enum": [1.0]}), json!(1)),
        (
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
            json!({"a": "", "b": 1}),
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}),
            json!([1, 2]),
        ),
    ] {
        assert_eq!(violations(schema.clone(), value.clone()), [""; 0], "{schema} on {value}");
    }
}

#[test]
fn of_alternatives_that_fail_the_nearest_is_told() {
    let any_of = json!({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let expected = [
        r#"<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)"#,
        "spec.a: Required value",
    ];
    assert_eq!(violations(any_of, json!({})), expected);
    // Wherever it stands, the one that looked at most of the value.
    let (near, far) = (json!({"properties": {"b": {"minimum": 5}}}), json!({"required": ["a"]}));
    for alternatives in [json!([near, far]), json!([far, near])] {
        let properties = json!({"a": {"type": "integer"}, "b": {"type": "integer"}});
        let schema = json!({"type": "object", "properties": properties, "anyOf": alternatives});
        let expected = [
            r#"<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)"#,
            "spec.b: Invalid value: 1: spec.b in body should be greater than or equal to 5",
        ];
        assert_eq!(violations(schema, json!({"b": 1})), expected);
    }
    let one_of = json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let expected = r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#;
    assert_eq!(violations(one_of.clone(), json!({"a": 1, "b": 2})), [expected]);
    assert_eq!(violations(one_of, json!({"a": 1})), [""; 0]);
    let all_of = json!({"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 3}]});
    assert_eq!(
        violations(all_of, json!(4)),
        [
            "spec: Invalid value: 4: spec in body should be less than or equal to 3",
            r#"<nil>: Invalid value: "": "spec" must validate all the schemas (allOf)"#,
        ]
    );
    let not = json!({"type": "string", "not": {"enum": ["a"]}});
    assert_eq!(
        violations(not.clone(), json!("a")),
        [r#"<nil>: Invalid value: "": "spec" must not validate the schema (not)"#]
    );
    assert_eq!(violations(not, json!("b")), [""; 0]);
}

#[test]
fn an_update_is_not_blamed_for_what_it_leaves_as_it_was() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1}, "b": {"type": "string", "maxLength": 1},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
            "items": {"type": "object", "properties": {"n": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}}},
    }});
    let schema = Schema::compile(schema.as_object().unwrap()).unwrap();
    let old = json!({"a": "long", "b": "x", "list": [{"n": "p", "v": 5}]});
    let new = json!({"a": "long", "b": "also", "list": [{"n": "q", "v": 6}, {"n": "p", "v": 5}]});
    assert_eq!(
        texts(&validated(&schema, &new, old.as_object())),
        [
            "b: Too long: may not be more than 1 bytes",
            "list[0].v: Invalid value: 6: list[0].v in body should be less than or equal to 1",
        ]
    );
}

#[test]
fn a_status_is_validated_alone() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "string"},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    }});
    let schema = Schema::compile(schema.as_object().unwrap()).unwrap();
    let object = json!({"spec": 1, "status": {"phase": 2}});
    assert_eq!(
        texts(&schema.validate_status(&object, &JsonMap::new(), &mut Budget::new())),
        [r#"status.phase: Invalid value: "integer": phase in body must be of type string: "integer""#]
    );
}

#[test]
fn schemas_that_are_not_structural_are_refused() {
    let field = |property: Value| json!({"type": "object", "properties": {"a": property}});
    for (schema, expected) in [
        (json!({}), "s.type: Required value: must not be empty at the root"),
        (json!({"type": "string"}), r#"s.type: Invalid value: "string": must be object at the root"#),
        (
            field(json!({})),
            "s.properties[a].type: Required value: must not be empty for specified object fields",
        ),
        (
            field(json!({"type": "array", "items": {}})),
            "s.properties[a].items.type: Required value: must not be empty for specified array items",
        ),
        (field(json!({"type": "array"})), "s.properties[a].items: Required value: must be specified"),
        (
            field(json!({"type": "string", "anyOf": [{"type": "string"}]})),
            "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            json!({"type": "object", "allOf": [{"properties": {"b": {"minLength": 1}}}]}),
            "s.properties[b]: Required value: because it is defined in s.allOf[0].properties[b]",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "s.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
        (
            field(
                json!({"type": "string", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            ),
            r#"s.properties[a].type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true"#,
        ),
        (
            field(json!({"type": "string", "pattern": "("})),
            r#"s.properties[a].pattern: Invalid value: "(": must be a valid regular expression, but isn't: error parsing regexp: unclosed group"#,
        ),
        (
            field(json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}})),
            "s.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            field(
                json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            ),
            "s.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            field(json!({"type": "text"})),
            r#"s.properties[a].type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ),
        (
            field(json!({"type": "object", "$ref": "#/x"})),
            "s.properties[a].$ref: Forbidden: $ref is not supported",
        ),
        (
            field(json!({"type": "string", "$schema": "x"})),
            r#"s: Invalid value: "": OpenAPIV3Schema 'schema' is not supported"#,
        ),
        (
            field(json!({"type": "array", "items": {"type": "string"}, "additionalItems": false})),
            "s.properties[a].additionalItems: Forbidden: additionalItems is not supported",
        ),
        (
            field(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false})),
            "s.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ),
        (
            field(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"})),
            "s.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            field(
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
                "items": {"type": "object", "properties": {"n": {"type": "string"}}}}),
            ),
            "s.properties[a].items.properties[n].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ),
        (
            field(json!({"type": "integer", "default": "x"})),
            r#"s.properties[a].default: Invalid value: "string":  in body must be of type integer: "string""#,
        ),
        (
            field(json!({"type": "object", "default": {"b": 1}})),
            r#"s.properties[a].default: Invalid value: {"b":1}: must not have unknown fields"#,
        ),
    ] {
        assert_eq!(refusals(schema.clone()), [expected], "{schema}");
    }
}

#[test]
fn schemas_of_usual_definitions_are_accepted() {
    for schema in [
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        json!({"type": "object", "definitions": {}, "dependencies": {}, "patternProperties": {}}),
        json!({"type": "object", "properties": {"a": {"type": "string"}},
            "anyOf": [{"required": ["a"], "additionalProperties": false}]}),
        json!({"type": "object", "description": "d", "required": ["spec"], "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
            "spec": {"type": "object", "default": {}, "properties": {
                "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "limit": {"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"minimum": 0}]},
                "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
                "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
                    "items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "string", "maxLength": 3}}}},
                "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
                "choice": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            }},
        }}),
    ] {
        assert_eq!(refusals(schema.clone()), [""; 0], "{schema}");
    }
}

#[test]
fn rules_in_cel_are_noticed() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-validations": [{"rule": "true"}]}}});
    let notes = Schema::check(schema.as_object().unwrap(), "s", &mut Budget::new()).unwrap();
    assert!(notes.has_rules);
    let rules = json!([
        {"rule": " "}, {"rule": "a", "message": " "}, {"rule": "a", "reason": "x"}, {"rule": "a", "fieldPath": "b\n"},
    ]);
    assert_eq!(
        refusals(json!({"type": "object", "x-kubernetes-validations": rules})),
        [
            "s.x-kubernetes-validations[0].rule: Required value: rule is not specified",
            "s.x-kubernetes-validations[1].message: Invalid value: \" \": must be non-empty if specified",
            "s.x-kubernetes-validations[2].reason: Unsupported value: \"x\": supported values: \"FieldValueDuplicate\", \
             \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
            "s.x-kubernetes-validations[3].fieldPath: Invalid value: \"b\\n\": must not contain line breaks",
        ]
    );
}

/// Any JSON, some levels deep, with names that schemas and objects share.
fn any_json(names: &'static str) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..30).prop_map(Value::from),
        (-3.0..30.0).prop_map(Value::from),
        names.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(names, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A schema of the usual form.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "default": "x"})),
        Just(json!({"type": "string", "minLength": 2, "pattern": "^[a-c]+$"})),
        Just(json!({"type": "integer", "minimum": 1, "default": 4})),
        Just(json!({"type": "number", "nullable": true})),
        Just(json!({"type": "boolean"})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(4, 30, 4, |inner| {
        prop_oneof![
            (inner.clone(), prop_oneof![Just("atomic"), Just("set")]).prop_map(|(items, list)| {
                json!({"type": "array", "items": items, "x-kubernetes-list-type": list})
            }),
            inner.clone().prop_map(|entries| json!({"type": "object", "additionalProperties": entries})),
            (proptest::collection::btree_map("[a-d]", inner, 0..4), "[a-d]").prop_map(|(properties, required)| {
                json!({"type": "object", "properties": properties, "default": {}, "anyOf": [{"required": [required]}, {"minProperties": 1}]})
            }),
        ]
    })
}

fn object_of(value: Value) -> JsonMap {
    JsonMap::from_iter([("a".to_owned(), value)])
}

proptest! {
    #[test]
    fn any_json_as_a_schema_is_refused_or_accepted_without_a_panic(
        schema in any_json("type|object|string|array|properties|items|anyOf|not|required|enum|default|pattern|x-kubernetes-list-type|map|x-kubernetes-validations|x-kubernetes-list-map-keys|additionalProperties|nullable|metadata"),
        object in any_json("[a-d]"),
    ) {
        let schema = match schema {
            Value::Object(schema) => schema,
            other => object_of(other),
        };
        let _ = Schema::check(&schema, "s", &mut Budget::new());
        // What is refused must not break the walks either.
        let compiled = Schema::compile(&schema).unwrap();
        let mut object = object_of(object);
        compiled.prune(&mut object);
        let _ = compiled.default(&mut object, &mut DefaultsLimit::default());
        validated(&compiled, &object.into(), None);
    }

    #[test]
    fn pruning_and_defaulting_twice_change_nothing_more(schema in any_schema(), object in any_json("[a-d]")) {
        let schema = json!({"type": "object", "properties": {"a": schema}});
        let schema = Schema::compile(schema.as_object().unwrap()).unwrap();
        let mut object = object_of(object);
        schema.prune(&mut object);
        let pruned = object.clone();
        prop_assert!(schema.prune(&mut object).is_empty());
        prop_assert_eq!(&object, &pruned);
        schema.default(&mut object, &mut DefaultsLimit::default()).unwrap();
        let defaulted = object.clone();
        schema.default(&mut object, &mut DefaultsLimit::default()).unwrap();
        prop_assert_eq!(&object, &defaulted);
        prop_assert!(schema.prune(&mut object).is_empty(), "a default is not pruned");
        validated(&schema, &object.into(), None);
    }

    #[test]
    fn an_object_that_replaces_itself_is_not_blamed(schema in any_schema(), object in any_json("[a-d]")) {
        // A field beside it makes the objects differ, so that the unchanged part has to be found; half of these parts are
        // wrong in themselves.
        let schema = json!({"type": "object", "properties": {"a": schema, "n": {"type": "integer"}}});
        let schema = Schema::compile(schema.as_object().unwrap()).unwrap();
        let mut budget = Budget::new();
        let old = json!({"a": object, "n": 1});
        let mut new = old.clone();
        new["n"] = json!("x");
        let causes = schema.validate(&new, old.as_object(), &mut budget);
        let blamed: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        prop_assert_eq!(&blamed, &["n"], "{:?}", causes);
    }
}
