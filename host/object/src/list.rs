//! [`ListDecoder`]: decodes a list response incrementally and returns its objects one by one.
//!
//! A response may contain every object of a kind and be larger than memory. The decoder buffers only the incomplete
//! item, copies each item out of the response, and builds no JSON tree. The sender is trusted: items are validated as
//! [`Object::decode_trusted`] does it. The list client of `pilothouse-client` calls it.
//!
//! Invariants:
//! - the result (objects, metadata, or an error) does not depend on how the response is split into chunks;
//! - each byte is parsed about once: bytes are buffered before they are parsed, and an incomplete item is parsed again
//!   only after the buffer has doubled;
//! - the buffer holds at most [`ListDecoder::ITEM_LIMIT`] bytes plus one chunk of the response.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny};

use crate::decode::DecodeError;
use crate::default_kind::DefaultKind;
use crate::kind::Gvk;
use crate::object::Object;

/// Number of bytes to buffer before parsing: large enough that parsing the incomplete last item twice costs little in
/// comparison.
const GATHER: usize = 64 << 10;

/// The `metadata` of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The resource version of the whole list: a watch continues from it.
    pub resource_version: String,
    /// Token for the next page; empty on the last page.
    #[serde(rename = "continue")]
    pub continue_token: String,
    /// Number of items on the following pages, if the server reports it.
    pub remaining_item_count: Option<u64>,
}

/// Takes a list response in chunks and passes its items to a callback, in order, as soon as each is parsed.
#[derive(Debug)]
pub struct ListDecoder {
    kind: DefaultKind<'static>,
    /// Bytes that are not parsed yet, starting at a token.
    buffer: Vec<u8>,
    /// Minimum number of bytes to buffer before parsing.
    gather: usize,
    /// Length of the buffer at which it is parsed next.
    parse_at: usize,
    expects: Expects,
    seen_items: bool,
    meta: ListMeta,
}

/// The parser state: which token must come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expects {
    /// The `{` of the list.
    List,
    /// The first name, or the end of the list.
    FirstField,
    /// A name after a comma.
    Field,
    /// `:` and the value of a field.
    Value(ListField),
    /// A comma, or the end of the list.
    NextField,
    /// An item, or the end of the items.
    FirstItem,
    /// An item after a comma.
    Item,
    /// A comma, or the end of the items.
    NextItem,
    /// Only white space.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListField {
    Kind,
    Metadata,
    Items,
    Other,
}

impl ListDecoder {
    /// Maximum size in bytes of an item or another value of a list: 16 MiB, far above what an API server stores.
    pub const ITEM_LIMIT: usize = 16 << 20;

    /// A decoder for a list of `kind`. `apiVersion` and `kind` are added to items that lack them.
    #[must_use]
    pub fn new(kind: Gvk) -> Self {
        Self::gathering(kind, GATHER)
    }

    fn gathering(kind: Gvk, gather: usize) -> Self {
        Self {
            kind: DefaultKind::new(Cow::Owned(kind)),
            buffer: Vec::new(),
            gather,
            parse_at: gather,
            expects: Expects::List,
            seen_items: false,
            meta: ListMeta::default(),
        }
    }

    /// Takes the next chunk of the response. Completed items are passed to `item` in this call or in a later one.
    ///
    /// # Errors
    /// When the response is not JSON (fields of items as in [`Object::decode_trusted`]), an item is not an object or is
    /// longer than [`ITEM_LIMIT`](Self::ITEM_LIMIT), or the server answered with a `Table` or another kind that is not a
    /// list. Items before the error may have been passed to `item` already; the decoder must not be used any more.
    pub fn push(&mut self, piece: &[u8], item: &mut dyn FnMut(Object)) -> Result<(), DecodeError> {
        self.buffer.extend_from_slice(piece);
        if self.buffer.len() < self.parse_at {
            return Ok(());
        }
        self.parse(item)?;
        // The buffer must double before the next attempt, so a long item costs at most twice its length.
        self.parse_at = (2 * self.buffer.len()).clamp(self.gather, Self::ITEM_LIMIT + 1);
        Ok(())
    }

