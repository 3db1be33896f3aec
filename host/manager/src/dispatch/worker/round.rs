//! A round: calls for all keys that a worker took, in parts where a call faults.
//!
//! The faults of a round count as one fault of the plugin, and only if no call of the round was answered.

use std::sync::Arc;

use super::call;
use super::outcome::{self, KeyList};
use super::parts::{AfterFault, BatchSize, Parts};
use super::take::{Taken, add_again};
use crate::dispatch::instance::WarmInstance;
use crate::lifecycle::plugin::Plugin;

/// Reconciles the keys, records an outcome for each, and ends their progress in the queue.
pub(super) async fn run(plugin: &Arc<Plugin>, taken: Taken, warm: &mut WarmInstance, size: &mut BatchSize) {
    let Taken { generation, items } = taken;
    let mut parts = Parts::new(items.len(), generation.batch_max());
    let (mut last_fault, mut any_answer) = (None, false);
    while let Some(range) = parts.next() {
        let part = &items[range.clone()];
        if plugin.is_stopping() {
            break;
        }
        let is_current = plugin.current().is_some_and(|current| current.number == generation.number);
        if !is_current || !plugin.election().is_leader() {
            // The keys are for the new generation, or for the next leader.
            part.iter().for_each(|item| add_again(plugin, item));
            while let Some(rest) = parts.next() {
                items[rest].iter().for_each(|item| add_again(plugin, item));
            }
            break;
        }
        if parts.is_given_up() {
            part.iter().for_each(|item| outcome::record_backoff(plugin, item));
            continue;
        }
        match call::reconcile(plugin, &generation, warm, part).await {
            Ok(()) => {
                any_answer = true;
                parts.answered();
                size.answered(part.len());
            }
            Err(fault) => {
                size.faulted(part.len(), fault.kind);
                if parts.faulted(range, fault.kind) == AfterFault::Backoff {
                    part.iter().for_each(|item| outcome::record_backoff(plugin, item));
                }
                last_fault = Some((KeyList::of(part), fault));
            }
        }
    }
    if let Some((keys, fault)) = last_fault {
        if any_answer {
            outcome::show_fault(plugin, &generation, &keys, &fault);
        } else {
            outcome::count_fault_in_a_row(plugin, &generation, &keys, &fault);
        }
    }
    plugin.queue().done_batch(items);
}
