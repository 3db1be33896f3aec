//! [`Instance`]: one live guest with its store. It runs one call at a time, each bounded by [`Limits`].
//!
//! A fault, or dropping the future of a call, leaves the guest in the middle of something: the instance is then
//! [unusable](Instance::is_usable) and must be dropped. Handles given out during a call die with it.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_object::{Gvk, Object, ObjectKey};
use pilothouse_plugin::Limits;
use wasmtime::component::Resource;
use wasmtime::{Store, Trap, UpdateDeadline};

use crate::bindings::exports::pilothouse::controller as exports;
use crate::bindings::pilothouse::controller::types as wit;
use crate::budget::Budget;
use crate::code::Code;
use crate::error::{Fault, FaultKind};
use crate::host::{CallContext, GuestHost};
use crate::state::State;
use crate::wasi;

/// Bytes that a guest may hand to the host in one call of an import: twice the largest request body of the API server.
const HOSTCALL_BYTES: usize = 8 << 20;

/// A key to reconcile.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The key.
    pub key: &'a ObjectKey,
    /// Failures in a row so far.
    pub attempt: u32,
    /// Why.
    pub reasons: &'a [&'static str],
}

/// What follows from a reconcile that went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing until something changes.
    Done,
    /// Again after the rate limiter's delay.
    Requeue,
    /// Again after this time.
    RequeueAfter(Duration),
}

/// A failure that a guest reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// For people.
    pub message: String,
    /// Not again until something changes.
    pub terminal: bool,
    /// Time to wait at least.
    pub retry_after: Option<Duration>,
}

/// An event for a handler.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// An object came into view.
    Added {
        /// The object.
        object: &'a Object,
        /// Part of the initial list.
        initial: bool,
    },
    /// An object changed.
    Updated {
        /// What the handler saw last, where it is known.
        old: Option<&'a Object>,
        /// What it is now.
        new: &'a Object,
    },
    /// An object is gone.
    Deleted {
        /// Its kind.
        kind: &'a Gvk,
        /// Its key.
        key: &'a ObjectKey,
        /// Its last known state.
        object: Option<&'a Object>,
        /// The deletion was found by a list.
        final_state_unknown: bool,
    },
}

/// One live guest.
pub struct Instance {
    store: Store<State>,
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
    /// Makes a live guest. Its start code runs under the same limits as a call.
    ///
    /// # Errors
    /// When the component cannot be mapped, there is no room for it, or its start code faults.
    pub async fn new(code: &Code, host: Arc<dyn GuestHost>, limits: Limits) -> Result<Self, Fault> {
        let linked = code.linked().map_err(|e| Fault::new(FaultKind::Instantiate, e.to_string()))?;
        let wasi = wasi::context(&host);
        let mut store = Store::new(&code.engine().0.wasmtime, State::new(host, limits.memory, wasi));
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(HOSTCALL_BYTES);
        let budget = Arc::clone(&store.data().budget);
        let metered = Arc::clone(&budget);
        store.epoch_deadline_callback(move |_| {
            if !budget.tick() {
                return Ok(UpdateDeadline::Interrupt);
            }
            let budget = Arc::clone(&budget);
            let others_run = async move {
                tokio::task::yield_now().await;
                budget.resume();
            };
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(others_run)))
        });
        store.data_mut().begin(CallContext::default(), &limits);
        store.set_epoch_deadline(1);
        let made = async {
            let instance = linked.pre.instantiate_async(&mut store).await?;
            let descriptor = linked.descriptor.load(&mut store, &instance)?;
            let reconcile = linked.reconcile.as_ref().map(|i| i.load(&mut store, &instance)).transpose()?;
            let many = linked.reconcile_many.as_ref().map(|i| i.load(&mut store, &instance)).transpose()?;
            let handler = linked.handler.as_ref().map(|i| i.load(&mut store, &instance)).transpose()?;
            Ok((descriptor, reconcile, many, handler))
        };
        match tokio::time::timeout(limits.call_timeout, metered.metered(made)).await {
            Err(_) => Err(Fault::deadline(limits.call_timeout)),
            Ok(Err(error)) => Err(fault(store.data(), &limits, FaultKind::Instantiate, &error)),
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

    /// Asks the guest what it is and needs; the inner error is the guest's own message.
    ///
    /// # Errors
    /// When the call faults.
    pub async fn describe(&mut self, config: &[u8]) -> Result<Result<Vec<u8>, String>, Fault> {
        let budget = self.begin(CallContext::default());
        let call = self.descriptor.call_describe(&mut self.store, config);
        let answer = tokio::time::timeout(self.limits.call_timeout, budget.metered(call)).await;
        self.end(answer)
    }

    /// Reconciles one key; the inner error is the guest's own failure.
    ///
    /// # Errors
    /// When the call faults.
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

    /// Reconciles many keys in one call: one answer for each, in their order; inner errors are the guest's own failures.
    ///
    /// # Errors
    /// When the call faults, or there are more or fewer answers than keys.
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

    /// Delivers one event.
    ///
    /// # Errors
    /// When the call faults.
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
        let push = |store: &mut Store<State>, object: &Object| -> wasmtime::Result<Resource<Object>> {
            let own = store.data_mut().handles.push(object.clone())?;
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

    /// A call begins; its future runs [metered](Budget::metered).
    #[must_use]
    fn begin(&mut self, context: CallContext) -> Arc<Budget> {
        // Dropping the call's future half-way must leave the instance unusable.
        self.usable = false;
        self.store.data_mut().begin(context, &self.limits);
        self.store.set_epoch_deadline(1);
        Arc::clone(&self.store.data().budget)
    }

    fn end<R>(
        &mut self,
        answer: Result<wasmtime::Result<R>, tokio::time::error::Elapsed>,
    ) -> Result<R, Fault> {
        match answer {
            Ok(Ok(answer)) => {
                self.usable = true;
                self.store.data_mut().end();
                Ok(answer)
            }
            Ok(Err(error)) => Err(fault(self.store.data(), &self.limits, FaultKind::Trap, &error)),
            Err(_) => Err(Fault::deadline(self.limits.call_timeout)),
        }
    }
}

/// Names the reason behind an error of wasmtime.
fn fault(state: &State, limits: &Limits, kind: FaultKind, error: &wasmtime::Error) -> Fault {
    if let Some(wanted) = state.limiter.refused {
        return Fault::memory(limits.memory, wanted);
    }
    if state.budget.exceeded() {
        return Fault::cpu(limits.cpu_per_call);
    }
    match error.downcast_ref::<Trap>() {
        Some(trap) => Fault::new(FaultKind::Trap, format!("the guest trapped: {trap}")),
        None => Fault::new(kind, format!("the guest faulted: {error:#}")),
    }
}

fn wit_request(request: &Request<'_>) -> wit::Request {
    wit::Request {
        key: wit_key(request.key),
        attempt: request.attempt,
        reasons: request.reasons.iter().map(|reason| (*reason).to_owned()).collect(),
    }
}

/// A guest's answer for one key.
fn outcome(answer: Result<wit::Outcome, wit::Failure>) -> Result<Outcome, Failure> {
    match answer {
        Ok(wit::Outcome::Done) => Ok(Outcome::Done),
        Ok(wit::Outcome::Requeue) => Ok(Outcome::Requeue),
        Ok(wit::Outcome::RequeueAfter(delay)) => Ok(Outcome::RequeueAfter(Duration::from_millis(delay))),
        Err(failure) => Err(Failure {
            message: failure.message,
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
