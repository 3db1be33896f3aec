//! [`ApiError`]: the error of a live call.

use std::fmt;
use std::time::Duration;

use crate::bindings::imports::client as raw;

/// The error of a live call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status code; 0 if no response arrived.
    pub code: u16,
    /// The reason in the API server's response (`NotFound`, `Conflict`, …), or a reason of the host: `forbidden` (the
    /// manifest does not grant the call; nothing was sent), `invalid` (the call is malformed), `unavailable` (no
    /// response).
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Delay before a retry, if the server asked for one.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// Whether the object, its namespace or its kind does not exist.
    pub fn is_not_found(&self) -> bool {
        self.reason == "NotFound"
    }

    /// Whether the object was changed concurrently, or (with apply) another manager owns a field.
    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// Whether an object of this name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// Whether the plugin's manifest ([`ApiError::is_grant_missing`]) or the API server does not allow the call.
    pub fn is_forbidden(&self) -> bool {
        self.reason == "Forbidden" || self.is_grant_missing()
    }

    /// Whether the manifest does not grant the call. Nothing was sent; the message contains the missing permission.
    pub fn is_grant_missing(&self) -> bool {
        self.reason == "forbidden"
    }

    /// Whether the API server or the host rejected the object or the call as malformed.
    pub fn is_invalid(&self) -> bool {
        matches!(self.reason.as_str(), "Invalid" | "BadRequest" | "invalid")
    }

    /// Whether the resource version or the continue token has expired. Start the list again.
    pub fn is_expired(&self) -> bool {
        matches!(self.reason.as_str(), "Expired" | "Gone")
    }

    /// Whether the server is unreachable, overloaded or slow, so that the same call may succeed later. A write may have
    /// taken effect without a response.
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
