//! [`Pump`]: delivers the events of one handler watch from its ring to the guest, one call at a time and in order.
//!
//! Handlers get many events in a call, each of another key, and may fail: a failed event [comes again](retries), and a fault is
//! a failure of its event. After the fault of a call with many events each is delivered in a call of its own.
//!
//! A pump belongs to a generation. It has a task only while there are events: the ring starts it, and it ends when the ring
//! is empty. When the next generation takes over, the old pump ends after its call and leaves the events that it had not
//! delivered. The new pump delivers these first: no event is lost over a reload, and no two calls of one watch overlap.
//! Whatever took an event in, it is delivered under the grants that are in force then. An event for which no instance could be
//! made is delivered later: none of the plugin's code ran. A call that could not be answered because of the host or the API
//! server is made again a few times.
//!
//! A pump has no instance of its own. It leases one for the events that wait, as workers do for keys. A watch of a kind with
//! several informers has a pump for each, and they [take turns](turn).
//!
//! Invariants: while `state` is `Idle` there is nothing to deliver, or the host may call no guests, or a call of
//! [`Pump::wake`] is on its way; the lock of `state` is never held across an `await`, nor while events are taken from the ring
//! or put into it, which wakes the pump.

mod first_list;
mod retries;
mod turn;
mod undelivered;

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use pilothouse_cache::{Event, EventFilter as _, Ring};
use pilothouse_engine::{self as engine, Failure, Fault};
use pilothouse_executor::yield_after_slice;
use pilothouse_object::{FieldValues, Object, ObjectKey};
use pilothouse_plugin::Predicate;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span, field};

pub(crate) use self::first_list::FirstList;
use self::retries::Retries;
pub(crate) use self::turn::Turn;
use self::undelivered::{Leftover, Undelivered};
use crate::dispatch::call_id::next_call_id;
use crate::dispatch::instance_pool::WarmInstance;
use crate::dispatch::mapping::Filter;
use crate::dispatch::worker::{log_fault, record_event_fault};
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;
use crate::lifecycle::state::CallKind;
use crate::observe::audit::{LONGEST, clip};
use crate::observe::traces::{self, TRACE, number};

/// Most events taken from the ring at once, and most of one call.
const MAX_BATCH: usize = 128;

/// Most calls for an event that the host or the API server keeps from being answered. Then it has failed, and comes again: the
/// rest of the watch waits for it no longer.
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

/// A pump, as its generation makes it.
pub(crate) struct PumpSpec {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) generation: Arc<Generation>,
    /// The name of the watch.
    pub(crate) watch: String,
    /// What this pump has a part of.
    pub(crate) first_list: Arc<FirstList>,
    /// Held during each call.
    pub(crate) turn: Turn,
    /// Which objects the watch shows under the grants of this generation.
    pub(crate) filter: Filter,
    pub(crate) predicates: Vec<Predicate>,
    pub(crate) ring: Arc<Ring>,
    /// Ends this pump when the next generation takes over.
    pub(crate) cancel: CancellationToken,
}

/// Delivers the events of one watch.
pub(crate) struct Pump {
    spec: PumpSpec,
    retries: Retries,
    /// Most events of a call: fewer after calls of many that faulted.
    batch: AtomicUsize,
    /// Whether the first list was not told of as delivered yet.
    tells_first_list: AtomicBool,
    state: Mutex<PumpState>,
}

enum PumpState {
    /// There is no task.
    Idle(Undelivered),
    /// There is a task; with the pump of the next generation once that waits for its end.
    Running(Option<oneshot::Sender<Leftover>>),
    /// The pump of the next generation has the events.
    Ended,
}

impl Pump {
    /// Begins to deliver. `predecessor` is the pump of this watch in the generation before, which was cancelled.
    pub(crate) fn start(spec: PumpSpec, predecessor: Option<&Self>) -> Arc<Self> {
        let mut undelivered = Undelivered::default();
        let retries = Retries::new(&spec.generation.description.rate_limiter);
        if let Some(predecessor) = predecessor {
            let left = predecessor.hand_over(&mut undelivered);
            retries.adopt(left.failing);
            // Another watch, under other grants, may have taken them in.
            undelivered.push_older(left.events.into_iter().filter_map(|event| spec.filter.show(event)));
        }
        // What the pump before held back is for this one: another version may handle it.
        spec.ring.release_all();
        let pump = Arc::new(Self {
            retries,
            batch: AtomicUsize::new(MAX_BATCH),
            tells_first_list: AtomicBool::new(true),
            state: Mutex::new(PumpState::Idle(undelivered)),
            spec,
        });
        let woken = Arc::downgrade(&pump);
        // The ring may be that of the predecessor.
        pump.spec.ring.set_waker(move || {
            if let Some(pump) = woken.upgrade() {
                pump.wake();
            }
        });
        pump.wake();
        pump
    }

