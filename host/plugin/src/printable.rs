//! [`printable`] and [`is_control`]: texts of guests and of their authors, made safe for logs, statuses and Events.

use std::fmt::Write as _;

/// Length in bytes at which a text is cut.
const MAX_TEXT: usize = 8 << 10;

/// The beginning of a text that a guest wrote, about 8 KiB, with control characters escaped: a line break would start a new
/// line of the log, which could look like one of the host or of another plugin; escape sequences control a terminal; and
/// bidirectional controls show a text in another order than it has.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MAX_TEXT));
    for char in text.chars() {
        if out.len() >= MAX_TEXT {
            break;
        }
        match char {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push('\t'),
            _ if is_control(char) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(char));
            }
            _ => out.push(char),
        }
    }
    out
}

/// Whether a character commands a terminal, ends a line, or shows a line in another order than it has.
#[must_use]
pub fn is_control(char: char) -> bool {
    // The others are separators of lines and paragraphs, and bidirectional controls.
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_break_is_escaped_and_words_stay() {
        assert_eq!(
            printable("one\ntwo\r\u{1b}[31m\u{9b}\u{2028}\u{202e}"),
            "one\\ntwo\\r\\u{1b}[31m\\u{9b}\\u{2028}\\u{202e}"
        );
        assert_eq!(printable("naïve — \t日本 \\n"), "naïve — \t日本 \\n");
    }

    proptest! {
        #[test]
        fn no_text_makes_a_second_line_or_a_long_one(
            chars in proptest::collection::vec(proptest::char::range('\0', '\u{2100}'), 0..300),
        ) {
            let text: String = chars.into_iter().collect();
            let printed = printable(&text);
            prop_assert!(!printed.chars().any(|char| is_control(char) && char != '\t'));
            prop_assert!(printed.len() < MAX_TEXT + 16);
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_character_also_where_escapes_made_it_long() {
        assert_eq!(printable(&"é".repeat(MAX_TEXT)).len(), MAX_TEXT);
        assert!(printable(&"\u{1b}".repeat(MAX_TEXT)).len() < MAX_TEXT + 16);
    }
}
