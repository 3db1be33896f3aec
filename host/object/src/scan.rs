//! [`JsonCursor`]: walks over JSON text, validates it, and returns the byte ranges of values without building a tree.
//!
//! Decoding needs the ranges of about ten fields of an object and the proof that the rest is JSON; pointers need one
//! value. Both run for every object that the host receives, so this is hot code. [`JsonCursor::value`] accepts exactly
//! the texts that `serde_json` accepts as `IgnoredAny`, except that the caller must check the text for UTF-8. It does
//! not recurse, so it has no limit on nesting.
//!
//! Callers: `decode`, `walk` and `members`.

use std::borrow::Cow;
use std::ops::Range;

use crate::blocks::{BlockMasks, StringScanner, WIDTH, first_special};

/// Why a cursor stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanError {
    /// The text ends within a value.
    Incomplete,
    /// The text is not JSON.
    Invalid,
}

type Result<T> = std::result::Result<T, ScanError>;

/// A position in JSON text.
#[derive(Debug, Clone)]
pub(crate) struct JsonCursor<'a> {
    text: &'a [u8],
    at: usize,
}

/// The name of a member, still escaped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberName<'a> {
    raw: &'a [u8],
    escaped: bool,
    /// Offset of the opening quote.
    pub(crate) start: usize,
}

impl<'a> MemberName<'a> {
    /// The text between the quotes, still escaped; `None` when it is not UTF-8.
    pub(crate) fn raw(&self) -> Option<&'a str> {
        std::str::from_utf8(self.raw).ok()
    }

    /// Whether the unescaped name equals `name`.
    pub(crate) fn is(&self, name: &str) -> bool {
        if self.escaped { self.unescaped().as_deref() == Some(name) } else { self.raw == name.as_bytes() }
    }

    /// The unescaped name; `None` when an escape is invalid.
    pub(crate) fn unescaped(&self) -> Option<Cow<'a, str>> {
        let raw = self.raw()?;
        if self.escaped { unescaped(raw) } else { Some(Cow::Borrowed(raw)) }
    }
}

/// Unescapes the text between the quotes of a string; `None` when an escape is invalid.
pub(crate) fn unescaped(content: &str) -> Option<Cow<'_, str>> {
    if !has_escapes(content) {
        return Some(Cow::Borrowed(content));
    }
    serde_json::from_str(&["\"", content, "\""].concat()).ok().map(Cow::Owned)
}

/// Whether the text between the quotes of a string contains escapes.
pub(crate) fn has_escapes(content: &str) -> bool {
    content.as_bytes().contains(&b'\\')
}

