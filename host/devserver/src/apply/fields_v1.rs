//! FieldsV1: a [`Set`] as JSON.
//!
//! ```text
//! {"f:spec": {"f:ports": {".": {}, "k:{\"port\":80}": {".": {}, "f:name": {}}}, "f:finalizers": {"v:\"a\"": {}}}}
//! ```
//!
//! A name is `f:` and a field, `k:` and the key fields of a list's element as JSON, `v:` and the element of a set as JSON, or
//! `i:` and an index. `.` says that the path so far is a member beside those below it; with nothing below it always is. Names of
//! other kinds are skipped. The depth of the input is bounded by the decoders of JSON.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::path::Element;
use super::set::{Node, Set};
use super::value::normalized;
use crate::api::go_json::{write_text, write_value};

/// What is wrong with a set in JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// Reads a set.
pub(super) fn read(fields: &Value) -> Result<Set, Malformed> {
    Ok(read_below(fields)?.1)
}

/// Whether the path so far is a member, and what is below it.
fn read_below(fields: &Value) -> Result<(bool, Set), Malformed> {
    let map = match fields {
        Value::Null => return Ok((true, Set::default())),
        Value::Object(map) => map,
        _ => return Err(Malformed("a set of fields must be an object")),
    };
    let mut is_member = false;
    let mut nodes = Vec::with_capacity(map.len());
    for (name, fields) in map {
        if name == "." {
            is_member = true;
        } else if let Some(element) = element(name)? {
            let (is_member, below) = read_below(fields)?;
            nodes.push(Node { element, is_member, below });
        }
    }
    let below = Set::from_nodes(nodes);
    Ok((is_member || below.is_empty(), below))
}

/// The element of a name; `None` if its kind is not known.
fn element(name: &str) -> Result<Option<Element>, Malformed> {
    let Some((kind, text)) = name.split_at_checked(2).filter(|(kind, _)| kind.ends_with(':')) else {
        return Err(Malformed("a name in a set of fields needs a kind and a colon"));
    };
    Ok(Some(match kind {
        "f:" => Element::field(text),
        "v:" => Element::Value(Arc::new(normalized(first_value(text)?))),
        "k:" => match first_value(text)? {
            Value::Object(fields) => Element::key(key_fields(fields)),
            Value::Null => Element::key(Vec::new()),
            _ => return Err(Malformed("a key must be an object")),
        },
        "i:" => Element::Index(text.parse().map_err(|_| Malformed("an index must be a number"))?),
        _ => return Ok(None),
    }))
}

fn key_fields(fields: Map<String, Value>) -> Vec<(Box<str>, Value)> {
    fields.into_iter().map(|(name, value)| (name.into(), normalized(value))).collect()
}

/// The first value of a text: what comes after it is ignored.
fn first_value(text: &str) -> Result<Value, Malformed> {
    let first = serde_json::Deserializer::from_str(text).into_iter().next();
    first.and_then(Result::ok).ok_or(Malformed("a name in a set of fields is no JSON"))
}

/// Writes a set in the form of a real server.
pub(super) fn write(set: &Set, out: &mut Vec<u8>) {
    write_below(set, false, out, &mut Vec::new());
}

fn write_below(set: &Set, is_member: bool, out: &mut Vec<u8>, name: &mut Vec<u8>) {
    out.push(b'{');
    if is_member && !set.is_empty() {
        out.extend_from_slice(b"\".\":{},");
    }
    for (index, node) in set.nodes().iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        name.clear();
        write_name(&node.element, name);
        write_text(out, name, false);
        out.push(b':');
        write_below(&node.below, node.is_member, out, name);
    }
    out.push(b'}');
}

fn write_name(element: &Element, out: &mut Vec<u8>) {
    match element {
        Element::Field(name) => {
            out.extend_from_slice(b"f:");
            out.extend_from_slice(name.as_bytes());
        }
        Element::Key(fields) => {
            out.extend_from_slice(b"k:{");
            for (index, (name, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_text(out, name.as_bytes(), false);
                out.push(b':');
                write_value(out, value);
            }
            out.push(b'}');
        }
        Element::Value(value) => {
            out.extend_from_slice(b"v:");
            write_value(out, value);
        }
        Element::Index(index) => out.extend_from_slice(format!("i:{index}").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::apply::tests::{any_set, any_value};

    fn written(set: &Set) -> String {
        let mut out = Vec::new();
        write(set, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_form_is_that_of_a_server() {
        for text in [
            r#"{}"#,
            r#"{"f:a":{}}"#,
            r#"{"f:a":{".":{},"f:b":{}},"f:c":{"f:d":{}}}"#,
            r#"{"f:l":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}},"v:1":{},"v:\"x\"":{},"v:true":{},"i:3":{}}}"#,
            r#"{"k:{\"a\":1,\"b\":\"\\u003cx\\u003e\\u2028\"}":{},"k:{\"a\":1.5}":{}}"#,
            r#"{"f:a\"b\n":{},"f:ä":{}}"#,
        ] {
            let set = read(&serde_json::from_str(text).unwrap()).unwrap();
            assert_eq!(written(&set), text);
        }
    }

    #[test]
    fn what_is_equal_is_one() {
        let set = read(
            &json!({"k:{\"b\":1,\"a\":2.0}": {"f:x": {}}, "k:{\"a\":2,\"b\":1} ignored": {}, "v:1.0": {}}),
        );
        assert_eq!(written(&set.unwrap()), r#"{"k:{\"a\":2,\"b\":1}":{".":{},"f:x":{}},"v:1":{}}"#);
    }

    #[test]
    fn names_of_other_kinds_are_skipped_and_malformed_ones_are_refused() {
        let set = read(&json!({"f:a": {"x:future": {"f:b": {}}}, "f:c": null})).unwrap();
        assert_eq!(set, Set::of_fields(&[&["a"], &["c"]]));
        for malformed in [
            json!({"a": {}}),
            json!({"": {}}),
            json!({"f:a": 1}),
            json!({"k:1": {}}),
            json!({"v:{": {}}),
            json!({"i:x": {}}),
            json!([]),
        ] {
            assert!(read(&malformed).is_err(), "{malformed}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(set in any_set()) {
            let text = written(&set);
            prop_assert_eq!(read(&serde_json::from_str(&text).unwrap()), Ok(set));
        }

        #[test]
        fn any_value_is_read_or_refused(value in any_value(), name in any::<String>(), text in "[fkvi.]:[{}\\[\\]\":,a0-9]{0,8}") {
            let _ = read(&value);
            if let Ok(set) = read(&json!({name: value.clone(), text: {"f:a": value}})) {
                let again = read(&serde_json::from_str(&written(&set)).unwrap());
                prop_assert_eq!(again, Ok(set));
            }
        }

        #[test]
        fn values_are_written_as_json(value in any_value()) {
            let mut out = Vec::new();
            write_value(&mut out, &value);
            prop_assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), value);
        }
    }
}
