//! Answers that are errors, as typed errors: `Status` bodies, pages of proxies, redirects, broken connections.
//!
//! Messages are for people: bounded in length, without markup, and without credentials even where a proxy prints the
//! request back. `call` and `watch` use this.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::io;

use http::header::{LOCATION, RETRY_AFTER};
use serde::Deserialize;

use crate::call::{Answer, protocol};
use crate::error::{Error, Status};

/// Characters kept of a body that is not a `Status`.
const SHORT: usize = 200;

/// The error that an answer without success stands for.
pub(crate) fn error(doing: String, answer: &Answer) -> Error {
    if answer.status.is_redirection() {
        let location = answer.headers.get(LOCATION).and_then(|v| v.to_str().ok()?.parse::<http::Uri>().ok());
        let to = location.and_then(|uri| Some(format!(" to {}", uri.host()?))).unwrap_or_default();
        let message = format!(
            "redirected{to} ({}); redirects are not followed: configure the address of the API server itself",
            answer.status.as_u16()
        );
        return protocol(doing, &message);
    }
    if answer.status.is_success() || answer.status.is_informational() {
        return protocol(doing, &format!("status {}", answer.status));
    }
    let mut status = status_body(&answer.body).unwrap_or_else(|| Status {
        message: match short(&answer.body) {
            text if text.is_empty() => format!("the server answered {}", answer.status),
            text => format!("the server answered {}: {text}", answer.status),
        },
        ..Status::default()
    });
    // The HTTP status is what every party on the way agrees on.
    status.code = answer.status.as_u16();
    let retry_after = answer.headers.get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.trim().parse().ok());
    if let Some(seconds) = retry_after {
        status.details.get_or_insert_default().retry_after_seconds.get_or_insert(seconds);
    }
    status.doing = doing;
    Error::Api(Box::new(status))
}

fn status_body(body: &[u8]) -> Option<Status> {
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    let Kind { kind } = serde_json::from_slice(body).ok()?;
    if kind == "Status" { serde_json::from_slice(body).ok() } else { None }
}

/// The error that a failure below HTTP stands for.
pub(crate) fn transport(doing: String, error: &(dyn StdError + 'static)) -> Error {
    let mut message = String::new();
    let (mut connection_refused, mut timeout, mut hint) = (false, false, "");
    let mut next = Some(error);
    while let Some(cause) = next {
        let text = cause.to_string();
        // Wrappers often repeat what they wrap.
        if !message.ends_with(&text) {
            let _ = write!(message, "{}{text}", if message.is_empty() { "" } else { ": " });
        }
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            connection_refused |= io.kind() == io::ErrorKind::ConnectionRefused;
            timeout |= io.kind() == io::ErrorKind::TimedOut;
            // `source` of an I/O error leaves out the error it wraps and goes on with that one's source.
            if let Some(inner) = io.get_ref() {
                next = Some(inner);
                continue;
            }
        }
        if let Some(hyper) = cause.downcast_ref::<hyper::Error>() {
            timeout |= hyper.is_timeout();
        }
        if let Some(rustls::Error::InvalidCertificate(why)) = cause.downcast_ref::<rustls::Error>() {
            hint = match why {
                // A wrong authority of the right name shows in the signature.
                rustls::CertificateError::UnknownIssuer | rustls::CertificateError::BadSignature => {
                    "; is certificate-authority of the kubeconfig's cluster the one that signed the server's certificate?"
                }
                rustls::CertificateError::Expired | rustls::CertificateError::ExpiredContext { .. } => {
                    "; renew the server's certificate, or set this machine's clock"
                }
                rustls::CertificateError::NotValidForName
                | rustls::CertificateError::NotValidForNameContext { .. } => {
                    "; use a name that the certificate holds, or set tls-server-name in the kubeconfig's cluster"
                }
                _ => "",
            };
        }
        next = cause.source();
    }
    message.push_str(hint);
    Error::Transport { doing, message, connection_refused, timeout }
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
