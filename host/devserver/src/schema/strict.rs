//! Duplicate fields of a body, which a tree of values no longer shows.
//!
//! A visitor reads the JSON a second time and keeps only the names of the objects it is in. Its depth is that of the
//! parser, 128 levels; at most a hundred duplicates are named.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::causes::Path;

/// How many duplicates are named, as by a real server.
const MAX_NAMED: usize = 100;

/// The paths of fields that stand more than once in an object, each once. Malformed JSON has none: it is refused before.
pub(crate) fn duplicate_fields(json: &[u8]) -> Vec<String> {
    let mut found = Finder { path: Path::default(), duplicates: Vec::new() };
    // An error ends the walk; the caller has parsed the body and knows it.
    let _ = found.deserialize(&mut serde_json::Deserializer::from_slice(json));
    found.duplicates
}

struct Finder {
    path: Path,
    duplicates: Vec<String>,
}

impl<'de> DeserializeSeed<'de> for &mut Finder {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Finder {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names: HashSet<Name<'de>> = HashSet::new();
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let mark = self.path.field(&name.0);
            if !names.insert(name) {
                let path = self.path.as_str();
                if self.duplicates.len() < MAX_NAMED && !self.duplicates.iter().any(|known| known == path) {
                    self.duplicates.push(path.to_owned());
                }
            }
            map.next_value_seed(&mut *self)?;
            self.path.back(&mark);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut index = 0;
        loop {
            let mark = self.path.index(index);
            let more = list.next_element_seed(&mut *self)?.is_some();
            self.path.back(&mark);
            if !more {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A field's name, borrowed from the body if it has no escapes.
#[derive(PartialEq, Eq, Hash)]
struct Name<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;

        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the name of a field")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }

        deserializer.deserialize_str(NameVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_found_at_every_depth() {
        for (json, expected) in [
            (r#"{"a": 1, "b": 2}"#, &[][..]),
            (r#"{"a": 1, "a": 2, "a": 3}"#, &["a"]),
            (
                r#"{"spec": {"x": 1, "y": [{"n": 1, "n": 2}, {"n": 1}], "x": null}}"#,
                &["spec.y[0].n", "spec.x"],
            ),
            (r#"{"a": {"b": 1}, "a": {"b": 2}}"#, &["a"]),
            (r#"{"a": 1, "\u0061": 2}"#, &["a"]),
            (r#"{"a": 1, "a": 2"#, &["a"]),
            ("[[1.5, true, {}], -1, 1e400]", &[]),
            ("", &[]),
        ] {
            assert_eq!(duplicate_fields(json.as_bytes()), expected, "{json}");
        }
    }

    #[test]
    fn deep_bodies_and_many_duplicates_are_bounded() {
        let deep = "{\"a\":".repeat(100_000);
        assert!(duplicate_fields(deep.as_bytes()).is_empty());
        let many: String = (0..1000).map(|i| format!("\"f{i}\":0,\"f{i}\":1,")).collect();
        assert_eq!(duplicate_fields(format!("{{{many}\"z\":0}}").as_bytes()).len(), MAX_NAMED);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            duplicate_fields(&bytes);
        }
    }
}
