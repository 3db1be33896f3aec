//! [`RateLimiter`]: delays between retries of failing keys. Part of a [`Descriptor`](crate::Descriptor).

use std::time::Duration;

use serde::Serialize;

use crate::duration;

/// An exponential delay per key, and a token bucket for all keys together; the longer of the two delays applies. The
/// defaults are client-go's: 5 ms to 1000 s, and 10 retries per second with bursts of 100.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimiter {
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "duration::serialize")]
    base_delay: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "duration::serialize")]
    max_delay: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    qps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
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
        self.qps = Some(qps);
        self.burst = Some(burst);
        self
    }

    /// Removes the bucket: only the delay of each key applies.
    #[must_use]
    pub fn no_bucket(mut self) -> Self {
        self.qps = Some(0.0);
        self.burst = None;
        self
    }
}
