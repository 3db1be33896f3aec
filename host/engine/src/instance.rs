//! [`Instance`]: one live guest with its store. It runs one call at a time within its [`Limits`].
//!
//! A fault, or dropping the future of a call, interrupts the guest and leaves its memory inconsistent: the instance is
//! then [unusable](Instance::is_usable) and must be dropped. Handles that the guest received in a call are invalid
//! after it.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_object::{Gvk, Object, ObjectKey};
use pilothouse_plugin::{Limits, printable};
use wasmtime::component::Resource;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline};

use crate::backtrace;
use crate::bindings::v0_1::exports::pilothouse::controller as exports;
use crate::bindings::v0_1::pilothouse::controller::types as wit;
use crate::budget::Budget;
use crate::code::Code;
use crate::error::{Fault, FaultKind, OverLimit};
use crate::host::{CallContext, HostImports};
use crate::state::StoreState;

/// Maximum number of bytes that a guest may pass to the host in one call of an import: more than twice the largest
/// request body that the API server accepts.
const HOSTCALL_BYTES: usize = 8 << 20;

/// A request to reconcile one key.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The key of the object.
    pub key: &'a ObjectKey,
    /// Number of consecutive failures of this key so far.
    pub attempt: u32,
    /// The reasons for which the key was queued, for the guest's logs.
    pub reasons: &'a [&'static str],
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
        /// Its kind.
        kind: &'a Gvk,
        /// Its key.
        key: &'a ObjectKey,
        /// Its last known state.
        object: Option<&'a Object>,
        /// Whether the deletion event was missed and a list revealed the deletion: `object` may then be stale.
        final_state_unknown: bool,
    },
}