    /// Starts the task if there is something to deliver and the host may call guests. Called by the ring for each event, and
    /// when the term of a standby begins.
    pub(crate) fn wake(self: &Arc<Self>) {
        let PumpSpec { plugin, ring, .. } = &self.spec;
        let mut state = self.state.lock();
        let PumpState::Idle(undelivered) = &mut *state else { return };
        let is_wanted = ring.has_next() || !undelivered.is_empty() || self.must_tell_first_list();
        if !is_wanted || self.is_over() || !plugin.election().is_leader() {
            return;
        }
        let undelivered = std::mem::take(undelivered);
        *state = PumpState::Running(None);
        drop(state);
        plugin.spawn(Arc::clone(self).run(undelivered));
    }

    /// Whether there are failed events that wait, and whether one of them is due within this time.
    pub(crate) fn retries(&self, time: Duration) -> (bool, bool) {
        self.retries.view(time)
    }

    /// Leaves what was not delivered to the pump of the next generation, now or when the task ends.
    fn hand_over(&self, next: &mut Undelivered) -> Leftover {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, PumpState::Ended) {
            PumpState::Idle(mut undelivered) => {
                // The ring wakes its pump while it is emptied.
                drop(state);
                next.predecessor = undelivered.predecessor.take();
                return self.leftover(undelivered);
            }
            PumpState::Running(_) => {
                let (sender, receiver) = oneshot::channel();
                *state = PumpState::Running(Some(sender));
                next.predecessor = Some(receiver);
            }
            PumpState::Ended => {}
        }
        Leftover::default()
    }

    /// Whether the pump is to begin no call.
    fn is_over(&self) -> bool {
        self.spec.cancel.is_cancelled() || self.spec.plugin.is_stopping()
    }

    async fn run(self: Arc<Self>, mut undelivered: Undelivered) {
        let mut wait = SHORTEST_RETRY;
        loop {
            let delivery =
                self.spec.plugin.guard("the delivery of events", self.deliver_all(&mut undelivered));
            if delivery.await.is_none() {
                self.pause(wait).await;
                wait = (wait * 2).min(LONGEST_RETRY);
                if !self.is_over() {
                    continue;
                }
            }
            match self.end(undelivered) {
                Some(again) => undelivered = again,
                None => return,
            }
        }
    }

    /// Ends the task, unless an event has come meanwhile.
    fn end(&self, undelivered: Undelivered) -> Option<Undelivered> {
        let mut state = self.state.lock();
        if !self.is_over() && (self.spec.ring.has_next() || self.must_tell_first_list()) {
            return Some(undelivered);
        }
        match std::mem::replace(&mut *state, PumpState::Ended) {
            PumpState::Running(Some(next)) => {
                drop(state);
                // The next pump may be gone with its plugin.
                let _ = next.send(self.leftover(undelivered));
            }
            _ => *state = PumpState::Idle(undelivered),
        }
        None
    }

    /// The events for the next pump, the content of the ring included. On a standby the ring keeps its content: the ring of the
    /// next pump is the same or has adopted it, and events outside of a ring are not merged and not dropped when old.
    fn leftover(&self, undelivered: Undelivered) -> Leftover {
        let mut events = Vec::from(undelivered.events);
        self.spec.ring.release_all();
        if self.spec.plugin.election().was_elected() {
            while let Some(mut batch) = self.spec.ring.try_next_batch(usize::MAX) {
                events.append(&mut batch.take());
            }
        }
        Leftover { events, failing: self.retries.take_failing() }
    }

    /// Delivers events until there is none, or the pump is to end.
    async fn deliver_all(self: &Arc<Self>, undelivered: &mut Undelivered) {
        if let Some(predecessor) = &mut undelivered.predecessor {
            let left = predecessor.await.unwrap_or_default();
            undelivered.predecessor = None;
            self.retries.adopt(left.failing);
            // Another watch, under other grants, may have taken them in.
            undelivered.push_older(left.events.into_iter().filter_map(|event| self.spec.filter.show(event)));
        }
        if !self.deliver_waiting(undelivered).await {
            return;
        }
        while self.may_call().await
            && let Some(mut batch) = self.spec.ring.try_next_batch(MAX_BATCH)
        {
            // The batch itself lives until its events are delivered: dropping it acknowledges them.
            undelivered.events.extend(batch.take());
            if !self.deliver_waiting(undelivered).await {
                return;
            }
        }
        if self.must_tell_first_list() && !self.is_over() {
            self.tell_first_list().await;
        }
    }

    /// Delivers the waiting events in their order, with one lease of an instance. `false` if the pump is to end.
    async fn deliver_waiting(self: &Arc<Self>, undelivered: &mut Undelivered) -> bool {
        let plugin = &self.spec.plugin;
        let mut warm = WarmInstance::default();
        // So many events are delivered one by one, since a call with all of them faulted.
        let mut alone = 0_usize;
        'batches: while !undelivered.events.is_empty() {
            let (mut wait, mut unanswered) = (SHORTEST_RETRY, 0);
            loop {
                let permit = plugin.quarantine_pause(CallKind::Event, || warm.release()).await;
                if !self.may_call().await {
                    return false;
                }
                // After a quarantine one event tries the plugin.
                let batch = self.next_batch(&undelivered.events, alone > 0 || permit.is_probe());
                let mut failed = Vec::new();
                match AssertUnwindSafe(self.deliver(&mut warm, &batch, &mut failed)).catch_unwind().await {
                    Ok(Delivered::Later) => {}
                    Ok(Delivered::NotCalled) => {
                        warm.release();
                        continue;
                    }
                    Ok(Delivered::Faulted | Delivered::Unanswered) if batch.len() > 1 => {
                        alone = batch.len();
                        self.batch.store((alone / 2).max(1), Relaxed);
                        continue 'batches;
                    }
                    Ok(Delivered::Unanswered) if unanswered + 1 < MAX_UNANSWERED => unanswered += 1,
                    Ok(delivered) => {
                        undelivered.events.drain(..batch.len());
                        if delivered == Delivered::Answered {
                            self.answered(undelivered, &batch, failed);
                        } else {
                            self.faulted(undelivered, &batch);
                        }
                        alone = alone.saturating_sub(batch.len());
                        continue 'batches;
                    }
                    Err(panic) => {
                        warm.release();
                        plugin.task_panicked("the delivery of an event", &*panic);
                        if batch.len() > 1 {
                            alone = batch.len();
                            continue 'batches;
                        }
                        undelivered.events.drain(..batch.len());
                        self.faulted(undelivered, &batch);
                        alone = alone.saturating_sub(1);
                        continue 'batches;
                    }
                }
                drop(permit);
                warm.release();
                self.pause(wait).await;
                wait = (wait * 2).min(LONGEST_RETRY);
            }
        }
        true
    }

    /// The first events that one call may have, each of another key.
    fn next_batch(&self, events: &VecDeque<Event>, alone: bool) -> Vec<Event> {
        let most = if alone { 1 } else { self.batch.load(Relaxed) };
        let mut keys = HashSet::new();
        events.iter().take(most).take_while(|event| keys.insert(event.key())).cloned().collect()
    }

    /// A call was answered. Those that failed come again, each after its delay.
    fn answered(
        self: &Arc<Self>,
        undelivered: &mut Undelivered,
        batch: &[Event],
        failed: Vec<(Event, Duration)>,
    ) {
        // Twice as many, up to the most.
        let most = self.batch.load(Relaxed);
        if batch.len() == most {
            self.batch.store((most * 2).min(MAX_BATCH), Relaxed);
        }
        self.try_again(failed, undelivered);
    }

    /// A call faulted, or was not answered for long.
    fn faulted(self: &Arc<Self>, undelivered: &mut Undelivered, batch: &[Event]) {
        let failed = |event: &Event| (event.clone(), self.retries.failed(event.key(), Duration::ZERO));
        self.try_again(batch.iter().map(failed).collect(), undelivered);
    }

    /// Waits before another try; no longer than the pump lives.
    async fn pause(&self, wait: Duration) {
        tokio::select! {
            () = self.spec.cancel.cancelled() => {}
            () = self.spec.plugin.stopping().cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    /// Waits until the host may call guests; `false` when the pump ends before.
    async fn may_call(&self) -> bool {
        tokio::select! {
            biased;
            () = self.spec.cancel.cancelled() => false,
            () = self.spec.plugin.stopping().cancelled() => false,
            () = self.spec.plugin.election().wait_until_leader() => true,
        }
    }

    /// The span of a call for `count` events, the first of which is of `key`; none where nobody asks for it.
    fn span(&self, call: u64, key: &ObjectKey, count: usize) -> Span {
        let PumpSpec { plugin, generation, watch, .. } = &self.spec;
        tracing::info_span!(
            target: TRACE,
            parent: None,
            "handle",
            pilothouse.plugin = &**plugin.name(),
            pilothouse.generation = number(generation.number),
            pilothouse.call = number(call),
            pilothouse.watch = clip(watch, LONGEST),
            pilothouse.key = clip(key.as_str(), LONGEST),
            pilothouse.events = number(count),
            otel.status_description = field::Empty,
        )
    }

    /// Makes one call. Events that the guest answered with a transient failure are added to `failed`, with the delay of each.
    async fn deliver(
        &self,
        warm: &mut WarmInstance,
        batch: &[Event],
        failed: &mut Vec<(Event, Duration)>,
    ) -> Delivered {
        let PumpSpec { plugin, generation, .. } = &self.spec;
        let dropped = batch.iter().filter(|event| self.passing(event).is_none());
        let dropped = dropped.inspect(|event| self.retries.handled(event.key())).count();
        if dropped == batch.len() {
            return Delivered::Answered;
        }
        // The waits may be long: what is checked after them holds when the call begins.
        let _turn = self.spec.turn.take(warm).await;
        warm.lease(plugin).await;
        if self.is_over() || !plugin.election().is_leader() {
            return Delivered::NotCalled;
        }
        let (given, events): (Vec<&Event>, Vec<engine::Event<'_>>) =
            batch.iter().filter_map(|event| Some((event, self.passing(event)?))).unzip();
        let Some(first) = given.first() else { return Delivered::Answered };
        plugin.count_call();
        let call = next_call_id();
        let began = Instant::now();
        let span = self.span(call, first.key(), events.len());
        let outcome = match warm.get(plugin, generation).await {
            // The term ended while an instance was made.
            Ok(_) if !plugin.election().is_leader() => return Delivered::NotCalled,
            Ok(guest) => guest.handle(&self.spec.watch, &events, call.into()).instrument(span.clone()).await,
            Err(fault) if fault.kind.is_of_host() => {
                self.log_later(first.key(), &fault);
                return Delivered::Later;
            }
            Err(fault) => Err(fault),
        };
        plugin.metrics().handled.inc_by(events.len() as u64);
        traces::ended(span, outcome.as_deref());
        let delivered = match outcome {
            Ok(answers) => {
                plugin.record_answer(
                    CallKind::Event,
                    generation.number,
                    given.iter().map(|event| event.key()),
                );
                for (event, answer) in given.iter().zip(answers) {
                    match answer {
                        Ok(()) => self.retries.handled(event.key()),
                        Err(failure) => {
                            let delay = self.failed(event, &failure, call);
                            failed.extend(delay.map(|delay| (Event::clone(event), delay)));
                        }
                    }
                }
                Delivered::Answered
            }
            Err(fault) => {
                warm.release();
                let took = began.elapsed();
                match &given[..] {
                    [event] => {
                        let is_deleted = matches!(event, Event::Deleted { .. });
                        let key = event.key();
                        record_event_fault(plugin, generation, key, is_deleted, call, took, &fault);
                    }
                    // Nobody knows which one is to blame, until each has a call of its own.
                    many => {
                        let keys = format_args!("{} and {} more", first.key(), many.len() - 1);
                        log_fault(plugin, generation, &keys, call, took, &fault);
                    }
                }
                if fault.kind.is_of_host() { Delivered::Unanswered } else { Delivered::Faulted }
            }
        };
        if plugin.instances().is_contended() {
            warm.release();
        }
        yield_after_slice().await;
        delivered
    }

    /// The guest answered that it could not handle an event. The delay after which it comes again; none if it does not.
    fn failed(&self, event: &Event, failure: &Failure, call: u64) -> Option<Duration> {
        let PumpSpec { plugin, generation, watch, .. } = &self.spec;
        let (key, message) = (event.key(), &failure.message);
        plugin.metrics().failed_events.inc();
        plugin.record_error(&format!("{key}: {message}"));
        let (kind, retry_in) = if failure.terminal {
            self.retries.handled(key);
            ("terminal", None)
        } else {
            ("transient", Some(self.retries.failed(key, failure.retry_after.unwrap_or_default())))
        };
        if plugin.may_log(message.len()) {
            tracing::warn!(
                event = "event_failed",
                plugin = &**plugin.name(),
                generation = generation.number,
                watch,
                %key,
                call,
                kind,
                retry_in = retry_in.map(tracing::field::debug),
                "event not handled: {message}"
            );
        }
        retry_in
    }

    /// Whether the guest is to be told that the first list was delivered.
    fn must_tell_first_list(&self) -> bool {
        self.tells_first_list.load(Relaxed) && self.spec.ring.has_synced()
    }

    /// Tells the guest, if this pump was the last of the watch.
    async fn tell_first_list(&self) {
        let PumpSpec { plugin, generation, watch, .. } = &self.spec;
        if !self.tells_first_list.swap(false, Relaxed) || !self.spec.first_list.delivered() {
            return;
        }
        let mut warm = WarmInstance::default();
        let mut wait = SHORTEST_RETRY;
        for _ in 0..MAX_UNANSWERED {
            let _permit = plugin.quarantine_pause(CallKind::Event, || warm.release()).await;
            let turn = self.spec.turn.take(&mut warm).await;
            warm.lease(plugin).await;
            if !self.may_call().await {
                return;
            }
            plugin.count_call();
            let (call, began) = (next_call_id(), Instant::now());
            let told = match warm.get(plugin, generation).await {
                Ok(_) if !plugin.election().is_leader() => return,
                Ok(guest) => guest.synced(watch, call.into()).await,
                Err(fault) => Err(fault),
            };
            drop(turn);
            let Err(fault) = told else { return };
            warm.release();
            log_fault(plugin, generation, &format_args!("on-synced {watch}"), call, began.elapsed(), &fault);
            if !fault.kind.is_of_host() {
                return;
            }
            self.pause(wait).await;
            wait = (wait * 2).min(LONGEST_RETRY);
        }
    }

    /// No code of the guest ran, and that is the fault of nobody.
    fn log_later(&self, key: &ObjectKey, fault: &Fault) {
        let PumpSpec { plugin, generation, .. } = &self.spec;
        tracing::warn!(event = "event_delivered_later", plugin = &**plugin.name(), %key, "no instance for an event, which is tried again: {fault}");
        plugin.record_host_condition(generation.number, &format!("{key}: {fault}"));
    }

    /// The event for the guest, unless the predicates of the watch drop it, or the object is no longer granted.
    fn passing<'a>(&'a self, event: &'a Event) -> Option<engine::Event<'a>> {
        if !self.spec.filter.shows_key(event.key()) {
            return None;
        }
        let all = &self.spec.predicates;
        let values = |object: &'a Option<Object>| object.as_ref().map(FieldValues::new);
        // One that was told in vain may be merged with its opposite, and look as if nothing had changed.
        let passes = self.retries.is_failing(event.key())
            || match event {
                Event::Added { object, updated, .. } => {
                    Predicate::all_pass_add(all, &FieldValues::new(object), *updated)
                }
                Event::Updated { old, new } => {
                    Predicate::all_pass_update(all, values(old).as_ref(), &FieldValues::new(new))
                }
                Event::Deleted { object, .. } => Predicate::all_pass_delete(all, values(object).as_ref()),
            };
        passes.then_some(match event {
            Event::Added { object, initial, .. } => engine::Event::Added { object, initial: *initial },
            Event::Updated { old, new } => engine::Event::Updated { old: old.as_ref(), new },
            Event::Deleted { key, object, final_state_unknown } => engine::Event::Deleted {
                key,
                object: object.as_ref(),
                final_state_unknown: *final_state_unknown,
            },
        })
    }
}

#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod retry_tests;
#[cfg(test)]
mod tests;
