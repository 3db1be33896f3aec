//! Any objects and any managed fields: nothing panics, and applying again changes nothing.

use std::sync::{Arc, LazyLock};

use http::StatusCode;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::any_value;
use crate::api::Timestamp;
use crate::apply::{Kind, Managers, Set, Writer, apply, on_update};
use crate::schema::Schema;

const VERSION: &str = "wind.example/v1";

/// A type of each sort.
static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let element = json!({"type": "object", "properties": {
        "a": {"type": "integer", "default": 1}, "b": {"type": "string"}, "c": {"x-kubernetes-preserve-unknown-fields": true},
    }});
    let list =
        |kind: &str, items: &Value| json!({"type": "array", "x-kubernetes-list-type": kind, "items": items});
    let mut map = list("map", &element);
    map["x-kubernetes-list-map-keys"] = json!(["a", "b"]);
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": map,
        "b": list("set", &json!({"type": "string"})),
        "c": {"type": "object", "additionalProperties": map},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": element},
        "list": list("atomic", &element),
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": map}},
        "port": {"x-kubernetes-int-or-string": true},
        "size": {"type": "integer"},
    }}}});
    Schema::compile(schema.as_object().unwrap()).unwrap()
});

fn with_kind<T>(run: impl FnOnce(&Kind<'_>) -> T) -> T {
    let (types, root) = SCHEMA.types();
    let empty = json!({"apiVersion": VERSION, "kind": "Kite"});
    run(&Kind {
        types,
        root,
        name: "Kite",
        served: &[VERSION],
        empty: &empty,
        ignores_alike: true,
        is_decoded: false,
    })
}

fn writer(manager: &str) -> Writer<'_> {
    Writer { manager, subresource: "", api_version: VERSION, now: Timestamp(jiff::Timestamp::UNIX_EPOCH) }
}

/// An object that mostly fits.
fn any_object() -> impl Strategy<Value = Value> {
    let element = prop_oneof![
        8 => (0..3_i64, "[ab]", any_value()).prop_map(|(a, b, c)| json!({"a": a, "b": b, "c": c})),
        1 => Just(json!({"b": "a"})),
        1 => Just(json!({"a": 1})),
    ];
    let elements = || prop::collection::vec(element.clone(), 0..4).prop_map(Value::from);
    let field = prop_oneof![
        elements().prop_map(|list| ("a", list)),
        prop::collection::btree_set("[abc]", 0..4).prop_map(|set| ("b", json!(set))),
        prop::collection::btree_map("[ab]", elements(), 0..3).prop_map(|map| ("c", json!(map))),
        any_value().prop_map(|value| ("any", value)),
        prop::collection::btree_map("[ab]", element.clone(), 0..3).prop_map(|map| ("atomic", json!(map))),
        elements().prop_map(|list| ("list", list)),
        (elements(), any_value()).prop_map(|(list, value)| ("open", json!({"a": list, "x": value}))),
        any_value().prop_map(|value| ("port", value)),
        (0..3_i64).prop_map(|value| ("size", json!(value))),
    ];
    prop::collection::vec(field, 0..6).prop_map(|fields| {
        let spec: serde_json::Map<String, Value> =
            fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        json!({"apiVersion": VERSION, "kind": "Kite", "metadata": {"name": "a"}, "spec": spec})
    })
}

/// As an object is once it is stored.
fn stored(mut object: Value) -> Value {
    object["metadata"]["uid"] = "1".into();
    object
}

