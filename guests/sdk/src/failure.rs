//! [`Failure`]: why a reconcile did not succeed, and what `?` makes of the errors of this SDK. Returned by
//! reconcilers.
//!
//! One rule decides what is terminal by itself: what the *host* refuses (a grant, a watch or an index is missing, a
//! call is malformed) cannot change until the plugin is reloaded, and then every key is reconciled anyway (unless
//! the manifest says `onReload: keep`). Everything else is transient: conflicts, timeouts, and also a `Forbidden` or
//! `Invalid` of the API server, since roles, quotas and other objects change without a word to this key. Trying
//! again costs little: the rate limiter spaces the tries out.

use std::fmt;
use std::time::Duration;

use crate::bindings::imports::types as raw;
use crate::cache::CacheError;
use crate::client::ApiError;
use crate::duration::milliseconds;

/// A reconcile that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    message: String,
    terminal: bool,
    retry_after: Option<Duration>,
}

impl Failure {
    /// Tried again after the rate limiter's delay.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), terminal: false, retry_after: None }
    }

    /// Not tried again until something changes.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self { message: message.into(), terminal: true, retry_after: None }
    }

    /// Sets how long to wait at least before the next try.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// Puts what was being done before the message: `writing a/b: the object has been modified`.
    #[must_use]
    pub fn while_doing(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// The message, for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether it will not be tried again until something changes.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        let terminal = error.is_refused_by_host();
        Self { message: error.to_string(), terminal, retry_after: error.retry_after }
    }
}

impl From<CacheError> for Failure {
    fn from(error: CacheError) -> Self {
        Self { message: error.to_string(), terminal: error.is_refused_by_host(), retry_after: None }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::transient(format!("unexpected JSON: {error}"))
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::transient(message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::transient(message)
    }
}

impl From<Failure> for raw::Failure {
    fn from(failure: Failure) -> Self {
        Self {
            message: failure.message,
            kind: if failure.terminal { "terminal" } else { "transient" }.to_owned(),
            retry_after: failure.retry_after.map(milliseconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(code: u16, reason: &str) -> Failure {
        ApiError { code, reason: reason.into(), message: "m".into(), retry_after: None }.into()
    }

    #[test]
    fn only_what_the_host_refuses_is_terminal() {
        for (code, reason) in [
            (409, "Conflict"),
            (403, "Forbidden"),
            (404, "NotFound"),
            (422, "Invalid"),
            (0, "unavailable"),
            (0, "new"),
        ] {
            assert!(!api(code, reason).is_terminal(), "{reason}");
        }
        assert!(api(0, "forbidden").is_terminal());
        assert!(api(0, "invalid").is_terminal());
        let cache = |reason: &str| Failure::from(CacheError { reason: reason.into(), message: "m".into() });
        assert!(cache("forbidden").is_terminal() && cache("not-watched").is_terminal());
        assert!(!cache("not-synced").is_terminal());
    }

    #[test]
    fn a_wait_the_server_asks_for_is_kept() {
        let error = ApiError {
            code: 429,
            reason: "TooManyRequests".into(),
            message: "slow down".into(),
            retry_after: Some(Duration::from_secs(2)),
        };
        let raw = raw::Failure::from(Failure::from(error).while_doing("listing pods"));
        assert_eq!((raw.kind.as_str(), raw.retry_after), ("transient", Some(2_000)));
        assert_eq!(raw.message, "listing pods: slow down (TooManyRequests, HTTP 429)");
    }
}
