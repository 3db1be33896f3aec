//! The errors of calls to the host, in two families: a [`Refusal`] comes from the host, which sent nothing or, if it is
//! [unavailable](Refusal::is_unavailable), does not know what became of a write; an [`ApiStatus`] is the API server's
//! answer. [`Error`] is either, or an error of the SDK's own: a body that does not have the form of its type, or an object
//! with another controller.

use std::fmt;
use std::time::Duration;

use crate::bindings::imports::types as raw;
use crate::{Failure, Key, Kind, OwnerReference};

/// Why the host refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The manifest does not grant it.
    Forbidden,
    /// An argument is malformed.
    Invalid,
    /// The descriptor watches no such kind, so the cache does not have it.
    NotWatched,
    /// The descriptor has no such index.
    UnknownIndex,
    /// The call would exceed a bound of the contract or a limit of the manifest. The message names it.
    OverLimit,
    /// The host cannot do it now: it has no cluster, is not the leader or holder of the plugin's shard, or got no response.
    /// A live write may have been done nevertheless: read before you repeat one that must not be done twice.
    Unavailable,
    /// This host does not have what was asked for.
    Unsupported,
}

impl RefusalReason {
    /// The reason as text, such as `not-watched`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::Invalid => "invalid",
            Self::NotWatched => "not-watched",
            Self::UnknownIndex => "unknown-index",
            Self::OverLimit => "over-limit",
            Self::Unavailable => "unavailable",
            Self::Unsupported => "unsupported",
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal of the host. Nothing was sent, and nothing was changed; only with [`Unavailable`](RefusalReason::Unavailable) of a
/// live write it is not known whether the write was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Machine-readable.
    pub reason: RefusalReason,
    /// The cause and the remedy, human-readable.
    pub message: String,
}

impl Refusal {
    /// Whether the manifest does not grant the call. The message contains the missing permission.
    pub fn is_forbidden(&self) -> bool {
        self.reason == RefusalReason::Forbidden
    }

    /// Whether the plugin's descriptor has no watch of the kind.
    pub fn is_not_watched(&self) -> bool {
        self.reason == RefusalReason::NotWatched
    }

    /// Whether an argument is malformed.
    pub fn is_invalid(&self) -> bool {
        self.reason == RefusalReason::Invalid
    }

    /// Whether the call would exceed a bound or a limit.
    pub fn is_over_limit(&self) -> bool {
        self.reason == RefusalReason::OverLimit
    }

    /// Whether the same call may succeed later. A live write may have been done: the response may be lost.
    pub fn is_unavailable(&self) -> bool {
        self.reason == RefusalReason::Unavailable
    }

    /// Whether the refusal lasts until the plugin, its manifest or the call changes. Limits and the state of the host
    /// are not of that kind: a queue that is full has room later.
    pub(crate) fn is_lasting(&self) -> bool {
        !matches!(self.reason, RefusalReason::OverLimit | RefusalReason::Unavailable)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { reason: RefusalReason::Invalid, message: message.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.reason)
    }
}

impl std::error::Error for Refusal {}

/// An answer of the API server that is no success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiStatus {
    /// HTTP status code.
    pub code: u16,
    /// `reason` of the Status, such as `NotFound`; may be empty.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Single causes, for example one for each invalid field.
    pub causes: Vec<StatusCause>,
    /// Delay before a retry, if the server asked for one.
    pub retry_after: Option<Duration>,
}

/// One cause of an [`ApiStatus`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusCause {
    /// Machine-readable, such as `FieldValueRequired`; may be empty.
    pub reason: String,
    /// Human-readable; may be empty.
    pub message: String,
    /// The field that it is about, such as `spec.replicas`; may be empty.
    pub field: String,
}

impl fmt::Display for ApiStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, HTTP {})", self.message, self.reason, self.code)
    }
}

impl std::error::Error for ApiStatus {}

/// A JSON text that does not have the form of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    message: String,
}

impl DecodeError {
    pub(crate) fn new(what: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self { message: format!("{what}: {error}") }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DecodeError {}

/// An object has another controller, and an object has at most one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlreadyOwned {
    /// The kind of the object.
    pub kind: Kind,
    /// The key of the object.
    pub key: Key,
    /// Its controller.
    pub controller: OwnerReference,
    message: String,
}

impl AlreadyOwned {
    pub(crate) fn new(kind: Kind, key: Key, controller: OwnerReference) -> Self {
        let (object, other, name) = (kind.kind(), &controller.kind, &controller.name);
        let message =
            format!("{object} {key} has another controller, {other} {name}: rename or delete one of them");
        Self { kind, key, controller, message }
    }
}

impl fmt::Display for AlreadyOwned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for AlreadyOwned {}

/// The error of a live call, or of a call that reads or writes a typed object. `?` makes a [`Failure`] of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The host refused the call: a permission is missing, or the call is malformed; or it got no response. See [`Refusal`].
    Refused(Refusal),
    /// The API server answered with an error.
    Api(ApiStatus),
    /// The object does not have the form of the type.
    Decode(DecodeError),
    /// The object has another controller. Nothing was sent.
    AlreadyOwned(Box<AlreadyOwned>),
    /// A closure of the plugin failed, such as that of [`Context::create_or_update`](crate::Context::create_or_update).
    Failed(Failure),
}

