//! [`ListDecoder`]: the objects of a list answer, one by one, as its bytes come.
//!
//! An answer may hold every object of a kind and be larger than memory: only the item that is not complete yet is held,
//! each item is copied out of the answer, and no tree of it is built. The list client of `pilothouse-client` calls this.
//!
//! Invariants:
//! - what comes out (objects, metadata, whether it is refused) does not depend on where the answer was cut;
//! - each byte is parsed about once: bytes are gathered before they are parsed, and an item that is not complete is tried
//!   again only when as much again has come;
//! - the buffer holds at most [`ListDecoder::ITEM_LIMIT`] bytes and one piece of the answer more.

use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny};

use crate::decode::DecodeError;
use crate::kind::Gvk;
use crate::object::Object;

/// Bytes that are gathered before they are parsed: what an item begun at the end of them costs is small against them.
const GATHER: usize = 64 << 10;

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

/// Takes a list answer in pieces and hands on its items, in order, each as soon as it is parsed.
#[derive(Debug)]
pub struct ListDecoder {
    kind: Gvk,
    /// What has not been used: it begins at a token.
    buffer: Vec<u8>,
    /// Bytes to gather before they are parsed.
    gather: usize,
    /// How much must be in the buffer before it is parsed again.
    enough: usize,
    expects: Expects,
    seen_items: bool,
    meta: ListMeta,
}

/// What the next token must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expects {
    /// The list's `{`.
    List,
    /// The first name, or the end of the list.
    FirstField,
    /// A name behind a comma.
    Field,
    /// `:` and the value of a field.
    Value(Field),
    /// A comma, or the end of the list.
    NextField,
    /// An item, or the end of the items.
    FirstItem,
    /// An item behind a comma.
    Item,
    /// A comma, or the end of the items.
    NextItem,
    /// Nothing but space.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Kind,
    Metadata,
    Items,
    Other,
}

impl ListDecoder {
    /// Longest item, and longest other part of a list, that is taken: far above what any server stores.
    pub const ITEM_LIMIT: usize = 16 << 20;

    /// A decoder of a list of `kind`, which is put into items that do not carry it.
    #[must_use]
    pub fn new(kind: Gvk) -> Self {
        Self::gathering(kind, GATHER)
    }

    fn gathering(kind: Gvk, gather: usize) -> Self {
        Self {
            kind,
            buffer: Vec::new(),
            gather,
            enough: gather,
            expects: Expects::List,
            seen_items: false,
            meta: ListMeta::default(),
        }
    }

    /// Takes the next piece of the answer; items that it completes go to `item`, now or with a later piece.
    ///
    /// # Errors
    /// When the answer is not JSON, an item is not an object or longer than [`ITEM_LIMIT`](Self::ITEM_LIMIT), or the
    /// server answered with a `Table` or another kind that is not a list. Items before the fault may have been handed
    /// on by then; the decoder is of no use any more.
    pub fn push(&mut self, piece: &[u8], item: &mut dyn FnMut(Object)) -> Result<(), DecodeError> {
        self.buffer.extend_from_slice(piece);
        if self.buffer.len() < self.enough {
            return Ok(());
        }
        self.parse(item)?;
        // As much again: parsing a long item costs no more than twice its length altogether.
        self.enough = (2 * self.buffer.len()).clamp(self.gather, Self::ITEM_LIMIT + 1);
        Ok(())
    }

    /// The answer is complete: hands on the rest of the items, and gives the list's metadata.
    ///
    /// # Errors
    /// As [`push`](Self::push), and when the answer ends too soon or has no `items`.
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

    /// Uses up what is complete in the buffer.
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

    /// Uses one token or value; how long it was, `None` when it is not complete.
    fn step(&mut self, rest: &[u8], item: &mut dyn FnMut(Object)) -> Result<Option<usize>, DecodeError> {
        let Some(first) = rest.first() else { return Ok(None) };
        let (next, used) = match (self.expects, first) {
            (Expects::List, b'{') => (Expects::FirstField, 1),
            (Expects::FirstField | Expects::NextField, b'}') => (Expects::Nothing, 1),
            (Expects::NextField, b',') => (Expects::Field, 1),
            (Expects::FirstField | Expects::Field, b'"') => {
                let Some((name, used)) = value::<String>(rest)? else { return Ok(None) };
                let field = match name.as_str() {
                    "kind" => Field::Kind,
                    "metadata" => Field::Metadata,
                    "items" => Field::Items,
                    _ => Field::Other,
                };
                // The colon belongs to the name, so that a value begins at its first byte.
                let behind = rest[used..].trim_ascii_start();
                match behind.first() {
                    None => return Ok(None),
                    Some(b':') => (Expects::Value(field), rest.len() - behind.len() + 1),
                    Some(_) => return Err(fault("a field without a value")),
                }
            }
            (Expects::Value(Field::Items), b'[') => {
                self.seen_items = true;
                (Expects::FirstItem, 1)
            }
            (Expects::Value(Field::Items), _) => {
                // Go writes an empty list of a nil slice as null.
                let Some(((), used)) = value(rest)? else { return Ok(None) };
                self.seen_items = true;
                (Expects::NextField, used)
            }
            (Expects::Value(Field::Kind), _) => {
                let Some((got, used)) = value::<String>(rest)? else { return Ok(None) };
                if !got.ends_with("List") {
                    return Err(DecodeError::WrongKind { got, want: format!("{}List", self.kind.kind) });
                }
                (Expects::NextField, used)
            }
            (Expects::Value(Field::Metadata), _) => {
                let Some((meta, used)) = value(rest)? else { return Ok(None) };
                self.meta = meta;
                (Expects::NextField, used)
            }
            (Expects::Value(Field::Other), _) => {
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

/// The value that `bytes` begins with, and how long it is; `None` when it may go on behind them.
fn value<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<Option<(T, usize)>, DecodeError> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<T>();
    match values.next() {
        None => Ok(None),
        // A number that is cut behind its sign, point or exponent is called invalid, not incomplete.
        Some(Err(error)) if error.is_eof() || (error.is_syntax() && ends_in_number(bytes)) => Ok(None),
        Some(Err(error)) => Err(error.into()),
        Some(Ok(value)) => {
            let used = values.byte_offset();
            let closed = matches!(bytes[used - 1], b'}' | b']' | b'"');
            // Any number may have another digit.
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

    /// The items that were handed on, and the metadata if it was a list, from a decoder that parses that often.
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
            }),
            1 => Just(serde_json::json!({"metadata": {}})),
            1 => Just(serde_json::json!(7)),
        ];
        let field = prop_oneof![
            Just(r#""kind":"PodList""#.to_owned()),
            Just(r#""metadata":{"resourceVersion":"12","remainingItemCount":34}"#.to_owned()),
            prop::collection::vec(item, 0..30)
                .prop_map(|items| format!(r#""items" : {}"#, serde_json::to_string(&items).unwrap())),
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
