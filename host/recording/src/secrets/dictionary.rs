//! [`Dictionary`]: the known values, found in any text in the forms in which programs write them: as they are, escaped as JSON or
//! in a URL, in hexadecimal, and inside of base64 at any offset.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, Input, Match, MatchKind};
use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{
    GeneralPurpose, GeneralPurposeConfig, STANDARD_NO_PAD, URL_SAFE_NO_PAD,
};

/// Values of fewer bytes are not looked for: they stand in texts anyway.
pub(super) const SHORTEST: usize = 6;

/// Values of more bytes are not looked for, as releases of Helm: nobody writes them into a log line.
pub(super) const LONGEST: usize = 16 << 10;

/// Values of more bytes are looked for in fewer forms.
const SHORT: usize = 256;

/// By what factor each finder has more values than the next one at least.
const FACTOR: usize = 4;

/// Values and replacements, and what finds them.
///
/// Values come one by one, and an automaton cannot be added to. So there are a few of them, each with several times the values of
/// the next one: a value is in a new automaton a few times, and not each time that another one comes.
#[derive(Default)]
pub(super) struct Dictionary {
    known: HashMap<Arc<[u8]>, String>,
    bytes: usize,
    /// Values that no finder has yet.
    added: Vec<Arc<[u8]>>,
    finders: Vec<Finder>,
}

struct Finder {
    values: Vec<Arc<[u8]>>,
    automaton: AhoCorasick,
    forms: Vec<Form>,
}

/// What a found text is.
enum Form {
    /// It becomes this text.
    Text(String),
    /// The inner characters of base64 of a value that begins at this byte of a group of three.
    Base64 { offset: usize, is_url: bool, value: Arc<[u8]>, token: String },
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

    /// Adds a value that is to be looked for, from the next [`index`](Self::index) on.
    pub(super) fn add(&mut self, value: &[u8], token: String) {
        let value: Arc<[u8]> = value.into();
        self.bytes += value.len();
        self.added.push(Arc::clone(&value));
        self.known.insert(value, token);
    }

    /// Makes a finder of the values that were added.
    pub(super) fn index(&mut self) {
        if self.added.is_empty() {
            return;
        }
        let mut values = std::mem::take(&mut self.added);
        while let Some(last) = self.finders.pop_if(|last| last.values.len() < FACTOR * values.len()) {
            values.extend(last.values);
        }
        self.finders.push(Finder::new(values, &self.known));
    }

    /// The text with tokens in place of the values; none if it has none.
    pub(super) fn replace(&self, text: &[u8]) -> Option<Vec<u8>> {
        if text.len() < SHORTEST || self.finders.iter().all(|finder| finder.find(text, 0).is_none()) {
            return None;
        }
        let mut next: Vec<Option<Match>> = vec![None; self.finders.len()];
        let mut out = Vec::new();
        let mut at = 0;
        let mut is_first = true;
        loop {
            for (finder, next) in self.finders.iter().zip(&mut next) {
                if is_first || next.is_some_and(|found| found.start() < at) {
                    *next = finder.find(text, at);
                }
            }
            is_first = false;
            let all = self.finders.iter().zip(&next).filter_map(|(finder, next)| Some((finder, (*next)?)));
            let first = all.min_by_key(|(_, found)| (found.start(), Reverse(found.end())));
            let Some((finder, found)) = first else { break };
            let (start, end, by) = self.by(finder, found, text, at);
            out.extend_from_slice(&text[at..start]);
            out.extend_from_slice(&by);
            at = end;
        }
        out.extend_from_slice(&text[at..]);
        Some(out)
    }

