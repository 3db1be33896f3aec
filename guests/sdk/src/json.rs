//! [`Json`]: a JSON text as a tree that borrows from the text. Typed writes compare and change such trees, and the parts of
//! a descriptor are written with [`quoted`].
//!
//! Every component that writes typed objects has this code, 8 KB. With `serde_json::Value` in its place each type has a second
//! serializer and deserializer, those of values.
//!
//! Invariant: names have no escapes but those that [`quoted`] writes, so equal names are equal texts.

use std::borrow::Cow;

/// How deep a text may be nested; the same as in serde_json.
const DEPTH: usize = 128;

/// A JSON value.
#[derive(Debug, Clone)]
pub(crate) enum Json<'t> {
    /// A string with its quotes, a number, `true`, `false` or `null`, as the text has it.
    Scalar(Cow<'t, str>),
    /// A list.
    List(Vec<Self>),
    /// An object.
    Object(Fields<'t>),
}

impl<'t> Json<'t> {
    /// Reads a text; none if it is malformed, or nested too deeply. Scalars are not checked.
    pub(crate) fn parse(text: &'t str) -> Option<Self> {
        let mut parser = Parser { text, at: 0 };
        let value = parser.value(DEPTH)?;
        parser.peek().is_none().then_some(value)
    }

    /// A string.
    pub(crate) fn text(text: &str) -> Self {
        Self::Scalar(Cow::Owned(quoted(text)))
    }

    /// The value `null`.
    pub(crate) fn null() -> Self {
        Self::Scalar(Cow::Borrowed("null"))
    }

    /// Whether it is `null`.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Scalar(text) if text == "null")
    }

    /// Removes the fields of all objects that are `null`.
    pub(crate) fn remove_nulls(&mut self) {
        match self {
            Self::Scalar(_) => {}
            Self::List(elements) => elements.iter_mut().for_each(Self::remove_nulls),
            Self::Object(fields) => {
                fields.0.retain(|(_, value)| !value.is_null());
                fields.0.iter_mut().for_each(|(_, value)| value.remove_nulls());
            }
        }
    }

    /// The text, with sorted names and without spaces.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, to: &mut String) {
        match self {
            Self::Scalar(text) => to.push_str(text),
            Self::List(elements) => {
                for (at, element) in elements.iter().enumerate() {
                    to.push(if at == 0 { '[' } else { ',' });
                    element.write(to);
                }
                to.push_str(if elements.is_empty() { "[]" } else { "]" });
            }
            Self::Object(fields) => {
                for (at, (name, value)) in fields.0.iter().enumerate() {
                    to.push_str(if at == 0 { "{\"" } else { ",\"" });
                    to.push_str(name);
                    to.push_str("\":");
                    value.write(to);
                }
                to.push_str(if fields.0.is_empty() { "{}" } else { "}" });
            }
        }
    }
}

/// Strings are equal with any escapes, and numbers with any notation of a fraction: the API server writes `1.0` as `1`.
impl PartialEq for Json<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Scalar(one), Self::Scalar(other)) => {
                one == other || are_strings(one, other) || are_numbers(one, other)
            }
            (Self::List(one), Self::List(other)) => one == other,
            (Self::Object(one), Self::Object(other)) => one == other,
            _ => false,
        }
    }
}

/// Whether two texts are the same string with other escapes.
fn are_strings(one: &str, other: &str) -> bool {
    (one.contains('\\') || other.contains('\\'))
        && decoded(one).is_some_and(|one| Some(one) == decoded(other))
}

/// Whether two texts are the same number, and one is written with a fraction or an exponent.
fn are_numbers(one: &str, other: &str) -> bool {
    let is_fraction = |text: &str| !text.starts_with('"') && text.contains(['.', 'e', 'E']);
    let number = |text: &str| serde_json::from_slice::<f64>(text.as_bytes()).ok();
    (is_fraction(one) || is_fraction(other)) && number(one).is_some_and(|one| Some(one) == number(other))
}

