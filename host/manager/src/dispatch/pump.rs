//! Pumps: each brings the events of one watch from its ring to the guest's handler, one call at a time and in order.
//!
//! A pump belongs to a generation. When the next one takes over, the old pump ends after its present call and hands back
//! what it had not delivered; the new pump delivers that first, so no event is lost over a reload, and never two at once.
//! A call that faults counts as delivered: a poisonous event must not stop the rest.

use std::sync::Arc;

use pilothouse_cache::{Batch, Event, Ring};
use pilothouse_engine as engine;
use pilothouse_object::Gvk;
use pilothouse_plugin::Predicate;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::dispatch::worker::{Warm, faulted, instance, next_call_id};
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;

/// Most events taken from the ring at once.
const BATCH: usize = 64;

/// Events that a pump had not delivered when it ended, in order.
pub(crate) type Leftover = Vec<Event>;

/// Brings the events of one watch to the guest.
pub(crate) struct Pump {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) generation: Arc<Generation>,
    pub(crate) kind: Gvk,
    pub(crate) predicates: Vec<Predicate>,
    pub(crate) ring: Arc<Ring>,
    /// The pump of this watch in the generation before.
    pub(crate) before: Option<JoinHandle<Leftover>>,
    /// Ends this pump when the next generation takes over.
    pub(crate) cancel: CancellationToken,
}

impl Pump {
    pub(crate) async fn run(mut self) -> Leftover {
        let mut warm = None;
        if let Some(before) = self.before.take() {
            let events = before.await.unwrap_or_default();
            if let Some(rest) = self.deliver_all(&mut warm, events).await {
                return self.leave(rest);
            }
        }
        while let Some(mut batch) = self.next(&mut warm).await {
            // The batch itself lives on until its events are dealt with: dropping it acknowledges them.
            let events = batch.take();
            if let Some(rest) = self.deliver_all(&mut warm, events).await {
                return self.leave(rest);
            }
        }
        self.leave(Vec::new())
    }

    /// Delivers events one after the other; what is left of them when the pump ends before the last.
    async fn deliver_all(&self, warm: &mut Option<Warm>, events: Vec<Event>) -> Option<Vec<Event>> {
        let mut events = events.into_iter();
        while let Some(event) = events.next() {
            self.plugin.quarantine_pause().await;
            if !self.led().await {
                return Some(std::iter::once(event).chain(events).collect());
            }
            self.deliver(warm, &event).await;
        }
        None
    }

    /// Waits until the host may call guests; `false` when the pump ends before.
    async fn led(&self) -> bool {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => false,
            () = self.plugin.stopping.cancelled() => false,
            () = self.plugin.election.wait_until_leader() => true,
        }
    }

    /// What is left, the ring's content included. Not while the host stands by: the next pump's ring is the same or has what
    /// counts of it, and events out here would not be merged any more, nor forgotten.
    fn leave(&self, mut rest: Vec<Event>) -> Leftover {
        if !self.plugin.election.was_elected() {
            return rest;
        }
        while let Some(mut batch) = self.ring.try_next_batch(usize::MAX) {
            rest.append(&mut batch.take());
        }
        rest
    }

    /// Waits for events; the instance goes when none came for a while.
    async fn next(&self, warm: &mut Option<Warm>) -> Option<Batch> {
        // What is not taken out is merged, and bounded.
        if !self.led().await {
            return None;
        }
        loop {
            let is_warm = warm.is_some();
            let idle = async {
                if is_warm {
                    tokio::time::sleep(self.plugin.idle_ttl).await;
                } else {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return None,
                () = self.plugin.stopping.cancelled() => return None,
                batch = self.ring.next_batch(BATCH) => return batch,
                () = idle => {}
            }
            *warm = None;
        }
    }

    async fn deliver(&self, warm: &mut Option<Warm>, event: &Event) {
        let Some(event) = self.shown(event) else { return };
        let key = match &event {
            engine::Event::Added { object, .. } | engine::Event::Updated { new: object, .. } => object.key(),
            engine::Event::Deleted { key, .. } => key,
        };
        self.plugin.count_call();
        let call = next_call_id();
        let began = Instant::now();
        let outcome = match instance(&self.plugin, &self.generation, warm).await {
            Ok(instance) => instance.handle(&event, call).await,
            Err(fault) => Err(fault),
        };
        self.plugin.metrics.handled.inc();
        match outcome {
            Ok(()) => self.plugin.answered(),
            Err(fault) => {
                *warm = None;
                faulted(&self.plugin, &self.generation, key, call, began.elapsed(), &fault);
            }
        }
        tokio::task::coop::consume_budget().await;
    }

    /// The event for the guest, unless the watch's predicates keep it back.
    fn shown<'a>(&'a self, event: &'a Event) -> Option<engine::Event<'a>> {
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
