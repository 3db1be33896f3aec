//! [`RateLimiter`]: delays between retries of failing keys. Part of a [`Descriptor`](crate::Descriptor).

use std::time::Duration;

use super::writer::Writer;
use crate::duration;

/// An exponential delay per key, and a token bucket for all keys together; the longer of the two delays applies. The
/// defaults are client-go's: 5 ms to 1000 s, and 10 retries per second with bursts of 100.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RateLimiter {
    base_delay: Option<Duration>,
    max_delay: Option<Duration>,
    /// The number as a JSON text: most components have no code for numbers with a point.
    qps: Option<String>,
    burst: Option<u32>,
}

impl RateLimiter {
    /// The host's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the delay after the first failure of a key; it doubles with each further failure.
    #[must_use]
    pub fn base_delay(mut self, delay: Duration) -> Self {
        self.base_delay = Some(delay);
        self
    }

    /// Sets the upper bound of the delay.
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = Some(delay);
        self
    }

    /// Sets the retries per second of all keys together, and the burst.
    #[must_use]
    pub fn bucket(mut self, qps: f64, burst: u32) -> Self {
        self.qps = Some(format!("{qps:?}"));
        self.burst = Some(burst);
        self
    }

    /// Removes the bucket: only the delay of each key applies.
    #[must_use]
    pub fn no_bucket(mut self) -> Self {
        self.qps = Some("0.0".to_owned());
        self.burst = None;
        self
    }

    pub(super) fn json(&self) -> String {
        let mut writer = Writer::new();
        writer.optional("baseDelay", self.base_delay.map(duration::format).as_deref());
        writer.optional("maxDelay", self.max_delay.map(duration::format).as_deref());
        if let Some(qps) = &self.qps {
            writer.raw("qps", qps);
        }
        writer.number("burst", self.burst);
        writer.end()
    }
}
