//! [`Dictionary`]: the known values, found in any text in the forms in which programs write them: as they are, escaped as JSON or
//! in a URL, in hexadecimal, and inside of base64 at any offset.

use std::borrow::Cow;
use std::collections::HashMap;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, Input, MatchKind};
use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{
    GeneralPurpose, GeneralPurposeConfig, STANDARD_NO_PAD, URL_SAFE_NO_PAD,
};
use parking_lot::Mutex;

/// Values of fewer bytes are not looked for: they stand in texts anyway.
pub(super) const SHORTEST: usize = 6;

/// Values of more bytes are not looked for, as releases of Helm: nobody writes them into a log line.
pub(super) const LONGEST: usize = 16 << 10;

/// Values of more bytes are looked for in fewer forms.
const SHORT: usize = 256;

/// Values and replacements, and what finds them.
#[derive(Default)]
pub(super) struct Dictionary {
    known: HashMap<Vec<u8>, String>,
    bytes: usize,
    /// Made again when a search finds that values were added.
    finder: Mutex<Option<Finder>>,
}

struct Finder {
    automaton: AhoCorasick,
    forms: Vec<Form>,
}

/// What a found text is.
enum Form {
    /// It becomes this text.
    Text(String),
    /// The inner characters of base64 of a value that begins at this byte of a group of three.
    Base64 { offset: usize, is_url: bool, value: Vec<u8>, token: String },
}

impl Dictionary {
    /// How many values there are, and their bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.known.len(), self.bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The replacement of a value.
    pub(super) fn get(&self, value: &[u8]) -> Option<&str> {
        self.known.get(value).map(String::as_str)
    }

    /// Adds a value that is to be looked for.
    pub(super) fn add(&mut self, value: &[u8], token: String) {
        self.bytes += value.len();
        self.known.insert(value.to_vec(), token);
        *self.finder.get_mut() = None;
    }

    /// The text with tokens in place of the values; none if it has none.
    pub(super) fn replace(&self, text: &[u8]) -> Option<Vec<u8>> {
        if self.known.is_empty() || text.len() < SHORTEST {
            return None;
        }
        let mut finder = self.finder.lock();
        finder.get_or_insert_with(|| Finder::new(&self.known)).replace(text)
    }
}

impl Finder {
    fn new(known: &HashMap<Vec<u8>, String>) -> Self {
        let mut found: HashMap<Vec<u8>, Form> = HashMap::new();
        for (value, token) in known {
            for (text, form) in forms(value, token) {
                found.entry(text).or_insert(form);
            }
        }
        // A value as it is comes before what else looks like it.
        for (value, token) in known {
            found.insert(value.clone(), Form::Text(token.clone()));
        }
        let (texts, forms): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let automaton = AhoCorasickBuilder::new().match_kind(MatchKind::LeftmostLongest).build(texts);
        // It fails beyond four billion states.
        Self { automaton: automaton.expect("the values are bounded"), forms }
    }

    fn replace(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut at = 0;
        while let Some(found) = self.automaton.find(Input::new(text).range(at..)) {
            let (start, end, by) = match &self.forms[found.pattern().as_usize()] {
                Form::Text(by) => (found.start(), found.end(), Cow::Borrowed(by.as_bytes())),
                Form::Base64 { offset, is_url, value, token } => {
                    let by = in_base64(text, at, found.start(), *offset, *is_url, value, token);
                    let (start, end, by) =
                        by.unwrap_or_else(|| (found.start(), found.end(), vec![b'*'; found.len()]));
                    (start, end, Cow::Owned(by))
                }
            };
            out.extend_from_slice(&text[at..start]);
            out.extend_from_slice(&by);
            at = end;
        }
        (at > 0).then(|| {
            out.extend_from_slice(&text[at..]);
            out
        })
    }
}

/// The forms of a value apart from itself.
fn forms(value: &[u8], token: &str) -> Vec<(Vec<u8>, Form)> {
    let mut forms = Vec::new();
    let mut text = |text: String, by: String| {
        if text.as_bytes() != value {
            forms.push((text.into_bytes(), Form::Text(by)));
        }
    };
    if let Ok(plain) = std::str::from_utf8(value) {
        let quoted = serde_json::Value::from(plain).to_string();
        text(quoted[1..quoted.len() - 1].to_owned(), token.to_owned());
        let twice = serde_json::Value::from(&quoted[1..quoted.len() - 1]).to_string();
        text(twice[1..twice.len() - 1].to_owned(), token.to_owned());
        let debug = format!("{plain:?}");
        text(debug[1..debug.len() - 1].to_owned(), token.to_owned());
    }
    if value.len() <= SHORT {
        for upper in [true, false] {
            text(hex(value, upper), hex(token.as_bytes(), upper));
            for plus in [true, false] {
                text(percent(value, upper, plus), token.to_owned());
            }
        }
    }
    for is_url in [false, true] {
        for offset in 0..3 {
            let (_, inner) = inner(value, offset, is_url);
            if !is_url || inner.iter().any(|byte| matches!(byte, b'-' | b'_')) {
                let (value, token) = (value.to_vec(), token.to_owned());
                forms.push((inner, Form::Base64 { offset, is_url, value, token }));
            }
        }
    }
    forms
}

