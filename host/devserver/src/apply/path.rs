//! [`Element`]: one step of a path into an object.
//!
//! Texts are shared, so that sets of paths can be copied and combined cheaply.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::Value;

use super::value::{self, push, push_text};

/// One step of a path: how a value is found in the value around it. Elements are ordered as they stand here.
#[derive(Debug, Clone)]
pub(crate) enum Element {
    /// A field of an object, or an entry of a map.
    Field(Arc<str>),
    /// The element of a list whose key fields, sorted by name, have these values.
    Key(Arc<[(Box<str>, Value)]>),
    /// The element of a set.
    Value(Arc<Value>),
    /// The element at an index: read and kept, but no type of list makes one.
    Index(i64),
}

impl Element {
    pub(crate) fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// An element of a list by its key fields, in any order.
    pub(super) fn key(mut fields: Vec<(Box<str>, Value)>) -> Self {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(fields.into())
    }

    /// As error messages show it.
    pub(super) fn push_text(&self, out: &mut String) {
        match self {
            Self::Field(name) => push(out, format_args!(".{name}")),
            Self::Key(fields) => {
                out.push('[');
                for (index, (name, value)) in fields.iter().enumerate() {
                    push(out, format_args!("{}{name}=", if index > 0 { "," } else { "" }));
                    push_text(out, value);
                }
                out.push(']');
            }
            Self::Value(value) => {
                out.push_str("[=");
                push_text(out, value);
                out.push(']');
            }
            Self::Index(index) => push(out, format_args!("[{index}]")),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.push_text(&mut text);
        text
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => {
                let pairs = left.iter().zip(right.iter());
                let mut orders = pairs.map(|(l, r)| l.0.cmp(&r.0).then_with(|| value::compare(&l.1, &r.1)));
                orders.find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
            }
            (Self::Value(left), Self::Value(right)) => value::compare(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_are_ordered_by_their_kind_first() {
        let key = |name: &str, value: Value| Element::key(vec![(name.into(), value)]);
        let sorted = [
            Element::field("a"),
            Element::field("b"),
            Element::key(vec![]),
            key("a", json!(1)),
            Element::key(vec![("b".into(), json!(1)), ("a".into(), json!(1))]),
            key("a", json!("x")),
            key("b", json!(0)),
            Element::Value(json!(1).into()),
            Element::Value(json!("a").into()),
            Element::Index(0),
            Element::Index(1),
        ];
        assert!(sorted.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn elements_are_shown_as_in_messages_of_a_server() {
        let key = Element::key(vec![("protocol".into(), json!("TCP")), ("containerPort".into(), json!(80))]);
        assert_eq!(key.text(), r#"[containerPort=80,protocol="TCP"]"#);
        assert_eq!(Element::field("spec").text(), ".spec");
        assert_eq!(Element::Value(json!("a").into()).text(), r#"[="a"]"#);
        assert_eq!(Element::Index(3).text(), "[3]");
    }
}
