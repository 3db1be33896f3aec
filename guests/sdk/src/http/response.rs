//! [`Response`]: the response of the server.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;

/// The response of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: Headers,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Response {
    /// A response, for tests that answer requests.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Headers::default(), body: body.into() }
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.0.push((name.into(), value.into()));
        self
    }

    /// Whether the status is 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as text; bytes that are not UTF-8 become `U+FFFD`.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// When the body is not JSON or does not have the form of `T`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// The header `Retry-After`, if it is a number of seconds.
    pub fn retry_after(&self) -> Option<Duration> {
        self.headers.get("Retry-After")?.trim().parse().ok().map(Duration::from_secs)
    }
}

/// Headers, in the order of the response.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(pub(super) Vec<(String, Vec<u8>)>);

impl Headers {
    /// The value of the first header of this name (case-insensitive); `None` if it is missing or not UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(own, _)| own.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }

    /// All headers.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (name, String::from_utf8_lossy(value))))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_in_any_case() {
        let headers = Headers(vec![
            ("retry-after".to_owned(), b" 3".to_vec()),
            ("x".to_owned(), vec![0xff]),
            ("Retry-After".to_owned(), b"4".to_vec()),
        ]);
        let response = Response { status: 429, headers, body: Vec::new() };
        assert_eq!(response.retry_after(), Some(Duration::from_secs(3)));
        assert_eq!((response.headers.get("X"), response.headers.get("y")), (None, None));
        assert!(!response.is_success());
    }
}
