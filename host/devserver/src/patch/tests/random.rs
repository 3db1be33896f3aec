use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{pod_type, try_json, try_merge, try_strategic};
use crate::patch::{PatchKind, apply};

/// Names of a pod's fields and of directives, so that random patches meet lists that merge.
const NAMES: [&str; 24] = [
    "metadata",
    "spec",
    "labels",
    "finalizers",
    "ownerReferences",
    "uid",
    "containers",
    "name",
    "image",
    "ports",
    "containerPort",
    "env",
    "volumes",
    "tolerations",
    "nodeSelector",
    "securityContext",
    "supplementalGroups",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$setElementOrder/finalizers",
    "$setElementOrder/ports",
    "$deleteFromPrimitiveList/finalizers",
    "$setElementOrder",
];

fn any_json(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1_i64..3).prop_map(Value::from),
        Just(json!(1.5)),
        prop::sample::select(vec!["a", "b", "c", "delete", "replace", "merge"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 5, move |inner| {
        let member = (prop::sample::select(names), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            prop::collection::vec(member, 0..5).prop_map(|members| {
                members
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect::<Map<_, _>>()
                    .into()
            }),
        ]
    })
}

/// A pod-like object: the lists that merge are where a pod has them.
fn any_pod() -> impl Strategy<Value = Value> {
    let name = || prop::sample::select(vec!["a", "b", "c", "d"]);
    let directive = || prop_oneof![6 => Just(None), 1 => Just(Some("delete")), 1 => Just(Some("replace"))];
    let element =
        (name(), prop::option::of(any_json(&NAMES)), directive()).prop_map(|(name, more, directive)| {
            let mut element = json!({"name": name});
            if let Some(Value::Object(more)) = more {
                element.as_object_mut().unwrap().extend(more);
            }
            if let Some(directive) = directive {
                element["$patch"] = directive.into();
            }
            element
        });
    let finalizers = prop::collection::vec(name(), 0..4);
    let order = prop::option::of(prop::collection::vec(name().prop_map(|name| json!({"name": name})), 0..4));
    (prop::collection::vec(element, 0..4), finalizers, order).prop_map(|(containers, finalizers, order)| {
        let mut pod = json!({"metadata": {"finalizers": finalizers}, "spec": {"containers": containers}});
        if let Some(order) = order {
            pod["spec"]["$setElementOrder/containers"] = order.into();
        }
        pod
    })
}

fn any_operations() -> impl Strategy<Value = Value> {
    let path = || r"(/(a|b|-|-1|0|1|~1|spec)){0,4}";
    let op = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "odd"]);
    let operation = (op, path(), path(), any_json(&["a", "b", "spec"]))
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}));
    prop::collection::vec(operation, 0..6).prop_map(Value::from)
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name, without_nulls(value))).collect()
        }
        Value::Array(elements) => elements.into_iter().filter(|e| !e.is_null()).map(without_nulls).collect(),
        scalar => scalar,
    }
}

proptest! {
    #[test]
    fn no_patch_panics(patch in any_json(&NAMES), current in any_json(&NAMES), operations in any_operations()) {
        for kind in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic] {
            let _ = apply(kind, &patch, &current, Some(pod_type()));
        }
        let _ = try_json(operations, current);
    }

    #[test]
    fn no_patch_of_a_pod_panics(patch in any_pod(), current in any_pod()) {
        let _ = try_strategic(patch, current);
    }

    #[test]
    fn an_empty_patch_changes_nothing(current in any_pod()) {
        prop_assert_eq!(try_json(json!([]), current.clone()), Ok(current.clone()));
        prop_assert_eq!(try_merge(json!({}), current.clone()), Ok(current.clone()));
        prop_assert_eq!(try_strategic(json!({}), current.clone()), Ok(current));
    }

    #[test]
    fn a_merge_patch_applied_twice_is_applied_once(patch in any_json(&["a", "b", "c"]), current in any_json(&["a", "b", "c"])) {
        let patch = json!({"patch": without_nulls(patch)});
        let current = json!({"patch": without_nulls(current)});
        let once = try_merge(patch.clone(), current).unwrap();
        prop_assert_eq!(try_merge(patch, once.clone()), Ok(once));
    }

    #[test]
    fn a_strategic_patch_applied_twice_is_applied_once(
        patch in prop::collection::btree_map("[a-f]", "[xy]", 0..4),
        current in prop::collection::btree_map("[a-f]", "[xy]", 0..4),
    ) {
        let pod = |images: std::collections::BTreeMap<String, String>| {
            let containers = images.iter().map(|(name, image)| json!({"name": name, "image": image}));
            json!({"metadata": {"labels": images, "finalizers": images.keys().collect::<Vec<_>>()}, "spec": {"containers": containers.collect::<Vec<_>>()}})
        };
        let (patch, current) = (pod(patch), pod(current));
        let once = try_strategic(patch.clone(), current.clone()).unwrap();
        for (name, image) in patch["metadata"]["labels"].as_object().unwrap() {
            let container = json!({"name": name, "image": image});
            prop_assert!(once["spec"]["containers"].as_array().unwrap().contains(&container));
        }
        for kept in current["metadata"]["finalizers"].as_array().unwrap() {
            prop_assert!(once["metadata"]["finalizers"].as_array().unwrap().contains(kept));
        }
        prop_assert_eq!(try_strategic(patch, once.clone()), Ok(once));
    }
}