/// The string of a text with quotes.
fn decoded(text: &str) -> Option<String> {
    serde_json::from_slice(text.as_bytes()).ok()
}

/// The fields of an object, sorted by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Fields<'t>(Vec<(Cow<'t, str>, Json<'t>)>);

impl<'t> Fields<'t> {
    /// All fields in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Cow<'t, str>, Json<'t>)> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Json<'t>> {
        let at = self.find(name).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Json<'t>> {
        let at = self.find(name).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    /// Sets a field, or replaces it.
    pub(crate) fn set(&mut self, name: impl Into<Cow<'t, str>>, value: Json<'t>) {
        self.set_cow(name.into(), value);
    }

    #[inline(never)]
    fn set_cow(&mut self, name: Cow<'t, str>, value: Json<'t>) {
        // Texts mostly have the names in their order.
        let at = match self.0.last() {
            Some((last, _)) if *last < name => Err(self.0.len()),
            _ => self.find(&name),
        };
        match at {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (name, value)),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Json<'t>> {
        self.find(name).ok().map(|at| self.0.remove(at).1)
    }

    /// Removes the fields whose names are not wanted.
    pub(crate) fn retain(&mut self, mut is_wanted: impl FnMut(&str) -> bool) {
        self.0.retain(|(name, _)| is_wanted(name));
    }

    /// The object in a field; a new one if the field is missing or has no object.
    pub(crate) fn object(&mut self, name: &'static str) -> &mut Self {
        if !matches!(self.get(name), Some(Json::Object(_))) {
            self.set(name, Json::Object(Self::default()));
        }
        match self.get_mut(name) {
            Some(Json::Object(fields)) => fields,
            _ => unreachable!(),
        }
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(name))
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at)? {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return Some(*byte),
            }
        }
    }

    /// Whether the next byte is this one, which is then passed.
    fn passes(&mut self, byte: u8) -> Option<bool> {
        let is_next = self.peek()? == byte;
        self.at += usize::from(is_next);
        Some(is_next)
    }

    fn value(&mut self, depth: usize) -> Option<Json<'t>> {
        let within = depth.checked_sub(1)?;
        if self.passes(b'{')? {
            let mut fields = Fields::default();
            while !self.ends(b'}', fields.is_empty())? {
                let name = self.name()?;
                if !self.passes(b':')? {
                    return None;
                }
                fields.set(name, self.value(within)?);
            }
            return Some(Json::Object(fields));
        }
        if self.passes(b'[')? {
            let mut elements = Vec::new();
            while !self.ends(b']', elements.is_empty())? {
                elements.push(self.value(within)?);
            }
            return Some(Json::List(elements));
        }
        let is_string = self.peek()? == b'"';
        let scalar = if is_string { self.string() } else { self.word() };
        scalar.map(|text| Json::Scalar(Cow::Borrowed(text)))
    }

    /// Whether an object or list ends here; passes the comma before its next part.
    fn ends(&mut self, end: u8, is_first: bool) -> Option<bool> {
        if self.passes(end)? {
            return Some(true);
        }
        (is_first || self.passes(b',')?).then_some(false)
    }

    fn name(&mut self) -> Option<Cow<'t, str>> {
        self.peek()?;
        let text = self.string()?;
        let name = text.strip_prefix('"')?.strip_suffix('"')?;
        if !name.contains('\\') {
            return Some(Cow::Borrowed(name));
        }
        let mut name = String::new();
        escape(&mut name, &decoded(text)?);
        Some(Cow::Owned(name))
    }

    /// A string with its quotes.
    fn string(&mut self) -> Option<&'t str> {
        let (bytes, start) = (self.text.as_bytes(), self.at);
        loop {
            self.at += 1;
            match bytes.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 1,
                _ => {}
            }
        }
        self.at += 1;
        self.text.get(start..self.at)
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Option<&'t str> {
        let start = self.at;
        let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b':' | b' ' | b'\n' | b'\r' | b'\t');
        while self.text.as_bytes().get(self.at).is_some_and(|byte| !ends(byte)) {
            self.at += 1;
        }
        self.text.get(start..self.at).filter(|text| !text.is_empty())
    }
}

