//! [`Processor`]: the listeners of one informer, their resyncs, and the changes and initial objects still to be delivered to
//! them.
//!
//! The informer holds it under the lock that also covers changing the store, so joining and leaving fall between two
//! batches, or between two chunks of calls. Invariants: a listener is called for a change after the store has it; a panic
//! of a listener costs that one call; a listener marked as removed is not called any more; a listener gets its initial
//! objects first, then the changes since it joined, and those that wait when it joins if it takes the place of another listener.
//! Changes of the store are queued here before anything else is done with them, so that a panic in between hides none from the
//! listeners.
//!
//! The number of listeners is that of the plugins. So a change is looked up in an index of what listeners require of objects
//! ([`requirement_index`]), each [group](groups) of listeners with equal interests is judged once, and the listeners for which
//! there is a verdict are called in the order in which they joined. Calls are made in slices of about a millisecond ([`call`]):
//! one may end between two judgements or two listeners of one change.

mod call;
mod groups;
mod member;
mod requirement_index;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_object::Gvr;
use tokio::time::Instant;

use self::call::{CHUNK, SLICE, Slice};
use self::groups::Groups;
pub(crate) use self::member::NewMember;
use self::member::{Member, Replay, Resync};
use crate::change::Change;
use crate::notification::{Notification, Verdict};
use crate::snapshot::Snapshot;

/// Holds the listeners of one informer.
pub(crate) struct Processor {
    resource: Gvr,
    /// Name of the cluster, for the log.
    cluster: Option<Arc<str>>,
    /// In the order of joining.
    members: Vec<Member>,
    groups: Groups,
    /// Listeners that ever joined.
    joined: u64,
    /// Changes of the store that listeners have not been called for, in the order of the store.
    pending: VecDeque<Distribution>,
    /// The first list has been handed over: a listener that joins later gets all objects from its replay.
    synced: bool,
    notifications: u64,
    panics: u64,
    /// The longest that listeners are called without a pause.
    slice: Duration,
}

/// The figures of the listeners of one informer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    pub(crate) listeners: usize,
    /// Events that wait in the listeners.
    pub(crate) depth: usize,
    pub(crate) notifications: u64,
    pub(crate) panics: u64,
}

/// Changes of the store, and how listeners are called for them.
struct Distribution {
    changes: Box<dyn Iterator<Item = Change> + Send>,
    initial: bool,
    audience: Audience,
    /// Listeners that joined before. Later ones get the changes with the objects of the store.
    members: u64,
    /// Of the later ones, those that get the changes as well. In the order of joining.
    late: Vec<u64>,
    /// A change that some listeners were called for.
    begun: Option<Begun>,
}

/// A change, and how far its delivery has come.
struct Begun {
    change: Change,
    /// The groups that are still to be judged; none before they were looked up.
    candidates: Option<Vec<u64>>,
    /// The listeners that are called for it: the number that had joined before, and what the change is to a listener with an
    /// interest. In the order of joining once all groups are judged.
    calls: Vec<(u64, Option<Verdict>)>,
    /// The calls that were made.
    made: usize,
}

/// Which listeners get an update that changed nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Those that asked for resyncs at all: the object came again in a list or a watch.
    Resyncing,
    /// Those for whom the present resync is.
    Due,
}

impl Processor {
    pub(crate) fn new(resource: Gvr, cluster: Option<Arc<str>>) -> Self {
        Self {
            resource,
            cluster,
            members: Vec::new(),
            groups: Groups::default(),
            joined: 0,
            pending: VecDeque::new(),
            synced: false,
            notifications: 0,
            panics: 0,
            slice: SLICE,
        }
    }

    /// Adds a listener that gets the objects of a snapshot first, by [`replay`](Self::replay).
    pub(crate) fn add(&mut self, new: NewMember, snapshot: &Snapshot) {
        let NewMember { id, listener, resync, delivered } = new;
        let resync = Resync::every(resync);
        let joined_after = self.joined;
        self.joined += 1;
        let group = self.groups.join(joined_after, listener.interest(), resync.is_some());
        let backlog = match listener.takes_waiting_changes() {
            true => self.share_waiting(joined_after, group),
            false => VecDeque::new(),
        };
        let replay = Some(Replay { objects: snapshot.cursor(), backlog });
        self.members.push(Member { id, joined_after, group, listener, resync, delivered, replay });
    }

    /// Has a listener that joins called for the changes that wait, but for those of the first list. Returns the one that is
    /// being delivered if the group of the listener is not judged for it any more.
    fn share_waiting(&mut self, joined_after: u64, group: u64) -> VecDeque<Change> {
        let mut backlog = VecDeque::new();
        for distribution in self.pending.iter_mut().filter(|distribution| !distribution.initial) {
            distribution.late.push(joined_after);
            if let Some(Begun { change, candidates: Some(candidates), .. }) = &distribution.begun
                && !candidates.contains(&group)
                && !Notification::of(change, false).is_sync()
            {
                backlog.push_back(change.clone());
            }
        }
        backlog
    }

