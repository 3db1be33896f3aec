//! What follows for a key from the answer of the guest or from a fault: in the queue, the metrics and the log.
//!
//! The table of outcomes is controller-runtime's, except that a terminal failure also forgets the failures of the key.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::time::Duration;

use pilothouse_engine::{Failure, Fault, FaultKind, Outcome};
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::{AddOptions, Verdict};
use tokio::time::Instant;

use super::call::EndedCall;
use super::{Key, RECONCILES};
use crate::dispatch::guest::Answer;
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;
use crate::lifecycle::state::{CallKind, Faults};

/// The longest backoff of a key that could not be reconciled because of the host or the API server.
const MAX_HOST_BACKOFF: Duration = Duration::from_secs(30);

/// Different failures of one call that are logged.
const MAX_LOGGED_FAILURES: usize = 10;

/// Records the answers of one call, and gives the keys back to the queue with what follows for them.
pub(super) fn record<'a>(
    plugin: &Plugin,
    generation: &Generation,
    call: EndedCall,
    answers: impl Iterator<Item = (&'a mut Key, Answer)>,
) {
    let mut failures = Failures::default();
    for (item, answer) in answers {
        log_reconcile(plugin, &item.key, Ok(&answer), call.took);
        match answer {
            Ok(outcome) => record_outcome(plugin, item, outcome, call.at),
            Err(failure) => {
                let next = record_failure(plugin, item, &failure, call.at);
                let item: &'a Key = item;
                failures.add(failure.message, &item.key, next);
            }
        }
    }
    failures.log(plugin, generation, call.id);
}

fn record_outcome(plugin: &Plugin, item: &mut Key, outcome: Outcome, ended: Instant) {
    let metrics = plugin.metrics();
    let (counter, verdict) = match outcome {
        Outcome::Done => (&metrics.success, Verdict::Done),
        Outcome::Requeue => (&metrics.requeue, Verdict::Retry { at_least: Duration::ZERO }),
        Outcome::RequeueAfter(delay) => (&metrics.requeue_after, Verdict::After(delay)),
    };
    counter.inc();
    finish(plugin, item, verdict, ended);
}

/// The next try of a key that failed.
#[derive(Debug, Clone, Copy)]
enum NextTry {
    /// None: the failure is terminal.
    Never,
    /// After this delay; none when the queue is shutting down and takes no key.
    After(Option<Duration>),
}

/// Requeues a key that failed, unless the failure is terminal.
fn record_failure(plugin: &Plugin, item: &mut Key, failure: &Failure, ended: Instant) -> NextTry {
    let metrics = plugin.metrics();
    metrics.error.inc();
    metrics.errors.inc();
    plugin.record_error(&format!("{}: {}", item.key, failure.message));
    if failure.terminal {
        metrics.terminal.inc();
        finish(plugin, item, Verdict::Done, ended);
        return NextTry::Never;
    }
    let at_least = failure.retry_after.unwrap_or(Duration::ZERO);
    NextTry::After(finish(plugin, item, Verdict::Retry { at_least }, ended))
}

/// Keys whose call faulted are tried again after a backoff. The bucket of the plugin counts one failure: a long batch would
/// otherwise empty it for many minutes. Where the plugin is not to blame, the backoff has a lower limit: the keys are tried
/// soon after the cause is gone. Keys that have an outcome, as after a panic while others were recorded, keep it.
pub(super) fn record_backoff(plugin: &Plugin, part: &[Key], kind: FaultKind) {
    let unfinished = part.iter().filter(|item| !item.is_finished());
    let adds: Vec<_> =
        unfinished.map(|item| (item.key.clone(), item.payload.of_another_try(), item.priority)).collect();
    let count = adds.len() as u64;
    plugin.metrics().errors.inc_by(count);
    plugin.metrics().error.inc_by(count);
    let after = if kind.is_of_host() { MAX_HOST_BACKOFF } else { Duration::ZERO };
    plugin
        .queue()
        .add_rate_limited_batch(adds, AddOptions { coalesce: true, after, ..AddOptions::default() });
}

/// Gives the key of a reconcile back that `ended` then, and adds it again as the verdict says. Returns the delay; none without
/// another try, and when the queue is shutting down.
fn finish(plugin: &Plugin, item: &mut Key, verdict: Verdict, ended: Instant) -> Option<Duration> {
    item.payload = item.payload.of_another_try();
    plugin.queue().finish_at(item, verdict, ended)
}

