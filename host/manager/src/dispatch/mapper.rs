//! [`Mapper`]: the listener of a natively mapped watch; it turns each change into keys of the plugin's queue.
//!
//! It adds them through the plugin's [`LeadershipGate`], with separate calls for objects that are not in the cache or not
//! visible any more, and for keys that an object does not map to any more.
//!
//! It runs inside the informer's call, before the ring of a handler would coalesce anything: an object that moves from one
//! key to a second and a third must enqueue all three, and the queue itself keeps one entry a key, so nothing grows with
//! the number of changes (`docs/decisions/0002-native-mapping-before-the-ring.md`).

use std::collections::HashSet;
use std::sync::{Arc, OnceLock, Weak};

use pilothouse_cache::{EventFilter as _, Interest, Judge as _, Listener, Notification, Verdict};
use pilothouse_object::{FieldValues, Object, ObjectKey};
use pilothouse_plugin::KeyMap;
use pilothouse_workqueue::Priority;

use crate::dispatch::backfill::Sweep;
use crate::dispatch::leadership_gate::LeadershipGate;
use crate::dispatch::mapping;
use crate::dispatch::reasons::Reasons;
use crate::dispatch::selection::Selection;
use crate::lifecycle::plugin::Plugin;
use crate::observe::warnings::{DataLimit, Warnings};

/// Keys that are added under one lock of the queue.
const ADDED_AT_ONCE: usize = 64;

/// Keys of one object that are compared with each other one by one; a hash set compares more.
const MOST_SCANNED: usize = 32;

/// Turns changes into keys.
pub(crate) struct Mapper {
    pub(crate) gate: Arc<LeadershipGate>,
    pub(crate) selection: Selection,
    pub(crate) maps: Vec<Mapping>,
    pub(crate) bound: KeyBound,
    /// The kinds of which all keys are wanted at a change; set when all mappers of the generation are there.
    pub(crate) sweeps: OnceLock<Sweeps>,
}

/// A mapping with what the host knows of its kinds.
pub(crate) struct Mapping {
    pub(crate) map: KeyMap,
    /// Whether the owner kind of an owner mapping lives in namespaces.
    pub(crate) namespaced_owner: bool,
}

/// What of other kinds a change has reconciled.
pub(crate) struct Sweeps {
    pub(crate) plugin: Weak<Plugin>,
    pub(crate) wanted: Vec<Arc<Sweep>>,
}

/// The limit of keys that one object maps to.
pub(crate) struct KeyBound {
    /// Most keys.
    pub(crate) most: usize,
    /// The watch, as warnings name it.
    pub(crate) subject: String,
    pub(crate) warnings: Arc<Warnings>,
}

impl Mapper {
    /// Whether one of the mappings is that of an object to its own key.
    pub(crate) fn maps_itself(&self) -> bool {
        self.maps.iter().any(|mapping| matches!(mapping.map, KeyMap::Itself))
    }

    /// Whether that is the only one.
    fn maps_only_itself(&self) -> bool {
        matches!(self.maps[..], [Mapping { map: KeyMap::Itself, .. }])
    }

    /// Calls `found` with the keys of an object. A change of the object itself has a reason of its own there; elsewhere it is
    /// `owned`.
    fn keys(&self, values: &FieldValues<'_>, own: Reasons, found: &mut dyn FnMut(ObjectKey, Reasons)) {
        let mut count = 0_usize;
        for Mapping { map, namespaced_owner } in &self.maps {
            let reason = if matches!(map, KeyMap::Itself) { own } else { Reasons::OWNED };
            mapping::keys(map, *namespaced_owner, values, &mut |key| {
                count += 1;
                if count <= self.bound.most {
                    found(key, reason);
                }
            });
        }
        if count > self.bound.most {
            let KeyBound { most, subject, warnings } = &self.bound;
            warnings.exceeded(DataLimit::MappedKeys, *most, subject, values.object().key());
        }
    }

    fn add(&self, values: &FieldValues<'_>, own: Reasons, priority: Priority) {
        self.keys(values, own, &mut |key, reason| self.gate.add(key, reason, priority));
        self.sweep();
    }

    /// Adds the keys of an object that the cache does not show any more.
    fn add_gone(&self, values: &FieldValues<'_>) {
        self.keys(values, Reasons::DELETED, &mut |key, reason| self.gate.add_deleted(key, reason));
    }

    /// Has all keys of the kinds queued that a change maps to. A standby queues all when its term begins.
    fn sweep(&self) {
        let Some(sweeps) = self.sweeps.get().filter(|_| self.gate.is_open()) else { return };
        if let Some(plugin) = sweeps.plugin.upgrade() {
            sweeps.wanted.iter().for_each(|sweep| plugin.backfill().want(sweep));
            plugin.start_worker_if_wanted();
        }
    }

    /// Queues the keys of cached objects, as if they were listed for the first time, and returns their number. The gate is
    /// open. A key that waits for its time runs now, and not again then.
    pub(crate) fn queue_all(&self, objects: impl Iterator<Item = Object>, reason: Reasons) -> usize {
        self.queue_each(objects, |values, found| {
            if self.selection.takes(values) {
                self.keys(values, reason, found);
            }
        })
    }

