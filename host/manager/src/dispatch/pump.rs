//! [`Pump`]: delivers the events of one handler watch from its ring to the guest, one call at a time and in order.
//!
//! A pump belongs to a generation. When the next generation takes over, the old pump ends after its call and returns the
//! events that it had not delivered. The new pump delivers these first: no event is lost over a reload, and no two calls of
//! one watch overlap. A call that faults counts as delivered, so a poisonous event does not stop the rest.

use std::sync::Arc;

use pilothouse_cache::{Batch, Event, Ring};
use pilothouse_engine as engine;
use pilothouse_object::Gvk;
use pilothouse_plugin::Predicate;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::dispatch::instance::{WarmInstance, next_call_id};
use crate::dispatch::worker::record_fault;
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;

/// Most events taken from the ring at once.
const MAX_BATCH: usize = 64;

/// Events that a pump had not delivered when it ended, in order.
pub(crate) type Leftover = Vec<Event>;

/// Delivers the events of one watch.
pub(crate) struct Pump {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) generation: Arc<Generation>,
    pub(crate) kind: Gvk,
    pub(crate) predicates: Vec<Predicate>,
    pub(crate) ring: Arc<Ring>,
    /// The pump of this watch in the generation before.
    pub(crate) predecessor: Option<JoinHandle<Leftover>>,
    /// Ends this pump when the next generation takes over.
    pub(crate) cancel: CancellationToken,
}

impl Pump {
    /// Delivers until the pump is cancelled or the plugin stops; returns the events that were not delivered.
    pub(crate) async fn run(mut self) -> Leftover {
        let mut warm = WarmInstance::default();
        if let Some(predecessor) = self.predecessor.take() {
            let events = predecessor.await.unwrap_or_default();
            if let Some(rest) = self.deliver_all(&mut warm, events).await {
                return self.leftover(rest);
            }
        }
        while let Some(mut batch) = self.next_batch(&mut warm).await {
            // The batch itself lives until its events are delivered: dropping it acknowledges them.
            let events = batch.take();
            if let Some(rest) = self.deliver_all(&mut warm, events).await {
                return self.leftover(rest);
            }
        }
        self.leftover(Vec::new())
    }

    /// Delivers events one after the other. Returns the rest if the pump ends before the last.
    async fn deliver_all(&self, warm: &mut WarmInstance, events: Vec<Event>) -> Option<Vec<Event>> {
        let mut events = events.into_iter();
        while let Some(event) = events.next() {
            self.plugin.quarantine_pause().await;
            if !self.may_call().await {
                return Some(std::iter::once(event).chain(events).collect());
            }
            self.deliver(warm, &event).await;
        }
        None
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
    fn leftover(&self, mut rest: Vec<Event>) -> Leftover {
        if !self.plugin.election().was_elected() {
            return rest;
        }
        while let Some(mut batch) = self.ring.try_next_batch(usize::MAX) {
            rest.append(&mut batch.take());
        }
        rest
    }

    /// Waits for events; drops the instance after a time without any.
    async fn next_batch(&self, warm: &mut WarmInstance) -> Option<Batch> {
        // Before events are taken: those in the ring are merged, and bounded.
        if !self.may_call().await {
            return None;
        }
        loop {
            let is_warm = warm.is_warm();
            let idle = async {
                if is_warm {
                    tokio::time::sleep(self.plugin.idle_ttl()).await;
                } else {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return None,
                () = self.plugin.stopping().cancelled() => return None,
                batch = self.ring.next_batch(MAX_BATCH) => return batch,
                () = idle => {}
            }
            warm.discard();
        }
    }

    async fn deliver(&self, warm: &mut WarmInstance, event: &Event) {
        let Some(event) = self.passing(event) else { return };
        let key = match &event {
            engine::Event::Added { object, .. } | engine::Event::Updated { new: object, .. } => object.key(),
            engine::Event::Deleted { key, .. } => key,
        };
        self.plugin.count_call();
        let call = next_call_id();
        let began = Instant::now();
        let outcome = match warm.get(&self.plugin, &self.generation).await {
            Ok(guest) => guest.handle(&event, call).await,
            Err(fault) => Err(fault),
        };
        self.plugin.metrics().handled.inc();
        match outcome {
            Ok(()) => self.plugin.record_answer(),
            Err(fault) => {
                warm.discard();
                record_fault(&self.plugin, &self.generation, key, call, began.elapsed(), &fault);
            }
        }
        tokio::task::coop::consume_budget().await;
    }

    /// The event for the guest, unless the predicates of the watch drop it.
    fn passing<'a>(&'a self, event: &'a Event) -> Option<engine::Event<'a>> {
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
