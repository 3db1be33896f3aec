use serde_json::{Value, json};

use super::{PatchError, try_json};
use crate::patch::json::{MAX_COPIED_BYTES, MAX_DEPTH, MAX_OPERATIONS, MAX_STEPS};

#[track_caller]
fn assert_patched(operations: Value, expected: Value) {
    assert_eq!(try_json(operations, document()), Ok(expected));
}

/// The patch does not apply, and the reason says `why`.
#[track_caller]
fn assert_refused(operations: Value, why: &str) {
    match try_json(operations, document()) {
        Err(PatchError::DoesNotApply(reason)) => assert!(reason.contains(why), "{reason}"),
        other => panic!("{other:?}"),
    }
}

fn document() -> Value {
    json!({"a": {"b": 1}, "list": [1, 2, 3], "x/y": "slash", "t~": "tilde"})
}

#[test]
fn add_inserts_and_overwrites() {
    let expected = json!({"a": {"b": {"c": 0}}, "list": [1, 2, 3, 4], "x/y": "slash", "t~": "tilde"});
    let operations = json!([
        {"op": "add", "path": "/a/b", "value": {}},
        {"op": "add", "path": "/a/b/c", "value": 0},
        {"op": "add", "path": "/list/-", "value": 4},
    ]);
    assert_patched(operations, expected);
    assert_refused(json!([{"op": "add", "path": "/missing/b", "value": 1}]), "there is no \"/missing/b\"");
    assert_refused(json!([{"op": "add", "path": "", "value": {}}]), "there is no \"\"");
}

#[test]
fn indexes_may_count_from_the_end() {
    let list = |list: Value| json!({"a": {"b": 1}, "list": list, "x/y": "slash", "t~": "tilde"});
    assert_patched(json!([{"op": "add", "path": "/list/-1", "value": 4}]), list(json!([1, 2, 3, 4])));
    assert_patched(json!([{"op": "add", "path": "/list/1", "value": 4}]), list(json!([1, 4, 2, 3])));
    assert_patched(json!([{"op": "add", "path": "/list/3", "value": 4}]), list(json!([1, 2, 3, 4])));
    assert_patched(json!([{"op": "remove", "path": "/list/-3"}]), list(json!([2, 3])));
    assert_patched(json!([{"op": "replace", "path": "/list/-1", "value": 4}]), list(json!([1, 2, 4])));
    for path in ["/list/4", "/list/-5"] {
        assert_refused(json!([{"op": "add", "path": path, "value": 4}]), "there is no element");
    }
    for path in ["/list/3", "/list/-4"] {
        assert_refused(json!([{"op": "remove", "path": path}]), "there is no element");
    }
    assert_refused(json!([{"op": "remove", "path": "/list/-"}]), "is not an index");
}

#[test]
fn a_path_escapes_slashes_and_tildes() {
    let operations = json!([
        {"op": "test", "path": "/x~1y", "value": "slash"},
        {"op": "test", "path": "/t~0", "value": "tilde"},
        {"op": "remove", "path": "/x~1y"},
        {"op": "remove", "path": "/t~0"},
    ]);
    assert_patched(operations, json!({"a": {"b": 1}, "list": [1, 2, 3]}));
}

#[test]
fn remove_needs_what_it_removes_and_replace_does_not() {
    assert_refused(json!([{"op": "remove", "path": "/a/c"}]), "there is no \"c\"");
    let mut replaced = document();
    replaced["a"]["c"] = json!(2);
    assert_patched(json!([{"op": "replace", "path": "/a/c", "value": 2}]), replaced);
    assert_patched(json!([{"op": "replace", "path": "", "value": {"new": true}}]), json!({"new": true}));
    assert_refused(json!([{"op": "replace", "path": "", "value": 1}]), "there is no \"\"");
}

#[test]
fn test_compares_and_takes_what_is_absent_for_null() {
    assert_patched(json!([{"op": "test", "path": "/a", "value": {"b": 1}}]), document());
    assert_patched(
        json!([{"op": "test", "path": "/none", "value": null}, {"op": "test", "path": "/none"}]),
        document(),
    );
    assert_patched(json!([{"op": "test", "path": "", "value": document()}]), document());
    assert_refused(
        json!([{"op": "test", "path": "/a/b", "value": 2}]),
        "operation 0: testing the value at \"/a/b\" failed",
    );
    assert_refused(json!([{"op": "test", "path": "/a/b", "value": 1.0}]), "failed");
    assert_refused(json!([{"op": "test", "path": "/a/b"}]), "failed");
    assert_refused(json!([{"op": "test", "path": "/none/b", "value": null}]), "there is no");
}

