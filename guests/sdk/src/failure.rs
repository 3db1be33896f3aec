//! [`Failure`]: the error of a reconcile or an event handler, and the conversion of the SDK's errors into it by `?`.
//!
//! Terminal is what only a change can mend: refusals of the *host* (a permission, watch or index is missing, or a call
//! is malformed), which last until the plugin is reloaded, and a reload reconciles every key (unless the manifest says
//! `onReload: keep`); and bodies that do not have the form of their type, which last until the object changes. All
//! other errors become transient: an object with another controller, which may go without an event for this key, conflicts, timeouts, limits, and also `Forbidden` or `Invalid` of the API server,
//! since roles, quotas and other objects may change without an event for this key. The rate limiter delays the retries.

use std::fmt;
use std::time::Duration;

use crate::bindings::imports::types as raw;
use crate::duration::milliseconds;
use crate::{DecodeError, Error, Refusal};

/// The error of a reconcile or an event handler.
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

    /// The minimum delay before the retry, if there is one.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self { message: refusal.to_string(), terminal: refusal.is_lasting(), retry_after: None }
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::terminal(error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => refusal.into(),
            Error::Decode(error) => error.into(),
            Error::AlreadyOwned(error) => Self::transient(error.to_string()),
            Error::Failed(failure) => failure,
            Error::Api(status) => {
                Self { message: status.to_string(), terminal: false, retry_after: status.retry_after }
            }
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::terminal(format!("unexpected JSON: {error}"))
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
            retry: if failure.terminal { raw::Retry::Terminal } else { raw::Retry::Transient },
            retry_after: failure.retry_after.map(milliseconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ApiStatus, RefusalReason};

    fn api(code: u16, reason: &str) -> ApiStatus {
        ApiStatus { code, reason: reason.into(), message: "m".into(), causes: Vec::new(), retry_after: None }
    }

    fn refused(reason: RefusalReason) -> Failure {
        Refusal { reason, message: "m".into() }.into()
    }

    #[test]
    fn what_the_host_refuses_for_good_is_terminal_and_what_the_server_answers_is_not() {
        for (code, reason) in [(409, "Conflict"), (403, "Forbidden"), (404, "NotFound"), (422, "Invalid")] {
            assert!(!Failure::from(Error::from(api(code, reason))).is_terminal(), "{reason}");
        }
        use RefusalReason as R;
        for reason in [R::Forbidden, R::Invalid, R::NotWatched, R::UnknownIndex, R::Unsupported] {
            assert!(refused(reason).is_terminal(), "{reason}");
        }
        for reason in [R::OverLimit, R::Unavailable] {
            assert!(!refused(reason).is_terminal(), "{reason}");
        }
    }

    #[test]
    fn a_body_of_another_form_is_terminal() {
        let error = serde_json::from_str::<u32>("\"a\"").unwrap_err();
        assert!(Failure::from(DecodeError::new("/spec/replicas", &error)).is_terminal());
        assert!(Failure::from(error).is_terminal());
    }

    #[test]
    fn a_wait_the_server_asks_for_is_kept() {
        let mut status = api(429, "TooManyRequests");
        status.retry_after = Some(Duration::from_secs(2));
        let raw = raw::Failure::from(Failure::from(Error::from(status)).while_doing("listing pods"));
        assert_eq!((raw.retry, raw.retry_after), (raw::Retry::Transient, Some(2_000)));
        assert_eq!(raw.message, "listing pods: m (TooManyRequests, HTTP 429)");
    }
}
