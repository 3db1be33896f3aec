//! [`Pump`]: delivers the events of one handler watch from its ring to the guest, one call at a time and in order.
//!
//! A pump belongs to a generation. When the next generation takes over, the old pump ends after its call and returns the
//! events that it had not delivered. The new pump delivers these first: no event is lost over a reload, and no two calls of
//! one watch overlap. A call that faults counts as delivered, so a poisonous event does not stop the rest; only a generation on
//! probation leaves such events to the one that replaces it. Whatever took an event in, it is delivered under the grants that
//! are in force then. An event for which no instance could be made is delivered later:
//! none of the plugin's code ran. A call that could not be answered because of the host or the API server is made again a
//! few times.
//!
//! A pump has no instance of its own. It leases one for the events that wait, as workers do for keys.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use pilothouse_cache::{Batch, Event, EventFilter as _, Ring};
use pilothouse_engine::{self as engine, Fault};
use pilothouse_executor::{JoinHandle, yield_after_slice};
use pilothouse_object::{Gvk, ObjectKey};
use pilothouse_plugin::Predicate;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::dispatch::call_id::next_call_id;
use crate::dispatch::instance_pool::WarmInstance;
use crate::dispatch::mapping::Filter;
use crate::dispatch::worker::record_event_fault;
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;
use crate::lifecycle::state::CallKind;

/// Most events taken from the ring at once.
const MAX_BATCH: usize = 64;

/// Most calls for an event that the host or the API server keeps from being answered. Then it counts as delivered: the rest of
/// the watch waits for it.
const MAX_UNANSWERED: u32 = 5;

/// First and longest wait before an event is tried again.
const SHORTEST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// What became of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivered {
    /// The guest was called and answered, or need not be called.
    Answered,
    /// The call faulted.
    Faulted,
    /// No instance could be made. The event is tried again.
    Later,
    /// The call was not answered, which is no fault of the plugin. It is made again, a few times.
    Unanswered,
    /// No call began: the pump is to end, or the host may call no guests.
    NotCalled,
}

/// Events that a pump had not delivered when it ended, in order.
pub(crate) type Leftover = Vec<Event>;

/// Delivers the events of one watch.
pub(crate) struct Pump {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) generation: Arc<Generation>,
    pub(crate) kind: Gvk,
    /// Which objects the watch shows under the grants of this generation.
    pub(crate) filter: Filter,
    pub(crate) predicates: Vec<Predicate>,
    pub(crate) ring: Arc<Ring>,
    /// The pump of this watch in the generation before.
    pub(crate) predecessor: Option<JoinHandle<Leftover>>,
    /// Ends this pump when the next generation takes over.
    pub(crate) cancel: CancellationToken,
    /// Events whose calls faulted while the generation is on probation: a rollback delivers them again.
    pub(crate) faulted: Vec<Event>,
}

impl Pump {
    /// Delivers until the pump is cancelled or the plugin stops; returns the events that were not delivered.
    pub(crate) async fn run(mut self) -> Leftover {
        if let Some(predecessor) = self.predecessor.take() {
            let events = predecessor.await.unwrap_or_default();
            // Another watch, under other grants, may have taken them in.
            let events = events.into_iter().filter_map(|event| self.filter.show(event)).collect();
            if let Some(rest) = self.deliver_all(events).await {
                return self.leftover(rest);
            }
        }
        while let Some(mut batch) = self.next_batch().await {
            // The batch itself lives until its events are delivered: dropping it acknowledges them.
            let events = batch.take();
            if let Some(rest) = self.deliver_all(events).await {
                return self.leftover(rest);
            }
        }
        self.leftover(Vec::new())
    }

    /// Delivers events one after the other, with one lease of an instance. Returns the rest if the pump ends before the last.
    async fn deliver_all(&mut self, events: Vec<Event>) -> Option<Vec<Event>> {
        let mut warm = WarmInstance::default();
        let mut events = events.into_iter();
        while let Some(event) = events.next() {
            let (mut wait, mut unanswered) = (SHORTEST_RETRY, 0);
            loop {
                let permit = self.plugin.quarantine_pause(CallKind::Event, || warm.release()).await;
                if !self.may_call().await {
                    return Some(std::iter::once(event).chain(events).collect());
                }
                match AssertUnwindSafe(self.deliver(&mut warm, &event)).catch_unwind().await {
                    Ok(Delivered::Later) => {}
                    Ok(Delivered::NotCalled) => {
                        warm.release();
                        continue;
                    }
                    Ok(Delivered::Unanswered) if unanswered + 1 < MAX_UNANSWERED => unanswered += 1,
                    Ok(delivered) => {
                        self.keep_faulted(event, delivered == Delivered::Answered);
                        break;
                    }
                    Err(panic) => {
                        warm.release();
                        self.plugin.task_panicked("the delivery of an event", &*panic);
                        break;
                    }
                }
                drop(permit);
                warm.release();
                self.pause(wait).await;
                wait = (wait * 2).min(LONGEST_RETRY);
            }
        }
        None
    }

