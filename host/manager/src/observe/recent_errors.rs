//! [`RecentErrors`]: the last different errors of a plugin, with counts.
//!
//! Invariant: a bounded number of texts, each of bounded length, whatever a guest says.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Texts that are kept.
const MOST: usize = 10;
/// Most bytes of a text.
const LONGEST: usize = 1024;

/// An error, and how often it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorView {
    /// The text.
    pub message: String,
    /// How often it came since it was first kept.
    pub count: u64,
    /// When it came last (RFC 3339).
    pub last: String,
}

/// The errors, the newest first.
#[derive(Debug, Default)]
pub(crate) struct RecentErrors(VecDeque<ErrorView>);

impl RecentErrors {
    /// Counts an error.
    pub(crate) fn record(&mut self, message: &str, now: Timestamp) {
        let message = &message[..message.floor_char_boundary(LONGEST)];
        let present = self.0.iter().position(|error| error.message == message);
        let mut error = present.and_then(|at| self.0.remove(at)).unwrap_or_else(|| ErrorView {
            message: message.to_owned(),
            count: 0,
            last: String::new(),
        });
        error.count += 1;
        error.last = now.to_string();
        self.0.push_front(error);
        self.0.truncate(MOST);
    }

    /// The errors, the newest first.
    pub(crate) fn view(&self) -> Vec<ErrorView> {
        self.0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_errors_are_counted_and_the_oldest_go() {
        let mut errors = RecentErrors::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        errors.record("a", at(1));
        errors.record("b", at(2));
        errors.record("a", at(3));
        let view = |errors: &RecentErrors| -> Vec<(String, u64)> {
            errors.view().into_iter().map(|error| (error.message, error.count)).collect()
        };
        assert_eq!(view(&errors), [("a".to_owned(), 2), ("b".to_owned(), 1)]);
        assert_eq!(errors.view()[0].last, at(3).to_string());
        (0..100).for_each(|n| errors.record(&format!("{n} {}", "ü".repeat(n * 100)), at(n as i64)));
        assert_eq!(errors.view().len(), MOST);
        assert!(errors.view().iter().all(|error| error.message.len() <= LONGEST));
    }
}
