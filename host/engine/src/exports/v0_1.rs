//! The exports of contract 0.1.

use std::time::Duration;

use pilothouse_object::Object;
use pilothouse_plugin::printable;
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre, Resource};

use super::{EventAnswer, KeyAnswer, exported};
use crate::bindings::v0_1::exports::pilothouse::controller as exports;
use crate::bindings::v0_1::pilothouse::controller::types as wit;
use crate::contract::Exported;
use crate::imports::v0_1::{wit_key, wit_kind};
use crate::instance::{Event, Failure, Outcome, Request};
use crate::state::StoreState;

pub(crate) struct Indices {
    descriptor: exports::descriptor::GuestIndices,
    reconcile: Option<exports::reconcile::GuestIndices>,
    reconcile_many: Option<exports::reconcile_many::GuestIndices>,
    handler: Option<exports::handler::GuestIndices>,
}

pub(crate) struct Exports {
    descriptor: exports::descriptor::Guest,
    reconcile: Option<exports::reconcile::Guest>,
    reconcile_many: Option<exports::reconcile_many::Guest>,
    handler: Option<exports::handler::Guest>,
}

impl Indices {
    pub(super) fn new(exported: Exported, pre: &InstancePre<StoreState>) -> wasmtime::Result<Self> {
        let world = exported.world;
        let one = world.reconciles() && !world.batches();
        Ok(Self {
            descriptor: exports::descriptor::GuestIndices::new(pre)?,
            reconcile: one.then(|| exports::reconcile::GuestIndices::new(pre)).transpose()?,
            reconcile_many: world
                .batches()
                .then(|| exports::reconcile_many::GuestIndices::new(pre))
                .transpose()?,
            handler: world.handles().then(|| exports::handler::GuestIndices::new(pre)).transpose()?,
        })
    }

    pub(super) fn load(&self, store: &mut Store<StoreState>, of: &Instance) -> wasmtime::Result<Exports> {
        Ok(Exports {
            descriptor: self.descriptor.load(&mut *store, of)?,
            reconcile: self.reconcile.as_ref().map(|i| i.load(&mut *store, of)).transpose()?,
            reconcile_many: self.reconcile_many.as_ref().map(|i| i.load(&mut *store, of)).transpose()?,
            handler: self.handler.as_ref().map(|i| i.load(&mut *store, of)).transpose()?,
        })
    }
}

impl Exports {
    pub(super) async fn describe(
        &self,
        store: &mut Store<StoreState>,
        config: &[u8],
    ) -> wasmtime::Result<Result<Vec<u8>, String>> {
        self.descriptor.call_describe(store, config).await
    }

    pub(super) async fn reconcile(
        &self,
        store: &mut Store<StoreState>,
        request: &Request<'_>,
    ) -> wasmtime::Result<KeyAnswer> {
        let guest = exported(&self.reconcile, "reconcile")?;
        Ok(outcome(guest.call_reconcile(store, &wit_request(request)).await?))
    }

    pub(super) async fn reconcile_many(
        &self,
        store: &mut Store<StoreState>,
        requests: &[Request<'_>],
    ) -> wasmtime::Result<Vec<KeyAnswer>> {
        let guest = exported(&self.reconcile_many, "reconcile-many")?;
        let requests: Vec<_> = requests.iter().map(wit_request).collect();
        let answers = guest.call_reconcile_many(store, &requests).await?;
        Ok(answers.into_iter().map(outcome).collect())
    }

    /// One call for each event: 0.1 has no batches, and no failures.
    pub(super) async fn handle(
        &self,
        store: &mut Store<StoreState>,
        events: &[Event<'_>],
    ) -> wasmtime::Result<Vec<EventAnswer>> {
        let guest = exported(&self.handler, "handler")?;
        for event in events {
            match event {
                Event::Added { object, initial } => {
                    let object = push(store, object)?;
                    guest.call_on_add(&mut *store, object, *initial).await?;
                }
                Event::Updated { old, new } => {
                    let old = old.map(|old| push(store, old)).transpose()?;
                    let new = push(store, new)?;
                    guest.call_on_update(&mut *store, old, new).await?;
                }
                Event::Deleted { kind, key, object, final_state_unknown } => {
                    let object = object.map(|object| push(store, object)).transpose()?;
                    let (kind, key) = (wit_kind(kind), wit_key(key));
                    guest.call_on_delete(&mut *store, &kind, &key, object, *final_state_unknown).await?;
                }
            }
        }
        Ok(vec![Ok(()); events.len()])
    }
}

fn push(store: &mut Store<StoreState>, object: &Object) -> wasmtime::Result<Resource<Object>> {
    Ok(store.data_mut().handles.lend_cached(object.clone())?)
}

fn wit_request(request: &Request<'_>) -> wit::Request {
    // Who asked for a key has no name of its own in 0.1.
    let mut reasons: Vec<String> = Vec::new();
    for name in request.reasons.names() {
        let known = if name == "manual" { "requeued" } else { name };
        if !reasons.iter().any(|reason| reason == known) {
            reasons.push(known.to_owned());
        }
    }
    wit::Request { key: wit_key(request.key), attempt: request.attempt, reasons }
}

/// Converts the guest's result for one key.
fn outcome(answer: Result<wit::Outcome, wit::Failure>) -> KeyAnswer {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reasons::ReasonSet;

    #[test]
    fn an_operators_request_is_another_try_and_no_reason_is_there_twice() {
        let key = "a/b".parse().unwrap();
        let reasons = |bits| {
            let request = Request { key: &key, attempt: 0, reasons: ReasonSet::of_bits(bits), priority: 0 };
            wit_request(&request).reasons
        };
        assert_eq!(reasons(1 << 8), ["requeued"]);
        assert_eq!(reasons(1 << 8 | 1 << 7 | 1 << 5 | 1), ["added", "requeued", "scheduled"]);
    }
}
