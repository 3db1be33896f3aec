//! [`Limits`] of a plugin's calls.

use std::time::Duration;

/// Bounds on every call of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall clock: the whole call, waiting included.
    pub call_timeout: Duration,
    /// CPU time that the guest itself consumes; waiting for the host costs none.
    pub cpu_per_call: Duration,
    /// Bytes of linear memory of one instance.
    pub memory: usize,
}

impl Limits {
    /// The most that `memory` may be, in bytes; also wasmtime's own fence in the instance pool.
    pub const MAX_MEMORY: usize = 1 << 30;
}

impl Default for Limits {
    fn default() -> Self {
        Self { call_timeout: Duration::from_secs(10), cpu_per_call: Duration::from_secs(1), memory: 64 << 20 }
    }
}
