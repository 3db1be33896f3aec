//! [`Causes`] and [`Path`]: what is wrong with an object, and where.
//!
//! Both are bounded: a path is one text that grows and shrinks during the walk, and a list of causes ends after
//! [`MAX_CAUSES`] or [`MAX_BYTES`], so that an answer stays small whatever came in.

use serde_json::Value;

use crate::api::Cause;

/// How many causes an answer names.
const MAX_CAUSES: usize = 100;
/// How long their texts may be together before no more are added.
const MAX_BYTES: usize = 64 << 10;
/// How much of a value is repeated in a message.
const MAX_VALUE: usize = 2 << 10;
/// How long a path may be; names of fields beyond it are cut.
const MAX_PATH: usize = 2 << 10;

/// A place in an object or in a schema: `spec.ports[0].name`, `properties[spec].type`.
#[derive(Debug, Default)]
pub(super) struct Path(String);

/// Where a path was before it was extended.
pub(super) struct Mark(usize);

impl Path {
    pub(super) fn new(base: &str) -> Self {
        Self(base.to_owned())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Goes to a field.
    pub(super) fn field(&mut self, name: &str) -> Mark {
        let mark = Mark(self.0.len());
        if !self.0.is_empty() {
            self.push(".");
        }
        self.push(name);
        mark
    }

    /// Goes to an entry of a map of fields: `properties[spec]`.
    pub(super) fn entry(&mut self, field: &str, key: &str) -> Mark {
        let mark = self.field(field);
        self.key(key);
        mark
    }

    /// Goes to an entry of this map: `labels[a]`.
    pub(super) fn key(&mut self, key: &str) -> Mark {
        let mark = Mark(self.0.len());
        for text in ["[", key, "]"] {
            self.push(text);
        }
        mark
    }

    /// Goes to an element of this list.
    pub(super) fn index(&mut self, index: usize) -> Mark {
        let mark = Mark(self.0.len());
        self.push(&format!("[{index}]"));
        mark
    }

    fn push(&mut self, text: &str) {
        self.0.push_str(prefix(text, MAX_PATH.saturating_sub(self.0.len())));
    }

    pub(super) fn back(&mut self, mark: &Mark) {
        self.0.truncate(mark.0);
    }

    /// The place of a field of this one.
    pub(super) fn of(&self, field: &str) -> String {
        let field = clipped(field);
        if self.0.is_empty() { field.to_owned() } else { format!("{}.{field}", self.0) }
    }
}

/// A bounded list of causes.
#[derive(Debug, Default)]
pub(crate) struct Causes {
    list: Vec<Cause>,
    bytes: usize,
}

impl Causes {
    pub(crate) fn add(&mut self, cause: Cause) {
        if !self.is_full() {
            self.bytes += cause.field.len() + cause.message.len();
            self.list.push(cause);
        }
    }

    /// Whether looking for more is in vain.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= MAX_CAUSES || self.bytes >= MAX_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn append(&mut self, others: Self) {
        others.list.into_iter().for_each(|cause| self.add(cause));
    }

    /// By their texts: the walk over a schema has no order that a reader would expect.
    pub(super) fn sorted(mut self) -> Self {
        self.list.sort_by(|a, b| (&a.field, &a.message).cmp(&(&b.field, &b.message)));
        self
    }

    pub(crate) fn into_vec(self) -> Vec<Cause> {
        self.list
    }
}

/// `Invalid value: …: detail`, with a value of any kind.
pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Cause {
    let message = format!("Invalid value: {}: {detail}", shown(value));
    Cause { reason: "FieldValueInvalid", message, field: field.into() }
}

/// A value of the wrong type: in it the type's name stands for the value.
pub(super) fn type_invalid(field: &str, value: &str, detail: &str) -> Cause {
    let message = format!("Invalid value: {}: {detail}", Value::from(value));
    Cause { reason: "FieldValueTypeInvalid", message, field: field.to_owned() }
}