/// One live guest.
pub struct Instance {
    store: Store<StoreState>,
    descriptor: exports::descriptor::Guest,
    reconcile: Option<exports::reconcile::Guest>,
    reconcile_many: Option<exports::reconcile_many::Guest>,
    handler: Option<exports::handler::Guest>,
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
        let linked = code.linked().map_err(|e| Fault::code_unavailable(&e))?;
        let mut store = Store::new(&code.engine().0.wasmtime, StoreState::new(host, limits));
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(HOSTCALL_BYTES);
        let budget = Arc::clone(&store.data().budget);
        let metered = Arc::clone(&budget);
        store.epoch_deadline_callback(move |_| {
            if !budget.tick() {
                return Ok(UpdateDeadline::Interrupt);
            }
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
        });
        store.data_mut().begin(CallContext::default());
        store.set_epoch_deadline(1);
        let made = async {
            let instance = linked.pre.instantiate_async(&mut store).await?;
            let descriptor = linked.descriptor.load(&mut store, &instance)?;
            let reconcile = linked.reconcile.as_ref().map(|i| i.load(&mut store, &instance)).transpose()?;
            let many = linked.reconcile_many.as_ref().map(|i| i.load(&mut store, &instance)).transpose()?;
            let handler = linked.handler.as_ref().map(|i| i.load(&mut store, &instance)).transpose()?;
            wasmtime::error::Ok((descriptor, reconcile, many, handler))
        };
        match tokio::time::timeout(limits.call_timeout, metered.metered(made)).await {
            Err(_) => Err(Fault::deadline(limits.call_timeout, store.data().budget.used())),
            Ok(Err(error)) if is_without_room(&error) => Err(Fault::host_busy(&error)),
            Ok(Err(error)) => Err(fault(store.data(), FaultKind::Instantiate, &error)),
            Ok(Ok((descriptor, reconcile, reconcile_many, handler))) => {
                Ok(Self { store, descriptor, reconcile, reconcile_many, handler, limits, usable: true })
            }
        }
    }

    /// Whether the instance can run another call.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.usable
    }

    /// Bytes of linear memory that the guest has grown to.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.store.data().limiter.memory
    }

    /// Calls the guest's `describe` with its configuration (JSON) and returns the description (JSON). The inner error
    /// is the guest's own message.
    ///
    /// # Errors
    /// When the guest faults.
    pub async fn describe(&mut self, config: &[u8]) -> Result<Result<Vec<u8>, String>, Fault> {
        let budget = self.begin(CallContext::default());
        let call = self.descriptor.call_describe(&mut self.store, config);
        let answer = tokio::time::timeout(self.limits.call_timeout, budget.metered(call)).await;
        self.end(answer)
    }

    /// Reconciles one key. `call_id` identifies the call in logs. The inner error is the guest's own failure.
    ///
    /// # Errors
    /// When the guest faults or the component does not export `reconcile`.
    pub async fn reconcile(
        &mut self,
        request: &Request<'_>,
        call_id: u64,
    ) -> Result<Result<Outcome, Failure>, Fault> {
        let budget = self.begin(CallContext { key: Some(request.key.clone()), call_id });
        let Some(guest) = &self.reconcile else {
            return Err(Fault::new(FaultKind::Answer, "the component exports no reconcile interface"));
        };
        let request = wit_request(request);
        let call = guest.call_reconcile(&mut self.store, &request);
        let answer = tokio::time::timeout(self.limits.call_timeout, budget.metered(call)).await;
        Ok(outcome(self.end(answer)?))
    }

    /// Reconciles many keys in one call and returns one result per key, in the order of `requests`. `call_id`
    /// identifies the call in logs. The inner errors are the guest's own failures.
    ///
    /// # Errors
    /// When the guest faults, the component does not export `reconcile-many`, or the number of results differs from the
    /// number of keys.
    pub async fn reconcile_many(
        &mut self,
        requests: &[Request<'_>],
        call_id: u64,
    ) -> Result<Vec<Result<Outcome, Failure>>, Fault> {
        let budget = self.begin(CallContext { key: None, call_id });
        let Some(guest) = &self.reconcile_many else {
            return Err(Fault::new(FaultKind::Answer, "the component exports no reconcile-many interface"));
        };
        let raw: Vec<_> = requests.iter().map(wit_request).collect();
        let call = guest.call_reconcile_many(&mut self.store, &raw);
        let answer = tokio::time::timeout(self.limits.call_timeout, budget.metered(call)).await;
        let answers = self.end(answer)?;
        if answers.len() != requests.len() {
            self.usable = false;
            let message = format!("the guest answered {} keys of {}", answers.len(), requests.len());
            return Err(Fault::new(FaultKind::Answer, message));
        }
        Ok(answers.into_iter().map(outcome).collect())
    }

    /// Delivers one event to the guest's handler. `call_id` identifies the call in logs.
    ///
    /// # Errors
    /// When the guest faults or the component does not export `handler`.
    pub async fn handle(&mut self, event: &Event<'_>, call_id: u64) -> Result<(), Fault> {
        let key = match event {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => object.key(),
            Event::Deleted { key, .. } => key,
        };
        let budget = self.begin(CallContext { key: Some(key.clone()), call_id });
        let Some(guest) = &self.handler else {
            return Err(Fault::new(FaultKind::Answer, "the component exports no handler interface"));
        };
        let store = &mut self.store;
        let push = |store: &mut Store<StoreState>, object: &Object| -> wasmtime::Result<Resource<Object>> {
            let own = store.data_mut().handles.push_cached(object.clone())?;
            Ok(Resource::new_borrow(own.rep()))
        };
        let call = async {
            match event {
                Event::Added { object, initial } => {
                    let object = push(store, object)?;
                    guest.call_on_add(store, object, *initial).await
                }
                Event::Updated { old, new } => {
                    let old = old.map(|old| push(store, old)).transpose()?;
                    let new = push(store, new)?;
                    guest.call_on_update(store, old, new).await
                }
                Event::Deleted { kind, key, object, final_state_unknown } => {
                    let object = object.map(|object| push(store, object)).transpose()?;
                    guest
                        .call_on_delete(store, &wit_kind(kind), &wit_key(key), object, *final_state_unknown)
                        .await
                }
            }
        };
        let answer = tokio::time::timeout(self.limits.call_timeout, budget.metered(call)).await;
        self.end(answer)
    }

    /// Starts a call. The caller must run its future with [`Budget::metered`].
    #[must_use]
    fn begin(&mut self, context: CallContext) -> Arc<Budget> {
        // If the call's future is dropped before it completes, the instance stays unusable.
        self.usable = false;
        self.store.data_mut().begin(context);
        self.store.set_epoch_deadline(1);
        Arc::clone(&self.store.data().budget)
    }

    /// Ends a call: makes the instance usable again, or turns the error into a fault.
    fn end<R>(
        &mut self,
        answer: Result<wasmtime::Result<R>, tokio::time::error::Elapsed>,
    ) -> Result<R, Fault> {
        let state = self.store.data();
        state.host.host_time(state.budget.host_time());
        match answer {
            Ok(Ok(answer)) => {
                let state = self.store.data_mut();
                state.end();
                self.usable = !state.handles.is_worn_out();
                Ok(answer)
            }
            Ok(Err(error)) => Err(fault(self.store.data(), FaultKind::Trap, &error)),
            Err(_) => Err(Fault::deadline(self.limits.call_timeout, self.store.data().budget.used())),
        }
    }
}

