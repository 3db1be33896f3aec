//! [`Schedule`]: a key that is reconciled from time to time, with the reason `scheduled`. Part of a
//! [`Descriptor`](crate::Descriptor).

use std::time::Duration;

use serde::Serialize;

use crate::{Key, duration};

/// A key that is reconciled from time to time, whether anything changed or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Schedule {
    every: String,
    key: String,
}

impl Schedule {
    /// Reconciles `key` in this interval. The key need not be that of an object.
    pub fn every(interval: Duration, key: &Key) -> Self {
        Self { every: duration::format(interval), key: key.to_string() }
    }
}
