//! [`Limits`]: the limits of a plugin's calls.

use std::time::Duration;

/// The limits of every call of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time of a call, including waits.
    pub call_timeout: Duration,
    /// CPU time of a call. Waiting for the host is not charged.
    pub cpu_per_call: Duration,
    /// Linear memory of one instance in bytes.
    pub memory: usize,
}

impl Limits {
    /// Maximum of `memory` in bytes, and the size of a memory slot in the instance pool.
    pub const MAX_MEMORY: usize = 1 << 30;
}

impl Default for Limits {
    fn default() -> Self {
        Self { call_timeout: Duration::from_secs(10), cpu_per_call: Duration::from_secs(1), memory: 64 << 20 }
    }
}
