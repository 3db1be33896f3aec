//! Values as structured-merge-diff compares and prints them.
//!
//! All values have one order: numbers, strings, booleans, lists, maps, null. Numbers are compared as numbers, so `1` and
//! `1.0` are the same.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// The order of all values; values are equal when it says so.
pub(super) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let differing = left.iter().zip(right).map(|(l, r)| compare(l, r)).find(|order| order.is_ne());
            differing.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => compare_maps(left, right),
        _ => rank(left).cmp(&rank(right)),
    }
}

fn compare_maps(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    let pairs = left.iter().zip(right);
    let mut orders = pairs.map(|((a, l), (b, r))| a.cmp(b).then_with(|| compare(l, r)));
    orders.find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Exactly: an order by way of floats would not be transitive for large integers.
fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(left), None) => compare_with_float(left, right.as_f64().unwrap_or_default()),
        (None, Some(right)) => compare_with_float(right, left.as_f64().unwrap_or_default()).reverse(),
        (None, None) => left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal),
    }
}

fn compare_with_float(integer: i128, float: f64) -> Ordering {
    // Conversions from floats saturate, and integers here have 64 bits.
    let whole = float.trunc();
    integer
        .cmp(&(whole as i128))
        .then_with(|| 0.0_f64.partial_cmp(&(float - whole)).unwrap_or(Ordering::Equal))
}

/// A whole number that was written as `1.0` is `1`, as Go writes it.
pub(super) fn normalized(value: Value) -> Value {
    const EXACT: f64 = (1_u64 << 53) as f64;
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().filter(|float| float.trunc() == *float && float.abs() < EXACT);
            float.map_or(Value::Number(number), |float| Value::from(float as i64))
        }
        other => other,
    }
}

/// A text in double quotes, as Go's `%q` has it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\u{b}' => out.push_str("\\v"),
            letter if letter.is_ascii_control() => {
                push(&mut out, format_args!("\\x{:02x}", u32::from(letter)));
            }
            letter if letter.is_control() => push(&mut out, format_args!("\\u{:04x}", u32::from(letter))),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// Writing to a text cannot fail.
pub(super) fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// A number as Go's `%v` prints it: one that was read from FieldsV1 is a float there.
fn number_text(number: &Number) -> String {
    let float = number.as_f64().unwrap_or_default();
    let scientific = format!("{float:e}");
    let exponent: i32 = scientific.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    if float == 0.0 || (-4..21).contains(&exponent) {
        return float.to_string();
    }
    let (digits, _) = scientific.split_once('e').unwrap_or((&scientific, ""));
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// A value in a path of an error message.
pub(super) fn push_text(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => push(out, format_args!("{value}")),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => out.push_str(&quoted(text)),
        Value::Array(list) => {
            out.push('[');
            for (index, element) in list.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_text(out, element);
            }
            out.push(']');
        }
        Value::Object(map) => {
            for (key, value) in map {
                push(out, format_args!("{key}="));
                push_text(out, value);
            }
        }
    }
}

/// A value as Go's `%v` prints it (`map[a:1]`), or `%#v` (`map[string]interface {}{"a":1}`).
pub(crate) fn go_text(value: &Value, with_types: bool) -> String {
    let list = |elements: Vec<String>, separator: &str| elements.join(separator);
    match (value, with_types) {
        (Value::Null, false) => "<nil>".to_owned(),
        (Value::Null, true) => "interface {}(nil)".to_owned(),
        (Value::Bool(value), _) => value.to_string(),
        (Value::Number(number), _) if number.is_f64() => number_text(number),
        (Value::Number(number), _) => number.to_string(),
        (Value::String(text), false) => text.clone(),
        (Value::String(text), true) => quoted(text),
        (Value::Array(elements), false) => {
            format!("[{}]", list(elements.iter().map(|e| go_text(e, false)).collect(), " "))
        }
        (Value::Array(elements), true) => {
            format!("[]interface {{}}{{{}}}", list(elements.iter().map(|e| go_text(e, true)).collect(), ", "))
        }
        (Value::Object(map), false) => {
            let entries = map.iter().map(|(key, value)| format!("{key}:{}", go_text(value, false)));
            format!("map[{}]", list(entries.collect(), " "))
        }
        (Value::Object(map), true) => {
            let entries = map.iter().map(|(key, value)| format!("{}:{}", quoted(key), go_text(value, true)));
            format!("map[string]interface {{}}{{{}}}", list(entries.collect(), ", "))
        }
    }
}

/// The name of a value's type in Go.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::apply::tests::any_value;

    #[test]
    fn values_have_one_order() {
        let sorted = [
            json!(-1),
            json!(0.5),
            json!(1),
            json!(2),
            json!(9_007_199_254_740_993_i64),
            json!(1e20),
            json!(""),
            json!("a"),
            json!(false),
            json!(true),
            json!([]),
            json!([1, 2]),
            json!([2]),
            json!({}),
            json!({"a": 1}),
            json!({"a": 1, "b": 0}),
            json!({"b": 0}),
            json!(null),
        ];
        for (i, left) in sorted.iter().enumerate() {
            for (j, right) in sorted.iter().enumerate() {
                assert_eq!(compare(left, right), i.cmp(&j), "{left} {right}");
            }
        }
        assert_eq!(compare(&json!(1), &json!(1.0)), Ordering::Equal);
    }

    #[test]
    fn values_in_paths_are_written_as_in_go() {
        for (value, text) in [
            (json!(8080), "8080"),
            (json!(1.5), "1.5"),
            (json!(0.00001), "1e-05"),
            (json!("a\"b\u{1}"), r#""a\"b\x01""#),
            (json!([1, null]), "[1,null]"),
            (json!({"a": true}), "a=true"),
        ] {
            let mut out = String::new();
            push_text(&mut out, &value);
            assert_eq!(out, text);
        }
        let value = json!({"a": [1, "b", null]});
        assert_eq!(go_text(&value, false), "map[a:[1 b <nil>]]");
        let typed = r#"map[string]interface {}{"a":[]interface {}{1, "b", interface {}(nil)}}"#;
        assert_eq!(go_text(&value, true), typed);
    }

    proptest! {
        #[test]
        fn the_order_of_values_is_total(a in any_value(), b in any_value(), c in any_value()) {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            prop_assert_eq!(compare(&a, &a), Ordering::Equal);
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le());
            }
        }
    }
}
