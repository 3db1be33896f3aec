use serde_json::{Value, json};

use super::{PatchError, apply, pod_type, try_strategic};
use crate::apply::go_text;
use crate::patch::PatchKind;
use crate::schema::BuiltinTypes;

fn spec(spec: Value) -> Value {
    json!({"spec": spec})
}

#[track_caller]
fn assert_spec(current: Value, patch: Value, expected: Value) {
    assert_eq!(try_strategic(spec(patch), spec(current)), Ok(spec(expected)));
}

#[track_caller]
fn assert_metadata(current: Value, patch: Value, expected: Value) {
    let patched = try_strategic(json!({"metadata": patch}), json!({"metadata": current}));
    assert_eq!(patched, Ok(json!({"metadata": expected})));
}

#[track_caller]
fn assert_conflicting(current: Value, patch: Value, why: &str) {
    match try_strategic(spec(patch), spec(current)) {
        Err(PatchError::Conflicting(reason)) => assert!(reason.contains(why), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_malformed(current: Value, patch: Value) {
    let patched = try_strategic(spec(patch), spec(current));
    assert!(matches!(patched, Err(PatchError::Malformed(_))), "{patched:?}");
}

fn named(names: &str) -> Value {
    names.chars().map(|name| json!({"name": name.to_string()})).collect()
}

/// Containers of one-letter names, with an image for those of the live object.
fn live(names: &str) -> Value {
    names.chars().map(|name| json!({"name": name.to_string(), "image": "live"})).collect()
}

/// The names of the containers that a patch leaves.
#[track_caller]
fn containers_after(current: &str, patch: Value) -> String {
    let patched = try_strategic(spec(patch), spec(json!({"containers": live(current)}))).unwrap();
    patched["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["name"].as_str().unwrap())
        .collect()
}

#[test]
fn maps_merge_and_null_deletes() {
    let labels = json!({"labels": {"a": "1", "b": "2"}, "name": "x", "generateName": "y"});
    let patch = json!({"labels": {"a": null, "c": "3"}, "name": "z", "generateName": null, "uid": null});
    assert_metadata(labels, patch, json!({"labels": {"b": "2", "c": "3"}, "name": "z"}));
}

#[test]
fn a_new_field_loses_its_nulls_and_directives() {
    let patch = json!({"securityContext": {"runAsUser": 1, "runAsGroup": null, "seLinuxOptions": {"$patch": "replace"}}});
    assert_spec(json!({}), patch, json!({"securityContext": {"runAsUser": 1}}));
    let patch = json!({"containers": [{"name": "a", "image": null}, {"name": "b", "$patch": "delete"}]});
    assert_spec(json!({}), patch, json!({"containers": [{"name": "a"}]}));
    assert_spec(json!({"hostname": "h"}), json!({"hostname": {"odd": null}}), json!({"hostname": {}}));
}

#[test]
fn elements_merge_by_their_key() {
    let current = json!({"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "x"}]}, {"name": "b", "image": "2"}]});
    let patch = json!({"containers": [{"name": "a", "image": "3", "env": [{"name": "Y", "value": "y"}, {"name": "X", "value": null}]}]});
    let env = json!([{"name": "Y", "value": "y"}, {"name": "X"}]);
    let expected =
        json!({"containers": [{"name": "a", "image": "3", "env": env}, {"name": "b", "image": "2"}]});
    assert_spec(current, patch, expected);
}

#[test]
fn a_new_element_is_taken_as_it_is() {
    let new = json!({"name": "b", "image": null, "$setElementOrder/env": []});
    assert_spec(
        json!({"containers": named("a")}),
        json!({"containers": [new]}),
        json!({"containers": [new, {"name": "a"}]}),
    );
}

#[test]
fn a_new_element_stands_before_those_that_only_the_server_has() {
    assert_eq!(containers_after("a", json!({"containers": named("b")})), "ba");
    assert_eq!(containers_after("ab", json!({"containers": named("cb")})), "cab");
    assert_eq!(containers_after("ab", json!({"containers": named("bc")})), "abc");
}

#[test]
fn the_patch_reorders_what_it_names_and_the_others_keep_their_places() {
    assert_eq!(containers_after("abcd", json!({"containers": named("db")})), "acdb");
    assert_eq!(containers_after("abcd", json!({"containers": named("bd")})), "abcd");
}

#[test]
fn an_element_is_deleted_by_its_key() {
    let delete = |name| json!({"name": name, "$patch": "delete"});
    assert_eq!(containers_after("abc", json!({"containers": [delete("b"), delete("x")]})), "ac");
    assert_eq!(containers_after("a", json!({"containers": [delete("a")]})), "");
    let twice = json!({"containers": [{"name": "a", "ports": [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}, {"containerPort": 80}]}]});
    let patch = json!({"containers": [{"name": "a", "ports": [{"containerPort": 53, "$patch": "delete"}]}]});
    assert_spec(twice, patch, json!({"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}));
}

#[test]
fn an_element_replace_replaces_the_list() {
    let patch =
        json!({"containers": [{"$patch": "replace"}, {"name": "x"}, {"name": "a", "$patch": "delete"}]});
    assert_spec(json!({"containers": live("ab")}), patch, json!({"containers": [{"name": "x"}]}));
    assert_spec(
        json!({"containers": live("ab")}),
        json!({"containers": [{"$patch": "replace"}]}),
        json!({"containers": []}),
    );
}

#[test]
fn a_map_can_be_replaced_and_emptied() {
    let current = json!({"securityContext": {"runAsUser": 1, "runAsGroup": 2}});
    let replace = json!({"securityContext": {"$patch": "replace", "runAsUser": 3}});
    assert_spec(current.clone(), replace, json!({"securityContext": {"runAsUser": 3}}));
    let delete = json!({"securityContext": {"$patch": "delete", "runAsUser": 3}});
    assert_spec(current, delete, json!({"securityContext": {}}));
    assert_eq!(
        try_strategic(json!({"$patch": "replace", "kind": "Pod"}), spec(json!({}))),
        Ok(json!({"kind": "Pod"}))
    );
}

#[test]
fn other_directives_are_refused() {
    let current = json!({"containers": live("a"), "securityContext": {"runAsUser": 1}});
    assert_conflicting(current.clone(), json!({"securityContext": {"$patch": "merge"}}), "\"merge\"");
    assert_conflicting(
        current.clone(),
        json!({"containers": [{"name": "a", "$patch": "merge"}]}),
        "\"merge\"",
    );
    assert_conflicting(current, json!({"containers": [{"name": "a", "$patch": 1}]}), "1");
}

#[test]
fn an_element_without_its_key_is_named_with_the_key() {
    let current = json!({"containers": live("a")});
    for element in [json!({"image": "x"}), json!({"image": "x", "$patch": "delete"})] {
        let patched = try_strategic(spec(json!({"containers": [element]})), spec(current.clone()));
        let error = PatchError::MissingMergeKey { element: go_text(&element, false), key: "name".to_owned() };
        assert_eq!(patched, Err(error.clone()));
        let text = error.to_string();
        assert!(
            text.starts_with("map: map[") && text.ends_with("does not contain declared merge key: name"),
            "{text}"
        );
    }
}

#[test]
fn elements_of_a_merged_list_have_one_type_and_are_no_lists() {
    assert_conflicting(
        json!({"containers": live("a")}),
        json!({"containers": ["a"]}),
        "list element types are not identical: [[",
    );
    assert_conflicting(
        json!({"containers": live("a")}),
        json!({"containers": [null]}),
        "list element types are not identical: [[",
    );
    let patched =
        try_strategic(json!({"metadata": {"finalizers": [["a"]]}}), json!({"metadata": {"finalizers": []}}));
    assert!(matches!(patched, Err(PatchError::DoesNotApply(_))), "{patched:?}");
}

#[test]
fn a_list_of_scalars_that_merges_becomes_the_union() {
    assert_metadata(
        json!({"finalizers": ["a", "b"]}),
        json!({"finalizers": ["c", "b"]}),
        json!({"finalizers": ["c", "a", "b"]}),
    );
    assert_metadata(
        json!({"finalizers": ["a"]}),
        json!({"finalizers": ["b", "b", "a"]}),
        json!({"finalizers": ["b", "a"]}),
    );
    assert_metadata(json!({"finalizers": []}), json!({"finalizers": []}), json!({"finalizers": []}));
}

#[test]
fn scalars_are_deleted_from_a_list() {
    let patch = json!({"$deleteFromPrimitiveList/finalizers": ["a", "x"]});
    assert_metadata(json!({"finalizers": ["a", "b"]}), patch.clone(), json!({"finalizers": ["b"]}));
    assert_metadata(json!({"name": "n"}), patch, json!({"name": "n"}));
    let both = json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]});
    assert_metadata(json!({"finalizers": ["a", "b"]}), both, json!({"finalizers": ["c", "b"]}));
    assert_malformed(json!({"args": []}), json!({"$deleteFromPrimitiveList": ["a"]}));
}

#[test]
fn scalars_are_deleted_from_lists_that_do_not_merge_too() {
    let current = json!({"containers": [{"name": "a", "args": ["1", "2"]}]});
    let patch = json!({"containers": [{"name": "a", "$deleteFromPrimitiveList/args": ["1"]}]});
    assert_spec(current, patch, json!({"containers": [{"name": "a", "args": ["2"]}]}));
}

#[test]
fn a_list_without_a_strategy_is_replaced_as_it_is() {
    let current = json!({"tolerations": [{"key": "a"}, {"key": "b"}]});
    assert_spec(
        current,
        json!({"tolerations": [{"key": "c", "value": null}]}),
        json!({"tolerations": [{"key": "c", "value": null}]}),
    );
}

#[test]
fn the_order_given_decides() {
    let patch = |order: &str, elements: Value| json!({"$setElementOrder/containers": named(order), "containers": elements});
    assert_eq!(containers_after("abc", json!({"$setElementOrder/containers": named("ca")})), "bca");
    assert_eq!(containers_after("abc", patch("cba", json!([]))), "cba");
    assert_eq!(containers_after("ab", patch("acb", named("c"))), "acb");
    assert_eq!(containers_after("ab", patch("bxca", named("ca"))), "bca");
    let patch = json!({"$setElementOrder/finalizers": ["c", "a"], "finalizers": ["c"]});
    assert_metadata(json!({"finalizers": ["a", "b"]}), patch, json!({"finalizers": ["c", "a", "b"]}));
}

#[test]
fn a_new_element_takes_the_place_of_a_deleted_one() {
    let delete = json!({"name": "b", "$patch": "delete"});
    let patch = json!({"$setElementOrder/containers": named("ac"), "containers": [{"name": "c"}, delete]});
    // The sidecar `s` is not in the order, so it comes from the server.
    assert_eq!(containers_after("abs", patch), "asc");
    let patch = json!({"$setElementOrder/containers": named("ac"), "containers": [{"name": "c"}]});
    assert_eq!(containers_after("as", patch), "acs");
}

#[test]
fn a_new_list_stands_in_the_order_given_without_what_the_patch_deletes() {
    let elements = json!([{"name": "b"}, {"name": "x", "$patch": "delete"}, {"name": "a"}]);
    let patch = json!({"$setElementOrder/containers": named("ba"), "containers": elements});
    assert_spec(json!({}), patch, json!({"containers": named("ba")}));
    let unkeyed = json!({"$setElementOrder/containers": named("a"), "containers": [{"name": "a"}, {"$patch": "delete"}]});
    assert_spec(json!({}), unkeyed, json!({"containers": named("a")}));
    assert_spec(json!({}), json!({"$setElementOrder/containers": named("a")}), json!({}));
}

#[test]
fn an_empty_order_turns_new_elements_around() {
    let patch = json!({"$setElementOrder/containers": [], "containers": named("xy")});
    assert_eq!(containers_after("a", patch), "ayx");
}

#[test]
fn an_order_that_contradicts_the_patch_or_the_type_is_refused() {
    let current = json!({"containers": live("ab"), "hostname": "h"});
    let order =
        |order: Value, elements: Value| json!({"$setElementOrder/containers": order, "containers": elements});
    assert_conflicting(current.clone(), order(named("ab"), named("ba")), "differs");
    assert_conflicting(current.clone(), order(named("a"), named("ax")), "differs");
    assert_conflicting(current.clone(), json!({"$setElementOrder/subdomain": []}), "not a list");
    assert_conflicting(current.clone(), json!({"$setElementOrder/bogus": []}), "bogus");
    assert_conflicting(current.clone(), json!({"$setElementOrder/containers": {}}), "must be a list");
    assert_conflicting(
        current.clone(),
        json!({"$setElementOrder/containers": [], "containers": null}),
        "must be a list",
    );
    assert_conflicting(
        json!({"containers": []}),
        json!({"$setElementOrder/containers": named("a")}),
        "nothing",
    );
    assert_malformed(current.clone(), json!({"$setElementOrder": []}));
    let unkeyed =
        try_strategic(spec(json!({"$setElementOrder/containers": [{"image": "x"}]})), spec(current));
    assert!(matches!(unkeyed, Err(PatchError::MissingMergeKey { .. })), "{unkeyed:?}");
}

#[test]
fn retained_keys_clear_all_others() {
    let current = json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]});
    let patch =
        json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}, "$retainKeys": ["name", "secret"]}]});
    let expected =
        json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}, {"name": "w", "emptyDir": {}}]});
    assert_spec(current.clone(), patch, expected);
    let nulls = json!({"volumes": [{"name": "v", "emptyDir": null, "$retainKeys": ["name"]}]});
    assert_spec(current, nulls, json!({"volumes": [{"name": "v"}, {"name": "w", "emptyDir": {}}]}));
}

