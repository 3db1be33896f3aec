//! Flat JSON objects of strings, as labels and annotations are: their [`members`], as a map, and a hash of that map.
//!
//! Invariant: what is read here was found to be JSON when the object was decoded, so strings end where their quotes do.
//! Used by [`Labels`](crate::labels::Labels), by objects for their annotations, and when an object is packed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use foldhash::quality::RandomState;
use serde::Deserialize;

use crate::decode::Text;

/// Name and value of each member in the order of the text, as they stand between their quotes; `None` for a value that
/// is no object, or has a member that is no string.
pub(crate) fn members(json: &str) -> Option<Vec<(&str, &str)>> {
    let mut found = Vec::new();
    let mut rest = after(json, '{')?;
    if after(rest, '}').is_some() {
        return Some(found);
    }
    loop {
        let (name, behind) = string(rest)?;
        let (value, behind) = string(after(behind, ':')?)?;
        found.push((name, value));
        match after(behind, ',') {
            Some(next) => rest = next,
            None => return after(behind, '}').map(|_| found),
        }
    }
}

/// What follows `sign`, which the text must begin with.
fn after(text: &str, sign: char) -> Option<&str> {
    text.trim_ascii_start().strip_prefix(sign)
}

/// The content of the string that the text begins with, and what follows it.
fn string(text: &str) -> Option<(&str, &str)> {
    let text = after(text, '"')?;
    let mut from = 0;
    loop {
        let end = from + text[from..].find('"')?;
        let escapes = text[..end].bytes().rev().take_while(|byte| *byte == b'\\').count();
        if escapes % 2 == 0 {
            return Some((&text[..end], &text[end + 1..]));
        }
        from = end + 1;
    }
}

/// The map that a text stands for; empty when it is absent, or not a map of strings.
pub(crate) fn string_map(json: Option<&str>) -> BTreeMap<Cow<'_, str>, Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Map<'a>(#[serde(borrow)] BTreeMap<Text<'a>, Text<'a>>);
    let Some(json) = json else { return BTreeMap::new() };
    serde_json::from_str::<Map<'_>>(json)
        .map(|map| map.0.into_iter().map(|(k, v)| (k.0, v.0)).collect())
        .unwrap_or_default()
}

/// A hash of the map that a text stands for: equal maps have equal hashes, however they are written. Seeded by process,
/// so that nobody can make two maps that collide.
pub(crate) fn map_hash(json: Option<&str>) -> u64 {
    static SEED: OnceLock<RandomState> = OnceLock::new();
    let mut hasher = SEED.get_or_init(RandomState::default).build_hasher();
    let mut add = |name: &str, value: &str| {
        for text in [name, value] {
            hasher.write(text.as_bytes());
            hasher.write_usize(text.len());
        }
    };
    match json.and_then(sorted) {
        Some(pairs) => pairs.iter().for_each(|(name, value)| add(name, value)),
        None => string_map(json).iter().for_each(|(name, value)| add(name, value)),
    }
    hasher.finish()
}

/// The pairs of a map that is written in the order of its names, as the API server does.
fn sorted(json: &str) -> Option<Vec<(&str, Cow<'_, str>)>> {
    let members = members(json)?;
    if !members.is_sorted_by(|(a, _), (b, _)| a < b) {
        return None;
    }
    let pair = |(name, value): (_, _)| (!has_escapes(name)).then_some((name, unescaped(value)?));
    members.into_iter().map(pair).collect()
}

pub(crate) fn has_escapes(content: &str) -> bool {
    content.as_bytes().contains(&b'\\')
}

fn unescaped(content: &str) -> Option<Cow<'_, str>> {
    if !has_escapes(content) {
        return Some(Cow::Borrowed(content));
    }
    serde_json::from_str(&["\"", content, "\""].concat()).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_as_they_are_written() {
        assert_eq!(members(r#" { "b" : "1" , "a\"\\":"{\"x\\\\\":\"," } "#), Some(vec![("b", "1"), (r#"a\"\\"#, r#"{\"x\\\\\":\","#)]));
        assert_eq!(members("{ }"), Some(vec![]));
        for other in ["null", "[]", r#""a""#, r#"{"a":1}"#, r#"{"a":"1","b":{}}"#, r#"{"a":["x"]}"#] {
            assert_eq!(members(other), None, "{other}");
        }
    }

    #[test]
    fn equal_maps_hash_alike_however_they_are_written() {
        let hash = |text| map_hash(Some(text));
        let one = hash(r#"{"a":"x&y","b":"2"}"#);
        for same in [
            r#"{"b":"2","a":"x&y"}"#,
            r#" { "a" : "x\u0026y" , "b":"2" } "#,
            r#"{"\u0061":"x&y","b":"2"}"#,
            r#"{"a":"x","a":"x&y","b":"2"}"#,
        ] {
            assert_eq!(hash(same), one, "{same}");
        }
        for other in [r#"{"a":"2","b":"x&y"}"#, r#"{"a":"x&y"}"#, r#"{"a":"x&yb","":"2"}"#, "{}"] {
            assert_ne!(hash(other), one, "{other}");
        }
        for none in [r#"{"a":1}"#, "{}", r#"{"a":"\ud800"}"#, "[]"] {
            assert_eq!(hash(none), map_hash(None), "{none}");
        }
    }
}
