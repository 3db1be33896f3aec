//! [`yaml`]: JSON as YAML in block style, as people write it; [`scalar`]: a single value of it.

use serde_json::Value;

use crate::output::yaml_scalar;

/// A document, without a line that separates it from others.
pub fn yaml(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text
}

fn write(value: &Value, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                *text += &format!("{pad}{}:", yaml_scalar(name));
                // A list stands below its name, at the same column.
                after(value, indent + if value.is_array() { 0 } else { 2 }, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let mut nested = String::new();
                write(item, indent + 2, &mut nested);
                *text += &format!("{pad}- {}", nested.trim_start());
            }
        }
        other => *text += &format!("{pad}{}\n", scalar(other)),
    }
}

/// A value after the name of its field: on the same line if it is one word.
fn after(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(fields) if fields.is_empty() => *text += " {}\n",
        Value::Array(items) if items.is_empty() => *text += " []\n",
        Value::Object(_) | Value::Array(_) => {
            text.push('\n');
            write(value, indent, text);
        }
        other => *text += &format!(" {}\n", scalar(other)),
    }
}

/// A value that is no object and no list, on one line.
pub fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => yaml_scalar(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_what_people_would_write() {
        let value = json!({
            "kind": "Foo", "empty": {}, "none": [], "list": [{"a": 1, "b": [true, null]}, ["x"], {}], "map": {"on": "a b"},
        });
        assert_eq!(
            yaml(&value),
            "empty: {}\nkind: Foo\nlist:\n- a: 1\n  b:\n  - true\n  - null\n- - x\n- {}\nmap:\n  \"on\": \"a b\"\nnone: []\n"
        );
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let texts = [
            "",
            " ",
            "a: b",
            "- x",
            "#",
            "1",
            "1e3",
            "true",
            "No",
            "~",
            "\u{7f}\n\t\"'\u{85}\u{feff}",
            "ä€😀",
            "{",
            "x/y",
        ];
        let value =
            json!({"texts": texts, "numbers": [0, -1, 1.5, 1e30], "nested": {"a b": [[[]], [{"c": {}}]]}});
        let options = pilothouse_plugin::yaml::options();
        let read: Value = serde_saphyr::from_str_with_options(&yaml(&value), options).unwrap();
        assert_eq!(read, value);
    }
}
