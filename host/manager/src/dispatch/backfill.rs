//! [`Backfill`]: the keys of objects that were cached before a plugin listened, added to its queue little by little.
//!
//! A generation that takes over, and a leader whose term begins, reconcile all cached objects. Their keys are not queued at
//! once: a thousand plugins that watch a hundred thousand objects would hold as many keys each. Instead each mapped watch
//! has a cursor over a snapshot of its cache. When the ready keys of the queue become few, a worker maps the next objects
//! and adds their keys at low priority. So the work is done on the guest threads, in the share of the plugin. A change that
//! maps to all keys of a kind has them added in the same way ([`Sweep`]); one that comes meanwhile has it done once more.
//!
//! Invariant: for each object, either the snapshot has it and its key is added from here, or a listener that was added
//! before the snapshot was taken gets its change and adds the key. So the key of every object is added after its last
//! change. A replaced backfill adds nothing more.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_cache::{Cursor, Indexer};
use pilothouse_plugin::WatchSpec;
use tokio::time::Instant;

use crate::dispatch::mapper::Mapper;
use crate::dispatch::reasons::Reasons;

/// Objects that are mapped at once: less than a millisecond, and enough keys for many calls.
pub(crate) const PORTION: usize = 200;

/// Ready keys below which keys of cached objects are added.
const FEW_READY: usize = 100;
/// How often a worker counts the ready keys: in keys that it took, and in time, since a call may take long.
const COUNT_EVERY: usize = 32;
const COUNT_AFTER: Duration = Duration::from_millis(100);
/// After so many keys a worker adds some of cached objects even though many are ready.
const FEED_ANYWAY: usize = 1024;

/// When a worker that takes a key adds keys of cached objects first.
pub(crate) struct FeedPace {
    taken: usize,
    counted: Instant,
}

impl Default for FeedPace {
    fn default() -> Self {
        Self { taken: 0, counted: Instant::now() }
    }
}

impl FeedPace {
    /// Whether to add some before the key that is taken now; `ready` counts the ready keys.
    pub(crate) fn is_due(&mut self, ready: impl FnOnce() -> usize) -> bool {
        self.taken += 1;
        if self.taken.is_multiple_of(FEED_ANYWAY) {
            return true;
        }
        if !self.taken.is_multiple_of(COUNT_EVERY) && self.counted.elapsed() < COUNT_AFTER {
            return false;
        }
        self.counted = Instant::now();
        ready() < FEW_READY
    }
}

/// What is left to add for one watch.
pub(crate) struct BackfillPart {
    pub(crate) watch: WatchSpec,
    pub(crate) mapper: Arc<Mapper>,
    pub(crate) objects: Cursor,
    pub(crate) reason: Reasons,
    /// The sweep that it is a part of.
    pub(crate) sweep: Option<Arc<Sweep>>,
}

impl BackfillPart {
    /// All objects that a cache has now.
    pub(crate) fn new(
        watch: &WatchSpec,
        mapper: &Arc<Mapper>,
        indexer: &Arc<Indexer>,
        reason: Reasons,
    ) -> Self {
        Self {
            watch: watch.clone(),
            mapper: Arc::clone(mapper),
            objects: indexer.snapshot().cursor(),
            reason,
            sweep: None,
        }
    }
}

/// All cached objects of a watch, whose keys a change of another object has added.
pub(crate) struct Sweep {
    pub(crate) watch: WatchSpec,
    /// The mapper of the watch, which may be the one that wants the sweep.
    pub(crate) mapper: Weak<Mapper>,
    pub(crate) indexers: Vec<Arc<Indexer>>,
    /// Whether it is to be done, after the one that is being done.
    pub(crate) is_wanted: AtomicBool,
}

impl Sweep {
    /// Its parts, from now on; none if it is not wanted.
    fn begin(self: &Arc<Self>) -> Vec<BackfillPart> {
        let mapper = self.mapper.upgrade();
        let Some(mapper) = mapper.filter(|_| self.is_wanted.swap(false, SeqCst)) else { return Vec::new() };
        let part = |indexer: &Arc<Indexer>| BackfillPart {
            sweep: Some(Arc::clone(self)),
            ..BackfillPart::new(&self.watch, &mapper, indexer, Reasons::OWNED)
        };
        self.indexers.iter().map(part).filter(|part| part.objects.at_most() > 0).collect()
    }
}

/// What is left to add for one plugin.
#[derive(Default)]
pub(crate) struct Backfill {
    left: Mutex<Left>,
    /// Whether there is something to add, readable without the lock.
    is_pending: AtomicBool,
}

#[derive(Default)]
struct Left {
    /// The next one last.
    parts: Vec<BackfillPart>,
    sweeps: Vec<Arc<Sweep>>,
}

impl Left {
    /// Adds the parts of wanted sweeps, behind all others: each has its turn, however often others are wanted.
    fn begin_sweeps(&mut self) {
        for sweep in &self.sweeps {
            let is_of = |part: &BackfillPart| part.sweep.as_ref().is_some_and(|own| Arc::ptr_eq(own, sweep));
            if !self.parts.iter().any(is_of) {
                self.parts.splice(0..0, sweep.begin());
            }
        }
    }
}

impl Backfill {
    /// Begins anew with these parts; returns those that were not finished.
    pub(crate) fn replace(&self, parts: Vec<BackfillPart>) -> Vec<BackfillPart> {
        let mut left = self.left.lock();
        let before = std::mem::replace(&mut left.parts, parts);
        self.update(&left);
        before
    }

    /// From now on there are these sweeps. Returns the watches of those that were wanted and had not begun.
    pub(crate) fn set_sweeps(&self, sweeps: Vec<Arc<Sweep>>) -> Vec<WatchSpec> {
        let mut left = self.left.lock();
        let before = std::mem::replace(&mut left.sweeps, sweeps);
        self.update(&left);
        let wanted = before.iter().filter(|sweep| sweep.is_wanted.load(SeqCst));
        wanted.map(|sweep| sweep.watch.clone()).collect()
    }

    /// Has a sweep done, now or after the one that is being done. Never waits: this runs inside the informers.
    pub(crate) fn want(&self, sweep: &Sweep) {
        sweep.is_wanted.store(true, SeqCst);
        self.is_pending.store(true, SeqCst);
    }

    /// Whether there are objects whose keys have not been added.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending.load(SeqCst)
    }

    /// Adds the keys of the next objects, `portion` at most. `false` if there is nothing to add, or another worker is about
    /// to.
    pub(crate) fn feed(&self, portion: usize) -> bool {
        if !self.is_pending() {
            return false;
        }
        let Some(mut left) = self.left.try_lock() else { return false };
        left.begin_sweeps();
        let Some(part) = left.parts.last_mut() else {
            self.update(&left);
            return false;
        };
        let objects = part.objects.by_ref().take(portion);
        match part.sweep {
            Some(_) => part.mapper.queue_own(objects),
            None => part.mapper.queue_all(objects, part.reason),
        };
        if part.objects.at_most() == 0 {
            left.parts.pop();
            if left.parts.is_empty() {
                // There may be none until the next reload: a part is 350 bytes.
                left.parts = Vec::new();
            }
        }
        self.update(&left);
        true
    }

    /// What is wanted after this looked is shown as pending by whoever wants it.
    fn update(&self, left: &Left) {
        self.is_pending.store(false, SeqCst);
        if !left.parts.is_empty() || left.sweeps.iter().any(|sweep| sweep.is_wanted.load(SeqCst)) {
            self.is_pending.store(true, SeqCst);
        }
    }
}

#[cfg(test)]
mod sweep_tests;
#[cfg(test)]
mod tests;
