//! The world `event-handler`, which is edge-triggered: the trait, and the argument of `on_delete`.

use crate::{Config, Descriptor, Key, Kind, Object};

/// An edge-triggered plugin: it receives the changes of the watched objects, in order for each object, with one call at
/// a time per watch.
///
/// The host merges changes that arrive faster than the plugin handles them: `old` of `on_update` is then the last state
/// that was delivered, and an object that was added and deleted in between is not delivered. The default methods do
/// nothing. An event whose call ends with a fault is not delivered again.
///
/// Put [`#[pilothouse_sdk::event_handler]`](macro@crate::event_handler) on the `impl` block.
pub trait EventHandler: Sized + 'static {
    /// Returns the descriptor.
    ///
    /// # Errors
    /// As [`Reconciler::describe`](crate::Reconciler::describe).
    fn describe(config: &Config) -> Result<Descriptor, String>;

    /// Creates the state of an instance; see [`Reconciler::new`](crate::Reconciler::new).
    ///
    /// # Errors
    /// An error ends the call with a fault. The next call tries again.
    fn new(config: &Config) -> Result<Self, String>;

    /// An object was added. `initial` is `true` for the objects of the initial list.
    fn on_add(&mut self, object: &Object, initial: bool) {
        let _ = (object, initial);
    }

    /// An object was updated. `old` is `None` if the host does not have the old state.
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
    /// The kind of the object.
    pub kind: Kind,
    /// The key of the object.
    pub key: Key,
    /// The last known state of the object; `None` if it is unknown.
    pub object: Option<&'a Object>,
    /// Whether the deletion event was missed and a list revealed the deletion: `object` may be older than the last
    /// state.
    pub final_state_unknown: bool,
}
