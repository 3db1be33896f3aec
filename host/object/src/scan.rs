//! [`Cursor`]: walks over JSON text, checks it, and finds where values stand, without building anything.
//!
//! Decoding needs to know where some ten fields of an object stand, and that the rest is JSON; pointers need one value.
//! Both are read from every object that comes, so this is among the most used code of the host. [`Cursor::value`] accepts
//! exactly what `serde_json` accepts when it ignores a value, save that text must be checked for UTF-8 by the caller, and
//! works without recursion, so that no depth is too much.
//!
//! Called by `decode`, `pointer` and `members`.

use std::borrow::Cow;
use std::ops::Range;

use crate::blocks::{Block, Strings, WIDTH, first_special};

/// Why a cursor cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The text ends within a value.
    Incomplete,
    /// This is not JSON.
    Invalid,
}

type Result<T> = std::result::Result<T, Fault>;

/// A place in JSON text.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

/// The name of a member, as it is written between its quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name<'a> {
    raw: &'a [u8],
    escaped: bool,
    /// Where its opening quote stands.
    pub(crate) start: usize,
}

impl<'a> Name<'a> {
    /// The text between the quotes.
    pub(crate) fn raw(&self) -> Option<&'a str> {
        std::str::from_utf8(self.raw).ok()
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        if self.escaped { self.unescaped().as_deref() == Some(name) } else { self.raw == name.as_bytes() }
    }

    /// The text; `None` when its escapes mean none.
    pub(crate) fn unescaped(&self) -> Option<Cow<'a, str>> {
        let raw = self.raw()?;
        if self.escaped { unescaped(raw) } else { Some(Cow::Borrowed(raw)) }
    }
}

/// What stands between the quotes of a string, read; `None` when its escapes mean no text.
pub(crate) fn unescaped(content: &str) -> Option<Cow<'_, str>> {
    if !has_escapes(content) {
        return Some(Cow::Borrowed(content));
    }
    serde_json::from_str(&["\"", content, "\""].concat()).ok().map(Cow::Owned)
}

