//! [`Predicate`] against the table that the SDK's `testing::World` is tested with, so that both judge alike.

use pilothouse_object::{FieldValues, Object};
use pilothouse_plugin::{Description, DescriptorLimits, Predicate, World};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    predicate: Value,
    event: String,
    /// Whether updates are merged into an add.
    #[serde(default)]
    updated: bool,
    /// Null if it is not known.
    old: Value,
    new: Value,
    expected: bool,
}

fn object(value: &Value) -> Object {
    Object::decode(value.to_string().as_bytes()).unwrap()
}

#[test]
fn predicates_judge_as_those_of_the_sdk() {
    let table = include_str!("../../../../guests/sdk/tests/predicates.json");
    let cases: Vec<Case> = serde_json::from_str(table).unwrap();
    assert!(cases.len() > 100, "{}", cases.len());
    for Case { name, predicate, event, updated, old, new, expected } in cases {
        let document = json!({
            "apiVersion": "pilothouse.dev/describe/v1alpha1", "name": "a",
            "watches": [{"version": "v1", "kind": "Thing", "predicates": [predicate]}],
        });
        let limits = DescriptorLimits::default();
        let description =
            Description::parse(document.to_string().as_bytes(), World::Reconciler, &limits).unwrap();
        let all = &description.watches[0].predicates;
        let (old, new) = ((!old.is_null()).then(|| object(&old)), (!new.is_null()).then(|| object(&new)));
        let old = old.as_ref().map(FieldValues::new);
        let new = || FieldValues::new(new.as_ref().unwrap());
        let passes = match event.as_str() {
            "add" => Predicate::all_pass_add(all, &new(), updated),
            "update" => Predicate::all_pass_update(all, old.as_ref(), &new()),
            "delete" => Predicate::all_pass_delete(all, old.as_ref()),
            other => panic!("{name}: there is no event {other}"),
        };
        assert_eq!(passes, expected, "{name}");
    }
}
