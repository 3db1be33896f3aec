//! [`Plugin`]: a plugin under test, and the loop that calls it as the host would.

use std::rc::Rc;

use serde_json::Value;

use super::World;
use super::descriptor::WatchSpec;
use super::maps::MapSpec;
use super::queue::backoff;
use super::state::{PendingEvent, merge};
use crate::{
    Added, Config, Context, Deleted, Descriptor, Event, Failure, Key, Object, Outcome, Reasons, Request,
    Updated,
};

/// A plugin of any world. The attribute of the world implements it.
pub trait Plugin: Sized {
    /// Whether the world has a reconcile.
    const RECONCILES: bool;

    /// Whether a reconcile takes several keys.
    const TAKES_MANY: bool = false;

    /// Returns the descriptor.
    ///
    /// # Errors
    /// As [`Reconciler::describe`](crate::Reconciler::describe).
    fn describe(config: &Config) -> Result<Descriptor, String>;

    /// Creates the state of an instance.
    ///
    /// # Errors
    /// As [`Reconciler::new`](crate::Reconciler::new).
    fn new(config: &Config) -> Result<Self, String>;

    /// Reconciles keys.
    #[doc(hidden)]
    fn reconcile_requests(&mut self, _ctx: &Context, _requests: &[Request]) -> Vec<Result<Outcome, Failure>> {
        Vec::new()
    }

    /// Handles events of one watch.
    #[doc(hidden)]
    fn handle_events(&mut self, _ctx: &Context, _events: &[Event<'_>]) -> Vec<Result<(), Failure>> {
        Vec::new()
    }

    /// The first list of a watch was delivered.
    #[doc(hidden)]
    fn handle_synced(&mut self, _ctx: &Context, _watch: &str) {}
}

/// A reconcile that [`World::settle`] made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The key.
    pub key: Key,
    /// Number of failed calls before it in a row.
    pub attempt: u32,
    /// Why it was made.
    pub reasons: Reasons,
    /// Its result.
    pub result: Result<Outcome, Failure>,
}

/// Reconciles, and calls of handlers, of one [`World::settle`]; a plugin that makes more never comes to rest.
const CALLS: usize = 10_000;

/// Keys of a call of a batch reconciler, and events of a call of handlers.
const BATCH: usize = 100;
const EVENTS: usize = 128;

/// How long a transient failure waits at least.
fn delay(failure: &Failure) -> u64 {
    failure.retry_delay().map_or(0, crate::duration::milliseconds)
}

impl World {
    /// Calls the plugin as the host would, until nothing is left to do at this time: handlers for the events that wait,
    /// and a reconcile for each key that is due. Returns the reconciles, in their order.
    ///
    /// Failures and delayed keys wait for [`advance`](World::advance).
    ///
    /// # Panics
    /// After 10,000 reconciles or calls of handlers: a plugin whose own writes make it run again and again does so in a
    /// cluster too.
    pub fn settle<P: Plugin>(&self, plugin: &mut P) -> Vec<Call> {
        let ctx = self.context();
        let (mut calls, mut deliveries) = (Vec::new(), 0);
        loop {
            self.state().sync();
            let is_idle = !self.deliver(plugin, &ctx);
            deliveries += usize::from(!is_idle);
            assert!(
                deliveries <= CALLS,
                "the plugin does not come to rest: after {CALLS} calls of its handlers there were still events"
            );
            if is_idle && !self.state().is_started {
                self.start_watches(plugin, &ctx);
                continue;
            }
            let requests = self.requests();
            if requests.is_empty() && is_idle {
                return calls;
            }
            if requests.is_empty() {
                continue;
            }
            let results = plugin.reconcile_requests(&ctx, &requests);
            assert_eq!(
                results.len(),
                requests.len(),
                "a batch reconciler answers every request: anything else is a fault"
            );
            for (request, result) in requests.into_iter().zip(results) {
                self.finish(&request, &result);
                let Request { key, attempt, reasons, .. } = request;
                calls.push(Call { key, attempt, reasons, result });
            }
            if calls.len() > CALLS {
                let last = &calls[calls.len() - 1];
                panic!(
                    "the plugin does not come to rest: after {CALLS} reconciles {} was still queued",
                    last.key
                );
            }
        }
    }

    fn requests(&self) -> Vec<Request> {
        let mut state = self.state();
        let now = state.server.now;
        let count = state.described.max_batch.unwrap_or(BATCH);
        let count = if state.is_batch { count } else { 1 };
        let waiting = state.queue.take(now, count);
        waiting
            .into_iter()
            .map(|waiting| Request {
                attempt: state.queue.failures(&waiting.key),
                key: waiting.key,
                reasons: waiting.reasons,
                priority: waiting.priority,
                cluster: 0,
            })
            .collect()
    }