/// A value that is none of those that are allowed.
pub(super) fn not_supported(field: &str, value: &Value, allowed: &[Value]) -> Cause {
    let mut message = format!("Unsupported value: {}", shown(value));
    for (index, one) in allowed.iter().enumerate() {
        message.push_str(if index == 0 { ": supported values: " } else { ", " });
        let text = one.as_str().map_or_else(|| shown(one), |text| clipped(text).to_owned());
        message.push_str(&Value::from(text).to_string());
        if message.len() > MAX_VALUE {
            message.push_str(", …");
            break;
        }
    }
    Cause { reason: "FieldValueNotSupported", message, field: field.to_owned() }
}

pub(super) fn duplicate(field: &str, value: &Value) -> Cause {
    let message = format!("Duplicate value: {}", shown(value));
    Cause { reason: "FieldValueDuplicate", message, field: field.to_owned() }
}

pub(super) fn too_long(field: &str, max: i64) -> Cause {
    let message = format!("Too long: may not be more than {max} bytes");
    Cause { reason: "FieldValueTooLong", message, field: field.to_owned() }
}

pub(super) fn too_many(field: &str, count: usize, max: i64) -> Cause {
    let message = format!("Too many: {count}: must have at most {max} items");
    Cause { reason: "FieldValueTooMany", message, field: field.to_owned() }
}

/// A value as messages show it, cut after [`MAX_VALUE`] bytes; `null` stands in quotes there.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "\"null\"".to_owned(),
        // A whole number that was written as `1.0` is shown as `1`.
        Value::Number(number) => {
            let float = number.as_f64().filter(|_| number.is_f64());
            float.map_or_else(|| number.to_string(), |value| value.to_string())
        }
        other => {
            let mut text = Clipped(Vec::new());
            let whole = serde_json::to_writer(&mut text, other).is_ok();
            let mut text = String::from_utf8_lossy(&text.0).into_owned();
            if !whole {
                text.push('…');
            }
            text
        }
    }
}

/// A writer that fails when it is full, so that a large value is not written to be thrown away.
struct Clipped(Vec<u8>);

impl std::io::Write for Clipped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(MAX_VALUE - self.0.len());
        self.0.extend_from_slice(&bytes[..taken]);
        if taken < bytes.len() { Err(std::io::ErrorKind::WriteZero.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// As much of a name as messages repeat.
pub(crate) fn clipped(text: &str) -> &str {
    prefix(text, MAX_VALUE)
}

/// At most so many bytes of a text, in whole letters.
fn prefix(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_names_fields_entries_and_elements() {
        let mut path = Path::default();
        path.field("spec");
        let ports = path.field("ports");
        path.index(2);
        path.field("name");
        assert_eq!((path.as_str(), path.of("x")), ("spec.ports[2].name", "spec.ports[2].name.x".to_owned()));
        path.back(&ports);
        let long = path.field(&"ä".repeat(100_000));
        path.index(1);
        assert!(path.as_str().len() <= MAX_PATH);
        path.back(&long);
        path.entry("properties", "a.b");
        assert_eq!(path.as_str(), "spec.properties[a.b]");
    }

    #[test]
    fn values_are_shown_as_a_server_shows_them() {
        for (value, text) in [
            (json!("a\"b"), r#""a\"b""#),
            (json!(null), "\"null\""),
            (json!(3), "3"),
            (json!(2.0), "2"),
            (json!(0.5), "0.5"),
            (json!(true), "true"),
            (json!({"a": [1]}), r#"{"a":[1]}"#),
        ] {
            assert_eq!(shown(&value), text);
        }
        assert!(shown(&json!("ä".repeat(10_000))).len() < 3000);
    }

    #[test]
    fn a_list_of_causes_is_bounded_in_number_and_in_bytes() {
        let mut many = Causes::default();
        (0..1000).for_each(|_| many.add(Cause::required("a", "")));
        assert_eq!(many.into_vec().len(), MAX_CAUSES);
        let mut long = Causes::default();
        (0..1000).for_each(|_| long.add(Cause::required(&"a".repeat(10_000), "")));
        assert!(long.into_vec().len() < 10);
    }
}
