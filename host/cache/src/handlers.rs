//! [`ResourceEventHandlerFuncs`] and [`FilteringResourceEventHandler`]: client-go's ready-made handlers, as listeners.
//!
//! ```
//! use pilothouse_cache::{FilteringResourceEventHandler, ResourceEventHandlerFuncs};
//!
//! let funcs = ResourceEventHandlerFuncs::new()
//!     .on_add(|object, _initial| tracing::info!(key = %object.key(), "added"))
//!     .on_delete(|key, _last, _unknown| tracing::info!(%key, "deleted"));
//! let of_web = FilteringResourceEventHandler::by(|object| object.label("app").as_deref() == Some("web"), funcs);
//! # let _: std::sync::Arc<dyn pilothouse_cache::Listener> = std::sync::Arc::new(of_web);
//! ```

use std::sync::Arc;
use std::time::Duration;

use pilothouse_object::{FieldValues, Object, ObjectKey};
use tokio::sync::watch;

use crate::interest::Interest;
use crate::listener::Listener;
use crate::notification::{Notification, Verdict};

type OnAdd = Box<dyn Fn(&Object, bool) + Send + Sync>;
type OnUpdate = Box<dyn Fn(&Object, &Object) + Send + Sync>;
type OnDelete = Box<dyn Fn(&ObjectKey, Option<&Object>, bool) + Send + Sync>;

/// A listener made of closures; those that are not given do nothing.
#[derive(Default)]
pub struct ResourceEventHandlerFuncs {
    on_add: Option<OnAdd>,
    on_update: Option<OnUpdate>,
    on_delete: Option<OnDelete>,
}

impl ResourceEventHandlerFuncs {
    /// A listener that does nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Called with the object, and whether it was there when the listener joined.
    #[must_use]
    pub fn on_add(mut self, call: impl Fn(&Object, bool) + Send + Sync + 'static) -> Self {
        self.on_add = Some(Box::new(call));
        self
    }

    /// Called with the old state and the new one; they are of the same version in a resync.
    #[must_use]
    pub fn on_update(mut self, call: impl Fn(&Object, &Object) + Send + Sync + 'static) -> Self {
        self.on_update = Some(Box::new(call));
        self
    }

    /// Called with the key, the last known state, and whether nobody saw the object go, so that the state may be out of
    /// date or absent (`DeletedFinalStateUnknown`).
    #[must_use]
    pub fn on_delete(
        mut self,
        call: impl Fn(&ObjectKey, Option<&Object>, bool) + Send + Sync + 'static,
    ) -> Self {
        self.on_delete = Some(Box::new(call));
        self
    }
}

impl Listener for ResourceEventHandlerFuncs {
    fn on_add(&self, object: &Object, is_in_initial_list: bool) {
        if let Some(call) = &self.on_add {
            call(object, is_in_initial_list);
        }
    }

    fn on_update(&self, old: &Object, new: &Object, _is_sync: bool) {
        if let Some(call) = &self.on_update {
            call(old, new);
        }
    }

    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, final_state_unknown: bool) {
        if let Some(call) = &self.on_delete {
            call(key, object, final_state_unknown);
        }
    }
}

impl std::fmt::Debug for ResourceEventHandlerFuncs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResourceEventHandlerFuncs").finish_non_exhaustive()
    }
}

/// Selects the objects for which a listener is called. Closures are filters.
pub trait EventFilter: Send + Sync {
    /// Whether an object in this state is in view.
    fn shows(&self, object: &Object) -> bool;

    /// As [`shows`](Self::shows), with values of the object that others may have read before.
    fn shows_values(&self, values: &FieldValues<'_>) -> bool {
        self.shows(values.object())
    }

    /// Whether an object of this key can be in view: decides on a deletion of which only the key is known.
    fn shows_key(&self, key: &ObjectKey) -> bool {
        let _ = key;
        true
    }

    /// What a change is to a listener behind the filter; none if nothing of it is in view.
    fn verdict(&self, notification: &Notification<'_>) -> Option<Verdict> {
        match notification {
            Notification::Added { object, .. } => self.shows_values(object).then_some(Verdict::Added),
            Notification::Updated { old, new, .. } => {
                match (self.shows_values(old), self.shows_values(new)) {
                    (true, true) => Some(Verdict::Updated),
                    (true, false) => Some(Verdict::Deleted),
                    (false, true) => Some(Verdict::Added),
                    (false, false) => None,
                }
            }
            Notification::Deleted { key, object, .. } => object
                .as_ref()
                .map_or_else(|| self.shows_key(key), |object| self.shows_values(object))
                .then_some(Verdict::Deleted),
        }
    }

    /// The interest of a listener behind the filter, whose judge gives the [`verdict`](Self::verdict) of the filter; none if
    /// the filter cannot be compared with others, as a closure.
    fn interest(&self) -> Option<Interest> {
        None
    }
}

impl<F: Fn(&Object) -> bool + Send + Sync> EventFilter for F {
    fn shows(&self, object: &Object) -> bool {
        self(object)
    }
}

/// Passes on to a listener what a filter shows. An object that comes into view is an add, one that goes out of it a
/// deletion (with its last state in view), and what is never in view is not told. A deletion of which only the key is
/// known is told if the key can be in view: the listener may be told of the deletion of what it never saw.
///
/// It sees each single change: put it in front of a ring, not behind.
pub struct FilteringResourceEventHandler<F, L: ?Sized> {
    filter: F,
    listener: Arc<L>,
}

impl<F: EventFilter, L: Listener + ?Sized> FilteringResourceEventHandler<F, L> {
    /// Passes on to `listener` what `filter` shows.
    pub fn new(filter: F, listener: Arc<L>) -> Self {
        Self { filter, listener }
    }
}

impl<L: Listener> FilteringResourceEventHandler<(), L> {
    /// Passes on what a predicate holds of.
    pub fn by(
        predicate: impl Fn(&Object) -> bool + Send + Sync,
        listener: L,
    ) -> FilteringResourceEventHandler<impl EventFilter, L> {
        FilteringResourceEventHandler { filter: predicate, listener: Arc::new(listener) }
    }
}

impl<F: EventFilter, L: Listener + ?Sized> FilteringResourceEventHandler<F, L> {
    fn pass_on(&self, notification: &Notification<'_>) {
        if let Some(verdict) = self.filter.verdict(notification) {
            self.on_judged(notification, verdict);
        }
    }
}

impl<F: EventFilter, L: Listener + ?Sized> Listener for FilteringResourceEventHandler<F, L> {
    fn on_add(&self, object: &Object, is_in_initial_list: bool) {
        self.pass_on(&Notification::added(object, is_in_initial_list));
    }

    fn on_update(&self, old: &Object, new: &Object, is_sync: bool) {
        self.pass_on(&Notification::updated(old, new, is_sync));
    }

    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, final_state_unknown: bool) {
        self.pass_on(&Notification::deleted(key, object, final_state_unknown));
    }

    fn interest(&self) -> Option<Interest> {
        self.filter.interest()
    }

    fn on_judged(&self, notification: &Notification<'_>, verdict: Verdict) {
        notification.call_as(verdict, &*self.listener);
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
        self.listener.took(time);
    }

    fn depth(&self) -> usize {
        self.listener.depth()
    }
}

impl<F, L: ?Sized> std::fmt::Debug for FilteringResourceEventHandler<F, L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilteringResourceEventHandler").finish_non_exhaustive()
    }
}