    pub(crate) fn remove(&mut self, id: u64) {
        if let Some(at) = self.members.iter().position(|member| member.id == id) {
            let member = self.members.remove(at);
            self.groups.leave(member.group, member.joined_after);
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures {
            listeners: self.members.len(),
            depth: self.members.iter().map(|member| member.listener.depth()).sum(),
            notifications: self.notifications,
            panics: self.panics,
        }
    }

    /// Whether the listeners were called for every change, and for their initial objects.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.pending.is_empty() && self.members.iter().all(|member| member.replay.is_none())
    }

    /// Whether some listener wants to hear of objects that came again unchanged.
    pub(crate) fn wants_unchanged(&self) -> bool {
        self.members.iter().any(|member| member.resync.is_some())
    }

    /// Queues changes that the store has, for the listeners that have joined by now.
    pub(crate) fn enqueue(
        &mut self,
        changes: impl Iterator<Item = Change> + Send + 'static,
        initial: bool,
        audience: Audience,
    ) {
        let members = self.joined;
        let (changes, late) = (Box::new(changes), Vec::new());
        self.pending.push_back(Distribution { changes, initial, audience, members, late, begun: None });
    }

    /// Calls the listeners for some of the queued changes; tells whether there may be more. `removed` knows the listeners
    /// that left meanwhile.
    pub(crate) fn distribute(&mut self, removed: &dyn Fn(u64) -> bool) -> bool {
        let mut slice = Slice::new(self.slice);
        while !slice.is_over() {
            let Some(distribution) = self.pending.front_mut() else { return false };
            let next = || distribution.changes.next().map(Begun::new);
            let Some(mut begun) = distribution.begun.take().or_else(next) else {
                self.pending.pop_front();
                continue;
            };
            slice.count();
            if slice.is_over() || !self.deliver(&mut begun, &mut slice, removed) {
                if let Some(distribution) = self.pending.front_mut() {
                    distribution.begun = Some(begun);
                }
                return true;
            }
        }
        true
    }

    /// Calls the listeners for a change of the first distribution. `false`: the slice is over before. It makes one step at least.
    fn deliver(&mut self, begun: &mut Begun, slice: &mut Slice, removed: &dyn Fn(u64) -> bool) -> bool {
        let Some(&Distribution { initial, audience, members, .. }) = self.pending.front() else {
            return true;
        };
        let Begun { change, candidates, calls, made } = begun;
        let notification = Notification::of(change, initial);
        let candidates = candidates.get_or_insert_with(|| self.groups.candidates(&notification, audience));
        slice.tick();
        while let Some(number) = candidates.pop() {
            self.judge(number, &notification, (audience, members), calls, slice);
            if slice.is_over() && !candidates.is_empty() {
                return false;
            }
        }
        if *made == 0 {
            calls.sort_unstable_by_key(|(joined_after, _)| *joined_after);
        }
        let mut at = 0;
        while let Some(&(joined_after, verdict)) = calls.get(*made) {
            *made += 1;
            // Those that left are not there any more.
            at = position(&self.members, joined_after, at);
            let member = self.members.get_mut(at).filter(|member| member.joined_after == joined_after);
            let Some(member) = member.filter(|member| !removed(member.id)) else { continue };
            match &mut member.replay {
                // It gets the object, unchanged, from its replay.
                Some(_) if notification.is_sync() => {}
                Some(replay) => replay.backlog.push_back(change.clone()),
                None => {
                    let listener = &*member.listener;
                    let called =
                        slice.run(self.cluster.as_deref(), &self.resource, notification.key(), || {
                            match verdict {
                                Some(verdict) => listener.on_judged(&notification, verdict),
                                None => notification.call(listener),
                            }
                        });
                    listener.took(called.took);
                    slice.count();
                    self.notifications += 1;
                    self.panics += u64::from(called.outcome.is_none());
                }
            }
            at += 1;
            if slice.is_over() && *made < calls.len() {
                return false;
            }
        }
        true
    }

    /// Adds the listeners of a group to the calls if it has a verdict on a change, or no judge.
    fn judge(
        &mut self,
        number: u64,
        notification: &Notification<'_>,
        (audience, members): (Audience, u64),
        calls: &mut Vec<(u64, Option<Verdict>)>,
        slice: &mut Slice,
    ) {
        // It may have lost its last listener since the change was looked up.
        let Some(group) = self.groups.get_mut(number) else { return };
        let mut verdict = None;
        if let Some(interest) = &group.interest {
            let judge = &*interest.judge;
            let judged = slice.run(self.cluster.as_deref(), &self.resource, notification.key(), || {
                judge.judge(notification)
            });
            self.panics += u64::from(judged.outcome.is_none());
            verdict = judged.outcome.flatten();
            let charged = group.next_charged();
            if let Some(member) =
                charged.and_then(|charged| self.members.get(position(&self.members, charged, 0)))
            {
                member.listener.took(judged.took);
            }
            if verdict.is_none() {
                return;
            }
        }
        let late = self.pending.front().map_or(&[][..], |distribution| distribution.late.as_slice());
        let is_called = |listener: &&u64| **listener < members || late.binary_search(*listener).is_ok();
        let called = group.audience(notification, audience).iter().filter(is_called);
        calls.extend(called.map(|listener| (*listener, verdict)));
    }

