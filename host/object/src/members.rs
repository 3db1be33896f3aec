//! Reads flat JSON objects of strings, the form of labels and annotations: iterates over their [`members`], builds a
//! map, and hashes that map.
//!
//! Invariant: the input was validated as JSON when the object was decoded, so each string ends at its closing quote.
//! Callers: [`Labels`](crate::labels::Labels), objects for their annotations, and the packing of an object.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use foldhash::quality::RandomState;
use serde::Deserialize;

use crate::decode::JsonString;
use crate::scan::{JsonCursor, has_escapes, unescaped};

/// Calls `found` with the name and value of each member in document order, both still escaped, until it returns
/// `false`. Returns `None` when `found` returned `false`, when `json` is not an object, and when a value is not a
/// string.
pub(crate) fn members<'a>(json: &'a str, mut found: impl FnMut(&'a str, &'a str) -> bool) -> Option<()> {
    let mut cursor = JsonCursor::new(json.as_bytes());
    let mut member = cursor.first_member().ok()?;
    while let Some(name) = member {
        let value = json.get(cursor.value().ok()?)?.strip_prefix('"')?.strip_suffix('"')?;
        if !found(name.raw()?, value) {
            return None;
        }
        member = cursor.next_member().ok()?;
    }
    Some(())
}

/// Parses a map of strings; empty when the text is absent or is not a map of strings.
pub(crate) fn string_map(json: Option<&str>) -> BTreeMap<Cow<'_, str>, Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Map<'a>(#[serde(borrow)] BTreeMap<JsonString<'a>, JsonString<'a>>);
    let Some(json) = json else { return BTreeMap::new() };
    serde_json::from_str::<Map<'_>>(json)
        .map(|map| map.0.into_iter().map(|(k, v)| (k.0, v.0)).collect())
        .unwrap_or_default()
}

/// Hashes the map that a text encodes. Equal maps have equal hashes, whatever the order of members and the escapes. The
/// seed is random in each process, so nobody can prepare two maps whose hashes collide.
pub(crate) fn map_hash(json: Option<&str>) -> u64 {
    static SEED: OnceLock<RandomState> = OnceLock::new();
    let seed = SEED.get_or_init(RandomState::default);
    if let Some(hash) = json.and_then(|json| sorted_hash(json, seed)) {
        return hash;
    }
    let mut hasher = seed.build_hasher();
    string_map(json).iter().for_each(|(name, value)| add(&mut hasher, name, value));
    hasher.finish()
}

/// The hash of a map whose members are sorted by name, as the API server writes them, computed without building the
/// map. `None` for any other text.
fn sorted_hash(json: &str, seed: &RandomState) -> Option<u64> {
    let mut hasher = seed.build_hasher();
    let mut last = None;
    members(json, |name, value| {
        let in_order = last.replace(name).is_none_or(|last| last < name) && !has_escapes(name);
        let value = unescaped(value);
        if let Some(value) = &value {
            add(&mut hasher, name, value);
        }
        in_order && value.is_some()
    })?;
    Some(hasher.finish())
}

fn add(hasher: &mut impl Hasher, name: &str, value: &str) {
    for text in [name, value] {
        hasher.write(text.as_bytes());
        hasher.write_usize(text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_as_they_are_written() {
        let read = |json| {
            let mut found = Vec::new();
            members(json, |name, value| {
                found.push((name, value));
                true
            })
            .map(|()| found)
        };
        assert_eq!(
            read(r#" { "b" : "1" , "a\"\\":"{\"x\\\\\":\"," } "#),
            Some(vec![("b", "1"), (r#"a\"\\"#, r#"{\"x\\\\\":\","#)])
        );
        assert_eq!(read("{ }"), Some(vec![]));
        for other in ["null", "[]", r#""a""#, r#"{"a":1}"#, r#"{"a":"1","b":{}}"#, r#"{"a":["x"]}"#] {
            assert_eq!(read(other), None, "{other}");
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
