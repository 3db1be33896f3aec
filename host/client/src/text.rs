//! Texts of servers and programs, as they may reach a log or a terminal.

use serde::{Deserialize, Deserializer};

/// Bytes kept of a text of a `Status`. API servers list the faults of an object in it, which may be many.
const STATUS_TEXT: usize = 4096;

/// Characters kept of a body that is not a `Status`.
const SHORT: usize = 200;

/// A text of a `Status`: bounded, and with spaces for control characters, since escape sequences would reach a terminal and
/// line breaks forge lines of a log.
pub(crate) fn status_text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let mut text = Option::<String>::deserialize(from)?.unwrap_or_default();
    if text.len() > STATUS_TEXT {
        text.truncate(text.floor_char_boundary(STATUS_TEXT));
        text.push('…');
    }
    if text.contains(char::is_control) {
        text = text.replace(char::is_control, " ");
    }
    Ok(text)
}

/// The beginning of a text for people: no markup, no line breaks, no control characters, no
/// bearer tokens.
pub(crate) fn short(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(16 << 10)]);
    let plain = if text.trim_start().starts_with('<') { without_tags(&text) } else { text.into_owned() };
    // Escape sequences would reach a terminal.
    let plain = plain.replace(char::is_control, " ");
    let mut out = String::new();
    let mut hide = false;
    for word in plain.split_whitespace() {
        if out.chars().count() > SHORT {
            out.push('…');
            break;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(if hide || secret_like(word) { "[hidden]" } else { word });
        let word = word.to_ascii_lowercase();
        hide = word.ends_with("bearer") || word.ends_with("basic");
    }
    match out.char_indices().nth(SHORT + 1) {
        Some((end, _)) => format!("{}…", &out[..end]),
        None => out,
    }
}

/// Whether a word could be a token: long, and made only of what tokens are made of.
fn secret_like(word: &str) -> bool {
    let token = |c: char| c.is_ascii_alphanumeric() || "-_.=+~".contains(c);
    word.split(|c| !token(c)).any(|part| part.len() >= 40 && part.contains(|c: char| c.is_ascii_digit()))
}

/// Text outside of tags, scripts and styles.
fn without_tags(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        out.push_str(&rest[..start]);
        out.push(' ');
        rest = &rest[start..];
        let name: String = rest[1..].chars().take_while(char::is_ascii_alphabetic).collect();
        let close = match name.to_ascii_lowercase().as_str() {
            "script" => "</script>",
            "style" => "</style>",
            _ => ">",
        };
        match rest.find(close) {
            Some(end) => rest = &rest[end + close.len()..],
            None => return out,
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_of_a_proxy_becomes_a_sentence() {
        let html = b"<html><head><style>b {x}</style><title>502 Bad Gateway</title></head>\n<body><h1>nginx</h1></body>";
        assert_eq!(short(html), "502 Bad Gateway nginx");
    }

    #[test]
    fn long_text_is_cut_and_tokens_are_hidden() {
        let text = short("word ".repeat(1000).as_bytes());
        assert!(text.len() < 220 && text.ends_with('…'), "{text}");
        assert!(short("x".repeat(1000).as_bytes()).chars().count() <= SHORT + 2);
        assert_eq!(short(b"Authorization: Bearer abc denied"), "Authorization: Bearer [hidden] denied");
        let jwt = format!("token={}", "eyJhbGciOi1".repeat(6));
        assert_eq!(short(jwt.as_bytes()), "[hidden]");
    }
}
