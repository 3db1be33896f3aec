//! [`Groups`]: the listeners by their interest. Listeners with equal interests are one group, which is judged once a change.
//!
//! Invariants: each listener is in one group, and no group is empty; the listeners of a group are in the order of joining; a
//! group with bounds is in the index under one of them, and one without is always a candidate. Groups are never numbered twice.

use hashbrown::HashMap;

use super::Audience;
use super::requirement_index::RequirementIndex;
use crate::interest::{Interest, Requirement};
use crate::notification::Notification;

#[derive(Default)]
pub(super) struct Groups {
    groups: HashMap<u64, Group>,
    /// Groups that there ever were.
    numbered: u64,
    /// By their bounds, for finding an equal one; listeners without an interest have none.
    by_bounds: HashMap<Option<Vec<Vec<Requirement>>>, Vec<u64>>,
    index: RequirementIndex,
    unbounded: Vec<u64>,
}

/// Listeners are numbers: how many had joined before.
pub(super) struct Group {
    /// None if its listeners take every change.
    pub(super) interest: Option<Interest>,
    /// The bound under which it is in the index.
    bound: Option<usize>,
    listeners: Vec<u64>,
    /// Those that asked for resyncs.
    resyncing: Vec<u64>,
    /// Those for which the present resync is.
    due: Vec<u64>,
    judgements: usize,
}

impl Groups {
    /// Adds the listener that joins last. Returns the number of its group.
    pub(super) fn join(&mut self, listener: u64, interest: Option<Interest>, resyncs: bool) -> u64 {
        let bounds = interest.as_ref().map(|interest| interest.bounds.clone());
        let similar = self.by_bounds.entry(bounds).or_default();
        let equal = similar.iter().copied().find(|number| self.groups[number].interest == interest);
        let number = equal.unwrap_or(self.numbered);
        let group = self.groups.entry(number).or_insert_with(|| {
            self.numbered += 1;
            similar.push(number);
            let bounds = interest.as_ref().map_or(&[][..], |interest| &interest.bounds);
            let bound = self.index.cheapest(bounds);
            match bound {
                Some(at) => self.index.insert(&bounds[at], number),
                None => self.unbounded.push(number),
            }
            Group {
                interest,
                bound,
                listeners: Vec::new(),
                resyncing: Vec::new(),
                due: Vec::new(),
                judgements: 0,
            }
        });
        group.listeners.push(listener);
        if resyncs {
            group.resyncing.push(listener);
        }
        number
    }

    /// Takes a listener out of its group.
    pub(super) fn leave(&mut self, number: u64, listener: u64) {
        let Some(group) = self.groups.get_mut(&number) else { return };
        for listeners in [&mut group.listeners, &mut group.resyncing, &mut group.due] {
            if let Ok(at) = listeners.binary_search(&listener) {
                listeners.remove(at);
            }
        }
        if !group.listeners.is_empty() {
            return;
        }
        let Some(Group { interest, bound, .. }) = self.groups.remove(&number) else { return };
        let bounds = interest.map(|interest| interest.bounds);
        match (&bounds, bound) {
            (Some(bounds), Some(at)) => self.index.remove(&bounds[at], number),
            _ => self.unbounded.retain(|other| *other != number),
        }
        if let Some(similar) = self.by_bounds.get_mut(&bounds) {
            similar.retain(|other| *other != number);
            if similar.is_empty() {
                self.by_bounds.remove(&bounds);
            }
        }
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Group> {
        self.groups.get_mut(&number)
    }

    /// The present resync is for this listener, which asked for resyncs, and those for which this was called before.
    pub(super) fn set_due(&mut self, number: u64, listener: u64) {
        if let Some(group) = self.groups.get_mut(&number) {
            group.due.push(listener);
        }
    }

    pub(super) fn end_resync(&mut self) {
        self.groups.values_mut().for_each(|group| group.due.clear());
    }

    /// The groups that a change may concern.
    pub(super) fn candidates(&self, notification: &Notification<'_>, audience: Audience) -> Vec<u64> {
        let mut found = Vec::new();
        if let Notification::Deleted { object: None, .. } = notification {
            // Bounds say nothing of a key alone.
            found.extend(self.groups.keys());
        } else {
            self.index.find(notification, &mut found);
            found.sort_unstable();
            found.dedup();
            found.extend(&self.unbounded);
        }
        if notification.is_sync() {
            found.retain(|number| !self.groups[number].audience(notification, audience).is_empty());
        }
        found
    }

    /// The groups, the bounds that they have, and the requirements in the index.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        (self.groups.len(), self.by_bounds.len(), self.index.len() + self.unbounded.len())
    }
}

impl Group {
    /// The listeners that a change is for; `audience` says which ones if nothing changed.
    pub(super) fn audience(&self, notification: &Notification<'_>, audience: Audience) -> &[u64] {
        match audience {
            _ if !notification.is_sync() => &self.listeners,
            Audience::Resyncing => &self.resyncing,
            Audience::Due => &self.due,
        }
    }

    /// The listener that is charged for the next judgement.
    pub(super) fn next_charged(&mut self) -> Option<u64> {
        self.judgements = self.judgements.wrapping_add(1);
        self.listeners.get(self.judgements % self.listeners.len().max(1)).copied()
    }
}
