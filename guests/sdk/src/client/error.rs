//! [`ApiError`]: why a live call failed.

use std::fmt;
use std::time::Duration;

use crate::bindings::imports::client as raw;

/// Why a live call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status code; 0 when there was no answer.
    pub code: u16,
    /// Reason of the API (`NotFound`, `Conflict`, …), or the host's own: `forbidden` (a grant is missing; nothing was
    /// sent), `invalid` (the call is malformed), `unavailable` (no answer).
    pub reason: String,
    /// For people.
    pub message: String,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// There is no such object, or a namespace or kind that the call needs is missing.
    pub fn is_not_found(&self) -> bool {
        self.reason == "NotFound"
    }

    /// Someone else changed the object first, or (with apply) owns a field.
    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// An object of this name exists.
    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// It is not allowed: by the plugin's permissions ([`ApiError::is_grant_missing`]) or by the API server.
    pub fn is_forbidden(&self) -> bool {
        self.reason == "Forbidden" || self.is_grant_missing()
    }

    /// The manifest does not grant it; nothing was sent. The message names the missing grant.
    pub fn is_grant_missing(&self) -> bool {
        self.reason == "forbidden"
    }

    /// The object or the call is malformed, as the API server or the host says.
    pub fn is_invalid(&self) -> bool {
        matches!(self.reason.as_str(), "Invalid" | "BadRequest" | "invalid")
    }

    /// The version or the continue token is too old; a list must be begun again.
    pub fn is_expired(&self) -> bool {
        matches!(self.reason.as_str(), "Expired" | "Gone")
    }

    /// The server is not to be reached, overloaded or slow: the same call may succeed later. A write may have taken
    /// effect although no answer came.
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

    /// Whether it stays as it is until the plugin is reloaded.
    pub(crate) fn is_refused_by_host(&self) -> bool {
        matches!(self.reason.as_str(), "forbidden" | "invalid")
    }

    /// A call that cannot be made.
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