#[test]
fn a_patch_sets_only_what_it_retains() {
    assert_malformed(json!({}), json!({"$retainKeys": ["hostname"], "subdomain": "x"}));
    assert_malformed(json!({}), json!({"$retainKeys": "hostname"}));
    let patch = json!({"$retainKeys": ["containers"], "$setElementOrder/containers": named("ba")});
    assert_spec(json!({"containers": live("ab"), "hostname": "h"}), patch, json!({"containers": live("ba")}));
}

#[test]
fn a_map_with_the_strategy_replace_is_replaced() {
    let schema = BuiltinTypes::get().type_of_kind("policy/v1", "PodDisruptionBudget");
    let current = spec(json!({"selector": {"matchLabels": {"a": "1"}}, "minAvailable": 1}));
    let patch = spec(json!({"selector": {"matchLabels": {"b": "2"}}}));
    let expected = spec(json!({"selector": {"matchLabels": {"b": "2"}}, "minAvailable": 1}));
    assert_eq!(apply(PatchKind::Strategic, &patch, &current, schema), Ok(expected));
}

#[test]
fn what_is_inside_a_map_of_maps_cannot_be_merged() {
    let schema = BuiltinTypes::get().type_of_kind("apps/v1", "ControllerRevision");
    let current = json!({"data": {"spec": {"a": 1}, "b": 1}});
    let patched = apply(PatchKind::Strategic, &json!({"data": {"b": 2}}), &current, schema);
    assert_eq!(patched, Ok(json!({"data": {"spec": {"a": 1}, "b": 2}})));
    let patched = apply(PatchKind::Strategic, &json!({"data": {"spec": {"a": 2}}}), &current, schema);
    assert!(matches!(patched, Err(PatchError::Conflicting(_))), "{patched:?}");
}

#[test]
fn only_a_map_is_a_patch_and_null_changes_nothing() {
    let current = spec(json!({"hostname": "h"}));
    assert_eq!(apply(PatchKind::Strategic, &Value::Null, &current, Some(pod_type())), Ok(current.clone()));
    let patched = apply(PatchKind::Strategic, &json!([]), &current, Some(pod_type()));
    assert!(matches!(patched, Err(PatchError::Malformed(_))));
}
