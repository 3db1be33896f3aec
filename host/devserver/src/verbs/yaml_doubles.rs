//! Keys that are in a YAML document twice, and on which lines.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;
use serde_saphyr::options::DuplicateKeyPolicy;

/// How many are named.
const MOST: usize = 100;

/// What is said of each key of a mapping that was there before, in the order of the document; nothing of a document that
/// cannot be read.
pub(super) fn yaml_doubles(mut text: &[u8]) -> Vec<String> {
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::PassThrough };
    let first = serde_saphyr::read_with_options::<_, Doubles>(&mut text, options).next();
    first.and_then(Result::ok).map(|doubles| doubles.0).unwrap_or_default()
}

/// The doubles in a value and below it.
struct Doubles(Vec<String>);

impl<'de> Deserialize<'de> for Doubles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Walk)
    }
}

struct Walk;

impl<'de> Visitor<'de> for Walk {
    type Value = Doubles;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Doubles, A::Error> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let line = key.referenced.line();
            if !seen.insert(key.value.clone()) && found.len() < MOST {
                found.push(format!("line {line}: key {} already set in map", Value::from(key.value)));
            }
            let Doubles(below) = map.next_value()?;
            found.extend(below);
            found.truncate(MOST);
        }
        Ok(Doubles(found))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Doubles, A::Error> {
        let mut found = Vec::new();
        while let Some(Doubles(below)) = list.next_element()? {
            found.extend(below);
            found.truncate(MOST);
        }
        Ok(Doubles(found))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Doubles, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Doubles, E> {
        Ok(Doubles(Vec::new()))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Doubles, E> {
        Ok(Doubles(Vec::new()))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Doubles, E> {
        Ok(Doubles(Vec::new()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Doubles, E> {
        Ok(Doubles(Vec::new()))
    }

    fn visit_str<E>(self, _: &str) -> Result<Doubles, E> {
        Ok(Doubles(Vec::new()))
    }

    fn visit_unit<E>(self) -> Result<Doubles, E> {
        Ok(Doubles(Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_double_has_its_line() {
        let text = "a: 1\nb:\n  c: [{d: 1, d: 2}]\n  c: x\na: null\n";
        let expected = ["line 3: key \"d\"", "line 4: key \"c\"", "line 5: key \"a\""];
        assert_eq!(
            yaml_doubles(text.as_bytes()),
            expected.map(|start| format!("{start} already set in map"))
        );
        assert!(yaml_doubles(br#"{"a": {"b": 1}, "c": [1, true, 1.5, "x"]}"#).is_empty());
        assert!(yaml_doubles(b"a: [").is_empty());
    }
}
