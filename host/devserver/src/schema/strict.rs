//! Duplicate fields of a body, which a tree of values no longer shows, and where unknown fields stand in it.
//!
//! A visitor reads the JSON a second time and keeps only the names of the objects it is in. Its depth is that of the
//! parser, 128 levels; at most a hundred duplicates are named.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::builtin::BuiltinTypes;
use super::causes::Path;
use super::types::{Entries, Kind, Type, TypeId, Types};

/// How many duplicates are named, as by a real server.
const MAX_NAMED: usize = 100;

/// The paths of fields that stand more than once in an object, each once. Malformed JSON has none: it is refused before.
pub(crate) fn duplicate_fields(json: &[u8]) -> Vec<String> {
    faults(json, BuiltinTypes::get().types(), None).into_iter().map(|(_, path)| path).collect()
}

/// What is wrong with the text of an object of a built-in kind, in the order of the text: duplicate and unknown fields, each
/// once. What is in an unknown field, or in one that is kept as it comes, is not looked at.
pub(crate) fn faults_of_text(json: &[u8], types: &Types, kind: TypeId) -> Vec<String> {
    let found = faults(json, types, Some(types.get(kind)));
    found.into_iter().map(|(what, path)| format!("{what} field \"{path}\"")).collect()
}

/// A fault and the path of its field.
type Fault = (&'static str, String);

fn faults(json: &[u8], types: &Types, value_type: Option<&Type>) -> Vec<Fault> {
    let mut found = Faults { types, path: Path::default(), known: HashSet::new(), faults: Vec::new() };
    let seed = Typed { faults: &mut found, value_type };
    // An error ends the walk; the caller has parsed the body and knows it.
    let _ = seed.deserialize(&mut serde_json::Deserializer::from_slice(json));
    found.faults
}

struct Faults<'a> {
    types: &'a Types,
    path: Path,
    known: HashSet<Fault>,
    faults: Vec<Fault>,
}

impl Faults<'_> {
    fn add(&mut self, what: &'static str) {
        if self.faults.len() < MAX_NAMED {
            let fault = (what, self.path.as_str().to_owned());
            if self.known.insert(fault.clone()) {
                self.faults.push(fault);
            }
        }
    }
}

/// Reads a value that should be of a type; of none if its place has none.
struct Typed<'f, 'a> {
    faults: &'f mut Faults<'a>,
    value_type: Option<&'a Type>,
}

impl<'de> DeserializeSeed<'de> for Typed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.value_type {
            Some(free) if free.kind == Kind::Any => {
                deserializer.deserialize_ignored_any(IgnoredAny).map(drop)
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Typed<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (faults, object_type) = (self.faults, self.value_type);
        let mut names: HashSet<Name<'de>> = HashSet::new();
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let mark = faults.path.field(&name.0);
            let field = object_type.map(|object_type| object_type.fields.get(&*name.0));
            let is_unknown = object_type.is_some_and(|t| t.entries == Entries::None && !t.preserves_unknown)
                && matches!(field, Some(None));
            if is_unknown {
                faults.add("unknown");
                map.next_value::<IgnoredAny>()?;
            } else {
                if !names.insert(name) {
                    faults.add("duplicate");
                }
                let entry = object_type.and_then(|t| match t.entries {
                    Entries::Of(entry) => Some(entry),
                    _ => None,
                });
                let value_type = field.flatten().map(|field| field.value_type).or(entry);
                let types = faults.types;
                map.next_value_seed(Typed {
                    faults: &mut *faults,
                    value_type: value_type.map(|id| types.get(id)),
                })?;
            }
            faults.path.back(&mark);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let faults = self.faults;
        let types = faults.types;
        let items = self.value_type.and_then(|list| list.items).map(|items| types.get(items));
        let mut index = 0;
        loop {
            let mark = faults.path.index(index);
            let more = list.next_element_seed(Typed { faults: &mut *faults, value_type: items })?.is_some();
            faults.path.back(&mark);
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

    #[test]
    fn faults_of_a_text_are_in_its_order() {
        let types = BuiltinTypes::get();
        let of = |kind: &str, json: &str| {
            let (version, kind) = kind.rsplit_once('/').unwrap();
            faults_of_text(json.as_bytes(), types.types(), types.of_kind(version, kind).unwrap())
        };
        let text = r#"{"z": {"b": 1, "b": 2}, "data": {"a": "1", "a": "2"}, "metadata": {"name": "n", "y": 1}, "z": 3, "b": 4}"#;
        let expected = [
            r#"unknown field "z""#,
            r#"duplicate field "data.a""#,
            r#"unknown field "metadata.y""#,
            r#"unknown field "b""#,
        ];
        assert_eq!(of("v1/ConfigMap", text), expected);
        let text = r#"{"data": {"a": 1, "a": 2}, "revision": 1, "revision": 2}"#;
        assert_eq!(of("apps/v1/ControllerRevision", text), [r#"duplicate field "revision""#]);
        let many: String = (0..1000).map(|i| format!("\"f{i}\":0,")).collect();
        assert_eq!(of("v1/Pod", &format!("{{{many}\"z\":0}}")).len(), MAX_NAMED);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            duplicate_fields(&bytes);
            let types = BuiltinTypes::get();
            faults_of_text(&bytes, types.types(), types.of_kind("v1", "Pod").unwrap());
        }
    }
}
