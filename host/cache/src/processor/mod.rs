//! [`Processor`]: the listeners of one informer, their resyncs, and the changes and initial objects still to be delivered to
//! them.
//!
//! The informer holds it under the lock that also covers changing the store, so joining and leaving fall between two
//! batches, or between two chunks of calls. Invariants: a listener is called for a change after the store has it; a panic
//! of a listener costs that one call; a listener marked as removed is not called any more; a listener gets its initial
//! objects first, then the changes since it joined. Changes of the store are queued here before anything else is done with
//! them, so that a panic in between hides none from the listeners.
//!
//! Calls are made in slices of about a millisecond, since the number of listeners is that of the plugins: a slice may end
//! between two listeners of one change.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_object::{Gvr, ObjectKey};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::change::Change;
use crate::listener::Listener;
use crate::snapshot::{Cursor, Snapshot};

/// Asked-for resync periods below this are raised to it.
const MIN_RESYNC: Duration = Duration::from_secs(1);

/// Holds the listeners of one informer.
pub(crate) struct Processor {
    resource: Gvr,
    members: Vec<Member>,
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
    /// A change that some listeners were called for, and how many had joined before the next one.
    begun: Option<(Change, u64)>,
}

/// The calls of one slice.
struct Slice {
    calls: usize,
    spent: Duration,
    length: Duration,
}

impl Slice {
    fn new(length: Duration) -> Self {
        Self { calls: 0, spent: Duration::ZERO, length }
    }

    fn count(&mut self, took: Duration) {
        self.calls += 1;
        self.spent += took;
    }

    fn is_over(&self) -> bool {
        self.calls >= CHUNK || self.spent >= self.length
    }
}

/// A listener that is to be added.
pub(crate) struct NewMember {
    pub(crate) id: u64,
    pub(crate) listener: Arc<dyn Listener>,
    /// How often it wants resyncs; `None` and zero for never.
    pub(crate) resync: Option<Duration>,
    /// Turns true when it has got all initial objects.
    pub(crate) delivered: watch::Sender<bool>,
}

struct Member {
    id: u64,
    /// How many listeners had joined before.
    joined_after: u64,
    listener: Arc<dyn Listener>,
    resync: Option<Resync>,
    delivered: watch::Sender<bool>,
    /// What the listener gets before it gets changes as they come.
    replay: Option<Replay>,
}

/// The initial objects of a listener that joined late, and the changes since.
struct Replay {
    objects: Cursor,
    backlog: VecDeque<Change>,
}

/// Calls between two moments at which other threads get the lock: well under a millisecond, as a rule.
const CHUNK: usize = 1000;

/// The longest that calls go on when they take longer: other tasks of the thread wait for them.
const SLICE: Duration = Duration::from_millis(1);

/// A call of a listener for so long is logged: client-go's threshold.
const SLOW_CALL: Duration = Duration::from_millis(100);

struct Resync {
    period: Duration,
    next: Instant,
    /// The period is over; the next resync that is handled is for this listener as well.
    due: bool,
    /// The resync being handled is for it as well.
    syncing: bool,
}

/// Which listeners are told of an update that changed nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Those that asked for resyncs at all: the object came again in a list or a watch.
    Resyncing,
    /// Those for whom the present resync is.
    Due,
}