    /// Ends the response: passes the remaining items to `item` and returns the list's metadata.
    ///
    /// # Errors
    /// As [`push`](Self::push), and when the response is truncated or has no `items`.
    pub fn finish(mut self, item: &mut dyn FnMut(Object)) -> Result<ListMeta, DecodeError> {
        self.parse(item)?;
        if self.expects != Expects::Nothing || !self.buffer.trim_ascii().is_empty() {
            return Err(fault("the list ends in the middle"));
        }
        if !self.seen_items {
            return Err(fault("the list has no items"));
        }
        Ok(self.meta)
    }

    /// Consumes all complete tokens and values in the buffer.
    fn parse(&mut self, item: &mut dyn FnMut(Object)) -> Result<(), DecodeError> {
        let buffer = std::mem::take(&mut self.buffer);
        let mut rest = buffer.as_slice();
        loop {
            rest = rest.trim_ascii_start();
            let Some(used) = self.step(rest, item)? else { break };
            if used > Self::ITEM_LIMIT {
                return Err(too_long());
            }
            rest = &rest[used..];
        }
        if rest.len() > Self::ITEM_LIMIT {
            return Err(too_long());
        }
        let used = buffer.len() - rest.len();
        self.buffer = buffer;
        self.buffer.drain(..used);
        Ok(())
    }

    /// Consumes one token or value and returns its length; `None` when it is incomplete.
    fn step(&mut self, rest: &[u8], item: &mut dyn FnMut(Object)) -> Result<Option<usize>, DecodeError> {
        let Some(first) = rest.first() else { return Ok(None) };
        let (next, used) = match (self.expects, first) {
            (Expects::List, b'{') => (Expects::FirstField, 1),
            (Expects::FirstField | Expects::NextField, b'}') => (Expects::Nothing, 1),
            (Expects::NextField, b',') => (Expects::Field, 1),
            (Expects::FirstField | Expects::Field, b'"') => {
                let Some((name, used)) = value::<String>(rest)? else { return Ok(None) };
                let field = match name.as_str() {
                    "kind" => ListField::Kind,
                    "metadata" => ListField::Metadata,
                    "items" => ListField::Items,
                    _ => ListField::Other,
                };
                // The colon is consumed with the name, so that the next step begins at the value.
                let behind = rest[used..].trim_ascii_start();
                match behind.first() {
                    None => return Ok(None),
                    Some(b':') => (Expects::Value(field), rest.len() - behind.len() + 1),
                    Some(_) => return Err(fault("a field without a value")),
                }
            }
            (Expects::Value(ListField::Items), b'[') => {
                self.seen_items = true;
                (Expects::FirstItem, 1)
            }
            (Expects::Value(ListField::Items), _) => {
                // Go encodes a nil slice as null.
                let Some(((), used)) = value(rest)? else { return Ok(None) };
                self.seen_items = true;
                (Expects::NextField, used)
            }
            (Expects::Value(ListField::Kind), _) => {
                let Some((got, used)) = value::<String>(rest)? else { return Ok(None) };
                if !got.ends_with("List") {
                    return Err(DecodeError::WrongKind {
                        got,
                        want: format!("{}List", self.kind.type_meta().kind),
                    });
                }
                (Expects::NextField, used)
            }
            (Expects::Value(ListField::Metadata), _) => {
                let Some((meta, used)) = value(rest)? else { return Ok(None) };
                self.meta = meta;
                (Expects::NextField, used)
            }
            (Expects::Value(ListField::Other), _) => {
                let Some((IgnoredAny, used)) = value(rest)? else { return Ok(None) };
                (Expects::NextField, used)
            }
            (Expects::FirstItem | Expects::NextItem, b']') => (Expects::NextField, 1),
            (Expects::NextItem, b',') => (Expects::Item, 1),
            (Expects::FirstItem | Expects::Item, b'{') => {
                let Some((object, used)) = Object::decode_first(rest, &self.kind)? else { return Ok(None) };
                item(object);
                (Expects::NextItem, used)
            }
            _ => return Err(fault("this is not a list of objects")),
        };
        self.expects = next;
        Ok(Some(used))
    }
}

