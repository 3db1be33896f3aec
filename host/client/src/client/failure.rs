//! Responses and connections that failed, as typed errors: `Status` bodies, pages of proxies, redirects, broken connections.
//!
//! Messages are for people: bounded in length, without markup, and without credentials even where a proxy prints the
//! request back. `send`, `body` and the watches use this.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::io;

use http::header::{LOCATION, RETRY_AFTER};
use pilothouse_object::DecodeError;
use serde::Deserialize;

use super::FullResponse;
use crate::error::{Error, Status};
use crate::text::short;
use crate::transport::SendError;

/// The error for a response that is not a success.
pub(crate) fn of_response(doing: String, response: &FullResponse) -> Error {
    if response.status.is_redirection() {
        let location =
            response.headers.get(LOCATION).and_then(|v| v.to_str().ok()?.parse::<http::Uri>().ok());
        let to = location.and_then(|uri| Some(format!(" to {}", uri.host()?))).unwrap_or_default();
        let message = format!(
            "redirected{to} ({}); redirects are not followed: configure the address of the API server itself",
            response.status.as_u16()
        );
        return protocol(doing, &message);
    }
    if response.status.is_success() || response.status.is_informational() {
        return protocol(doing, &format!("status {}", response.status));
    }
    let mut status = status_body(&response.body).unwrap_or_else(|| Status {
        message: match short(&response.body) {
            text if text.is_empty() => format!("the server responded {}", response.status),
            text => format!("the server responded {}: {text}", response.status),
        },
        ..Status::default()
    });
    // The HTTP status is what every party on the way agrees on.
    status.code = response.status.as_u16();
    let retry_after = response.headers.get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.trim().parse().ok());
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

/// The error for a failure below HTTP.
pub(crate) fn of_transport(doing: String, error: &(dyn StdError + 'static)) -> Error {
    let mut message = String::new();
    let (mut connection_refused, mut timeout, mut unsent, mut hint) = (false, false, false, "");
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
        if let Some(error) = cause.downcast_ref::<SendError>() {
            unsent |= error.is_unsent();
            timeout |= error.is_timeout();
        }
        if let Some(hyper) = cause.downcast_ref::<hyper::Error>() {
            timeout |= hyper.is_timeout();
        }
        if let Some(rustls::Error::InvalidCertificate(why)) = cause.downcast_ref::<rustls::Error>() {
            hint = match why {
                // An authority of the right name with another key fails at the signature.
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
    Error::Transport { doing, message, connection_refused, timeout, unsent }
}

/// The response is not what the API promises.
pub(crate) fn protocol(doing: String, message: &str) -> Error {
    Error::Protocol { doing, message: message.to_owned() }
}

/// The response is not the JSON that was expected.
pub(crate) fn unexpected(doing: String, error: &serde_json::Error) -> Error {
    protocol(doing, &without_values(error))
}

/// The response is not an object, or not a list of them.
pub(crate) fn undecodable(doing: String, error: &DecodeError) -> Error {
    protocol(doing, &decode_fault(error))
}

/// What is wrong with an object, without its values.
pub(crate) fn decode_fault(error: &DecodeError) -> String {
    match error {
        DecodeError::Json(error) => format!("not a Kubernetes object: {}", without_values(error)),
        other => short(other.to_string().as_bytes()),
    }
}

/// What is wrong with JSON: where and how, but not what. serde_json's own text quotes values, which may be secret.
pub(crate) fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let how = match error.classify() {
        // With the name of a field of ours.
        serde_json::error::Category::Data if text.starts_with("missing field `") => {
            text.split(" at line").next().unwrap_or_default()
        }
        serde_json::error::Category::Data => "a value is not of the type that was expected",
        serde_json::error::Category::Eof => "it ends too soon",
        _ => "this is no JSON",
    };
    match error.line() {
        // Not serde's: a text of `pilothouse_object`.
        0 => short(text.as_bytes()),
        line => format!("{how}, at line {line} column {}", error.column()),
    }
}