    /// What comes in place of a match, and of which part of the text from `from` on.
    fn by<'a>(
        &'a self,
        finder: &'a Finder,
        found: Match,
        text: &[u8],
        from: usize,
    ) -> (usize, usize, Cow<'a, [u8]>) {
        // A value as it is comes before what else looks like it.
        if let Some(token) = self.get(&text[found.range()]) {
            return (found.start(), found.end(), token.as_bytes().into());
        }
        match &finder.forms[found.pattern().as_usize()] {
            Form::Text(by) => (found.start(), found.end(), by.as_bytes().into()),
            Form::Base64 { offset, is_url, value, token } => {
                let by = in_base64(text, from, found.start(), *offset, *is_url, value, token);
                let (start, end, by) =
                    by.unwrap_or_else(|| (found.start(), found.end(), vec![b'*'; found.len()]));
                (start, end, by.into())
            }
        }
    }
}

impl Finder {
    fn new(values: Vec<Arc<[u8]>>, known: &HashMap<Arc<[u8]>, String>) -> Self {
        let mut found: HashMap<Vec<u8>, Form> = HashMap::new();
        for value in &values {
            let token = known.get(value).map_or("", String::as_str);
            for (text, form) in forms(value, token) {
                found.entry(text).or_insert(form);
            }
        }
        let (texts, forms): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let automaton = AhoCorasickBuilder::new().match_kind(MatchKind::LeftmostLongest).build(texts);
        // It fails beyond four billion states.
        Self { values, automaton: automaton.expect("the values are bounded"), forms }
    }

    fn find(&self, text: &[u8], from: usize) -> Option<Match> {
        self.automaton.find(Input::new(text).range(from..))
    }
}

/// The forms of a value, itself first.
fn forms(value: &Arc<[u8]>, token: &str) -> Vec<(Vec<u8>, Form)> {
    let mut forms = vec![(value.to_vec(), Form::Text(token.to_owned()))];
    let mut text = |text: String, by: String| forms.push((text.into_bytes(), Form::Text(by)));
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
                let (value, token) = (Arc::clone(value), token.to_owned());
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
        dictionary.index();
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

    #[test]
    fn a_value_that_is_a_form_of_another_one_has_the_token_of_its_own() {
        let in_hex = hex(b"secret", false);
        let mut pairs: [(&[u8], &str); 2] = [(b"secret", "AAAAAA"), (in_hex.as_bytes(), "BBBBBBBBBBBB")];
        for _ in 0..2 {
            assert_eq!(replaced(&dictionary(&pairs), &format!("{in_hex} secret")), "BBBBBBBBBBBB AAAAAA");
            pairs.reverse();
        }
    }

    #[test]
    fn values_that_come_one_by_one_are_found_as_those_that_come_at_once() {
        // Two of three begin with another one, which an automaton before theirs may have.
        let values: Vec<String> = (0..60).map(|n| format!("value-{}-", n % 20).repeat(n / 20 + 1)).collect();
        let token = |value: &String| format!("{:_>width$}", value.len(), width = value.len());
        let mut dictionary = Dictionary::default();
        let mut most = 0;
        for value in &values {
            dictionary.add(value.as_bytes(), token(value));
            dictionary.index();
            let sizes: Vec<usize> = dictionary.finders.iter().map(|finder| finder.values.len()).collect();
            assert!(sizes.windows(2).all(|two| two[0] >= FACTOR * two[1]), "{sizes:?}");
            most = most.max(sizes.len());
        }
        assert!(most > 2, "{most}");
        let tokens: Vec<String> = values.iter().map(token).collect();
        let pairs: Vec<_> =
            values.iter().zip(&tokens).map(|(value, token)| (value.as_bytes(), &**token)).collect();
        let at_once = super::tests::dictionary(&pairs);
        for (value, token) in &pairs {
            assert_eq!(dictionary.replace(value).as_deref(), Some(token.as_bytes()));
        }
        let text = values.concat() + "value-17-value-17-value-1-" + &hex(b"value-19-", true);
        let masked = replaced(&dictionary, &text);
        assert_eq!(masked, replaced(&at_once, &text));
        assert!(!masked.contains("value") && !masked.contains(&hex(b"value", true)), "{masked}");
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
