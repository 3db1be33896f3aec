//! [`Error`]: what can go wrong between the host and an API server, by kinds that callers handle differently.
//!
//! A `Status` body becomes [`Error::Api`] with its code, reason, message, causes and `retryAfterSeconds`; everything
//! below HTTP is [`Error::Transport`]. The predicates hold the dialects that servers use for one thing.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use crate::text::status_text;

/// Outcome of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong between the host and an API server.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server answered with an error.
    #[error("{0}")]
    Api(Box<Status>),
    /// No response: connection refused, reset, timed out, TLS or HTTP fault.
    #[error("{doing}: {message}")]
    Transport {
        /// What was being done, as `GET https://…/pods`.
        doing: String,
        /// What went wrong, with its causes.
        message: String,
        /// Whether no process listens at the address.
        connection_refused: bool,
        /// Whether the connection or the call timed out.
        timeout: bool,
        /// Whether the server certainly did not process the request: there was no connection, or it was closed or refused
        /// before that. Otherwise a write may have been done.
        unsent: bool,
    },
    /// An event of a watch could not be decoded. The watch goes on: log this, and ask for the next event.
    #[error("{doing}: undecodable event: {message}")]
    Event {
        /// What was being done, as `watching https://…/pods`.
        doing: String,
        /// What is wrong with the event; it quotes no values.
        message: String,
    },
    /// The response is not what the API promises (not JSON, HTML of a proxy, a `Table`).
    #[error("{doing}: unexpected response: {message}")]
    Protocol {
        /// What was being done.
        doing: String,
        /// What is wrong with the response.
        message: String,
    },
    /// Configuration: kubeconfig, certificates, identity.
    #[error("{0}")]
    Config(String),
    /// The request cannot be sent as it is.
    #[error("{0}")]
    Request(String),
}

/// A `Status` object of the API, also made from an error answer that has another body.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, as `NotFound`; may be empty.
    #[serde(deserialize_with = "status_text")]
    pub reason: String,
    /// For people.
    #[serde(deserialize_with = "status_text")]
    pub message: String,
    /// Causes and `retryAfterSeconds`.
    pub details: Option<StatusDetails>,
    /// What was being done, as `GET https://…/pods`; not of the API. Empty when it is not known.
    #[serde(skip)]
    pub doing: String,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.doing.is_empty() {
            write!(f, "{}: ", self.doing)?;
        }
        match (self.message.as_str(), self.reason.as_str()) {
            ("", "") => write!(f, "the server answered {}", self.code),
            ("", reason) => write!(f, "the server answered {} {reason}", self.code),
            (message, _) => f.write_str(message),
        }
    }
}

/// `details` of a [`Status`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// Name of the object concerned.
    #[serde(deserialize_with = "status_text")]
    pub name: String,
    /// Group of the object concerned.
    #[serde(deserialize_with = "status_text")]
    pub group: String,
    /// Kind or resource of the object concerned.
    #[serde(deserialize_with = "status_text")]
    pub kind: String,
    /// UID of the object concerned, as the answer to a delete has it.
    #[serde(deserialize_with = "status_text")]
    pub uid: String,
    /// What is wrong with the object, field by field.
    pub causes: Vec<StatusCause>,
    /// Seconds to wait before another try.
    pub retry_after_seconds: Option<u64>,
}

/// One cause in a [`Status`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusCause {
    /// Machine-readable reason, as `FieldValueInvalid`.
    #[serde(deserialize_with = "status_text")]
    pub reason: String,
    /// For people.
    #[serde(deserialize_with = "status_text")]
    pub message: String,
    /// Field concerned, as `spec.replicas`.
    #[serde(deserialize_with = "status_text")]
    pub field: String,
}

/// Reasons of apimachinery. A status of another reason is judged by its code.
const KNOWN_REASONS: &str = "AlreadyExists BadRequest Conflict Expired Forbidden Gone InternalError Invalid \
    MethodNotAllowed NotAcceptable NotFound RequestEntityTooLarge ServerTimeout ServiceUnavailable Timeout \
    TooManyRequests Unauthorized UnsupportedMediaType";

impl Error {
    /// The server's `Status`, when it answered with one.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Api(status) => Some(status),
            _ => None,
        }
    }

    fn is(&self, code: u16, reason: &str) -> bool {
        self.status().is_some_and(|s| match KNOWN_REASONS.split(' ').any(|known| s.reason == known) {
            true => s.reason == reason,
            false => s.code == code,
        })
    }

    /// The object or the resource does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.is(404, "NotFound")
    }

    /// The write was made from an old version.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.is(409, "Conflict")
    }

    /// An object of that name exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        // The code alone says a conflict as well.
        self.status().is_some_and(|s| s.reason == "AlreadyExists" || (s.reason.is_empty() && s.code == 409))
    }

    /// The identity may not do this.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.is(403, "Forbidden")
    }

    /// The resource version or continue token is too old: `Expired` or `Gone`, code 410.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(|s| s.code == 410 || s.reason == "Expired" || s.reason == "Gone")
    }

    /// The server asks for fewer requests.
    #[must_use]
    pub fn is_too_many_requests(&self) -> bool {
        self.is(429, "TooManyRequests")
    }

    /// The resource version lies in the server's future, in any of its three dialects.
    #[must_use]
    pub fn is_too_large_resource_version(&self) -> bool {
        const TEXT: &str = "Too large resource version";
        self.status().is_some_and(|s| {
            let causes = s.details.as_ref().map(|d| d.causes.as_slice()).unwrap_or_default();
            let timeout = s.reason == "Timeout" || s.code == 504;
            causes.iter().any(|c| c.reason == "ResourceVersionTooLarge")
                || (timeout && (s.message.contains(TEXT) || causes.iter().any(|c| c.message.contains(TEXT))))
        })
    }

    /// No process listens at the server's address.
    #[must_use]
    pub fn is_connection_refused(&self) -> bool {
        matches!(self, Self::Transport { connection_refused: true, .. })
    }

    /// One event of a watch could not be decoded, and the watch goes on behind it.
    #[must_use]
    pub fn is_skippable(&self) -> bool {
        matches!(self, Self::Event { .. })
    }

    /// How long the server asks to wait before another try: a minute at most, whatever it asks for. A proxy that names an age
    /// must not blind a reflector for as long.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        const MOST: Duration = Duration::from_secs(60);
        Some(Duration::from_secs(self.status()?.details.as_ref()?.retry_after_seconds?).min(MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_of_an_unknown_reason_is_judged_by_its_code() {
        let of = |code, reason: &str| {
            Error::Api(Box::new(Status { code, reason: reason.to_owned(), ..Status::default() }))
        };
        for reason in ["", "NoSuchThing"] {
            assert!(of(404, reason).is_not_found() && !of(404, reason).is_conflict(), "{reason}");
            assert!(of(409, reason).is_conflict() && of(403, reason).is_forbidden(), "{reason}");
            assert!(of(429, reason).is_too_many_requests(), "{reason}");
        }
        assert!(!of(409, "NoSuchThing").is_already_exists() && of(409, "AlreadyExists").is_already_exists());
        assert!(!of(409, "AlreadyExists").is_conflict() && !of(404, "Conflict").is_not_found());
    }
}