    /// Calls listeners that joined late for some of their initial objects, and for the changes since, each for its share of
    /// the calls: a short replay does not wait for a long one. Tells whether there are more.
    pub(crate) fn replay(&mut self, removed: &dyn Fn(u64) -> bool) -> bool {
        let replays = self.members.iter().filter(|member| member.replay.is_some()).count();
        let share = (CHUNK / replays.max(1)).max(1);
        // Not zero, which would be over before the first call.
        let time = self.slice / u32::try_from(replays.max(1)).unwrap_or(u32::MAX);
        let time = time.max(Duration::from_nanos(1));
        (0..self.members.len()).fold(false, |more, at| self.replay_to(at, share, time, removed) | more)
    }

    /// As [`replay`](Self::replay), for the listener that was added last, without a time limit: it runs on the thread of the
    /// caller that adds the listener.
    pub(crate) fn replay_to_last(&mut self, removed: &dyn Fn(u64) -> bool) -> bool {
        let last = self.members.len().checked_sub(1);
        last.is_some_and(|last| self.replay_to(last, CHUNK, Duration::MAX, removed))
    }

    fn replay_to(&mut self, at: usize, calls: usize, time: Duration, removed: &dyn Fn(u64) -> bool) -> bool {
        let member = &mut self.members[at];
        let mut slice = Slice::new(time);
        for _ in 0..calls {
            if slice.is_over() {
                break;
            }
            let Some(replay) = member.replay.as_mut().filter(|_| !removed(member.id)) else { return false };
            let listener = &*member.listener;
            let mut call = |notification: &Notification<'_>| {
                slice.run(self.cluster.as_deref(), &self.resource, notification.key(), || {
                    notification.call(listener);
                })
            };
            let called = if let Some(object) = replay.objects.next() {
                call(&Notification::added(&object, true))
            } else if let Some(change) = replay.backlog.pop_front() {
                call(&Notification::of(&change, false))
            } else {
                member.replay = None;
                if self.synced {
                    self.panics += u64::from(member.end_initial_list());
                }
                return false;
            };
            listener.took(called.took);
            slice.count();
            self.notifications += 1;
            self.panics += u64::from(called.outcome.is_none());
        }
        member.replay.is_some()
    }

    /// A list has been handed over: the initial one to all listeners that have not heard so.
    pub(crate) fn end_initial_list(&mut self, removed: &dyn Fn(u64) -> bool) {
        self.synced = true;
        for member in &self.members {
            // The replay ends with it.
            if member.replay.is_none() && !*member.delivered.borrow() && !removed(member.id) {
                self.panics += u64::from(member.end_initial_list());
            }
        }
    }

    // Resyncs.

    /// When the next listener's resync is due.
    pub(crate) fn next_resync(&self) -> Option<Instant> {
        self.members.iter().filter_map(|member| Some(member.resync.as_ref()?.next)).min()
    }

    /// Marks the listeners whose time has come; tells whether there are any.
    pub(crate) fn mark_due(&mut self, now: Instant) -> bool {
        let mut any = false;
        for resync in self.members.iter_mut().filter_map(|member| member.resync.as_mut()) {
            if resync.next <= now {
                resync.due = true;
                resync.next = now + resync.period;
                any = true;
            }
        }
        any
    }

    /// A resync begins: it is for those that are due now. Tells whether there are any.
    pub(crate) fn begin_resync(&mut self) -> bool {
        let mut any = false;
        for member in &mut self.members {
            if member.resync.as_mut().is_some_and(|resync| std::mem::take(&mut resync.due)) {
                self.groups.set_due(member.group, member.joined_after);
                any = true;
            }
        }
        any
    }

    pub(crate) fn end_resync(&mut self) {
        self.groups.end_resync();
    }
}

/// The place of a listener among others in the order of joining, or where it would be. `hint`: where it is if none in front of
/// it was left out.
fn position(members: &[Member], joined_after: u64, hint: usize) -> usize {
    if members.get(hint).is_some_and(|member| member.joined_after == joined_after) {
        return hint;
    }
    members.partition_point(|member| member.joined_after < joined_after)
}

impl Begun {
    fn new(change: Change) -> Self {
        Self { change, candidates: None, calls: Vec::new(), made: 0 }
    }
}

#[cfg(test)]
mod equivalence_tests;
#[cfg(test)]
mod lookup_tests;
#[cfg(test)]
mod tests;
