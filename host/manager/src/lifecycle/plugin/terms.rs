//! The terms of a plugin: what happens when one begins and ends, and while the plugin stands by.
//!
//! A plugin has one term, at whose end it is retired for a successor (`manager/shards.rs`).
//!
//! Invariants: the gate is open only within the term. Both ends are under `handover`: a begin that comes after the end of the
//! term does nothing. The key of an object that is gone outlives the end of a term, up to the most tombstones of a plugin,
//! since no pass over the caches finds it again: the closed gate of the successor keeps it. The listeners of mapped watches go
//! on until a successor has its own (`manager/succession.rs`).

use std::sync::Arc;

use pilothouse_election::Leadership;
use tokio::time::Instant;

use super::Plugin;
use crate::dispatch::worker;
use crate::lifecycle::generation::Generation;

impl Plugin {
    /// The term of its shard begins, or that of the host: opens the gate, which queues the tombstones, and has the keys of all
    /// cached objects queued. A change of an object either passes the open gate or is in the cache by then. A generation
    /// that takes over later queues its own keys.
    pub(crate) fn begin_term(self: &Arc<Self>, term: &Leadership) {
        let _handover = self.handover.lock();
        if term.is_cancelled() || self.is_stopping() {
            return;
        }
        let began = Instant::now();
        let Some(remembered) = self.gate.open() else { return };
        let generation = self.current();
        let parts = generation.as_ref().map_or_else(Vec::new, |generation| generation.backfill());
        let shown: usize = parts.iter().map(|part| part.objects.at_most()).sum();
        self.backfill.replace(parts);
        self.start_worker_if_wanted();
        if let Some(generation) = generation {
            generation.wake_pumps();
            self.set_schedules(&generation);
        }
        tracing::info!(event = "leader_term_keys_queued", plugin = &*self.name, remembered, shown, took = ?began.elapsed(), "deletions queued at the start of the term; the keys of cached objects follow");
    }

    /// Ends the plugin as [`retire`](Self::retire) does, for a successor: its queue keeps the keys that it has, and the listeners
    /// of its mapped watches go on, until [`hand_over_deletions`](Self::hand_over_deletions). Returns the last generation.
    pub(crate) fn retire_for_successor(&self) -> Option<Arc<Generation>> {
        let _handover = self.handover.lock();
        let generation = self.end_calls();
        self.gate.close();
        if let Some(generation) = &generation {
            generation.stop_handlers();
        }
        generation
    }

    /// Nobody takes over the keys of this plugin, which was retired with its queue open, or the listeners of `last`, its last
    /// generation.
    pub(crate) fn end_without_successor(&self, last: Option<&Generation>) {
        last.into_iter().for_each(Generation::stop);
        self.queue.shut_down();
    }

    /// Passes the keys of objects that are gone on to the successor: those that the queue has left, and those whose objects were
    /// deleted since the plugin was retired. The last call has ended; the listeners of `last`, the last generation, end here.
    pub(crate) fn hand_over_deletions(&self, last: Option<&Generation>, successor: &Self) {
        if let Some(generation) = last {
            // A generation that takes over there has its listeners before these end.
            let _handover = successor.handover.lock();
            generation.stop();
        }
        worker::drop_all_keys(self);
        self.gate.hand_over(&successor.gate);
        self.queue.shut_down();
    }

    /// From now on the schedules are those of this generation, if the term of the plugin has begun.
    pub(super) fn set_schedules(&self, generation: &Generation) {
        if self.gate.is_open() {
            self.schedules.set(&generation.description.schedules);
        }
    }

    /// Drops old tombstones of a standby if that is `due`, and those of buffers that have grown too large.
    pub(crate) fn rotate_tombstones(&self, due: bool) {
        if due {
            self.gate.rotate();
        }
        if let Some(generation) = self.current() {
            generation.rotate_tombstones(due);
        }
    }
}