/// Parses the value at the start of `bytes` and returns it with its length; `None` when it may be incomplete.
fn value<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<Option<(T, usize)>, DecodeError> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<T>();
    match values.next() {
        None => Ok(None),
        // serde_json reports a number that is cut after its sign, point or exponent as invalid, not as incomplete.
        Some(Err(error)) if error.is_eof() || (error.is_syntax() && ends_in_number(bytes)) => Ok(None),
        Some(Err(error)) => Err(error.into()),
        Some(Ok(value)) => {
            let used = values.byte_offset();
            let closed = matches!(bytes[used - 1], b'}' | b']' | b'"');
            // A number at the end of the bytes may continue with another digit.
            Ok((closed || used < bytes.len()).then_some((value, used)))
        }
    }
}

fn ends_in_number(bytes: &[u8]) -> bool {
    matches!(bytes.last(), Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
}

fn too_long() -> DecodeError {
    fault(&format!(
        "an item of the list is longer than {} bytes, the most that is read",
        ListDecoder::ITEM_LIMIT
    ))
}

fn fault(message: &str) -> DecodeError {
    DecodeError::Json(serde_json::Error::custom(message))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The decoded items, and the metadata if the decoder accepted the list.
    fn decode(pieces: &[&[u8]], gather: usize) -> (Vec<String>, Option<ListMeta>) {
        let mut items = Vec::new();
        let mut decoder = ListDecoder::gathering(Gvk::new("", "v1", "Pod"), gather);
        let mut take = |object: Object| items.push(object.json().to_owned());
        let pushed = pieces.iter().try_for_each(|piece| decoder.push(piece, &mut take));
        let outcome = pushed.and_then(|()| decoder.finish(&mut take));
        (items, outcome.ok())
    }

    /// Texts that are lists, nearly lists, or anything.
    fn page() -> impl Strategy<Value = Vec<u8>> {
        let item = prop_oneof![
            8 => ("[a-c]{1,3}", ".{0,40}").prop_map(|(name, text)| {
                serde_json::json!({"metadata": {"name": name, "resourceVersion": "1"}, "spec": [text, 1.5e10, null]})
                    .to_string()
            }),
            2 => "[{}\\[\\]\":,a\\\\]{0,12}".prop_map(|spec| format!(r#"{{"metadata":{{"name":"h"}},"spec":{spec}}}"#)),
            1 => Just(r#"{"metadata":{}}"#.to_owned()),
            1 => Just("7".to_owned()),
        ];
        let field = prop_oneof![
            Just(r#""kind":"PodList""#.to_owned()),
            Just(r#""metadata":{"resourceVersion":"12","remainingItemCount":34}"#.to_owned()),
            prop::collection::vec(item, 0..30)
                .prop_map(|items| format!(r#""items" : [{}]"#, items.join(","))),
            Just(r#""items":null"#.to_owned()),
            Just(r#""n":-12.5e3 "#.to_owned()),
            Just(r#""kind":"Table""#.to_owned()),
        ];
        let list = prop::collection::vec(field, 0..5).prop_map(|fields| format!("{{{}}}", fields.join(",")));
        (list, any::<prop::sample::Index>(), prop::option::of(any::<u8>())).prop_map(|(list, at, byte)| {
            let mut bytes = list.into_bytes();
            if let Some(byte) = byte {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        })
    }

    proptest! {
        #[test]
        fn the_outcome_does_not_depend_on_where_the_answer_is_cut(
            page in page(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8), gather in 0_usize..400,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.index(page.len() + 1)).collect();
            cuts.extend([0, page.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &page[w[0]..w[1]]).collect();
            let bytes: Vec<&[u8]> = page.chunks(1).collect();
            let whole = decode(&[&page], GATHER);
            prop_assert_eq!(&whole, &decode(&pieces, gather));
            prop_assert_eq!(&whole, &decode(&pieces, 0));
            prop_assert_eq!(&whole, &decode(&bytes, 0));
        }
    }
}
