//! [`Failure`]: the error of a reconcile, and the conversion of the SDK's errors into it by `?`.
//!
//! Refusals of the *host* become terminal: a permission, watch or index is missing, or a call is malformed. They last
//! until the plugin is reloaded, and a reload reconciles every key (unless the manifest says `onReload: keep`). All
//! other errors become transient: conflicts, timeouts, and also `Forbidden` or `Invalid` of the API server, since
//! roles, quotas and other objects may change without an event for this key. The rate limiter delays the retries.

use std::fmt;
use std::time::Duration;

use crate::bindings::imports::types as raw;
use crate::cache::CacheError;
use crate::client::ApiError;
use crate::duration::milliseconds;

/// The error of a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    message: String,
    terminal: bool,
    retry_after: Option<Duration>,
}

impl Failure {
    /// A failure that is retried after the rate limiter's delay.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), terminal: false, retry_after: None }
    }

    /// A failure that is not retried until something changes.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self { message: message.into(), terminal: true, retry_after: None }
    }

    /// Sets the minimum delay before the retry.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// Prefixes the message with the operation: `writing a/b: the object has been modified`.
    #[must_use]
    pub fn while_doing(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// The human-readable message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the key is not retried until something changes.
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