    fn finish(&self, request: &Request, result: &Result<Outcome, Failure>) {
        let mut state = self.state();
        let (key, now) = (&request.key, state.server.now);
        match result {
            Ok(Outcome::Done) => state.queue.forget(key),
            Ok(Outcome::Requeue) => state.queue.add_rate_limited(key, now, 0),
            Ok(Outcome::RequeueAfter(after)) => {
                state.queue.forget(key);
                let due = now.saturating_add(crate::duration::milliseconds(*after).max(1));
                state.queue.add_at(key, due, Reasons::REQUEUED);
            }
            Err(failure) if failure.is_terminal() => state.queue.forget(key),
            Err(failure) => state.queue.add_rate_limited(key, now, delay(failure)),
        }
    }

    /// Delivers one batch of events; returns whether there was one.
    fn deliver<P: Plugin>(&self, plugin: &mut P, ctx: &Context) -> bool {
        let (watch, batch, objects) = {
            let mut state = self.state();
            let now = state.server.now;
            let Some(first) = state.pending.iter().find(|event| event.due <= now).map(|event| event.watch)
            else {
                return false;
            };
            let mut batch: Vec<PendingEvent> = Vec::new();
            let mut rest = Vec::new();
            for event in std::mem::take(&mut state.pending) {
                let is_other = event.watch != first
                    || event.due > now
                    || batch.len() == EVENTS
                    || batch.iter().any(|own| own.key == event.key);
                if is_other { rest.push(event) } else { batch.push(event) }
            }
            state.pending = rest;
            let watch = &state.described.watches[first];
            batch.retain(|event| event.passes(watch));
            let kind = watch.kind();
            // As the store keeps them: of a projected kind a part.
            let shown = |value: &Option<Rc<Value>>| value.as_ref().map(|value| state.cached(&kind, value));
            let objects: Vec<_> = batch.iter().map(|event| (shown(&event.old), shown(&event.new))).collect();
            (watch.name().to_owned(), batch, objects)
        };
        if batch.is_empty() {
            return true;
        }
        let events: Vec<Event<'_>> = batch
            .iter()
            .zip(objects)
            .map(|(event, (old, new))| event_of(&watch, event, old.map(Object::new), new.map(Object::new)))
            .collect();
        let results = plugin.handle_events(ctx, &events);
        assert_eq!(results.len(), events.len(), "`on_events` answers every event: anything else is a fault");
        drop(events);
        let mut state = self.state();
        let now = state.server.now;
        for (mut event, result) in batch.into_iter().zip(results) {
            if let Err(failure) = result
                && !failure.is_terminal()
            {
                event.due = now + backoff(event.attempts).max(delay(&failure));
                event.attempts += 1;
                event.is_initial = false;
                // Newer events of the object wait with it.
                let newer = std::mem::take(&mut state.pending);
                let (newer, others): (Vec<_>, Vec<_>) =
                    newer.into_iter().partition(|other| other.watch == event.watch && other.key == event.key);
                state.pending = others;
                let due = event.due;
                merge(&mut state.pending, event);
                for newer in newer {
                    merge(&mut state.pending, PendingEvent { due, ..newer });
                }
            }
        }
        true
    }

    fn start_watches<P: Plugin>(&self, plugin: &mut P, ctx: &Context) {
        let names: Vec<String> = {
            let mut state = self.state();
            state.is_started = true;
            let has_handler = |watch: &&WatchSpec| match &watch.maps[..] {
                [] => !P::RECONCILES,
                maps => maps.contains(&MapSpec::Handler),
            };
            state.described.watches.iter().filter(has_handler).map(|watch| watch.name().to_owned()).collect()
        };
        for name in names {
            plugin.handle_synced(ctx, &name);
        }
    }
}

fn event_of<'a>(
    watch: &'a str,
    event: &PendingEvent,
    old: Option<Object<'a>>,
    new: Option<Object<'a>>,
) -> Event<'a> {
    let key = event.key.clone();
    match (old, new) {
        (None, Some(object)) => Event::Added(Added { watch, key, object, is_initial: event.is_initial }),
        (old, Some(object)) => Event::Updated(Updated { watch, key, old, object }),
        (object, None) => Event::Deleted(Deleted { watch, key, object, final_state_unknown: false }),
    }
}