/// A text as a JSON string, with its quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut json = String::new();
    quote(&mut json, text);
    json
}

/// Writes a JSON string with its quotes.
pub(crate) fn quote(json: &mut String, text: &str) {
    json.push('"');
    escape(json, text);
    json.push('"');
}

/// Writes a JSON string without its quotes.
fn escape(json: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                json.push('\\');
                json.push(letter);
            }
            '\u{0}'..='\u{1f}' => {
                let digit = |value: u32| char::from_digit(value, 16).unwrap_or('0');
                json.push_str("\\u00");
                json.push(digit(letter as u32 >> 4));
                json.push(digit(letter as u32 & 15));
            }
            letter => json.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn parse(text: &str) -> Json<'_> {
        Json::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn a_text_is_written_as_serde_json_writes_it() {
        for text in [
            r#" { "b" : [ 1 , -2.5e3, "x\n\"]}" , [ ] , { } ] , "a" : { "\u00e9\"" : null , "c" : true } } "#,
            r#"{"a":1,"b":2,"a":{"c":3}}"#,
            r#"["ü", "\ud83d\ude00\\"]"#,
            "7",
            "\"\"",
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            let written: Value = serde_json::from_str(&parse(text).to_text()).unwrap();
            assert_eq!(written, value, "{text}");
        }
        assert_eq!(parse(r#"{"b":[],"a":{}, "A\u0062":1}"#).to_text(), r#"{"Ab":1,"a":{},"b":[]}"#);
    }

    #[test]
    fn what_is_malformed_or_nested_too_deeply_is_none() {
        for text in [
            "",
            "{",
            "[",
            "[1",
            "[1,",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{1:2}",
            "\"a",
            "\"a\\",
            "1 2",
            "{\"a\" 1}",
            "[1 2]",
            ",",
            "]",
            "{,}",
            "[,]",
            "{\"a\":}",
        ] {
            assert_eq!(Json::parse(text), None, "{text}");
        }
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Json::parse(&nested(DEPTH)).is_some());
        assert!(Json::parse(&nested(DEPTH + 1)).is_none());
    }

    #[test]
    fn scalars_are_equal_with_other_escapes_and_fractions() {
        for (one, other) in [
            (r#""<a>""#, r#""\u003ca\u003e""#),
            (r#"{"a&b":"\n"}"#, r#"{"a\u0026b":"\u000a"}"#),
            ("1.0", "1"),
            ("1e+21", "1e21"),
        ] {
            assert_eq!(parse(one), parse(other));
        }
        for (one, other) in [
            ("1", "2"),
            ("1", "\"1\""),
            ("1.5", "\"1.5\""),
            ("true", "false"),
            (r#""\n""#, r#""n""#),
            ("null", "0.0"),
        ] {
            assert_ne!(parse(one), parse(other));
        }
    }

    #[test]
    fn fields_are_found_set_and_removed() {
        let text: String = (0..40).map(|n| format!(r#""{}":{n},"#, (n * 7) % 40)).collect();
        let text = format!("{{{text}\"7\":null}}");
        let Json::Object(mut fields) = parse(&text) else { panic!() };
        for n in 0..40 {
            let wanted = if (n * 7) % 40 == 7 { "null".to_owned() } else { n.to_string() };
            assert_eq!(fields.get(&((n * 7) % 40).to_string()).map(Json::to_text), Some(wanted));
        }
        fields.set("7", Json::text("x"));
        fields.object("new").set("a", Json::null());
        assert_eq!(fields.remove("39").map(|value| value.to_text()), Some("17".to_owned()));
        fields.retain(|name| name.len() > 1 && name != "38" || name == "7");
        assert_eq!((fields.iter().count(), fields.is_empty()), (30, false));
        let mut value = Json::Object(fields);
        value.remove_nulls();
        assert!(value.to_text().ends_with(r#""7":"x","new":{}}"#), "{}", value.to_text());
    }
}