/// Whether the host has no room for another instance: in the pool, or in its address space.
fn is_without_room(error: &wasmtime::Error) -> bool {
    error.is::<PoolConcurrencyLimitError>() || error.is::<std::io::Error>() || error.is::<rustix::io::Errno>()
}

/// Turns an error of wasmtime into a fault with its reason: an exceeded limit, a trap, or `kind`.
fn fault(state: &StoreState, kind: FaultKind, error: &wasmtime::Error) -> Fault {
    if let Some(wanted) = state.limiter.refused {
        return Fault::memory(state.limits.memory, wanted);
    }
    if state.budget.exceeded() {
        return Fault::cpu(state.limits.cpu_per_call);
    }
    let trace = backtrace::of(error);
    if let Some(over) = error.downcast_ref::<OverLimit>() {
        return Fault::new(FaultKind::Limit, format!("{over}{trace}"));
    }
    match error.downcast_ref::<Trap>() {
        Some(trap) => Fault::new(FaultKind::Trap, format!("the guest trapped: {trap}{trace}")),
        // The chain of a host error holds the frames of the guest, which `trace` has by name.
        None => {
            let cause = printable(&error.root_cause().to_string());
            Fault::new(kind, format!("the guest faulted: {cause}{trace}"))
        }
    }
}

fn wit_request(request: &Request<'_>) -> wit::Request {
    wit::Request {
        key: wit_key(request.key),
        attempt: request.attempt,
        reasons: request.reasons.iter().map(|reason| (*reason).to_owned()).collect(),
    }
}

/// Converts the guest's result for one key.
fn outcome(answer: Result<wit::Outcome, wit::Failure>) -> Result<Outcome, Failure> {
    match answer {
        Ok(wit::Outcome::Done) => Ok(Outcome::Done),
        Ok(wit::Outcome::Requeue) => Ok(Outcome::Requeue),
        Ok(wit::Outcome::RequeueAfter(delay)) => Ok(Outcome::RequeueAfter(Duration::from_millis(delay))),
        Err(failure) => Err(Failure {
            message: printable(&failure.message),
            terminal: failure.kind == "terminal",
            retry_after: failure.retry_after.map(Duration::from_millis),
        }),
    }
}

pub(crate) fn wit_key(key: &ObjectKey) -> wit::ObjectKey {
    wit::ObjectKey { namespace: key.namespace().map(str::to_owned), name: key.name().to_owned() }
}

pub(crate) fn wit_kind(kind: &Gvk) -> wit::Gvk {
    wit::Gvk { group: kind.group.clone(), version: kind.version.clone(), kind: kind.kind.clone() }
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
