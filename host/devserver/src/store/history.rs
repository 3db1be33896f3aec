//! [`History`]: the last changes of one resource, bounded by their number and by their bytes.
//!
//! Invariants: a history holds every change after `forgotten`; the budget's `used` is the sum of the sizes of all changes
//! that histories hold.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Change, Inner};

/// How many changes a feed is given at once: as many as a watch holds whose client does not read.
pub(super) const MAX_TAKEN: usize = 32;

/// How much history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HistoryLimits {
    /// Changes of one resource.
    pub(crate) changes: usize,
    /// Bytes of the changes of one resource.
    pub(crate) bytes: usize,
    /// Bytes of the changes of all resources together.
    pub(crate) total_bytes: usize,
}

impl HistoryLimits {
    /// The default of `bytes`.
    pub(crate) const BYTES: usize = 64 << 20;
    /// The default of `total_bytes`.
    pub(crate) const TOTAL_BYTES: usize = 256 << 20;
}

impl From<usize> for HistoryLimits {
    /// A number of changes with the default limits of bytes.
    fn from(changes: usize) -> Self {
        Self { changes, bytes: Self::BYTES, total_bytes: Self::TOTAL_BYTES }
    }
}

/// The limits of all histories of a store, and how much of them is used.
#[derive(Debug)]
pub(super) struct HistoryBudget {
    limits: HistoryLimits,
    used: AtomicUsize,
}

impl HistoryBudget {
    pub(super) fn new(limits: HistoryLimits) -> Arc<Self> {
        Arc::new(Self { limits, used: AtomicUsize::new(0) })
    }
}

#[derive(Debug)]
pub(super) struct History {
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
    budget: Arc<HistoryBudget>,
    /// How many changes were dropped from the front.
    dropped: u64,
    /// The history is whole after this revision.
    forgotten: u64,
}

impl History {
    pub(super) fn new(budget: Arc<HistoryBudget>, forgotten: u64) -> Self {
        Self { changes: VecDeque::new(), bytes: 0, budget, dropped: 0, forgotten }
    }

    /// Adds the newest change, which is kept in any case: a watch that keeps up misses nothing.
    pub(super) fn push(&mut self, change: Arc<Change>) {
        let size = change.size();
        self.bytes += size;
        self.budget.used.fetch_add(size, Ordering::Relaxed);
        self.changes.push_back(change);
        let limits = self.budget.limits;
        while self.changes.len() > 1 && (self.changes.len() > limits.changes || self.bytes > limits.bytes) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.changes.pop_front() {
            let size = oldest.size();
            self.bytes -= size;
            self.budget.used.fetch_sub(size, Ordering::Relaxed);
            self.forgotten = oldest.revision();
            self.dropped += 1;
        }
    }

    /// Forgets all changes, and that there were none before a revision.
    pub(super) fn forget(&mut self, revision: u64) {
        while !self.changes.is_empty() {
            self.drop_oldest();
        }
        self.forgotten = revision;
    }

    /// The number of the first change after a revision; `None` if the history does not reach so far.
    pub(super) fn after(&self, revision: u64) -> Option<u64> {
        if revision < self.forgotten {
            return None;
        }
        Some(self.dropped + self.changes.partition_point(|c| c.revision() <= revision) as u64)
    }

    /// At most [`MAX_TAKEN`] changes from a number on, which moves behind them; `None` if some of them are forgotten.
    pub(super) fn since(&self, next: &mut u64) -> Option<Vec<Arc<Change>>> {
        next.checked_sub(self.dropped)?;
        let changes: Vec<_> = self.from(*next).take(MAX_TAKEN).cloned().collect();
        *next += changes.len() as u64;
        Some(changes)
    }

    /// The changes from a number on.
    pub(super) fn from(&self, number: u64) -> impl Iterator<Item = &Arc<Change>> {
        let index = number.saturating_sub(self.dropped) as usize;
        self.changes.range(index.min(self.changes.len())..)
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Inner {
    /// Drops the oldest changes, of whatever resource, while all together are beyond their limit.
    pub(super) fn trim_histories(&mut self, budget: &HistoryBudget) {
        while budget.used.load(Ordering::Relaxed) > budget.limits.total_bytes {
            let newest = self.revision;
            let revision = |history: &History| history.changes.front().map(|change| change.revision());
            let oldest = self
                .tables
                .values_mut()
                .filter_map(|table| revision(&table.history).map(|oldest| (oldest, table)))
                .filter(|(oldest, _)| *oldest < newest)
                .min_by_key(|(oldest, _)| *oldest);
            match oldest {
                Some((_, table)) => table.history.drop_oldest(),
                None => return,
            }
        }
    }
}
