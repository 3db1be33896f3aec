//! [`StoreLimiter`]: wasmtime calls it before a guest's memory or table grows.

use wasmtime::ResourceLimiter;

/// Limits memory and tables, and records a refused request so that the following trap is reported as a memory fault.
#[derive(Debug)]
pub(crate) struct StoreLimiter {
    pub(crate) max_memory: usize,
    /// The size in bytes of the memory.
    pub(crate) memory: usize,
    /// The size in bytes that a refused growth requested.
    pub(crate) refused: Option<usize>,
}

/// Maximum number of elements of a table; the function tables of large guests have some thousands.
const MAX_TABLE: usize = 20_000;

impl ResourceLimiter for StoreLimiter {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _max: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired <= self.max_memory {
            self.memory = desired;
            return Ok(true);
        }
        self.refused = Some(desired);
        // An error traps at once. With `false` the guest would see a failed allocation, and its own error would hide
        // the reason.
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
