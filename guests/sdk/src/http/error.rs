//! [`Error`]: the reason for a missing or incomplete response.

use std::fmt;

#[cfg(any(test, target_family = "wasm"))]
use wasip2::http::types::ErrorCode;
#[cfg(target_family = "wasm")]
use wasip2::http::types::HeaderError;

use crate::Failure;

/// The reason for a missing or incomplete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// Human-readable message with the remedy.
    pub message: String,
}

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// `spec.outgoingHosts` of the manifest does not contain the host and port. Nothing was sent.
    Denied,
    /// The name resolves to an address that the manifest must grant explicitly: loopback, link-local, or the metadata
    /// service of a cloud. Nothing was sent.
    AddressProhibited,
    /// The request is malformed, or sets a header that plugins must not set. Nothing was sent.
    Invalid,
    /// The name could not be resolved.
    Dns,
    /// The server refused the connection.
    ConnectionRefused,
    /// The connection ended before the response was complete.
    ConnectionLost,
    /// The plugin already has the maximum number of concurrent requests.
    ConnectionLimit,
    /// The TLS handshake failed: the certificate is not trusted, or the server does not use TLS.
    Tls,
    /// A timeout expired: of the lookup, the connection, the response, or
    /// [`Request::timeout`](super::Request::timeout).
    Timeout,
    /// The body of the request is larger than 16 MiB.
    RequestTooLarge,
    /// The response is larger than the limit: 16 MiB of body, 64 KiB of headers.
    ResponseTooLarge,
    /// The response is not HTTP/1.1.
    Protocol,
    /// Another error; see the message.
    Other,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// An error of this kind, for tests that answer requests.
    pub fn of_kind(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::new(kind, message)
    }

    /// The error for a host that is not granted.
    pub(crate) fn denied(authority: &str) -> Self {
        Self::new(
            ErrorKind::Denied,
            format!(
                "{authority} is not granted: add it, as host:port, to spec.outgoingHosts of the plugin's manifest"
            ),
        )
    }

    /// Whether the manifest does not grant the host; nothing was sent.
    pub fn is_denied(&self) -> bool {
        self.kind == ErrorKind::Denied
    }

    /// Whether a timeout expired. The request may have taken effect.
    pub fn is_timeout(&self) -> bool {
        self.kind == ErrorKind::Timeout
    }

    /// Whether the same request may succeed later. The first one may have taken effect without a response.
    pub fn is_unavailable(&self) -> bool {
        use ErrorKind as K;
        matches!(
            self.kind,
            K::Dns | K::ConnectionRefused | K::ConnectionLost | K::ConnectionLimit | K::Tls | K::Timeout
        )
    }

    /// Converts an error code of `wasi:http`.
    #[cfg(any(test, target_family = "wasm"))]
    pub(super) fn from_code(code: &ErrorCode, authority: &str) -> Self {
        use ErrorCode as C;
        use ErrorKind as K;
        let (kind, message) = match code {
            C::HttpRequestDenied => return Self::denied(authority),
            C::DestinationIpProhibited => (
                K::AddressProhibited,
                format!(
                    "{authority} leads to a loopback, link-local or metadata address: if that is meant, name the address itself, or \
                     localhost, in spec.outgoingHosts of the plugin's manifest"
                ),
            ),
            C::HttpRequestUriInvalid | C::HttpRequestUriTooLong => {
                (K::Invalid, format!("{authority} or the path after it is no valid part of a URL"))
            }
            C::HttpRequestMethodInvalid => (K::Invalid, "the method is not one that can be sent".to_owned()),
            C::DnsError(error) => {
                let why = error.rcode.as_deref().unwrap_or("no address");
                (K::Dns, format!("{authority} was not found: {why}"))
            }
            C::DnsTimeout => (K::Timeout, format!("looking up {authority} took too long")),
            C::DestinationNotFound => (K::Dns, format!("{authority} was not found")),
            C::DestinationUnavailable | C::DestinationIpUnroutable => {
                (K::ConnectionRefused, format!("{authority} is not to be reached from the host"))
            }
            C::ConnectionRefused => (K::ConnectionRefused, format!("nothing listens at {authority}")),
            C::ConnectionTerminated | C::HttpResponseIncomplete => (
                K::ConnectionLost,
                format!("{authority} closed the connection before the response was whole"),
            ),
            C::ConnectionLimitReached => (
                K::ConnectionLimit,
                "the plugin has as many requests under way as it may: read or drop their responses"
                    .to_owned(),
            ),
            C::ConnectionTimeout => (K::Timeout, format!("connecting to {authority} took too long")),
            C::ConnectionReadTimeout | C::ConnectionWriteTimeout | C::HttpResponseTimeout => {
                (K::Timeout, format!("the answer of {authority} took too long"))
            }
            C::TlsCertificateError => (
                K::Tls,
                format!(
                    "the certificate of {authority} is not trusted: the host's system must know its issuer (SSL_CERT_FILE names a \
                     bundle), and the name must be in it"
                ),
            ),
            C::TlsProtocolError => {
                (K::Tls, format!("{authority} speaks no TLS that the host knows; is it http?"))
            }
            C::TlsAlertReceived(alert) => {
                let why = alert.alert_message.as_deref().unwrap_or("no reason given");
                (K::Tls, format!("{authority} refused the TLS handshake: {why}"))
            }
            C::HttpRequestBodySize(_) => (
                K::RequestTooLarge,
                "the body of the request is larger than 16 MiB: send it in parts".to_owned(),
            ),
            C::HttpResponseBodySize(_) => (
                K::ResponseTooLarge,
                format!("{authority} answered with more than 16 MiB: ask for less at a time"),
            ),
            C::HttpResponseHeaderSectionSize(_) | C::HttpResponseHeaderSize(_) => {
                (K::ResponseTooLarge, format!("{authority} answered with more than 64 KiB of headers"))
            }
            C::HttpProtocolError => {
                (K::Protocol, format!("{authority} did not answer in HTTP/1.1; is it https?"))
            }
            other => (K::Other, format!("{authority}: {other:?}")),
        };
        Self { kind, message }
    }

    /// The error for a header that the host rejects.
    #[cfg(target_family = "wasm")]
    pub(super) fn from_header(name: &str, error: HeaderError) -> Self {
        let why = match error {
            HeaderError::Forbidden => "is set by the host",
            HeaderError::InvalidSyntax => "has a name or a value that no header may have",
            HeaderError::Immutable => "cannot be set any more",
        };
        Self::new(ErrorKind::Invalid, format!("the header {name:?} {why}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Refusals of the host last until the plugin is reloaded, so they are terminal; all other errors are transient.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.kind {
            ErrorKind::Denied | ErrorKind::Invalid => Self::terminal(error.message),
            _ => Self::transient(error.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stays_refused_is_terminal() {
        let failure = |code: ErrorCode| Failure::from(Error::from_code(&code, "a:1"));
        assert!(failure(ErrorCode::HttpRequestDenied).is_terminal());
        assert!(failure(ErrorCode::HttpRequestDenied).message().contains("spec.outgoingHosts"));
        assert!(failure(ErrorCode::HttpRequestUriInvalid).is_terminal());
        for code in [
            ErrorCode::DestinationIpProhibited,
            ErrorCode::ConnectionRefused,
            ErrorCode::ConnectionLimitReached,
            ErrorCode::HttpResponseTimeout,
            ErrorCode::HttpResponseBodySize(Some(1)),
        ] {
            assert!(!failure(code).is_terminal());
        }
    }
}
