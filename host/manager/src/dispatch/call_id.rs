//! Numbers of calls, for logs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers all calls of this process.
static CALLS: AtomicU64 = AtomicU64::new(1);

/// The number of a new call.
pub(crate) fn next_call_id() -> u64 {
    CALLS.fetch_add(1, Relaxed)
}