impl<'a> JsonCursor<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Skips white space and returns the next byte without consuming it.
    pub(crate) fn peek(&mut self) -> Result<u8> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(ScanError::Incomplete),
            }
        }
    }

    /// The cursor's offset.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Whether a value is directly behind some text.
    pub(crate) fn is_behind(&self, value: &Range<usize>, before: &str) -> bool {
        self.text[..value.start].ends_with(before.as_bytes())
    }

    /// Validates a value, moves behind it, and returns its range.
    pub(crate) fn value(&mut self) -> Result<Range<usize>> {
        self.peek()?;
        let start = self.at;
        self.skip()?;
        Ok(start..self.at)
    }

    /// Moves behind a value and returns its range, without validating the content of arrays and objects: only the
    /// closing bracket is searched for. For values that were validated before or are discarded. Several times faster
    /// than [`value`](Self::value).
    pub(crate) fn closed_value(&mut self) -> Result<Range<usize>> {
        let (b'{' | b'[') = self.peek()? else { return self.value() };
        let start = self.at;
        let mut open = 0_u32;
        let mut strings = StringScanner::default();
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            let block = match rest.first_chunk() {
                Some(bytes) => BlockMasks::of(bytes),
                None => {
                    let mut bytes = [b' '; 64];
                    bytes[..rest.len()].copy_from_slice(rest);
                    BlockMasks::of(&bytes)
                }
            };
            let strings = strings.next(&block);
            if let Some(end) = close(&block, strings, &mut open) {
                self.at += end;
                return Ok(start..self.at);
            }
            self.at += 64;
        }
        Err(ScanError::Incomplete)
    }

    /// Enters an object and returns the name of its first member; `None` when the object is empty.
    pub(crate) fn first_member(&mut self) -> Result<Option<MemberName<'a>>> {
        self.token(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(None);
        }
        self.name().map(Some)
    }

    /// After the value of a member: returns the name of the next member; `None` at the end of the object.
    pub(crate) fn next_member(&mut self) -> Result<Option<MemberName<'a>>> {
        match self.peek()? {
            b',' => {
                self.at += 1;
                self.name().map(Some)
            }
            b'}' => {
                self.at += 1;
                Ok(None)
            }
            _ => Err(ScanError::Invalid),
        }
    }

    /// Enters an array; `false` when it is empty.
    pub(crate) fn first_element(&mut self) -> Result<bool> {
        self.token(b'[')?;
        let empty = self.peek()? == b']';
        self.at += usize::from(empty);
        Ok(!empty)
    }

    /// After an element: whether another one follows.
    pub(crate) fn next_element(&mut self) -> Result<bool> {
        let next = self.peek()?;
        self.at += 1;
        match next {
            b',' => Ok(true),
            b']' => Ok(false),
            _ => Err(ScanError::Invalid),
        }
    }

    fn token(&mut self, token: u8) -> Result<()> {
        if self.peek()? != token {
            return Err(ScanError::Invalid);
        }
        self.at += 1;
        Ok(())
    }

    fn name(&mut self) -> Result<MemberName<'a>> {
        if self.peek()? != b'"' {
            return Err(ScanError::Invalid);
        }
        let start = self.at;
        let escaped = self.string()?;
        let raw = &self.text[start + 1..self.at - 1];
        self.token(b':')?;
        Ok(MemberName { raw, escaped, start })
    }

    /// Validates the value at the cursor and moves behind it.
    fn skip(&mut self) -> Result<()> {
        let mut open = OpenBrackets::default();
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' => {
                    self.at += 1;
                    if self.peek()? != b'}' {
                        open.push(true);
                        self.name()?;
                        continue;
                    }
                    self.at += 1;
                }
                b'[' => {
                    self.at += 1;
                    if self.peek()? != b']' {
                        open.push(false);
                        continue;
                    }
                    self.at += 1;
                }
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                _ => return Err(ScanError::Invalid),
            }
            // The value is complete. It may also complete the arrays and objects around it.
            loop {
                let Some(in_object) = open.last() else { return Ok(()) };
                match self.peek()? {
                    b',' => {
                        self.at += 1;
                        if in_object {
                            self.name()?;
                        }
                        break;
                    }
                    b'}' if in_object => {}
                    b']' if !in_object => {}
                    _ => return Err(ScanError::Invalid),
                }
                self.at += 1;
                open.pop();
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<()> {
        let rest = &self.text[self.at..];
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        Err(if word.starts_with(rest) { ScanError::Incomplete } else { ScanError::Invalid })
    }

    /// Moves behind a number. A number that ends with the text may be incomplete; the caller must decide that.
    fn number(&mut self) -> Result<()> {
        if self.text[self.at] == b'-' {
            self.at += 1;
        }
        match self.text.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            Some(_) => return Err(ScanError::Invalid),
            None => return Err(ScanError::Incomplete),
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        // Digits after a leading zero.
        match self.text.get(self.at) {
            Some(b'0'..=b'9') => Err(ScanError::Invalid),
            _ => Ok(()),
        }
    }

    /// Moves behind one or more digits.
    fn digits(&mut self) -> Result<()> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        match (digits, self.text.get(self.at)) {
            (0, None) => Err(ScanError::Incomplete),
            (0, Some(_)) => Err(ScanError::Invalid),
            _ => Ok(()),
        }
    }

    /// Moves behind the string whose opening quote is at the cursor; returns whether it contains escapes.
    fn string(&mut self) -> Result<bool> {
        self.at += 1;
        let mut escaped = false;
        loop {
            while let Some(bytes) = self.text[self.at..].first_chunk() {
                let special = first_special(bytes);
                self.at += special;
                if special < WIDTH {
                    break;
                }
            }
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(0..0x20) => return Err(ScanError::Invalid),
                // Fewer bytes than one vector remain.
                Some(_) => self.at += 1,
                None => return Err(ScanError::Incomplete),
            }
        }
    }

    fn escape(&mut self) -> Result<()> {
        self.at += 1;
        match self.text.get(self.at) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let digits = self.text[self.at + 1..].iter().take(4);
                if !digits.clone().all(u8::is_ascii_hexdigit) {
                    return Err(ScanError::Invalid);
                }
                if digits.count() < 4 {
                    return Err(ScanError::Incomplete);
                }
                self.at += 5;
            }
            Some(_) => return Err(ScanError::Invalid),
            None => return Err(ScanError::Incomplete),
        }
        Ok(())
    }
}

/// Counts the brackets of a block that are outside strings. Returns the length up to and including the bracket that
/// closes the outermost value; `None` when the block does not contain it.
fn close(block: &BlockMasks, strings: u64, open: &mut u32) -> Option<usize> {
    let (opening, closing) = (block.opening & !strings, block.closing & !strings);
    let closed = closing.count_ones();
    // Too few closing brackets in this block, in whatever order they come.
    if *open > closed {
        *open = *open + opening.count_ones() - closed;
        return None;
    }
    let mut brackets = opening | closing;
    while brackets != 0 {
        let bracket = brackets & brackets.wrapping_neg();
        if opening & bracket != 0 {
            *open += 1;
        } else {
            *open = open.saturating_sub(1);
            if *open == 0 {
                return Some(bracket.trailing_zeros() as usize + 1);
            }
        }
        brackets ^= bracket;
    }
    None
}

