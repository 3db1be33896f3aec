//! The world `controller`: handlers put keys on the queue, reconcile takes them, as with client-go.

use crate::{Config, Deleted, Descriptor, Failure, Object, Outcome, Request};

/// A controller in the style of client-go: for watches with [`Map::handler`](crate::Map::handler) the guest itself
/// decides in `on_add`, `on_update` and `on_delete` which keys a change concerns, and adds them to the
/// [`queue`](crate::queue). Watches with another map go straight to the queue.
///
/// Handlers and reconciles may run in different instances: nothing that one keeps in `self` is sure to be seen by the
/// other. Handlers that are not implemented do nothing.
///
/// Put [`#[pilothouse_sdk::controller]`](macro@crate::controller) on the `impl` block.
pub trait Controller: Sized + 'static {
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

    /// Reconciles one key. Calls for one key never overlap.
    fn reconcile(&mut self, request: &Request) -> Result<Outcome, Failure>;
}
