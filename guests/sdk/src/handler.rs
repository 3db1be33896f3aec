//! The world `event-handler`: the trait, and what it is told about a deletion. Edge-triggered.

use crate::{Config, Descriptor, Key, Kind, Object};

/// An edge-triggered plugin: told of each change of the watched objects, in order for each object, one call at a time
/// for each watch.
///
/// Changes that come faster than they are handled are merged: `on_update` then has the oldest state not yet seen as
/// `old`, and an object that came and went is not shown at all. What is not implemented does nothing.
///
/// Put [`#[pilothouse_sdk::event_handler]`](macro@crate::event_handler) on the `impl` block.
pub trait EventHandler: Sized + 'static {
    /// What the plugin is and needs; see [`Reconciler::describe`](crate::Reconciler::describe).
    fn describe(config: &Config) -> Result<Descriptor, String>;

    /// Makes the state of an instance; see [`Reconciler::new`](crate::Reconciler::new).
    fn new(config: &Config) -> Result<Self, String>;

    /// An object came into view; `initial` while the first list is delivered.
    fn on_add(&mut self, object: &Object, initial: bool) {
        let _ = (object, initial);
    }

    /// An object changed; `old` is none when the host had to let it go.
    fn on_update(&mut self, old: Option<&Object>, new: &Object) {
        let _ = (old, new);
    }

    /// An object is gone.
    fn on_delete(&mut self, deleted: &Deleted<'_>) {
        let _ = deleted;
    }
}

/// An object that is gone.
#[derive(Debug)]
pub struct Deleted<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its key.
    pub key: Key,
    /// Its last known state; none when unknown.
    pub object: Option<&'a Object>,
    /// Whether the deletion was found by a list, so that `object` may be older than the end.
    pub final_state_unknown: bool,
}
