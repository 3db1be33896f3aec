//! [`Backfill`]: the keys of objects that were cached before a plugin listened, added to its queue little by little.
//!
//! A generation that takes over, and a leader whose term begins, reconcile all cached objects. Their keys are not queued at
//! once: a thousand plugins that watch a hundred thousand objects would hold as many keys each. Instead each mapped watch
//! has a cursor over a snapshot of its cache. When the ready keys of the queue become few, a worker maps the next objects
//! and adds their keys at low priority. So the work is done on the guest threads, in the share of the plugin.
//!
//! Invariant: for each object, either the snapshot has it and its key is added from here, or a listener that was added
//! before the snapshot was taken gets its change and adds the key. So the key of every object is added after its last
//! change. A replaced backfill adds nothing more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use pilothouse_cache::{Cursor, InformerId, InformerLease};
use pilothouse_object::{Object, ObjectKey};
use pilothouse_plugin::{Visibility, WatchSpec};

use crate::dispatch::mapper::Mapper;
use crate::dispatch::reasons::Reasons;
use crate::imports::plugin_imports::KindView;

/// Objects that are mapped at once: less than a millisecond, and enough keys for many calls.
pub(crate) const PORTION: usize = 200;

/// What is left to add for one watch.
pub(crate) struct BackfillPart {
    pub(crate) watch: WatchSpec,
    pub(crate) mapper: Arc<Mapper>,
    pub(crate) objects: Cursor,
    pub(crate) reason: Reasons,
    /// Objects that are left out.
    pub(crate) seen_before: Option<SeenBefore>,
}

/// The objects of a kind that the generation before was allowed to see.
#[derive(Clone)]
pub(crate) struct SeenBefore {
    visible: Visibility,
    informers: Arc<[InformerId]>,
}

impl SeenBefore {
    /// The objects that a view of the generation before showed to its watches.
    pub(crate) fn of(view: &KindView) -> Self {
        let informers = view.leases.iter().map(|lease| lease.id().clone()).collect();
        Self { visible: view.watchable(), informers }
    }

    fn saw(&self, key: &ObjectKey) -> bool {
        self.visible.sees(key) && self.informers.iter().any(|id| id.covers(key))
    }

    /// Whether a view has only objects of these informers, all of which were visible.
    pub(crate) fn saw_all_of(&self, view: &KindView) -> bool {
        let was_leased = |lease: &InformerLease| self.informers.contains(lease.id());
        view.leases.iter().all(was_leased) && self.visible.sees_the_same_as(&view.watchable())
    }
}

/// What is left to add for one plugin.
#[derive(Default)]
pub(crate) struct Backfill {
    /// The next one last.
    parts: Mutex<Vec<BackfillPart>>,
    /// Whether `parts` has entries, readable without its lock.
    is_pending: AtomicBool,
}

impl Backfill {
    /// Begins anew with these parts; returns those that were not finished.
    pub(crate) fn replace(&self, parts: Vec<BackfillPart>) -> Vec<BackfillPart> {
        let mut present = self.parts.lock();
        self.is_pending.store(!parts.is_empty(), Ordering::Release);
        std::mem::replace(&mut *present, parts)
    }

    /// Whether there are objects whose keys have not been added.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Acquire)
    }

    /// Adds the keys of the next objects, `portion` at most. `false` if there is nothing to add, or another worker is about
    /// to.
    pub(crate) fn feed(&self, portion: usize) -> bool {
        if !self.is_pending() {
            return false;
        }
        let Some(mut parts) = self.parts.try_lock() else { return false };
        let Some(part) = parts.last_mut() else { return false };
        let BackfillPart { mapper, objects, reason, seen_before, .. } = part;
        let is_new = |object: &Object| !seen_before.as_ref().is_some_and(|before| before.saw(object.key()));
        mapper.queue_all(objects.by_ref().take(portion).filter(is_new), *reason);
        if part.objects.at_most() == 0 {
            parts.pop();
        }
        self.is_pending.store(!parts.is_empty(), Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests;
