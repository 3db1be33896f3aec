//! Whether an object has the types of its kind, as far as server-side apply needs them.
//!
//! The texts are those that a real server sends: among them the name of a Go type where a number is expected.

use serde_json::Value;

use super::types::{Atom, KeyError, List, MapType, Scalar, TypeRef};
use super::value::{go_text, go_type, quoted};

/// How many errors are named, and how many bytes of them: a path may be as long as an object.
const MAX_ERRORS: usize = 100;
const MAX_TEXT: usize = 256 << 10;
/// How much of a value a message repeats.
const MAX_VALUE: usize = 2 << 10;

/// Whether lists may have elements of the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Duplicates {
    Allowed,
    Refused,
}

/// What is wrong with an object, as one text.
pub(super) fn check(root: TypeRef<'_>, object: &Value, duplicates: Duplicates) -> Result<(), String> {
    let mut check = Check { path: String::new(), duplicates, errors: Vec::new(), text: 0 };
    check.value(root, object);
    match &check.errors[..] {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

struct Check {
    path: String,
    duplicates: Duplicates,
    errors: Vec<String>,
    /// Bytes of the errors.
    text: usize,
}

impl Check {
    fn error(&mut self, text: &str) {
        if self.is_full() {
            return;
        }
        // The first is named whatever its length.
        self.text += self.path.len() + text.len();
        if self.errors.is_empty() || self.text <= MAX_TEXT {
            let colon = if self.path.is_empty() { "" } else { ": " };
            self.errors.push(format!("{}{colon}{text}", self.path));
        }
    }

    fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS || self.text > MAX_TEXT
    }

    fn value(&mut self, place: TypeRef<'_>, value: &Value) {
        match place.atoms().of(Some(value)) {
            Atom::Scalar(scalar) => self.scalar(scalar, value),
            Atom::List(list) => self.list(list, value),
            Atom::Map(map) => self.map(map, value),
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) {
        let fits = match scalar {
            _ if value.is_null() => true,
            Scalar::Any => value.is_number() || value.is_string() || value.is_boolean(),
            Scalar::Number => value.is_number(),
            Scalar::String => value.is_string(),
            Scalar::Boolean => value.is_boolean(),
        };
        if fits || self.is_full() {
            return;
        }
        match scalar {
            Scalar::Any => self.error(&format!("expected any scalar, got {}", shown(value))),
            Scalar::Number => self.error(&format!("expected numeric (int or float), got {}", go_type(value))),
            Scalar::String => {
                let text = cut(go_text(value, true));
                self.error(&format!("expected string, got &value.valueUnstructured{{Value:{text}}}"));
            }
            Scalar::Boolean => self.error(&format!("expected boolean, got {}", shown(value))),
        }
    }

    fn list(&mut self, list: List<'_>, value: &Value) {
        let elements = match value {
            Value::Array(elements) => elements,
            Value::Null => return,
            other => return self.error(&format!("expected list, got {}", shown(other))),
        };
        let mut seen = std::collections::BTreeSet::new();
        for (index, value) in elements.iter().enumerate() {
            let end = self.path.len();
            if list.is_atomic() {
                self.path.push_str(&format!("[{index}]"));
            } else {
                let element = match list.element(value) {
                    Ok(element) => element,
                    Err(why) => return self.error(&format!("element {index}: {}", key_error(&why))),
                };
                let text = element.text();
                if self.duplicates == Duplicates::Refused && !seen.insert(element) {
                    self.error(&format!("duplicate entries for key {text}"));
                }
                self.path.push_str(&text);
            }
            self.value(list.items, value);
            self.path.truncate(end);
        }
    }

    fn map(&mut self, map: MapType<'_>, value: &Value) {
        let object = match value {
            Value::Object(object) => object,
            Value::Null => return,
            other => return self.error(&format!("expected map, got {}", shown(other))),
        };
        for (name, value) in object {
            let end = self.path.len();
            self.path.push('.');
            self.path.push_str(name);
            let field = map.field(name);
            match field {
                Some(field) => self.value(field, value),
                None => self.error("field not declared in schema"),
            }
            self.path.truncate(end);
            // Of several unknown fields of an object one is named, as by a real server.
            if field.is_none() {
                return;
            }
        }
    }
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_VALUE));
    text
}

fn shown(value: &Value) -> String {
    format!("&{{{}}}", cut(go_text(value, false)))
}

fn key_error(why: &KeyError<'_>) -> String {
    let text = match why {
        KeyError::Null => "associative list with keys may not have a null element",
        KeyError::NoMap => "associative list with keys may not have non-map elements",
        KeyError::NoMapType => "associative list may not have non-map types",
        KeyError::MapInSet => "associative list without keys has an element that's a map type",
        KeyError::ListInSet => "not supported: associative list with lists as elements",
        KeyError::NullInSet => "associative list without keys has an element that's an explicit null",
        KeyError::NoKeys(keys) => {
            let keys: Vec<String> = keys.iter().map(|key| quoted(key)).collect();
            return format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                keys.join(" ")
            );
        }
    };
    text.to_owned()
}