impl Processor {
    pub(crate) fn new(resource: Gvr) -> Self {
        Self {
            resource,
            members: Vec::new(),
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
        // A period beyond the reach of the clock means never.
        let resync = resync.filter(|period| !period.is_zero()).and_then(|period| {
            let period = period.max(MIN_RESYNC);
            let next = Instant::now().checked_add(period)?;
            Some(Resync { period, next, due: false, syncing: false })
        });
        let replay = Some(Replay { objects: snapshot.cursor(), backlog: VecDeque::new() });
        let joined_after = self.joined;
        self.joined += 1;
        self.members.push(Member { id, joined_after, listener, resync, delivered, replay });
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.members.retain(|member| member.id != id);
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
        let changes = Box::new(changes);
        self.pending.push_back(Distribution { changes, initial, audience, members, begun: None });
    }

    /// Calls the listeners for some of the queued changes; tells whether there may be more. `removed` knows the listeners
    /// that left meanwhile.
    pub(crate) fn distribute(&mut self, removed: &dyn Fn(u64) -> bool) -> bool {
        let mut slice = Slice::new(self.slice);
        while !slice.is_over() {
            let Some(distribution) = self.pending.front_mut() else { return false };
            let begun = distribution.begun.take();
            let Some((change, from)) = begun.or_else(|| Some((distribution.changes.next()?, 0))) else {
                self.pending.pop_front();
                continue;
            };
            // A change costs something without listeners, too.
            slice.count(Duration::ZERO);
            let is_sync = is_sync(&change);
            let from = self.members.partition_point(|member| member.joined_after < from);
            for member in &mut self.members[from..] {
                if slice.is_over() {
                    distribution.begun = Some((change, member.joined_after));
                    return true;
                }
                if member.joined_after >= distribution.members
                    || (is_sync && !member.hears(distribution.audience))
                    || removed(member.id)
                {
                    continue;
                }
                match &mut member.replay {
                    // It gets the object, unchanged, from its replay.
                    Some(_) if is_sync => {}
                    Some(replay) => replay.backlog.push_back(change.clone()),
                    None => {
                        let called = member.tell(&self.resource, &change, distribution.initial);
                        slice.count(called.took);
                        self.notifications += 1;
                        self.panics += u64::from(called.panicked);
                    }
                }
            }
        }
        true
    }

    /// Calls listeners that joined late for some of their initial objects, and for the changes since, each for its share of
    /// the calls: a short replay does not wait for a long one. Tells whether there are more.
    pub(crate) fn replay(&mut self, removed: &dyn Fn(u64) -> bool) -> bool {
        let replays = self.members.iter().filter(|member| member.replay.is_some()).count();
        let share = (CHUNK / replays.max(1)).max(1);
        let time = self.slice / u32::try_from(replays.max(1)).unwrap_or(u32::MAX);
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
            let called = if let Some(object) = replay.objects.next() {
                contained(&self.resource, object.key(), &*member.listener, |listener| {
                    listener.on_add(&object, true);
                })
            } else if let Some(change) = replay.backlog.pop_front() {
                member.tell(&self.resource, &change, false)
            } else {
                member.replay = None;
                if self.synced {
                    self.panics += u64::from(member.end_initial_list());
                }
                return false;
            };
            slice.count(called.took);
            self.notifications += 1;
            self.panics += u64::from(called.panicked);
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
        for resync in self.members.iter_mut().filter_map(|member| member.resync.as_mut()) {
            resync.syncing = std::mem::take(&mut resync.due);
            any |= resync.syncing;
        }
        any
    }

    pub(crate) fn end_resync(&mut self) {
        for resync in self.members.iter_mut().filter_map(|member| member.resync.as_mut()) {
            resync.syncing = false;
        }
    }
}

/// Whether an object came again unchanged, or with other fields of the same version. Two whole objects of one version
/// differ where a server was restored from a backup.
fn is_sync(change: &Change) -> bool {
    matches!(change, Change::Updated { old, new }
        if !new.resource_version().is_empty()
            && old.resource_version() == new.resource_version()
            && (old.is_partial() || new.is_partial() || old.held().is_same_text(new.held())))
}

impl Member {
    /// Calls the listener for a change.
    fn tell(&self, resource: &Gvr, change: &Change, initial: bool) -> Called {
        contained(resource, change.key(), &*self.listener, |listener| match change {
            Change::Added(object) => listener.on_add(object, initial),
            Change::Updated { old, new } => listener.on_update(old, new, is_sync(change)),
            Change::Deleted { key, object, final_state_unknown } => {
                listener.on_delete(key, object.as_ref(), *final_state_unknown);
            }
        })
    }

    /// Tells the listener that it has got all initial objects; whether it panicked.
    fn end_initial_list(&self) -> bool {
        let panicked = catch_unwind(AssertUnwindSafe(|| self.listener.on_initial_list_end())).is_err();
        self.delivered.send_replace(true);
        panicked
    }

    fn hears(&self, audience: Audience) -> bool {
        match (&self.resync, audience) {
            (None, _) => false,
            (Some(_), Audience::Resyncing) => true,
            (Some(resync), Audience::Due) => resync.syncing,
        }
    }
}

/// A call of a listener.
struct Called {
    panicked: bool,
    took: Duration,
}

/// Runs a listener's call for a key, and tells the listener how long it took. One that blocks is logged.
fn contained(
    resource: &Gvr,
    key: &ObjectKey,
    listener: &dyn Listener,
    call: impl FnOnce(&dyn Listener),
) -> Called {
    let began = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| call(listener)));
    let took = began.elapsed();
    listener.took(took);
    if took > SLOW_CALL {
        tracing::warn!(event = "listener_slow", %resource, %key, ?took, "a listener blocked its informer: listeners must not wait");
    }
    let Err(panic) = outcome else { return Called { panicked: false, took } };
    let message =
        panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(event = "listener_panicked", %resource, %key, message, "a listener panicked; the informer goes on without this call");
    Called { panicked: true, took }
}

#[cfg(test)]
mod tests;
