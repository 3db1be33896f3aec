//! `Warning` headers: what the server wants people to know, as that a version of an API will go.
//!
//! Invariant: each text reaches the log once for a client (of all its identities), and at most [`MOST`] texts do, so that a server
//! whose texts all differ fills neither the log nor the memory. Called for every answer.

use std::collections::HashSet;

use http::HeaderMap;
use http::header::WARNING;
use parking_lot::Mutex;

/// Texts that are logged at most; API servers have a few dozen.
const MOST: usize = 1000;
/// Bytes of a text that are kept; API servers send 256 at most, or 4 KiB in all.
const LONGEST: usize = 4096;

/// What a server warns of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The code of RFC 7234; API servers use 299.
    pub code: u16,
    /// The agent that warns; `-` if unnamed.
    pub agent: String,
    /// For people.
    pub text: String,
}

/// The texts that were logged.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<LoggedWarnings>);

#[derive(Debug, Default)]
struct LoggedWarnings {
    texts: HashSet<String>,
    /// Whether it was logged that further texts are not.
    cut: bool,
}

impl Warnings {
    /// Logs what an answer warns of and nothing did before.
    pub(crate) fn log(&self, headers: &HeaderMap, user_agent: &str, server: &str) {
        let (news, cut) = self.news(headers);
        for Warning { code, text, .. } in news {
            tracing::warn!(
                event = "server_warning",
                server,
                user_agent,
                code,
                "the API server warns: {text}"
            );
        }
        if cut {
            tracing::warn!(
                event = "server_warnings_cut",
                server,
                "the API server has sent {MOST} different warnings; further ones are not logged"
            );
        }
    }

    /// The warnings of a response that are to be logged, and count as logged from now on; and whether to log that there
    /// will be no more.
    fn news(&self, headers: &HeaderMap) -> (Vec<Warning>, bool) {
        if !headers.contains_key(WARNING) {
            return (Vec::new(), false);
        }
        let mut warnings = of(headers);
        let mut cut = false;
        let logged = &mut *self.0.lock();
        warnings.retain(|warning| {
            if logged.texts.len() < MOST {
                return logged.texts.insert(warning.text.clone());
            }
            cut |= !logged.texts.contains(&warning.text) && !std::mem::replace(&mut logged.cut, true);
            false
        });
        (warnings, cut)
    }
}

/// The warnings of an answer; what is not one is left out.
pub(crate) fn of(headers: &HeaderMap) -> Vec<Warning> {
    let lines =
        headers.get_all(WARNING).iter().filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
    lines.flat_map(Parser).collect()
}

/// Goes through a header that may hold several: `299 - "text" "date", 299 ...`.
struct Parser<'a>(&'a str);

impl Iterator for Parser<'_> {
    type Item = Warning;

    fn next(&mut self) -> Option<Warning> {
        let rest = self.0.trim_start_matches([' ', '\t', ',']);
        let (code, rest) = rest.split_once(' ')?;
        let (agent, rest) = rest.trim_start().split_once(' ')?;
        let (text, rest) = quoted(rest.trim_start())?;
        // A date may follow.
        self.0 = quoted(rest.trim_start()).map_or(rest, |(_, rest)| rest);
        let code = code.parse().ok().filter(|_| code.len() == 3)?;
        Some(Warning { code, agent: agent.to_owned(), text })
    }
}

/// A quoted string at the beginning of a text, without control characters, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut chars = text.strip_prefix('"')?.char_indices();
    let mut out = String::new();
    while let Some((at, char)) = chars.next() {
        let char = match char {
            '"' => return Some((out, &text[at + 2..])),
            '\\' => chars.next()?.1,
            other => other,
        };
        if !char.is_control() && out.len() + char.len_utf8() <= LONGEST {
            out.push(char);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(WARNING, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        headers
    }

    fn texts(lines: &[&str]) -> Vec<String> {
        of(&headers(lines)).into_iter().map(|warning| warning.text).collect()
    }

    #[test]
    fn several_warnings_in_one_or_many_headers_are_told_apart() {
        let one = r#"299 - "a, \"b\" \\ c" "Wed, 21 Oct 2015 07:28:00 GMT", 299 host:1 "d""#;
        assert_eq!(texts(&[one, "199 - \"ä\""]), [r#"a, "b" \ c"#, "d", "ä"]);
        let first = &of(&headers(&[one]))[1];
        assert_eq!((first.code, first.agent.as_str()), (299, "host:1"));
    }

    #[test]
    fn what_is_no_warning_is_left_out_and_the_others_stay() {
        for bad in
            ["", "299", "299 -", "299 - text", "299 - \"open", "29 - \"short\"", "x99 - \"a\"", "299 - \"a\\"]
        {
            assert_eq!(texts(&[bad, "299 - \"good\""]), ["good"], "{bad:?}");
        }
        assert_eq!(texts(&["299 - \"a\tb\u{85}c\""]), ["abc"]);
        assert_eq!(texts(&[&format!("299 - \"{}\"", "x".repeat(10_000))])[0].len(), LONGEST);
    }

    #[test]
    fn each_text_is_told_once_and_a_thousand_at_most() {
        let warnings = Warnings::default();
        let cuts = std::cell::Cell::new(0);
        let told = |lines: &[&str]| {
            let (news, cut) = warnings.news(&headers(lines));
            cuts.set(cuts.get() + usize::from(cut));
            news.len()
        };
        assert_eq!(told(&["299 - \"a\"", "299 - \"b\"", "299 - \"a\""]), 2);
        assert_eq!(told(&["299 - \"a\"", "299 - \"c\""]), 1);
        assert_eq!((0..5_000).map(|n| told(&[&format!("299 - \"{n}\"")])).sum::<usize>(), MOST - 3);
        assert_eq!(told(&["299 - \"d\""]), 0);
        assert_eq!(cuts.get(), 1, "that no more are logged is logged once");
    }

    proptest! {
        #[test]
        fn any_text_comes_back_as_it_was_quoted(texts in prop::collection::vec("[^\\x00-\\x1f\\x7f-\\u{9f}]{0,20}", 1..4)) {
            let quote = |text: &String| format!("299 - \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            let line = texts.iter().map(quote).collect::<Vec<_>>().join(", ");
            prop_assert_eq!(of(&headers(&[&line])).into_iter().map(|w| w.text).collect::<Vec<_>>(), texts);
        }

        #[test]
        fn no_header_makes_it_panic(line in "[ -~]{0,60}") {
            let _ = of(&headers(&[&line]));
        }
    }
}
