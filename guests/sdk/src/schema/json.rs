//! [`Json`]: a JSON value as a constant, and its text, which the compiler writes.

/// A JSON value as a constant. Invariant: [`Json::With`] is about objects only.
#[derive(Debug, Clone, Copy)]
pub enum Json {
    /// A JSON text.
    Raw(&'static str),
    /// A string.
    Text(&'static str),
    /// A list.
    List(&'static [Json]),
    /// An object.
    Object(&'static [(&'static str, Json)]),
    /// An object with further fields, which replace those of the same name.
    With(&'static Json, &'static [(&'static str, Json)]),
}

/// The text so far. With a length of zero nothing is stored, and the bytes are only counted.
struct Text<const LENGTH: usize> {
    bytes: [u8; LENGTH],
    length: usize,
}

/// Fields that replace those of the same name around them.
struct Replaced<'a> {
    fields: &'a [(&'a str, Json)],
    outer: Option<&'a Replaced<'a>>,
}

impl<const LENGTH: usize> Text<LENGTH> {
    const fn push(&mut self, byte: u8) {
        if self.length < LENGTH {
            self.bytes[self.length] = byte;
        }
        self.length += 1;
    }

    const fn raw(&mut self, text: &str) {
        let (bytes, mut at) = (text.as_bytes(), 0);
        while at < bytes.len() {
            self.push(bytes[at]);
            at += 1;
        }
    }

    const fn string(&mut self, text: &str) {
        let (bytes, mut at) = (text.as_bytes(), 0);
        self.push(b'"');
        while at < bytes.len() {
            match bytes[at] {
                b'"' => self.raw("\\\""),
                b'\\' => self.raw("\\\\"),
                b'\n' => self.raw("\\n"),
                byte if byte < 0x20 => self.raw(" "),
                byte => self.push(byte),
            }
            at += 1;
        }
        self.push(b'"');
    }

    const fn value(&mut self, json: &Json) {
        match json {
            Json::Raw(text) => self.raw(text),
            Json::Text(text) => self.string(text),
            Json::List(values) => {
                self.push(b'[');
                let mut at = 0;
                while at < values.len() {
                    if at > 0 {
                        self.push(b',');
                    }
                    self.value(&values[at]);
                    at += 1;
                }
                self.push(b']');
            }
            Json::Object(_) | Json::With(..) => {
                self.push(b'{');
                self.fields(json, None, true);
                self.push(b'}');
            }
        }
    }

    /// Writes the fields of an object that are not replaced; returns whether there was none so far.
    const fn fields(&mut self, json: &Json, replaced: Option<&Replaced<'_>>, mut is_first: bool) -> bool {
        let fields: &[(&str, Json)] = match json {
            Json::With(base, fields) => {
                is_first = self.fields(base, Some(&Replaced { fields, outer: replaced }), is_first);
                fields
            }
            Json::Object(fields) => fields,
            // The invariant of `Json`.
            Json::Raw(_) | Json::Text(_) | Json::List(_) => &[],
        };
        let mut at = 0;
        while at < fields.len() {
            let (name, value) = &fields[at];
            if !is_replaced(replaced, name) {
                if !is_first {
                    self.push(b',');
                }
                is_first = false;
                self.string(name);
                self.push(b':');
                self.value(value);
            }
            at += 1;
        }
        is_first
    }
}

const fn is_replaced(replaced: Option<&Replaced<'_>>, name: &str) -> bool {
    let Some(replaced) = replaced else { return false };
    let mut at = 0;
    while at < replaced.fields.len() {
        if is_equal(replaced.fields[at].0.as_bytes(), name.as_bytes()) {
            return true;
        }
        at += 1;
    }
    is_replaced(replaced.outer, name)
}

const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The length of the text of a value, with a line feed.
pub const fn length(json: &Json) -> usize {
    let mut text = Text { bytes: [], length: 0 };
    text.value(json);
    text.length + 1
}

/// The text of a value, with a line feed. `LENGTH` is that of [`length`].
pub const fn bytes<const LENGTH: usize>(json: &Json) -> [u8; LENGTH] {
    let mut text = Text { bytes: [0; LENGTH], length: 0 };
    text.value(json);
    text.push(b'\n');
    text.bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Json =
        Json::Object(&[("type", Json::Text("object")), ("description", Json::Text("a \"type\"\n"))]);
    const WHOLE: Json = Json::Object(&[
        (
            "a",
            Json::With(
                &Json::With(&BASE, &[("nullable", Json::Raw("true"))]),
                &[("description", Json::Text("é"))],
            ),
        ),
        ("b", Json::List(&[Json::Raw("1"), Json::Text("\\"), Json::Object(&[])])),
    ]);
    const LENGTH: usize = length(&WHOLE);
    static TEXT: [u8; LENGTH] = bytes(&WHOLE);

    #[test]
    fn the_compiler_writes_json() {
        let value: serde_json::Value = serde_json::from_slice(&TEXT).unwrap();
        assert_eq!(
            value,
            serde_json::json!({
                "a": {"type": "object", "nullable": true, "description": "é"},
                "b": [1, "\\", {}],
            })
        );
        assert_eq!(std::str::from_utf8(&TEXT).unwrap().matches("description").count(), 1);
        assert_eq!(TEXT.last(), Some(&b'\n'));
    }
}
