//! [`Limits`] of a plugin's calls, and the limiter that wasmtime asks before a guest's memory or tables grow.

use std::time::Duration;

use wasmtime::ResourceLimiter;

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

/// The most that `limits.memory` may ask for; also wasmtime's own fence in the instance pool.
pub(crate) const MAX_MEMORY: usize = 1 << 30;

impl Limits {
    /// The most that `memory` may be, in bytes.
    pub const MAX_MEMORY: usize = MAX_MEMORY;
}

impl Default for Limits {
    fn default() -> Self {
        Self { call_timeout: Duration::from_secs(10), cpu_per_call: Duration::from_secs(1), memory: 64 << 20 }
    }
}

/// Remembers what was refused, so that the trap that follows can be named.
#[derive(Debug)]
pub(crate) struct Limiter {
    pub(crate) max_memory: usize,
    /// Bytes that a refused growth asked for.
    pub(crate) refused: Option<usize>,
}

/// Table elements of one instance: function tables of large guests have some thousands.
const MAX_TABLE: usize = 20_000;

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _max: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired <= self.max_memory {
            return Ok(true);
        }
        self.refused = Some(desired);
        // An error traps at once; answering `false` would leave the guest to fail in ways that hide the reason.
        Err(wasmtime::Error::msg("memory limit"))
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _max: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= MAX_TABLE)
    }
}
