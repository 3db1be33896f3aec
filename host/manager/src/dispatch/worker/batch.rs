//! Guests of the world `batch-reconciler`: a worker gathers keys, calls once for all of them, and then each goes its own way.
//!
//! A call that faults names no key, and tried again as it was, one key that makes the guest trap would hold up all others for ever.
//! So it is tried again in halves, at once, until a key that faults alone is found; that one waits as any key does whose call has
//! faulted. The whole round counts as one fault, if nothing in it went well; it is given up after a number of faults without one
//! answer. A call that takes too long is not tried again at once, but the next ones are smaller.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pilothouse_engine::{Fault, FaultKind, Request};
use pilothouse_object::ObjectKey;
use tokio::time::Instant;

use super::{
    Call, Key, Retry, Warm, add_again, failed, hold_against, instance, log, note_fault, request, retry,
    settle, tell_fault, told,
};
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;

/// Faults of one round without an answer between them, beyond those that lead to one key: the guest is at fault then, not a key.
const MOST_FAULTS: usize = 16;

/// Takes keys beside one that was taken: as many as one call may have, `size` at most, and within the time that they may be held back.
pub(super) async fn gather(plugin: &Plugin, generation: &Generation, size: usize) -> Vec<Key> {
    let batch = generation.description.batch;
    let most = size.min(batch.max as usize);
    let until = Instant::now() + batch.linger;
    let mut others = Vec::new();
    while others.len() + 1 < most {
        let next = match plugin.queue.try_get() {
            Some(item) => Some(item),
            None if batch.linger.is_zero() => None,
            None => tokio::time::timeout_at(until, plugin.queue.get()).await.ok().flatten(),
        };
        let Some(item) = next else { break };
        others.push(item);
    }
    others
}

/// Calls for all keys, and again for parts of them where a call faults. Answers how many keys the next call may have.
pub(super) async fn reconcile(
    plugin: &Arc<Plugin>,
    generation: &Arc<Generation>,
    warm: &mut Option<Warm>,
    first: Key,
    others: Vec<Key>,
    mut size: usize,
) -> usize {
    let mut items = vec![first];
    items.extend(others);
    let most = generation.description.batch.max as usize;
    // Parts of `items`, the next one last.
    let mut parts: Vec<&[Key]> = items.chunks(most).rev().collect();
    let bearable = MOST_FAULTS + items.len().ilog2() as usize;
    let (mut faults, mut last, mut any_answer) = (0, None, false);
    while let Some(part) = parts.pop() {
        if plugin.stopping.is_cancelled() {
            break;
        }
        let replaced = plugin.current().is_none_or(|current| current.number != generation.number);
        if replaced || !plugin.lead.leads() {
            // They are for whoever works by now.
            parts.iter().copied().chain([part]).flatten().for_each(|item| add_again(plugin, item));
            break;
        }
        if faults > bearable {
            part.iter().for_each(|item| retry(plugin, item));
            continue;
        }
        match call(plugin, generation, warm, part).await {
            Ok(()) => {
                (faults, any_answer) = (0, true);
                if part.len() >= size {
                    // Slowly: a size that is too large costs a whole deadline.
                    size = size.saturating_add(size / 8 + 1);
                }
            }
            Err(fault) => {
                *warm = None;
                faults += 1;
                if part.len() > 1 && is_of_keys(fault.kind) {
                    let (head, tail) = part.split_at(part.len() / 2);
                    parts.extend([tail, head]);
                } else {
                    part.iter().for_each(|item| retry(plugin, item));
                }
                if fault.kind == FaultKind::Deadline {
                    size = (part.len() / 2).max(1);
                }
                last = Some((keys(part), fault));
            }
        }
    }
    if let Some((keys, fault)) = last {
        if any_answer {
            note_fault(plugin, generation, &keys, &fault);
        } else {
            hold_against(plugin, generation, &keys, &fault);
        }
    }
    plugin.queue.done_batch(items);
    size
}

/// Whether fewer keys may do better. A deadline or an instance that cannot be made says nothing of the keys.
fn is_of_keys(kind: FaultKind) -> bool {
    match kind {
        FaultKind::Trap | FaultKind::Cpu | FaultKind::Memory | FaultKind::Answer => true,
        FaultKind::Deadline | FaultKind::Instantiate => false,
    }
}

async fn call(
    plugin: &Arc<Plugin>,
    generation: &Arc<Generation>,
    warm: &mut Option<Warm>,
    items: &[Key],
) -> Result<(), Fault> {
    let call = Call::begin(plugin);
    let mut names = vec![[""; 8]; items.len()];
    let requests: Vec<Request<'_>> =
        items.iter().zip(&mut names).map(|(item, names)| request(plugin, item, names)).collect();
    let outcome = match instance(plugin, generation, warm).await {
        Ok(instance) => instance.reconcile_many(&requests, call.id).await,
        Err(fault) => Err(fault),
    };
    let took = call.end(plugin);
    match outcome {
        Ok(answers) => {
            plugin.answered();
            let mut failures = Failures::default();
            for (item, answer) in items.iter().zip(answers) {
                told(plugin, &item.key, Ok(&answer), took);
                match answer {
                    Ok(outcome) => settle(plugin, item, outcome),
                    Err(failure) => {
                        let retry = failed(plugin, item, &failure);
                        failures.add(failure.message, &item.key, retry);
                    }
                }
            }
            failures.log(plugin, generation, call.id);
            Ok(())
        }
        Err(fault) => {
            items.iter().for_each(|item| told(plugin, &item.key, Err(&fault), took));
            tell_fault(plugin, generation, &keys(items), call.id, took, &fault);
            Err(fault)
        }
    }
}

/// How the keys of a call are called.
fn keys(items: &[Key]) -> Keys<'_> {
    Keys { first: &items[0].key, others: items.len() - 1 }
}

/// Keys, for people.
#[derive(Clone, Copy)]
struct Keys<'a> {
    first: &'a ObjectKey,
    others: usize,
}

impl fmt::Display for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.others {
            0 => write!(f, "{}", self.first),
            others => write!(f, "{} and {others} more", self.first),
        }
    }
}

/// What keys failed of in one call. Often it is the same for all: a line for each would be a flood.
#[derive(Default)]
struct Failures<'a>(BTreeMap<String, (Keys<'a>, Retry)>);

/// Different failures of one call that are logged.
const MOST_FAILURES: usize = 10;

impl<'a> Failures<'a> {
    fn add(&mut self, message: String, key: &'a ObjectKey, next: Retry) {
        self.0
            .entry(message)
            .and_modify(|(keys, _)| keys.others += 1)
            .or_insert((Keys { first: key, others: 0 }, next));
    }

    fn log(&self, plugin: &Plugin, generation: &Generation, call: u64) {
        for (message, (keys, next)) in self.0.iter().take(MOST_FAILURES) {
            log(plugin, generation, keys, call, message, *next);
        }
        if self.0.len() > MOST_FAILURES {
            let more = self.0.len() - MOST_FAILURES;
            tracing::warn!(
                event = "batch_failures_summarized",
                plugin = &*plugin.name,
                call,
                "{more} more keys or groups of keys failed otherwise"
            );
        }
    }
}
