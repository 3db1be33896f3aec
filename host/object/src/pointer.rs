//! Reads single values from JSON text without parsing the rest.
//!
//! [`get`] follows an RFC 6901 pointer. [`Pointer`] is the parsed form that indexes, mappings and predicates use; in it
//! `[*]` selects every element of an array (`/spec/containers/[*]/image`). A walk skips earlier values by their closing
//! brackets and does not scan beyond the value that it looks for. The text must be valid JSON, as the text of an object
//! always is. For other text the result is unspecified, but the walk terminates.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::decode::JsonString;
use crate::walk::{each_element, each_member};

/// A JSON pointer (RFC 6901) in which the step `[*]` selects every element of an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pointer {
    steps: Box<[PointerStep]>,
}

/// One step of a [`Pointer`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum PointerStep {
    Member(Box<str>),
    Each,
}

/// Plugins supply pointers, and a walk recurses once per step: a pointer with more steps than any real object needs is
/// rejected.
const MOST_STEPS: usize = 64;

/// Why a text is not a pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a JSON pointer: {reason}")]
pub struct PointerError {
    text: String,
    reason: &'static str,
}

impl Pointer {
    /// The name of the field that every selected value is in; `None` for a pointer that begins with `[*]` or selects the
    /// whole object.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self.steps.first()? {
            PointerStep::Member(name) => Some(name),
            PointerStep::Each => None,
        }
    }

    pub(crate) fn steps(&self) -> &[PointerStep] {
        &self.steps
    }

    /// Calls `found` with the JSON text of every selected value, in document order.
    pub fn select<'a>(&self, json: &'a str, mut found: impl FnMut(&'a str)) {
        walk(json, &self.steps, &mut found);
    }

    /// The JSON text of the first selected value.
    #[must_use]
    pub fn first<'a>(&self, json: &'a str) -> Option<&'a str> {
        let mut first = None;
        walk(json, &self.steps, &mut |value| {
            first.get_or_insert(value);
        });
        first
    }
}

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, PointerError> {
        let error = |reason| PointerError { text: text.to_owned(), reason };
        let mut steps = Vec::new();
        if text.bytes().filter(|byte| matches!(byte, b'/' | b'[')).count() > MOST_STEPS {
            return Err(error("it has more than 64 steps"));
        }
        if text.is_empty() {
            return Ok(Self { steps: Box::default() });
        }
        let rest = text.strip_prefix('/').ok_or_else(|| error("it must begin with \"/\""))?;
        for token in rest.split('/') {
            let (member, each) = match token.strip_suffix("[*]") {
                Some(member) => (member, true),
                None => (token, false),
            };
            if !member.is_empty() || !each {
                let member = unescape(member).ok_or_else(|| error("\"~\" must be followed by 0 or 1"))?;
                steps.push(PointerStep::Member(member.into()));
            }
            if each {
                steps.push(PointerStep::Each);
            }
        }
        Ok(Self { steps: steps.into() })
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            match step {
                PointerStep::Member(name) => write!(f, "/{}", name.replace('~', "~0").replace('/', "~1"))?,
                PointerStep::Each => f.write_str("/[*]")?,
            }
        }
        Ok(())
    }
}

/// The unescaped content of a JSON string; `None` for a value of another type.
#[must_use]
pub fn json_string(raw: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<JsonString<'_>>(raw).ok().map(|text| text.0)
}

/// The JSON text at an RFC 6901 pointer.
pub(crate) fn get<'a>(json: &'a str, pointer: &str) -> Option<&'a str> {
    if pointer.is_empty() {
        return Some(json);
    }
    let mut value = json;
    for token in pointer.strip_prefix('/')?.split('/') {
        value = step(value, &unescape(token)?)?;
    }
    Some(value)
}

fn unescape(token: &str) -> Option<Cow<'_, str>> {
    if !token.contains('~') {
        return Some(Cow::Borrowed(token));
    }
    let mut out = String::with_capacity(token.len());
    let mut chars = token.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '~' => match chars.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            c => c,
        });
    }
    Some(Cow::Owned(out))
}

