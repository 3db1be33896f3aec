//! The world `controller`: event handlers put keys on the queue and reconcile takes them, as in client-go.

use crate::{Config, Deleted, Descriptor, Failure, Object, Outcome, Request};

/// A controller in the style of client-go. For watches with [`Map::handler`](crate::Map::handler), `on_add`,
/// `on_update` and `on_delete` decide which keys to reconcile, and add them to the [`queue`](crate::queue). For
/// watches with another map, the host adds the keys to the queue.
///
/// Event handlers and reconciles may run in different instances, with different state in `self`. The default event
/// handlers do nothing.
///
/// Put [`#[pilothouse_sdk::controller]`](macro@crate::controller) on the `impl` block.
pub trait Controller: Sized + 'static {
    /// Returns the descriptor.
    ///
    /// # Errors
    /// As [`Reconciler::describe`](crate::Reconciler::describe).
    fn describe(config: &Config) -> Result<Descriptor, String>;

    /// Creates the state of an instance; see [`Reconciler::new`](crate::Reconciler::new).
    ///
    /// # Errors
    /// An error ends an event handler with a fault and fails a reconcile. The next call tries again.
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

    /// Reconciles one key. Calls for one key never overlap.
    ///
    /// # Errors
    /// As [`Reconciler::reconcile`](crate::Reconciler::reconcile).
    fn reconcile(&mut self, request: &Request) -> Result<Outcome, Failure>;
}
