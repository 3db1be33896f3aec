//! [`Timestamp`]: now, in the forms of the API.

use jiff::Timestamp as Instant;

/// A moment, written as the API writes times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp(pub(crate) Instant);

impl Timestamp {
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }

    /// `metav1.Time`: to the second.
    pub(crate) fn seconds(self) -> String {
        self.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    pub(crate) fn plus_seconds(self, seconds: i64) -> Self {
        let later = self.0.checked_add(jiff::SignedDuration::from_secs(seconds));
        Self(later.unwrap_or(Instant::MAX))
    }
}
