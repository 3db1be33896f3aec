//! A round: calls for all keys that a worker took, in parts where a call faults.
//!
//! The faults of a round are recorded together at its end, with the keys that faulted by themselves; they count towards a
//! quarantine only if no call of the round was answered. A panic of the host ends the round: its remaining keys are tried
//! again after a backoff.

use std::any::Any;
use std::iter;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use pilothouse_engine::FaultKind;
use pilothouse_object::ObjectKey;
use tokio::time::Instant;

use super::outcome::{self, KeyList};
use super::parts::{AfterFault, BatchSize, Parts};
use super::take::{Taken, add_again};
use super::{Key, call};
use crate::dispatch::instance_pool::WarmInstance;
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;
use crate::lifecycle::state::{CallKind, Faults};

/// One round.
struct Round<'a> {
    plugin: &'a Arc<Plugin>,
    generation: &'a Arc<Generation>,
    items: &'a mut [Key],
    parts: Parts,
    /// The part in a call.
    called: Option<Range<usize>>,
    /// The keys that faulted by themselves.
    faulted: Vec<ObjectKey>,
    /// The last fault of the guest, with its keys.
    last_fault: Option<String>,
    /// The host had no room for an instance.
    finds_no_room: bool,
    any_answer: bool,
    /// When the last call ended, if it was answered.
    ended: Option<Instant>,
}

/// How long a worker waits for which the host had no room for an instance.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(50);

/// Reconciles the keys, records an outcome for each, and ends their progress in the queue. Returns when the last call ended,
/// if it was answered.
pub(super) async fn run(
    plugin: &Arc<Plugin>,
    taken: Taken<'_>,
    warm: &mut WarmInstance,
    size: &mut BatchSize,
) -> Option<Instant> {
    let Taken { generation, mut keys, permit } = taken;
    let items = keys.items();
    let mut round = Round {
        plugin,
        generation: &generation,
        parts: Parts::new(items.len(), generation.batch_max()),
        items,
        called: None,
        faulted: Vec::new(),
        last_fault: None,
        finds_no_room: false,
        any_answer: false,
        ended: None,
    };
    let calls = AssertUnwindSafe(round.call_all(warm, size)).catch_unwind().await;
    if let Err(panic) = calls {
        warm.release();
        round.record_panic(&*panic);
    }
    if round.last_fault.is_some() || round.finds_no_room {
        // There is no instance in it, and somebody may wait.
        warm.release();
    }
    round.record_faults();
    let (ended, finds_no_room) = (round.ended, round.finds_no_room);
    drop(permit);
    keys.finish();
    if finds_no_room {
        // The next key would find none either, and go into its backoff as well.
        let _ = plugin.stopping().run_until_cancelled(tokio::time::sleep(NO_ROOM_PAUSE)).await;
    }
    ended
}

impl Round<'_> {
    async fn call_all(&mut self, warm: &mut WarmInstance, size: &mut BatchSize) {
        let (plugin, generation) = (self.plugin, self.generation);
        while let Some(range) = self.parts.next() {
            if !self.parts.is_given_up() {
                // First: the wait may be long, and what is checked below is to hold when the call begins.
                warm.lease(plugin).await;
            }
            if plugin.is_stopping() {
                // For its successor, if there is one; otherwise the queue takes none.
                return self.give_back(range);
            }
            let part = &self.items[range.clone()];
            let is_current = plugin.is_current(generation);
            let is_granted = part.iter().all(|item| generation.may_reconcile(&item.key, item.payload));
            if !is_current || !is_granted || !plugin.election().is_leader() {
                // The keys are for the new generation, for the next leader, or are dropped when they are taken again.
                return self.give_back(range);
            }
            if self.parts.is_given_up() {
                outcome::record_backoff(plugin, part, FaultKind::Trap);
                continue;
            }
            self.called = Some(range.clone());
            let items = &mut self.items[range.clone()];
            let outcome = call::reconcile(plugin, generation, warm, items).await;
            self.called = None;
            self.ended = outcome.as_ref().ok().copied().flatten();
            let part = &self.items[range.clone()];
            match outcome {
                Ok(None) => return self.give_back(range),
                Ok(Some(_)) => {
                    self.any_answer = true;
                    self.parts.answered();
                    size.answered(part.len());
                    let keys = part.iter().map(|item| &item.key);
                    plugin.record_answer(CallKind::Reconcile, generation.number, keys);
                }
                Err(fault) => {
                    size.faulted(part.len(), fault.kind);
                    let error = format!("{}: {fault}", KeyList::of(part));
                    let backs_off = self.parts.faulted(range, fault.kind) == AfterFault::Backoff;
                    if backs_off {
                        outcome::record_backoff(plugin, part, fault.kind);
                    }
                    self.finds_no_room |= fault.kind == FaultKind::HostBusy;
                    if fault.kind.is_of_host() {
                        plugin.record_host_condition(generation.number, &error);
                    } else {
                        // Of a part that is not halved nobody knows which key is to blame.
                        self.faulted.extend(part.first().filter(|_| backs_off).map(|item| item.key.clone()));
                        self.last_fault = Some(error);
                    }
                }
            }
        }
    }

    /// Adds the keys of a part again, and those of all that were to follow.
    fn give_back(&mut self, part: Range<usize>) {
        let ranges = iter::once(part).chain(self.parts.take_waiting());
        ranges.flat_map(|range| &self.items[range]).for_each(|item| add_again(self.plugin, item));
    }

    fn record_faults(&self) {
        if let Some(error) = &self.last_fault {
            self.plugin.record_faults(&Faults {
                kind: CallKind::Reconcile,
                generation: self.generation.number,
                keys: &self.faulted,
                are_deleted: false,
                any_answer: self.any_answer,
                error,
            });
        }
    }

    /// Gives the keys back that have no outcome.
    fn record_panic(&mut self, panic: &(dyn Any + Send)) {
        self.plugin.task_panicked("a reconcile", panic);
        let unfinished = self.called.take().into_iter().chain(self.parts.take_waiting());
        for range in unfinished {
            outcome::record_backoff(self.plugin, &self.items[range], FaultKind::HostBusy);
        }
    }
}
