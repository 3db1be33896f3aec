//! [`ResourceVersion`]: how resource versions compare, and how one is passed on.
//!
//! Resource versions of one resource are decimal integers that grow (KEP-5504); anything else, as some aggregated
//! servers send it, can be told apart but not ordered. The `Indexer` keeps in a watch channel how far it has come, so that a
//! reader can wait until its own write has come back.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Orders two resource versions of one resource; `None` when one of them is not a plain decimal number.
#[must_use]
pub fn compare_resource_versions(a: &str, b: &str) -> Option<Ordering> {
    Some(number(a)?.cmp(&number(b)?))
}

/// The number that a version is; `None` when it is empty, has a character that is not a digit, or is too large.
fn number(version: &str) -> Option<u64> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let number =
        version.bytes().try_fold(0, |number: u64, byte| number.checked_mul(10)?.checked_add(digit(byte)?));
    number.filter(|_| !version.is_empty())
}

/// A resource version; empty by default. One that is a number is kept as that, so that each event can pass one on without
/// an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceVersion(VersionForm);

#[derive(Debug, Clone, PartialEq, Eq)]
enum VersionForm {
    Number(u64),
    /// Not a number, or not written as this would write the number.
    Text(Arc<str>),
}

impl Default for ResourceVersion {
    fn default() -> Self {
        Self(VersionForm::Text(Arc::default()))
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        // As a number it would come back without leading zeros.
        Self(match number(text) {
            Some(number) if !text.starts_with('0') => VersionForm::Number(number),
            _ => VersionForm::Text(text.into()),
        })
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            VersionForm::Number(number) => number.fmt(f),
            VersionForm::Text(text) => text.fmt(f),
        }
    }
}

impl ResourceVersion {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, VersionForm::Text(text) if text.is_empty())
    }

    /// Whether it is known to be older than another version of the same resource.
    #[must_use]
    pub fn is_older_than(&self, other: &Self) -> bool {
        matches!((self.number(), other.number()), (Some(this), Some(other)) if this < other)
    }

    /// Whether what has come so far has seen a change made at `version`. A version that cannot be ordered is covered only
    /// by itself.
    pub(crate) fn covers(&self, version: &str) -> bool {
        match (self.number(), number(version)) {
            (Some(this), Some(other)) => this >= other,
            _ => matches!(&self.0, VersionForm::Text(text) if **text == *version && !version.is_empty()),
        }
    }

    pub(crate) fn to_text(&self) -> Arc<str> {
        match &self.0 {
            VersionForm::Number(number) => number.to_string().into(),
            VersionForm::Text(text) => text.clone(),
        }
    }

    fn number(&self) -> Option<u64> {
        match &self.0 {
            VersionForm::Number(number) => Some(*number),
            VersionForm::Text(text) => number(text),
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
            let version = ResourceVersion::from(text);
            assert_eq!((&*version.to_text(), version.to_string().as_str()), (text, text));
            assert_eq!(version.is_empty(), text.is_empty());
        }
        assert_eq!(ResourceVersion::default(), ResourceVersion::from(""));
    }

    #[test]
    fn only_numbers_are_older_than_others() {
        let older = |a: &str, b: &str| ResourceVersion::from(a).is_older_than(&b.into());
        assert!(older("9", "10") && older("07", "8") && older("0", "1"));
        assert!(
            !older("10", "9") && !older("7", "007") && !older("a", "b") && !older("", "1") && !older("1", "")
        );
    }

    #[test]
    fn a_later_version_covers_an_earlier_one_and_odd_ones_cover_only_themselves() {
        let seen = |version: &str| ResourceVersion::from(version);
        assert!(seen("10").covers("9") && seen("10").covers("10") && !seen("10").covers("11"));
        assert!(seen("010").covers("10") && seen("10").covers("010"));
        assert!(seen("abc").covers("abc") && !seen("abc").covers("abd") && !seen("").covers(""));
        assert!(!seen("10").covers("abc") && !seen("abc").covers("10") && !seen("10").covers(""));
    }
}