/// Calls `found` with the JSON text of every value that the steps select.
pub(crate) fn walk<'a>(json: &'a str, steps: &[PointerStep], found: &mut dyn FnMut(&'a str)) {
    match steps.split_first() {
        None => found(json),
        Some((PointerStep::Member(name), rest)) => {
            if let Some(value) = step(json, name) {
                walk(value, rest, found);
            }
        }
        Some((PointerStep::Each, rest)) => {
            // After a scan error the elements before it have been visited.
            let _ = each_element(json, |value| {
                walk(value, rest, found);
                true
            });
        }
    }
}

fn step<'a>(json: &'a str, token: &str) -> Option<&'a str> {
    if json.starts_with('[') {
        // RFC 6901: no sign, no leading zero.
        if token.starts_with('+') || (token.len() > 1 && token.starts_with('0')) {
            return None;
        }
        let wanted: usize = token.parse().ok()?;
        let (mut index, mut result) = (0, None);
        each_element(json, |value| {
            result = (index == wanted).then_some(value);
            index += 1;
            result.is_none()
        })
        .ok()?;
        return result;
    }
    member(json, token)
}

/// The JSON text of a member of an object.
pub(crate) fn member<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let mut value = None;
    each_member(json, |found, text| {
        value = found.is(name).then_some(text);
        value.is_none()
    })
    .ok()?;
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"metadata":{"labels":{"app.kubernetes.io/name":"x","a~b":"t"}},"spec":{"nodeName":"n1",
        "containers":[{"image":"a","ports":[1,2]},{"image":"b"},{"name":"no image"}]},"n":1}"#;

    fn all(pointer: &str) -> Vec<&'static str> {
        let mut out = Vec::new();
        pointer.parse::<Pointer>().unwrap().select(POD, |v| out.push(v));
        out
    }

    #[test]
    fn a_pointer_of_endless_steps_is_refused() {
        assert!("/a".repeat(64).parse::<Pointer>().is_ok());
        assert!("/a".repeat(65).parse::<Pointer>().unwrap_err().to_string().contains("64 steps"));
        assert!(format!("/a{}", "[*]".repeat(100_000)).parse::<Pointer>().is_err());
    }

    #[test]
    fn follows_members_and_indexes() {
        assert_eq!(get(POD, "/spec/nodeName"), Some("\"n1\""));
        assert_eq!(get(POD, "/spec/containers/1/image"), Some("\"b\""));
        assert_eq!(get(POD, "/metadata/labels/app.kubernetes.io~1name"), Some("\"x\""));
        assert_eq!(get(POD, "/metadata/labels/a~0b"), Some("\"t\""));
        assert_eq!(get(POD, ""), Some(POD));
        for absent in ["/spec/containers/01/image", "/spec/containers/9", "/no", "/n/x", "spec", "/a~2"] {
            assert_eq!(get(POD, absent), None, "{absent}");
        }
    }

    #[test]
    fn star_selects_every_element_that_has_the_rest() {
        assert_eq!(all("/spec/containers/[*]/image"), ["\"a\"", "\"b\""]);
        assert_eq!(all("/spec/containers[*]/image"), ["\"a\"", "\"b\""]);
        assert_eq!(all("/spec/containers/[*]/ports/[*]"), ["1", "2"]);
        assert_eq!(all("/spec/nodeName/[*]"), Vec::<&str>::new());
    }

    proptest::proptest! {
        #[test]
        fn a_walk_over_any_text_ends(text in "[\\[\\]{}\"\\\\,:0-9a-bé ]{0,90}") {
            for pointer in ["/a", "/0/a", "/a/1", "/[*]/a/[*]", "/b[*]"] {
                pointer.parse::<Pointer>().unwrap().select(&text, |_| ());
                let _ = get(&text, pointer);
            }
        }
    }

    #[test]
    fn malformed_pointers_are_refused_by_reason() {
        assert!("spec".parse::<Pointer>().unwrap_err().to_string().contains("begin with"));
        assert!("/a~2".parse::<Pointer>().unwrap_err().to_string().contains('~'));
    }

    #[test]
    fn prints_what_it_parsed() {
        for text in ["", "/a", "/a~1b/[*]/c~0"] {
            assert_eq!(text.parse::<Pointer>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn strings_are_unescaped_and_other_values_are_not_strings() {
        assert_eq!(json_string(r#""a\u0026b""#).as_deref(), Some("a&b"));
        assert_eq!(json_string("1"), None);
        assert_eq!(json_string("null"), None);
    }
}
