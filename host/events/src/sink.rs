//! [`EventSink`]: the destination of events, and its errors.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pilothouse_client::Error;

use crate::event::Event;

/// Stores events. Calls for one event never overlap; a series sink may be called for several events at once.
pub trait EventSink: Send + Sync + 'static {
    /// Stores an event that is not there yet.
    fn create(&self, event: &Event) -> impl Future<Output = Result<Recorded, SinkError>> + Send;

    /// Changes the event of that name by a strategic merge patch, which holds the changed fields of `event`.
    fn patch(&self, event: &Event, patch: &[u8]) -> impl Future<Output = Result<Recorded, SinkError>> + Send;
}

impl<S: EventSink> EventSink for Arc<S> {
    fn create(&self, event: &Event) -> impl Future<Output = Result<Recorded, SinkError>> + Send {
        S::create(self, event)
    }

    fn patch(&self, event: &Event, patch: &[u8]) -> impl Future<Output = Result<Recorded, SinkError>> + Send {
        S::patch(self, event, patch)
    }
}

/// An event as a sink keeps it, for the correlator to count on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its name.
    pub name: Arc<str>,
    /// Its count.
    pub count: u32,
    /// When it occurred first.
    pub first_timestamp: Timestamp,
}

impl From<&Event> for Recorded {
    /// As it was given.
    fn from(event: &Event) -> Self {
        Self { name: Arc::clone(&event.name), count: event.count, first_timestamp: event.first_timestamp }
    }
}

/// Why a sink has not stored an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// There is no event of that name: it is created instead of patched. From a create it is as [`Rejected`](Self::Rejected).
    #[error("not found: {0}")]
    NotFound(String),
    /// There is an event of that name.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// Its namespace is being deleted; not tried again, and not worth a warning.
    #[error("the namespace is being terminated: {0}")]
    NamespaceTerminating(String),
    /// Refused; another try would be refused too.
    #[error("rejected: {0}")]
    Rejected(String),
    /// It cannot even be sent; another try could not either.
    #[error("cannot be sent: {0}")]
    Construction(String),
    /// It may go well another time.
    #[error("not stored: {message}")]
    Transient {
        /// What went wrong.
        message: String,
        /// How long the sink asks to wait; `None` leaves that to the retry policy.
        retry_after: Option<Duration>,
        /// The request certainly did not reach the sink, so the event was not written.
        unsent: bool,
    },
}

impl From<Error> for SinkError {
    /// A `Status` is final unless it has `Retry-After`. Requests without an answer, or with one that is not from an API server,
    /// are retried.
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let terminating = |error: &Error| {
            let causes =
                error.status().and_then(|status| status.details.as_ref()).map(|details| &details.causes);
            causes.is_some_and(|causes| causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
        };
        match &error {
            Error::Config(_) | Error::Request(_) => Self::Construction(message),
            Error::Transport { unsent, .. } => {
                Self::Transient { message, retry_after: None, unsent: *unsent }
            }
            Error::Protocol { .. } | Error::Event { .. } => {
                Self::Transient { message, retry_after: None, unsent: false }
            }
            Error::Api(_) if error.is_not_found() => Self::NotFound(message),
            Error::Api(_) if error.is_already_exists() => Self::AlreadyExists(message),
            Error::Api(_) if terminating(&error) => Self::NamespaceTerminating(message),
            Error::Api(status) if status.code == 429 || status.code >= 500 => match error.retry_after() {
                Some(after) => Self::Transient { message, retry_after: Some(after), unsent: false },
                None => Self::Rejected(message),
            },
            Error::Api(_) => Self::Rejected(message),
        }
    }
}
