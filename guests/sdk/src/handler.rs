//! The world `event-handler`: the trait, and the argument of `on_delete`. Edge-triggered.

use crate::{Config, Descriptor, Key, Kind, Object};

/// An edge-triggered plugin: it gets the changes of the watched objects, in order for each object, with one call at a
/// time per watch.
///
/// Changes that arrive faster than they are handled are merged: `old` of `on_update` is then the last state that was
/// delivered, and an object that was added and deleted meanwhile is not delivered. The default methods do nothing.
/// An event whose call faults is not delivered again.
///
/// Put [`#[pilothouse_sdk::event_handler]`](macro@crate::event_handler) on the `impl` block.
pub trait EventHandler: Sized + 'static {
    /// Returns the descriptor; see [`Reconciler::describe`](crate::Reconciler::describe).
    fn describe(config: &Config) -> Result<Descriptor, String>;

    /// Creates the state of an instance; see [`Reconciler::new`](crate::Reconciler::new).
    fn new(config: &Config) -> Result<Self, String>;

    /// An object was added. `initial` is true while the first list is delivered.
    fn on_add(&mut self, object: &Object, initial: bool) {
        let _ = (object, initial);
    }

    /// An object changed. `old` is none if the host did not keep it.
    fn on_update(&mut self, old: Option<&Object>, new: &Object) {
        let _ = (old, new);
    }

    /// An object was deleted.
    fn on_delete(&mut self, deleted: &Deleted<'_>) {
        let _ = deleted;
    }
}

/// A deleted object.
#[derive(Debug)]
pub struct Deleted<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its key.
    pub key: Key,
    /// Its last known state; none if unknown.
    pub object: Option<&'a Object>,
    /// Whether a list revealed the deletion, so that `object` may be older than the last state.
    pub final_state_unknown: bool,
}
