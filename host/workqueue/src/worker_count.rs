//! [`WorkerCount`]: how many workers a queue with a hook has, and when one more is started.
//!
//! Protocol, by which no key is left without a worker:
//! - the hook calls [`try_add`](WorkerCount::try_add), and starts a worker if that is true;
//! - a worker calls [`started`](WorkerCount::started) before it first looks for a key;
//! - a worker that finds no key calls [`remove`](WorkerCount::remove), and *then* looks once more: if there is a key, it
//!   does what the hook does.
//!
//! At most one worker is on its way at a time: a burst of keys does not start a worker per key before the first has looked.

use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Set while a worker was added that has not looked for a key yet.
const STARTING: u32 = 1 << 31;

/// Counts the workers of one queue. Its limit is 0 at first.
#[derive(Debug, Default)]
pub struct WorkerCount {
    /// Number of workers, and `STARTING`.
    state: AtomicU32,
    limit: AtomicU32,
}

impl WorkerCount {
    /// Sets the most workers. More that run already end by themselves, see [`is_surplus`](Self::is_surplus). The caller
    /// then does what the hook does.
    pub fn set_limit(&self, limit: u32) {
        self.limit.store(limit.min(STARTING - 1), Release);
    }

    /// Counts one more worker, unless one is on its way or there are as many as the limit.
    pub fn try_add(&self) -> bool {
        let limit = self.limit.load(Acquire);
        let add = |state| (state & STARTING == 0 && state < limit).then_some((state + 1) | STARTING);
        self.state.fetch_update(Acquire, Relaxed, add).is_ok()
    }

    /// Whether [`try_add`](Self::try_add) would count one more.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.state.load(Acquire) < self.limit.load(Acquire)
    }

    /// The worker on its way is about to look for a key.
    pub fn started(&self) {
        self.state.fetch_and(!STARTING, Release);
    }

    /// A worker ends.
    pub fn remove(&self) {
        self.state.fetch_sub(1, Release);
    }

    /// Whether there are more workers than the limit.
    #[must_use]
    pub fn is_surplus(&self) -> bool {
        self.running() > self.limit.load(Acquire)
    }

    /// Number of workers.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.state.load(Acquire) & !STARTING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_more_is_counted_when_none_is_on_its_way_and_the_limit_is_not_reached() {
        let workers = WorkerCount::default();
        assert!(!workers.try_add(), "the limit is 0");
        workers.set_limit(2);
        assert!(workers.try_add());
        assert!(!workers.try_add(), "one is on its way");
        workers.started();
        assert!(workers.has_room() && workers.try_add());
        workers.started();
        assert!(!workers.has_room() && !workers.try_add(), "the limit is reached");
        workers.set_limit(1);
        assert!(workers.is_surplus());
        workers.remove();
        assert!(!workers.is_surplus() && !workers.try_add());
        assert_eq!(workers.running(), 1);
        workers.remove();
        assert!(workers.try_add());
    }
}
