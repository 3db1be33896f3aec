//! [`FirstList`]: whether all pumps of a watch have delivered its first list. The last one tells the guest.

use std::sync::atomic::{AtomicUsize, Ordering::AcqRel};

/// Shared by the pumps of a watch, one for each informer of its kind.
pub(crate) struct FirstList {
    /// Pumps that have not delivered their part.
    left: AtomicUsize,
}

impl FirstList {
    pub(crate) fn new(pumps: usize) -> Self {
        Self { left: AtomicUsize::new(pumps) }
    }

    /// A pump has delivered its part; `true` for the last.
    pub(super) fn delivered(&self) -> bool {
        self.left.fetch_sub(1, AcqRel) == 1
    }
}
