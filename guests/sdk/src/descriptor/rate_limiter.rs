//! [`RateLimiter`]: delays between retries of failing keys. Part of a [`Descriptor`](crate::Descriptor).

use std::time::Duration;

use super::writer::{Fields, Writer};
use crate::duration;

/// An exponential delay per key, and a token bucket for all keys together; the longer of the two delays applies. The
/// defaults are client-go's: 5 ms to 1000 s, and 10 retries per second with bursts of 100.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RateLimiter(Fields);

impl RateLimiter {
    /// The host's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the delay after the first failure of a key; it doubles with each further failure.
    #[must_use]
    pub fn base_delay(mut self, delay: Duration) -> Self {
        self.0.set_text("baseDelay", &duration::format(delay));
        self
    }

    /// Sets the upper bound of the delay.
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.0.set_text("maxDelay", &duration::format(delay));
        self
    }

    /// Sets the retries per second of all keys together, and the burst.
    #[must_use]
    pub fn bucket(mut self, qps: f64, burst: u32) -> Self {
        self.0.set("qps", format!("{qps:?}"));
        self.0.set("burst", burst.to_string());
        self
    }

    /// Removes the bucket: only the delay of each key applies.
    #[must_use]
    pub fn no_bucket(mut self) -> Self {
        self.0.set("qps", "0.0".to_owned());
        self.0.remove("burst");
        self
    }

    pub(super) fn json(&self) -> String {
        let mut writer = Writer::new();
        self.0.write(&mut writer);
        writer.end()
    }
}