/// Whether what stands between the quotes of a string is not the text itself.
pub(crate) fn has_escapes(content: &str) -> bool {
    content.as_bytes().contains(&b'\\')
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The next byte that is no space, which stays to be read.
    pub(crate) fn peek(&mut self) -> Result<u8> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(Fault::Incomplete),
            }
        }
    }

    /// Where it stands.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Goes over a value; where that stands.
    pub(crate) fn value(&mut self) -> Result<Range<usize>> {
        self.peek()?;
        let start = self.at;
        self.skip()?;
        Ok(start..self.at)
    }

    /// Goes over a value whose form does not matter, because it was checked before or is thrown away: several times faster
    /// than [`value`](Self::value). Of arrays and objects only the end is looked for.
    pub(crate) fn closed_value(&mut self) -> Result<Range<usize>> {
        let (b'{' | b'[') = self.peek()? else { return self.value() };
        let start = self.at;
        let mut open = 0_u32;
        let mut strings = Strings::default();
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            let block = match rest.first_chunk() {
                Some(bytes) => Block::of(bytes),
                None => {
                    let mut bytes = [b' '; 64];
                    bytes[..rest.len()].copy_from_slice(rest);
                    Block::of(&bytes)
                }
            };
            let strings = strings.next(&block);
            if let Some(end) = close(&block, strings, &mut open) {
                self.at += end;
                return Ok(start..self.at);
            }
            self.at += 64;
        }
        Err(Fault::Incomplete)
    }

    /// Steps into an object: the name of its first member, if it has one.
    pub(crate) fn first_member(&mut self) -> Result<Option<Name<'a>>> {
        self.token(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(None);
        }
        self.name().map(Some)
    }

    /// Behind the value of a member: the name of the next one, if there is one.
    pub(crate) fn next_member(&mut self) -> Result<Option<Name<'a>>> {
        match self.peek()? {
            b',' => {
                self.at += 1;
                self.name().map(Some)
            }
            b'}' => {
                self.at += 1;
                Ok(None)
            }
            _ => Err(Fault::Invalid),
        }
    }

    /// Steps into an array; whether it has a first element.
    pub(crate) fn first_element(&mut self) -> Result<bool> {
        self.token(b'[')?;
        let empty = self.peek()? == b']';
        self.at += usize::from(empty);
        Ok(!empty)
    }

    /// Behind an element: whether there is another one.
    pub(crate) fn next_element(&mut self) -> Result<bool> {
        let next = self.peek()?;
        self.at += 1;
        match next {
            b',' => Ok(true),
            b']' => Ok(false),
            _ => Err(Fault::Invalid),
        }
    }

    fn token(&mut self, token: u8) -> Result<()> {
        if self.peek()? != token {
            return Err(Fault::Invalid);
        }
        self.at += 1;
        Ok(())
    }

    fn name(&mut self) -> Result<Name<'a>> {
        if self.peek()? != b'"' {
            return Err(Fault::Invalid);
        }
        let start = self.at;
        let escaped = self.string()?;
        let raw = &self.text[start + 1..self.at - 1];
        self.token(b':')?;
        Ok(Name { raw, escaped, start })
    }

    /// Goes over a value that begins here.
    fn skip(&mut self) -> Result<()> {
        let mut open = Open::default();
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
                _ => return Err(Fault::Invalid),
            }
            // A value has ended, and perhaps what it was the last of.
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
                    _ => return Err(Fault::Invalid),
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
        Err(if word.starts_with(rest) { Fault::Incomplete } else { Fault::Invalid })
    }

    /// Goes over a number. One that ends with the text may go on behind it: that is the caller's to judge.
    fn number(&mut self) -> Result<()> {
        if self.text[self.at] == b'-' {
            self.at += 1;
        }
        match self.text.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            Some(_) => return Err(Fault::Invalid),
            None => return Err(Fault::Incomplete),
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
        // As behind a leading zero.
        match self.text.get(self.at) {
            Some(b'0'..=b'9') => Err(Fault::Invalid),
            _ => Ok(()),
        }
    }

    /// At least one digit.
    fn digits(&mut self) -> Result<()> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        match (digits, self.text.get(self.at)) {
            (0, None) => Err(Fault::Incomplete),
            (0, Some(_)) => Err(Fault::Invalid),
            _ => Ok(()),
        }
    }

    /// Goes over the string whose opening quote is here; whether it has escapes.
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
                Some(0..0x20) => return Err(Fault::Invalid),
                // Within the last bytes of the text.
                Some(_) => self.at += 1,
                None => return Err(Fault::Incomplete),
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
                    return Err(Fault::Invalid);
                }
                if digits.count() < 4 {
                    return Err(Fault::Incomplete);
                }
                self.at += 5;
            }
            Some(_) => return Err(Fault::Invalid),
            None => return Err(Fault::Incomplete),
        }
        Ok(())
    }
}

/// Counts the brackets of a block that stand outside of strings; how many bytes it takes to where none is open any more.
fn close(block: &Block, strings: u64, open: &mut u32) -> Option<usize> {
    let (opening, closing) = (block.opening & !strings, block.closing & !strings);
    let closed = closing.count_ones();
    // Not in this block, whatever the order.
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

/// The arrays and objects that are open, one bit each.
#[derive(Default)]
struct Open {
    /// The innermost and those around it, the innermost lowest.
    inner: u64,
    depth: usize,
    outer: Vec<u64>,
}

impl Open {
    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.inner);
        }
        self.inner = self.inner << 1 | u64::from(object);
        self.depth += 1;
    }

    /// Whether the innermost is an object; `None` when none is open.
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
        let mut cursor = Cursor::new(text);
        let value = cursor.value()?;
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = text.get(cursor.at) {
            cursor.at += 1;
        }
        if cursor.at < text.len() { Err(Fault::Invalid) } else { Ok(value.end) }
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
            assert_eq!(whole(&text[..cut]), Err(Fault::Incomplete), "{cut}");
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
            assert_eq!(whole(text.replacen("1}", "1]", 1).as_bytes()), Err(Fault::Invalid));
            assert_eq!(whole((text + "]").as_bytes()), Err(Fault::Invalid));
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
            let mut cursor = Cursor::new(whole.as_bytes());
            prop_assert_eq!(cursor.closed_value(), Ok(0..text.len()));
            if text.starts_with(['{', '[']) {
                let cut = &text.as_bytes()[..cut.index(text.len())];
                prop_assert_eq!(Cursor::new(cut).closed_value(), Err(Fault::Incomplete));
            }
        }
    }
}
