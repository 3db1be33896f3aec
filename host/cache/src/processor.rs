//! [`Processor`]: the listeners of one informer and what each of them is owed.
//!
//! The informer holds it under the lock that also covers changing the store, so joining and leaving fall between two
//! batches, never into one. Invariants: a listener hears of a change after the store has it; one that panics loses that
//! one call; one marked as removed is not called any more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_object::Object;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::change::Change;
use crate::listener::Listener;

/// Asked-for resync periods below this are raised to it.
const MIN_RESYNC: Duration = Duration::from_secs(1);

/// Holds the listeners of one informer.
#[derive(Default)]
pub(crate) struct Processor {
    members: Vec<Member>,
    next_id: u64,
    /// The first list has been handed over: who joins later has it all from the replay.
    synced: bool,
    pub(crate) notifications: u64,
    pub(crate) panics: u64,
}

struct Member {
    id: u64,
    listener: Arc<dyn Listener>,
    resync: Option<Resync>,
    delivered: watch::Sender<bool>,
}

struct Resync {
    period: Duration,
    next: Instant,
    /// Its time has come; it is told of everything again when the resync is handled.
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
    /// Adds a listener; its number, and what turns true when its initial list has been handed over.
    pub(crate) fn add(
        &mut self,
        listener: Arc<dyn Listener>,
        resync: Option<Duration>,
    ) -> (u64, watch::Receiver<bool>) {
        let id = self.next_id;
        self.next_id += 1;
        let resync = resync.filter(|period| !period.is_zero()).map(|period| {
            let period = period.max(MIN_RESYNC);
            Resync { period, next: Instant::now() + period, due: false, syncing: false }
        });
        let delivered = watch::Sender::new(false);
        let receiver = delivered.subscribe();
        self.members.push(Member { id, listener, resync, delivered });
        (id, receiver)
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.members.retain(|member| member.id != id);
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn depth(&self) -> usize {
        self.members.iter().map(|member| member.listener.depth()).sum()
    }

    /// Whether some listener wants to hear of objects that came again unchanged.
    pub(crate) fn wants_unchanged(&self) -> bool {
        self.members.iter().any(|member| member.resync.is_some())
    }

    /// Tells all listeners of a change. `removed` knows those that left while the batch is handled.
    pub(crate) fn distribute(
        &mut self,
        change: &Change,
        initial: bool,
        audience: Audience,
        removed: &dyn Fn(u64) -> bool,
    ) {
        let is_sync = matches!(change, Change::Updated { old, new }
            if !new.resource_version().is_empty() && old.resource_version() == new.resource_version());
        for member in &self.members {
            if (is_sync && !member.hears(audience)) || removed(member.id) {
                continue;
            }
            self.notifications += 1;
            self.panics += u64::from(contained(|| match change {
                Change::Added(object) => member.listener.on_add(object, initial),
                Change::Updated { old, new } => member.listener.on_update(old, new, is_sync),
                Change::Deleted { key, object, final_state_unknown } => {
                    member.listener.on_delete(key, object.as_ref(), *final_state_unknown);
                }
            }));
        }
    }

    /// Tells one listener of everything that was there when it joined.
    pub(crate) fn replay(
        &mut self,
        id: u64,
        objects: impl Iterator<Item = Object>,
        removed: &dyn Fn(u64) -> bool,
    ) {
        let Some(member) = self.members.iter().find(|member| member.id == id) else { return };
        for object in objects {
            if removed(id) {
                return;
            }
            self.notifications += 1;
            self.panics += u64::from(contained(|| member.listener.on_add(&object, true)));
        }
    }

    /// The replay to a listener is over; without a first list it has not had all yet.
    pub(crate) fn end_replay(&mut self, removed: &dyn Fn(u64) -> bool) {
        if self.synced {
            self.end_initial_list(removed);
        }
    }

    /// A list has been handed over: the initial one to all who have not heard so.
    pub(crate) fn end_initial_list(&mut self, removed: &dyn Fn(u64) -> bool) {
        self.synced = true;
        for member in &self.members {
            if *member.delivered.borrow() || removed(member.id) {
                continue;
            }
            self.panics += u64::from(contained(|| member.listener.on_initial_list_end()));
            member.delivered.send_replace(true);
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

impl Member {
    fn hears(&self, audience: Audience) -> bool {
        match (&self.resync, audience) {
            (None, _) => false,
            (Some(_), Audience::Resyncing) => true,
            (Some(resync), Audience::Due) => resync.syncing,
        }
    }
}

/// Runs a listener's call; whether it panicked.
fn contained(call: impl FnOnce()) -> bool {
    let panicked = catch_unwind(AssertUnwindSafe(call)).is_err();
    if panicked {
        tracing::error!(
            event = "listener_panicked",
            "a listener panicked; the informer goes on without this call"
        );
    }
    panicked
}
