//! [`Schedule`]: a key that is reconciled periodically, with the reason `scheduled`. Part of a
//! [`Descriptor`](crate::Descriptor).

use std::time::Duration;

use super::writer::Writer;
use crate::{Key, duration};

/// A key that is reconciled periodically, without a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    every: String,
    key: String,
}

impl Schedule {
    /// Reconciles `key` in this interval, which must be at least 100 ms. The key need not belong to an object.
    pub fn every(interval: Duration, key: &Key) -> Self {
        Self { every: duration::format(interval), key: key.to_string() }
    }

    pub(super) fn json(&self) -> String {
        let mut writer = Writer::new();
        writer.text("every", &self.every);
        writer.text("key", &self.key);
        writer.end()
    }
}