#[test]
fn move_and_copy_take_a_value_elsewhere() {
    let mut moved = document();
    moved["list"] = json!([{"b": 1}, 1, 2, 3]);
    moved.as_object_mut().unwrap().remove("a");
    assert_patched(json!([{"op": "move", "from": "/a", "path": "/list/0"}]), moved);
    let mut copied = document();
    copied["c"] = json!({"b": 1});
    copied["d"] = Value::Null;
    let operations =
        json!([{"op": "copy", "from": "/a", "path": "/c"}, {"op": "copy", "from": "/none", "path": "/d"}]);
    assert_patched(operations, copied);
    assert_refused(json!([{"op": "move", "from": "/a", "path": "/a/b"}]), "there is no \"/a/b\"");
    assert_refused(json!([{"op": "move", "from": "/none", "path": "/b"}]), "there is no \"none\"");
    assert_refused(json!([{"op": "move", "path": "/b"}]), "it has no \"from\"");
}

#[test]
fn an_operation_is_found_wrong_when_its_turn_comes() {
    assert_refused(json!([{"op": "test", "path": "/a/b", "value": 9}, {"op": "bogus"}]), "operation 0");
    assert_refused(json!([{"op": "Add", "path": "/b", "value": 1}]), "unknown op \"Add\"");
    assert_refused(json!([null]), "unknown op");
    assert_refused(json!([{"op": "add", "value": 1}]), "it has no path");
}

#[test]
fn what_is_no_list_of_operations_is_malformed() {
    for patch in
        [json!({}), json!("x"), json!([1]), json!([{"op": 1}]), json!([{"op": "add", "path": ["a"]}])]
    {
        assert!(matches!(try_json(patch.clone(), document()), Err(PatchError::Malformed(_))), "{patch}");
    }
    assert_eq!(try_json(Value::Null, document()), Ok(document()));
}

#[test]
fn the_number_of_operations_is_limited() {
    let tests = |count| Value::Array(vec![json!({"op": "test", "path": "/a/b", "value": 1}); count]);
    assert_eq!(try_json(tests(MAX_OPERATIONS), document()), Ok(document()));
    let got = MAX_OPERATIONS + 1;
    assert_eq!(try_json(tests(got), document()), Err(PatchError::TooManyOperations { got }));
}

#[test]
fn copies_cannot_blow_up_a_document() {
    let mut operations = vec![json!({"op": "add", "path": "/list", "value": ["x".repeat(1000)]})];
    for _ in 0..30 {
        operations.push(json!({"op": "copy", "from": "/list", "path": "/list/-"}));
    }
    assert_refused(Value::Array(operations), &MAX_COPIED_BYTES.to_string());
}

#[test]
fn copies_cannot_nest_a_document_deeper_than_can_be_read() {
    let mut operations = Vec::new();
    for power in 0..8 {
        let path = "/a".repeat(1 << power);
        operations.push(json!({"op": "copy", "from": "/a", "path": format!("{path}/a")}));
    }
    assert_refused(Value::Array(operations), "deeper than");

    let nested = |levels| (0..levels).fold(json!(0), |inner, _| json!([inner]));
    let add = |levels| json!([{"op": "add", "path": "/deep", "value": nested(levels)}]);
    let deepest = try_json(add(MAX_DEPTH - 1), document()).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&deepest.to_string()).unwrap(), deepest);
    assert_refused(add(MAX_DEPTH), "deeper than");
}

#[test]
fn operations_that_move_many_elements_are_few() {
    let list = json!({"list": vec![0; 100_000], "map": {"list": vec![0; 100_000]}});
    let patch = |operation: Value| Value::Array(vec![operation; MAX_OPERATIONS]);
    for operation in [
        json!({"op": "remove", "path": "/list/0"}),
        json!({"op": "add", "path": "/list/0", "value": 1}),
        json!({"op": "move", "from": "/list/99999", "path": "/list/0"}),
        json!({"op": "move", "from": "/map", "path": "/map"}),
    ] {
        match try_json(patch(operation.clone()), list.clone()) {
            Err(PatchError::DoesNotApply(why)) => assert!(why.contains(&MAX_STEPS.to_string()), "{why}"),
            other => panic!("{operation}: {}", other.is_ok()),
        }
    }
    let at_the_end = patch(json!({"op": "add", "path": "/list/-", "value": 1}));
    assert!(try_json(at_the_end, list).is_ok());
}