impl Error {
    /// The reason as text: that of the API server (`NotFound`), that of the host (`forbidden`), `decode`, `already-owned` or
    /// `failed`.
    pub fn reason(&self) -> &str {
        match self {
            Self::Refused(refusal) => refusal.reason.as_str(),
            Self::Api(status) => &status.reason,
            Self::Decode(_) => "decode",
            Self::AlreadyOwned(_) => "already-owned",
            Self::Failed(_) => "failed",
        }
    }

    /// The HTTP status code; 0 if the API server did not answer.
    pub fn code(&self) -> u16 {
        match self {
            Self::Api(status) => status.code,
            _ => 0,
        }
    }

    /// The human-readable message, without reason and code.
    pub fn message(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.message,
            Self::Api(status) => &status.message,
            Self::Decode(error) => &error.message,
            Self::AlreadyOwned(error) => &error.message,
            Self::Failed(failure) => failure.message(),
        }
    }

    /// The refusal of the host, if it is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The answer of the API server, if it is one.
    pub fn status(&self) -> Option<&ApiStatus> {
        match self {
            Self::Api(status) => Some(status),
            _ => None,
        }
    }

    /// Whether the object, its namespace or its kind does not exist.
    pub fn is_not_found(&self) -> bool {
        self.has_reason(&["NotFound"])
    }

    /// Whether the object was changed concurrently, or (with apply) another manager owns a field.
    pub fn is_conflict(&self) -> bool {
        self.has_reason(&["Conflict"])
    }

    /// Whether an object of this name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.has_reason(&["AlreadyExists"])
    }

    /// Whether the object has another controller.
    pub fn is_already_owned(&self) -> bool {
        matches!(self, Self::AlreadyOwned(_))
    }

    /// Whether the plugin's manifest ([`Error::is_grant_missing`]) or the API server does not allow the call.
    pub fn is_forbidden(&self) -> bool {
        self.has_reason(&["Forbidden"]) || self.is_grant_missing()
    }

    /// Whether the manifest does not grant the call. Nothing was sent; the message contains the missing permission.
    pub fn is_grant_missing(&self) -> bool {
        self.refusal().is_some_and(Refusal::is_forbidden)
    }

    /// Whether the API server or the host rejected the object or the call as malformed.
    pub fn is_invalid(&self) -> bool {
        self.has_reason(&["Invalid", "BadRequest"]) || self.refusal().is_some_and(Refusal::is_invalid)
    }

    /// Whether the resource version or the continue token has expired. Start the list again.
    pub fn is_expired(&self) -> bool {
        self.has_reason(&["Expired", "Gone"])
    }

    /// Whether the server is unreachable, overloaded or slow, so that the same call may succeed later. A write may have
    /// taken effect without a response.
    pub fn is_unavailable(&self) -> bool {
        const REASONS: &[&str] =
            &["ServiceUnavailable", "TooManyRequests", "Timeout", "ServerTimeout", "InternalError"];
        self.has_reason(REASONS) || self.refusal().is_some_and(Refusal::is_unavailable)
    }

    fn has_reason(&self, reasons: &[&str]) -> bool {
        self.status().is_some_and(|status| reasons.contains(&status.reason.as_str()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Api(status) => status.fmt(f),
            Self::Decode(error) => error.fmt(f),
            Self::AlreadyOwned(error) => error.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ApiStatus> for Error {
    fn from(status: ApiStatus) -> Self {
        Self::Api(status)
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl From<AlreadyOwned> for Error {
    fn from(error: AlreadyOwned) -> Self {
        Self::AlreadyOwned(Box::new(error))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Failure::from(error).into()
    }
}

impl From<raw::Refusal> for Refusal {
    fn from(raw: raw::Refusal) -> Self {
        let reason = match raw.reason {
            raw::RefusalReason::Forbidden => RefusalReason::Forbidden,
            raw::RefusalReason::Invalid => RefusalReason::Invalid,
            raw::RefusalReason::NotWatched => RefusalReason::NotWatched,
            raw::RefusalReason::UnknownIndex => RefusalReason::UnknownIndex,
            raw::RefusalReason::OverLimit => RefusalReason::OverLimit,
            raw::RefusalReason::Unavailable => RefusalReason::Unavailable,
            raw::RefusalReason::Unsupported => RefusalReason::Unsupported,
        };
        Self { reason, message: raw.message }
    }
}

impl From<raw::Refusal> for Error {
    fn from(raw: raw::Refusal) -> Self {
        Self::Refused(raw.into())
    }
}

impl From<raw::ClientError> for Error {
    fn from(raw: raw::ClientError) -> Self {
        match raw {
            raw::ClientError::Refused(refusal) => refusal.into(),
            raw::ClientError::Api(status) => Self::Api(ApiStatus {
                code: status.code,
                reason: status.reason,
                message: status.message,
                causes: status.causes.into_iter().map(Into::into).collect(),
                retry_after: status.retry_after.map(Duration::from_millis),
            }),
        }
    }
}

impl From<raw::StatusCause> for StatusCause {
    fn from(raw: raw::StatusCause) -> Self {
        Self { reason: raw.reason, message: raw.message, field: raw.field }
    }
}
