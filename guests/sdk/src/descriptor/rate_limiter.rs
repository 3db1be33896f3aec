//! [`RateLimiter`]: how the tries of failing keys are spaced out. Part of a [`Descriptor`](crate::Descriptor).

use std::time::Duration;

use serde::Serialize;

use crate::duration;

/// Per-key exponential delay and a bucket for all keys together; the longer of the two waits counts. What is not
/// set is as with client-go: 5 ms to 1000 s, 10 tries a second in bursts of 100.
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

    /// Delay after the first failure of a key; it doubles with each further one.
    #[must_use]
    pub fn base_delay(mut self, delay: Duration) -> Self {
        self.base_delay = Some(delay);
        self
    }

    /// The delay does not grow beyond this.
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = Some(delay);
        self
    }

    /// How many tries a second all keys together may take, and how many may come at once.
    #[must_use]
    pub fn bucket(mut self, qps: f64, burst: u32) -> Self {
        self.qps = Some(qps);
        self.burst = Some(burst);
        self
    }

    /// No bucket: each key has its own delay and no other.
    #[must_use]
    pub fn no_bucket(mut self) -> Self {
        self.qps = Some(0.0);
        self.burst = None;
        self
    }
}