    /// Waits before another try; no longer than the pump lives.
    async fn pause(&self, wait: Duration) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.plugin.stopping().cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    /// Waits until the host may call guests; `false` when the pump ends before.
    async fn may_call(&self) -> bool {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => false,
            () = self.plugin.stopping().cancelled() => false,
            () = self.plugin.election().wait_until_leader() => true,
        }
    }

    /// The events for the next pump, the content of the ring included. On a standby the ring keeps its content: the ring of the
    /// next pump is the same or has adopted it, and events outside of a ring are not merged and not dropped when old.
    fn leftover(mut self, rest: Vec<Event>) -> Leftover {
        let mut rest = [std::mem::take(&mut self.faulted), rest].concat();
        if !self.plugin.election().was_elected() {
            return rest;
        }
        while let Some(mut batch) = self.ring.try_next_batch(usize::MAX) {
            rest.append(&mut batch.take());
        }
        rest
    }

    /// Waits for events.
    async fn next_batch(&self) -> Option<Batch> {
        // Before events are taken: those in the ring are merged, and bounded.
        if !self.may_call().await {
            return None;
        }
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            () = self.plugin.stopping().cancelled() => None,
            batch = self.ring.next_batch(MAX_BATCH) => batch,
        }
    }

    /// Keeps an event whose call faulted, as long as the generation may be rolled back.
    fn keep_faulted(&mut self, event: Event, is_answered: bool) {
        if (!is_answered || !self.faulted.is_empty()) && !self.plugin.is_on_probation() {
            self.faulted.clear();
        } else if !is_answered {
            self.faulted.push(event);
        }
    }

    async fn deliver(&self, warm: &mut WarmInstance, event: &Event) -> Delivered {
        let Some(event) = self.passing(event) else { return Delivered::Answered };
        let key = match &event {
            engine::Event::Added { object, .. } | engine::Event::Updated { new: object, .. } => object.key(),
            engine::Event::Deleted { key, .. } => key,
        };
        // The wait may be long: what is checked after it holds when the call begins.
        warm.lease(&self.plugin).await;
        if self.cancel.is_cancelled() || self.plugin.is_stopping() || !self.plugin.election().is_leader() {
            return Delivered::NotCalled;
        }
        self.plugin.count_call();
        let call = next_call_id();
        let began = Instant::now();
        let outcome = match warm.get(&self.plugin, &self.generation).await {
            Ok(guest) => guest.handle(&event, call).await,
            Err(fault) if fault.kind.is_of_host() => {
                self.log_later(key, &fault);
                return Delivered::Later;
            }
            Err(fault) => Err(fault),
        };
        self.plugin.metrics().handled.inc();
        match &outcome {
            Ok(()) => self.plugin.record_answer(CallKind::Event, self.generation.number, [key]),
            Err(fault) => {
                warm.release();
                record_event_fault(&self.plugin, &self.generation, key, call, began.elapsed(), fault);
            }
        }
        if self.plugin.instances().is_contended() {
            warm.release();
        }
        yield_after_slice().await;
        match outcome {
            Ok(()) => Delivered::Answered,
            Err(fault) if fault.kind.is_of_host() => Delivered::Unanswered,
            Err(_) => Delivered::Faulted,
        }
    }

    /// No code of the guest ran, and that is the fault of nobody.
    fn log_later(&self, key: &ObjectKey, fault: &Fault) {
        tracing::warn!(event = "event_delivered_later", plugin = &**self.plugin.name(), %key, "no instance for an event, which is tried again: {fault}");
        self.plugin.record_host_condition(self.generation.number, &format!("{key}: {fault}"));
    }

    /// The event for the guest, unless the predicates of the watch drop it, or the object is no longer granted.
    fn passing<'a>(&'a self, event: &'a Event) -> Option<engine::Event<'a>> {
        if !self.filter.shows_key(event.key()) {
            return None;
        }
        Some(match event {
            Event::Added { object, initial } => engine::Event::Added { object, initial: *initial },
            Event::Updated { old: Some(old), new } if !self.predicates.iter().all(|p| p.passes(old, new)) => {
                return None;
            }
            Event::Updated { old, new } => engine::Event::Updated { old: old.as_ref(), new },
            Event::Deleted { key, object, final_state_unknown } => engine::Event::Deleted {
                kind: &self.kind,
                key,
                object: object.as_ref(),
                final_state_unknown: *final_state_unknown,
            },
        })
    }
}

#[cfg(test)]
mod tests;