#[test]
fn thousands_of_entries_and_of_fields_do_not_multiply() {
    const MANY: usize = 20_000;
    let name = |index: usize| format!("k{index:05}");
    let entry = |index: usize| {
        json!({"manager": name(index), "operation": if index.is_multiple_of(2) { "Apply" } else { "Update" }, "apiVersion": VERSION,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:any": {(format!("f:{}", name(index))): {}}}}})
    };
    let sent = Managers::sent(&(0..MANY).map(entry).collect());
    let any =
        |value: i64| (0..MANY).map(|index| (name(index), value.into())).collect::<serde_json::Map<_, _>>();
    let object = |value: i64| {
        stored(json!({"apiVersion": VERSION, "kind": "Kite", "metadata": {}, "spec": {"any": any(value)}}))
    };
    let (old, mut new) = (object(1), object(1));
    new["spec"]["any"]["k00000"] = json!(2);
    with_kind(|kind| {
        let none = Managers::default();
        let managers = on_update(kind, Some((&old, &none)), &new, sent, &writer("a"), &Set::default());
        // All appliers but one, and ten entries of updates.
        assert_eq!(managers.entries().len(), MANY / 2 - 1 + 10);
        let conflicts =
            apply(kind, Some((&new, &managers)), &object(3), &writer("b"), false, &Set::default());
        let message = conflicts.unwrap_err().message;
        assert!(message.starts_with("Apply failed with 20000 conflicts: "), "{}", &message[..100]);
        assert!(message.len() < 200_000);
        let taken =
            apply(kind, Some((&new, &managers)), &object(3), &writer("b"), true, &Set::default()).unwrap();
        assert_eq!(taken.managers.entries().len(), 1);
    });
}

#[test]
fn what_is_wrong_below_a_long_path_is_named_while_there_is_room() {
    const MANY: usize = 2000;
    let below_a_long_path = |value: &Value| {
        let fields: serde_json::Map<String, Value> =
            (0..MANY).map(|index| (format!("k{index}"), value.clone())).collect();
        let any = json!({("x".repeat(100_000)): fields});
        json!({"apiVersion": VERSION, "kind": "Kite", "metadata": {"name": "a"}, "spec": {"any": any, "c": any}})
    };
    with_kind(|kind| {
        let mut object = below_a_long_path(&json!(1));
        object["spec"]["c"] = Value::Null;
        let long_name = "m".repeat(100_000);
        let managers = on_update(kind, None, &object, None, &writer(&long_name), &Set::default());
        let live = stored(object.clone());
        let mut other = below_a_long_path(&json!(2));
        other["spec"]["c"] = Value::Null;
        let error =
            apply(kind, Some((&live, &managers)), &other, &writer("b"), false, &Set::default()).unwrap_err();
        assert!(
            error.message.starts_with(&format!("Apply failed with {MANY} conflicts: ")),
            "{}",
            &error.message[..100]
        );
        assert!((1..10).contains(&error.causes.len()), "{}", error.causes.len());
        assert!(error.message.len() < 1 << 20);
        // Each element of a list has something wrong.
        let elements: Vec<Value> = (0..MANY).map(|index| json!({"a": index, "b": 1})).collect();
        let mut wrong = below_a_long_path(&json!(2));
        wrong["spec"]["c"] = json!({"x".repeat(100_000): elements});
        let error = apply(kind, None, &wrong, &writer("b"), false, &Set::default()).unwrap_err();
        assert!(error.message.contains("expected string, got"), "{}", &error.message[..100]);
        assert!(error.message.len() < 1 << 20, "{}", error.message.len());
    });
}

#[test]
fn an_applier_gives_fields_up_among_thousands_of_versions() {
    const MANY: usize = 2000;
    let versions: Vec<String> = (0..MANY).map(|index| format!("wind.example/v{index}")).collect();
    let mut served: Vec<&str> = versions.iter().map(String::as_str).collect();
    served.push(VERSION);
    let entry = |index: usize| {
        json!({"manager": format!("m{index}"), "operation": "Apply", "apiVersion": versions[index], "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:any": {(format!("f:k{index}")): {}}}}})
    };
    let sent = Managers::sent(&(0..MANY).map(entry).collect()).unwrap();
    let object = |count: usize| {
        let fields: serde_json::Map<String, Value> =
            (0..count).map(|index| (format!("k{index}"), json!(1))).collect();
        json!({"apiVersion": VERSION, "kind": "Kite", "metadata": {"name": "a"}, "spec": {"any": fields}})
    };
    with_kind(|kind| {
        let kind = Kind { served: &served, ..*kind };
        let live = stored(object(MANY + 10));
        let first =
            apply(&kind, Some((&live, &sent)), &object(MANY + 10), &writer("a"), false, &Set::default())
                .unwrap();
        assert_eq!(first.managers.entries().len(), MANY + 1);
        // What others own stays, whatever version they applied in; the rest goes.
        let less =
            apply(&kind, Some((&live, &first.managers)), &object(5), &writer("a"), false, &Set::default())
                .unwrap();
        let left = less.object.unwrap();
        assert_eq!(left["spec"]["any"].as_object().unwrap().len(), MANY);
    });
}

