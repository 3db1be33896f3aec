//! [`Request`]: the builder of a request.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::exchange;
use super::{Error, ErrorKind, Response};
use crate::Context;

/// An HTTP request. The builder methods cannot fail: [`send`](Request::send) reports a malformed URL, header or body.
///
/// The host or `send` sets `Host`, `Content-Length` and the headers of the connection (`Connection`,
/// `Transfer-Encoding`, `Upgrade`, `TE`, `Expect`, `Proxy-*`, …). The default `User-Agent` is
/// `pilothouse/VERSION (PLUGIN)`.
#[derive(Clone)]
pub struct Request {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
    pub(super) timeout: Option<Duration>,
    pub(super) connect_timeout: Option<Duration>,
    /// The first error of the builder.
    broken: Option<String>,
}

/// Omits the values of headers and the query of the URL, which may be secret.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("url", &self.url.split('?').next().unwrap_or_default())
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("body", &format_args!("{} bytes", self.body.len()))
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl Request {
    /// A request with any method, to a URL that starts with `http://` or `https://`.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: None,
            connect_timeout: None,
            broken: None,
        }
    }

    /// A `GET` request.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    /// A `HEAD` request.
    pub fn head(url: impl Into<String>) -> Self {
        Self::new("HEAD", url)
    }

    /// A `POST` request.
    pub fn post(url: impl Into<String>) -> Self {
        Self::new("POST", url)
    }

    /// A `PUT` request.
    pub fn put(url: impl Into<String>) -> Self {
        Self::new("PUT", url)
    }

    /// A `PATCH` request.
    pub fn patch(url: impl Into<String>) -> Self {
        Self::new("PATCH", url)
    }

    /// A `DELETE` request.
    pub fn delete(url: impl Into<String>) -> Self {
        Self::new("DELETE", url)
    }

    /// Adds a header. An earlier header of the same name is kept.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds `Authorization: Basic …`.
    #[must_use]
    pub fn basic_auth(self, user: impl fmt::Display, password: impl fmt::Display) -> Self {
        let credentials = base64(format!("{user}:{password}").as_bytes());
        self.header("Authorization", format!("Basic {credentials}"))
    }

    /// Adds `Authorization: Bearer …`.
    #[must_use]
    pub fn bearer_auth(self, token: impl fmt::Display) -> Self {
        self.header("Authorization", format!("Bearer {token}"))
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the body to JSON and adds `Content-Type: application/json`.
    #[must_use]
    pub fn json(mut self, body: &impl Serialize) -> Self {
        match serde_json::to_vec(body) {
            Ok(json) => self.body = json,
            Err(error) => {
                self.broken.get_or_insert(format!("the body cannot be written as JSON: {error}"));
            }
        }
        self.header("Content-Type", "application/json")
    }

    /// Limits the whole exchange, from `send` to the last byte of the response. By default only the deadline of the
    /// call limits it.
    #[must_use]
    pub fn timeout(mut self, whole: Duration) -> Self {
        self.timeout = Some(whole);
        self
    }

    /// Limits the time to connect. The default is 10 seconds; a longer limit has no effect.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = Some(limit);
        self
    }

    /// Sends the request and waits for the whole response, whatever its status.
    ///
    /// # Errors
    /// When the request is malformed or not granted, the response is too large, or no complete response arrives in
    /// time.
    pub fn send(self, ctx: &Context) -> Result<Response, Error> {
        match &self.broken {
            Some(reason) => Err(Error::new(ErrorKind::Invalid, reason.clone())),
            None => exchange::run(ctx, &self),
        }
    }
}

/// Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let sextet = (bits >> (18 - 6 * place)) as usize & 0x3f;
            text.push(if place <= group.len() { char::from(ALPHABET[sextet]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let vectors = ["", "f", "fo", "foo", "foob", "fooba", "foobar"];
        let texts = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        assert_eq!(vectors.map(|v| base64(v.as_bytes())), texts);
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn secrets_are_not_shown() {
        let request =
            Request::get("http://a/?token=hush").basic_auth("me", "hush").bearer_auth("hush").body("hush");
        let shown = format!("{request:?}");
        assert!(!shown.contains("hush") && shown.contains("Authorization"), "{shown}");
        assert_eq!(request.headers[0].1, b"Basic bWU6aHVzaA==");
    }
}
