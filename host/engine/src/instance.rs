//! [`Instance`]: one live guest with its store. It runs one call at a time within its [`Limits`].
//!
//! A fault, or dropping the future of a call, interrupts the guest and leaves its memory inconsistent: the instance is
//! then [unusable](Instance::is_usable) and must be dropped. Handles that the guest received in a call are invalid
//! after it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_object::{Object, ObjectKey};
use pilothouse_plugin::{Limits, printable};
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline};

use crate::backtrace;
use crate::budget::Budget;
use crate::code::Code;
use crate::deadline::{Deadline, Exceeded};
use crate::error::{Fault, FaultKind, LoadError, OverLimit};
use crate::exports::{Exports, NotExported};
use crate::handles::max_places;
use crate::host::{CallContext, HostImports};
use crate::limits::Refused;
use crate::reasons::ReasonSet;
use crate::state::{MAX_LASTING, StoreState};

/// Maximum number of bytes that a guest may pass to the host in one call of an import: more than twice the largest
/// request body that the API server accepts.
const HOSTCALL_BYTES: usize = 8 << 20;

/// How wasmtime's error begins when a guest passes more than that. Its type is private.
const TOO_MUCH: &str = "too much data is being copied between the host and the guest";

/// A request to reconcile one key.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The key of the object.
    pub key: &'a ObjectKey,
    /// Number of consecutive failures of this key so far.
    pub attempt: u32,
    /// Why the key is reconciled.
    pub reasons: ReasonSet,
    /// The priority of the key on the queue; 0 is the usual one.
    pub priority: i32,
}

/// The beginning of a call.
#[derive(Debug, Clone, Copy)]
pub struct CallStart {
    /// Identifies the call in logs; 0 if it has no number.
    pub id: u64,
    /// When it began, at most a moment ago: the deadline and the CPU budget of the call count from here.
    pub at: Instant,
}

/// A call with this number that begins now.
impl From<u64> for CallStart {
    fn from(id: u64) -> Self {
        Self { id, at: Instant::now() }
    }
}

/// The result of a successful reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Do not reconcile again until something changes.
    Done,
    /// Reconcile again after the rate limiter's delay.
    Requeue,
    /// Reconcile again after this delay.
    RequeueAfter(Duration),
}

/// A failure of a reconcile that the guest returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The guest's message, human-readable.
    pub message: String,
    /// Whether the key must not be retried until something changes.
    pub terminal: bool,
    /// Minimum delay before the next attempt.
    pub retry_after: Option<Duration>,
}

/// An event for a handler.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// An object was added, or became visible to the watch.
    Added {
        /// The object.
        object: &'a Object,
        /// Whether the object is part of the initial list.
        initial: bool,
    },
    /// An object changed.
    Updated {
        /// The state in the handler's previous event, if it is known.
        old: Option<&'a Object>,
        /// The new state.
        new: &'a Object,
    },
    /// An object was deleted, or is no longer visible to the watch.
    Deleted {
        /// Its key.
        key: &'a ObjectKey,
        /// Its last known state.
        object: Option<&'a Object>,
        /// Whether the deletion event was missed and a list revealed the deletion: `object` may then be stale.
        final_state_unknown: bool,
    },
}

impl Event<'_> {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        match self {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => object.key(),
            Event::Deleted { key, .. } => key,
        }
    }
}

/// One live guest.
pub struct Instance {
    store: Store<StoreState>,
    exports: Exports,
    /// That of the store.
    budget: Arc<Budget>,
    limits: Limits,
    usable: bool,
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance").field("usable", &self.usable).finish_non_exhaustive()
    }
}

