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

    /// Reconciles one key. Calls for one key never overlap.
    fn reconcile(&mut self, request: &Request) -> Result<Outcome, Failure>;
}
