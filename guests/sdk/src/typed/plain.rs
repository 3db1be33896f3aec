//! [`Plain`]: a JSON value without fractions, as `metadata` has them. It is much less code than `serde_json::Value`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value of which fractions are not kept.
pub(super) enum Plain {
    Null,
    Bool(bool),
    Integer(i64),
    Text(String),
    List(Vec<Self>),
    /// The fields in their order.
    Object(Vec<(String, Self)>),
    /// A fraction, or an integer that is too large.
    Other,
}

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(PlainVisitor)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Plain;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_unit<E>(self) -> Result<Plain, E> {
        Ok(Plain::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Plain, E> {
        Ok(Plain::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Plain, E> {
        Ok(Plain::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Plain, E> {
        Ok(i64::try_from(value).map_or(Plain::Other, Plain::Integer))
    }

    fn visit_f64<E>(self, _value: f64) -> Result<Plain, E> {
        Ok(Plain::Other)
    }

    fn visit_str<E>(self, value: &str) -> Result<Plain, E> {
        Ok(Plain::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Plain, E> {
        Ok(Plain::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Plain, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = from.next_element()? {
            elements.push(element);
        }
        Ok(Plain::List(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Plain, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = from.next_entry()? {
            fields.push(field);
        }
        Ok(Plain::Object(fields))
    }
}
