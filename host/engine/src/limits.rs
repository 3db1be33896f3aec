//! [`StoreLimiter`]: wasmtime calls it before a guest's memory or table grows.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use crate::guest_memory::{GuestMemory, NoMemory};

/// Limits memory and tables, and records a refused request so that the following trap is reported with its reason.
#[derive(Debug)]
pub(crate) struct StoreLimiter {
    max_memory: usize,
    /// The size in bytes of the memories together, as it is reserved in `all`.
    memory: usize,
    /// The account of all instances.
    all: Arc<GuestMemory>,
    refused: Option<Refused>,
}

/// A growth that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The instance would have more than its limit: the size in bytes that it requested.
    OverLimit(usize),
    /// The instance would have more than one instance may have on this host: the size that it requested, and the most.
    OverBound(usize, u64),
    /// All instances together would have more than the host's bound.
    HostBusy,
}

impl StoreLimiter {
    pub(crate) fn new(max_memory: usize, all: Arc<GuestMemory>) -> Self {
        Self { max_memory, memory: 0, all, refused: None }
    }

    /// The size in bytes of the memories together.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// The growth that was refused in this call.
    pub(crate) fn refused(&self) -> Option<Refused> {
        self.refused
    }

    /// A call begins.
    pub(crate) fn begin(&mut self) {
        self.refused = None;
    }

    /// Refuses a growth. An error traps at once: with `false` the guest would see a failed allocation, and its own error would
    /// hide the reason.
    fn refuse(&mut self, refused: Refused) -> wasmtime::Result<bool> {
        self.refused = Some(refused);
        Err(wasmtime::Error::msg("memory limit"))
    }
}

impl Drop for StoreLimiter {
    fn drop(&mut self) {
        self.all.release(self.memory as u64);
    }
}

/// Maximum number of elements of a table; the function tables of large guests have some thousands.
const MAX_TABLE: usize = 20_000;

impl ResourceLimiter for StoreLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        max: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if max.is_some_and(|max| desired > max) {
            // The memory's own declared maximum: `memory.grow` answers -1, and nothing is reserved.
            return Ok(false);
        }
        let growth = desired.saturating_sub(current);
        let memory = self.memory.saturating_add(growth);
        if memory > self.max_memory {
            return self.refuse(Refused::OverLimit(memory));
        }
        match self.all.reserve(growth as u64, memory as u64) {
            Ok(()) => {}
            Err(NoMemory::TooLarge(most)) => return self.refuse(Refused::OverBound(memory, most)),
            Err(NoMemory::Full) => return self.refuse(Refused::HostBusy),
        }
        self.memory = memory;
        Ok(true)
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
