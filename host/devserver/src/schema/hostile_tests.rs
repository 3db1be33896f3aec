//! Schemas and objects that ask for more work or memory than is given: what they spend is bounded, and honest ones next to
//! them spend little.

use serde_json::json;

use super::*;

/// More than any object may spend.
const ALL: u64 = 20_000_000;

fn compiled(spec: &Value) -> Arc<Schema> {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    Schema::compile(schema.as_object().unwrap()).unwrap()
}

/// What an object of this `spec` is told and how many steps it spends.
fn spent(schema: &Value, spec: Value, old: Option<Value>) -> (Vec<Cause>, u64) {
    let schema = compiled(schema);
    let old = old.map(|old| json!({"spec": old}));
    let old = old.as_ref().and_then(Value::as_object);
    let object = json!({"spec": spec});
    let mut budget = Budget::new();
    let mut causes = schema.validate(&object, old, &mut budget);
    causes.extend(schema.validate_structure(&object, old, &mut budget));
    let bytes: usize = causes.iter().map(|cause| cause.field.len() + cause.message.len()).sum();
    assert!(causes.len() <= 202 && bytes < 200_000, "{} causes of {bytes} bytes", causes.len());
    (causes, budget.spent())
}

fn refusals(schema: &Value) -> Vec<String> {
    let checked = Schema::check(schema.as_object().unwrap(), "s", &mut Budget::new());
    checked.err().into_iter().flatten().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn work_that_multiplies_schema_and_object_spends_the_budget() {
    let long = "x".repeat(1 << 20);
    let entries: JsonMap = (0..20_000).map(|i| (format!("unnamed{i}"), json!(1))).collect();
    let same = json!({"a": vec![long.clone(); 3]});
    for (what, schema, spec, old) in [
        (
            "unnamed entries under many alternatives",
            json!({"type": "object", "anyOf": vec![json!({"required": ["z"]}); 20_000]}),
            Value::Object(entries),
            None,
        ),
        (
            "a long text under many rules",
            json!({"type": "string", "allOf": vec![json!({"maxLength": 2_000_000}); 2_000]}),
            json!(long),
            None,
        ),
        (
            "a long text of a format under many alternatives",
            json!({"type": "string", "anyOf": vec![json!({"format": "email"}); 2_000]}),
            json!(long),
            None,
        ),
        (
            "equal values compared again and again",
            json!({"type": "object", "maxProperties": 0, "properties": {"b": {"type": "integer"}},
                "allOf": vec![json!({"properties": {"a": {"minItems": 0}}}); 2_000], "x-kubernetes-preserve-unknown-fields": true}),
            {
                let mut new = same.clone();
                new["b"] = json!("x");
                new
            },
            Some(same.clone()),
        ),
        (
            "a long value beside a long enum of nearly the same",
            json!({"type": "string", "anyOf": vec![json!({"enum": vec![long.clone(); 1]}); 500]}),
            json!(format!("{}y", &long[1..])),
            None,
        ),
        (
            "long names that are required in vain",
            json!({"type": "array", "items": {"type": "object", "not": {"required": [long.clone()]}}}),
            json!(vec![json!({}); 2_000]),
            None,
        ),
        (
            "a pattern of many states on many texts",
            json!({"type": "array", "items": {"type": "string", "pattern": "^((abcdefgh){1000})?$"}}),
            json!(vec![""; 200_000]),
            None,
        ),
        (
            "many alternatives for many elements",
            {
                let mut alternatives = vec![json!({"minimum": 1}); 2_000];
                alternatives.push(json!({"maximum": 0}));
                json!({"type": "array", "items": {"type": "integer", "anyOf": alternatives}})
            },
            json!(vec![0; 100_000]),
            None,
        ),
    ] {
        let (causes, steps) = spent(&schema, spec, old);
        assert_eq!(steps, ALL, "{what}");
        let said = causes.iter().any(|cause| cause.message.ends_with(TOO_COSTLY));
        assert!(said, "{what}: {:?}", causes.first());
    }
}

#[test]
fn a_message_repeats_little_of_a_large_enum() {
    let long = "x".repeat(1 << 20);
    let mut values: Vec<Value> = vec![json!(long), json!({ long.clone(): long }), json!([long])];
    values.extend((0..1000).map(|index| json!(format!("{index}{}", "x".repeat(100)))));
    let (causes, _) = spent(
        &json!({"x-kubernetes-preserve-unknown-fields": true, "enum": values}),
        json!(long + "y"),
        None,
    );
    assert!(causes.len() == 1 && causes[0].message.len() < 16 << 10, "{}", causes[0].message.len());
}

#[test]
fn honest_lists_with_keys_are_compared_in_linear_time() {
    let schema = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
        "items": {"type": "object", "properties": {"n": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}}});
    let old: Vec<Value> = (0..10_000).map(|i| json!({"n": format!("name-{i}"), "v": 5})).collect();
    let mut new = old.clone();
    new.reverse();
    new[17]["v"] = json!(6);
    let (causes, steps) = spent(&schema, json!(new), Some(json!(old)));
    let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields, ["spec[17].v"]);
    assert!(steps < ALL / 10, "{steps}");
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let elements: Vec<String> = (0..100_000).map(|i| format!("element-{i}")).collect();
    let (causes, steps) = spent(&set, json!(elements), None);
    assert!(causes.is_empty() && steps < ALL / 10, "{steps}");
}

#[test]
fn a_schema_is_refused_beyond_its_limits() {
    // As deep as JSON can be.
    let mut deep = json!({"type": "string"});
    for _ in 0..60 {
        deep = json!({"type": "object", "properties": {"a": deep}, "not": {"required": ["z"]}});
    }
    assert_eq!(refusals(&deep), [""; 0]);
    for _ in 0..60 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    assert!(refusals(&deep)[0].ends_with("must not be nested deeper than 100 levels"));
    let patterns: JsonMap = (0..1000)
        .map(|i| (format!("f{i}"), json!({"type": "string", "pattern": format!("^.{{1000}}{i}$")})))
        .collect();
    let schema = json!({"type": "object", "properties": patterns});
    assert_eq!(
        refusals(&schema),
        ["s: Invalid value: \"\": the regular expressions of the schema are too large together"]
    );
    let faults: JsonMap = (0..50_000).map(|i| (format!("f{i}"), json!({}))).collect();
    assert_eq!(refusals(&json!({"type": "object", "properties": faults})).len(), 100);
}

#[test]
fn a_schema_that_was_checked_is_compiled_once() {
    let schema = json!({"type": "object", "properties": {"only-in-this-test": {"type": "string", "pattern": "^[a-z]+$"}}});
    let schema = schema.as_object().unwrap();
    let is_kept = || recent().lock().iter().any(|one| one.fingerprint == fingerprint(schema));
    // Other tests check schemas too, and only some are kept.
    let found = (0..100).any(|_| Schema::check(schema, "s", &mut Budget::new()).is_ok() && is_kept());
    assert!(found);
    Schema::compile(schema).unwrap();
}
