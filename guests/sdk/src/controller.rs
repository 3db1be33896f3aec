//! The world `controller`: event handlers put keys on the queue and reconcile takes them, as in client-go.

use crate::{Added, Config, Context, Deleted, Descriptor, Event, Failure, Outcome, Request, Updated};

/// A controller in the style of client-go. For watches with [`Map::handler`](crate::Map::handler), `on_add`,
/// `on_update` and `on_delete` decide which keys to reconcile, and add them to the [`queue`](crate::Context::queue).
/// For watches with another map, the host adds the keys to the queue.
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
    /// An error fails the call for good. The next call tries again.
    fn new(config: &Config) -> Result<Self, String>;

    /// An object was added.
    ///
    /// # Errors
    /// As [`EventHandler::on_add`](crate::EventHandler::on_add).
    fn on_add(&mut self, ctx: &Context, event: &Added<'_>) -> Result<(), Failure> {
        let _ = (ctx, event);
        Ok(())
    }

    /// An object was updated.
    ///
    /// # Errors
    /// As [`EventHandler::on_update`](crate::EventHandler::on_update).
    fn on_update(&mut self, ctx: &Context, event: &Updated<'_>) -> Result<(), Failure> {
        let _ = (ctx, event);
        Ok(())
    }

    /// An object was deleted.
    ///
    /// # Errors
    /// As [`EventHandler::on_delete`](crate::EventHandler::on_delete).
    fn on_delete(&mut self, ctx: &Context, event: &Deleted<'_>) -> Result<(), Failure> {
        let _ = (ctx, event);
        Ok(())
    }

    /// Handles a batch of events; see [`EventHandler::on_events`](crate::EventHandler::on_events).
    fn on_events(&mut self, ctx: &Context, events: &[Event<'_>]) -> Vec<Result<(), Failure>> {
        let handle = |event: &Event<'_>| match event {
            Event::Added(event) => self.on_add(ctx, event),
            Event::Updated(event) => self.on_update(ctx, event),
            Event::Deleted(event) => self.on_delete(ctx, event),
        };
        events.iter().map(handle).collect()
    }

    /// The first list of a watch was delivered; see [`EventHandler::on_synced`](crate::EventHandler::on_synced).
    fn on_synced(&mut self, ctx: &Context, watch: &str) {
        let _ = (ctx, watch);
    }

    /// Reconciles one key. Calls for one key never overlap.
    ///
    /// # Errors
    /// As [`Reconciler::reconcile`](crate::Reconciler::reconcile).
    fn reconcile(&mut self, ctx: &Context, request: &Request) -> Result<Outcome, Failure>;
}