    /// Queues the own keys of cached objects, because of a change elsewhere: predicates and further maps of this watch are about
    /// changes of its own objects.
    pub(crate) fn queue_own(&self, objects: impl Iterator<Item = Object>) -> usize {
        self.queue_each(objects, |values, found| {
            if self.selection.filter.shows_values(values) {
                found(values.object().key().clone(), Reasons::OWNED);
            }
        })
    }

    fn queue_each(
        &self,
        objects: impl Iterator<Item = Object>,
        mut keys: impl FnMut(&FieldValues<'_>, &mut dyn FnMut(ObjectKey, Reasons)),
    ) -> usize {
        let mut portion = Portion { gate: &self.gate, keys: Vec::new(), count: 0 };
        for object in objects {
            keys(&FieldValues::new(&object), &mut |key, reason| {
                portion.keys.push((key, reason, Priority::LOW));
            });
            // Workers have taken up the first of them by the time the last is found.
            if portion.keys.len() >= ADDED_AT_ONCE {
                portion.queue();
            }
        }
        portion.queue();
        portion.count
    }
}

/// Keys that are about to be queued. A panic at the next object loses none of them.
struct Portion<'a> {
    gate: &'a LeadershipGate,
    keys: Vec<(ObjectKey, Reasons, Priority)>,
    /// Keys that were queued.
    count: usize,
}

impl Portion<'_> {
    fn queue(&mut self) {
        self.count += self.keys.len();
        self.gate.queue().add_batch_coalesced(self.keys.drain(..));
    }
}

impl Drop for Portion<'_> {
    fn drop(&mut self) {
        self.queue();
    }
}

impl Mapper {
    /// Takes a change that was judged for no other listener.
    fn take(&self, notification: &Notification<'_>) {
        if let Some(verdict) = self.selection.judge(notification) {
            self.on_judged(notification, verdict);
        }
    }

    /// An object changed, came into view or went out of it.
    fn update(&self, old: &FieldValues<'_>, new: &FieldValues<'_>, verdict: Verdict) {
        let own = if verdict == Verdict::Added { Reasons::ADDED } else { Reasons::UPDATED };
        let only_itself = self.maps_only_itself();
        if verdict == Verdict::Deleted {
            self.add_gone(new);
            if !only_itself {
                self.add_gone(old);
                self.sweep();
            }
            return;
        }
        if only_itself {
            self.gate.add(new.object().key().clone(), own, Priority::NORMAL);
            return;
        }
        let mut present = Vec::new();
        self.keys(new, own, &mut |key, reason| present.push((key, reason)));
        // An object chooses how many keys there are, and this runs inside the informer.
        let set: Option<HashSet<&ObjectKey>> =
            (present.len() > MOST_SCANNED).then(|| present.iter().map(|(key, _)| key).collect());
        self.keys(old, own, &mut |key, reason| {
            let is_present = set
                .as_ref()
                .map_or_else(|| present.iter().any(|(there, _)| *there == key), |set| set.contains(&key));
            if !is_present {
                self.gate.add_deleted(key, reason);
            }
        });
        for (key, reason) in present {
            self.gate.add(key, reason, Priority::NORMAL);
        }
        self.sweep();
    }

    fn delete(&self, key: &ObjectKey, last: Option<&FieldValues<'_>>, verdict: Verdict) {
        let itself = self.maps_itself();
        if itself {
            // Failures of an object that is gone say nothing about another of that name.
            self.gate.queue().forget(key);
        }
        if verdict == Verdict::Forgotten {
            return;
        }
        match last {
            Some(last) => self.add_gone(last),
            // Without a last state only its own key is sure.
            None if itself => self.gate.add_deleted(key.clone(), Reasons::DELETED),
            None => {}
        }
        self.sweep();
    }
}

impl Listener for Mapper {
    fn on_add(&self, object: &Object, is_in_initial_list: bool) {
        self.take(&Notification::added(object, is_in_initial_list));
    }

    fn on_update(&self, old: &Object, new: &Object, is_sync: bool) {
        self.take(&Notification::updated(old, new, is_sync));
    }

    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, final_state_unknown: bool) {
        self.take(&Notification::deleted(key, object, final_state_unknown));
    }

    fn interest(&self) -> Option<Interest> {
        Some(self.selection.interest())
    }

    /// The mapper before is removed when this one is there, and keys may come twice.
    fn takes_waiting_changes(&self) -> bool {
        true
    }

    fn on_judged(&self, notification: &Notification<'_>, verdict: Verdict) {
        match notification {
            Notification::Added { object, .. } => self.add(object, Reasons::ADDED, Priority::NORMAL),
            Notification::Updated { new, is_sync: true, .. } => {
                self.add(new, Reasons::RESYNC, Priority::LOW);
            }
            Notification::Updated { old, new, .. } => self.update(old, new, verdict),
            Notification::Deleted { key, object, .. } => self.delete(key, object.as_ref(), verdict),
        }
    }
}

#[cfg(test)]
mod lookup_tests;
#[cfg(test)]
mod tests;
