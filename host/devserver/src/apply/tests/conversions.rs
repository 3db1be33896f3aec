//! Fields that an applier gives up, of an object whose managers wrote it in two versions.

use serde_json::{Value, json};

use crate::api::{ApiError, Timestamp};
use crate::apply::{Applied, Kind, Managers, Set, Writer, apply};
use crate::schema::Schema;

const VERSIONS: [&str; 2] = ["wind.example/v1", "wind.example/v2"];

fn entry(manager: &str, operation: &str, version: &str, spec: &Value) -> Value {
    json!({
        "manager": manager, "operation": operation, "apiVersion": version, "time": "2024-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": spec},
    })
}

/// `one` gives up the only element of a list, of which `two` owns `owned`, in the same version. `three` owns another field,
/// in `version`.
fn give_up(owned: &Value, version: &str) -> Result<Applied, ApiError> {
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "c": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
            "items": {"type": "object", "properties": {"a": text, "b": text}},
        },
        "d": text, "e": text,
    }}}});
    let schema = Schema::compile(schema.as_object().unwrap()).unwrap();
    let (types, root) = schema.types();
    let empty = json!({"apiVersion": VERSIONS[0], "kind": "Kite"});
    let kind = Kind {
        types,
        root,
        name: "Kite",
        served: &VERSIONS,
        empty: &empty,
        ignores_alike: true,
        is_decoded: false,
    };
    let element = |owned: &Value| json!({"f:c": {r#"k:{"a":"x"}"#: owned}});
    let managers = Managers::parse(&json!([
        entry("one", "Apply", VERSIONS[0], &element(&json!({".": {}, "f:a": {}, "f:b": {}}))),
        entry("two", "Update", VERSIONS[0], &element(owned)),
        entry("three", "Update", version, &json!({"f:d": {}})),
    ]));
    let live = json!({
        "apiVersion": VERSIONS[0], "kind": "Kite", "metadata": {"name": "it", "uid": "1"},
        "spec": {"c": [{"a": "x", "b": "y"}], "d": "z"},
    });
    let config = json!({
        "apiVersion": VERSIONS[0], "kind": "Kite", "metadata": {"name": "it"}, "spec": {"e": "z"},
    });
    let writer = Writer {
        manager: "one",
        subresource: "",
        api_version: VERSIONS[0],
        now: Timestamp("2024-01-02T00:00:00Z".parse().unwrap()),
    };
    apply(&kind, Some((&live, &managers.unwrap())), &config, &writer, false, &Set::default())
}

#[test]
fn an_element_that_loses_all_its_fields_cannot_be_converted() {
    let error = give_up(&json!({}), VERSIONS[1]).unwrap_err();
    assert_eq!(
        (error.code.as_u16(), error.message.as_str()),
        (
            500,
            "failed to prune fields: failed add back owned items: failed to convert pruned object at version wind.example/v2: \
             .spec.c: element 0: associative list with keys may not have a null element"
        )
    );
    // With its key it stays an element.
    let kept = give_up(&json!({".": {}, "f:a": {}}), VERSIONS[1]).unwrap().object.unwrap();
    assert_eq!(kept["spec"], json!({"c": [{"a": "x"}], "d": "z", "e": "z"}));
}
