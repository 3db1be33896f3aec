//! The terms of a plugin: what happens when one begins and ends, and while the plugin stands by.
//!
//! Most plugins have one term, at whose end they are retired for a successor (`manager/shards.rs`). A plugin whose keys are
//! shared has one term after the other in each shard, and is not retired at their ends.
//!
//! Invariants: the gate of a shard is open only within a term. Both ends are under `handover`: a begin that comes after the end
//! of its term does nothing. The key of an object that is gone outlives the end of a term, up to the most tombstones of a plugin,
//! since no pass over the caches finds it again: the closed gate keeps it, that of the successor where there is one. The
//! listeners of mapped watches go on until a successor has its own (`manager/succession.rs`).

use std::sync::Arc;

use pilothouse_election::Leadership;
use tokio::time::Instant;

use super::Plugin;
use crate::dispatch::backfill::BackfillPart;
use crate::dispatch::worker;
use crate::lifecycle::generation::Generation;

impl Plugin {
    /// The term of a shard begins, or that of the host: opens the gate, which queues the tombstones, and has the keys of all
    /// cached objects queued. A change of an object either passes the open gate or is in the cache by then. A generation
    /// that takes over later queues its own keys.
    pub(crate) fn begin_term(self: &Arc<Self>, shard: usize, term: &Leadership) {
        let _handover = self.handover.lock();
        if term.is_cancelled() || self.is_stopping() {
            return;
        }
        let began = Instant::now();
        let Some(remembered) = self.gate.open(shard) else { return };
        let generation = self.current();
        let parts = generation.as_ref().map_or_else(Vec::new, |generation| generation.backfill());
        let shown: usize = parts.iter().map(|part| part.objects.at_most()).sum();
        let only = self.election.keys().map(|_| shard);
        let of_shard = |part: BackfillPart| BackfillPart { shards: only.map(|shard| [shard].into()), ..part };
        self.backfill.append(parts.into_iter().map(of_shard).collect());
        self.start_worker_if_wanted();
        if let Some(generation) = generation {
            generation.wake_pumps();
            self.set_schedules(&generation);
        }
        tracing::info!(event = "leader_term_keys_queued", plugin = &*self.name, shard = only, remembered, shown, took = ?began.elapsed(), "deletions queued at the start of the term; the keys of cached objects follow");
    }

    /// The term of a shard has ended, and the plugin works on in others: closes the gate, waits for the calls for keys of this
    /// shard and for their writes, and drops its keys.
    pub(crate) async fn end_term(self: &Arc<Self>, shard: usize) {
        let Some(keys) = self.election.keys() else { return };
        {
            let _handover = self.handover.lock();
            self.gate.close(shard);
            if let Some(generation) = self.current() {
                self.set_schedules(&generation);
            }
        }
        keys.work_ended(shard).await;
        let predecessor = self.predecessor.lock().clone();
        if let Some(predecessor) = predecessor {
            predecessor.ended().await;
        }
        // One that was retired meanwhile hands all of its keys over.
        let _handover = self.handover.lock();
        if !self.is_stopping() {
            worker::drop_keys_of_others(self, keys);
        }
    }

    /// Ends the plugin as [`retire`](Self::retire) does, for a successor: its queue keeps the keys that it has, and the listeners
    /// of its mapped watches go on, until [`hand_over_deletions`](Self::hand_over_deletions). Returns the last generation.
    pub(crate) fn retire_for_successor(&self) -> Option<Arc<Generation>> {
        let _handover = self.handover.lock();
        let generation = self.end_calls();
        self.election.term_shards().for_each(|shard| self.gate.close(shard));
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

    /// Waits for those that had the name before, if they worked in the terms of a shard that is none of this plugin's.
    pub(crate) async fn predecessors_ended(&self, shard: usize) {
        let mut next = self.predecessor.lock().clone();
        while let Some(plugin) = next {
            if plugin.election.term_shards().contains(&shard) {
                return plugin.ended().await;
            }
            next = plugin.predecessor.lock().clone();
        }
    }

    /// The schedules of a generation are those of the keys that changes may add now.
    pub(super) fn set_schedules(&self, generation: &Generation) {
        let mut schedules = generation.description.schedules.clone();
        schedules.retain(|schedule| self.gate.is_open_for(&schedule.key, None));
        self.schedules.set(&schedules);
    }

    /// Drops old tombstones of a shard that the host does not have, or of a standby, if that is `due`; and those of buffers that
    /// have grown too large.
    pub(crate) fn rotate_tombstones(&self, shard: usize, due: bool) {
        if due {
            self.gate.rotate(shard);
        }
        if let Some(generation) = self.current() {
            generation.rotate_tombstones(due);
        }
    }
}

#[cfg(test)]
mod tests;