fn engine(is_url: bool) -> &'static GeneralPurpose {
    if is_url { &URL_SAFE_NO_PAD } else { &STANDARD_NO_PAD }
}

/// The characters of base64 that depend on the value alone where it begins at byte `offset` of a group, and how many come before
/// them in the group.
fn inner(value: &[u8], offset: usize, is_url: bool) -> (usize, Vec<u8>) {
    let padded: Vec<u8> = vec![0; offset].into_iter().chain(value.iter().copied()).collect();
    let text = engine(is_url).encode(&padded).into_bytes();
    let before = (offset * 8).div_ceil(6);
    let whole = padded.len() * 8 / 6;
    (before, text[before..whole].to_vec())
}

/// Replaces a value inside of base64 whose inner characters were found at `found`: the place and the new text. None where the
/// groups around it are not whole.
fn in_base64(
    text: &[u8],
    from: usize,
    found: usize,
    offset: usize,
    is_url: bool,
    value: &[u8],
    token: &str,
) -> Option<(usize, usize, Vec<u8>)> {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
    let (before, _) = inner(value, offset, is_url);
    let start = found.checked_sub(before).filter(|start| *start >= from)?;
    let most = ((offset + value.len()).div_ceil(3) * 4).min(text.len() - start);
    let digits: Vec<u8> =
        text[start..start + most].iter().copied().take_while(|byte| is_digit(byte)).collect();
    let is_url = is_url || digits.iter().any(|byte| b"-_".contains(byte));
    let mut bytes = decoder(is_url).decode(&digits).ok()?;
    let place = bytes.get_mut(offset..offset + value.len())?;
    if *place != *value {
        return None;
    }
    place.copy_from_slice(token.as_bytes());
    Some((start, start + digits.len(), engine(is_url).encode(&bytes).into_bytes()))
}

/// Reads base64 whose end may be cut: the last character then has bits that belong to nothing.
fn decoder(is_url: bool) -> GeneralPurpose {
    let lenient = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(if is_url { &URL_SAFE } else { &STANDARD }, lenient)
}

fn hex(bytes: &[u8], upper: bool) -> String {
    bytes.iter().map(|byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") }).collect()
}

fn percent(bytes: &[u8], upper: bool, plus: bool) -> String {
    let one = |byte: &u8| match byte {
        b' ' if plus => "+".to_owned(),
        byte if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) => char::from(*byte).to_string(),
        byte => format!("%{}", hex(&[*byte], upper)),
    };
    bytes.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose;
    use proptest::prelude::*;

    use super::*;

    fn dictionary(pairs: &[(&[u8], &str)]) -> Dictionary {
        let mut dictionary = Dictionary::default();
        for (value, token) in pairs {
            dictionary.add(value, (*token).to_owned());
        }
        dictionary
    }

    fn replaced(dictionary: &Dictionary, text: &str) -> String {
        let by = dictionary.replace(text.as_bytes());
        by.map_or_else(|| text.to_owned(), |by| String::from_utf8(by).unwrap())
    }

    #[test]
    fn a_value_is_found_in_each_form() {
        let value = "p\"ss wörd/";
        let token = "0123456789A";
        let dictionary = dictionary(&[(value.as_bytes(), token)]);
        let json = serde_json::to_string(value).unwrap();
        let nested = serde_json::to_string(&json).unwrap();
        for text in [
            value.to_owned(),
            json.clone(),
            nested,
            format!("{value:?}"),
            percent(value.as_bytes(), true, true),
            percent(value.as_bytes(), false, false),
        ] {
            let masked = replaced(&dictionary, &format!("<{text}>"));
            assert!(masked.contains(token) && !masked.contains("rd"), "{masked}");
        }
        let masked = replaced(&dictionary, &hex(value.as_bytes(), false));
        assert_eq!(masked, hex(token.as_bytes(), false));
    }

    #[test]
    fn the_longest_of_two_values_is_taken() {
        let dictionary = dictionary(&[(b"secret", "AAAAAA"), (b"secret-long", "BBBBBBBBBBB")]);
        assert_eq!(replaced(&dictionary, "a secret-long secret"), "a BBBBBBBBBBB AAAAAA");
        assert!(dictionary.replace(b"nothing here").is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn inside_of_base64_a_value_becomes_its_token_at_any_offset(
            before in proptest::collection::vec(0_u8..100, 0..7),
            value in proptest::collection::vec(150_u8..=255, 6..40),
            after in proptest::collection::vec(0_u8..100, 0..7),
        ) {
            let token = "T".repeat(value.len());
            let dictionary = dictionary(&[(&value, &token)]);
            let with = |middle: &[u8]| [&before, middle, &after].concat();
            for engine in [&general_purpose::STANDARD, &general_purpose::URL_SAFE, &STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
                let text = engine.encode(with(&value));
                let masked = replaced(&dictionary, &format!("{{{text}}}"));
                // Where the digits of a value are those of both alphabets, the new ones are of the usual one.
                let usual = |text: &str| text.replace('-', "+").replace('_', "/");
                prop_assert_eq!(usual(&masked), usual(&format!("{{{}}}", engine.encode(with(token.as_bytes())))));
            }
        }
    }
}