impl Instance {
    /// Instantiates a component. Its start code runs under the same limits as a call.
    ///
    /// # Errors
    /// When the component cannot be mapped, the engine has no room for another instance, or its start code faults.
    pub async fn new(code: &Code, host: Arc<dyn HostImports>, limits: Limits) -> Result<Self, Fault> {
        let linked = code.linked().map_err(|error| match error {
            LoadError::CodeLost(_) => Fault::code_unavailable(&error),
            // The host could not read the file now, as without a free descriptor.
            _ => Fault::host_busy(&error),
        })?;
        let engine = &code.engine().0;
        let state = StoreState::new(host, limits, Arc::clone(&engine.memory));
        let mut store = Store::new(&engine.wasmtime, state);
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(HOSTCALL_BYTES);
        store.set_max_component_handles(max_places(limits.handle_bytes, MAX_LASTING));
        let budget = Arc::clone(&store.data().budget);
        let ticked = Arc::clone(&budget);
        store.epoch_deadline_callback(move |_| {
            if !ticked.tick() {
                return Ok(UpdateDeadline::Interrupt);
            }
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
        });
        store.data_mut().begin(CallContext::default(), Instant::now());
        store.set_epoch_deadline(1);
        let deadline = Deadline::new(store.data().deadline);
        let made = async {
            let instance = linked.pre.instantiate_async(&mut store).await?;
            linked.exports.load(&mut store, &instance)
        };
        match deadline.limit(budget.metered(made)).await {
            Err(Exceeded) => Err(Fault::deadline(limits.call_timeout, budget.used())),
            Ok(Err(error)) if is_without_room(&error) => Err(Fault::host_busy(&error)),
            Ok(Err(error)) => Err(fault(store.data(), FaultKind::Instantiate, &error)),
            Ok(Ok(exports)) => {
                // What its start code was given is not good in its first call.
                store.data_mut().end();
                Ok(Self { store, exports, budget, limits, usable: true })
            }
        }
    }

