//! [`ApiError`]: the error of a live call.

use std::fmt;
use std::time::Duration;

use crate::bindings::imports::client as raw;

/// The error of a live call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status code; 0 without a response.
    pub code: u16,
    /// Reason of the API (`NotFound`, `Conflict`, …), or the host's own: `forbidden` (the manifest does not grant the
    /// call; nothing was sent), `invalid` (the call is malformed), `unavailable` (no response).
    pub reason: String,
    /// Human-readable.
    pub message: String,
    /// Delay before a retry, as the server asks.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// The object, its namespace or its kind does not exist.
    pub fn is_not_found(&self) -> bool {
        self.reason == "NotFound"
    }

    /// The object was changed concurrently, or (with apply) another manager owns a field.
    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// An object of this name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// The call is not allowed by the plugin's manifest ([`ApiError::is_grant_missing`]) or by the API server.
    pub fn is_forbidden(&self) -> bool {
        self.reason == "Forbidden" || self.is_grant_missing()
    }

    /// The manifest does not grant the call; nothing was sent. The message has the missing permission.
    pub fn is_grant_missing(&self) -> bool {
        self.reason == "forbidden"
    }

    /// The API server or the host says that the object or the call is malformed.
    pub fn is_invalid(&self) -> bool {
        matches!(self.reason.as_str(), "Invalid" | "BadRequest" | "invalid")
    }

    /// The resource version or the continue token has expired; start the list again.
    pub fn is_expired(&self) -> bool {
        matches!(self.reason.as_str(), "Expired" | "Gone")
    }

    /// The server is unreachable, overloaded or slow: the same call may succeed later. A write may have taken effect
    /// without a response.
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self.reason.as_str(),
            "unavailable"
                | "ServiceUnavailable"
                | "TooManyRequests"
                | "Timeout"
                | "ServerTimeout"
                | "InternalError"
        )
    }

    /// Whether the refusal lasts until the plugin is reloaded.
    pub(crate) fn is_refused_by_host(&self) -> bool {
        matches!(self.reason.as_str(), "forbidden" | "invalid")
    }

    /// An error for a call that was not made.
    pub(super) fn invalid(message: String) -> Self {
        Self { code: 0, reason: "invalid".to_owned(), message, retry_after: None }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.message, self.reason)?;
        if self.code != 0 {
            write!(f, ", HTTP {}", self.code)?;
        }
        f.write_str(")")
    }
}

impl std::error::Error for ApiError {}

impl From<raw::ApiError> for ApiError {
    fn from(raw: raw::ApiError) -> Self {
        Self {
            code: raw.code,
            reason: raw.reason,
            message: raw.message,
            retry_after: raw.retry_after_seconds.map(|seconds| Duration::from_secs(seconds.into())),
        }
    }
}
