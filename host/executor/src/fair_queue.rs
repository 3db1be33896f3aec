//! [`FairQueue`]: which of the ready tasks is polled next.
//!
//! Start-time fair queueing over groups. Each group has a virtual time, the CPU time that it used. The next task is of the
//! group with the least virtual time; within a group tasks are polled in their order. The queue's own clock is the greatest
//! virtual time at which a task was taken. A group without tasks stands still, and when it comes back it begins at that
//! clock if that is later: it has not saved up time, and it is not behind groups that computed meanwhile. A group that is
//! never without tasks, but has too few of them to use its share, saves up no more than [`MOST_SAVED`].
//!
//! The virtual time of a group goes by more slowly the more weight it has: two groups that always have tasks get shares in
//! the ratio of their weights.
//!
//! Invariants:
//! - a group is in `eligible` exactly if it has a ready task and fewer than `limit` running ones;
//! - a group that was removed is kept until its last running task has been charged.
//!
//! No lock, no clock and no thread in this file.

use std::collections::{BTreeSet, VecDeque};

/// The number of a group. Reused after the group was removed.
pub(crate) type GroupId = u32;

/// CPU time in nanoseconds.
pub(crate) type Nanos = u64;

/// Least charge of one poll. Without it a thread clock that stands still would let one group run for good.
const LEAST_CHARGE: Nanos = 100;

/// Most time by which the virtual time of a group may be behind the clock when it gets a task to take.
const MOST_SAVED: Nanos = 100_000_000;

/// The weight of a new group: its virtual time is the time that it used.
pub(crate) const DEFAULT_WEIGHT: u32 = 100;

/// Ready tasks `T` of groups.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    groups: Vec<Option<GroupQueue<T>>>,
    free: Vec<GroupId>,
    /// Groups with a task to take: virtual time, order of arrival, number.
    eligible: BTreeSet<(Nanos, u64, GroupId)>,
    /// The greatest virtual time at which a task was taken.
    clock: Nanos,
    arrivals: u64,
    /// Most running tasks of one group.
    limit: usize,
}

#[derive(Debug)]
struct GroupQueue<T> {
    ready: VecDeque<T>,
    running: usize,
    virtual_time: Nanos,
    weight: u32,
    /// Its arrival number in `eligible`.
    eligible_as: Option<u64>,
    used: Nanos,
    panics: u64,
    is_removed: bool,
}

impl<T> FairQueue<T> {
    /// A queue without groups, of which each may have `limit` running tasks.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            groups: Vec::new(),
            free: Vec::new(),
            eligible: BTreeSet::new(),
            clock: 0,
            arrivals: 0,
            limit: limit.max(1),
        }
    }

    /// Adds a group.
    #[allow(clippy::cast_possible_truncation, reason = "four billion groups do not fit in memory")]
    pub(crate) fn add_group(&mut self) -> GroupId {
        let group = GroupQueue {
            ready: VecDeque::new(),
            running: 0,
            virtual_time: self.clock,
            weight: DEFAULT_WEIGHT,
            eligible_as: None,
            used: 0,
            panics: 0,
            is_removed: false,
        };
        if let Some(id) = self.free.pop() {
            self.groups[id as usize] = Some(group);
            return id;
        }
        self.groups.push(Some(group));
        self.groups.len() as GroupId - 1
    }

    /// Gives a group another weight. It counts for what the group uses from then on.
    pub(crate) fn set_weight(&mut self, id: GroupId, weight: u32) {
        if let Some(group) = self.group(id) {
            group.weight = weight.max(1);
        }
    }

    /// Removes a group; its ready tasks are returned.
    pub(crate) fn remove_group(&mut self, id: GroupId) -> VecDeque<T> {
        let Some(group) = self.group(id) else { return VecDeque::new() };
        group.is_removed = true;
        let ready = std::mem::take(&mut group.ready);
        self.settle(id);
        ready
    }

    /// Adds a task that is ready to be polled.
    pub(crate) fn push(&mut self, id: GroupId, task: T) {
        let clock = self.clock;
        let Some(group) = self.group(id) else { return };
        if group.ready.is_empty() && group.running == 0 {
            group.virtual_time = group.virtual_time.max(clock);
        }
        group.ready.push_back(task);
        self.settle(id);
    }

    /// Takes the next task. It is running until [`charge`](Self::charge).
    pub(crate) fn take(&mut self) -> Option<(GroupId, T)> {
        let &(virtual_time, _, id) = self.eligible.first()?;
        self.clock = self.clock.max(virtual_time);
        let group = self.group(id)?;
        let task = group.ready.pop_front()?;
        group.running += 1;
        self.settle(id);
        Some((id, task))
    }

    /// A task that was taken has been polled for this long.
    pub(crate) fn charge(&mut self, id: GroupId, used: Nanos, panicked: bool) {
        let Some(group) = self.group(id) else { return };
        group.running -= 1;
        group.used += used;
        group.panics += u64::from(panicked);
        // Out of the set before the virtual time changes, by which it is found there.
        let at = group.eligible_as.take().map(|arrival| (group.virtual_time, arrival, id));
        let charged =
            used.max(LEAST_CHARGE).saturating_mul(DEFAULT_WEIGHT.into()) / Nanos::from(group.weight);
        group.virtual_time = group.virtual_time.saturating_add(charged.max(1));
        if let Some(at) = at {
            self.eligible.remove(&at);
        }
        self.settle(id);
    }

    /// Number of groups with a task to take.
    pub(crate) fn eligible(&self) -> usize {
        self.eligible.len()
    }

    /// CPU time of all polls of a group so far.
    pub(crate) fn used(&self, id: GroupId) -> Nanos {
        self.groups[id as usize].as_ref().map_or(0, |group| group.used)
    }

    /// Polls of a group that panicked.
    pub(crate) fn panics(&self, id: GroupId) -> u64 {
        self.groups[id as usize].as_ref().map_or(0, |group| group.panics)
    }

    /// Takes all ready tasks out.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.eligible.clear();
        let mut tasks = Vec::new();
        for group in self.groups.iter_mut().flatten() {
            group.eligible_as = None;
            tasks.extend(group.ready.drain(..));
        }
        tasks
    }

    fn group(&mut self, id: GroupId) -> Option<&mut GroupQueue<T>> {
        self.groups.get_mut(id as usize)?.as_mut()
    }

    /// Restores the invariants of a group whose tasks changed.
    fn settle(&mut self, id: GroupId) {
        let (limit, earliest) = (self.limit, self.clock.saturating_sub(MOST_SAVED));
        let Some(group) = self.groups.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let may_run = !group.ready.is_empty() && group.running < limit;
        match group.eligible_as {
            None if may_run => {
                self.arrivals += 1;
                group.eligible_as = Some(self.arrivals);
                group.virtual_time = group.virtual_time.max(earliest);
                self.eligible.insert((group.virtual_time, self.arrivals, id));
            }
            Some(arrival) if !may_run => {
                group.eligible_as = None;
                self.eligible.remove(&(group.virtual_time, arrival, id));
            }
            _ => {}
        }
        if group.is_removed && group.running == 0 {
            self.groups[id as usize] = None;
            self.free.push(id);
        }
    }
}

#[cfg(test)]
mod tests;
