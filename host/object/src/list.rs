//! Splitting a list page into objects, item by item.
//!
//! Items are handed on as they are met, each copied out of the page, so that a page is never held because one of its
//! objects lives on, and no tree of the page is built.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::decode::DecodeError;
use crate::kind::Gvk;
use crate::object::Object;

/// `metadata` of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The version that the whole list shows.
    pub resource_version: String,
    /// Token for the next page; empty on the last.
    #[serde(rename = "continue")]
    pub continue_token: String,
    /// How many items follow, where the server says so.
    pub remaining_item_count: Option<u64>,
}

/// Decodes the items of a list page in order and hands each to `item`.
///
/// `kind` is the kind of the items; it is put into items that do not carry it.
///
/// # Errors
/// When the page is not JSON, an item is not an object, or the server answered with a `Table` or another kind that is
/// not a list. Items before the fault have been handed on by then.
pub fn decode_list(page: &[u8], kind: &Gvk, mut item: impl FnMut(Object)) -> Result<ListMeta, DecodeError> {
    let mut state = State { kind, item: &mut item, meta: ListMeta::default(), error: None };
    let mut deserializer = serde_json::Deserializer::from_slice(page);
    let outcome = deserializer.deserialize_map(PageVisitor(&mut state)).and_then(|()| deserializer.end());
    match (state.error, outcome) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(error.into()),
        (None, Ok(())) => Ok(state.meta),
    }
}

struct State<'s> {
    kind: &'s Gvk,
    item: &'s mut dyn FnMut(Object),
    meta: ListMeta,
    /// The typed reason behind the deserializer's own error.
    error: Option<DecodeError>,
}

struct PageVisitor<'v, 's>(&'v mut State<'s>);

impl<'de> Visitor<'de> for PageVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen_items = false;
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match name.as_ref() {
                "kind" => {
                    let got: String = map.next_value()?;
                    if !got.ends_with("List") {
                        let want = format!("{}List", self.0.kind.kind);
                        self.0.error = Some(DecodeError::WrongKind { got, want });
                        return Err(A::Error::custom("not a list"));
                    }
                }
                "metadata" => self.0.meta = map.next_value()?,
                "items" => {
                    seen_items = true;
                    map.next_value_seed(ItemsSeed(self.0))?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if seen_items { Ok(()) } else { Err(A::Error::missing_field("items")) }
    }
}

struct ItemsSeed<'v, 's>(&'v mut State<'s>);

impl<'de> DeserializeSeed<'de> for ItemsSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // Go writes an empty list of a nil slice as null.
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(raw) = seq.next_element::<&'de RawValue>()? {
            match Object::decode_str(raw.get(), self.0.kind) {
                Ok(object) => (self.0.item)(object),
                Err(error) => {
                    self.0.error = Some(error);
                    return Err(A::Error::custom("item"));
                }
            }
        }
        Ok(())
    }
}