/// A stack of the open arrays and objects, one bit each: 1 for an object.
#[derive(Default)]
struct OpenBrackets {
    /// The innermost 64 levels; the innermost is the lowest bit.
    inner: u64,
    depth: usize,
    outer: Vec<u64>,
}

impl OpenBrackets {
    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.inner);
        }
        self.inner = self.inner << 1 | u64::from(object);
        self.depth += 1;
    }

    /// Whether the innermost level is an object; `None` when the stack is empty.
    fn last(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.inner & 1 == 1)
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.inner >>= 1;
        if self.depth.is_multiple_of(64)
            && let Some(outer) = self.outer.pop()
        {
            self.inner = outer;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    fn whole(text: &[u8]) -> Result<usize> {
        let mut cursor = JsonCursor::new(text);
        let value = cursor.value()?;
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = text.get(cursor.at) {
            cursor.at += 1;
        }
        if cursor.at < text.len() { Err(ScanError::Invalid) } else { Ok(value.end) }
    }

    /// What serde_json makes of the same text when it ignores the value.
    fn reference(text: &[u8]) -> std::result::Result<(), serde_json::error::Category> {
        serde_json::from_slice::<IgnoredAny>(text).map(drop).map_err(|error| error.classify())
    }

    fn check(text: &[u8]) {
        let ours = whole(text);
        let theirs = reference(text);
        assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?}: {ours:?}, {theirs:?}", String::from_utf8_lossy(text));
    }

    #[test]
    fn every_cut_of_a_value_is_incomplete() {
        let text = br#"{"a\u00e9":[1.5e-3,{"b":"x\n"},[],{},true,false,null,"","0123456789"],"c":{"d":-0}}"#;
        assert_eq!(whole(text), Ok(text.len()));
        for cut in 0..text.len() {
            assert_eq!(whole(&text[..cut]), Err(ScanError::Incomplete), "{cut}");
        }
    }

    #[test]
    fn what_is_not_json_is_invalid() {
        for text in [
            "}",
            "[}",
            "{]",
            "{1:2}",
            "{\"a\" 1}",
            "[1 2]",
            "[,]",
            "[1,]",
            "{\"a\":1,}",
            "01",
            "1.",
            "1.e",
            "-",
            "+1",
            "\"\\x\"",
            "\"\\u12g4\"",
            "tru",
            "nul1",
            "\"\u{1}\"",
            "1 1",
            "",
            " ",
            "00",
            "1e",
            "-01",
            "[\"a]",
            "[1.]",
            "[1e+]",
            "[1.e5]",
            "[-]",
        ] {
            assert!(whole(text.as_bytes()).is_err(), "{text}");
            check(text.as_bytes());
        }
    }

    #[test]
    fn no_depth_is_too_much() {
        for depth in [1, 63, 64, 65, 127, 128, 129, 1000, 100_000] {
            let text = ["[", r#"{"a":"#].concat().repeat(depth) + "1" + &"}]".repeat(depth);
            assert_eq!(whole(text.as_bytes()), Ok(text.len()));
            assert_eq!(whole(text.replacen("1}", "1]", 1).as_bytes()), Err(ScanError::Invalid));
            assert_eq!(whole((text + "]").as_bytes()), Err(ScanError::Invalid));
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            "\\PC{0,30}".prop_map(Into::into),
            "[a-z\"\\\\\n\u{7f}]{0,30}".prop_map(Into::into),
        ];
        leaf.prop_recursive(6, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::btree_map("[a-z\"\\\\]{0,12}", inner, 0..6)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn takes_what_serde_json_takes(value in json(), pretty: bool, at: prop::sample::Index, byte in prop::option::of("[-\\[\\]{}\",:0-9a-z\\\\ \n]")) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            prop_assert!(whole(text.as_bytes()).is_ok());
            let mut bytes = text.into_bytes();
            if let Some(byte) = byte {
                let at = at.index(bytes.len());
                bytes[at] = byte.as_bytes()[0];
                // What is cut in two by it is not UTF-8 any more, which is not ours to find.
                if std::str::from_utf8(&bytes).is_ok() {
                    check(&bytes);
                }
            }
        }

        #[test]
        fn going_over_a_closed_value_ends_where_reading_it_ends(value in json(), pretty: bool, rest in "[\\[\\]{}\",:0-9a-z ]{0,80}", cut: prop::sample::Index) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let whole = format!("{text} {rest}");
            let mut cursor = JsonCursor::new(whole.as_bytes());
            prop_assert_eq!(cursor.closed_value(), Ok(0..text.len()));
            if text.starts_with(['{', '[']) {
                let cut = &text.as_bytes()[..cut.index(text.len())];
                prop_assert_eq!(JsonCursor::new(cut).closed_value(), Err(ScanError::Incomplete));
            }
        }
    }
}
