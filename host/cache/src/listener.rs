//! [`Listener`]: the interface that an informer calls for each change of its store.
//!
//! Listeners are called from the task of the informer, or of the informer that it follows, one after the other, while no
//! other delta is handled, and the informer pauses every millisecond in between. Up to a thousand initial objects are
//! delivered by the thread that adds the listener. Listeners
//! must not block, wait or call the API. There are two in the house: the manager's mapper, which turns a change into keys of
//! a work queue, and the [`Ring`](crate::Ring), which keeps changes until a guest has time for them.

use std::time::Duration;

use pilothouse_object::{Object, ObjectKey};
use tokio::sync::watch;

use crate::interest::Interest;
use crate::notification::{Notification, Verdict};

/// Called for every change, in order, one call at a time.
///
/// What it may rely on: the store was changed before the call; per key the calls are a legal sequence; nothing comes
/// after its removal has returned. A panic is contained and counted, and the informer goes on as if the call had
/// returned.
pub trait Listener: Send + Sync {
    /// A key that was not there before. `is_in_initial_list`: it stands for what was there when the listener joined.
    fn on_add(&self, object: &Object, is_in_initial_list: bool);

    /// A key that was there, with the same UID. `is_sync`: nothing changed; the listener asked to be told again.
    fn on_update(&self, old: &Object, new: &Object, is_sync: bool);

    /// A key that is gone. With `final_state_unknown` nobody saw it go: the object may be out of date or absent.
    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, final_state_unknown: bool);

    /// Which changes concern it; none if it is called for all. Asked once, when it joins. One that has an interest is called
    /// through [`on_judged`](Self::on_judged) for changes, and judges for itself in the methods above: these are called while
    /// its initial objects are delivered, and for changes meanwhile.
    fn interest(&self) -> Option<Interest> {
        None
    }

    /// A change for which its interest has a verdict.
    fn on_judged(&self, notification: &Notification<'_>, verdict: Verdict) {
        let _ = (notification, verdict);
    }

    /// Whether it takes the place of another listener, which may leave before it has heard of every change that the store has
    /// by now. Such a listener is also called, after its initial objects, for the changes that wait in the informer when it
    /// joins, except for those of the first list. What they are about may be among its initial objects, and a deletion may be
    /// that of an object before. Asked once, when it joins.
    fn takes_waiting_changes(&self) -> bool {
        false
    }

    /// The last of the initial adds has been handed over (there may have been none). Called once.
    fn on_initial_list_end(&self) {}

    /// For listeners that only pass changes on: turns true when what was in the initial list has been dealt with.
    /// `None` means as soon as the calls have returned.
    fn synced(&self) -> Option<watch::Receiver<bool>> {
        None
    }

    /// Called after each call with its duration on the thread of the informer, for accounting. The time of a verdict
    /// that listeners share is reported to one of them, in turns.
    fn took(&self, _time: Duration) {}

    /// How many changes it holds that were not dealt with yet; shown by the admin pages.
    fn depth(&self) -> usize {
        0
    }
}
