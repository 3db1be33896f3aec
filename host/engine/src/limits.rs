//! The limiter that wasmtime asks before a guest's memory or tables grow.

use wasmtime::ResourceLimiter;

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
