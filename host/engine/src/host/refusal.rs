//! [`Refusal`]: the host's answer to a call of an import that it does not make, or of which it does not know the result.

use std::fmt;

/// Why the host refuses a call of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// The manifest does not grant it.
    Forbidden,
    /// An argument is malformed.
    Invalid,
    /// The descriptor watches no such kind.
    NotWatched,
    /// The descriptor has no such index.
    UnknownIndex,
    /// It would exceed a bound.
    OverLimit,
    /// The host cannot do it now, or got no response.
    Unavailable,
    /// This host does not have what was asked for.
    Unsupported,
}

/// The refusal of a call of an import. Nothing was sent or changed; after [`RefusalReason::Unavailable`] of a live call this is
/// not known, because the response may have been lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Machine-readable.
    pub reason: RefusalReason,
    /// The cause and the remedy, human-readable.
    pub message: String,
}

impl Refusal {
    /// The manifest does not grant it.
    pub fn forbidden(message: impl fmt::Display) -> Self {
        Self { reason: RefusalReason::Forbidden, message: message.to_string() }
    }

    /// An argument is malformed.
    pub fn invalid(message: impl fmt::Display) -> Self {
        Self { reason: RefusalReason::Invalid, message: message.to_string() }
    }

    /// It would exceed a bound.
    pub fn over_limit(message: impl fmt::Display) -> Self {
        Self { reason: RefusalReason::OverLimit, message: message.to_string() }
    }

    /// This host does not have it.
    pub fn unsupported(message: impl fmt::Display) -> Self {
        Self { reason: RefusalReason::Unsupported, message: message.to_string() }
    }

    /// The host cannot do it now.
    pub fn unavailable(message: impl fmt::Display) -> Self {
        Self { reason: RefusalReason::Unavailable, message: message.to_string() }
    }
}