proptest! {
    #[test]
    fn applying_again_changes_nothing(
        objects in prop::collection::vec((any_object(), prop::bool::ANY, 0..3_usize), 1..6), config in any_object()
    ) {
        with_kind(|kind| {
            let mut live: Option<(Value, Managers)> = None;
            for (object, applies, manager) in objects {
                let writer = writer(["a", "b", "kubectl"][manager]);
                let before = live.as_ref().map(|(object, managers)| (object, managers));
                if applies {
                    if let Ok(applied) = apply(kind, before, &object, &writer, true, &Set::default())
                        && let Some(object) = applied.object
                    {
                        live = Some((stored(object), applied.managers));
                    }
                } else {
                    let object = stored(object);
                    let managers = on_update(kind, before, &object, None, &writer, &Set::default());
                    live = Some((object, managers));
                }
            }
            // A map that lost all it had is null at first, and what the configuration says the next time, which is a conflict if
            // somebody else owns the map.
            for round in 0..3 {
                let before = live.as_ref().map(|(object, managers)| (object, managers));
                let again = |force| apply(kind, before, &config, &writer("a"), force, &Set::default());
                let mut applied = again(round == 0);
                if round == 1 && applied.as_ref().is_err_and(|error| error.code == StatusCode::CONFLICT) {
                    applied = again(true);
                }
                let Ok(applied) = applied else {
                    prop_assert_eq!(round, 0);
                    return Ok(());
                };
                if round == 2 {
                    prop_assert_eq!(&applied.object, &None);
                    prop_assert_eq!(Some(&applied.managers), before.map(|(_, managers)| managers));
                }
                let object = applied.object.or_else(|| live.map(|(object, _)| object));
                live = Some((object.unwrap_or_else(|| kind.empty.clone()), applied.managers));
            }
            Ok(())
        })?;
    }

    #[test]
    fn whatever_is_written_the_managers_can_be_read_again(
        old in any_value(), new in any_value(), sent in any_value(), fields in super::any_set(), name in any::<String>()
    ) {
        with_kind(|kind| {
            let mut text = Vec::new();
            crate::apply::fields_v1::write(&fields, &mut text);
            let fields: Value = serde_json::from_slice(&text).unwrap();
            let list = json!([{"manager": name, "operation": "Update", "apiVersion": VERSION, "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:a": fields, "f:any": fields, "f:atomic": fields}}}]);
            let managers = Managers::parse(&list).unwrap();
            let object = |spec: &Value| stored(json!({"apiVersion": VERSION, "kind": "Kite", "metadata": {}, "spec": {"any": spec}}));
            let (old, new) = (object(&old), object(&new));
            let written = on_update(kind, Some((&old, &managers)), &new, Managers::sent(&sent), &writer(&name), &Set::default());
            prop_assert_eq!(&Managers::parse(&written.render()), &Ok(written.clone()));
            let applied = apply(kind, Some((&new, &written)), &old, &writer("b"), true, &Set::default()).unwrap();
            prop_assert_eq!(&Managers::parse(&applied.managers.render()), &Ok(applied.managers.clone()));
            Ok(())
        })?;
    }

    #[test]
    fn objects_that_do_not_fit_are_refused_or_lose_their_managers(old in any_value(), new in any_value(), config in any_value()) {
        with_kind(|kind| {
            let managers = on_update(kind, Some((&old, &Managers::default())), &new, None, &writer("a"), &Set::default());
            let _ = apply(kind, Some((&new, &managers)), &config, &writer("kubectl"), false, &Set::default());
            let config = json!({"apiVersion": VERSION, "kind": "Kite", "metadata": config, "spec": old, "status": new});
            let _ = apply(kind, Some((&new, &managers)), &config, &writer("kubectl"), false, &Set::default());
        });
    }
}
