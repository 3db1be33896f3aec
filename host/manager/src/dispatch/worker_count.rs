//! [`WorkerCount`]: how many workers a plugin has, and whether one of them waits for a key.
//!
//! One permanent worker waits for keys for as long as the plugin lives. A helper is started when a call begins while no
//! worker waits. Concurrent callers cannot start more helpers than the limit of the generation allows.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The workers of one plugin.
#[derive(Debug, Default)]
pub(crate) struct WorkerCount {
    running: AtomicU32,
    /// Workers that wait for a key.
    waiting: AtomicU32,
    has_permanent: AtomicBool,
}

/// A worker that waits for a key, until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a AtomicU32);

impl WorkerCount {
    /// Counts the permanent worker. `false` when it runs already.
    pub(crate) fn add_permanent(&self) -> bool {
        let is_first = !self.has_permanent.swap(true, Relaxed);
        if is_first {
            self.running.fetch_add(1, Relaxed);
        }
        is_first
    }

    /// Counts a helper. `false` when a worker waits for a key, or `limit` workers run.
    pub(crate) fn add_helper(&self, limit: u32) -> bool {
        let running = self.running.load(Relaxed);
        running < limit
            && self.waiting.load(Relaxed) == 0
            && self.running.compare_exchange(running, running + 1, Relaxed, Relaxed).is_ok()
    }

    /// A worker ends.
    pub(crate) fn remove(&self) {
        self.running.fetch_sub(1, Relaxed);
    }

    /// A worker waits for a key.
    pub(crate) fn waiting(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Relaxed);
        Waiting(&self.waiting)
    }

    /// Number of workers.
    pub(crate) fn running(&self) -> u32 {
        self.running.load(Relaxed)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_is_added_when_nobody_waits_and_the_limit_is_not_reached() {
        let workers = WorkerCount::default();
        assert!(workers.add_permanent());
        assert!(!workers.add_permanent(), "there is one already");
        let waiting = workers.waiting();
        assert!(!workers.add_helper(3), "one waits");
        drop(waiting);
        assert!(workers.add_helper(3) && workers.add_helper(3));
        assert!(!workers.add_helper(3), "the limit is reached");
        workers.remove();
        assert!(!workers.add_helper(2), "the limit was lowered");
        assert!(workers.add_helper(3));
        assert_eq!(workers.running(), 3);
    }
}