/// Records the fault of an event's call: metrics, log, and the state of the plugin. With `is_deleted` the event says that the
/// object is gone.
pub(crate) fn record_event_fault(
    plugin: &Plugin,
    generation: &Generation,
    key: &ObjectKey,
    is_deleted: bool,
    call: u64,
    took: Duration,
    fault: &Fault,
) {
    log_fault(plugin, generation, key, call, took, fault);
    let error = format!("{key}: {fault}");
    if fault.kind.is_of_host() {
        return plugin.record_host_condition(generation.number, &error);
    }
    plugin.record_faults(&Faults {
        kind: CallKind::Event,
        generation: generation.number,
        keys: std::slice::from_ref(key),
        are_deleted: is_deleted,
        any_answer: false,
        error: &error,
    });
}

/// Counts a fault in the metrics and logs it.
pub(crate) fn log_fault(
    plugin: &Plugin,
    generation: &Generation,
    key: &dyn Display,
    call: u64,
    took: Duration,
    fault: &Fault,
) {
    plugin.metrics().fault(fault.kind);
    if !plugin.may_log(fault.message.len()) {
        return;
    }
    let (name, number, kind) = (&**plugin.name(), generation.number, fault.kind.as_str());
    if fault.kind.is_of_host() {
        tracing::warn!(event = "call_not_answered", plugin = name, generation = number, %key, call, fault = kind, ?took, "call not answered, which is no fault of the plugin: {fault}");
    } else {
        tracing::error!(event = "plugin_fault", plugin = name, generation = number, %key, call, fault = kind, ?took, "plugin fault: {fault}");
    }
}

/// Writes the debug event of a reconcile: one load of an atomic unless the log's filter names it.
pub(super) fn log_reconcile(
    plugin: &Plugin,
    key: &ObjectKey,
    result: Result<&Answer, &Fault>,
    took: Duration,
) {
    tracing::debug!(
        target: RECONCILES,
        plugin = &**plugin.name(),
        key = %key,
        outcome = result_label(result),
        after = requeue_delay(result).map(tracing::field::debug),
        milliseconds = took.as_secs_f64() * 1e3,
        "reconciled"
    );
}

/// The label `result` of the metrics.
pub(super) fn result_label(result: Result<&Answer, &Fault>) -> &'static str {
    match result {
        Ok(Ok(Outcome::Done)) => "success",
        Ok(Ok(Outcome::Requeue)) => "requeue",
        Ok(Ok(Outcome::RequeueAfter(_))) => "requeue_after",
        Ok(Err(_)) | Err(_) => "error",
    }
}

fn requeue_delay(result: Result<&Answer, &Fault>) -> Option<Duration> {
    match result {
        Ok(Ok(Outcome::RequeueAfter(delay))) => Some(*delay),
        _ => None,
    }
}

/// The keys of a call, for logs: the first one and the number of the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyList<'a> {
    first: &'a ObjectKey,
    others: usize,
}

impl<'a> KeyList<'a> {
    /// The keys of a call, at least one.
    pub(super) fn of(items: &'a [Key]) -> Self {
        Self { first: &items[0].key, others: items.len() - 1 }
    }
}

impl Display for KeyList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.others {
            0 => write!(f, "{}", self.first),
            others => write!(f, "{} and {others} more", self.first),
        }
    }
}

/// The failures of one call by message. Often it is the same for all keys: a line for each would flood the log.
#[derive(Default)]
struct Failures<'a>(BTreeMap<String, (KeyList<'a>, NextTry)>);

impl<'a> Failures<'a> {
    fn add(&mut self, message: String, key: &'a ObjectKey, next: NextTry) {
        self.0
            .entry(message)
            .and_modify(|(keys, _)| keys.others += 1)
            .or_insert((KeyList { first: key, others: 0 }, next));
    }

    fn log(&self, plugin: &Plugin, generation: &Generation, call: u64) {
        for (message, (keys, next)) in self.0.iter().take(MAX_LOGGED_FAILURES) {
            if !plugin.may_log(message.len()) {
                continue;
            }
            let (kind, retry_in) = match next {
                NextTry::Never => ("terminal", None),
                NextTry::After(delay) => ("transient", *delay),
            };
            tracing::warn!(
                event = "reconcile_failed", plugin = &**plugin.name(),
                generation = generation.number,
                key = %keys,
                call,
                kind,
                retry_in = retry_in.map(tracing::field::debug),
                "reconcile failed: {message}"
            );
        }
        if self.0.len() > MAX_LOGGED_FAILURES {
            let more = self.0.len() - MAX_LOGGED_FAILURES;
            tracing::warn!(
                event = "batch_failures_summarized",
                plugin = &**plugin.name(),
                call,
                "{more} more keys or groups of keys failed otherwise"
            );
        }
    }
}
