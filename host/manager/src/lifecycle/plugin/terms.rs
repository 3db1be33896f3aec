//! The term of a plugin: what happens when it begins, and while it stands by.

use std::sync::Arc;

use tokio::time::Instant;

use super::Plugin;

impl Plugin {
    /// The term of a standby begins: opens the gate, which queues the tombstones, and has the keys of all cached objects queued.
    /// A change of an object either passes the open gate or is in the cache by then. A generation that takes over later
    /// queues its own keys.
    pub(crate) fn begin_term(self: &Arc<Self>) {
        let _handover = self.handover.lock();
        let began = Instant::now();
        let Some(remembered) = self.gate.open() else { return };
        let generation = self.current();
        let parts = generation.as_ref().map_or_else(Vec::new, |generation| generation.backfill());
        let shown: usize = parts.iter().map(|part| part.objects.at_most()).sum();
        self.backfill.replace(parts);
        self.start_worker_if_wanted();
        if let Some(generation) = generation {
            generation.wake_pumps();
            self.schedules.set(&generation.description.schedules);
        }
        tracing::info!(event = "leader_term_keys_queued", plugin = &*self.name, remembered, shown, took = ?began.elapsed(), "deletions queued at the start of the term; the keys of cached objects follow");
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
