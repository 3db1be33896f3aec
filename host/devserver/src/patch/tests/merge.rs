use serde_json::{Value, json};

use super::{PatchError, try_merge};

#[test]
fn maps_merge_nulls_delete_and_everything_else_replaces() {
    let current = json!({"a": {"b": 1, "c": 2}, "list": [1, 2], "gone": 1, "text": "t"});
    let patch = json!({"a": {"b": null, "d": {"e": 3}}, "list": [3], "gone": null, "text": {"now": "map"}, "none": null});
    let expected = json!({"a": {"c": 2, "d": {"e": 3}}, "list": [3], "text": {"now": "map"}});
    assert_eq!(try_merge(patch, current), Ok(expected));
}

#[test]
fn what_is_added_loses_its_nulls_also_inside_lists() {
    let patch = json!({"new": {"a": null, "b": [{"c": null, "d": 1}, null]}, "list": [{"e": null}]});
    let expected = json!({"new": {"b": [{"d": 1}, null]}, "list": [{}]});
    assert_eq!(try_merge(patch, json!({"list": [1]})), Ok(expected));
}

#[test]
fn a_list_in_the_place_of_a_map_keeps_its_nulls() {
    assert_eq!(try_merge(json!({"a": [{"b": null}]}), json!({"a": {}})), Ok(json!({"a": [{"b": null}]})));
}

#[test]
fn only_a_map_is_a_patch() {
    for patch in [Value::Null, json!([]), json!("x")] {
        assert!(matches!(try_merge(patch, json!({})), Err(PatchError::Malformed(_))));
    }
}
