//! Reading single values out of JSON text without parsing the rest.
//!
//! [`get`] follows an RFC 6901 pointer; [`Pointer`] is the parsed form used by indexes, mappings and predicates, where
//! `[*]` stands for every element of an array (`/spec/containers/[*]/image`). A walk stops at the value it looks for:
//! what stands behind it is not scanned.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::decode::Text;

/// A JSON pointer whose steps may be `[*]`, every element of an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pointer {
    steps: Box<[Step]>,
}

/// One step of a [`Pointer`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Member(Box<str>),
    Each,
}

/// Pointers come from plugins, and code follows them step by step into each other: deeper ones than any object has are
/// refused.
const MOST_STEPS: usize = 64;

/// Why a text is not a pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a JSON pointer: {reason}")]
pub struct PointerError {
    text: String,
    reason: &'static str,
}

impl Pointer {
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Calls `found` with the JSON text of every value selected, in document order.
    pub fn select<'a>(&self, json: &'a str, mut found: impl FnMut(&'a str)) {
        walk(json, &self.steps, &mut found);
    }

    /// The first value selected.
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
                steps.push(Step::Member(member.into()));
            }
            if each {
                steps.push(Step::Each);
            }
        }
        Ok(Self { steps: steps.into() })
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            match step {
                Step::Member(name) => write!(f, "/{}", name.replace('~', "~0").replace('/', "~1"))?,
                Step::Each => f.write_str("/[*]")?,
            }
        }
        Ok(())
    }
}

/// The content of a JSON string; `None` for other values. Numbers and booleans are not strings.
#[must_use]
pub fn json_string(raw: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(raw).ok().map(|text| text.0)
}

/// Follows an RFC 6901 pointer.
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

fn walk<'a>(json: &'a str, steps: &[Step], found: &mut dyn FnMut(&'a str)) {
    match steps.split_first() {
        None => found(json),
        Some((Step::Member(name), rest)) => {
            if let Some(value) = step(json, name) {
                walk(value, rest, found);
            }
        }
        Some((Step::Each, rest)) => {
            if json.starts_with('[') {
                let mut visit = |_: usize, value: &'a str| {
                    walk(value, rest, found);
                    true
                };
                scan(json, Elements(&mut visit, PhantomData));
            }
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
        let mut result = None;
        let mut visit = |index: usize, value: &'a str| {
            if index == wanted {
                result = Some(value);
            }
            index != wanted
        };
        scan(json, Elements(&mut visit, PhantomData));
        return result;
    }
    member(json, token)
}

/// The JSON text of a member of an object.
pub(crate) fn member<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    if !json.starts_with('{') {
        return None;
    }
    let mut result = None;
    scan(json, Member { name, result: &mut result });
    result
}

/// Runs a visitor over `json`; its outcome is what the visitor stored, so leaving early is no error.
fn scan<'a>(json: &'a str, visitor: impl Visitor<'a, Value = ()>) {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let _ = deserializer.deserialize_any(visitor);
}

struct Member<'n, 'r, 'a> {
    name: &'n str,
    result: &'r mut Option<&'a str>,
}

impl<'a> Visitor<'a> for Member<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(found) = map.next_key_seed(NameIs(self.name))? {
            if found {
                *self.result = Some(map.next_value::<&'a RawValue>()?.get());
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Compares a member's name without keeping it.
struct NameIs<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for NameIs<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NameIs<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// Calls back for each element until the callback says stop.
struct Elements<'f, 'a, F: FnMut(usize, &'a str) -> bool>(&'f mut F, PhantomData<&'a str>);

impl<'a, F: FnMut(usize, &'a str) -> bool> Visitor<'a> for Elements<'_, 'a, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(value) = seq.next_element::<&'a RawValue>()? {
            if !(self.0)(index, value.get()) {
                return Ok(());
            }
            index += 1;
        }
        Ok(())
    }
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