    /// Whether the instance can run another call.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.usable
    }

    /// Whether the instance should be replaced: it can run another call, and was given so many handles that few are left.
    #[must_use]
    pub fn is_worn_out(&self) -> bool {
        self.store.data().handles.is_worn_out()
    }

    /// Bytes of linear memory that the guest has grown to.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.store.data().limiter.memory()
    }

    /// Calls the guest's `describe` with its configuration (JSON) and returns the description (JSON). The inner error
    /// is the guest's own message.
    ///
    /// # Errors
    /// When the guest faults.
    pub async fn describe(&mut self, config: &[u8]) -> Result<Result<Vec<u8>, String>, Fault> {
        let deadline = self.begin(None, CallStart::from(0));
        let call = self.exports.describe(&mut self.store, config);
        let answer = deadline.limit(self.budget.metered(call)).await;
        self.end(answer)
    }

    /// Reconciles one key. The inner error is the guest's own failure.
    ///
    /// # Errors
    /// When the guest faults or the component does not export `reconcile`.
    pub async fn reconcile(
        &mut self,
        request: &Request<'_>,
        call: impl Into<CallStart>,
    ) -> Result<Result<Outcome, Failure>, Fault> {
        let deadline = self.begin(Some(request.key.clone()), call.into());
        let call = self.exports.reconcile(&mut self.store, request);
        let answer = deadline.limit(self.budget.metered(call)).await;
        self.end(answer)
    }

    /// Reconciles many keys in one call and returns one result per key, in the order of `requests`. The inner errors are the
    /// guest's own failures.
    ///
    /// # Errors
    /// When the guest faults, the component does not export `reconcile-many`, or the number of results differs from the
    /// number of keys.
    pub async fn reconcile_many(
        &mut self,
        requests: &[Request<'_>],
        call: impl Into<CallStart>,
    ) -> Result<Vec<Result<Outcome, Failure>>, Fault> {
        let deadline = self.begin(None, call.into());
        let call = self.exports.reconcile_many(&mut self.store, requests);
        let answer = deadline.limit(self.budget.metered(call)).await;
        let answers = self.end(answer)?;
        self.one_for_each(answers, requests.len(), "keys")
    }

    /// Delivers events of one watch to the guest's handler and returns one result per event, in their order.
    ///
    /// # Errors
    /// When the guest faults, the component does not export `handler`, or the number of results differs from the number of
    /// events. Which of the events it has handled then is not known.
    pub async fn handle(
        &mut self,
        watch: &str,
        events: &[Event<'_>],
        call: impl Into<CallStart>,
    ) -> Result<Vec<Result<(), Failure>>, Fault> {
        let key = match events {
            [event] => Some(event.key().clone()),
            _ => None,
        };
        let deadline = self.begin(key, call.into());
        let call = self.exports.handle(&mut self.store, watch, events);
        let answer = deadline.limit(self.budget.metered(call)).await;
        let answers = self.end(answer)?;
        self.one_for_each(answers, events.len(), "events")
    }

    /// Tells the guest's handler that all objects of the first list of a watch were delivered.
    ///
    /// # Errors
    /// When the guest faults or the component does not export `handler`.
    pub async fn synced(&mut self, watch: &str, call: impl Into<CallStart>) -> Result<(), Fault> {
        let deadline = self.begin(None, call.into());
        let call = self.exports.synced(&mut self.store, watch);
        let answer = deadline.limit(self.budget.metered(call)).await;
        self.end(answer)
    }

    /// Checks that there are as many answers as questions.
    fn one_for_each<T>(&mut self, answers: Vec<T>, asked: usize, what: &str) -> Result<Vec<T>, Fault> {
        if answers.len() == asked {
            return Ok(answers);
        }
        self.usable = false;
        let message = format!("the guest answered {} {what} of {asked}", answers.len());
        Err(Fault::new(FaultKind::Answer, message))
    }

    /// Starts a call. The caller must run its future with [`Budget::metered`], until the deadline.
    #[must_use]
    fn begin(&mut self, key: Option<ObjectKey>, call: CallStart) -> Deadline {
        // If the call's future is dropped before it completes, the instance stays unusable.
        self.usable = false;
        self.store.data_mut().begin(CallContext { key, call_id: call.id }, call.at);
        self.store.set_epoch_deadline(1);
        Deadline::new(self.store.data().deadline)
    }

    /// Ends a call: makes the instance usable again, or turns the error into a fault.
    fn end<R>(&mut self, answer: Result<wasmtime::Result<R>, Exceeded>) -> Result<R, Fault> {
        let host_time = self.budget.host_time();
        if !host_time.is_zero() {
            self.store.data().host.host_time(host_time);
        }
        match answer {
            Ok(Ok(answer)) => {
                self.store.data_mut().end();
                self.usable = true;
                Ok(answer)
            }
            Ok(Err(error)) => Err(fault(self.store.data(), FaultKind::Trap, &error)),
            Err(Exceeded) => Err(Fault::deadline(self.limits.call_timeout, self.budget.used())),
        }
    }
}

/// Whether the host has no room for another instance: in the pool, or in its address space.
fn is_without_room(error: &wasmtime::Error) -> bool {
    error.is::<PoolConcurrencyLimitError>() || error.is::<std::io::Error>() || error.is::<rustix::io::Errno>()
}

/// Turns an error of wasmtime into a fault with its reason: an exceeded limit, a trap, or `kind`.
fn fault(state: &StoreState, kind: FaultKind, error: &wasmtime::Error) -> Fault {
    match state.limiter.refused() {
        Some(Refused::OverLimit(wanted)) => return Fault::memory(state.limits.memory, wanted),
        Some(Refused::OverBound(wanted, most)) => return Fault::over_bound(most, wanted),
        Some(Refused::HostBusy) => return Fault::no_memory(),
        None => {}
    }
    if state.budget.exceeded() {
        return Fault::cpu(state.limits.cpu_per_call);
    }
    if let Some(missing) = error.downcast_ref::<NotExported>() {
        return Fault::new(FaultKind::Answer, missing.to_string());
    }
    let trace = backtrace::of(error);
    if let Some(over) = error.downcast_ref::<OverLimit>() {
        return Fault::new(FaultKind::Limit, format!("{over}{trace}"));
    }
    let cause = error.root_cause().to_string();
    if cause.starts_with(TOO_MUCH) {
        let message = format!(
            "the guest passed too many bytes to the host in one call: a body of a live call may have 3 MiB, a description \
             limits.descriptorBytes, and all arguments of a call {HOSTCALL_BYTES} bytes{trace}"
        );
        return Fault::new(FaultKind::Limit, message);
    }
    match error.downcast_ref::<Trap>() {
        Some(trap) => Fault::new(FaultKind::Trap, format!("the guest trapped: {trap}{trace}")),
        // The chain of a host error holds the frames of the guest, which `trace` has by name.
        None => Fault::new(kind, format!("the guest faulted: {}{trace}", printable(&cause))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_not_to_blame_for_memory_that_the_host_does_not_get() {
        let refused = wasmtime::Error::from(rustix::io::Errno::NOMEM).context("mapping");
        assert!(is_without_room(&refused));
        assert!(is_without_room(&std::io::Error::from_raw_os_error(12).into()));
        assert!(!is_without_room(&wasmtime::Error::msg("Cannot allocate memory (os error 12)")));
    }
}
