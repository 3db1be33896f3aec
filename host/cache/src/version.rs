//! Resource versions: how they compare, and how far a store has come.
//!
//! Resource versions of one resource are decimal integers that grow (KEP-5504); anything else, as some aggregated
//! servers send it, can be told apart but not ordered. The `Indexer` keeps a [`Seen`] in a watch channel, so that a
//! reader can wait until its own write has come back.

use std::cmp::Ordering;
use std::sync::Arc;

/// Orders two resource versions of one resource; `None` when one of them is not a plain decimal number.
#[must_use]
pub fn compare_resource_versions(a: &str, b: &str) -> Option<Ordering> {
    Some(number(a)?.cmp(&number(b)?))
}

/// Whether `a` is known to be older than `b`.
pub(crate) fn is_older(a: &str, b: &str) -> bool {
    compare_resource_versions(a, b) == Some(Ordering::Less)
}

fn number(version: &str) -> Option<u64> {
    // `parse` would take a sign.
    version.bytes().all(|b| b.is_ascii_digit()).then(|| version.parse().ok())?
}

/// A resource version that is passed on for each event: no allocation for those that are numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Version {
    /// None yet.
    #[default]
    None,
    Number(u64),
    Text(Arc<str>),
}

impl From<&str> for Version {
    fn from(text: &str) -> Self {
        // As text it would come back without leading zeros.
        match number(text) {
            Some(number) if !text.starts_with('0') => Self::Number(number),
            _ => Self::Text(text.into()),
        }
    }
}

impl Version {
    pub(crate) fn to_text(&self) -> Option<Arc<str>> {
        match self {
            Self::None => None,
            Self::Number(number) => Some(number.to_string().into()),
            Self::Text(text) => Some(text.clone()),
        }
    }
}

/// How far a store has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Everything up to this version is in the store; empty before the first list.
    pub(crate) version: Arc<str>,
}

impl Seen {
    /// Whether a change made at `version` must be in the store. A version that cannot be ordered is covered only by
    /// itself.
    pub(crate) fn covers(&self, version: &str) -> bool {
        match compare_resource_versions(&self.version, version) {
            Some(order) => order != Ordering::Less,
            None => !version.is_empty() && *self.version == *version,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers_not_as_text() {
        assert_eq!(compare_resource_versions("9", "10"), Some(Ordering::Less));
        assert_eq!(compare_resource_versions("10", "10"), Some(Ordering::Equal));
        for odd in ["", "+1", "a", "1a", "99999999999999999999999"] {
            assert_eq!(compare_resource_versions(odd, "1"), None, "{odd:?}");
        }
    }

    #[test]
    fn a_version_comes_back_as_the_text_it_was() {
        for text in ["", "0", "7", "007", "18446744073709551615", "18446744073709551616", "abc", "+1"] {
            assert_eq!(Version::from(text).to_text().as_deref(), Some(text));
        }
        assert_eq!(Version::default().to_text(), None);
    }

    #[test]
    fn a_later_version_covers_an_earlier_one_and_odd_ones_cover_only_themselves() {
        let seen = |version: &str| Seen { version: version.into() };
        assert!(seen("10").covers("9") && seen("10").covers("10") && !seen("10").covers("11"));
        assert!(seen("abc").covers("abc") && !seen("abc").covers("abd") && !seen("").covers(""));
    }
}
