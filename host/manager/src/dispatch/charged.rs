//! [`Charged`]: a listener whose calls are charged to its plugin. Filters, predicates and mappings of a watch run on the thread
//! of the informer, for every change, so a plugin with many watches costs the host time also when no guest is called. What
//! plugins with equal watches share is charged to one of them, in turns.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_cache::{Interest, Listener, Notification, Verdict};
use pilothouse_object::{Object, ObjectKey};
use tokio::sync::watch;

use crate::observe::metrics::cpu::HostTime;

/// Passes everything on, and adds the time of the calls to the plugin's account.
pub(crate) struct Charged {
    pub(crate) listener: Arc<dyn Listener>,
    pub(crate) account: HostTime,
}

impl Listener for Charged {
    fn on_add(&self, object: &Object, is_in_initial_list: bool) {
        self.listener.on_add(object, is_in_initial_list);
    }

    fn on_update(&self, old: &Object, new: &Object, is_sync: bool) {
        self.listener.on_update(old, new, is_sync);
    }

    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, final_state_unknown: bool) {
        self.listener.on_delete(key, object, final_state_unknown);
    }

    fn interest(&self) -> Option<Interest> {
        self.listener.interest()
    }

    fn on_judged(&self, notification: &Notification<'_>, verdict: Verdict) {
        self.listener.on_judged(notification, verdict);
    }

    fn takes_waiting_changes(&self) -> bool {
        self.listener.takes_waiting_changes()
    }

    fn on_initial_list_end(&self) {
        self.listener.on_initial_list_end();
    }

    fn synced(&self) -> Option<watch::Receiver<bool>> {
        self.listener.synced()
    }

    fn took(&self, time: Duration) {
        self.account.add_elsewhere(time);
    }

    fn depth(&self) -> usize {
        self.listener.depth()
    }
}
