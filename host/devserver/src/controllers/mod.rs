//! The controllers of the server: what a cluster does by itself when objects change.
//!
//! One task reads the store's journal, notes what is to be done and does it piece by piece, between the requests of clients:
//!
//! ```text
//! Store::journal ─► observe (each controller notes work) ─► Queue (each piece once) ─► step ─► writes ─► Store::journal …
//! ```
//!
//! A piece is bounded: what is about many objects does some of them and is queued again. When the journal has been read up to
//! the last write and nothing follows from it, the task publishes that revision, and [`Controllers::settled`] returns. Timers (a
//! pod's end, the end of Events) do not count: they stand for a kubelet and a clock.

mod content;
mod events;
mod garbage;
mod pods;
mod protection;
mod queue;
mod set;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::store::{Batch, Change, Stored};
use crate::verbs::Core;
use events::EventExpiry;
use garbage::GarbageCollector;
use pods::PodEnds;
use queue::{Queue, Work};
pub use set::{ControllerSet, UnknownController};

/// How many objects are looked at before requests get their turn; a piece of work that has begun is done.
const OBJECTS: usize = 100;
/// How often it is looked whether Events have grown old.
const SWEEP: Duration = Duration::from_secs(60);

/// The running controllers; they end with this.
#[derive(Debug)]
pub(crate) struct Controllers {
    task: JoinHandle<()>,
    /// Up to which revision everything has been seen, with nothing left to do.
    settled: watch::Receiver<u64>,
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Controllers {
    /// Starts those of a set, on the runtime of the caller.
    pub(crate) fn start(core: &Arc<Core>, set: ControllerSet) -> Self {
        let (settled, receiver) = watch::channel(0);
        let loops = Loop { core: core.clone(), set, queue: Queue::default(), parts: Parts::default() };
        Self { task: tokio::spawn(loops.run(settled)), settled: receiver }
    }

    /// Waits until the controllers have seen every write so far, and those that they made about them.
    pub(crate) async fn settled(&self, core: &Core) {
        let mut settled = self.settled.clone();
        let wanted = core.store.revision();
        // It ends with the server: then nothing more will happen.
        let _ = settled.wait_for(|seen| *seen >= wanted).await;
    }

    /// Waits until the controllers have seen a write after this revision; answers the revision up to which they have.
    pub(crate) async fn settled_beyond(&self, revision: u64) -> u64 {
        let mut settled = self.settled.clone();
        match settled.wait_for(|seen| *seen > revision).await {
            Ok(seen) => *seen,
            Err(_) => std::future::pending().await,
        }
    }
}

/// What the controllers know.
#[derive(Debug, Default)]
struct Parts {
    garbage: GarbageCollector,
    pods: PodEnds,
    events: EventExpiry,
}

struct Loop {
    core: Arc<Core>,
    set: ControllerSet,
    queue: Queue,
    parts: Parts,
}

impl Loop {
    async fn run(mut self, settled: watch::Sender<u64>) {
        let mut journal = self.core.store.journal();
        let mut sweep = Instant::now() + SWEEP;
        loop {
            let batch = journal.take();
            let works = self.turn(&batch);
            let now = Instant::now();
            for work in self.parts.pods.due(now) {
                self.queue.add(work);
            }
            if now >= sweep {
                self.parts.events.sweep(&self.core, now);
                sweep = now + SWEEP;
            }
            // What the work has written may lead to more of it.
            if works || !self.queue.is_empty() {
                tokio::task::yield_now().await;
                continue;
            }
            settled.send_replace(batch.revision);
            let next = self.parts.pods.next().map_or(sweep, |end| end.min(sweep));
            tokio::select! {
                () = journal.wait() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Notes what follows from some changes, and does a part of the work; whether there was any.
    fn turn(&mut self, batch: &Batch) -> bool {
        if batch.lost {
            self.look_at_all();
        }
        for (table, change) in &batch.entries {
            self.observe(table, change);
        }
        let works = !self.queue.is_empty();
        let mut touched = 0;
        while touched < OBJECTS
            && let Some(work) = self.queue.take()
        {
            touched += self.step(work);
        }
        works
    }

    /// Notes what follows from one change.
    fn observe(&mut self, table: &Arc<str>, change: &Change) {
        if change.deleted {
            self.look_at_end(table, &change.now);
        } else {
            self.look_at(table, &change.now, change.before.as_deref());
        }
    }

    fn look_at(&mut self, table: &Arc<str>, now: &Arc<Stored>, before: Option<&Stored>) {
        if self.set.garbage_collector {
            self.parts.garbage.observe(&self.core, table, now, before, &mut self.queue);
        }
        content::observe(self.set, table, now, &mut self.queue);
        if self.set.volume_protection {
            protection::observe(&self.core, table, now, &mut self.queue);
        }
        if self.set.pods {
            self.parts.pods.observe(table, now);
        }
        if self.set.events {
            self.parts.events.observe(table, now);
        }
    }

    fn look_at_end(&mut self, table: &Arc<str>, last: &Stored) {
        if self.set.garbage_collector {
            self.parts.garbage.observe_end(&self.core, table, last, &mut self.queue);
        }
        content::observe_end(self.set, &self.core, table, last, &mut self.queue);
        if self.set.volume_protection {
            protection::observe_end(&self.core, table, last, &mut self.queue);
        }
        self.parts.events.observe_end(table, last);
    }

    /// Looks at every object, at the beginning and after more changes than the journal holds.
    fn look_at_all(&mut self) {
        self.parts = Parts::default();
        for table in self.core.store.tables() {
            for stored in self.core.store.under(&table, "", 0) {
                self.look_at(&table, &stored, None);
            }
        }
    }

    /// Does a piece of work, and counts the objects it was about.
    fn step(&mut self, work: Work) -> usize {
        let core = &self.core;
        match work {
            Work::EmptyNamespace(name) => return content::empty_namespace(core, &name, &mut self.queue),
            Work::EmptyDefinition(name) => return content::empty_definition(core, &name, &mut self.queue),
            Work::Collect(reference) => self.parts.garbage.collect(core, &reference, &mut self.queue),
            Work::Release(reference) => self.parts.garbage.release_owner(core, &reference),
            Work::Orphan(reference) => return self.parts.garbage.orphan(core, &reference, &mut self.queue),
            Work::Unprotect(reference) => return protection::unprotect(core, &reference),
            Work::EndPod(reference, uid) => pods::end(core, &reference, &uid),
        }
        1
    }
}
