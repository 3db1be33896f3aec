//! The whole of it, and what the tests of the parts share.

mod conversions;
mod random;
mod vectors;

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use super::path::Element;
use super::set::{Node, Set};

/// A value of any sort.
pub(super) fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-4..4_i32).prop_map(|half| Value::from(f64::from(half) / 2.0)),
        "[abc<\"\\\\\u{2028}é.:]{0,3}".prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_element() -> impl Strategy<Value = Element> {
    let scalar = prop_oneof![
        (0..3_i64).prop_map(Value::from),
        Just(Value::from(0.5)),
        "[ab<]{0,1}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
    ];
    prop_oneof![
        4 => "[abc]".prop_map(|name| Element::field(&name)),
        1 => prop::collection::btree_map("[ab]", scalar.clone(), 1..3).prop_map(|fields| {
            Element::key(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
        }),
        1 => scalar.prop_map(|value| Element::Value(Arc::new(value))),
        1 => (0..2_i64).prop_map(Element::Index),
    ]
}

/// A set of paths.
pub(super) fn any_set() -> impl Strategy<Value = Set> {
    let leaf = Just(Set::default());
    leaf.prop_recursive(4, 32, 4, |below| {
        prop::collection::vec((any_element(), any::<bool>(), below), 0..4).prop_map(|nodes| {
            let node = |(element, is_member, below): (Element, bool, Set)| Node { element, is_member, below };
            Set::from_nodes(nodes.into_iter().map(node).collect())
        })
    })
}
