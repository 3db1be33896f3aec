//! The world `event-handler`, which is edge-triggered: the trait, and the events. The world
//! [`controller`](crate::Controller) has the same handlers.

use crate::{Config, Context, Descriptor, Failure, Key, Object};

/// An edge-triggered plugin: it receives the changes of the watched objects, in order for each object, with one call at
/// a time per watch.
///
/// The host merges changes that arrive faster than the plugin handles them: the old object of an update is then the last
/// state that was delivered, and an object that was added and deleted in between is not delivered. The default methods
/// do nothing.
///
/// An event whose handler fails comes again after the rate limiter's delay, merged with newer ones of its object; with a
/// terminal [`Failure`] it is dropped. Events of other objects do not wait for it.
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
    /// An error fails the events of the call for good. The next call tries again.
    fn new(config: &Config) -> Result<Self, String>;

    /// An object was added.
    ///
    /// # Errors
    /// See [`EventHandler`].
    fn on_add(&mut self, ctx: &Context, event: &Added<'_>) -> Result<(), Failure> {
        let _ = (ctx, event);
        Ok(())
    }

    /// An object was updated.
    ///
    /// # Errors
    /// See [`EventHandler`].
    fn on_update(&mut self, ctx: &Context, event: &Updated<'_>) -> Result<(), Failure> {
        let _ = (ctx, event);
        Ok(())
    }

    /// An object was deleted.
    ///
    /// # Errors
    /// See [`EventHandler`].
    fn on_delete(&mut self, ctx: &Context, event: &Deleted<'_>) -> Result<(), Failure> {
        let _ = (ctx, event);
        Ok(())
    }

    /// Handles a batch of events of one watch, each of another object. The default calls the methods above for one after
    /// the other. Returns one result per event, in their order.
    fn on_events(&mut self, ctx: &Context, events: &[Event<'_>]) -> Vec<Result<(), Failure>> {
        let handle = |event: &Event<'_>| match event {
            Event::Added(event) => self.on_add(ctx, event),
            Event::Updated(event) => self.on_update(ctx, event),
            Event::Deleted(event) => self.on_delete(ctx, event),
        };
        events.iter().map(handle).collect()
    }

    /// All objects of the first list of a watch were delivered once, whether their events were handled or failed. `watch`
    /// is the name of the watch.
    fn on_synced(&mut self, ctx: &Context, watch: &str) {
        let _ = (ctx, watch);
    }
}

/// An event of a watch.
#[derive(Debug)]
pub enum Event<'call> {
    /// An object was added.
    Added(Added<'call>),
    /// An object was updated.
    Updated(Updated<'call>),
    /// An object was deleted.
    Deleted(Deleted<'call>),
}

/// An object was added, or was there when the plugin started.
#[derive(Debug)]
#[non_exhaustive]
pub struct Added<'call> {
    /// The name of the watch in the descriptor.
    pub watch: &'call str,
    /// The key of the object.
    pub key: Key,
    /// The object.
    pub object: Object<'call>,
    /// Whether it is of the first list, and delivered for the first time.
    pub is_initial: bool,
}

/// An object was updated.
#[derive(Debug)]
#[non_exhaustive]
pub struct Updated<'call> {
    /// The name of the watch in the descriptor.
    pub watch: &'call str,
    /// The key of the object.
    pub key: Key,
    /// The object before the change; `None` if the host did not keep it.
    pub old: Option<Object<'call>>,
    /// The object after the change.
    pub object: Object<'call>,
}

/// An object was deleted.
#[derive(Debug)]
#[non_exhaustive]
pub struct Deleted<'call> {
    /// The name of the watch in the descriptor.
    pub watch: &'call str,
    /// The key of the object.
    pub key: Key,
    /// The last known state of the object; `None` if it is unknown.
    pub object: Option<Object<'call>>,
    /// Whether the deletion event was missed and a list revealed the deletion: `object` may be older than the last
    /// state.
    pub final_state_unknown: bool,
}

impl<'call> Event<'call> {
    /// The key of the object.
    pub fn key(&self) -> &Key {
        match self {
            Self::Added(event) => &event.key,
            Self::Updated(event) => &event.key,
            Self::Deleted(event) => &event.key,
        }
    }

    /// The object after the change; of a deleted one its last known state, if it is known.
    pub fn object(&self) -> Option<&Object<'call>> {
        match self {
            Self::Added(event) => Some(&event.object),
            Self::Updated(event) => Some(&event.object),
            Self::Deleted(event) => event.object.as_ref(),
        }
    }
}
